"""What programs may cost their host, in calls of Python functions and in memory.

The processor time itself: python -m tests.soc.costs
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isa.program import Program
from soc.run import run_program
from tests.soc import costs

SHORT, LONG = 1500, 3500
"""Cycles: between the two nothing is prepared any more."""

ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 350

PER_ACCESS = {
    costs.console: 25,
    costs.registers: 15,
    costs.flushes: 32,
    costs.timers: 31,
    costs.collisions: 16,  # one of the stores that are held up is tried in each cycle
}
"""Calls for an access to a register at most."""

PER_CYCLE = {costs.fences: 0.01, costs.changes: 10, costs.islands: 9}
"""Calls for a cycle of nine harts at most."""


def difference(make: Callable[[], Program]) -> tuple[int, int]:
    """Calls and instructions of the cycles from SHORT to LONG."""
    program = make()
    run_program(program, max_cycles=SHORT)
    (calls, result), (more_calls, more) = (
        costs.python_calls(program, cycles) for cycles in (SHORT, LONG)
    )
    assert more.exit.reason == "max_cycles"
    return more_calls - calls, more.instructions - result.instructions


@pytest.mark.parametrize("make", PER_ACCESS, ids=lambda make: make.__name__)
def test_an_access_to_a_peripheral_takes_few_calls_of_python(make) -> None:
    calls, instructions = difference(make)
    assert instructions > 800
    assert calls < PER_ACCESS[make] * instructions


@pytest.mark.parametrize("make", PER_CYCLE, ids=lambda make: make.__name__)
def test_code_that_is_new_or_changes_takes_few_calls_of_python(make) -> None:
    calls, _ = difference(make)
    assert calls < PER_CYCLE[make] * (LONG - SHORT)


PEAK = """
from soc.run import run_program
from tests.soc import costs
run_program(costs.{make}(), max_cycles=100_000)
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def megabytes(make: Callable[[], Program]) -> float:
    """The peak of a process of its own; getrusage would count the parent's, too."""
    script = PEAK.format(make=make.__name__)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


@pytest.mark.parametrize("make", [costs.islands, costs.changes], ids=lambda make: make.__name__)
def test_code_everywhere_takes_little_memory(make) -> None:
    assert megabytes(make) < MOST_MEGABYTES
