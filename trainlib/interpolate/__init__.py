"""Interpolation of images to another size, forward and backward."""
