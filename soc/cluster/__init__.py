"""What joins harts, L1, DMA, event unit."""
