"""Losses and their gradients in float64, and how far float32 may be from them."""

import numpy as np

from trainlib.primitive.family import Expected
from trainlib.reference.act import Array, bounded, wide

Pair = tuple[Expected, Expected]


def _total(terms: Array, scale: float, each: float = 0.0) -> Expected:
    """The scaled sum as an array of one, when each term errs by `each` u of itself."""
    size = np.abs(terms).sum() * scale
    return bounded(np.array([terms.sum() * scale]), (terms.size + 2 + each) * size)


def mse(x: Array, t: Array, scale: float, factor: float) -> Pair:
    x, t = wide(x, t)
    with np.errstate(invalid="ignore"):
        d = x - t
        slope = 2 * scale * factor
        return _total(d * d, scale, 3), bounded(slope * d, 3 * slope * d)


def _sign(d: Array) -> Array:
    """0 for NaN too, as torch's."""
    return (d > 0) * 1.0 - (d < 0)


def l1(x: Array, t: Array, scale: float) -> Pair:
    x, t = wide(x, t)
    with np.errstate(invalid="ignore"):
        d = x - t
        dx = scale * _sign(d)
        return _total(np.abs(d), scale, 2), bounded(dx, dx)


def berhu(x: Array, t: Array, scale: float, alpha: float) -> Pair:
    """The rest |d| - c errs by u of |d| and 2 u of c."""
    x, t = wide(x, t)
    with np.errstate(invalid="ignore", divide="ignore"):
        d = x - t
        size = np.abs(d)
        c = alpha * np.fmax.reduce(size, axis=None)
        rest = np.where(size > c, size - c, 0.0)
        change = np.nan_to_num((2 * size + 3 * c) / c)
        terms = size + np.where(rest > 0, rest * rest / (2 * c), 0)
        slope = _sign(d) * (1 + np.where(rest > 0, rest / c, 0))
        loss, bound = _total(terms, scale, 6)
        bound = bound + 2.0**-24 * scale * np.nansum(np.where(rest > 0, rest * change, 0))
        dx = scale * slope
        return (loss, bound), bounded(dx, 6 * dx, scale * np.where(size >= c * 0.99, change, 0))


def cross_entropy(x: Array, t: Array, scale: float, is_soft: bool) -> Pair:
    (x,) = wide(x)
    classes = x.shape[1]
    weights = t.astype(np.float64) if is_soft else np.zeros(x.shape)
    if not is_soft:
        weights[np.arange(len(t)), t] = 1
    with np.errstate(invalid="ignore", divide="ignore"):
        away = x - x.max(1, keepdims=True)
        power = np.exp(away)
        total = power.sum(1, keepdims=True)
        weight = weights.sum(1, keepdims=True)
        below = weights * -away if is_soft else np.where(weights > 0, -away, 0)
        rows = weight[:, 0] * np.log(total[:, 0]) + below.sum(1)
        y = power / total
        finite = np.minimum(np.abs(away), 90)
        of_log = (y * (classes + 6 + 2 * finite)).sum(1) + 4 * np.abs(np.log(total[:, 0]))
        of_row = np.abs(weight[:, 0]) * of_log + (classes + 4) * np.abs(below).sum(1)
        size = np.abs(weight[:, 0] * np.log(total[:, 0])) + np.abs(below).sum(1)
        loss = np.array([rows.sum() * scale])
        error = scale * (of_row + (x.shape[0] + 4) * size).sum()
        of_y = (
            (classes + 8 + 2 * np.minimum(np.abs(away), 90)) * y * np.abs(weights).sum(1)[:, None]
        )
        dx = scale * (weight * y - weights)
        return bounded(loss, error), bounded(dx, scale * (of_y + 4 * np.abs(weights)), dx)
