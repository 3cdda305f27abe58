"""Harts that have run ahead of a flush of the instruction cache: the run begins anew, unseen."""

from itertools import pairwise
from pathlib import Path

import pytest

from firmware.platform import address_of
from firmware.runtime import exit_, new_kernel, team_of
from isa.program import Program
from soc.chip.spec import load_chip
from soc.debug.session import Session
from soc.engine.run_ahead import RanAheadError
from soc.exchange import Exchange
from soc.run import ENGINES, run_program
from soc.simulation import Simulation
from soc.trace.recorder import Recording
from tests.soc.engine.test_engines import differences, ends

FLUSHES = 40
STOP = 77


def flushing(stops: bool = False) -> Program:
    """Core 0 prints and flushes private caches, again and again, while the others add.

    stops    it stops first, as an Exchange expects
    """
    chip = load_chip("pulp")
    k = new_kernel(chip, "flushing")
    with team_of(k, chip, chip.cores) as team:
        with team.only(0), k.scope():
            if stops:
                exit_(k, STOP)
            character, put, flush = k.x(3)
            k.li(put, address_of("stdout", "PUT"))
            k.li(flush, address_of("cluster_icache", "FLUSH_PRIVATE"))
            for number in range(FLUSHES):
                k.li(character, ord("a") + number % 26)
                k.sw(character, 0, put)
                k.sw(character, 0, flush)
        with k.scope():
            count, total = k.x(2)
            k.li(count, 150)
            with k.loop(count):
                for _ in range(20):
                    k.add(total, total, count)
        team.barrier()
    return k.build()


@pytest.fixture(scope="module")
def program() -> Program:
    return flushing()


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cycles in which runs are found to be ahead."""
    cycles = []
    begin = Simulation._begin_anew

    def noted(simulation: Simulation, error: RanAheadError) -> None:
        cycles.append(error.cycle)
        begin(simulation, error)

    monkeypatch.setattr(Simulation, "_begin_anew", noted)
    return cycles


def test_both_engines_leave_the_same(program: Program, anew: list[int]) -> None:
    assert differences(ends(program, 100_000)) == ""
    assert anew


def test_a_run_begins_anew_a_few_times_however_often_the_cache_is_flushed(
    program: Program, anew: list[int]
) -> None:
    run_program(program)
    assert 1 <= len(anew) <= 3
    assert all(second >= 2 * first for first, second in pairwise(anew))


def test_what_was_printed_is_passed_on_once(program: Program, anew: list[int]) -> None:
    passed: list[str] = []
    result = run_program(program, on_console=passed.append)
    assert anew
    assert "".join(passed) == result.console
    assert len(result.console) == FLUSHES


def test_a_recording_is_the_event_engines(
    program: Program, anew: list[int], tmp_path: Path
) -> None:
    files = [tmp_path / f"{engine}.trace" for engine in ENGINES]
    for engine, file in zip(ENGINES, files, strict=True):
        run_program(program, engine=engine, trace=Recording(file))
    assert anew
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_session_stops_at_a_breakpoint_in_the_cycle_of_the_event_engine(
    program: Program, anew: list[int]
) -> None:
    cycles = []
    for engine in ENGINES:
        session = Session(program, engine=engine)
        session.go_to(100_000)
        last = session.cycle
        session.go_to(0)
        session.breakpoints.add(int(session.registers(0)["pc"]) or program.entry)
        session.breakpoints.add(program.entry + 64)
        stops = []
        while stop := session.go_on(100_000):
            stops.append((stop.cycle, stop.harts))
        cycles.append((last, session.cycle, stops))
    assert anew
    assert cycles[0] == cycles[1]


def test_a_run_that_was_stopped_in_between_cannot_begin_anew() -> None:
    exchange = Exchange(flushing(stops=True))
    assert exchange.go_on().code == STOP
    end = exchange.go_on()
    assert end.reason == "interrupted"
    assert end.message.endswith(
        "in which the instruction cache changes; engine='event' lets none do so"
    )
    by_events = Exchange(flushing(stops=True), engine="event")
    assert by_events.go_on().code == STOP
    assert by_events.go_on().reason == "exit"
