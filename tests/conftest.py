"""Options of the test suite."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MOST_WORKERS = 8
"""Of a whole suite's processes: each of them imports and collects all there is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pulpsim")
    group.addoption(
        "--full", action="store_true", help="run every vector and long random sweep, not a sample"
    )
    group.addoption(
        "--update-golden", action="store_true", help="rewrite golden files from this run's results"
    )
    group.addoption(
        "--vectors",
        type=Path,
        metavar="DIR",
        help="read further test vectors from DIR (default: those in the repository alone)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sampled(every=0): a sweep, all of it with --full; otherwise every so-manieth case, or, "
        "by default, as many as have each value of each parameter at least once",
    )
    # Processes that tests start, by the hundred, would compile all they import anew; so would each
    # run the tests themselves.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # There is a process for each processor: threads of PyTorch and NumPy would only wait, busily.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.dont_write_bytecode = False
    gc.disable()  # until all is collected: half of that time
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background; tests send it
        signal.signal(signal.SIGINT, signal.default_int_handler)


COMPILER = pytest.StashKey[subprocess.Popen]()


def is_chosen(config: pytest.Config) -> bool:
    """Are tests chosen, not whole folders?"""
    return bool(
        config.option.keyword
        or any(not Path(name).is_dir() for name in config.option.file_or_dir or ())
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile what the whole suite needs while it begins."""
    config = session.config
    is_whole = not config.option.file_or_dir and not is_chosen(config)
    if is_whole and not config.option.collectonly and not hasattr(config, "workerinput"):
        command = [sys.executable, "-m", "tests.interpreters"]
        config.stash[COMPILER] = subprocess.Popen(command, cwd=config.rootpath)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the compiler end with the suite."""
    if compiler := session.config.stash.get(COMPILER, None):
        compiler.kill()
        compiler.wait()


def pytest_collection_finish() -> None:
    """Let Python's collector leave alone what stays to the end, and come a tenth as often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes of `-n auto`: one for each processor, for a run of whole folders.

    0, which is this one alone, where files or tests are named or chosen, since it starts sooner,
    and with -s. With --pdb pytest-xdist itself starts none.
    """
    if is_chosen(config) or config.option.capture == "no" or config.option.collectonly:
        return 0
    return min(os.cpu_count() or 1, MOST_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Make of a sweep the cases that are in its sample, unless cases of it are named."""
    yield
    mark = metafunc.definition.get_closest_marker("sampled")
    if mark and metafunc._calls and not metafunc.config.getoption("--full"):
        if metafunc.function.__name__ not in sweeps_with_named_cases(metafunc.config):
            metafunc._calls[:] = sample(metafunc._calls, *mark.args)


def sweeps_with_named_cases(config: pytest.Config) -> set[str]:
    """The functions of which the command line names cases: `tests/x.py::test_sweep[case]`."""
    named = [name.partition("[") for name in config.option.file_or_dir or ()]
    return {test.rpartition("::")[2] for test, bracket, _ in named if bracket}


def sample(cases: list, every: int = 0) -> list:
    """The cases of a sweep that run regularly: each so-manieth, or enough to have all values."""
    if every:
        return cases[::every]
    chosen, values = set(), [values_of(case) for case in cases]
    missing = set().union(*values)
    while missing:
        best = max(range(len(cases)), key=lambda index: len(values[index] & missing))
        chosen.add(best)
        missing -= values[best]
    return [cases[index] for index in sorted(chosen)]


def values_of(case: Any) -> set[tuple[int, str]]:
    """The value of each parameter of a case (of pytest's CallSpec): parts of its name, numbered."""
    return set(enumerate(case._idlist))


@pytest.fixture(autouse=True)
def _nothing_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep processes that translate hot code out of tests that are not about them."""
    from soc.jit.code_cache import INTERPRET_ALL, SHARED

    monkeypatch.setattr(SHARED, "policy", INTERPRET_ALL)
