"""Exports of timelines, read by other tools' readers."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from pulpsim.trace import aggregates
from soc.trace.reader import Kind
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.conftest import Recorded
from tests.pulpsim.trace.export.exported import Slices, exported, stall_cycles


def test_perfetto_shows_stalls_functions_regions_and_the_dma(
    recorded: Recorded, tmp_path: Path
) -> None:
    trace, result = recorded
    shown = Slices(exported(trace, "perfetto", tmp_path))
    stalls: Counter[tuple[str, str]] = Counter()
    beats = 0
    for track, name, begin, end in shown.slices:
        assert 0 <= begin <= end <= result.cycles
        if track.endswith("/stalls"):
            stalls[track.removesuffix("/stalls"), name] += end - begin
        beats += (end - begin) * track.startswith("DMA/dma")
    assert stalls == stall_cycles(recorded)
    assert beats == np.count_nonzero(trace.events["kind"] == Kind.DMA)
    assert {"core0", "core7", "fc"} <= {track for track, *_ in shown.slices}


def test_perfetto_shows_regions_with_their_cycles(product: Recorded, tmp_path: Path) -> None:
    shown = Slices(exported(product.trace, "perfetto", tmp_path))
    regions = [each for each in shown.slices if each[0] == "core3/regions"]
    measured = product.result.to_json()["harts"][3]["regions"]
    names = product.trace.regions
    assert {name: end - begin for _, name, begin, end in regions} == {
        names[region["id"]]: region["cycles"] for region in measured
    }
    transfers = [name for track, name, *_ in shown.slices if track == "DMA/transfers"]
    assert transfers == ["transfer 0, 1024 bytes"] * 3


@pytest.mark.parametrize("part", [1, 2, 3, 5, 100])
def test_beats_in_neighbouring_cycles_are_one_burst(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates, "PART", part)
    beats = [(3, 1), (4, 1), (5, 1), (6, 0), (7, 0), (9, 0), (10, 1), (20, 0)]
    rows = [(cycle, Kind.DMA, recordings.DMA0, way, 0, 0) for cycle, way in beats]
    trace = recordings.write(tmp_path / "t.trace", np.array(rows, recordings.EVENT))
    shown = Slices(exported(trace, "perfetto", tmp_path))
    assert [(name, begin, end) for _, name, begin, end in shown.slices] == [
        *(("writes L1", 3, 6), ("reads L1", 6, 8), ("reads L1", 9, 10)),
        *(("writes L1", 10, 11), ("reads L1", 20, 21)),
    ]


def test_perfetto_counts_the_conflicts_of_each_bank(product: Recorded, tmp_path: Path) -> None:
    shown = Slices(exported(product.trace, "perfetto", tmp_path))
    assert product.result.cycles < 4096  # so that a point stands for one cycle
    for bank, counted in enumerate(product.result.chip.banks["conflicts"].tolist()):
        points = shown.points.get(f"L1/bank {bank} conflicts", [])
        spans = pairwise([*points, (product.result.cycles, 0)])
        assert sum((end - begin) * value for (begin, value), (end, _) in spans) == counted


def test_a_vcd_reader_finds_every_issue_stall_access_and_conflict(
    recorded: Recorded, tmp_path: Path
) -> None:
    trace, result = recorded
    waves = _Waves(exported(trace, "vcd", tmp_path))
    stalls = {
        (name.removesuffix(".stall"), value): cycles
        for name in waves.signals
        for value, cycles in waves.cycles_of(name).items()
        if name.endswith(".stall") and value != "run"
    }
    assert stalls == stall_cycles(recorded)
    used = [waves.cycles_of(f"l1.bank{bank}_used").get(1, 0) for bank in range(trace.banks)]
    assert used == result.chip.banks["accesses"].tolist()
    for bank, counted in enumerate(result.chip.banks["conflicts"].tolist()):
        cycles = waves.cycles_of(f"l1.bank{bank}_lost")
        assert sum(value * count for value, count in cycles.items()) == counted
    for hart, name in enumerate(trace.harts):
        issues = trace.select(kind=Kind.ISSUE, hart=hart)
        changes = waves.signals[f"{name}.pc"][1:]
        assert changes == list(zip(issues["cycle"].tolist(), issues["a"].tolist(), strict=True))
    assert waves.end == result.cycles


def test_the_view_of_a_vcd_names_the_file_and_all_its_signals_in_groups(
    product: Recorded, tmp_path: Path
) -> None:
    file = exported(product.trace, "vcd", tmp_path)
    lines = file.with_suffix(".gtkw").read_text().splitlines()
    assert lines[0] == f'[dumpfile] "{file.resolve()}"'
    shown = [re.sub(r"\[\d+:0\]$", "", line) for line in lines[1:] if line[0] not in "[@-"]
    assert shown == list(_Waves(file).signals)
    groups = [line[1:] for line in lines if line.startswith("-")]
    assert groups[::2] == groups[1::2] == [*product.trace.harts, "l1", "dma"]


class _Waves:
    """Changes of each signal as (time, value), by "scope.name"."""

    def __init__(self, file: Path) -> None:
        self.signals: dict[str, list[tuple[int, Any]]] = {}
        by_code: dict[str, str] = {}
        scope, now = "", 0
        with file.open("rb") as stream:
            for token in tokenize(stream):
                if token.kind is TokenKind.SCOPE:
                    scope = token.scope.ident
                elif token.kind is TokenKind.VAR:
                    by_code[token.var.id_code] = f"{scope}.{token.var.reference}"
                    self.signals[by_code[token.var.id_code]] = []
                elif token.kind is TokenKind.CHANGE_TIME:
                    assert token.time_change >= now
                    now = token.time_change
                elif token.kind.name.startswith("CHANGE_"):
                    value = token.data.value
                    is_bit = token.kind is TokenKind.CHANGE_SCALAR
                    self.signals[by_code[token.data.id_code]].append(
                        (now, int(value) if is_bit else value)
                    )
        self.end = now

    def cycles_of(self, name: str) -> dict[Any, int]:
        """For how long a signal has each value."""
        changes = [*self.signals[name], (self.end, None)]
        found: Counter[Any] = Counter()
        for (begin, value), (end, _) in pairwise(changes):
            found[value] += end - begin
        return {value: cycles for value, cycles in found.items() if cycles}
