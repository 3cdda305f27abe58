"""Sums of a recording made by hand, worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from pulpsim.trace import aggregates
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace, TraceError
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.recordings import AGAIN, CALL, DOUBLE, LOAD, MAIN, RET, recording


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return recording(tmp_path)


def stalls(row: np.void) -> dict[str, int]:
    return {name: int(n) for name, n in zip(CAUSES, row["stalls"], strict=True) if n}


def test_an_instruction_takes_its_issues_and_the_stalls_that_it_pays_for(trace: Trace) -> None:
    rows = aggregates.instruction_sums(trace)
    fields = ["pc", "issues", "cycles", "accesses", "conflicts"]
    assert [tuple(int(row[field]) for field in fields) for row in rows] == [
        (0, 0, 10, 0, 0),
        (MAIN, 3, 3, 0, 0),
        (CALL, 2, 3, 0, 0),
        (LOAD, 2, 3, 2, 1),
        (AGAIN, 2, 6, 0, 0),
        (DOUBLE, 1, 1, 0, 0),
        (RET, 1, 2, 0, 0),
    ]
    assert [stalls(row) for row in rows] == [
        *({"off": 10}, {}, {"jump": 1}, {"l1_contention": 1}),
        *({"jump": 1, "event": 3}, {}, {"jump": 1}),
    ]


def test_functions_and_lines_come_with_the_most_cycles_first(trace: Trace) -> None:
    rows = aggregates.instruction_sums(trace)
    functions = aggregates.function_sums(trace, rows)
    assert [(name, row["cycles"], row["pc"]) for name, row in functions.items()] == [
        *(("main", 15, MAIN), ("", 10, 0), ("double", 3, DOUBLE))
    ]
    assert stalls(functions["main"]) == {"jump": 2, "l1_contention": 1, "event": 3}
    lines = aggregates.line_sums(trace, rows)
    assert {name: row["cycles"] for name, row in lines.items()} == {
        **{"": 13, "main.c:4": 9, "main.c:3": 6}
    }


def test_banks_count_accesses_of_cores_and_of_the_dma(trace: Trace) -> None:
    banks = aggregates.bank_sums(trace)
    assert banks["accesses"].tolist() == [1, 1, 0, 2] + 12 * [0]
    assert banks["conflicts"].tolist() == [0, 0, 0, 1] + 12 * [0]


def test_of_as_many_cycles_come_the_most_conflicts_first() -> None:
    rows = np.zeros(4, aggregates.SUM)
    rows["pc"] = MAIN, MAIN + 4, MAIN + 8, MAIN + 12
    rows["cycles"], rows["conflicts"] = (0, 0, 1, 0), (2, 7, 0, 2)
    names = np.array(["a", "b", "c", "d"], object)
    assert list(aggregates.grouped(rows, names)) == ["c", "b", "a", "d"]


def test_the_matrix_of_losers_and_winners_names_each_pair(trace: Trace) -> None:
    matrix = aggregates.blocking(trace)
    assert matrix.shape == (16, 16)
    assert np.argwhere(matrix).tolist() == [[0, 1]]
    assert matrix[0, 1] == 1


def test_stalls_of_a_hart_are_summed_by_cause(trace: Trace) -> None:
    found = aggregates.stall_sums(trace)
    assert found.shape == (9, len(CAUSES))
    named = [{CAUSES[k]: n for k, n in enumerate(row) if n} for row in found.tolist()]
    assert named[:2] == [{"jump": 3, "l1_contention": 1, "off": 2}, {"event": 3, "off": 8}]
    assert not found[2:].any()


def test_sums_of_a_selection_are_those_of_its_events(trace: Trace) -> None:
    chosen = Selection.of(trace, hart=["core1"], cycle=["8-10"])
    rows = aggregates.instruction_sums(trace, chosen.parts(trace))
    assert [(row["pc"], row["cycles"]) for row in rows] == [(LOAD, 1), (AGAIN, 1)]


def test_a_trace_may_be_longer_than_what_is_looked_at_together(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = aggregates.instruction_sums(trace)
    monkeypatch.setattr(aggregates, "PART", 3)
    assert aggregates.instruction_sums(trace).tobytes() == whole.tobytes()
    assert aggregates.bank_sums(trace)["accesses"].sum() == 4


@pytest.mark.parametrize(
    "event",
    [
        (0, 0, 0, 0, 0, 0),
        (0, max(Kind) + 1, 0, 0, 0, 0),
        (0, Kind.ISSUE, 9, 0, 0, 0),
        (0, Kind.STALL, 0, len(CAUSES), 0, 1),
        (0, Kind.CONFLICT, 0, 16 << 8, 0, 0),
        (0, Kind.CONFLICT, 0, 16, 0, 0),
        (0, Kind.DMA, 16, 0, 0, 0),
    ],
)
def test_an_event_that_the_chip_cannot_have_is_refused(tmp_path: Path, event: tuple) -> None:
    trace = recordings.write(tmp_path / "bad.trace", np.array([event], EVENT))
    with pytest.raises(TraceError) as error:
        list(aggregates.parts(trace))
    shown = ", ".join(str(int(value)) for value in event)
    assert str(error.value) == f"{trace.path}: damaged: ({shown}) is no event of this chip"


def test_events_out_of_order_are_refused(tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "bad.trace", recordings.events()[::-1])
    with pytest.raises(TraceError) as error:
        list(aggregates.parts(trace))
    assert str(error.value) == (f"{trace.path}: damaged: its events are not in the order of cycles")


def test_an_empty_trace_has_no_sums(tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "empty.trace", np.zeros(0, EVENT))
    assert aggregates.instruction_sums(trace).size == 0
    assert aggregates.function_sums(trace, aggregates.instruction_sums(trace)) == {}
    assert not aggregates.bank_sums(trace)["accesses"].any()
