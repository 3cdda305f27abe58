"""ATen's operators that move data as nodes, or as views where nothing moves."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.movement import offset_of
from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.elementwise.strided_copy import MOST


def _view(i: Importer, x: Any, shape: Sequence[int], *_: Any) -> str:
    sizes, count = list(shape), prod(i.shape(x))
    if -1 in sizes:
        known = prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = count // known
    return i.graph.reshaped(i.name(x), tuple(sizes))


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


def _moved(i: Importer, x: Any, source: int, target: int) -> str:
    rank = len(i.shape(x))
    axes = [axis for axis in range(rank) if axis != source % rank]
    axes.insert(target % rank, source % rank)
    return permuted(i, i.name(x), tuple(axes))


def _t(i: Importer, x: Any) -> str:
    return permuted(i, i.name(x), tuple(reversed(range(len(i.shape(x))))))


def part(i: Importer, x: str, start: Sequence[int], size: Sequence[int]) -> str:
    """A box of a value: a view where it lies in one piece."""
    shape, box = i.graph.values[x].shape, tuple(size)
    if (offset := offset_of(shape, tuple(start), box)) is not None:
        return i.graph.view(f"{x}_part", x, box, offset)
    return i.node("slice", {"x": x}, start=tuple(start), size=box)["y"]


def expanded(i: Importer, x: str, sizes: Sequence[int]) -> str:
    """A value with what it has once repeated; -1: as it is."""
    shape = i.graph.values[x].shape
    own = (1,) * (len(sizes) - len(shape)) + shape
    wanted = tuple(n if m == -1 else m for n, m in zip(own, sizes, strict=True))
    if any(n not in (1, m) for n, m in zip(own, wanted, strict=True)):
        raise DeployError(f"{list(shape)} expanded to {list(sizes)}; what is not 1 stays")
    x = i.graph.reshaped(x, own)
    if own == wanted:
        return x
    step = tuple(int(n == m) for n, m in zip(own, wanted, strict=True))
    return i.node("slice", {"x": x}, start=(0,) * len(own), step=step, size=wanted)["y"]


def _repeat(i: Importer, x: Any, times: Sequence[int]) -> str:
    shape = i.shape(x)
    own = (1,) * (len(times) - len(shape)) + shape
    apart = i.graph.reshaped(i.name(x), tuple(n for size in own for n in (1, size)))
    pairs = zip(times, own, strict=True)
    y = expanded(i, apart, [n for pair in pairs for n in pair])
    return i.graph.reshaped(y, tuple(n * size for n, size in zip(times, own, strict=True)))


def gathered(i: Importer, x: str, numbers: np.ndarray) -> str:
    """Elements of a value by their numbers, in as long pieces as lie there in one.

    numbers    an array of the result's shape
    """
    flat, count = numbers.reshape(-1).astype(np.int64), i.graph.values[x].elements
    breaks = np.flatnonzero(np.diff(flat) != 1) + 1
    starts = flat[np.concatenate([[0], breaks])]
    columns = gcd(flat.size, count, *map(int, breaks), *map(int, starts))
    if not breaks.size:
        return i.graph.view(f"{x}_part", x, numbers.shape, int(flat[0]))
    table = i.graph.reshaped(x, (count // columns, columns))
    index = (flat[::columns] // columns).astype(np.int32)
    y = i.node("take", {"table": table, "index": i.constant(index)})["y"]
    return i.graph.reshaped(y, numbers.shape)


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
    first, last, _ = slice(start, end).indices(shape[dim])
    begin, own = [0] * len(shape), [1] * len(shape)
    begin[dim], own[dim] = first, step
    box = (*shape[:dim], -(-(last - first) // step), *shape[dim + 1 :])
    if step == 1 or box[dim] == 1:
        return part(i, name, begin, box)
    return i.node("slice", {"x": name}, start=tuple(begin), step=tuple(own), size=box)["y"]


def _pieces(i: Importer, x: Any, sizes: Sequence[int], dim: int = 0) -> tuple[str, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(_slice(i, x, dim, *piece) for piece in pairwise(ends))


def _unbind(i: Importer, x: Any, dim: int = 0) -> tuple[str, ...]:
    return tuple(_select(i, x, dim, index) for index in range(i.shape(x)[dim]))


def _split(i: Importer, x: Any, size: int, dim: int = 0) -> tuple[str, ...]:
    whole = i.shape(x)[dim]
    return _pieces(i, x, [min(size, whole - at) for at in range(0, whole, size)], dim)


def joined(i: Importer, names: Sequence[str], axis: int) -> str:
    """Values one after the other along an axis."""
    while len(names) > 1:
        groups = [names[at : at + MOST] for at in range(0, len(names), MOST)]
        names = [_joined(i, group, axis) for group in groups]
    return names[0]


def _joined(i: Importer, names: Sequence[str], axis: int) -> str:
    if len(names) == 1:
        return names[0]
    inputs = {f"x{number}": name for number, name in enumerate(names)}
    return i.node("concat", inputs, axis=axis)["y"]


def _glu(i: Importer, x: Any, dim: int = -1) -> str:
    """The first half, as far as the second one lets it through."""
    a, b = _split(i, x, i.shape(x)[dim] // 2, dim)
    gate = i.node("sigmoid_fw", {"x": b})["y"]
    return i.node("multiply", {"a": a, "b": gate})["y"]


def _cat(i: Importer, values: Sequence[Any], dim: int = 0) -> str:
    return joined(i, [i.name(value) for value in values], dim % len(i.shape(values[0])))


def _stack(i: Importer, values: Sequence[Any], dim: int = 0) -> str:
    return _cat(i, [Known(i, _unsqueeze(i, value, dim)) for value in values], dim)


class Known:
    """A value without a node of torch."""

    def __init__(self, i: Importer, name: str) -> None:
        i.known[self] = name


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(
    i: Importer, x: Any, pads: Sequence[int], mode: str = "constant", value: Any = None
) -> str:
    shape, name = i.shape(x), i.name(x)
    before, after = [0] * len(shape), [0] * len(shape)
    for number in range(len(pads) // 2):
        before[-1 - number], after[-1 - number] = pads[2 * number : 2 * number + 2]
    if mode != "constant":
        numbers = np.arange(prod(shape)).reshape(shape)
        sides = list(zip(before, after, strict=True))
        how: Any = MODES[mode]
        return gathered(i, name, np.pad(numbers, sides, how))
    if min(pads) < 0:
        start = [max(-n, 0) for n in before]
        ends = zip(shape, start, after, strict=True)
        name = part(i, name, start, tuple(n - a + min(b, 0) for n, a, b in ends))
        before, after = ([max(n, 0) for n in side] for side in (before, after))
    if not any((*before, *after)):
        return name
    own = {"before": tuple(before), "after": tuple(after), "value": float(value or 0.0)}
    return i.node("pad", {"x": name}, **own)["y"]


def _broadcast(i: Importer, values: Sequence[Any]) -> tuple[str, ...]:
    shape = np.broadcast_shapes(*(i.shape(value) for value in values))
    return tuple(expanded(i, i.name(value), shape) for value in values)


def _getitem(i: Importer, values: Any, index: int) -> Any:
    return i.known[values][index]


def _nothing(*_: Any, **__: Any) -> None:
    """A check that has been made."""


def _stopped(i: Importer, x: Any) -> str:
    return i.graph.stop(i.name(x))


def _same(i: Importer, x: Any, *_: Any, **__: Any) -> str:
    return i.name(x)


def _slice_scatter(
    i: Importer, x: Any, piece: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> str:
    """A value with one piece of it replaced: what is before and after that, around the other."""
    if step != 1:
        numbers = np.arange(prod(i.shape(x)), dtype=np.int32).reshape(i.shape(x))
        cut = tuple(slice(None) for _ in range(dim % numbers.ndim))
        return replaced(i, i.name(x), numbers[(*cut, slice(start, end, step))], i.name(piece))
    shape, dim = i.shape(x), dim % len(i.shape(x))
    first, last, _ = slice(start, end).indices(shape[dim])
    around = [i.name(piece)]
    if first > 0:
        around.insert(0, _slice(i, x, dim, 0, first))
    if last < shape[dim]:
        around.append(_slice(i, x, dim, last, shape[dim]))
    return joined(i, around, dim)


def replaced(i: Importer, x: str, places: np.ndarray, piece: str, *, adds: bool = False) -> str:
    """A value with others at places that are known, or with those added there.

    places    numbers of elements of x
    """
    shape = i.graph.values[x].shape
    rows = i.graph.reshaped(expanded(i, piece, places.shape), (places.size, 1))
    given = {"index": i.constant(places.reshape(-1).astype(np.int32)), "dy": rows}
    written = i.graph.reshaped(i.node("put", given, entries=prod(shape))["dtable"], shape)
    if not adds:
        stays = np.ones(prod(shape), np.float32)
        stays[places.reshape(-1)] = 0
        x = i.node("relu_bw", {"x": i.constant(stays.reshape(shape)), "dy": x})["dx"]
    return i.node("add", {"a": x, "b": written})["y"]


def _diagonal_scatter(
    i: Importer, x: Any, piece: Any, offset: int = 0, first: int = 0, second: int = 1
) -> str:
    numbers = np.arange(prod(i.shape(x))).reshape(i.shape(x))
    return replaced(i, i.name(x), np.diagonal(numbers, offset, first, second), i.name(piece))


def _select_scatter(i: Importer, x: Any, piece: Any, dim: int, index: int) -> str:
    index %= i.shape(x)[dim]
    return _slice_scatter(i, x, Known(i, _unsqueeze(i, piece, dim)), dim, index, index + 1)


def _filled(i: Importer, x: Any, value: Any, *_: Any) -> str:
    """Another value, or a number, in the shape of x."""
    is_number = isinstance(value, (int, float))
    return expanded(i, i.constant([float(value)]) if is_number else i.name(value), i.shape(x))


RULES: dict[str, Rule] = {
    "_assert_tensor_metadata": _nothing,
    "_unsafe_view": _view,
    "alias": _same,
    "broadcast_tensors": _broadcast,
    "cat": _cat,
    "chunk": lambda i, x, count, dim=0: _split(i, x, -(-i.shape(x)[dim] // count), dim),
    "clone": _same,
    "concat": _cat,
    "contiguous": _same,
    "copy": _filled,
    "detach": _stopped,
    "diagonal_scatter": _diagonal_scatter,
    "expand": lambda i, x, sizes, **_: expanded(i, i.name(x), sizes),
    "expand_as": lambda i, x, other: expanded(i, i.name(x), i.shape(other)),
    "fill.Scalar": _filled,
    "fill.Tensor": _filled,
    "flatten.using_ints": _flatten,
    "getitem": _getitem,
    "glu": _glu,
    "lift_fresh_copy": _same,
    "mT": lambda i, x: _transpose(i, x, -2, -1),
    "movedim.int": lambda i, x, a, b: _moved(i, x, a, b),
    "numpy_T": _t,
    "pad": _pad,
    "permute": _permute,
    "repeat": _repeat,
    "reshape": _view,
    "select.int": _select,
    "select_scatter": _select_scatter,
    "slice.Tensor": _slice,
    "slice_scatter": _slice_scatter,
    "split.Tensor": _split,
    "split.sizes": _pieces,
    "split_with_sizes": _pieces,
    "squeeze": _squeeze,
    "squeeze.dim": _squeeze,
    "squeeze.dims": _squeeze,
    "stack": _stack,
    "swapaxes": _transpose,
    "t": _t,
    "transpose.int": _transpose,
    "unbind.int": _unbind,
    "unflatten.int": _unflatten,
    "unsqueeze": _unsqueeze,
    "view": _view,
    "view_as": lambda i, x, other: _view(i, x, i.shape(other)),
}
