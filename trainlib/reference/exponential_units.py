"""Softplus and ELU in float64, and how far float32 may be from them."""

import numpy as np

from trainlib.reference.activations import SIGMOID, SMALLEST, Array, Outputs, bounded, sigmoid, wide
from trainlib.reference.tolerances import ROUNDING

SOFTPLUS, EXPM1 = 5, 3  # u of trainlib.elementwise's functions
LEAST = SMALLEST / ROUNDING


def softplus_fw(x: Array, beta: float) -> Outputs:
    """A power's error grows with what it is of, by the rounding of beta x."""
    (x,) = wide(x)
    away = -np.abs(beta * x)
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.log1p(np.exp(away)) / beta
        y = np.maximum(x, 0) + power
        moved = 0.0 if beta == 1 else np.nan_to_num(away * power)
    return (bounded(y, (SOFTPLUS + 1) * y, 2 * moved, LEAST / beta),)


def softplus_bw(x: Array, dy: Array, beta: float) -> Outputs:
    x, dy = wide(x, dy)
    away = beta * x
    with np.errstate(over="ignore", invalid="ignore"):
        s = sigmoid(away)
        moved = 0.0 if beta == 1 else np.abs(away) * s * sigmoid(-away)
        return (bounded(dy * s, (SIGMOID + 1) * dy * s, 2 * dy * moved, dy * LEAST),)


def elu_fw(x: Array, alpha: float, scale: float, slope: float) -> Outputs:
    (x,) = wide(x)
    with np.errstate(over="ignore", invalid="ignore"):
        below = scale * alpha * np.expm1(slope * np.minimum(x, 0))
        y = np.where(x > 0, scale * x, below)
    return (bounded(y, (EXPM1 + 3) * y, LEAST * scale * alpha),)


def elu_bw(x: Array, dy: Array, alpha: float, scale: float, slope: float) -> Outputs:
    x, dy = wide(x, dy)
    with np.errstate(over="ignore", invalid="ignore"):
        below = scale * alpha * slope * np.exp(slope * np.minimum(x, 0))
        factor = np.where(x > 0, scale, below)
        return (bounded(dy * factor, 6 * dy * factor, dy * LEAST * scale * alpha * slope),)
