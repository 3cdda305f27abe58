"""References of data movement in float64, and how far float32 may be off."""

from typing import Any

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, at_least_zero, bounded, wide


def add(a: Array, b: Array, relu: bool = False) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        total = bounded(a + b, a + b)
    return at_least_zero(total) if relu else total


def subtract(a: Array, b: Array) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        return bounded(a - b, a - b)


def multiply(a: Array, b: Array) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        return bounded(a * b, a * b)


def divide(a: Array, b: Array) -> Expected:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore", divide="ignore"):
        return bounded(a / b, a / b)


def pad(x: Array, options: Any) -> Expected:
    sides = list(zip(options.before, options.after, strict=True))
    return np.pad(x, sides, constant_values=np.float32(options.value)), 0.0
