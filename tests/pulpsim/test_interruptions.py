"""Signals end commands with a sentence, and leave nothing; compilers end with who started them.

A few moments of each; `python -m tests.pulpsim.interruptions` has a hundred of every command.
"""

import os
import random
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.pulpsim.interruptions import (
    COMMANDS,
    COMPILATION,
    ROOT,
    Started,
    Sweep,
    check_ended,
    record_given,
)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def sweep_of(tmp_path_factory: pytest.TempPathFactory, given: Path) -> Callable[[str], Sweep]:
    """The moments of a command: it runs undisturbed once for all signals."""
    folder = tmp_path_factory.mktemp("sweeps")
    return cache(lambda name: Sweep(name, folder, given, random.Random(name)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_nothing(
    number: signal.Signals, sweep_of: Callable[[str], Sweep], request: pytest.FixtureRequest
) -> None:
    is_full = request.config.getoption("--full")
    for name in COMMANDS if is_full else ["run"]:
        for _ in range(4 if is_full else 1):
            _, wrong = sweep_of(name).signalled(number)
            assert wrong == []


WITHIN_EXEC = """
import os, signal, sys
import typer
from pulpsim.cli import terminal
from pulpsim.cli.shared_options import begin, reporting_bad_input
begin()
try:
    with reporting_bad_input():
        exec("os.kill(os.getpid(), signal.SIGTERM); signal.pause()")
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def test_a_signal_within_exec_has_the_exit_status_of_any_other(tmp_path: Path) -> None:
    """CPython would end a module, as `python -m pulpsim` is one, by SIGINT."""
    (tmp_path / "within_exec.py").write_text(WITHIN_EXEC)
    paths = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-m", "within_exec"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "pulpsim: interrupted\n")


AT_FIRST_IMPORT = """
import os, signal, sys
from pulpsim.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "soc.host.signals":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_a_signal_before_it_has_its_meaning_ends_the_command_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", AT_FIRST_IMPORT], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


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


def test_nothing_is_imported_before_a_signal_has_its_meaning() -> None:
    """Else Ctrl-C in the first milliseconds is answered with Python's traceback."""
    program = (
        "import sys; before = {*sys.modules}; import pulpsim.__main__; "
        "print({*sys.modules} - before)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(literal_eval(found.stdout)) == {"pulpsim", "pulpsim.__main__"}
