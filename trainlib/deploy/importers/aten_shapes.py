"""ATen's operators that move data as nodes, or as views where nothing moves."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.aten_importer import Importer, Rule
from trainlib.deploy.graph import DeployError
from trainlib.deploy.maps import InnerRows


def _view(i: Importer, x: Any, shape: Sequence[int], *_: Any) -> str:
    sizes, count = list(shape), prod(i.shape(x))
    if -1 in sizes:
        known = prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = count // known
    return i.graph.reshaped(i.name(x), tuple(sizes))


def _to(i: Importer, x: Any, *_: Any, **__: Any) -> str:
    raise DeployError("a change of type; everything is float32 here")


def _flatten(i: Importer, x: Any, start: int = 0, end: int = -1) -> str:
    shape = i.shape(x)
    start, end = start % len(shape), end % len(shape)
    flat = (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])
    return i.graph.reshaped(i.name(x), flat)


def _unflatten(i: Importer, x: Any, dim: int, sizes: Sequence[int]) -> str:
    shape = i.shape(x)
    dim %= len(shape)
    whole = [shape[dim] // -prod(sizes) if n == -1 else n for n in sizes]
    return i.graph.reshaped(i.name(x), (*shape[:dim], *whole, *shape[dim + 1 :]))


def _unsqueeze(i: Importer, x: Any, dim: int) -> str:
    shape = list(i.shape(x))
    shape.insert(dim % (len(shape) + 1), 1)
    return i.graph.reshaped(i.name(x), tuple(shape))


def _squeeze(i: Importer, x: Any, dims: Any = None) -> str:
    shape = i.shape(x)
    axes = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {axis % len(shape) for axis in axes}
    kept = tuple(n for axis, n in enumerate(shape) if axis not in gone or n != 1)
    return i.graph.reshaped(i.name(x), kept)


def permuted(i: Importer, x: str, axes: tuple[int, ...]) -> str:
    """Axes in another order: a view where none moves that has more than one element."""
    shape = i.graph.values[x].shape
    turned = tuple(shape[axis] for axis in axes)
    moving = [axis for axis in axes if shape[axis] > 1]
    if moving == sorted(moving):
        return i.graph.reshaped(x, turned)
    y = i.node("transpose", {"x": x}, axes=axes)["y"]
    *others, before, last = range(len(axes))
    if axes == (*others, last, before):
        i.turned[y] = x
    return y


def _permute(i: Importer, x: Any, axes: Sequence[int]) -> str:
    rank = len(i.shape(x))
    return permuted(i, i.name(x), tuple(axis % rank for axis in axes))


def _transpose(i: Importer, x: Any, first: int, second: int) -> str:
    axes = list(range(len(i.shape(x))))
    first, second = first % len(axes), second % len(axes)
    axes[first], axes[second] = second, first
    return permuted(i, i.name(x), tuple(axes))


def _t(i: Importer, x: Any) -> str:
    return permuted(i, i.name(x), tuple(reversed(range(len(i.shape(x))))))


def _part(i: Importer, x: str, start: Sequence[int], box: Sequence[int]) -> str:
    """A box of a value: a view where it lies in one piece, else its rows one after the other."""
    shape = i.graph.values[x].shape
    rows = InnerRows(shape, tuple(start), tuple(box))
    columns = prod(shape) // rows.total
    first, count = int(rows.index[0]), rows.index.size
    if np.array_equal(rows.index, np.arange(first, first + count)):
        return i.graph.view(f"{x}_part", x, tuple(box), first * columns)
    table = i.graph.reshaped(x, (rows.total, columns))
    y = i.node("take", {"table": table, "index": i.constant(rows.index)})["y"]
    return i.graph.reshaped(y, tuple(box))


def _select(i: Importer, x: Any, dim: int, index: int) -> str:
    shape = i.shape(x)
    dim %= len(shape)
    y = _slice(i, x, dim, index % shape[dim], index % shape[dim] + 1)
    return i.graph.reshaped(y, (*shape[:dim], *shape[dim + 1 :]))


def _slice(
    i: Importer, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> str:
    shape, name = i.shape(x), i.name(x)
    dim %= len(shape)
    if step != 1:
        raise DeployError(f"a step of {step}; there is 1 alone")
    first, last, _ = slice(start, end).indices(shape[dim])
    begin = [0] * len(shape)
    begin[dim] = first
    return _part(i, name, begin, (*shape[:dim], last - first, *shape[dim + 1 :]))


def _pieces(i: Importer, x: Any, sizes: Sequence[int], dim: int = 0) -> tuple[str, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(_slice(i, x, dim, *piece) for piece in pairwise(ends))


def _unbind(i: Importer, x: Any, dim: int = 0) -> tuple[str, ...]:
    return tuple(_select(i, x, dim, index) for index in range(i.shape(x)[dim]))


def _split(i: Importer, x: Any, size: int, dim: int = 0) -> tuple[str, ...]:
    whole = i.shape(x)[dim]
    return _pieces(i, x, [min(size, whole - at) for at in range(0, whole, size)], dim)


def _cat(i: Importer, values: Sequence[Any], dim: int = 0) -> str:
    """Each padded to the whole, and all added: what a sum with zeros does not change."""
    shapes = [i.shape(value) for value in values]
    dim %= len(shapes[0])
    whole, at, total = sum(shape[dim] for shape in shapes), 0, ""
    for value, shape in zip(values, shapes, strict=True):
        before, after = [0] * len(shape), [0] * len(shape)
        before[dim], after[dim] = at, whole - at - shape[dim]
        padded = i.node("pad", {"x": i.name(value)}, before=tuple(before), after=tuple(after))["y"]
        total = i.node("add", {"a": total, "b": padded})["y"] if total else padded
        at += shape[dim]
    return total


def _pad(
    i: Importer, x: Any, pads: Sequence[int], mode: str = "constant", value: Any = None
) -> str:
    if mode != "constant" or min(pads) < 0:
        raise DeployError(f"padding {mode} by {list(pads)}; there is constant, by 0 or more")
    rank = len(i.shape(x))
    before, after = [0] * rank, [0] * rank
    for number in range(len(pads) // 2):
        before[rank - 1 - number], after[rank - 1 - number] = pads[2 * number : 2 * number + 2]
    how = {"before": tuple(before), "after": tuple(after), "value": float(value or 0.0)}
    return i.node("pad", {"x": i.name(x)}, **how)["y"]


def _broadcast(i: Importer, values: Sequence[Any]) -> tuple[str, ...]:
    if len({i.shape(value) for value in values}) > 1:
        raise DeployError("tensors of different shapes; the loss takes equal ones")
    return tuple(i.name(value) for value in values)


def _getitem(i: Importer, values: Any, index: int) -> Any:
    return i.known[values][index]


def _same(i: Importer, x: Any, *_: Any, **__: Any) -> str:
    return i.name(x)


RULES: dict[str, Rule] = {
    "alias": _same,
    "broadcast_tensors": _broadcast,
    "cat": _cat,
    "chunk": lambda i, x, count, dim=0: _split(i, x, -(-i.shape(x)[dim] // count), dim),
    "clone": _same,
    "concat": _cat,
    "contiguous": _same,
    "detach_": _same,
    "flatten.using_ints": _flatten,
    "getitem": _getitem,
    "lift_fresh_copy": _same,
    "numpy_T": _t,
    "pad": _pad,
    "permute": _permute,
    "reshape": _view,
    "select.int": _select,
    "slice.Tensor": _slice,
    "split.Tensor": _split,
    "split_with_sizes": _pieces,
    "squeeze": _squeeze,
    "squeeze.dim": _squeeze,
    "squeeze.dims": _squeeze,
    "t": _t,
    "transpose.int": _transpose,
    "unbind.int": _unbind,
    "unflatten.int": _unflatten,
    "unsqueeze": _unsqueeze,
    "view": _view,
}
