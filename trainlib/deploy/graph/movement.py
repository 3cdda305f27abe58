"""Operators that move data: transposes, padding, boxes, tensors one after the other, reductions."""

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.operator import Backward, Invocation, Lower, Operator, Shapes
from trainlib.deploy.graph.values import Attributes, Shape


def _with_shape(kernel: str) -> Lower:
    """A kernel whose argument `shape` is that of x."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        return Invocation(kernel, {"shape": shapes["x"], **attributes})

    return lower


def _transpose_rule(b: Backward) -> None:
    axes = b.attributes()["axes"]
    back = tuple(axes.index(axis) for axis in range(len(axes)))
    b.give("x", b.emit("transpose", {"x": b.gradient("y")}, {"axes": back})["y"])


def _reduce_rule(b: Backward) -> None:
    """dy for every element that was added."""
    how, shape = b.attributes(), b.shape("x")
    axes = how["axes"]
    if how["what"] == "max":
        raise ValueError("a maximum over dimensions has no gradient here; use max_pool2d")
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    dy = b.gradient("y")
    if how["what"] == "mean":
        share = b.constant("share", [prod(kept) / prod(shape)])
        dy = b.emit("multiply", {"a": dy, "b": share})["y"]
    b.give("x", repeated(b, b.reshaped(dy, kept), kept, shape))


def repeated(b: Backward, name: str, shape: Shape, wanted: Shape) -> str:
    """A value with its elements repeated along the axes where it has 1."""
    if shape == wanted:
        return name
    step = tuple(int(n == m) for n, m in zip(shape, wanted, strict=True))
    how = {"start": (0,) * len(shape), "step": step, "size": wanted}
    return b.emit("slice", {"x": name}, how)["y"]


def _pad_rule(b: Backward) -> None:
    b.give("x", box_of(b, b.gradient("y"), b.shape("y"), b.attributes()["before"], b.shape("x")))


def box_of(b: Backward, name: str, shape: Shape, start: Shape, size: Shape) -> str:
    """A box of a value: a view where it lies in one piece."""
    if (offset := offset_of(shape, start, size)) is not None:
        return b.part(name, size, offset)
    return b.emit("slice", {"x": name}, {"start": tuple(start), "size": tuple(size)})["y"]


def offset_of(shape: Shape, start: Shape, size: Shape) -> int | None:
    """Elements before a box that lies in one piece; None: it does not."""
    cut = next((axis for axis, n in enumerate(size) if n > 1), len(size))
    if tuple(size[cut + 1 :]) != tuple(shape[cut + 1 :]):
        return None
    return sum(first * prod(shape[axis + 1 :]) for axis, first in enumerate(start))


def _slice_rule(b: Backward) -> None:
    """Zeros around what was taken; sums of what was repeated."""
    how, shape = b.attributes(), b.shape("x")
    start, size = how["start"], how["size"]
    step = how.get("step") or (1,) * len(shape)
    dy = b.gradient("y")
    copied = tuple(axis for axis, n in enumerate(step) if not n and size[axis] > 1)
    if copied:
        size = tuple(1 if axis in copied else n for axis, n in enumerate(size))
        total = b.emit("reduce", {"x": dy}, {"axes": copied, "what": "sum"})["y"]
        dy = b.reshaped(total, size)
    if any(n > 1 and s > 1 for n, s in zip(step, size, strict=True)):
        b.give("x", _scattered(b, dy, shape, start, step, size))
        return
    after = tuple(n - a - s for n, a, s in zip(shape, start, size, strict=True))
    if any((*start, *after)):
        dy = b.emit("pad", {"x": dy}, {"before": tuple(start), "after": after})["y"]
    b.give("x", dy)


def _scattered(b: Backward, name: str, shape: Shape, start: Shape, step: Shape, size: Shape) -> str:
    """Elements of a box with gaps, at their places among zeros."""
    numbers = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    sides = zip(start, step, size, strict=True)
    box = numbers[tuple(slice(a, a + max(n, 1) * s, max(n, 1)) for a, n, s in sides)]
    inputs = {"index": b.constant("places", box.reshape(-1)), "dy": b.reshaped(name, (box.size, 1))}
    return b.emit("put", inputs, {"entries": prod(shape)})["dtable"]


def _concat(shapes: Shapes, attributes: Attributes) -> Invocation:
    axis = attributes["axis"]
    parts = [shapes[name] for name in sorted(shapes)]
    sizes = tuple(part[axis] for part in parts)
    if any((*p[:axis], *p[axis + 1 :]) != (*parts[0][:axis], *parts[0][axis + 1 :]) for p in parts):
        raise ValueError(f"shapes {', '.join(str(list(p)) for p in parts)} differ elsewhere")
    whole = (*parts[0][:axis], sum(sizes), *parts[0][axis + 1 :])
    return Invocation("concat", {"shape": whole, "axis": axis, "sizes": sizes})


def _concat_rule(b: Backward) -> None:
    axis, whole, dy = b.attributes()["axis"], b.shape("y"), b.gradient("y")
    names = [name for name in (f"x{i}" for i in range(whole[axis])) if b.value(name)]
    sizes = [b.shape(name)[axis] for name in names]
    for name, first in zip(names, accumulate(sizes, initial=0), strict=False):
        if b.needs(name):
            start = tuple(first if n == axis else 0 for n in range(len(whole)))
            b.give(name, box_of(b, dy, whole, start, b.shape(name)))


def _largest(shapes: Shapes, attributes: Attributes) -> Invocation:
    return Invocation("reduce", {"shape": shapes["x"], "what": "max", **attributes})


def _no_gradient(_: Any) -> None:
    """What it is subtracted from and added to again does not depend on it."""


OPERATORS = (
    Operator("transpose", _with_shape("transpose"), rule=_transpose_rule),
    Operator("pad", _with_shape("pad"), rule=_pad_rule),
    Operator("slice", _with_shape("slice"), rule=_slice_rule),
    Operator("concat", _concat, rule=_concat_rule),
    Operator("reduce", _with_shape("reduce"), rule=_reduce_rule),
    Operator("shift", _largest, rule=_no_gradient),
)
