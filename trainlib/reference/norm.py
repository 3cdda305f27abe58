"""Normalisations in float64, and how far float32 may be from them.

Arrays have the same number of dimensions; axes are those that a mean goes over, means keep them.
"""

import ml_dtypes
import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, Outputs, bounded, may_overflow, wide
from trainlib.reference.halves import add, multiply, multiply_add, rounded, rounded_once
from trainlib.reference.tolerances import ROUNDING

Axes = tuple[int, ...]


def _count(x: Array, axes: Axes) -> int:
    return int(np.prod([x.shape[axis] for axis in axes]))


def _apply(
    x: Array, gamma: Array, beta: Array, mean: Array, rstd: Array, errors: tuple[Array, Array]
) -> Expected:
    """y; errors are those of the mean, and of rstd relative to it, in u."""
    of_mean, of_rstd = errors
    h = (x - mean) * rstd
    error = np.abs(gamma) * (np.abs(h) * (of_rstd + 4) + rstd * of_mean)
    ways = np.abs(x) + np.abs(mean), np.abs(h), np.abs(x * rstd), np.abs(gamma * rstd)
    return may_overflow(bounded(h * gamma + beta, error, 2 * np.abs(beta)), *ways)


def forward(
    x: Array,
    gamma: Array,
    beta: Array,
    axes: Axes,
    eps: float,
    is_centred: bool,
    *,
    is_shifted: bool = False,
) -> tuple[Expected, Expected, Expected, Expected]:
    """y, mean, rstd, and the variance.

    is_shifted    may means be of distances from the first element, in one pass?
    """
    x, gamma, beta = wide(x, gamma, beta)
    n = _count(x, axes)
    with np.errstate(invalid="ignore", over="ignore"):
        centred = x if is_centred else np.zeros_like(x)
        mean = centred.mean(axes, keepdims=True)
        d = x - mean
        variance = (d * d).mean(axes, keepdims=True)
        # What the first mean leaves, and the error of the sum that corrects it.
        left = (n + 2) * ROUNDING * np.abs(centred).mean(axes, keepdims=True)
        of_mean = 2 * np.abs(mean) + (n + 4) * (np.abs(d).mean(axes, keepdims=True) + left)
        of_mean *= is_centred
        shifted = ((of_mean * ROUNDING) ** 2 / ROUNDING + (n + 8) * left**2) / (variance + eps)
        of_rstd, spread = n + 8 + shifted * is_centred, variance
        if is_shifted:
            first = x
            for axis in axes:
                first = np.take(first, [0], axis)
            far = np.abs(x - first).mean(axes, keepdims=True)
            of_mean = np.maximum(of_mean, 2 * np.abs(mean) + (n + 4) * far)
            spread = variance + (mean - first) ** 2
            of_rstd += (n + 8) * 2 * (mean - first) ** 2 / (variance + eps)
        rstd = 1 / np.sqrt(variance + eps)
        y = _apply(x, gamma, beta, mean, rstd, (of_mean, of_rstd))
        of_variance = 2 * of_rstd * (variance + eps)
        sums = n * np.abs(centred).mean(axes, keepdims=True), 2 * n * spread
        return (
            may_overflow(y, *sums),
            may_overflow(bounded(mean, of_mean), *sums),
            may_overflow(bounded(rstd, of_rstd * rstd), *sums),
            may_overflow(bounded(variance, of_variance), *sums),
        )


def run_on(old: Array, new: Expected, momentum: float, factor: float) -> Expected:
    """(1 - momentum) old + momentum factor new."""
    exact, bound = new
    (old,) = wide(old)
    result = (1 - momentum) * old + momentum * factor * exact
    with np.errstate(invalid="ignore"):
        value, error = bounded(result, 3 * old, 4 * exact * factor, bound * factor / ROUNDING)
        return value, np.where(np.isinf(bound), np.inf, error)


def frozen_forward(
    x: Array, gamma: Array, beta: Array, mean: Array, variance: Array, eps: float
) -> Expected:
    x, gamma, beta, mean, variance = wide(x, gamma, beta, mean, variance)
    with np.errstate(invalid="ignore"):
        rstd = 1 / np.sqrt(variance + eps)
        return _apply(x, gamma, beta, mean, rstd, (0 * mean, 4 + 0 * mean))


def applied(x: Array, gamma: Array, beta: Array, mean: Array, rstd: Array) -> Expected:
    """y, given the means."""
    x, gamma, beta, mean, rstd = wide(x, gamma, beta, mean, rstd)
    with np.errstate(invalid="ignore"):
        return _apply(x, gamma, beta, mean, rstd, (0 * mean, 0 * rstd))


def backward(
    x: Array,
    dy: Array,
    gamma: Array,
    mean: Array,
    rstd: Array,
    axes: Axes,
    gamma_axes: Axes,
    is_frozen: bool = False,
) -> Outputs:
    """dx, dgamma, dbeta, given the means; RMS norm's mean is 0 and takes no part."""
    x, dy, gamma, mean, rstd = wide(x, dy, gamma, mean, rstd)
    n, others = _count(x, axes), tuple(a for a in range(x.ndim) if a not in gamma_axes)
    terms = _count(x, others)

    def means(a: Array) -> Array:
        return a.mean(axes, keepdims=True)

    def totals(a: Array) -> Expected:
        size = np.abs(a).sum(others, keepdims=True)
        return may_overflow(bounded(a.sum(others, keepdims=True), (terms + 6) * size), size)

    with np.errstate(invalid="ignore"):
        h, g = (x - mean) * rstd, dy * gamma
        most = np.maximum(np.abs(x - mean), np.abs(h)).max(others, keepdims=True)
        products = most * np.abs(dy).max(others, keepdims=True)
        dgamma, dbeta = may_overflow(totals(dy * h), most, products), totals(dy)
        if is_frozen:
            dx = bounded(g * rstd, 8 * g * rstd)
            return may_overflow(dx, np.abs(g), np.abs(rstd * gamma)), dgamma, dbeta
        slope = rstd * (g - means(g) - h * means(g * h))
        size = np.abs(g), means(np.abs(g)), np.abs(h) * means(np.abs(g * h))
        error = 6 * size[0] + (n + 8) * (size[1] + size[2])
        exact, bound = bounded(slope, rstd * error)
        bound = np.where(np.isinf(gamma), np.inf, bound)  # infinities, or NaN: by the order
        sums = (n * means(np.abs(a)) for a in (dy, dy * h, g, g * h))
        parts = np.abs(x - mean), np.abs(h), size[0] + size[1] + size[2], np.abs(gamma * rstd)
        ways = *sums, *parts, rstd * (size[0] + size[1] + size[2])
        return may_overflow((exact, bound), *ways), dgamma, dbeta


def applied_in_pairs(
    y: Expected,
    x: Array,
    gamma: Array,
    beta: Array,
    mean: Array,
    rstd: Array,
    *,
    dtype: np.dtype,
    count: int | None,
) -> Expected:
    """y of halves as kernels compute it: the mean, gamma rstd and beta are rounded, then each
    result. The bound is for means and roots of other last digits, which may round otherwise.

    count    elements that a mean is of; None: the mean is of others
    """
    x, gamma, beta, mean, rstd = wide(x, gamma, beta, mean, rstd)
    unit, least = _units(dtype)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scale = _single(gamma * rstd)
        near, start = _around(dtype, mean, scale, beta)
        found = multiply_add(
            dtype, add(dtype, x, -near), rounded(dtype, scale), rounded(dtype, start)
        )
        factor = np.abs(gamma * rstd)
        more = 2 * factor * np.abs(x - mean) + np.abs(beta) + 3 * unit * factor * np.abs(mean)
        bound = 2 * (y[1] + _grown(unit) * (more + np.abs(y[0])) + 2 * least)
        fits = _is_near(mean, rstd, count) & _is_factor(scale) & (np.abs(start) < MOST)
    return _either(dtype, fits, (found, bound), y)


def slope_in_pairs(
    dx: Expected,
    x: Array,
    dy: Array,
    gamma: Array,
    mean: Array,
    rstd: Array,
    axes: Axes,
    dtype: np.dtype,
    is_frozen: bool = False,
) -> Expected:
    """dx likewise: factors and sums are rounded, and each result."""
    x, dy, gamma, mean, rstd = wide(x, dy, gamma, mean, rstd)
    unit, least = _units(dtype)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        g, h, scale = rstd * dy * gamma, (x - mean) * rstd, _single(gamma * rstd)
        factor = rounded(dtype, scale)
        fits = _is_factor(scale)
        if is_frozen:
            more = np.abs(g)
            found = multiply(dtype, dy, factor)
        else:
            count = _count(x, axes)
            slope = _single(-_single((dy * h).mean(axes, keepdims=True) * scale) * rstd)
            total = -_single(dy.mean(axes, keepdims=True) * scale)
            near, start = _around(dtype, mean, slope, total)
            terms = np.abs(slope), np.abs(slope) * np.sqrt(count) / rstd, np.abs(start)
            most = np.maximum(np.maximum(terms[0], terms[1]), terms[2])
            up = _scale(dtype, most)
            found = add(dtype, x, -near)
            found = multiply_add(
                dtype, found, rounded(dtype, slope * up), rounded(dtype, start * up)
            )
            found = multiply_add(dtype, dy, factor, multiply(dtype, found, 1 / up))
            products = np.abs((g * h).mean(axes, keepdims=True))
            moved = unit * np.abs(mean) * rstd * products
            sums = np.abs(g.mean(axes, keepdims=True)) + moved
            more = np.abs(g) + 2 * sums + 3 * (np.abs(h) * products + moved)
            fits &= _is_near(mean, rstd, count) & (most < SCALED)
        bound = 2 * (dx[1] + _grown(unit) * (more + np.abs(dx[0])) + 3 * least)
    return _either(dtype, fits, (found, bound), dx)


LEAST, MOST, NEAR_ZERO = 2.0**-14, 2.0**15, 16.0
"""Of a factor in FP16, and of a mean, where rows are computed by pairs: see trainlib.norm.pairs."""
SCALED, SMALLEST = 2.0**14, 2.0**-24
"""What a scaled sum of FP16 stays below; what its scale may be undone by."""


def _either(dtype: np.dtype, fits: Array, pairs: Expected, single: Expected) -> Expected:
    """What pairs give where they fit, as those of bfloat16 do; else single precision, rounded."""
    if dtype != np.float16:
        return pairs
    once = rounded_once(dtype, {"": single})[""]
    found, bound = (np.where(fits, *both) for both in zip(pairs, once, strict=True))
    return found, bound


def _is_near(mean: Array, rstd: Array, count: int | None) -> Array:
    """Is x - mean finite in FP16 for certain? The mean is of so many elements, or of others."""
    return np.abs(mean) < NEAR_ZERO if count is None else rstd >= np.sqrt(count) / MOST


def _is_factor(scale: Array) -> Array:
    return (np.abs(scale) >= LEAST) & (np.abs(scale) < MOST)


def _scale(dtype: np.dtype, most: Array) -> Array:
    """A power of two that FP16's terms, of which this is the largest, are multiplied by."""
    if dtype != np.float16:
        return np.ones(most.shape)
    kept = np.where(np.isfinite(most), np.clip(most, SCALED / 2 * SMALLEST, SCALED / 2), 1.0)
    _, exponent = np.frexp(kept)
    return SCALED / 2 / np.ldexp(1.0, exponent - 1)


def _around(dtype: np.dtype, mean: Array, factor: Array, added: Array) -> tuple[Array, Array]:
    """The rounded mean; what is added, with what that leaves times the factor."""
    mean = _single(mean)
    near = rounded(dtype, mean)
    return near, _single(_single(near - mean) * factor + added)


def _single(values: Array) -> Array:
    """The nearest numbers of single precision."""
    return values.astype(np.float32).astype(np.float64)


def _units(dtype: np.dtype) -> tuple[float, float]:
    """Half a unit in the last place of 1, and of the smallest numbers."""
    kind = ml_dtypes.finfo(dtype)
    return float(kind.eps) / 2, float(kind.smallest_subnormal) / 2


def _grown(unit: float) -> float:
    """A rounding, those after it, which round what it has left, included."""
    return unit * (1 + 4 * unit)


def rms_backward(
    x: Array, dy: Array, gamma: Array, rstd: Array, axes: Axes, gamma_axes: Axes
) -> Outputs:
    """dx and dgamma."""
    x, dy, gamma, rstd = wide(x, dy, gamma, rstd)
    n, others = _count(x, axes), tuple(a for a in range(x.ndim) if a not in gamma_axes)
    with np.errstate(invalid="ignore"):
        h, g = x * rstd, dy * gamma
        product, size = (g * h).mean(axes, keepdims=True), np.abs(g * h).mean(axes, keepdims=True)
        error = 6 * np.abs(g) + (n + 10) * np.abs(h) * size
        total, most = ((a * (dy * h)).sum(others, keepdims=True) for a in (1, np.sign(dy * h)))
        dgamma = bounded(total, (_count(x, others) + 6) * most)
        dgamma = may_overflow(dgamma, most, np.abs(h).max(others, keepdims=True))
        dx = bounded(rstd * (g - h * product), rstd * error)
        return may_overflow(dx, np.abs(h), np.abs(g), n * size, np.abs(h) * size), dgamma
