"""The cluster DMA, MCHAN."""
