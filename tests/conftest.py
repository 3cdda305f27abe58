"""Options of the test suite."""

import gc
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the samples of sweeps."""
    if config.getoption("--full"):
        return
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for cases in sweeps.values() for item in cases} - {
        item for cases in sweeps.values() for item in sample(cases)
    }
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def sample(cases: list[pytest.Item]) -> list[pytest.Item]:
    """The cases of a sweep that run regularly."""
    mark = cases[0].get_closest_marker("sampled")
    if mark.args:
        return cases[:: mark.args[0]]
    chosen, missing = [], {value for case in cases for value in values(case)}
    while missing:
        case = max(cases, key=lambda case: len(values(case) & missing))
        chosen.append(case)
        missing -= values(case)
    return chosen


def values(case: pytest.Item) -> set[tuple[int, str]]:
    """The value of each parameter of a case: the parts of its name, numbered."""
    return set(enumerate(case.callspec._idlist))


@pytest.fixture(autouse=True)
def _nothing_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep processes that translate hot code out of tests that are not about them."""
    from soc.jit.code_cache import INTERPRET_ALL, SHARED

    monkeypatch.setattr(SHARED, "policy", INTERPRET_ALL)
