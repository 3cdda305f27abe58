"""How fast the simulator is: one figure per target, measured by `python -m benchmarks`."""
