"""The fewest cycles of a core's multiply-adds with the loads of the best blocking, and the stores.

A block of sums stays in registers, at most SUMS of them; each instruction takes a cycle. Cores have
equal parts, no loop or address costs anything, and borders are as dense as the rest.

    products       r rows and c columns: r c multiply-adds for r + c loads
    convolutions   r channels of c places along x: r weights a tap, and each input once for all taps
                   along x; of one channel each, all weights stay in registers if they fit
    weights'       channels of dY and of X and taps along x and y: the gradients, and what is new
    gradients      of X
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

SUMS = 20
MOST = 8  # rows or columns of a block


def loads_bound(kernel: str, point: Any, macs: int, cores: int) -> float:
    """Cycles that the cores need at least.

    point    the kernel's arguments
    macs     its multiply-adds
    """
    stem = kernel.removesuffix("_f32")
    kind, _, step = stem.rpartition("_")
    if kind in ("matmul", "") or stem == "matmul_batched":
        batch = getattr(point, "batch", 1)
        each, stores = _product(point.n, point.m), batch * point.n * point.m
    elif kind == "linear":
        sizes = {"fw": (point.batch, point.outputs), "ig": (point.batch, point.inputs)}
        rows, columns = sizes.get(step, (point.outputs, point.inputs))
        each, stores = _product(rows, columns), rows * columns
    elif kind == "pwconv2d" or (kind == "conv2d" and _is_flat(point)):
        places = point.batch * point.height * point.width
        sizes = {"fw": (point.outputs, places), "ig": (point.inputs, places)}
        rows, columns = sizes.get(step, (point.outputs, point.inputs))
        each, stores = _product(rows, columns), rows * columns
    else:
        each, stores = _convolution(kind, step, point)
    return (macs * each + stores) / cores


def _is_flat(point: Any) -> bool:
    return all(n == 1 for n in (*point.kernel, *point.stride)) and not any(point.padding)


def _product(rows: int, columns: int) -> float:
    """Instructions for a multiply-add."""
    return min(1 + 1 / r + 1 / c for r, c in _blocks(rows, columns))


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    most = range(1, min(rows, MOST) + 1), range(1, min(columns, SUMS) + 1)
    return ((r, c) for r, c in product(*most) if r * c <= SUMS)


def _convolution(kind: str, step: str, point: Any) -> tuple[float, int]:
    """Instructions for a multiply-add, and stores: one for each element of the result.

    A transposed convolution's steps are those of a convolution that goes the other way.
    """
    step = {"fw": "ig", "ig": "fw"}.get(step, step) if kind == "tconv2d" else step
    shape = point.shape
    stores = prod(shape.sizes({"fw": "y", "ig": "x", "wg": "w"}[step]))
    inputs, outputs = shape.inputs // shape.groups, shape.outputs // shape.groups
    down, across, stride, apart = shape.ys.taps, shape.xs.taps, shape.xs.stride, shape.xs.dilation
    if step == "wg":
        return _weights(outputs, inputs, down, across, stride), stores
    rows, places = (outputs, shape.xs.outputs) if step == "fw" else (inputs, shape.xs.inputs)
    taps, steps = (across, stride) if step == "fw" else (across / stride, 1)
    keeps = kind == "dwconv2d" and down * across < SUMS

    def each(r: int, c: int) -> float:
        seen = (c - 1) * steps + (across - 1) * apart + 1 if step == "fw" else c / stride + taps - 1
        return 1 + (r * across * (not keeps) + min(max(seen, 1), c * across)) / (r * c * taps)

    return min(each(r, c) for r, c in _blocks(rows, places)), stores


def _weights(rows: int, channels: int, down: int, across: int, stride: int) -> float:
    """Of a gradient of weights: so many channels of dY and of X, all taps along x, some along y.

    More than the registers have, a line of taps of one channel of each is still a block.
    """
    new = min(across, stride)  # of a line of X
    sizes = product(*(range(1, min(n, MOST) + 1) for n in (rows, channels, down)))
    found = [
        1 + (r + c * lines * new) / (r * c * lines * across)
        for r, c, lines in sizes
        if r * c * lines * across <= max(SUMS, across)
    ]
    return min(found)
