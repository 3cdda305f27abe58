"""Recordings of real runs, with what the run's counters say."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.workload import elf
from soc.result import RunResult
from soc.run import run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from trainlib import launch

DATA = Path(__file__).parent / "data"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of this name, or rewrites the file on demand."""

    def compare(name: str, text: str) -> None:
        if request.config.getoption("--update-golden"):
            (DATA / name).write_text(text)
        assert text == (DATA / name).read_text()

    return compare


class Recorded(NamedTuple):
    """A run and its trace."""

    trace: Trace
    result: RunResult


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A matrix product on eight cores: regions, barriers, DMA, conflicts, no calls."""
    kernel = launch.program("matmul_f32", {"n": 16, "k": 16, "m": 16})
    file = tmp_path_factory.mktemp("traces") / "product.trace"
    result = run_program(kernel.program, trace=Recording(file))
    return Recorded(Trace.open(file), result)


@pytest.fixture(scope="session")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A C program on all harts: functions that call each other."""
    file = tmp_path_factory.mktemp("traces") / "hello.trace"
    result = run_program(elf("hello"), trace=Recording(file))
    return Recorded(Trace.open(file), result)


@pytest.fixture(params=["product", "hello"])
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Each of them."""
    return request.getfixturevalue(request.param)
