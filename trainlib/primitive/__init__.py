"""Primitives: their arguments and tensors, and how they are cut into tiles and phases."""
