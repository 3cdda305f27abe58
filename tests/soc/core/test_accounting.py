"""Where the cycles of a hart go: its instructions and its stalls by cause are all of them."""

from typing import Any

import pytest

from pulpsim.fidelity.programs import ProgramRun, runs
from soc.result import RunResult
from soc.run import run_program
from tests.soc.random_programs import random_program

SHORT = 6000
"""Cycles up to which a measured program is run regularly."""


def unaccounted(region: dict[str, Any]) -> int:
    """Cycles of a region that are neither an instruction's nor a stall's: counted nowhere else."""
    return region["cycles"] - region["instructions"] - sum(region["stalls"].values())


def check(result: RunResult) -> int:
    """Check the account of every hart and region; returns the number of regions."""
    report = result.to_json()
    regions = [region for hart in report["harts"] for region in hart["regions"]]
    assert [hart["cycles"] for hart in report["harts"]] == [report["cycles"]] * len(report["harts"])
    assert all(min(hart["stalls"].values(), default=0) >= 0 for hart in report["harts"])
    assert [region for region in regions if unaccounted(region)] == []
    return len(regions)


def test_every_cycle_of_every_measured_program_has_its_cause(
    request: pytest.FixtureRequest,
) -> None:
    is_full = request.config.getoption("--full")
    checked = 0
    for run in runs() if is_full else [run for run in runs() if is_sampled(run)][::2]:
        checked += check(run.simulate())
    assert checked > (3500 if is_full else 1000)


def is_sampled(run: ProgramRun) -> bool:
    """Is it short, and of a configuration whose interpreter other tests need, too?"""
    return run.expected["total_cycles"] < SHORT and not run.configuration.endswith("_stock")


def test_every_cycle_of_random_programs_for_eight_cores_has_its_cause(
    request: pytest.FixtureRequest,
) -> None:
    seeds = range(200 if request.config.getoption("--full") else 10)
    assert sum(check(run_program(random_program(seed))) for seed in seeds) > 50
