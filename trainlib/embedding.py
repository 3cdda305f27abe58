"""Embedding: rows of a table by their numbers, and the gradient of the table.

Cores have tokens in the forward pass, and columns in the backward pass: tokens may be equal.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib import kernels
from trainlib.fill import fill_f32
from trainlib.kernels import (
    INT32,
    WORD,
    Address,
    Addresses,
    Arrays,
    Expected,
    Family,
    Tensor,
    Tensors,
)
from trainlib.maps import no_macs
from trainlib.nest import UNROLL
from trainlib.reference import embedding as reference
from trainlib.rows import Field, Rows, Split, split_of
from trainlib.tiled import UNIT, tiled
from trainlib.tiling import Dim, TileShape

RATE = 2.0  # elements of tokens per cycle, nearly


class _Tokens(Rows):
    """Tokens as rows, and the row of the table that a token stands for, as field `row`."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        at: dict[str, Address],
        shape: tuple[int, int],
        split: Split,
        unroll: int,
    ) -> None:
        self.table, self.size = at["table"], WORD * shape[1]
        fields = {
            "index": Field(at["index"], (WORD,), (0,)),
            "y": Field(at["y"], (self.size,), (WORD,)),
        }
        super().__init__(k, team, shape[:1], shape[1:], fields, 0, split, unroll=unroll)
        self.fields = fields

    @contextmanager
    def found(self, entries: int, first: Register | None) -> Iterator[None]:
        """Load the address of the token's row; the body is for rows that are here."""
        k = self.k
        row = self.address("index")
        k.lw(row, 0, row)
        if first is None:
            self._find(row)
            yield
            return
        with k.scope():
            here = k.x()
            k.li(here, entries)
            k.sub(row, row, first)
        with k.if_(LTU, row, here):
            self._find(row)
            yield

    def _find(self, row: Register) -> None:
        k = self.k
        table = k.x()
        k.li(table, self.size)
        k.mul(row, row, table)
        k.set(table, self.table)
        k.add(row, row, table)
        k.free(table)
        self.fields = {**self.fields, "row": Field(row, (0,), (WORD,))}


def embedding_fw_f32(
    k: Kernel,
    team: Team,
    table: Address,
    index: Address,
    y: Address,
    tokens: int,
    columns: int,
    *,
    entries: int = 0,
    first: Register | None = None,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y[i] = table[index[i]] for each token; index holds integers.

    first    the number of the table's first entry, if it has but `entries` of them
    """
    at = {"table": table, "index": index, "y": y}
    split = split_of(split, tokens, columns, 0, team.cores)
    with k.scope():
        rows = _Tokens(k, team, at, (tokens, columns), split, unroll)
        with rows.each(), rows.found(entries, first):
            rows.sweep(["row"], ["y"], _copy)


def embedding_bw_f32(
    k: Kernel,
    team: Team,
    index: Address,
    dy: Address,
    dtable: Address,
    tokens: int,
    columns: int,
    entries: int,
    *,
    first: Register | None = None,
    accumulate: bool = False,
    unroll: int = UNROLL,
) -> None:
    """dtable[j] = the sum of dy[i] over tokens with index[i] = j, for all entries.

    first         the number of dtable's first entry, if it has not all of them
    accumulate    add to what dtable has
    """
    if not accumulate:
        fill_f32(k, team, dtable, entries * columns)
        team.barrier()
    at = {"table": dtable, "index": index, "y": dy}
    with k.scope():
        rows = _Tokens(k, team, at, (tokens, columns), "columns", unroll)
        with rows.each(), rows.found(entries, first):
            rows.sweep(["row", "y"], ["row"], _add)


def _copy(_: Lanes, x: Lane) -> list[Lane]:
    return [x]


def _add(v: Lanes, old: Lane, dy: Lane) -> list[Lane]:
    v.fadd_s(old, old, dy)
    return [old]


class Arguments(kernels.Arguments):
    """A table of entries x columns; tokens are numbers of entries.

    split     what is dealt out: tokens ("rows"), parts of each row ("columns"), or what is best
    unroll    elements that are moved side by side
    """

    entries: PositiveInt
    columns: PositiveInt
    tokens: PositiveInt
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _tensors(point: Any, is_backward: bool) -> Tensors:
    table = Tensor((point.entries, point.columns), "out" if is_backward else "in")
    index = Tensor((point.tokens,), dtype=INT32, below=point.entries, is_index=True)
    y = Tensor((point.tokens, point.columns), "in" if is_backward else "out")
    if is_backward:
        return {"index": index, "dy": y, "dtable": table}
    return {"table": table, "index": index, "y": y}


def _expected_forward(_: Any, values: Arrays) -> dict[str, Expected]:
    return {"y": (values["table"][values["index"]], 0.0)}


def _expected_backward(point: Any, values: Arrays) -> dict[str, Expected]:
    return {"dtable": reference.backward(values["index"], values["dy"], point.entries)}


def _emit_forward(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    embedding_fw_f32(
        *(k, team, l1["table"], l1["index"], l1["y"], point.tokens, point.columns),
        split=point.split,
        unroll=point.unroll,
    )


def _emit_backward(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    shape = point.tokens, point.columns, point.entries
    at = l1["index"], l1["dy"], l1["dtable"]
    embedding_bw_f32(k, team, *at, *shape, unroll=point.unroll)


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


def _part_forward(
    k: Kernel, team: Team, point: Any, part: Any, tile: TileShape, l1: Addresses
) -> None:
    operands = l1["table"], l1["index"], l1["y"], part.tokens, part.columns
    if part.entries == point.entries:
        embedding_fw_f32(k, team, *operands, split=point.split, unroll=point.unroll)
        return
    with _first_entry(k, team, tile, l1, "table", is_done=True) as first:
        how: Any = {"split": point.split, "unroll": point.unroll}
        embedding_fw_f32(k, team, *operands, entries=part.entries, first=first, **how)


def _part_backward(
    k: Kernel, team: Team, point: Any, part: Any, tile: TileShape, l1: Addresses
) -> None:
    operands = l1["index"], l1["dy"], l1["dtable"], part.tokens, part.columns, part.entries
    how: Any = {"accumulate": not tile.is_first, "unroll": point.unroll}
    if part.entries == point.entries:
        embedding_bw_f32(k, team, *operands, **how)
        return
    with _first_entry(k, team, tile, l1, "dtable", is_done=tile.is_last) as first:
        embedding_bw_f32(k, team, *operands, first=first, **how)


def _smaller(_: Any, shape: TileShape) -> dict[str, Any]:
    return {name: shape[name] for name in ("columns", "tokens", "entries")}


def _dims(point: Any) -> dict[str, Dim]:
    return {
        "columns": Dim("columns", point.columns, UNIT),
        "tokens": Dim("tokens", point.tokens),
        "entries": Dim("entries", point.entries),
    }


def _summed(dims: dict[str, Dim], *names: str, last: str) -> list[Dim]:
    """Dims in order, the last one summed over."""
    return [*(dims[name] for name in names), replace(dims[last], is_summed=True)]


FORWARD = Family(
    "embedding_fw_f32",
    Arguments,
    lambda point: _tensors(point, False),
    _expected_forward,
    no_macs,
    _emit_forward,
)
BACKWARD = Family(
    "embedding_bw_f32",
    Arguments,
    lambda point: _tensors(point, True),
    _expected_backward,
    no_macs,
    _emit_backward,
)
ENTRIES = Beginning("entries")
FAMILIES = (
    tiled(
        FORWARD,
        lambda point: _summed(_dims(point), "columns", "tokens", last="entries"),
        lambda _: {
            "table": [ENTRIES, "columns"],
            "index": ["tokens"],
            "y": ["tokens", "columns"],
        },
        _smaller,
        {"place": WORD},
        _part_forward,
        rate=lambda point: RATE * point.entries,
    ),
    tiled(
        BACKWARD,
        lambda point: _summed(_dims(point), "columns", "entries", last="tokens"),
        lambda _: {
            "index": ["tokens"],
            "dy": ["tokens", "columns"],
            "dtable": [ENTRIES, "columns"],
        },
        _smaller,
        {"place": WORD},
        _part_backward,
        tells_last=True,
        rate=lambda point: RATE * point.entries / 8,
    ),
)
