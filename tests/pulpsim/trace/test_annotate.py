"""Annotations: their sums are the run's counters; what a person reads of them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pulpsim.cli.terminal import WIDTH
from pulpsim.trace import aggregates as sums
from pulpsim.trace.aggregates import SUM
from pulpsim.trace.annotate import Annotation, _stalls
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES, COUNT
from soc.trace.reader import Trace
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.conftest import Recorded


def test_the_sums_of_a_run_are_its_counters(recorded: Recorded) -> None:
    trace, result = recorded
    counts = result.chip.harts["counts"]
    total = Annotation(trace).total
    assert total["issues"] == result.instructions
    assert total["stalls"].tolist() == counts[:, COUNT.load_use :].sum(axis=0).tolist()
    assert total["cycles"] == result.cycles * counts.shape[0]
    assert total["accesses"] == counts[:, COUNT.l1_accesses].sum()
    assert sums.stall_sums(trace).tolist() == counts[:, COUNT.load_use :].tolist()


def test_the_sums_of_banks_are_their_counters(recorded: Recorded) -> None:
    trace, result = recorded
    banks = sums.bank_sums(trace)
    assert banks["accesses"].tolist() == result.chip.banks["accesses"].tolist()
    assert banks["conflicts"].tolist() == result.chip.banks["conflicts"].tolist()
    assert sums.blocking(trace).sum() == result.chip.banks["conflicts"].sum()


def test_functions_lines_and_harts_add_up_to_the_whole(recorded: Recorded) -> None:
    trace, _ = recorded
    whole = Annotation(trace)
    told = whole.to_json()
    for name in ("cycles", "issues", "accesses", "conflicts"):
        parts = sum(function[name] for function in told["functions"])
        assert parts == told["total"][name] == whole.total[name]
        instructions = [row for each in told["functions"] for row in each["instructions"]]
        assert sum(row[name] for row in instructions) == parts
    stalls = [
        function["stalls"].get(cause, 0) for function in told["functions"] for cause in CAUSES
    ]
    assert sum(stalls) == sum(told["total"]["stalls"].values())
    harts = [Annotation(trace, Selection.of(trace, hart=[name])).total for name in trace.harts]
    assert sum(int(total["cycles"]) for total in harts) == whole.total["cycles"]
    assert sum(int(total["conflicts"]) for total in harts) == whole.total["conflicts"]
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("stalls", "shown"),
    [
        ({}, ""),
        ({"fetch": 33, "l1_contention": 32}, "fetch 33, l1_contention 32"),
        ({"l1_contention": 278, "fetch": 180}, "l1_contention 278 …"),
        ({"fetch": 33, "l1_contention": 32, "event": 1}, "fetch 33 …"),
        ({"csr": 3, "jump": 2, "event": 1, "load_external": 4}, "load_external 4, csr 3 …"),
    ],
)
def test_stalls_that_have_no_room_leave_an_ellipsis(stalls: dict[str, int], shown: str) -> None:
    row = np.zeros(1, SUM)[0]
    for name, cycles in stalls.items():
        row["stalls"][CAUSES.index(name)] = cycles
    assert _stalls(row) == shown


def test_functions_come_by_cycles_and_instructions_in_order(hello: Recorded) -> None:
    functions = Annotation(hello.trace).to_json()["functions"]
    cycles = [function["cycles"] for function in functions]
    assert cycles == sorted(cycles, reverse=True)
    for function in functions:
        pcs = [row["pc"] for row in function["instructions"]]
        assert pcs == sorted(pcs)
    assert {"main", "cl_main", "puth"} <= {function["name"] for function in functions}


@pytest.fixture
def small(tmp_path: Path) -> Trace:
    return recordings.recording(tmp_path)


def test_a_small_recording_is_annotated_like_this(
    small: Trace, golden: Callable[[str, str], None]
) -> None:
    golden("small.txt", "".join(f"{line}\n" for line in Annotation(small).lines()))


def test_lines_fit_a_terminal(recorded: Recorded) -> None:
    assert max(map(len, Annotation(recorded.trace).lines())) <= WIDTH


def test_instructions_that_never_ran_are_one_line(small: Trace) -> None:
    lines = Annotation(small, Selection.of(small, hart=["core1"], function=["main"])).lines()
    assert f"{'':68}1c008004 1 not reached" in list(lines)


def test_only_the_hottest_functions_are_listed_on_demand(small: Trace) -> None:
    lines = list(Annotation(small).lines(1))
    assert "main: 15 cycles" in lines
    assert not any(line.startswith("double:") for line in lines)
    assert len(list(Annotation(small).lines(0))) < len(lines)


def test_a_recording_that_broke_off_says_so(tmp_path: Path) -> None:
    trace = recordings.write(
        tmp_path / "t.trace", recordings.events()[:9], complete=False, why="limit of 9 events"
    )
    assert list(Annotation(trace).lines())[1] == "not all of the run: limit of 9 events"
    assert Annotation(trace).to_json()["missing"] == "limit of 9 events"


def test_the_filters_of_a_recording_are_told(tmp_path: Path) -> None:
    filters = ["hart=0-1", "kind=issue"]
    trace = recordings.write(tmp_path / "t.trace", recordings.events(), filters=filters)
    assert list(Annotation(trace).lines())[1] == "recorded: hart=0-1 kind=issue"


def test_a_symbol_cannot_reach_the_terminal(small: Trace) -> None:
    small.header["symbols"][0][2] = "\x1b[31m[bold]\nma"
    small.header["lines"][0][1] = "\x1b]0;x\x07:3"
    text = "\n".join(Annotation(small).lines())
    assert r"\x1b[31m[bold]\x0ama" in text
    assert "\x1b" not in text


def test_an_empty_recording_has_a_heading_alone(tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.trace", np.zeros(0, recordings.EVENT))
    lines = list(Annotation(trace).lines())
    assert lines[0] == "small.elf: 0 cycles of all harts, 0 instructions, 0 conflicts"
    assert len(lines) == 3
