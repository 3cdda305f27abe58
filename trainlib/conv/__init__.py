"""Convolutions and their gradients: by correlation of images, or by products with columns."""
