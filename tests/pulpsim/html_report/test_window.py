import json
from pathlib import Path

import numpy as np
import pytest

from pulpsim.html_report.command import report
from pulpsim.html_report.figures import of_trace
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.trace_window import window
from soc.config.toml import ConfigError
from soc.trace.header import MAGIC
from tests.pulpsim.html_report.traces import (
    CODE,
    REGION,
    RESULT,
    TRANSFER,
    conflict,
    issues,
    sleep,
    stall,
    trace,
)

ROWS = [
    *issues(0, 0, 5),
    stall(0, 5, "fetch", 20),
    *issues(0, 25, 5),
    *sleep(0, 30, 20, at_barrier=True),
    *issues(1, 0, 12),
    stall(1, 12, "l1_contention", 1),
    conflict(12, 1, winner=0, bank=3),
    *issues(1, 13, 20),
    *sleep(1, 33, 17, at_barrier=True),
    (2, TRANSFER, 0, 0, 1, 64),
    (8, TRANSFER, 0, 1, 1, 0),
    (9, TRANSFER, 0, 0, 1, 64),
    (40, TRANSFER, 0, 1, 1, 0),
    (3, REGION, 0, 4, 1, CODE),
    (6, REGION, 0, 5, 1, CODE),
    (28, REGION, 0, 5, 0, CODE),
    (48, REGION, 0, 4, 0, CODE),
]


def test_a_window_shows_what_the_whole_shows_in_these_cycles() -> None:
    whole = Recording(trace(ROWS, cycles=50))
    for first, end in ((0, 50), (10, 20), (13, 45), (25, 26), (49, 50)):
        part = Recording(window(whole.trace, first, end))
        np.testing.assert_array_equal(part.activity, whole.activity[:, :, first:end])
        np.testing.assert_array_equal(part.heat, whole.heat[:, first:end])


def test_transfers_and_regions_are_cut_at_the_ends_of_a_window() -> None:
    part = Recording(window(trace(ROWS, cycles=50), 10, 30))
    assert (part.transfers.start.tolist(), part.transfers.length.tolist()) == ([0], [20])
    assert part.regions.number.tolist() == [4, 5]
    assert part.regions.start.tolist() == [0, 0]
    assert part.regions.length.tolist() == [20, 18]


def test_a_window_of_a_trace_that_begins_late_has_the_cycles_of_the_run() -> None:
    late = trace(ROWS, cycles=1050, first_cycle=1000)
    figures = of_trace(window(late, 1010, 1020))
    assert figures.cycles == 10
    assert [hart.cycles for hart in figures.harts] == [10, 10]
    assert figures.notes == ("only the cycles 1,010 to 1,019 of the run are shown",)


def saved(folder: Path, **header: object) -> Path:
    """The trace as a file."""
    recorded = trace(ROWS, cycles=50)
    text = json.dumps(recorded.header | header).encode()
    file = folder / "it.trace"
    size = len(text).to_bytes(4, "little")
    file.write_bytes(MAGIC + size + text + recorded.events.tobytes())
    return file


def test_the_command_takes_cycles(tmp_path: Path) -> None:
    page = report(saved(tmp_path, events=len(ROWS)), None, "10-20").read_text()
    assert "only the cycles 10 to 19 of the run are shown" in page
    assert "not complete" not in page


def test_a_window_of_a_broken_recording_says_so(tmp_path: Path) -> None:
    page = report(saved(tmp_path, complete=False), None, "10-20").read_text()
    assert "the trace is not complete: the recording broke off" in page


@pytest.mark.parametrize(
    ("cycles", "message"),
    [
        ("10", "must be a range such as 1000-2000"),
        ("-3-10", "must be a range such as 1000-2000"),
        ("20-10", "ends before it begins"),
        ("20-20", "ends before it begins"),
        ("10-51", "the trace has the cycles 0-50"),
    ],
)
def test_other_cycles_are_refused(tmp_path: Path, cycles: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^--cycle {cycles}: {message}$"):
        report(saved(tmp_path), None, cycles)


def test_a_result_without_a_trace_has_no_cycles_to_choose(tmp_path: Path) -> None:
    message = f"^--cycle 1-2: {RESULT} is no trace; it does not know times$"
    with pytest.raises(ConfigError, match=message):
        report(RESULT, tmp_path / "it.html", "1-2")


def test_a_header_with_nonsense_in_it_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, first_cycle=-1)
    message = rf"^{file}: damaged: its header has first_cycle -1$"
    with pytest.raises(ConfigError, match=message):
        report(file)
