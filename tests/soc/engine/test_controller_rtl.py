"""The fabric controller's programs measured on RTL: cycles and memory, in both engines."""

import pytest

from pulpsim.fidelity.controller import CHIPS, ControllerRun, measured, runs

RUNS = runs()
SAMPLE = (
    *("hwl_intl", "data_pri0_pri0", "data_intl_intl", "jump_pri1", "per_pri0", "rnd_pri1_04"),
    *("mst_pri0", "rnd_pri0_12", "rnd_intl_14"),
)
"""Of the first configuration all of these, of the others every second: what the rules differ in."""

SHORT = 8_000
"""Cycles up to which the event engine repeats a program."""


def sample() -> list[ControllerRun]:
    few = set(SAMPLE[::2])
    return [
        run
        for run in RUNS
        if run.program in (SAMPLE if run.configuration == "fc_ri5cy_soc3" else few)
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        is_full = metafunc.config.getoption("--full")
        metafunc.parametrize("run", RUNS if is_full else sample(), ids=str)


def test_a_program_takes_the_cycles_of_the_rtl(run: ControllerRun) -> None:
    assert run.repeat().differences == []


def test_the_event_engine_takes_the_cycles_of_the_rtl(request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    short = [run for run in RUNS if run.expected["total_cycles"] < SHORT]
    chosen = short if is_full else [run for run in sample() if run.program in SAMPLE[1:3]]

    differences = {str(run): run.repeat("event").differences for run in chosen}

    assert len(differences) >= 4
    assert {name: texts for name, texts in differences.items() if texts} == {}


def test_every_measured_program_is_there() -> None:
    assert len(measured()) == 54
    assert {run.configuration for run in RUNS} == set(CHIPS)
    assert sum(len(run.expected["regions"]) for run in RUNS) == 9738
