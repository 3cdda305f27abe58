"""What runs first on a hart: the builder of machine code, boot, runtime and drivers."""
