"""ATen's operators that put elements in order, or take the largest of them, as nodes.

Those that are taken are chosen by ones at their places, which no gradient goes through.
"""

from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped
from trainlib.deploy.importers.aten_choices import above, differs, negation, where
from trainlib.deploy.importers.aten_elements import kept, reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_numbers import chosen_by
from trainlib.deploy.importers.aten_places import ones_at
from trainlib.deploy.importers.aten_pools import extremes
from trainlib.deploy.importers.aten_shapes import Known, joined, permuted

FEW, SHORT = 4, 32
"""So many are taken one by one, of more than so many; others by how many each is below."""
LEAST = -3e38


def _one_by_one(i: Importer, x: str, count: int) -> str:
    """Ones at the largest elements of the last axis, [..., count, n]: what is taken is -infinity
    from there on, and less than all that is not.
    """
    shape, left, found = i.graph.values[x].shape, clamped(i, x, LEAST, None), list[str]()
    for _ in range(count):
        ones = ones_at(i, Known(i, extremes(i, left, -1, False)[1]), shape[-1])
        found.append(i.graph.reshaped(ones, (*shape[:-1], 1, shape[-1])))
        truth = i.graph.reshaped(ones, shape)
        left = where(i, Known(i, truth), -np.inf, Known(i, left))
    return i.graph.stop(joined(i, found, len(shape) - 1))


def _by_rank(i: Importer, x: str, count: int) -> str:
    """The same: an element's rank is how many are above it, or equal and before it."""
    *outer, n = i.graph.values[x].shape
    own, other = (i.graph.reshaped(x, (*outer, *size)) for size in ((n, 1), (1, n)))
    earlier = np.tri(n, k=-1, dtype=np.float32)
    parts = (
        (_is_above(i, other, own), i.constant(1 - earlier)),
        (negation(i, _is_above(i, own, other)), i.constant(earlier)),
    )
    sums = [i.node("multiply", dict(zip("ab", pair, strict=True)))["y"] for pair in parts]
    ahead = i.node("add", dict(zip("ab", sums, strict=True)))["y"]
    rank = i.graph.reshaped(reduced(i, ahead, len(outer) + 1, False, "sum"), (*outer, 1, n))
    places = i.constant(np.arange(count, dtype=np.float32).reshape(-1, 1))
    return i.graph.stop(negation(i, differs(i, rank, places)))


def _is_above(i: Importer, a: str, b: str) -> str:
    """As `above`; infinities are not above themselves: their difference is NaN, which is kept."""
    is_not = negation(i, above(i, a, b))
    ones = i.constant(np.ones(i.graph.values[is_not].shape, np.float32))
    return i.graph.stop(negation(i, kept(i, is_not, ones)))


def taken(i: Importer, x: str, count: int, dim: int, *, largest: bool = True) -> tuple[str, str]:
    """The largest or smallest elements along an axis in order, and their places, as floats."""
    rank = len(i.graph.values[x].shape)
    dim %= rank
    order = (*(axis for axis in range(rank) if axis != dim), dim)
    turned = permuted(i, x, order)
    key = i.graph.stop(turned if largest else i.node("neg", {"x": turned})["y"])
    is_one_by_one = count <= FEW and i.graph.values[turned].shape[-1] > SHORT
    ones = (_one_by_one if is_one_by_one else _by_rank)(i, key, count)
    *outer, _, n = i.graph.values[ones].shape
    y = chosen_by(i, ones, i.graph.reshaped(turned, (*outer, 1, n)))
    numbers = i.constant(np.arange(n, dtype=np.float32).reshape(1, n))
    places = i.graph.reshaped(i.node("linear_fw", {"X": ones, "W": numbers})["Y"], (*outer, count))
    back = tuple(order.index(axis) for axis in range(rank))
    return permuted(i, y, back), i.graph.stop(permuted(i, places, back))


def _topk(
    i: Importer, x: Any, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True
) -> tuple[str, str]:
    return taken(i, i.name(x), k, dim, largest=largest)


def _sort(i: Importer, x: Any, dim: int = -1, descending: bool = False) -> tuple[str, str]:
    return taken(i, i.name(x), i.shape(x)[dim], dim, largest=descending)


def _sort_stably(
    i: Importer, x: Any, *, stable: bool = True, dim: int = -1, descending: bool = False
) -> tuple[str, str]:
    return _sort(i, x, dim, descending)


def _median(i: Importer, x: Any) -> str:
    """The lower of two in the middle."""
    flat = i.graph.reshaped(i.name(x), (i.graph.values[i.name(x)].elements,))
    return _kth(i, Known(i, flat), (i.graph.values[flat].elements + 1) // 2, 0, True)[0]


def _kth(i: Importer, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[str, str]:
    """The kth smallest element along an axis."""
    shape = i.shape(x)
    dim %= len(shape)
    start = tuple(k - 1 if axis == dim else 0 for axis in range(len(shape)))
    size = tuple(1 if axis == dim else n for axis, n in enumerate(shape))
    own = size if keepdim else shape[:dim] + shape[dim + 1 :] or (1,)
    found = taken(i, i.name(x), k, dim, largest=False)
    last = tuple(i.node("slice", {"x": name}, start=start, size=size)["y"] for name in found)
    return i.graph.reshaped(last[0], own), i.graph.stop(i.graph.reshaped(last[1], own))


def _quantile(
    i: Importer,
    x: Any,
    q: float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> str:
    """Between two elements in order, by the share that lies between them."""
    if interpolation != "linear":
        raise DeployError(f"interpolation={interpolation!r}; there is linear")
    if dim is None:
        x, dim = Known(i, i.graph.reshaped(i.name(x), (i.graph.values[i.name(x)].elements,))), 0
    place = q * (i.shape(x)[dim] - 1)
    first = int(place)
    low = _kth(i, x, first + 1, dim, keepdim)[0]
    if place == first:
        return low
    high = _kth(i, x, first + 2, dim, keepdim)[0]
    parts = i.scaled(low, 1 - (place - first)), i.scaled(high, place - first)
    return i.node("add", dict(zip("ab", parts, strict=True)))["y"]


def _median_of_axis(i: Importer, x: Any, dim: int, keepdim: bool = False) -> tuple[str, str]:
    return _kth(i, x, (i.shape(x)[dim] + 1) // 2, dim, keepdim)


RULES: dict[str, Rule] = {
    "argsort": lambda i, *of: _sort(i, *of)[1],
    "kthvalue": _kth,
    "median": _median,
    "median.dim": _median_of_axis,
    "quantile.scalar": _quantile,
    "sort": _sort,
    "sort.stable": _sort_stably,
    "topk": _topk,
}
