"""Bit sets of harts and initiators. Their compiled forms: soc.aot.numba_steps."""

from collections.abc import Iterable

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


def set_of(indices: Iterable[int]) -> np.uint64:
    """Return the set of these members, for callers in Python."""
    return np.uint64(sum(1 << index for index in indices))
