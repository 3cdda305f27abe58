"""Exports, each read by another tool's reader, or by what its format's description says."""

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from pulpsim.trace import aggregates
from pulpsim.trace.code import Code
from pulpsim.trace.export import formats, konata
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.conftest import Recorded
from tests.pulpsim.trace.export.exported import Slices, exported, stall_cycles


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_trace_is_exported_the_same_in_smaller_parts(
    product: Recorded, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exported(product.trace, name, tmp_path)
    monkeypatch.setattr(aggregates, "PART", 997)
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


def test_a_late_grant_ends_its_instruction_in_a_konata_log(tmp_path: Path) -> None:
    load, again = recordings.LOAD, recordings.AGAIN
    rows = [
        (0, Kind.ISSUE, 0, 0, load, 0),
        (1, Kind.ISSUE, 1, 0, again, 0),
        (1, Kind.STALL, 0, CAUSES.index("load_external"), load, 299),
        (300, Kind.MEMORY, 0, 0x22, 0x1C000000, load),
        (300, Kind.ISSUE, 0, 0, again, 0),
        (300, Kind.MEMORY, 0, 0x26, 0x1C000004, load),
        (301, Kind.ISSUE, 0, 0, again, 0),
    ]
    trace = recordings.write(tmp_path / "late.trace", np.array(rows, EVENT), cycles=302)
    lines = exported(trace, "konata", tmp_path).read_text().splitlines()
    now, seen = 0, defaultdict(list)
    for line in lines[1:]:
        command, *rest = line.split("\t")
        now += int(rest[0]) if command.startswith("C") else 0
        if command in "SER":
            seen[int(rest[0])].append((now, command, rest[2] if command in "SE" else ""))
    at = 300 - konata.SPAN
    assert seen[0] == [(0, "S", "X"), (at, "S", "M"), (301, "R", "")]
    stall = [(at, "S", "load_external"), (300, "E", "load_external")]
    assert seen[2] == [(at, "S", "D"), *stall, (300, "S", "X"), (301, "R", "")]
    assert seen[1] == [(1, "S", "X"), (301 - konata.SPAN, "R", "")]


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
    rows = aggregates.instruction_sums(trace)
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
    assert file.read_text().count("\nfn=") == len(aggregates.function_sums(trace, rows))


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


def test_callgrind_has_absolute_paths_of_sources(product: Recorded, tmp_path: Path) -> None:
    text = exported(product.trace, "callgrind", tmp_path).read_text()
    files = {Path(name) for name in re.findall(r"^(?:fl|fi|cfi)=\(\d+\) (.+)$", text, re.M)}
    files -= {Path("???")}  # code without lines
    assert len(files) > 1
    assert all(file.is_absolute() and file.is_file() for file in files)


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
