"""ATen's products and logarithms of sums along an axis, and distances of rows, as nodes."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import RULES as ACTIVATIONS
from trainlib.deploy.importers.aten_elements import reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_shapes import Known, joined, part


def _node(i: Importer, op: str, a: str, b: str) -> str:
    return i.node(op, {"a": a, "b": b})["y"]


def _cut(i: Importer, x: str, axis: int, first: int, last: int) -> str:
    shape = i.graph.values[x].shape
    start = tuple(first if n == axis else 0 for n in range(len(shape)))
    return part(i, x, start, tuple(last - first if n == axis else m for n, m in enumerate(shape)))


def multiplied_along(i: Importer, x: str, axis: int) -> str:
    """The product along an axis, which stays with one element: of halves, of those, and so on."""
    rest = list[str]()
    while (count := i.graph.values[x].shape[axis]) > 1:
        half = count // 2
        if count % 2:
            rest.append(_cut(i, x, axis, count - 1, count))
        x = _node(i, "multiply", _cut(i, x, axis, 0, half), _cut(i, x, axis, half, 2 * half))
    for other in rest:
        x = _node(i, "multiply", x, other)
    return x


def _product(i: Importer, x: Any, **_: Any) -> str:
    return multiplied_along(i, i.graph.reshaped(i.name(x), (prod(i.shape(x)),)), 0)


def _product_of_axis(i: Importer, x: Any, dim: int, keepdim: bool = False, **_: Any) -> str:
    shape = i.shape(x)
    dim %= len(shape)
    y = multiplied_along(i, i.name(x), dim)
    own = shape[:dim] + (1,) * keepdim + shape[dim + 1 :] or (1,)
    return i.graph.reshaped(y, own)


def _running_product(i: Importer, x: Any, dim: int, **_: Any) -> str:
    """One element after the other."""
    count = i.shape(x)[dim]
    dim %= len(i.shape(x))
    each = [_cut(i, i.name(x), dim, n, n + 1) for n in range(count)]
    for n in range(1, count):
        each[n] = _node(i, "multiply", each[n - 1], each[n])
    return joined(i, each, dim)


def _running_logsumexp(i: Importer, x: Any, dim: int) -> str:
    """Of rows that have all that is before each element, and nothing of what is after it."""
    shape = i.shape(x)
    dim %= len(shape)
    n = shape[dim]
    apart = i.graph.reshaped(i.name(x), (*shape[:dim], 1, *shape[dim:]))
    late = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    shut = i.constant(late.reshape(n, n, *(1 for _ in shape[dim + 1 :])))
    rows = _node(i, "add", apart, shut)
    return str(ACTIVATIONS["logsumexp"](i, Known(i, rows), dim + 1))


def _distances(i: Importer, a: Any, b: Any, order: float = 2.0, *_: Any) -> str:
    """Of all rows of one value to all of another: of equal ones there is no gradient.

    raises    DeployError for other orders than 1 and 2
    """
    if order not in (1, 2):
        raise DeployError(f"a distance of order {order}; there are 1 and 2")
    left, right = i.shape(a), i.shape(b)
    rows = i.graph.reshaped(i.name(a), (*left[:-1], 1, left[-1]))
    columns = i.graph.reshaped(i.name(b), (*right[:-2], 1, *right[-2:]))
    away = _node(i, "subtract", rows, columns)
    last = len(i.graph.values[away].shape) - 1
    if order == 1:
        return reduced(i, i.node("abs_fw", {"x": away})["y"], last, False, "sum")
    total = reduced(i, _node(i, "multiply", away, away), last, False, "sum")
    return i.node("sqrt", {"x": total}, is_of_squares=True)["y"]


RULES: dict[str, Rule] = {
    "cdist": _distances,
    "cumprod": _running_product,
    "logcumsumexp": _running_logsumexp,
    "prod": _product,
    "prod.dim_int": _product_of_axis,
}
