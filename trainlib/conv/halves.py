"""Convolutions of FP16 and bfloat16: the order of their sums, which tiles do not change.

direct       taps along y, channels, taps along x; of the gradient of weights, images, lines and
             places, even and odd ones apart where they lie together
row pairs    the same, two rows at once, so places of a gradient of weights are not apart: see
             trainlib.conv.row_pairs
one channel  see trainlib.conv.paired_schedule
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainlib.conv.correlation import Images, Weights
from trainlib.conv.paired_gradient import may_load_once
from trainlib.conv.paired_schedule import HALF, may_pair, may_stride, taps_of
from trainlib.conv.shape import IMAGES, Shape, Wanted
from trainlib.conv.weight_gradient_code import holds_kernels
from trainlib.conv.weight_gradient_schedule import WeightGradient
from trainlib.primitive.arguments import USUAL_CORES
from trainlib.primitive.element import F16, Element
from trainlib.primitive.operator import Expected
from trainlib.primitive.slices import Sized
from trainlib.primitive.tensor import Arrays
from trainlib.reference import conv2d_halves as reference

UNITS: Mapping[str, Mapping[str, int]] = {
    "yx": {"co": 32, "ci": 32, "g": 8},
    "w": {"co": 16, "y": 8},
}
"""Of tiles: four rows for each of eight cores, since those that share an image have lines of
different length; lines that blocks of sums are worth their loads and stores for."""
ROW_PAIR = 2
"""What rows of tiles are a multiple of, where two are computed at once."""
PACKING = 2.5  # multiply-adds in whose time all cores make a half of a word of two rows, about


def uncut(result: str, a: Wanted) -> set[str]:
    """Dimensions that tiles have all of, so that sums have one order."""
    if result == "w":
        has_odd_lines = a.by_columns and opens(result, a, F16) and a.shape.xs.outputs % 2 == 1
        return {"x", "y"} if has_odd_lines else {"x"}
    if a.by_columns and a.shape.layout == "chw":
        return set()
    summed = {"y": {"ci"}, "x": {"co"}}[result]
    return summed | {"x"} if is_paired(result, a, F16) else summed


def joined(result: str, role: str, a: Wanted) -> int:
    """The last axes of an operand that make a row in L1: kernels; images that are products; short
    lines, whose words cost less across two than the DMA takes for each line by itself.
    """
    if role == "w":
        return 3
    if result == "w" and _loads_once(a):
        return 2
    is_product = role == ("x" if result == "x" else "y")
    return 2 if is_product and a.by_columns and a.shape.layout == "chw" else 1


def _loads_once(a: Wanted) -> bool:
    """Is the gradient of weights by lines that are loaded once, of an odd number of places?"""
    return a.shape.xs.inputs % 2 == 1 and _is_deep(a) and may_load_once(_gradient(a))


def grows(a: Wanted) -> bool:
    """May tiles of the gradient of weights have groups as many as a register says, if they have all
    lines?
    """
    is_whole = a.shape.batch == 1 and not a.bias and _is_deep(a)
    return is_whole and holds_kernels(_gradient(a))


def _is_deep(a: Wanted) -> bool:
    """Has each channel kernels of its own, and is no point given?"""
    s = a.shape
    is_deep = s.groups == s.inputs == s.outputs > 1 and s.layout == "chw" and not a.by_columns
    return is_deep and all(value is None for value in a.point.values())


def _gradient(a: Wanted) -> WeightGradient:
    """The gradient of a channel's weights."""
    ys, xs = a.shape.ys, a.shape.xs
    x, dy = (Images(0, 0, 0, HALF * places, HALF) for places in (xs.inputs, xs.outputs))
    return WeightGradient(1, 1, 1, ys, xs, dy, x, Weights(0, 0, 0, 0, 0, 0), element=F16)


def opens(result: str, a: Wanted, element: Element) -> bool:
    """Do sums of halves, of even places and of odd ones, stay apart from tile to tile?"""
    if a.by_columns:
        is_apart = a.shape.layout == "chw" and a.shape.ys.outputs * a.shape.xs.outputs > 1
    else:
        is_apart = _lanes(a) > 1 and not has_one_chain(a, element)
    return element.is_half and result == "w" and is_apart


def has_row_pairs(result: str, a: Wanted, element: Element) -> bool:
    """Of halves, are two rows computed at once? See trainlib.conv.row_pairs.

    Where places are read through several taps, and each tile has an even number of rows; of a
    gradient of weights, where sums have one chain.
    """
    s = a.shape
    if not element.is_half or s.groups > 1 or s.layout == "hwc":
        return False
    if a.by_columns or a.point["is_turned"]:
        return False
    if result == "w" and not has_one_chain(a, element):
        return False
    rows, dim = (s.inputs, "ci") if result == "x" else (s.outputs, "co")
    sizes = rows, a.point["rows"] or 2, (a.tile or {}).get(dim, 2)
    return s.xs.taps > 1 and all(size % 2 == 0 for size in sizes)


def packing(result: str, s: Shape, sizes: Sized) -> Any:
    """How long words of two rows take to make, to the multiply-adds with them: of a tile."""
    if result != "w":
        return PACKING / (sizes["n"] * sizes["y"] * sizes["x"])
    return PACKING / (s.ys.taps * s.xs.taps * sizes["ci"])


def has_one_chain(a: Wanted, element: Element) -> bool:
    """Of halves, is a gradient of weights a sum of places one after the other?

    Where two rows can be computed at once, with blocks of sums for all cores, usually; else even
    and odd places are apart.
    """
    s = a.shape
    if not element.is_half or s.groups > 1 or s.layout == "hwc" or a.by_columns:
        return False
    return s.xs.taps > 1 and s.outputs % 2 == 0 and s.outputs // 2 * s.inputs >= USUAL_CORES


def is_paired(result: str, a: Wanted, element: Element) -> bool:
    """Of halves, does each channel have all weights in registers, and sums of pairs of places?"""
    s = a.shape
    if not element.is_half or result == "w" or s.groups == 1 or s.layout == "hwc":
        return False
    if result == "x":
        return may_pair(s.ys.inverse, s.xs.inverse, s.outputs // s.groups)
    channels = s.inputs // s.groups
    return may_pair(s.ys, s.xs, channels) or may_stride(s.ys, s.xs, channels)


def _lanes(a: Wanted, result: str = "w") -> int:
    """Outputs along x that are summed up together; of dX those that are a stride apart."""
    has_neighbours = a.shape.xs.stride == 1 or result == "x"
    return 2 if a.shape.layout == "chw" and has_neighbours else 1


def expected(
    result: str,
    names: Mapping[str, str],
    biased: str | None,
    a: Wanted,
    element: Element,
    values: Arrays,
) -> Iterator[tuple[str, Expected]]:
    """What a step means in halves: every sum is rounded, in the kernel's order.

    result, names, biased    see trainlib.conv.passes.Step
    """
    s, back = a.shape, IMAGES[a.shape.layout]
    order, bias = np.argsort(back), "dbias" if result == "w" else "bias"
    of = {n: v.transpose(order) if v.ndim == 4 else v for n, v in values.items()}
    read = {role: of[name] for role, name in names.items() if name in of}
    start = of[names[result]] if a.accumulate else None
    if start is None and a.bias and result != "w":
        start = of[bias][:, None, None]
    if a.by_columns:
        sums = reference.by_columns(
            *(element.dtype, result, read, s.ys, s.xs, start, s.layout),
            is_apart=opens(result, a, element),
        )
        yield names[result], (sums.transpose(back), 0.0)
    elif result == "w":
        operands = element.dtype, read["y"], read["x"], s.ys, s.xs, start, s.groups
        lanes = 1 if has_one_chain(a, element) else _lanes(a)
        sums = reference.weight_gradient(*operands, lanes=lanes)
        yield names[result], (sums.transpose(back), 0.0)
    if result == "w":
        if a.bias and biased:
            held = of[bias] if a.accumulate else None
            yield bias, (reference.channel_sums(read[biased], held), 0.0)
    if result == "w" or a.by_columns:
        return
    by_group = read["w"].reshape(s.groups, s.outputs // s.groups, *read["w"].shape[1:])
    images, axes = read["x" if result == "y" else "y"], (s.ys, s.xs)
    if result == "x":
        by_group, axes = by_group.swapaxes(1, 2), (s.ys.inverse, s.xs.inverse)
    is_by_rows, are_pairs = has_row_pairs(result, a, element), is_paired(result, a, element)
    is_strided = are_pairs and not axes[1].apart
    taps = [*range(axes[1].taps)] if is_strided else taps_of(axes[1])
    found = reference.correlation(
        *(element.dtype, images, by_group, *axes, start),
        is_flipped=axes[0].is_transposed and axes[0].stride == 1,
        lanes=1 if is_by_rows else 2 if is_strided else _lanes(a, result),
        apart=1 if is_by_rows else axes[1].apart or 1,
        order=taps if are_pairs else None,
    )
    yield names[result], (found.transpose(back), 0.0)
