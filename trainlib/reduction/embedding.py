"""Embedding: rows of a table by their numbers, and the gradient of the table.

Cores have tokens in the forward pass, and columns in the backward pass: tokens may be equal.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.fill import fill_f32
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import WORD, Address
from trainlib.reduction.row_reduction import Field, Rows, Split
from trainlib.reduction.row_view import View


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
    element: Element = F32,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y[i] = table[index[i]] for each token; index holds integers.

    first    the number of the table's first entry, if it has but `entries` of them
    """
    of, size = element.moved, element.size * columns
    if size % WORD == 0:
        of, columns = F32, size // WORD
    view = _tokens(index, y, tokens, columns, of, split, unroll)
    find = partial(_found, table=table, size=size, entries=entries, first=first, element=of)

    def work(rows: Rows) -> None:
        with rows.each(), find(rows):
            rows.sweep(["row"], ["y"], _copy)

    view.emit(k, team, work, reductions=0)


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
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """dtable[j] = the sum of dy[i] over tokens with index[i] = j, for all entries.

    first         the number of dtable's first entry, if it has not all of them
    accumulate    add to what dtable has
    element       type of dy; dtable is single precision
    """
    if not accumulate:
        fill_f32(k, team, dtable, entries * columns)
        team.barrier()
    view = _tokens(index, dy, tokens, columns, element, "columns", unroll)
    find = partial(_found, table=dtable, size=WORD * columns, entries=entries, first=first)

    def work(rows: Rows) -> None:
        with rows.each(), find(rows):
            rows.sweep(["row", "y"], ["row"], _add)

    view.emit(k, team, work)


def _tokens(
    index: Address,
    y: Address,
    tokens: int,
    columns: int,
    element: Element,
    split: Split,
    unroll: int,
) -> View:
    """Tokens as rows."""
    size = element.size
    row = Field(y, (size * columns,), (size,), element)
    fields = {"index": Field(index, (WORD,), (0,)), "y": row}
    return View((tokens,), (columns,), fields, 0, split, unroll)


@contextmanager
def _found(
    rows: Rows,
    *,
    table: Address,
    size: int,
    entries: int,
    first: Register | None,
    element: Element = F32,
) -> Iterator[None]:
    """Let field `row` be the row of the table that the token stands for, if it is here."""
    k = rows.k
    number = rows.address("index")
    k.lw(number, 0, number)
    if first is None:
        rows.find("row", number, table, size, (element.size,), element)
        yield
        return
    with k.scope():
        here = k.x()
        k.li(here, entries)
        k.sub(number, number, first)
    with k.if_(LTU, number, here):
        rows.find("row", number, table, size, (element.size,), element)
        yield


def _copy(_: Lanes, x: Lane) -> list[Lane]:
    return [x]


def _add(v: Lanes, old: Lane, dy: Lane) -> list[Lane]:
    v.fadd_s(old, old, dy)
    return [old]
