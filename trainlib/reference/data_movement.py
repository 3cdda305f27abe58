"""What moves data, in float64, and how far float32 may be from it."""

from typing import Any

import numpy as np

from trainlib.primitive.family import Expected
from trainlib.reference.act import Array, bounded, wide


def add(a: Array, b: Array) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        return bounded(a + b, a + b)


def multiply(a: Array, b: Array) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        return bounded(a * b, a * b)


def pad(x: Array, options: Any) -> Expected:
    sides = list(zip(options.before, options.after, strict=True))
    return np.pad(x, sides, constant_values=np.float32(options.value)), 0.0
