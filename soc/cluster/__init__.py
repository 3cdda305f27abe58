"""The connections of harts, L1, DMA and event unit."""
