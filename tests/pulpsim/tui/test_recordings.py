"""The live view of a recording: it shows what the run did, as far as that is known."""

import re
from pathlib import Path

import numpy as np
import pytest

from isa.program import Program
from pulpsim.tui.panels import panel_names
from pulpsim.tui.trace_source import TraceSource
from soc.run import run_program
from soc.trace.reader import EVENT, Kind, Trace, TraceError
from soc.trace.recorder import Recording
from soc.trace.writer import TraceWriter
from tests.pulpsim.tui.person import Person, live


def test_a_recording_shows_the_same_as_the_run(program: Program, trace: Path) -> None:
    run, recorded = live(program), TraceSource.open(trace)
    Person(run).press("space")
    assert (recorded.cycle, recorded.latest) == (run.cycle, run.latest)
    for width in (1, 7, 64):
        start = run.latest // 2 if width == 1 else 0
        edges = start + np.arange(51) * width
        assert run.refine(edges, lambda: True)
        one, other = run.bins(edges), recorded.bins(edges)
        assert (one.issued == other.issued).all()
        assert (one.conflicts == other.conflicts).all()
        assert (one.waiting <= other.waiting).all()  # the recording's sleep ends with the wake-up
        assert one.waiting.max() > 3
    for cycle in (150, 700, run.latest // 2, run.latest):
        run.go_to(cycle)
        recorded.go_to(cycle)
        assert [r.name for r in run.regions()] == [r.name for r in recorded.regions()]
        assert [(r.count, r.is_open, r.cycles) for r in run.regions()] == [
            (r.count, r.is_open, r.cycles) for r in recorded.regions()
        ]
    assert Trace.open(trace).complete


def test_both_stop_at_the_same_breakpoints_barriers_and_instructions(
    program: Program, trace: Path
) -> None:
    run, recorded = live(program), TraceSource.open(trace)
    people = Person(run), Person(recorded)
    recorded.go_to(0)
    issues = Trace.open(trace).select(kind=Kind.ISSUE, hart=5)
    pcs, counts = np.unique(issues["a"], return_counts=True)
    for person in people:
        person.player.toggle_breakpoint(hex(pcs[counts == 5][0]))
    stops: list[list[tuple[int, str]]] = [[], []]
    for key in ("space", "space", "i", "i", "down", "i", "full_stop", "space", "space"):
        for person, found in zip(people, stops, strict=True):
            person.press(key)
            found.append((person.source.cycle, person.player.message))
    assert stops[0] == stops[1]
    assert sum(message.startswith("breakpoint: core5 at ") for _, message in stops[0]) >= 2


def test_recordings_have_no_registers_and_end(trace: Path) -> None:
    person = Person(TraceSource.open(trace))
    assert panel_names(person.frame) == ["code", "regions", "banks", "stops"]
    person.press("space")
    assert person.player.message == "end of the recording; ← or home go back"


def test_the_code_of_a_run_and_of_its_recording_is_the_same(program: Program, trace: Path) -> None:
    run, recorded = live(program).code, TraceSource.open(trace).code
    assert len(run.rows) > 100
    assert run.rows == recorded.rows
    for row in run.rows:
        text = run.text(row.address, run.word(row.address))
        assert text == recorded.text(row.address, recorded.word(row.address))
        assert text or row.label


def test_recordings_that_lack_something_are_shown_as_far_as_they_go(
    program: Program, trace: Path, tmp_path: Path
) -> None:
    torn = tmp_path / "torn.trace"
    torn.write_bytes(trace.read_bytes()[:200_000])
    person = Person(TraceSource.open(torn))
    person.press("space")
    assert re.match(r"the file is truncated: \d+ of \d+ events are left; ", person.player.message)
    for name, filters in (("empty", ("kind=region", "hart=fc")), ("dma", ("kind=dma",))):
        file = tmp_path / name
        run_program(program, trace=Recording(file, filters=filters))
        person = Person(TraceSource.open(file))
        person.press("home", "space", "left", "i", "n", "space")
        assert "cycle" in person.lines[0]


def test_a_damaged_recording_is_refused(trace: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.trace"
    writer = TraceWriter(bad, dict(Trace.open(trace).header))
    writer.append(np.array([(0, 99, 0, 0, 0, 0)], EVENT))
    writer.close(complete=True)
    message = re.escape(f"{bad}: damaged: (0, 99, 0, 0, 0, 0) is no event of this chip")
    with pytest.raises(TraceError, match=f"^{message}$"):
        TraceSource.open(bad)
