"""Convolutions of FP16 and bfloat16 that round as kernels do: each multiply-add, in their order."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from trainlib.reference.halves import add, multiply_add, rounded, rounded_matmul, sums_in_single


class Reading(Hashable, Protocol):
    """A dimension: which input an output reads through a tap, None outside."""

    @property
    def outputs(self) -> int: ...

    @property
    def inputs(self) -> int: ...

    @property
    def taps(self) -> int: ...

    def source(self, output: int, tap: int) -> int | None: ...

    def readers(self, tap: int) -> list[int]: ...

    @property
    def inverse(self) -> "Reading": ...


def correlation(
    dtype: np.dtype,
    x: np.ndarray,
    w: np.ndarray,
    ys: Reading,
    xs: Reading,
    start: np.ndarray | None,
    *,
    is_flipped: bool = False,
    lanes: int = 1,
    apart: int = 1,
    order: Sequence[int] | None = None,
) -> np.ndarray:
    """Y[n, g r, y, x]: the start, and product by product taps along y, channels, taps along x.

    shapes        x[n, g c, .., ..], w[g, r, c, s, t]; start broadcasts to Y, None: zeros
    is_flipped    the last tap along y comes first
    lanes         outputs along x that are summed up together: what one of them reads outside is 0
                  where another one reads something, else it is left out
    apart         outputs from one of them to the next
    order         of taps along x; then sums without a start begin with a product. None: as counted
    """
    groups, rows, channels, *_ = w.shape
    size = x.shape[0], groups, rows, ys.outputs, xs.outputs
    images = x.astype(np.float64).reshape(size[0], groups, 1, channels, ys.inputs, xs.inputs)
    weights = w.astype(np.float64)
    sums = np.zeros(size)
    is_begun = np.full(size, start is not None or order is None)
    if start is not None:
        whole = (size[0], groups * rows, *size[3:])
        sums += np.broadcast_to(start.astype(np.float64), whole).reshape(size)
    taps = range(ys.taps)
    for s in reversed(taps) if is_flipped else taps:
        lines = ys.readers(s)
        sources = [ys.source(line, s) or 0 for line in lines]
        for c in range(channels):
            for t in order or range(xs.taps) if lines else ():
                places, read, is_inside = _places(xs, t, lanes, apart)
                if not places:
                    continue
                values = np.where(is_inside, images[:, :, :, c][..., sources, :][..., read], 0)
                factor = weights[:, :, c, s, t][None, :, :, None, None]
                at = np.ix_(*map(range, size[:3]), lines, places)
                total = multiply_add(dtype, values, factor, sums[at])
                product = rounded(dtype, values * factor)
                sums[at] = np.where(is_begun[at], total, product)
                is_begun[at] = True
    return sums.reshape(size[0], groups * rows, *size[3:])


@cache
def _places(
    xs: Reading, tap: int, lanes: int, apart: int = 1
) -> tuple[list[int], list[int], np.ndarray]:
    """The outputs that are computed through a tap, what each reads, and whether that is inside."""
    sources = [xs.source(output, tap) for output in range(xs.outputs)]
    unit = lanes * apart
    found = [
        output
        for output in range(xs.outputs)
        if any(_is_any(sources[output // unit * unit + output % apart :: apart][:lanes]))
    ]
    read: Sequence[int | None] = [sources[output] for output in found]
    is_inside = np.array([source is not None for source in read])
    return found, [source or 0 for source in read], is_inside


def _is_any(sources: Sequence[int | None]) -> list[bool]:
    return [source is not None for source in sources]


def weight_gradient(
    dtype: np.dtype,
    dy: np.ndarray,
    x: np.ndarray,
    ys: Reading,
    xs: Reading,
    start: np.ndarray | None,
    groups: int,
    *,
    lanes: int = 1,
) -> np.ndarray:
    """dW[g r, c, s, t]: the start, and product by product images, lines, places of dY.

    shapes    dy[n, g r, y, x], x[n, g c, .., ..]
    lanes     2: even and odd places are summed up apart, the start with the even ones, then added
    """
    images, rows, channels = len(dy), dy.shape[1] // groups, x.shape[1] // groups
    of_rows = dy.astype(np.float64).reshape(images, groups, rows, 1, *dy.shape[2:])
    of_channels = x.astype(np.float64).reshape(images, groups, 1, channels, *x.shape[2:])
    size = groups, rows, channels, ys.taps, xs.taps
    sums = np.zeros((lanes, *size))
    if start is not None:
        sums[0] = start.astype(np.float64).reshape(size)
    for n, line, place in np.ndindex(images, ys.outputs, xs.outputs):
        every = ((s, ys.source(line, s)) for s in range(ys.taps))
        down = {s: source for s, source in every if source is not None}
        lines = [*down]
        by_tap = [_places(xs, t, lanes) for t in range(xs.taps)]
        across = [t for t, (found, _, _) in enumerate(by_tap) if place in found]
        if not lines or not across:
            continue
        at = [by_tap[t][0].index(place) for t in across]
        read = [by_tap[t][1][i] for t, i in zip(across, at, strict=True)]
        is_inside = np.array([by_tap[t][2][i] for t, i in zip(across, at, strict=True)])
        patch = np.where(is_inside, of_channels[n][:, :, :, [*down.values()], :][..., read], 0)
        factor = of_rows[n][:, :, :, line, place, None, None]
        ix = np.ix_(*map(range, size[:3]), lines, across)
        own = sums[place % lanes]
        own[ix] = multiply_add(dtype, patch, factor, own[ix])
    total = add(dtype, *sums) if lanes > 1 else sums[0]
    return total.reshape(groups * rows, *size[2:])


def channel_sums(x: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """The sum of each channel of images in single precision: images, lines, places, one by one."""
    return sums_in_single(x.swapaxes(0, 1).reshape(x.shape[1], -1).T, start)


def by_columns(
    dtype: np.dtype,
    result: str,
    read: Mapping[str, np.ndarray],
    ys: Reading,
    xs: Reading,
    start: np.ndarray | None,
    layout: str,
    *,
    is_apart: bool,
) -> np.ndarray:
    """Y, dX or dW by products with columns of images, of one group: zeros outside count, too.

    result      "y", "x" or "w"; read: operands by role
    ys, xs      of the convolution
    is_apart    of dW, are even and odd places of an image summed up apart, then added?
    """
    if result == "x":
        ys, xs = ys.inverse, xs.inverse
    order = (0, 1, 2) if layout == "chw" else (1, 2, 0)
    columns = _columns(read["y" if result == "x" else "x"], ys, xs, order)
    images, words, places = columns.shape
    taps = ys.taps, xs.taps
    if result == "w":
        dy = read["y"].astype(np.float64).swapaxes(0, 1)
        rows, channels = len(dy), read["x"].shape[1]
        size = channels, *taps
        begin = None if start is None else start.transpose(0, *(axis + 1 for axis in order))
        begin = None if begin is None else begin.reshape(rows, words)
        all_places = columns.swapaxes(1, 2).reshape(-1, words)
        sums = rounded_matmul(dtype, dy.reshape(rows, -1), all_places, begin, is_apart, places)
        shape = rows, *(size[axis] for axis in order)
        return sums.reshape(shape).transpose(0, *(axis + 1 for axis in np.argsort(order)))
    weights = read["w"] if result == "y" else read["w"].swapaxes(0, 1)
    factors = weights.transpose(0, *(axis + 1 for axis in order)).reshape(len(weights), -1)
    found = []
    in_halves = layout == "hwc" and result == "y" and words > 1
    for n in range(images):
        own = None if start is None else start if start.ndim == 3 else start[n]
        begin = None if own is None else own.reshape(len(weights), -1)
        found.append(rounded_matmul(dtype, factors, columns[n], begin, in_halves))
    return np.reshape(found, (images, len(weights), ys.outputs, xs.outputs))


def _columns(x: np.ndarray, ys: Reading, xs: Reading, order: Sequence[int]) -> np.ndarray:
    """[n, words, places]: what taps read, 0 outside; order of channels, lines, places in words."""
    found = np.zeros((*x.shape[:2], ys.taps, xs.taps, ys.outputs, xs.outputs))
    for s, t in np.ndindex(ys.taps, xs.taps):
        for o, p in np.ndindex(ys.outputs, xs.outputs):
            line, place = ys.source(o, s), xs.source(p, t)
            if line is not None and place is not None:
                found[:, :, s, t, o, p] = x[:, :, line, place]
    axes = (0, *(axis + 1 for axis in order), 4, 5)
    return found.transpose(axes).reshape(len(x), -1, ys.outputs * xs.outputs)
