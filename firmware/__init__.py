"""Code that runs first on a hart, and the builder of machine code: boot, runtime, drivers."""
