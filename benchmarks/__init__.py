"""How fast the simulator and its kernels are: one figure per target, measured by `python -m benchmarks`."""
