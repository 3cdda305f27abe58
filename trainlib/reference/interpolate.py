"""Interpolation in float64, by matrices along rows and columns, and how far float32 may be off."""

from typing import Any

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, bounded
from trainlib.reference.tolerances import on_the_way

Side = tuple[Array, Array, Array, Array]
"""What each output takes of each element, the error of that in u, what it multiplies at all, and
by 0."""


def _nearest(size: int, out: int) -> Side:
    share = np.zeros((out, size))
    share[np.arange(out), np.arange(out) * size // out] = 1
    return share, np.zeros_like(share), share, np.zeros_like(share)


def _linear(size: int, out: int, aligned: bool) -> Side:
    """A place is wrong by some u of itself; so are the shares of the elements beside it."""
    o = np.arange(out)
    place = o * (size - 1) / max(out - 1, 1) if aligned else (o + 0.5) * size / out - 0.5
    place = np.maximum(place, 0)
    low = np.minimum(place.astype(int), size - 1)
    share, error, seen, blank = np.zeros((4, out, size))
    for at, weight in ((low, 1 - (place - low)), (np.minimum(low + 1, size - 1), place - low)):
        share[o, at] += weight
        seen[o, at] = 1
        blank[o, at] += weight == 0
    for beside in (-1, 0, 1):
        error[o, np.clip(low + beside, 0, size - 1)] += 3 * size + 3
    error[o, np.minimum(low + 2, size - 1)] += 3 * size + 3
    return share, error, seen, blank


def _applied(point: Any, x: Array, rows: Side, columns: Side, is_backward: bool) -> Expected:
    """y[i, j] = the sum of rows[i, k] x[k, l] columns[j, l] in each plane."""
    x = np.moveaxis(x, 3, 1) if point.layout == "hwc" else x
    x = x.astype(np.float64)
    product = "bckl,ki,lj->bcij" if is_backward else "bckl,ik,jl->bcij"

    def applied(x: Array, r: Array, c: Array) -> Array:
        return np.einsum(product, x, r, c, optimize=True)

    (r, of_r, sees_r, blank_r), (c, of_c, sees_c, blank_c) = rows, columns
    finite = np.where(np.isfinite(x), x, 0)
    exact, size = applied(finite, r, c), np.abs(finite)
    for special in (np.inf, -np.inf, np.nan):
        is_one = np.isnan(x) if np.isnan(special) else x == special
        if is_one.any():
            count = 1.0 * is_one
            blank = applied(count, blank_r, sees_c) + applied(count, sees_r, blank_c)
            exact = exact + np.where(applied(count, sees_r, sees_c) > 0.5, special, 0)
            exact = np.where(blank > 0.5, np.nan, exact)
    terms = (8 + (r.shape[0] * c.shape[0] if is_backward else 0)) * applied(size, r, c)
    exact, bound = bounded(exact, terms, applied(size, of_r, c) + applied(size, r, of_c))
    bound = on_the_way(bound, terms)
    if point.layout == "hwc":
        return np.moveaxis(exact, 1, 3), np.moveaxis(np.asarray(bound), 1, 3)
    return exact, bound


def nearest_forward(point: Any, x: Array) -> Expected:
    sides = _nearest(point.h, point.out[0]), _nearest(point.w, point.out[1])
    return _applied(point, x, *sides, False)


def nearest_backward(point: Any, dy: Array) -> Expected:
    sides = _nearest(point.h, point.out[0]), _nearest(point.w, point.out[1])
    return _applied(point, dy, *sides, True)


def bilinear_forward(point: Any, x: Array, aligned: bool) -> Expected:
    sides = _linear(point.h, point.out[0], aligned), _linear(point.w, point.out[1], aligned)
    return _applied(point, x, *sides, False)


def bilinear_backward(point: Any, dy: Array, aligned: bool) -> Expected:
    sides = _linear(point.h, point.out[0], aligned), _linear(point.w, point.out[1], aligned)
    return _applied(point, dy, *sides, True)
