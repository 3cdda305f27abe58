"""ATen's pools as nodes, and what pools compute: maxima and minima along an axis."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_importer import Importer, Rule, both, pair
from trainlib.deploy.importers.aten_layers import multiplied
from trainlib.deploy.importers.aten_shapes import Known, joined, part


def _max_pool(
    i: Importer,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> str:
    """What a last window reaches beyond the input, with ceil_mode, is never the largest."""
    if pair(dilation) != (1, 1):
        raise DeployError("a dilation; the kernel has none: leave it out")
    stride = stride or kernel
    name = _reaching(i, x, kernel, stride, padding) if ceil_mode else i.name(x)
    return _pool(i, "maxpool2d_fw", name, kernel, stride, padding)


def _reaching(i: Importer, x: Any, kernel: Any, stride: Any, padding: Any) -> str:
    """The input with as much after it as the last windows take."""
    after = _beyond(i, x, kernel, stride, padding)
    if not any(after):
        return i.name(x)
    how = {"before": (0,) * len(after), "after": tuple(after), "value": float("-inf")}
    return i.node("pad", {"x": i.name(x)}, **how)["y"]


def _beyond(i: Importer, x: Any, kernel: Any, stride: Any, padding: Any) -> list[int]:
    """What the last windows take after the input and its padding, of each axis."""
    shape = i.shape(x)
    after = [0] * len(shape)
    for axis in range(2, len(shape)):
        side = axis - len(shape)
        n, k, s, p = shape[axis], pair(kernel)[side], pair(stride)[side], pair(padding)[side]
        after[axis] = max((_windows_beyond(n, k, s, p) - 1) * s + k - n - 2 * p, 0)
    return after


def _windows_beyond(n: int, k: int, s: int, p: int) -> int:
    """Windows along an axis with ceil_mode: the last one may reach beyond, but not begin there."""
    windows = -(-(n + 2 * p - k) // s) + 1
    return windows - ((windows - 1) * s >= n + p)


def _averages(
    i: Importer, x: Any, how: tuple[Any, Any, Any], counts_pad: bool, divisor: Any
) -> str:
    """Averages with ceil_mode: for each axis, a product with shares of what lies in windows."""
    y, shape = i.name(x), i.shape(x)
    for axis in range(2, len(shape)):
        k, s, p = (pair(value)[axis - len(shape)] for value in how)
        n = shape[axis]
        shares = np.zeros((_windows_beyond(n, k, s, p), n), np.float32)
        for number, row in enumerate(shares):
            first = number * s - p
            end = min(first + k, n + p)
            inside = slice(max(first, 0), min(end, n))
            count = end - first if counts_pad else inside.stop - inside.start
            row[inside] = 1 if divisor is not None else 1 / count
        y = multiplied(i, y, axis, shares)
    return y if divisor is None else i.scaled(y, 1 / divisor)


def _avg_pool(
    i: Importer,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    counts_pad: bool = True,
    divisor: Any = None,
) -> str:
    stride = stride or kernel
    if ceil_mode and any(_beyond(i, x, kernel, stride, padding)):
        return _averages(i, x, (kernel, stride, padding), counts_pad, divisor)
    if divisor is None:
        return _pool(i, "avgpool2d_fw", i.name(x), kernel, stride, padding, counts_pad=counts_pad)
    y = _pool(i, "avgpool2d_fw", i.name(x), kernel, stride, padding, counts_pad=True)
    return i.scaled(y, prod(pair(kernel)) / divisor)


def _pool(
    i: Importer, op: str, name: str, kernel: Any, stride: Any, padding: Any, **more: Any
) -> str:
    shape = i.graph.values[name].shape
    is_line = len(shape) == 3
    if is_line:
        name = i.graph.reshaped(name, (*shape[:2], 1, shape[2]))
    kernel, stride, pad = (both(v, is_line, n) for v, n in ((kernel, 1), (stride, 1), (padding, 0)))
    y = i.node(op, {"x": name}, kernel=kernel, stride=stride, pad=pad, **more)["y"]
    shape = i.graph.values[y].shape
    return i.graph.reshaped(y, (*shape[:2], shape[3])) if is_line else y


def _windows(i: Importer, x: Any, size: Any) -> tuple[list[int], list[int]]:
    """Sizes of results, and of windows where all are of one size, else 0."""
    sizes = i.shape(x)[2:]
    wanted = [size] * len(sizes) if isinstance(size, int) else list(size)
    wanted = [n if m is None else m for n, m in zip(sizes, wanted, strict=True)]
    return wanted, [0 if n % m else n // m for n, m in zip(sizes, wanted, strict=True)]


def _adaptive_average(i: Importer, x: Any, size: Any) -> str:
    wanted, windows = _windows(i, x, size)
    if all(windows):
        return _pool(i, "avgpool2d_fw", i.name(x), windows, windows, 0)
    y = i.name(x)
    for axis, m in enumerate(wanted, 2):
        y = _averaged(i, y, axis, m)
    return y


def _averaged(i: Importer, x: str, axis: int, count: int) -> str:
    """Windows of any sizes along an axis: a product with their shares."""
    n = i.graph.values[x].shape[axis]
    shares = np.zeros((count, n), np.float32)
    for number in range(count):
        first, end = _window(n, count, number)
        shares[number, first:end] = 1 / (end - first)
    return multiplied(i, x, axis, shares)


def _adaptive_max(i: Importer, x: Any, size: Any) -> tuple[str, None]:
    """Along lines first: of equal elements the first one gets the gradient, as in PyTorch."""
    wanted, windows = _windows(i, x, size)
    if all(windows):
        return _pool(i, "maxpool2d_fw", i.name(x), windows, windows, 0), None
    y = i.name(x)
    for axis in reversed(range(2, 2 + len(wanted))):
        y = _largest(i, y, axis, wanted[axis - 2])
    return y, None


def _largest(i: Importer, x: str, axis: int, count: int) -> str:
    """Of windows of any sizes along an axis: each by itself, put together."""
    shape, found = i.graph.values[x].shape, []
    for number in range(count):
        first, end = _window(shape[axis], count, number)
        begin, own, kernel = [0] * len(shape), list(shape), [1] * (len(shape) - 2)
        begin[axis], own[axis], kernel[axis - 2] = first, end - first, end - first
        found.append(_pool(i, "maxpool2d_fw", part(i, x, begin, own), kernel, 1, 0))
    return joined(i, found, axis)


def _largest_of_axis(i: Importer, x: Any, dim: int, keepdim: bool = False) -> tuple[str, str]:
    """As of one window: of equal elements the first one gets the gradient, as in PyTorch."""
    return extremes(i, i.name(x), dim, keepdim)


def _smallest_of_axis(i: Importer, x: Any, dim: int, keepdim: bool = False) -> tuple[str, str]:
    """The negative of the largest of the negative elements."""
    y, index = extremes(i, i.scaled(i.name(x), -1), dim, keepdim)
    return i.scaled(y, -1), index


def extreme(i: Importer, x: str, dim: int, keepdim: bool) -> str:
    """The largest elements along an axis."""
    return extremes(i, x, dim, keepdim)[0]


def extremes(i: Importer, x: str, dim: int, keepdim: bool) -> tuple[str, str]:
    """The largest elements along an axis, and their places: those of the last axis are integers.

    Elsewhere the pool's numbers are of a plane, whose width they are divided by.
    """
    shape = i.graph.values[x].shape
    dim %= len(shape)
    before, width = prod(shape[:dim]), prod(shape[dim + 1 :])
    image = i.graph.reshaped(x, (1, before, shape[dim], width))
    found = i.node("maxpool2d_fw", {"x": image}, kernel=(shape[dim], 1), stride=(1, 1), pad=(0, 0))
    index = found["index"]
    if width > 1:
        first = i.constant(np.arange(width, dtype=np.float32))
        index = i.node("subtract", {"a": index, "b": first})["y"]
        index = i.graph.stop(i.node("divide", {"a": index, "b": i.constant([float(width)])})["y"])
    own = shape[:dim] + (1,) * keepdim + shape[dim + 1 :] or (1,)
    return i.graph.reshaped(found["y"], own), i.graph.reshaped(index, own)


def _place(i: Importer, x: Any, dim: int | None = None, keepdim: bool = False) -> str:
    """Of the largest element along an axis, or of all: the first of equal ones."""
    shape = i.shape(x)
    if dim is not None:
        return extremes(i, i.name(x), dim, keepdim)[1]
    place = extremes(i, i.graph.reshaped(i.name(x), (prod(shape),)), 0, False)[1]
    return i.graph.reshaped(place, (1,) * (len(shape) if keepdim else 1))


def _place_of_least(i: Importer, x: Any, dim: int | None = None, keepdim: bool = False) -> str:
    return _place(i, Known(i, i.scaled(i.name(x), -1)), dim, keepdim)


def _window(size: int, count: int, number: int) -> tuple[int, int]:
    """Where one of several windows starts and ends, as PyTorch cuts them."""
    return number * size // count, -(-(number + 1) * size // count)


def _in_batches(name: str, rule: Rule) -> dict[str, Rule]:
    """A rule for lines and one for images, each of several channels: for one alone, too."""

    def of(axes: int) -> Rule:
        def own(i: Importer, x: Any, *how: Any, **named: Any) -> Any:
            shape = i.shape(x)
            if len(shape) == axes + 2:
                return rule(i, x, *how, **named)
            found = rule(i, Known(i, i.graph.reshaped(i.name(x), (1, *shape))), *how, **named)
            first, *others = found if isinstance(found, tuple) else (found,)
            y = i.graph.reshaped(first, i.graph.values[first].shape[1:])
            return (y, *others) if others else y

        return own

    return {f"{name}{axes}d": of(axes) for axes in (1, 2)}


RULES: dict[str, Rule] = {
    **_in_batches("adaptive_avg_pool", _adaptive_average),
    **_in_batches("adaptive_max_pool", _adaptive_max),
    **_in_batches("avg_pool", _avg_pool),
    **_in_batches("max_pool", _max_pool),
    "argmax": _place,
    "argmin": _place_of_least,
    "max.dim": _largest_of_axis,
    "min.dim": _smallest_of_axis,
}
