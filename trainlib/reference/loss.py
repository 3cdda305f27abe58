"""Losses and their gradients in float64, and how far float32 may be from them."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import SIGMOID, Array, bounded, may_overflow, sigmoid, wide

Pair = tuple[Expected, Expected]


def _total(terms: Array, scale: float, each: float = 0.0) -> Expected:
    """The scaled sum as an array of one, when each term errs by `each` u of itself."""
    size = np.abs(terms).sum()
    total = np.array([terms.sum() * scale])
    return may_overflow(bounded(total, (terms.size + 2 + each) * size * scale), size)


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


def huber(x: Array, t: Array, scale: float, factor: float, delta: float) -> Pair:
    """A difference errs by u of itself, and so does its slope where it is within the limits."""
    x, t = wide(x, t)
    limit = float(np.float32(delta))
    with np.errstate(invalid="ignore"):
        d = x - t
        c = np.clip(d, -limit, limit)
        dx = scale * factor * c
        terms = factor * c * (d - c / 2)
        size = factor * np.abs(c) * np.abs(d)
        loss, bound = _total(terms, scale, 3)
        return (loss, bound + 2.0**-24 * 3 * scale * np.nansum(size)), bounded(dx, 5 * dx)


def binary_logits(x: Array, t: Array, scale: float) -> Pair:
    """Of (1 - t) x + max(-x, 0) + log(1 + e^-|x|)."""
    x, t = wide(x, t)
    with np.errstate(invalid="ignore", over="ignore"):
        rest = np.logaddexp(0, -np.abs(x))
        linear = (1 - t) * x + np.maximum(-x, 0)
        s = sigmoid(x)
        dx = scale * (s - t)
        loss, bound = _total(linear + rest, scale, 2)
        most = np.nan_to_num(np.abs((1 - t) * x) + np.abs(x), posinf=0.0)
        bound = bound + 2.0**-24 * scale * (2 * most + 6 * np.nan_to_num(rest)).sum()
        return (loss, bound), bounded(dx, dx, scale * (SIGMOID + 1) * s, scale * t)


LEAST_LOG, LEAST_SPREAD = -100.0, float(np.float32(1e-12))  # torch's


def binary(x: Array, t: Array, scale: float) -> Pair:
    """Of -t log x - (1 - t) log(1 - x), logarithms of at least -100."""
    x, t = wide(x, t)
    with np.errstate(invalid="ignore", divide="ignore"):
        own, other = (np.maximum(np.log(n), LEAST_LOG) for n in (x, 1 - x))
        terms = -(t * own + (1 - t) * other)
        sizes = np.abs(t * own) + np.abs((1 - t) * other)
        moved = np.abs(1 - t) / np.maximum(1 - x, 2.0**-24)  # of 1 - x, which is rounded
        spread = np.maximum(x * (1 - x), LEAST_SPREAD)
        dx = scale * (x - t) / spread
        loss, bound = _total(terms, scale, 1)
        bound = bound + 2.0**-24 * scale * (6 * sizes + np.where(x < 1, moved, 0)).sum()
        return (loss, bound), bounded(dx, 6 * dx)


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
        of_dx = bounded(dx, scale * (of_y + 4 * np.abs(weights)), dx)
        all_weights = np.abs(weights).sum(1, keepdims=True)
        return may_overflow(bounded(loss, error), size.sum()), may_overflow(of_dx, all_weights)
