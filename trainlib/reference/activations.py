"""Activations in float64, and how far float32 may be from them. Arrays in, a tuple of outputs out.

Bounds are counts of u = 2^-24: those of trainlib.elementwise.approximations's functions, and one
for each operation that follows, of the values that it adds.
"""

from math import erfc, pi, sqrt

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.tolerances import ROUNDING, on_the_way, overflowing

SMALLEST = 2.0**-126  # normal float32: what is below may be 0
SIGMOID, TANH = 4, 4  # u of trainlib.elementwise.approximations

Outputs = tuple[Expected, ...]
Array = np.ndarray


def bounded(exact: Array, *terms: Array | float) -> Expected:
    """Values as float32 has them, and the sum of terms (counted in u) as their largest errors."""
    with np.errstate(invalid="ignore"):
        sizes = (np.nan_to_num(np.abs(term), nan=0.0, posinf=0.0) for term in terms)
        return overflowing(exact), sum(sizes) * ROUNDING + SMALLEST


def may_overflow(expected: Expected, *magnitudes: Array) -> Expected:
    """The same without a bound where one of these goes beyond float32: see on_the_way."""
    exact, bound = expected
    return exact, on_the_way(bound, *magnitudes)


def at_least_zero(expected: Expected) -> Expected:
    """The larger of results and 0: what is below 0 by more than its error is 0 for certain."""
    exact, bound = expected
    with np.errstate(invalid="ignore"):
        highest = np.where(np.isinf(bound), np.inf, np.maximum(exact + bound, 0))
    return np.maximum(exact, 0), np.where(exact < 0, np.minimum(highest, bound), bound)


def wide(*arrays: Array) -> list[Array]:
    """As float64."""
    return [array.astype(np.float64) for array in arrays]


def sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def _phi(x: Array) -> Array:
    """The normal distribution."""
    return np.vectorize(lambda a: erfc(-a / sqrt(2)) / 2, otypes=[np.float64])(x)


def relu_fw(x: Array) -> Outputs:
    (x,) = wide(x)
    return ((np.where(x <= 0, 0.0, x), 0.0),)


def relu_bw(x: Array, dy: Array) -> Outputs:
    x, dy = wide(x, dy)
    return ((np.where(x <= 0, 0.0, dy), 0.0),)


def leaky_relu_fw(x: Array, slope: float) -> Outputs:
    (x,) = wide(x)
    with np.errstate(invalid="ignore"):
        y = np.where(x > 0, x, slope * x)
    return (bounded(y, 2 * y),)


def leaky_relu_bw(x: Array, dy: Array, slope: float) -> Outputs:
    x, dy = wide(x, dy)
    with np.errstate(invalid="ignore"):
        dx = np.where(x > 0, dy, slope * dy)
    return (bounded(dx, 2 * dx),)


def sigmoid_fw(x: Array) -> Outputs:
    y = sigmoid(*wide(x))
    return (bounded(y, SIGMOID * y),)


def sigmoid_bw(y: Array, dy: Array) -> Outputs:
    y, dy = wide(y, dy)
    with np.errstate(invalid="ignore"):
        dx = dy * y * (1 - y)
    return (bounded(dx, 3 * dx),)


def tanh_fw(x: Array) -> Outputs:
    y = np.tanh(*wide(x))
    return (bounded(y, TANH * y),)


def tanh_bw(y: Array, dy: Array) -> Outputs:
    y, dy = wide(y, dy)
    with np.errstate(invalid="ignore"):
        dx = dy * (1 - y * y)
    return (bounded(dx, 2 * dx),)


def silu_fw(x: Array) -> Outputs:
    (x,) = wide(x)
    with np.errstate(invalid="ignore"):
        y = x * sigmoid(x)
    return (bounded(y, (SIGMOID + 1) * y, x * SMALLEST / ROUNDING),)


def _silu_slope(x: Array) -> tuple[Array, Array]:
    """The slope, and its error in u."""
    s = sigmoid(x)
    with np.errstate(invalid="ignore"):
        second = x * s * sigmoid(-x)
    return s + second, (SIGMOID + 1) * s + 12 * np.abs(second) + np.abs(x) * SMALLEST / ROUNDING


def silu_bw(x: Array, dy: Array) -> Outputs:
    x, dy = wide(x, dy)
    slope, error = _silu_slope(x)
    with np.errstate(invalid="ignore"):
        return (bounded(dy * slope, (error + slope) * dy),)


def swiglu_fw(a: Array, b: Array) -> Outputs:
    a, b = wide(a, b)
    with np.errstate(invalid="ignore"):
        y = a * sigmoid(a) * b
        return (bounded(y, (SIGMOID + 2) * y, a * b * SMALLEST / ROUNDING),)


def swiglu_bw(a: Array, b: Array, dy: Array) -> Outputs:
    a, b, dy = wide(a, b, dy)
    slope, error = _silu_slope(a)
    with np.errstate(invalid="ignore"):
        da, db = dy * b * slope, dy * a * sigmoid(a)
        of_db = bounded(db, (SIGMOID + 2) * db, dy * a * SMALLEST / ROUNDING)
        return (
            may_overflow(bounded(da, 2 * da, error * dy * b), np.abs(dy * b)),
            may_overflow(of_db, np.abs(dy * a)),
        )


def _gelu_parts(x: Array, approximate: str) -> tuple[Array, Array]:
    """What x is multiplied by, and its slope; the tanh form is a sigmoid of u."""
    if approximate == "none":
        return _phi(x), np.exp(-x * x / 2) / sqrt(2 * pi)
    u = 2 * sqrt(2 / pi) * (x + 0.044715 * x**3)
    slope = 2 * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)
    s = sigmoid(u)
    return s, s * sigmoid(-u) * np.where(np.isinf(x), 1, slope)


def gelu_fw(x: Array, approximate: str) -> Outputs:
    """Errors are relative to x: where Phi is small, its own are not."""
    (x,) = wide(x)
    with np.errstate(invalid="ignore"):
        factor, _ = _gelu_parts(x, approximate)
        return (bounded(x * factor, 6 * x * factor, 4 * np.minimum(np.abs(x), 8)),)


def gelu_bw(x: Array, dy: Array, approximate: str) -> Outputs:
    x, dy = wide(x, dy)
    with np.errstate(invalid="ignore"):
        factor, slope = _gelu_parts(x, approximate)
        return (bounded(dy * (factor + x * slope), 12 * dy),)
