"""Exports of tables, read by other tools' readers."""

import csv
import io
from pathlib import Path

from pyarrow import parquet

from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind, Trace
from tests.pulpsim.trace.conftest import Recorded
from tests.pulpsim.trace.export.exported import exported


def test_a_csv_reader_finds_every_event(recorded: Recorded, tmp_path: Path) -> None:
    trace, _ = recorded
    file = exported(trace, "csv", tmp_path)
    rows = list(csv.DictReader(io.StringIO(file.read_text(), newline="")))
    _check_table(trace, [{name: value or None for name, value in row.items()} for row in rows])


def test_a_parquet_reader_finds_every_event(recorded: Recorded, tmp_path: Path) -> None:
    trace, _ = recorded
    rows = parquet.read_table(exported(trace, "parquet", tmp_path)).to_pylist()
    hexadecimal = ("pc", "word", "address")
    _check_table(
        trace,
        [
            {
                name: value
                if value is None
                else f"{value:#010x}"
                if name in hexadecimal
                else str(value)
                for name, value in row.items()
            }
            for row in rows
        ],
    )


def _check_table(trace: Trace, rows: list[dict[str, str | None]]) -> None:
    """Compare a table's rows with the events, field by field as their format says."""
    assert len(rows) == trace.events.size
    for row, event in zip(rows, trace.events.tolist(), strict=True):
        cycle, kind, owner, extra, a, b = event
        told = {name: value for name, value in row.items() if value is not None}
        assert (told.pop("cycle"), told.pop("kind")) == (str(cycle), Kind(kind).name.lower())
        names = trace.initiators if kind in (Kind.CONFLICT, Kind.DMA) else trace.harts
        assert told.pop("who") == names[owner]
        pc = b if kind in (Kind.MEMORY, Kind.REGION) else a
        if kind not in (Kind.DMA, Kind.TRANSFER) and pc:
            assert told.pop("pc") == f"{pc:#010x}"
            assert told.pop("function", "") == trace.function_of([pc])[0]
            assert told.pop("line", "") == trace.line_of([pc])[0]
        assert told == _fields(trace, kind, extra, a, b)


def _fields(trace: Trace, kind: int, extra: int, a: int, b: int) -> dict[str, str]:
    at = {"address": f"{a:#010x}", "bank": str(a // 4 % trace.banks)}
    outside = extra & 2
    match Kind(kind):
        case Kind.ISSUE:
            return {"word": f"{b:#010x}"}
        case Kind.STALL:
            return {"cause": CAUSES[extra], "cycles": str(b)}
        case Kind.SLEEP:
            return {"cycles": str(b)}
        case Kind.MEMORY:
            about = {"writes": str(extra & 1), "outside_l1": str(outside // 2)}
            about |= {"address": at["address"], "bytes": str(1 << (extra >> 4 & 3))}
            return about if outside else about | {"bank": at["bank"]}
        case Kind.CONFLICT:
            winner = trace.initiators[extra >> 8]
            return {"address": f"{b:#010x}", "bank": str(extra & 255), "winner": winner}
        case Kind.DMA:
            return at | {"writes": str(extra & 1)}
        case Kind.TRANSFER:
            return {"transfer": str(a), "bytes": str(b), "begins": str(1 - extra)}
        case Kind.REGION:
            return {"region": trace.regions[extra], "begins": str(a)}
