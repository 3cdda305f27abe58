"""Multi-head self-attention, forward and backward."""
