"""Wherever points are measured, and whatever happens there, the outcomes are the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import pytest

from autotuner.measure import Limits, Measure
from autotuner.measurement_store import Database
from autotuner.point import Point
from autotuner.space import Space
from soc.chip.spec import load_chip
from soc.run_many import Run, Threads, outcomes_of
from soc.worker_process import Processes
from tests.autotuner.kept_of_runs import killed_at_the_limit, killed_first, pid
from trainlib.launch import program

ROOT = Path(__file__).parents[2]
CHIP = load_chip("pulp")
SPACE = Space.of(
    "linear_fw_f32", {"inputs": 96, "outputs": 40, "unroll": 1, "rows": 1, "cols": 1}, CHIP, sizes=3
)
IMPOSSIBLE = Point(None, (("cols", 99), ("rows", 99)), 1, 8)
RUN = Run(program("relu_fw_f32", {"shape": [8]}).program)


def measured(executor: Executor, points: list[Point]) -> tuple[list, list]:
    """Outcomes of points, and what the database has then."""
    database = Database(":memory:")
    limits = Limits(max_cycles=17_000)
    outcomes = Measure(SPACE.layer, CHIP, database, limits, executor=executor)(points)
    return outcomes, sorted(database.connection.execute("SELECT * FROM results"))


@pytest.fixture(scope="module")
def points(request: pytest.FixtureRequest) -> list[Point]:
    """Every twelfth point of the space, with --full every fifth; and one that cannot be."""
    every = 5 if request.config.getoption("--full") else 12
    return [*list(SPACE)[::every], IMPOSSIBLE]


@pytest.fixture(scope="module")
def expected(points: list[Point]) -> tuple[list, list]:
    found = measured(Threads(1), points)
    reasons = {outcome.reason.split(":")[0] for outcome in found[0]}
    assert {"", "max_cycles", "linear_fw_f32"} <= reasons
    return found


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


def test_processes_find_what_a_thread_finds(
    two: Processes, points: list[Point], expected: tuple
) -> None:
    assert measured(two, points) == expected


def test_processes_stay_from_one_call_to_the_next(two: Processes) -> None:
    first = set(outcomes_of(two, [RUN] * 6, pid))
    assert set(outcomes_of(two, [RUN] * 6, pid)) <= first
    assert (len(first) <= 2, os.getpid() in first) == (True, False)


def test_no_process_is_started_for_what_is_known(points: list[Point], expected: tuple) -> None:
    database = Database(":memory:")
    measure = partial(Measure, SPACE.layer, CHIP, database, Limits(max_cycles=17_000))
    measure(executor=Threads(1))(points)
    with Processes(2) as executor:
        assert measure(executor=executor)(points) == expected[0]
        assert executor.idle == []


def test_a_run_whose_process_is_killed_is_carried_out_again(two: Processes, tmp_path: Path) -> None:
    found = outcomes_of(two, [RUN] * 3, partial(killed_first, tmp_path / "marker"))
    assert len(set(found)) == 1
    assert found[0] > 0


def test_an_idle_process_that_is_killed_is_replaced_and_all_end_with_their_executor() -> None:
    with Processes(1) as executor:
        (gone,) = outcomes_of(executor, [RUN], pid)
        os.kill(gone, signal.SIGKILL)
        (other,) = outcomes_of(executor, [RUN], pid)
        assert other != gone
    assert not any(Path(f"/proc/{process}").exists() for process in (gone, other))


def test_a_run_that_kills_every_process_fails_and_the_others_do_not_notice(
    two: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two, "attempts", 2)
    runs = [RUN, Run(RUN.program, max_cycles=100), RUN]
    first, died, last = outcomes_of(two, runs, killed_at_the_limit)
    assert first == last > 100
    assert repr(died) == 'RuntimeError("the run\'s process ended with exit code -9")'


def test_an_interruption_ends_the_processes_that_work() -> None:
    told = []

    def interrupt(number: int, outcome: int) -> None:
        told.append(number)
        raise KeyboardInterrupt

    spin = Run(program("matmul_f32", {"n": 64, "k": 64, "m": 64}).program)
    executor = Processes(2)
    with pytest.raises(KeyboardInterrupt), executor:
        outcomes_of(executor, [RUN, *[spin] * 50], pid, interrupt)
    assert (len(told), executor.busy) == (1, set())


SEARCH = """
if __name__ == "__main__":
    from soc.run_many import outcomes_of
    from soc.worker_process import Processes
    from tests.autotuner.kept_of_runs import pid
    from tests.autotuner.test_executors import RUN

    def told(number, outcome):
        print(outcome, flush=True)
    with Processes(2) as executor:
        while True:
            outcomes_of(executor, [RUN] * 8, pid, told)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_made_them(tmp_path: Path, end: signal.Signals) -> None:
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    search = subprocess.Popen(
        [sys.executable, script], env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored here
    )  # fmt: skip
    pids: set[str] = set()
    assert search.stdout
    assert search.stderr
    while len(pids) < 2:
        pids.add(search.stdout.readline().strip())
    if end == signal.SIGINT:
        os.killpg(search.pid, end)  # as Ctrl-C does: to all of them
    else:
        search.kill()
    search.stdout.read()
    errors = search.stderr.read()
    search.wait(120)
    assert errors.count("Traceback") == (end == signal.SIGINT)
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{process}").exists() for process in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
