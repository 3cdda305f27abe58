"""The ways to L1 and L2, and their arbiters."""
