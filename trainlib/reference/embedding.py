"""The gradient of an embedding in float64, and how far float32 may be from it."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, bounded, wide


def backward(index: Array, dy: Array, entries: int) -> Expected:
    (dy,) = wide(dy)
    total, size = np.zeros((2, entries, dy.shape[1]))
    np.add.at(total, index, dy)
    np.add.at(size, index, np.abs(dy))
    return bounded(total, len(index) * size)
