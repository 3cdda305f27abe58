"""Softmax in float64, and how far float32 may be from it."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, bounded, may_overflow, wide

EXP = 3  # u of approximations.exp and of the difference before it, which is below 88


def forward(x: Array, axis: int) -> Expected:
    """Along an axis; the sum's error grows with its terms, the exponent's with its size."""
    (x,) = wide(x)
    with np.errstate(invalid="ignore"):
        away = x - x.max(axis, keepdims=True)
        power = np.exp(away)
        y = power / power.sum(axis, keepdims=True)
        return bounded(y, (EXP + 3 + x.shape[axis] + 2 * np.minimum(np.abs(away), 90)) * y)


def backward(y: Array, dy: Array, axis: int) -> Expected:
    y, dy = wide(y, dy)
    with np.errstate(invalid="ignore"):
        total = (y * dy).sum(axis, keepdims=True)
        size = np.abs(y * dy).sum(axis, keepdims=True)
        dx = y * (dy - total)
        found = bounded(dx, 2 * np.abs(dx), (y.shape[axis] + 1) * np.abs(y) * size)
        return may_overflow(found, np.abs(dy) + size)
