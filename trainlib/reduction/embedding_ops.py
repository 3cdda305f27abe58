"""Embedding as a primitive, forward and backward."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.elementwise.rounded_sums import rounded_sums
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import INT32, WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import UNIT, tiled
from trainlib.reduction.embedding import embedding_bw_f32, embedding_fw_f32
from trainlib.reduction.row_reduction import Split
from trainlib.reference import embedding as reference
from trainlib.reference.halves import rounded_once

RATE = 2.0  # elements of tokens per cycle, nearly


class EmbeddingArguments(TiledArguments):
    """A table of entries x columns; tokens are numbers of entries.

    split     what is partitioned: tokens ("rows"), parts of each row ("columns"), or what is best
    unroll    elements that are moved side by side
    """

    entries: PositiveInt
    columns: PositiveInt
    tokens: PositiveInt
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _expected_forward(_: Element, point: Any, values: Arrays) -> dict[str, Expected]:
    return {"y": (values["table"].astype(np.float64)[values["index"]], 0.0)}


def _expected_backward(element: Element, point: Any, values: Arrays) -> dict[str, Expected]:
    result = reference.backward(values["index"], values["dy"], point.entries)
    return rounded_once(element.dtype, {"dtable": result})


def _emit_forward(k: Kernel, team: Team, point: Any, l1: Addresses, **more: Any) -> None:
    at = l1["table"], l1["index"], l1["y"], point.tokens, point.columns
    more |= {"entries": point.entries, "split": point.split, "unroll": point.unroll}
    embedding_fw_f32(k, team, *at, **more)


def _emit_backward(k: Kernel, team: Team, point: Any, l1: Addresses, **more: Any) -> None:
    at = l1["index"], l1["dy"], l1["dtable"]
    shape = point.tokens, point.columns, point.entries
    embedding_bw_f32(k, team, *at, *shape, unroll=point.unroll, **more)


@dataclass(frozen=True)
class Beginning:
    """The entries of a tile: its code knows if they are the first ones."""

    dim: str

    def of(self, there: range) -> range:
        """They themselves."""
        return there

    def phase(self, there: range) -> int:
        """0: the first ones."""
        return int(there.start > 0)


@contextmanager
def _first_entry(
    k: Kernel, team: Team, tile: TileShape, l1: Addresses, name: str, *, is_done: bool
) -> Iterator[Register]:
    """The number of the tile's first entry, a word in L1 that moves on when they are done."""
    begins = tile.part(name).phase[0] == 0
    with k.scope():
        first = k.x()
        if begins:
            k.li(first, 0)
        else:
            k.set(first, l1["place"])
            k.lw(first, 0, first)
        yield first
    if is_done:
        team.barrier()
        with team.only(0), k.scope():
            value, place = k.x(2)
            k.set(place, l1["place"])
            if begins:
                k.li(value, 0)
            else:
                k.lw(value, 0, place)
            with k.scope():
                k.add_constant(value, value, tile["entries"], k.x())
            k.sw(value, 0, place)


@dataclass(frozen=True)
class Direction:
    """Forward or backward.

    stem      of the name
    names     of its tensors, the last is the result
    summed    dimension whose tiles the result is made of
    rate      elements per cycle and entry, nearly
    emit      emits it in L1; told of a tile's first entry, and whether the result is added to
    """

    stem: str
    table: str
    y: str
    names: tuple[str, ...]
    summed: str
    rate: float
    meaning: Callable[..., dict[str, Expected]]
    emitter: Callable[..., None]
    element: Element = F32

    def expected(self, point: Any, values: Arrays) -> dict[str, Expected]:
        """The result."""
        return self.meaning(self.element, point, values)

    def emit(self, k: Kernel, team: Team, point: Any, l1: Addresses, **more: Any) -> None:
        """Emit all of it, or a tile."""
        self.element.check(k, self.stem)
        self.emitter(k, team, point, l1, element=self.element, **more)

    def tensors(self, point: Any) -> Tensors:
        """Operands by name; the last is the result."""
        roles: dict[str, Role] = dict.fromkeys(self.names, "in")
        roles[self.names[-1]] = "out"
        of = {
            self.table: packed((point.entries, point.columns), roles[self.table], self.element),
            "index": Tensor((point.tokens,), dtype=INT32, below=point.entries, is_index=True),
            self.y: packed((point.tokens, point.columns), roles[self.y], self.element),
        }
        return {name: of[name] for name in self.names}

    def dims(self, point: Any) -> list[Dim]:
        """Columns, then what is summed up last."""
        order = "columns", "entries" if self.summed == "tokens" else "tokens", self.summed
        units = {"columns": UNIT}
        dims = [Dim(name, getattr(point, name), units.get(name, 1)) for name in order]
        return [*dims[:-1], replace(dims[-1], is_summed=True)]

    def boxes(self, _: Any) -> dict[str, list[Axis]]:
        """What a tile has."""
        of: dict[str, list[Axis]] = {
            self.table: [Beginning("entries"), "columns"],
            "index": ["tokens"],
            self.y: ["tokens", "columns"],
        }
        return {name: of[name] for name in self.names}

    def emit_part(
        self, k: Kernel, team: Team, point: Any, part: Any, tile: TileShape, l1: Addresses
    ) -> None:
        """Emit a tile."""
        is_gradient = self.summed == "tokens"
        more: dict[str, Any] = {"accumulate": not tile.is_first} if is_gradient else {}
        if part.entries == point.entries:
            self.emit(k, team, part, l1, **more)
            return
        is_done = tile.is_last if is_gradient else True
        with _first_entry(k, team, tile, l1, self.table, is_done=is_done) as first:
            self.emit(k, team, part, l1, first=first, **more)

    def family(self) -> Family:
        """With its tiles."""
        of = self.tensors, self.expected, no_macs, self.emit
        family = tiled(
            Family(f"{self.stem}_{self.element.name}", EmbeddingArguments, *of),
            *(self.dims, self.boxes, _smaller, {"place": WORD}, self.emit_part),
            tells_last=self.summed == "tokens",
            rate=lambda point: self.rate * point.entries,
        )
        return rounded_sums(family, self.element, ["dtable"]) if self.y == "dy" else family


def _smaller(_: Any, shape: TileShape) -> dict[str, Any]:
    return {name: shape[name] for name in ("columns", "tokens", "entries")}


FORWARD = Direction(
    *("embedding_fw", "table", "y", ("table", "index", "y"), "entries", RATE),
    *(_expected_forward, _emit_forward),
)
BACKWARD = Direction(
    *("embedding_bw", "dtable", "dy", ("index", "dy", "dtable"), "tokens", RATE / 8),
    *(_expected_backward, _emit_backward),
)
FAMILIES = tuple(
    replace(direction, element=element).family()
    for element in ELEMENTS
    for direction in (FORWARD, BACKWARD)
)
