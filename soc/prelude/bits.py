"""Bit sets of harts and initiators. Their compiled forms: soc.step_types."""

import numpy as np

ONE = np.uint64(1)


def lowest_index(mask):
    """Return the index of the lowest set bit of a uint64; it has one."""
    mask = int(mask)
    return (mask & -mask).bit_length() - 1


def members(mask):
    """Return how many bits of a uint64 are set."""
    return int(mask).bit_count()


def bit(index):
    """Return the set of one member."""
    return np.uint64(1) << np.uint64(index)
