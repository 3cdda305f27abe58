"""Pooling in float64, window by window, and how far float32 may be from it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.activations import Array, Outputs, bounded, may_overflow


def _planes(p: Any, x: Array) -> Array:
    """As [b, c, height, width]."""
    return np.moveaxis(x, 3, 1) if p.layout == "hwc" else x


def _back(p: Any, result: Expected) -> Expected:
    if p.layout == "chw":
        return result
    exact, bound = (np.moveaxis(np.broadcast_to(a, result[0].shape), 1, 3) for a in result)
    return exact, bound


def _windows(p: Any) -> Iterator[tuple[int, int, slice, slice]]:
    """Each output's place, and its window's rows and columns in x."""
    for i in range(p.out[0]):
        for j in range(p.out[1]):
            top, left = i * p.stride[0] - p.pad[0], j * p.stride[1] - p.pad[1]
            rows = slice(max(top, 0), min(top + p.kernel[0], p.h))
            yield i, j, rows, slice(max(left, 0), min(left + p.kernel[1], p.w))


def max_forward(p: Any, x: Array) -> tuple[Expected, Expected]:
    """The largest, and its number in the plane: the first of equals, the last NaN."""
    x = _planes(p, x)
    y = np.zeros((p.b, p.c, *p.out))
    index = np.zeros(y.shape, np.int64)
    numbers = np.arange(p.h * p.w).reshape(p.h, p.w)
    for i, j, rows, columns in _windows(p):
        window = x[:, :, rows, columns].reshape(p.b, p.c, -1)
        number = numbers[rows, columns].reshape(-1)
        is_nan = np.isnan(window)
        last_nan = window.shape[2] - 1 - is_nan[:, :, ::-1].argmax(2)
        best = np.where(is_nan.any(2), last_nan, np.where(is_nan, -np.inf, window).argmax(2))
        y[:, :, i, j] = np.take_along_axis(window, best[:, :, None], 2)[:, :, 0]
        index[:, :, i, j] = number[best]
    return _back(p, (y, 0.0)), _back(p, (index, 0))


def max_backward(p: Any, dy: Array, index: Array) -> Outputs:
    dy, index = _planes(p, dy).astype(np.float64), _planes(p, index)
    dx, size = np.zeros((2, p.b, p.c, p.h * p.w))
    planes = dy.reshape(p.b, p.c, -1)
    for place in range(planes.shape[2]):
        at = index.reshape(planes.shape)[:, :, place, None]
        for total, term in ((dx, planes), (size, np.abs(planes))):
            old = np.take_along_axis(total, at, 2)
            np.put_along_axis(total, at, old + term[:, :, place, None], 2)
    shape = p.b, p.c, p.h, p.w
    most = p.kernel[0] * p.kernel[1]
    dx, size = dx.reshape(shape), size.reshape(shape)
    return (_back(p, may_overflow(bounded(dx, most * size), size)),)


def _divisor(p: Any, rows: slice, columns: slice, counts_pad: bool) -> int:
    if counts_pad:
        return p.kernel[0] * p.kernel[1]
    return (rows.stop - rows.start) * (columns.stop - columns.start)


def average_forward(p: Any, x: Array, counts_pad: bool) -> Outputs:
    x = _planes(p, x).astype(np.float64)
    y, size = np.zeros((2, p.b, p.c, *p.out))
    with np.errstate(invalid="ignore"):
        for i, j, rows, columns in _windows(p):
            window, count = x[:, :, rows, columns], _divisor(p, rows, columns, counts_pad)
            y[:, :, i, j] = window.sum((2, 3)) / count
            size[:, :, i, j] = np.abs(window).sum((2, 3)) / count
        taps = p.kernel[0] * p.kernel[1]
        return (_back(p, may_overflow(bounded(y, (taps + 2) * size), taps * size)),)


def average_backward(p: Any, dy: Array, counts_pad: bool) -> Outputs:
    dy = _planes(p, dy).astype(np.float64)
    dx, size = np.zeros((2, p.b, p.c, p.h, p.w))
    with np.errstate(invalid="ignore"):
        for i, j, rows, columns in _windows(p):
            share = dy[:, :, i, j, None, None] / _divisor(p, rows, columns, counts_pad)
            dx[:, :, rows, columns] += share
            size[:, :, rows, columns] += np.abs(share)
        found = bounded(dx, (p.kernel[0] * p.kernel[1] + 2) * size)
        return (_back(p, may_overflow(found, size)),)
