"""Sums, means and maxima in float64, and how far float32 may be from them."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, bounded, may_overflow, wide


def reduce(x: Array, axes: tuple[int, ...], what: str) -> Expected:
    """Over axes; all of them leave one element."""
    (x,) = wide(x)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    if what == "max":
        return np.atleast_1d(x.max(axes)), 0.0
    share = 1 / count if what == "mean" else 1.0
    with np.errstate(invalid="ignore"):
        total, size = np.atleast_1d(x.sum(axes) * share), np.atleast_1d(np.abs(x).sum(axes) * share)
        return may_overflow(bounded(total, (count + 2) * size), size / share)
