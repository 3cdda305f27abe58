"""ATen's operators by which integers choose: rows, elements along an axis, places to write to.

An integer that is computed, or comes with a batch, chooses by a row of zeros with one 1.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_choices import where
from trainlib.deploy.importers.aten_elements import kept, reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_pools import extreme
from trainlib.deploy.importers.aten_sequences import RULES as SEQUENCES
from trainlib.deploy.importers.aten_shapes import Known, expanded, gathered, part, permuted


def _ones_at(i: Importer, index: str, count: int) -> str:
    """1 at the place that each integer says, of so many, along an axis of its own, the last."""
    shape = i.graph.values[index].shape
    flat = i.graph.reshaped(index, (prod(shape),))
    table = i.constant(np.eye(count, dtype=np.float32))
    y = i.node("take", {"table": table, "index": flat})["y"]
    return i.graph.reshaped(y, (*shape, count))


def _one_hot(i: Importer, index: Any, count: int) -> str:
    return _ones_at(i, i.name(index), count)


def _gather(i: Importer, x: Any, dim: int, index: Any, **_: Any) -> str:
    """Elements along an axis: the others, of each place, times 0 by their bits, are added."""
    shape, name = i.shape(x), i.name(x)
    dim %= len(shape)
    if i.is_array(index):
        numbers, places = np.arange(prod(shape)).reshape(shape), i.array(index)
        box = tuple(slice(n) if a != dim else slice(None) for a, n in enumerate(places.shape))
        return gathered(i, name, np.take_along_axis(numbers[box], places, dim))
    own = i.shape(index)
    size = tuple(n if axis != dim else shape[dim] for axis, n in enumerate(own))
    order = (*(axis for axis in range(len(shape)) if axis != dim), dim)
    rows = permuted(i, part(i, name, (0,) * len(shape), size), order)
    ones = _ones_at(i, permuted(i, i.name(index), order), shape[dim])
    wanted = i.graph.values[ones].shape
    rows = i.graph.reshaped(rows, (*wanted[:-2], 1, shape[dim]))
    chosen = kept(i, ones, expanded(i, rows, wanted))
    y = reduced(i, chosen, len(wanted) - 1, False, "sum")
    return permuted(i, y, tuple(order.index(axis) for axis in range(len(shape))))


def _scatter(i: Importer, x: Any, dim: int, index: Any, value: Any, **_: Any) -> str:
    """A value at one place along an axis, for each place of the others."""
    shape, own = i.shape(x), i.shape(index)
    dim %= len(shape)
    if own[dim] != 1 or own != tuple(1 if a == dim else n for a, n in enumerate(shape)):
        raise DeployError(
            f"an index of {list(own)} for {list(shape)}; there is one place along the axis, for "
            f"all others: {[1 if a == dim else n for a, n in enumerate(shape)]}"
        )
    ones = _ones_at(i, i.graph.reshaped(i.name(index), own[:dim] + own[dim + 1 :]), shape[dim])
    last = len(shape) - 1
    order = (*range(dim), last, *range(dim, last))
    truth = permuted(i, ones, order) if dim != last else ones
    return where(i, Known(i, truth), value, x)


def _rows(i: Importer, x: Any, index: Any) -> str:
    """Rows of a value."""
    shape, own = i.shape(x), i.shape(index)
    table = i.graph.reshaped(i.name(x), (shape[0], prod(shape[1:])))
    flat = i.graph.reshaped(i.name(index), (prod(own),))
    y = i.node("take", {"table": table, "index": flat})["y"]
    return i.graph.reshaped(y, (*own, *shape[1:]))


def indexed(i: Importer, x: Any, indices: Sequence[Any]) -> str:
    """x[index], and x[range, index]: by integers that come with a batch.

    raises    DeployError for others
    """
    shape = i.shape(x)
    if len(indices) == 1:
        return _rows(i, x, indices[0])
    first, second, *others = indices
    if first is not None and second is not None and not others and len(shape) == 2:
        rows = i.array(first)
        if rows.shape == shape[:1] and (rows == np.arange(shape[0])).all():
            index = i.graph.reshaped(i.name(second), (shape[0], 1))
            y = _gather(i, x, 1, Known(i, index))
            return i.graph.reshaped(y, (shape[0],))
    raise DeployError(
        "integers of a batch choose rows, as x[index], or an element of each row of two axes, as "
        "x[torch.arange(len(x)), index]; for others take gather"
    )


def _bag(
    i: Importer,
    table: Any,
    index: Any,
    offsets: Any,
    _scale: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    weights: Any = None,
    last: bool = False,
    padding: Any = None,
) -> tuple[str, None, None, None]:
    """Rows of bags of the same size, together: their sum, their mean or the largest elements."""
    starts, count = i.array(offsets), prod(i.shape(index))
    starts = starts[:-1] if last else starts
    size = count // len(starts)
    if size * len(starts) != count or (np.diff(starts) != size).any():
        raise DeployError("bags of several sizes; give an index of two axes, a row for each bag")
    if padding is not None and padding >= 0 and mode:
        raise DeployError("a padding_idx of a mean or a maximum; a sum has one")
    y = SEQUENCES["embedding"](i, table, index, -1 if padding is None else padding)
    if padding is not None and padding >= 0:
        keeps = np.ones((i.shape(table)[0], 1), np.float32)
        keeps[padding] = 0
        kept_rows = _rows(i, Known(i, i.constant(keeps)), index)
        y = i.node("multiply", {"a": y, "b": i.graph.reshaped(kept_rows, (count, 1))})["y"]
    if weights is not None:
        own = i.graph.reshaped(i.name(weights), (count, 1))
        y = i.node("multiply", {"a": y, "b": own})["y"]
    bags = i.graph.reshaped(y, (len(starts), size, i.shape(table)[1]))
    if mode == 2:
        return extreme(i, bags, 1, False), None, None, None
    return reduced(i, bags, 1, False, ("sum", "mean")[mode]), None, None, None


def _bilinear(i: Importer, x: Any, y: Any, weight: Any, bias: Any = None) -> str:
    """A linear layer of all products of an element of each."""
    outputs, first, second = i.shape(weight)
    shape = i.shape(x)[:-1]
    a = i.graph.reshaped(i.name(x), (prod(shape), first, 1))
    b = i.graph.reshaped(i.name(y), (prod(shape), 1, second))
    products = i.node("multiply", {"a": a, "b": b})["y"]
    rows = i.graph.reshaped(products, (*shape, first * second))
    flat = i.graph.reshaped(i.name(weight), (outputs, first * second))
    given = {"X": rows, "W": flat, "bias": i.optional(bias)}
    return i.node("linear_fw", given)["Y"]


RULES: dict[str, Rule] = {
    "bilinear": _bilinear,
    "embedding_bag.padding_idx": _bag,
    "gather": _gather,
    "one_hot": _one_hot,
    "scatter.value": _scatter,
    "scatter_.value": _scatter,
}
