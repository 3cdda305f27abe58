"""ATen's operators by which integers choose: rows, elements along an axis, places to write to.

An integer that is computed, or comes with a batch, chooses by a row of zeros with one 1. Integers
that are computed are floats without a fraction, but for places of largest elements.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped
from trainlib.deploy.importers.aten_choices import where
from trainlib.deploy.importers.aten_elements import kept, reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_layers import product
from trainlib.deploy.importers.aten_places import ones_at, rows_of
from trainlib.deploy.importers.aten_pools import extreme
from trainlib.deploy.importers.aten_sequences import RULES as SEQUENCES
from trainlib.deploy.importers.aten_shapes import (
    Known,
    expanded,
    gathered,
    part,
    permuted,
    replaced,
)


def _one_hot(i: Importer, index: Any, count: int) -> str:
    return ones_at(i, index, count)


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
    order = _to_last(len(shape), dim)
    rows = permuted(i, part(i, name, (0,) * len(shape), size), order)
    ones = ones_at(i, Known(i, permuted(i, i.name(index), order)), shape[dim])
    wanted = i.graph.values[ones].shape
    y = chosen_by(i, ones, i.graph.reshaped(rows, (*wanted[:-2], 1, shape[dim])))
    return permuted(i, y, _back(order))


def _to_last(rank: int, dim: int) -> tuple[int, ...]:
    """Axes with one of them last."""
    return (*(axis for axis in range(rank) if axis != dim), dim)


def _back(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def chosen_by(i: Importer, ones: str, x: str) -> str:
    """The element along the last axis at each one; x is broadcast."""
    wanted = i.graph.values[ones].shape
    chosen = kept(i, ones, expanded(i, x, wanted))
    return reduced(i, chosen, len(wanted) - 1, False, "sum")


def _placed(i: Importer, x: Any, dim: int, index: Any, value: Any = None) -> tuple[str, str, str]:
    """What is written, with zeros elsewhere, 1 where something is, and how often that is.

    raises    DeployError for an index that leaves some of the other axes out
    """
    shape, own = i.shape(x), i.shape(index)
    dim %= len(shape)
    if own[:dim] + own[dim + 1 :] != shape[:dim] + shape[dim + 1 :]:
        raise DeployError(
            f"an index of {list(own)} for {list(shape)}; all axes but the one that places are "
            f"along, {dim}, are as long as those of what is written to"
        )
    order = _to_last(len(shape), dim)
    known = i.array(index).transpose(order) if i.is_array(index) else None
    turned = permuted(i, i.name(index), order) if known is None else i.constant(known)
    ones = ones_at(i, Known(i, turned), shape[dim])
    last, way = len(shape) - 1, _back(order)
    count = i.graph.stop(reduced(i, ones, last, False, "sum"))
    some = i.graph.stop(clamped(i, count, None, 1.0))
    where_some = permuted(i, some, way), permuted(i, count, way)
    if value is None:
        return where_some[0], *where_some
    source = permuted(i, i.name(value), order)
    source = i.graph.reshaped(source, (*own[:dim], *own[dim + 1 :], own[dim], 1))
    written = kept(i, ones, expanded(i, source, i.graph.values[ones].shape))
    return permuted(i, reduced(i, written, last, False, "sum"), way), *where_some


def _scatter(i: Importer, x: Any, dim: int, index: Any, value: Any, **_: Any) -> str:
    """A number, or a value's elements, at places along an axis."""
    if isinstance(value, (int, float)):
        return where(i, Known(i, _placed(i, x, dim, index)[1]), value, x)
    written, some, *_count = _placed(i, x, dim, index, value)
    rest = where(i, Known(i, some), 0.0, x)
    return i.node("add", {"a": rest, "b": written})["y"]


def _scatter_add(i: Importer, x: Any, dim: int, index: Any, value: Any) -> str:
    return i.node("add", {"a": i.name(x), "b": _placed(i, x, dim, index, value)[0]})["y"]


def _index_add(i: Importer, x: Any, dim: int, index: Any, value: Any, *, alpha: float = 1) -> str:
    """Parts of a value added to parts of another: a product with ones."""
    shape, own = i.shape(x), i.shape(value)
    dim %= len(shape)
    order = (dim, *(axis for axis in range(len(shape)) if axis != dim))
    parts = i.graph.reshaped(permuted(i, i.name(value), order), (own[dim], prod(own) // own[dim]))
    ones = ones_at(i, index, shape[dim])
    y = product(i, permuted(i, ones, (1, 0)), parts)
    y = i.graph.reshaped(y, (shape[dim], *shape[:dim], *shape[dim + 1 :]))
    added = i.scaled(permuted(i, y, _back(order)), alpha)
    return i.node("add", {"a": i.name(x), "b": added})["y"]


def _index_put(
    i: Importer, x: Any, indices: Sequence[Any], value: Any, accumulate: bool = False
) -> str:
    """Where a mask is true, or at places that are known before the run, another value, or one more.

    raises    DeployError for a place that is written to twice, and for what is computed otherwise
    """
    shape, first = i.shape(x), indices[0]
    if len(indices) == 1 and not i.is_array(first) and i.is_truth(first):
        if i.graph.values[i.name(value)].elements > 1 or accumulate:
            raise DeployError(
                "several values where a mask is true: how many it takes is not known; take "
                "torch.where"
            )
        own = (*i.shape(first), *(1 for _ in shape[len(i.shape(first)) :]))
        return where(i, Known(i, i.graph.reshaped(i.name(first), own)), value, x)
    numbers = np.arange(prod(shape)).reshape(shape)
    places = numbers[tuple(slice(None) if n is None else i.array(n) for n in indices)]
    if len(set(places.flat)) < places.size and not accumulate:
        raise DeployError("a place that is written to twice; let each be there once")
    return replaced(i, i.name(x), places, i.name(value), adds=accumulate)


def _scatter_reduce(
    i: Importer, x: Any, dim: int, index: Any, value: Any, reduce: str, *, include_self: bool = True
) -> str:
    """Sums and means.

    raises    DeployError for others
    """
    if reduce not in ("sum", "mean"):
        raise DeployError(f"reduce={reduce!r}; there are sum and mean")
    written, some, count = _placed(i, x, dim, index, value)
    before = i.name(x) if include_self else where(i, Known(i, some), 0.0, x)
    total = i.node("add", {"a": before, "b": written})["y"]
    if reduce == "sum":
        return total
    own = (
        i.constant([1.0])
        if include_self
        else i.node("subtract", {"a": i.constant([1.0]), "b": some})["y"]
    )
    whole = i.graph.stop(i.node("add", {"a": count, "b": own})["y"])
    return i.node("divide", {"a": total, "b": whole})["y"]


def _rows(i: Importer, x: Any, index: Any) -> str:
    """Rows of a value."""
    shape, own = i.shape(x), i.shape(index)
    table = i.graph.reshaped(i.name(x), (shape[0], prod(shape[1:])))
    y = rows_of(i, table, i.graph.reshaped(i.name(index), (prod(own),)))
    return i.graph.reshaped(y, (*own, *shape[1:]))


def along(i: Importer, x: Any, dim: int, index: Any) -> str:
    """Parts of a value along an axis."""
    shape, own = i.shape(x), i.shape(index)
    dim %= len(shape)
    order = (dim, *(axis for axis in range(len(shape)) if axis != dim))
    y = _rows(i, Known(i, permuted(i, i.name(x), order)), index)
    count = len(own)
    places = list(range(count, count + len(shape) - 1))
    return permuted(i, y, (*places[:dim], *range(count), *places[dim:]))


def indexed(i: Importer, x: Any, indices: Sequence[Any]) -> str:
    """x[index], x[:, index], and x[range, index]: by integers that are not known before the run.

    raises    DeployError for others
    """
    shape = i.shape(x)
    given = [axis for axis, index in enumerate(indices) if index is not None]
    if len(given) == 1:
        return along(i, x, given[0], indices[given[0]])
    if given == [0, 1] and i.is_array(indices[0]):
        rows, second = i.array(indices[0]), indices[1]
        if rows.shape == shape[:1] and (rows == np.arange(shape[0])).all():
            ones = ones_at(i, Known(i, i.graph.reshaped(i.name(second), shape[:1])), shape[1])
            table = i.graph.reshaped(i.name(x), (*shape[:2], prod(shape[2:])))
            ones = i.graph.reshaped(ones, (*shape[:2], 1))
            y = reduced(i, kept(i, *_both(i, ones, table)), 1, False, "sum")
            return i.graph.reshaped(y, (shape[0], *shape[2:]))
    raise DeployError(
        "integers of a batch choose along one axis, as x[:, index], or for each row, as "
        "x[torch.arange(len(x)), index]; for others take gather"
    )


def _both(i: Importer, *names: str) -> tuple[str, ...]:
    """Values in the shape of both."""
    shape = np.broadcast_shapes(*(i.graph.values[name].shape for name in names))
    return tuple(expanded(i, name, shape) for name in names)


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
    "index_add": _index_add,
    "index_put": _index_put,
    "one_hot": _one_hot,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
    "take_along_dim": lambda i, x, index, dim: _gather(i, x, dim, index),
}
