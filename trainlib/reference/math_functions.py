"""Elementary functions in float64, and how far float32 may be from them."""

import math
from collections.abc import Callable

import numpy as np

from trainlib.reference.activations import Array, Outputs, bounded, wide
from trainlib.reference.tolerances import ROUNDING

EXP, LOG, ERF = 2, 2, 8  # u of trainlib.elementwise.approximations's functions
EXP_VANISHES = 2.0**-125
LOG1P, EXPM1, ATAN = 4, 3, 3
WAVE = 3  # u of trainlib.elementwise.trigonometric's functions
TURNS_MOST = 2.0**17  # the largest angle


def exp(x: Array) -> Outputs:
    with np.errstate(over="ignore"):
        y = np.exp(*wide(x))
    return (bounded(y, EXP * y, EXP_VANISHES / ROUNDING),)


def log(x: Array) -> Outputs:
    with np.errstate(invalid="ignore", divide="ignore"):
        y = np.log(*wide(x))
    return (bounded(y, LOG * y),)


def log1p(x: Array) -> Outputs:
    with np.errstate(invalid="ignore", divide="ignore"):
        y = np.log1p(*wide(x))
    return (bounded(y, LOG1P * y),)


def expm1(x: Array) -> Outputs:
    with np.errstate(over="ignore"):
        y = np.expm1(*wide(x))
    return (bounded(y, EXPM1 * y),)


def atan(x: Array) -> Outputs:
    y = np.arctan(*wide(x))
    return (bounded(y, ATAN * y),)


def nearest(x: Array) -> Outputs:
    return ((np.round(*wide(x)), 0.0),)


def below(x: Array) -> Outputs:
    return ((np.floor(*wide(x)), 0.0),)


def erf(x: Array) -> Outputs:
    y = np.vectorize(math.erf, otypes=[np.float64])(*wide(x))
    return (bounded(y, ERF * y),)


def sqrt(x: Array) -> Outputs:
    with np.errstate(invalid="ignore"):
        y = np.sqrt(*wide(x))
    return (bounded(y, y),)


def rsqrt(x: Array) -> Outputs:
    with np.errstate(invalid="ignore", divide="ignore"):
        y = 1 / np.sqrt(*wide(x))
    return (bounded(y, 3 * y),)


def reciprocal(x: Array) -> Outputs:
    with np.errstate(divide="ignore"):
        y = 1 / wide(x)[0]
    return (bounded(y, y),)


def neg(x: Array) -> Outputs:
    return ((-wide(x)[0], 0.0),)


def sin(x: Array) -> Outputs:
    return _wave(np.sin, x)


def cos(x: Array) -> Outputs:
    return _wave(np.cos, x)


def _wave(function: Callable[[Array], Array], x: Array) -> Outputs:
    """NaN of angles beyond the largest."""
    (x,) = wide(x)
    y = function(np.where(np.abs(x) <= TURNS_MOST, x, np.nan))
    return (bounded(y, WAVE * y),)
