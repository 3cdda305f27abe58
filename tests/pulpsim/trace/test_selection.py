"""Filters: which events pass, and what they refuse."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulpsim.trace import aggregates
from pulpsim.trace.selection import Selection
from soc.config.toml import ConfigError
from soc.trace.reader import Kind, Trace
from tests.pulpsim.trace.recordings import CALL, DOUBLE, recording


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return recording(tmp_path)


def selected(trace: Trace, **options: Any) -> list[tuple[int, ...]]:
    parts = Selection.of(trace, **options).parts(trace)
    rows = np.concatenate(list(parts))
    return [(int(row["cycle"]), int(row["kind"]), int(row["hart"])) for row in rows]


def test_nothing_said_selects_all_of_it(trace: Trace) -> None:
    assert len(selected(trace)) == trace.events.size


@pytest.mark.parametrize("text", ["core1", "1", "1-1", "core1,1"])
def test_a_hart_is_told_by_name_number_or_range_and_a_lane_of_the_dma_is_none(
    trace: Trace, text: str
) -> None:
    rows = selected(trace, hart=[text])
    assert {hart for _, _, hart in rows} == {1}
    assert len(rows) == 9


@pytest.mark.parametrize("harts", [["0-8"], ["core0", "1", "2-7", "fc"], ["core0,core1,fc"]])
def test_several_harts_add_up(trace: Trace, harts: list[str]) -> None:
    assert len(selected(trace, hart=harts)) == trace.events.size - 2
    assert len(selected(trace, hart=[*harts, "dma0"])) == trace.events.size


def test_kinds_add_up(trace: Trace) -> None:
    rows = selected(trace, kind=["dma,transfer", "conflict"])
    assert [(cycle, kind) for cycle, kind, _ in rows] == [
        *((9, Kind.CONFLICT), (9, Kind.TRANSFER)),
        *((10, Kind.DMA), (11, Kind.DMA), (13, Kind.TRANSFER)),
    ]


def test_a_function_has_the_events_of_its_instructions(trace: Trace) -> None:
    assert [cycle for cycle, _, _ in selected(trace, function=["double"])] == [5, 6, 7]


@pytest.mark.parametrize("text", [f"{CALL:#x}", f"{CALL}", f"{CALL:#x}-{CALL + 4:#x}"])
def test_addresses_are_told_one_by_one_or_as_a_range(trace: Trace, text: str) -> None:
    assert [cycle for cycle, _, _ in selected(trace, pc=[text])] == [3, 4, 13]
    both = selected(trace, pc=[text], function=["double"])
    assert [cycle for cycle, _, _ in both] == [3, 4, 5, 6, 7, 13]


def test_a_window_ends_before_its_second_number(trace: Trace) -> None:
    assert {cycle for cycle, _, _ in selected(trace, cycle=["3-7"])} == {3, 4, 5, 6}
    assert {cycle for cycle, _, _ in selected(trace, cycle=["1_0"])} == {10}


@pytest.mark.parametrize("part", [1, 2, 3, 1 << 18])
@pytest.mark.parametrize("region", ["work", "5"])
def test_a_region_has_what_its_hart_does_between_its_markers_and_the_dma(
    trace: Trace, region: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates, "PART", part)
    rows = selected(trace, region=[region])
    assert {hart for _, kind, hart in rows if kind != Kind.DMA} == {1}
    assert [(cycle, kind) for cycle, kind, _ in rows] == [
        *((8, Kind.REGION), (9, Kind.MEMORY), (9, Kind.ISSUE)),
        *((10, Kind.STALL), (10, Kind.SLEEP), (10, Kind.DMA), (11, Kind.DMA), (12, Kind.REGION)),
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"hart": ["99"]},
            "--hart 99: no hart '99'; there are "
            "core0, core1, core2, core3, core4, core5, core6, core7, "
            "fc, external1, external2, external3, ...",
        ),
        (
            {"kind": ["issue,x"]},
            "--kind issue,x: 'x' is no kind of event; "
            "there are issue, stall, memory, conflict, dma, transfer, sleep, region, value",
        ),
        ({"kind": ["isue"]}, "--kind isue: 'isue' is no kind of event; did you mean issue?"),
        (
            {"function": ["man"]},
            "--function man: the program has no function 'man'; did you mean main?",
        ),
        ({"pc": ["x"]}, "--pc x: 'x' is no pc and no range such as 0x100-0x200"),
        (
            {"cycle": ["2-1"]},
            "--cycle 2-1: '2-1' is no cycle and no range such as 0x100-0x200",
        ),
        ({"region": ["x"]}, "--region x: no region 'x'; name one by its number; there are work"),
    ],
)
def test_what_the_trace_does_not_know_is_refused(
    trace: Trace, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Selection.of(trace, **option)


def test_all_functions_of_one_name_are_selected(trace: Trace) -> None:
    trace.header["symbols"].append([DOUBLE - 4, 4, "double"])
    assert [cycle for cycle, _, _ in selected(trace, function=["double"])][:3] == [5, 6, 7]
    assert len(selected(trace, function=["double"])) > 3
