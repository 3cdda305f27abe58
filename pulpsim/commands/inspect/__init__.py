"""pulpsim chips, kernels, networks, footprint, build, asm, isa."""
