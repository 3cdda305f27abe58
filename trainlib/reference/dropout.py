"""Dropout in float64, with the numbers that it is drawn by."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, bounded, wide

SPREAD, FIRST, SECOND = 0x9E3779B9, 0x7FEB352D, 0x846CA68B


def threshold(p: float) -> int:
    """The least number for which an element is kept; all are below 2^32."""
    return min(round(p * 2**32), 2**32 - 1)


def numbers(count: int, seed: int) -> Array:
    """What is drawn for each element: uint32."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint32) + np.uint32(seed * SPREAD % 2**32)
        x = (x ^ x >> np.uint32(16)) * np.uint32(FIRST)
        x = (x ^ x >> np.uint32(15)) * np.uint32(SECOND)
        return x ^ x >> np.uint32(16)


def forward(x: Array, seed: int, p: float) -> Expected:
    (wide_x,) = wide(x)
    kept = (numbers(x.size, seed) >= threshold(p)).reshape(x.shape)
    scale = 1 / (1 - p) if p < 1 else 0.0
    with np.errstate(invalid="ignore"):
        y = wide_x * (kept * scale)
        return bounded(y, 2 * y)
