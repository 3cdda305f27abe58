"""Embedding: rows of a table by their numbers, and the gradient of the table.

Cores have tokens in the forward pass, and columns in the backward pass: tokens may be equal.
"""

from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel
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
from trainlib.tiling import Dim


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

    def find(self) -> None:
        """Load the address of the token's row."""
        k = self.k
        row, table = self.address("index"), k.x()
        k.lw(row, 0, row)
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
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y[i] = table[index[i]] for each token; index holds integers."""
    at = {"table": table, "index": index, "y": y}
    split = split_of(split, tokens, columns, 0, team.cores)
    with k.scope():
        rows = _Tokens(k, team, at, (tokens, columns), split, unroll)
        with rows.each(), k.scope():
            rows.find()
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
    unroll: int = UNROLL,
) -> None:
    """dtable[j] = the sum of dy[i] over tokens with index[i] = j, for all entries."""
    fill_f32(k, team, dtable, entries * columns)
    team.barrier()
    at = {"table": dtable, "index": index, "y": dy}
    with k.scope():
        rows = _Tokens(k, team, at, (tokens, columns), "columns", unroll)
        with rows.each(), k.scope():
            rows.find()
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
FAMILIES = (
    tiled(
        FORWARD,
        lambda point: [Dim("columns", point.columns, UNIT), Dim("tokens", point.tokens)],
        lambda _: {"table": [None, "columns"], "index": ["tokens"], "y": ["tokens", "columns"]},
        lambda _, shape: {"columns": shape["columns"], "tokens": shape["tokens"]},
    ),
    tiled(
        BACKWARD,
        lambda point: [Dim("columns", point.columns, UNIT)],
        lambda _: {"index": [None], "dy": [None, "columns"], "dtable": [None, "columns"]},
        lambda _, shape: {"columns": shape["columns"]},
    ),
)
