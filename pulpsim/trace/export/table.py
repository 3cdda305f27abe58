"""Events as a table with a column for every quantity: CSV, and Parquet for data frames."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from pulpsim.trace.aggregates import banks_of
from pulpsim.trace.code import Code
from pulpsim.trace.export import text
from pulpsim.trace.selection import Selection
from soc.config.toml import ConfigError
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, OUTSIDE_L1, SIZE_SHIFT, STORE, Kind, Trace, pcs_of

if TYPE_CHECKING:
    import pyarrow

KINDS = ["", *(kind.name.lower() for kind in Kind)]
OF_INITIATORS = (Kind.CONFLICT, Kind.DMA)
WITH_PC = (Kind.ISSUE, Kind.STALL, Kind.MEMORY, Kind.CONFLICT, Kind.SLEEP, Kind.REGION)
LINES = 1 << 13
"""Of CSV that are made together: their text stays in the processor's cache."""


class Column(NamedTuple):
    """A quantity of every event.

    values    numbers; of labels, if there are any
    valid     does the event have it? None: all do
    labels    what the numbers stand for
    is_hex    is it an address or an instruction?
    """

    name: str
    values: np.ndarray
    valid: np.ndarray | None = None
    labels: Sequence[str] | None = None
    is_hex: bool = False


class Columns:
    """Makes the columns of each part of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.code = Code(trace)
        self.owners = [*trace.harts, *trace.initiators]
        top = max((0, *trace.regions))
        self.regions = [trace.regions.get(k, f"region {k}") for k in range(top + 1)]

    def of(self, part: np.ndarray) -> Iterator[Column]:
        """The columns of EVENT[n]."""
        kinds, extra = part["kind"], part["extra"]
        pcs = pcs_of(part)

        def has(*wanted: int) -> np.ndarray:
            return np.isin(kinds, wanted)

        has_pc = has(*WITH_PC) & (pcs != 0)
        is_memory, is_conflict = has(Kind.MEMORY), has(Kind.CONFLICT)
        is_dma, is_transfer, is_region = has(Kind.DMA), has(Kind.TRANSFER), has(Kind.REGION)
        banks = banks_of(self.trace, part)
        owners = part["hart"] + np.where(has(*OF_INITIATORS), len(self.trace.harts), 0)
        address = np.where(is_conflict, part["b"], part["a"])
        yield Column("cycle", part["cycle"] + np.int64(self.trace.first_cycle))
        yield Column("kind", kinds, labels=KINDS)
        yield Column("who", owners, labels=self.owners)
        yield Column("pc", pcs, has_pc, is_hex=True)
        yield from self._places(pcs, has_pc)
        yield Column("word", part["b"], has(Kind.ISSUE), is_hex=True)
        yield Column("cause", extra, has(Kind.STALL), CAUSES)
        yield Column("cycles", part["b"], has(Kind.STALL, Kind.SLEEP))
        yield Column("address", address, is_memory | is_conflict | is_dma, is_hex=True)
        yield Column("bank", banks, banks >= 0)
        yield Column("writes", extra & STORE, is_memory | is_dma)
        yield Column("outside_l1", (extra & OUTSIDE_L1) // OUTSIDE_L1, is_memory)
        sizes = np.where(is_transfer, part["b"], np.uint32(1) << (extra >> SIZE_SHIFT & 3))
        yield Column("bytes", sizes, is_memory | is_transfer)
        winners = np.where(is_conflict, extra >> 8, 0)
        yield Column("winner", winners, is_conflict, self.trace.initiators)
        numbers = np.where(is_region, extra, 0)
        self._name_regions(int(numbers.max(initial=0)))
        yield Column("region", numbers, is_region, self.regions)
        yield Column("transfer", part["a"], is_transfer)
        begins = np.where(is_transfer, 1 - (extra & 1), part["a"] & 1)
        yield Column("begins", begins, is_region | is_transfer)

    def _places(self, pcs: np.ndarray, has_pc: np.ndarray) -> Iterator[Column]:
        known = np.where(has_pc, pcs, 0)
        for name, numbers, names in (
            ("function", self.code.function(known), self.code.functions),
            ("line", self.code.line(known), self.code.lines),
        ):
            yield Column(name, numbers, has_pc & (numbers > 0), names)

    def _name_regions(self, top: int) -> None:
        self.regions += [f"region {k}" for k in range(len(self.regions), top + 1)]


def csv(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the selected events as comma-separated values, RFC 4180, a line of names first."""
    columns = Columns(trace)
    names = (column.name for column in columns.of(np.zeros(0, EVENT)))
    stream.write(",".join(names).encode() + b"\r\n")
    for part in selection.parts(trace):
        for first in range(0, part.size, LINES):
            made = columns.of(part[first : first + LINES])
            cells = [cell for column in made for cell in (_cell(column), ",")]
            stream.write(text.written(text.joined(*cells[:-1], "\r\n")))


def _cell(column: Column) -> np.ndarray:
    values, valid = column.values, column.valid
    if valid is not None:
        values = np.where(valid, values, 0)
    if column.labels is not None:
        cell = text.labels([_quoted(label) for label in column.labels])[values]
    elif column.is_hex:
        cell = text.joined("0x", text.hexadecimal(values))
    else:
        cell = text.decimal(values)
    return cell if valid is None else np.where(valid[:, None], cell, np.uint8(0))


def _quoted(label: str) -> str:
    if any(char in label for char in ',"'):
        return '"' + label.replace('"', '""') + '"'
    return label


def parquet(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the selected events as Apache Parquet; labels are dictionaries, None is null.

    raises    ConfigError without pyarrow
    """
    try:
        import pyarrow
        from pyarrow import parquet as format
    except ImportError:
        raise ConfigError(
            ["--to parquet: needs pyarrow; `pip install pyarrow` gets it, --to csv needs nothing"]
        ) from None
    columns = Columns(trace)
    writer = None
    for part in selection.parts(trace):
        table = _arrow(list(columns.of(part)), pyarrow)
        writer = writer or format.ParquetWriter(stream, table.schema, compression="snappy")
        if part.size:
            writer.write_table(table)
    if writer:
        writer.close()


def _arrow(columns: list[Column], arrow: "pyarrow") -> "pyarrow.Table":
    arrays = {}
    for column in columns:
        nulls = None if column.valid is None else ~column.valid
        if column.labels is None:
            arrays[column.name] = arrow.array(column.values, mask=nulls)
        else:
            numbers = arrow.array(column.values.astype(np.int32), mask=nulls)
            labels = arrow.array(list(column.labels), arrow.string())
            arrays[column.name] = arrow.DictionaryArray.from_arrays(numbers, labels)
    return arrow.table(arrays)
