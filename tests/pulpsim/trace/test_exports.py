"""Exports, each read by another tool's reader, or by what its format's description says."""

import csv
import io
import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from pyarrow import parquet
from vcd.reader import TokenKind, tokenize

from pulpsim.trace import sums
from pulpsim.trace.code import Code
from pulpsim.trace.export import formats
from pulpsim.trace.selection import Selection
from soc.state import CAUSES, COUNT
from soc.trace import Kind, Trace
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.conftest import Recorded


def exported(trace: Trace, name: str, folder: Path, **filters: list[str]) -> Path:
    """A trace, or what of it passes the filters, in another format."""
    file = folder / f"out{formats.FORMATS[name].suffix}"
    formats.export(trace, name, Selection.of(trace, **filters), file)
    return file


def stall_cycles(recorded: Recorded) -> dict[tuple[str, str], int]:
    """What the run's counters say, by hart and cause."""
    counts = recorded.result.chip.harts["counts"][:, COUNT.load_use :]
    return {(recorded.trace.harts[h], CAUSES[c]): int(counts[h, c]) for h, c in np.argwhere(counts)}


class Slices:
    """What a Perfetto trace says: slices with their tracks' names, and counters."""

    def __init__(self, file: Path) -> None:
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(file.read_bytes())
        self.tracks: dict[int, str] = {}
        self.slices: list[tuple[str, str, int, int]] = []  # track, name, begin, end
        self.points: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.names: dict[int, str] = {}
        stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for packet in trace.packet:
            self._learn(packet)
            if not packet.HasField("track_event"):
                continue
            event, track = packet.track_event, self.tracks[packet.track_event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.points[track].append((packet.timestamp, event.counter_value))
            elif event.type == event.TYPE_SLICE_BEGIN:
                stacks[event.track_uuid].append((self.names[event.name_iid], packet.timestamp))
            else:
                name, begin = stacks[event.track_uuid].pop()
                self.slices.append((track, name, begin, packet.timestamp))
        assert not any(stacks.values())

    def _learn(self, packet: Any) -> None:
        self.names |= {name.iid: name.name for name in packet.interned_data.event_names}
        about = packet.track_descriptor
        own = about.thread.thread_name or about.process.process_name or about.name
        parent = self.tracks.get(about.parent_uuid)
        if about.uuid:
            self.tracks[about.uuid] = f"{parent}/{own}" if parent else own


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
    monkeypatch.setattr(sums, "PART", part)
    beats = [(3, 1), (4, 1), (5, 1), (6, 0), (7, 0), (9, 0), (10, 1), (20, 0)]
    rows = [(cycle, Kind.DMA, recordings.DMA0, way, 0, 0) for cycle, way in beats]
    trace = recordings.write(tmp_path / "t.trace", np.array(rows, recordings.EVENT))
    shown = Slices(exported(trace, "perfetto", tmp_path))
    assert [(name, begin, end) for _, name, begin, end in shown.slices] == [
        *(("writes L1", 3, 6), ("reads L1", 6, 8), ("reads L1", 9, 10)),
        *(("writes L1", 10, 11), ("reads L1", 20, 21)),
    ]


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_trace_is_exported_the_same_in_smaller_parts(
    product: Recorded, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exported(product.trace, name, tmp_path)
    monkeypatch.setattr(sums, "PART", 997)
    (tmp_path / "parts").mkdir()
    parts = exported(product.trace, name, tmp_path / "parts")
    if name == "parquet":
        assert parquet.read_table(whole).to_pylist() == parquet.read_table(parts).to_pylist()
    elif name == "perfetto":
        one, other = Slices(whole), Slices(parts)
        assert sorted(one.slices) == sorted(other.slices)
        assert one.points == other.points
    else:
        assert whole.read_bytes() == parts.read_bytes()


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


KONATA = re.compile(
    r"Kanata\t0004|C=\t\d+|C\t[1-9]\d*|I\t\d+\t\d+\t\d+|L\t\d+\t[01]\t[^\t]+|[SE]\t\d+\t[01]\t\w+"
    r"|R\t\d+\t\d+\t0"
)


def test_a_konata_log_follows_its_description(recorded: Recorded, tmp_path: Path) -> None:
    trace, result = recorded
    lines = exported(trace, "konata", tmp_path).read_text().splitlines()
    assert lines[0] == "Kanata\t0004"
    assert lines[1].startswith("C=\t")
    assert all(KONATA.fullmatch(line) for line in lines)
    now, alive, ended, threads = int(lines[1][3:]), set(), set(), {}
    stages: dict[int, dict[str, int]] = defaultdict(dict)
    for line in lines[2:]:
        command, first, *rest = line.split("\t")
        number = int(first)
        if command == "C":
            now += number
        elif command == "I":
            assert number not in threads
            alive.add(number)
            threads[number] = int(rest[1])
        else:
            assert number in alive
            if command == "S":
                stages[number][rest[1]] = now
            if command == "R":
                assert int(rest[0]) == len(ended)
                ended.add(number)
                alive.remove(number)
    assert not alive
    assert sorted(threads) == list(range(result.instructions))
    issues = trace.select(kind=Kind.ISSUE)
    order = sorted(threads)
    assert [threads[number] for number in order] == issues["hart"].tolist()
    assert [stages[number]["X"] for number in order] == issues["cycle"].tolist()
    accesses = np.count_nonzero(trace.events["kind"] == Kind.MEMORY)
    assert sum("M" in found for found in stages.values()) == accesses


def test_a_konata_log_shows_what_an_instruction_waits_for(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    trace = recordings.recording(tmp_path)
    file = exported(trace, "konata", tmp_path, hart=["core0"], cycle=["8-12"])
    golden("small.kanata", file.read_text())


SPIKE = re.compile(r"core +(\d+): 0x([0-9a-f]{8}) \(0x([0-9a-f]{8})\) (\S.*)")
SPIKE_SYMBOL = re.compile(r"core +(\d+): >>>>  (\S+)")


def test_a_spike_log_has_every_instruction_and_the_symbols_they_reach(
    hello: Recorded, tmp_path: Path
) -> None:
    lines = exported(hello.trace, "spike", tmp_path).read_text().splitlines()
    found = [match.groups() for line in lines if (match := SPIKE.fullmatch(line))]
    issues = hello.trace.select(kind=Kind.ISSUE)
    assert [(int(core), int(pc, 16), int(word, 16)) for core, pc, word, _ in found] == list(
        zip(issues["hart"].tolist(), issues["a"].tolist(), issues["b"].tolist(), strict=True)
    )
    code = Code(hello.trace)
    for _, pc, _, text in found[:200]:
        assert text.split() == code.text(int(pc, 16)).split()
    symbols = [match.groups() for line in lines if (match := SPIKE_SYMBOL.fullmatch(line))]
    starts = {start: name for start, _, name in hello.trace.symbols}
    assert symbols == [
        (str(hart), starts[pc])
        for hart, pc in zip(issues["hart"].tolist(), issues["a"].tolist(), strict=True)
        if pc in starts
    ]
    assert len(symbols) + len(found) == len(lines)


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


def test_speedscope_frames_nest_and_hold_each_cause_for_its_cycles(
    recorded: Recorded, tmp_path: Path
) -> None:
    file = json.loads(exported(recorded.trace, "speedscope", tmp_path).read_text())
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    stalls: Counter[tuple[str, str]] = Counter()
    for profile in file["profiles"]:
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("evented", "none", 0)
        assert profile["endValue"] == recorded.result.cycles
        stack: list[tuple[int, int]] = []
        now = 0
        for event in profile["events"]:
            assert now <= event["at"] <= profile["endValue"]
            now = event["at"]
            if event["type"] == "O":
                stack.append((event["frame"], now))
            else:
                frame, begin = stack.pop()
                assert (event["type"], event["frame"]) == ("C", frame)
                if frames[frame].startswith("["):
                    stalls[profile["name"], frames[frame][1:-1]] += now - begin
        assert not stack
    assert stalls == stall_cycles(recorded)


def test_speedscope_has_the_calls_of_a_small_recording(tmp_path: Path) -> None:
    trace = recordings.recording(tmp_path)
    file = json.loads(exported(trace, "speedscope", tmp_path, hart=["core0"]).read_text())
    names = [frame["name"] for frame in file["shared"]["frames"]]
    (profile,) = file["profiles"]
    told = [f"{event['type']} {names[event['frame']]} {event['at']}" for event in profile["events"]]
    assert told == [
        *("O [off] 0", "C [off] 2", "O main 2", "O [jump] 4", "C [jump] 5", "O double 5"),
        *("O [jump] 7", "C [jump] 8", "C double 8", "O [l1_contention] 9", "C [l1_contention] 10"),
        *("O [jump] 11", "C [jump] 12", "C main 14"),
    ]


@pytest.mark.skipif(not shutil.which("callgrind_annotate"), reason="needs valgrind")
def test_callgrind_annotate_shows_the_sums(recorded: Recorded, tmp_path: Path) -> None:
    trace, _ = recorded
    file = exported(trace, "callgrind", tmp_path)
    command = ["callgrind_annotate", "--auto=no", "--threshold=100", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = sums.instruction_sums(trace)
    columns = re.search(r"^Events shown: +(.*)$", text, re.M)
    totals = re.search(r"^(.*)  PROGRAM TOTALS$", text, re.M)
    assert columns
    assert totals
    expected = {"Cycles": rows["cycles"].sum(), "Instructions": rows["issues"].sum()}
    expected |= {"Conflicts": rows["conflicts"].sum()}
    expected |= dict(zip(CAUSES, rows["stalls"].sum(axis=0), strict=True))
    assert dict(zip(columns[1].split(), _counts(totals[1]), strict=True)) == {
        name: count for name, count in expected.items() if count or name[0].isupper()
    }
    assert file.read_text().count("\nfn=") == len(sums.function_sums(trace, rows))


def _counts(line: str) -> list[int]:
    """The numbers of a row, without their shares of the whole."""
    return [int(count.replace(",", "")) for count in re.sub(r"\([^)]*\)", "", line).split()]


def test_the_cost_of_calls_is_all_that_the_functions_they_call_take(
    hello: Recorded, tmp_path: Path
) -> None:
    own, called, calls = _callgrind(exported(hello.trace, "callgrind", tmp_path))
    code = {name for _, _, name in hello.trace.symbols}
    assert own.keys() <= code | {"(no symbol)"}
    for name, (count, inclusive) in called.items():
        assert (inclusive == own[name] + calls.get(name, 0)).all()
        assert count > 0
    assert called["cl_main"][0] == 8
    assert called["puth"][0] == 8


def _callgrind(file: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """By function: what it takes itself, what calls of it take (how often, how much), its calls."""
    names: dict[str, str] = {}
    own: dict[str, Any] = defaultdict(int)
    called: dict[str, Any] = {}
    calls: dict[str, Any] = defaultdict(int)
    function = target = ""
    count = 0
    for line in file.read_text().splitlines():
        kind, _, value = line.partition("=")
        if kind in ("fn", "cfn"):
            number, _, name = value.partition(" ")
            names.setdefault(number, name)
            function, target = (names[number], "") if kind == "fn" else (function, names[number])
        elif kind == "calls":
            count = int(value.split()[0])
        elif line.startswith("0x"):
            costs = np.array(line.split()[2:], np.int64)
            if target:
                before = called.get(target, (0, 0))
                called[target] = before[0] + count, before[1] + costs
                calls[function] += costs
                target = ""
            else:
                own[function] += costs
    return own, called, calls
