"""ONNX's operators that choose by integers, put in order, and write to places, as nodes."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers import aten_numbers, aten_pools
from trainlib.deploy.importers.aten_choices import chosen
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_layers import multiplied
from trainlib.deploy.importers.aten_order import taken
from trainlib.deploy.importers.aten_places import ones_at
from trainlib.deploy.importers.aten_shapes import Known, gathered, permuted, replaced
from trainlib.deploy.importers.aten_sums import multiplied_along
from trainlib.deploy.importers.onnx_elements import Attributes, Names, Rule, at, axes_of, text

NUMBERS, POOLS = aten_numbers.RULES, aten_pools.RULES
WRITTEN = ("none", "add")


def _place(name: str) -> Rule:
    """Of the largest or smallest element along an axis."""

    def rule(i: Importer, x: Names, a: Attributes) -> str:
        if a.get("select_last_index"):
            raise DeployError("select_last_index; it is the first of equal elements")
        return POOLS[name](i, x[0], a.get("axis", 0), bool(a.get("keepdims", 1)))

    return rule


def _largest(i: Any, x: Names, a: Attributes) -> tuple[str, str]:
    count = int(np.ravel(i.number(x[1]))[0])
    return taken(i, i.name(x[0]), count, a.get("axis", -1), largest=bool(a.get("largest", 1)))


def _one_hot(i: Any, x: Names, a: Attributes) -> str:
    """Two values: where no number says, and where one does."""
    low, high = (float(n) for n in np.ravel(i.number(x[2])))
    ones = ones_at(i, x[0], int(np.ravel(i.number(x[1]))[0]))
    rank = len(i.graph.values[ones].shape)
    axis = a.get("axis", -1) % rank
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    scaled = i.scaled(permuted(i, ones, tuple(order)), high - low)
    return i.node("add", {"a": scaled, "b": i.constant([low])})["y"] if low else scaled


def _hardmax(i: Importer, x: Names, a: Attributes) -> str:
    """1 at the first of the largest elements along an axis."""
    rank = len(i.shape(x[0]))
    axis = a.get("axis", -1) % rank
    ones = ones_at(i, Known(i, POOLS["argmax"](i, x[0], axis)), i.shape(x[0])[axis])
    return permuted(i, ones, (*range(axis), rank - 1, *range(axis, rank - 1)))


def _gather_elements(i: Importer, x: Names, a: Attributes) -> str:
    return NUMBERS["gather"](i, x[0], a.get("axis", 0), x[1])


def _gather_parts(i: Any, x: Names, a: Attributes) -> str:
    """Parts of a value at places along its first axes, which are known before the run."""
    shape, batch = i.shape(x[0]), a.get("batch_dims", 0)
    numbers = np.arange(prod(shape)).reshape(shape)
    places = i.number(x[1])
    if not batch:
        found = numbers[tuple(np.moveaxis(places, -1, 0))]
    else:
        flat = numbers.reshape(-1, *shape[batch:])
        each = places.reshape(flat.shape[0], *places.shape[batch:])
        parts = [part[tuple(np.moveaxis(own, -1, 0))] for part, own in zip(flat, each, strict=True)]
        found = np.stack(parts).reshape(*shape[:batch], *parts[0].shape)
    return gathered(i, i.name(x[0]), found.reshape(found.shape or (1,)))


def _is_added(a: Attributes) -> bool:
    """raises    DeployError for what is neither written nor added"""
    way = text(a.get("reduction", "none"))
    if way not in WRITTEN:
        raise DeployError(f"reduction {way}; there are {' and '.join(WRITTEN)}")
    return way == "add"


def _scatter_elements(i: Importer, x: Names, a: Attributes) -> str:
    name = "scatter_add" if _is_added(a) else "scatter.src"
    return NUMBERS[name](i, x[0], a.get("axis", 0), x[1], x[2])


def _scatter_parts(i: Any, x: Names, a: Attributes) -> str:
    """As `_gather_parts`: written there, or added."""
    shape, adds = i.shape(x[0]), _is_added(a)
    places = np.arange(prod(shape)).reshape(shape)[tuple(np.moveaxis(i.number(x[1]), -1, 0))]
    if len(set(places.flat)) < places.size and not adds:
        raise DeployError("a place that is written to twice; let each be there once")
    return replaced(i, i.name(x[0]), places, i.name(x[2]), adds=adds)


def _running_sum(i: Any, x: Names, a: Attributes) -> str:
    axis = int(np.ravel(i.number(x[1]))[0]) % len(i.shape(x[0]))
    ones = np.tri(i.shape(x[0])[axis], k=-int(bool(a.get("exclusive"))), dtype=np.float32)
    return multiplied(i, i.name(x[0]), axis, ones.T if a.get("reverse") else ones)


def _product(i: Any, x: Names, a: Attributes) -> str:
    shape, y = i.shape(x[0]), i.name(x[0])
    axes = [axis % len(shape) for axis in axes_of(i, x, a) or range(len(shape))]
    for axis in axes:
        y = multiplied_along(i, y, axis)
    if a.get("keepdims", 1):
        return y
    return i.graph.reshaped(y, tuple(n for axis, n in enumerate(shape) if axis not in axes) or (1,))


def _triangle(i: Any, x: Names, a: Attributes) -> str:
    """What is above a diagonal, or below it; 0 elsewhere."""
    shape = i.shape(x[0])
    first = int(np.ravel(i.number(x[1]))[0]) if at(x, 1) else 0
    cut = np.triu if a.get("upper", 1) else np.tril
    return chosen(i, cut(np.ones(shape, bool), first), x[0], 0.0)


RULES: dict[str, Rule] = {
    "ArgMax": _place("argmax"),
    "ArgMin": _place("argmin"),
    "CumSum": _running_sum,
    "GatherElements": _gather_elements,
    "GatherND": _gather_parts,
    "Hardmax": _hardmax,
    "OneHot": _one_hot,
    "ReduceProd": _product,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_parts,
    "TopK": _largest,
    "Trilu": _triangle,
}
