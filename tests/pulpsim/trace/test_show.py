"""A recording as text."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pulpsim.cli.terminal import WIDTH
from pulpsim.trace.selection import Selection
from pulpsim.trace.show import lines
from soc.trace.reader import EVENT, Kind, Trace
from tests.pulpsim.trace import recordings
from tests.pulpsim.trace.conftest import Recorded
from tests.pulpsim.trace.recordings import L1, LOAD


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return recordings.recording(tmp_path)


def shown(trace: Trace, **filters: list[str]) -> list[str]:
    return list(lines(trace, Selection.of(trace, **filters).parts(trace)))


def test_a_small_recording_reads_like_this(
    trace: Trace, golden: Callable[[str, str], None]
) -> None:
    golden("small.log", "".join(f"{line}\n" for line in shown(trace)))


def test_every_event_has_a_line_that_fits_a_terminal(recorded: Recorded) -> None:
    found = shown(recorded.trace)
    assert len(found) == recorded.trace.events.size
    assert max(map(len, found)) <= WIDTH
    cycles = [int(line.split()[0]) for line in found]
    assert cycles == recorded.trace.events["cycle"].tolist()


def test_the_first_line_comes_before_the_rest_of_the_trace_is_read(trace: Trace) -> None:
    def parts() -> Iterator[np.ndarray]:
        yield recordings.events()
        raise AssertionError

    assert next(lines(trace, parts())).endswith("2 cycles off")


def test_a_source_line_is_shown_where_it_changes_on_a_hart(trace: Trace) -> None:
    found = shown(trace, kind=["issue"], hart=["core0"])
    assert [line.partition(", main.c:")[2] for line in found if "main.c" in line] == ["3", "4", "3"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ((Kind.MEMORY, 0, 0x21, L1 + 8, LOAD), "store 4 B 0x10000008, bank 2"),
        ((Kind.MEMORY, 0, 0x14, L1 + 8, LOAD), "load 2 B 0x10000008, bank 2, 2nd half"),
        ((Kind.MEMORY, 8, 0x02, 0x1A104000, LOAD), "load 1 B 0x1a104000, outside L1"),
        ((Kind.CONFLICT, 12, 3 | 1 << 8, 0, L1 + 12), "loses bank 3 to core1, 0x1000000c"),
        ((Kind.STALL, 0, 5, LOAD, 1200), "1,200 cycles l1_contention"),
        ((Kind.SLEEP, 0, 0, LOAD, 1), "sleeps 1 cycle"),
        ((Kind.REGION, 0, 7, 0, LOAD), "region region 7 ends"),
        ((Kind.TRANSFER, 0, 1, 4, 0), "transfer 4 is done"),
    ],
)
def test_an_event_is_told_in_words(tmp_path: Path, event: tuple, text: str) -> None:
    trace = recordings.write(tmp_path / "t.trace", np.array([(7, *event)], EVENT))
    (line,) = shown(trace)
    assert text == line[29:69].strip()


def test_cycles_are_those_of_the_run(tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.trace", recordings.events(), first_cycle=5_000_000_000)
    assert shown(trace)[0].startswith("5000000000 core0")


def test_names_cannot_reach_the_terminal_and_are_cut(trace: Trace) -> None:
    trace.header["symbols"][0][2] = "\x1b[31m[bold]\n" + 50 * "x"
    trace.header["lines"][0][1] = "\x1b]0;" + 50 * "y" + ".c:3"
    trace.header["regions"]["5"] = "\x07" + 50 * "z"
    found = shown(trace)
    assert max(map(len, found)) <= WIDTH
    text = "\n".join(found)
    assert r"\x1b[31m[bold" in text
    assert not set(text) & {"\x1b", "\x07"}
    assert any("…+0x8" in line for line in found)
