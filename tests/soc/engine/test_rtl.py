"""Programs measured on RTL: every cycle, instruction and L1 access of every region, every core."""

import pytest

from pulpsim.fidelity.programs import ProgramRun, measured, numbers, runs

SHORT = 20_000
"""Cycles up to which the event engine repeats a program."""

RUNS = runs()
STOCK = "ri5cy_zfinx_f16_stock"
"""The configuration in which vectors of small floats are computed otherwise, in the same cycles."""

BY_EVENTS = [run for run in RUNS if run.expected["total_cycles"] < SHORT]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All programs; regularly those for whose instructions an interpreter is compiled anyway."""
    if "run" in metafunc.fixturenames:
        is_full = metafunc.config.getoption("--full")
        chosen = RUNS if is_full else [run for run in RUNS if run.configuration != STOCK]
        metafunc.parametrize("run", chosen, ids=str)


def test_a_program_takes_the_cycles_of_the_rtl(run: ProgramRun) -> None:
    result = run.simulate()

    assert result.exit.reason == "exit", result.exit.message
    assert numbers(result, run.expected["regions"]) == run.expected


def test_every_measured_program_is_there() -> None:
    assert {core: len(programs) for core, programs in measured().items()} == {
        "cv32e40p": 119,
        "ri5cy": 118,
    }
    assert len(RUNS) == 403
    assert sum(len(run.expected["regions"]) for run in RUNS) == 4897


def by_events(is_full: bool) -> list[ProgramRun]:
    """All short programs; regularly every third under 2,000 cycles, for which less is compiled."""
    if is_full:
        return BY_EVENTS
    few = [run for run in BY_EVENTS if "f16" not in run.configuration]
    return [run for run in few if run.expected["total_cycles"] < SHORT // 10][::3]


def test_the_event_engine_takes_the_cycles_of_the_rtl(request: pytest.FixtureRequest) -> None:
    chosen = by_events(request.config.getoption("--full"))

    differences = {str(run): run.repeat("event").differences for run in chosen}

    assert {name: texts for name, texts in differences.items() if texts} == {}
    assert len(chosen) >= 50


def test_the_event_engine_has_318_programs_to_repeat() -> None:
    assert len(by_events(True)) == 318
