"""How fast the simulator and its kernels are, measured by `python -m benchmarks`."""
