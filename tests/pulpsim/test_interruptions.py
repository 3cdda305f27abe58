"""Signals end commands with a sentence, and leave nothing; compilers end with who started them.

A few moments of each; `python -m tests.pulpsim.interruptions` has a hundred of every command.
"""

import random
import signal
from pathlib import Path

import pytest

from tests.pulpsim.interruptions import (
    COMMANDS,
    COMPILATION,
    Started,
    Sweep,
    check_ended,
    record_given,
)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_given(tmp_path_factory.mktemp("given"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_nothing(
    number: signal.Signals, tmp_path: Path, given: Path, request: pytest.FixtureRequest
) -> None:
    is_full = request.config.getoption("--full")
    for name in COMMANDS if is_full else ["run"]:
        sweep = Sweep(name, tmp_path, given, random.Random(name))
        for _ in range(4 if is_full else 1):
            _, wrong = sweep.signalled(number)
            assert wrong == []


def compiling(folder: Path) -> Started:
    """A run with an empty cache, as soon as it compiles."""
    command = Started(COMPILATION, folder, folder, folder / "cache")
    assert command.process.stdout
    assert "compiling" in command.process.stdout.readline()
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_compilation_ends_with_a_sentence(number: signal.Signals, tmp_path: Path) -> None:
    command = compiling(tmp_path)
    output = command.end(number)
    assert check_ended(command, number, output) == []
    assert command.process.returncode == 128 + number
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["units.lock"]


def test_compilers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    command = compiling(tmp_path)
    command.end(signal.SIGKILL)
    assert command.left() == []
