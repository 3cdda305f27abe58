"""What a person who waits for a search is told."""

from io import StringIO

import pytest
from rich.console import Console

from autotuner.measurement import Outcome
from autotuner.space import Point
from pulpsim.commands.tune.progress import Pace, Progress


def test_progress_says_what_is_done_the_best_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("pulpsim.commands.tune.progress.monotonic", lambda: now)
    points, console = [Point(None, (), 1, n) for n in range(4)], Console(file=StringIO(), width=100)
    with Progress("fc", 4, console).shown() as progress:
        assert progress.line == "fc: 0 of about 4 points"
        now = 10.0
        progress.note(points[0], Outcome(None, None, "trap"))
        assert progress.line == "fc: 1 of about 4 points, none has succeeded, 30 s left"
        progress.note(points[1], Outcome(1234))
        progress.note(points[1], Outcome(1234))
        progress.note_tile(points[1], Outcome(3))
        assert progress.line == "fc: 3 of about 4 points, best 1,234 cycles, 3 s left"
        progress.note(points[2], Outcome(2345))
        progress.note(points[3], Outcome(2345))
        assert progress.line == "fc: 5 points, best 1,234 cycles, 0 s left"
    assert console.file.getvalue() == ""


def test_progress_says_how_long_all_layers_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("pulpsim.commands.tune.progress.monotonic", lambda: now)
    point, console, pace = Point(None, (), 1, 8), Console(file=StringIO()), Pace(5)
    for name, seconds, simulated in (("a", 200, 9), ("b", 1, 0)):
        with Progress(name, 4, console, pace).shown() as progress:
            now += seconds
        progress.end(simulated)
    with Progress("c", 4, console, pace).shown() as progress:
        now += 75
        progress.note(point, Outcome(5))
    # of this layer 75 of 300 s; two more like this one and the first, which took 200
    assert progress.line == (
        "c, 3 of 5: 1 of about 4 points, best 5 cycles, 4 min left, 12 min for all"
    )
