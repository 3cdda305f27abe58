"""A search on a real Dask cluster, scheduler and workers on the loopback address."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from autotuner.dask_executor import Cluster, version_beside
from autotuner.measure import Limits, Measure
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.search import exhaustive
from autotuner.space import Point, Space
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.run_many import Run, Threads, outcomes_of

ROOT = Path(__file__).parents[2]
FOLDERS = "isa", "soc", "firmware", "trainlib", "autotuner", "configs"
CHIP = load_chip("pulp")
LAYER = {"inputs": 96, "outputs": 40, "unroll": 1, "rows": 1, "cols": 1}
PATIENCE = 120.0  # seconds for a process to do what is expected


@pytest.fixture(autouse=True, scope="module")
def _distributed() -> None:
    """Import it in the one process that runs these tests, not in all that collect them."""
    pytest.importorskip("distributed", reason="dask.distributed, the extra `cluster`, is missing")


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Dask:
    """A scheduler, and workers with the simulator of a folder; all end with the context."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.scheduler = self.started("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.workers: list[subprocess.Popen] = []
        until(self.is_written)
        self.address = json.loads(self.file.read_text())["address"]

    def is_written(self) -> bool:
        """Is the scheduler's file there, and all of it?"""
        return self.file.exists() and self.file.read_text().rstrip().endswith("}")

    def started(self, role: str, *options: str, simulator: Path | None = None) -> subprocess.Popen:
        """Start it as its documentation says; where there is no simulator but of its own."""
        changed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        if simulator:
            changed["PYTHONPATH"] = str(simulator)
        return subprocess.Popen(
            [sys.executable, "-m", "dask", role, "--scheduler-file", str(self.file),
             "--no-dashboard", *options],
            cwd=self.file.parent,
            env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | changed,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def living(self) -> list[subprocess.Popen]:
        """Workers that have not ended."""
        return [worker for worker in self.workers if worker.poll() is None]

    def have(self, workers: int) -> None:
        """Add workers until there are so many."""
        for _ in range(workers - len(self.living)):
            self.add_worker()

    def end_workers(self) -> None:
        for worker in self.living:
            worker.kill()
            worker.wait()

    def add_worker(self, simulator: Path | None = ROOT) -> None:
        options = "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1"
        self.workers.append(self.started("worker", *options, simulator=simulator))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextmanager
def dask(folder: Path) -> Iterator[Dask]:
    cluster = Dask(folder)
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    """A cluster whose scheduler stays: workers may end."""
    with dask(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def space(request: pytest.FixtureRequest) -> Space:
    """The points of a layer; with --full also those with one buffer."""
    is_full = request.config.getoption("--full")
    return Space.of("linear_fw_f32", LAYER if is_full else LAYER | {"buffers": 2}, CHIP, sizes=2)


def searched(
    space: Space,
    executor: Executor,
    database: Database,
    on_end: Callable[[Point, Outcome], None] = lambda p, o: None,
) -> tuple[list, list]:
    """What a search finds, and what the database has then."""
    limits = Limits(max_cycles=50_000)
    measure = Measure(space.layer, CHIP, database, limits, executor=executor, on_end=on_end)
    return exhaustive(space, measure), rows(database)


def rows(database: Database) -> list:
    return sorted(database.connection.execute("SELECT * FROM results"))


@pytest.fixture(scope="module")
def expected(space: Space) -> tuple[list, list]:
    return searched(space, Threads(1), Database(":memory:"))


def test_a_search_whose_worker_is_killed_half_way_ends_as_it_does_locally(
    cluster: Dask, space: Space, expected: tuple
) -> None:
    told: list[Point] = []
    cluster.have(2)

    def kill_one(point: Point, outcome: Outcome) -> None:
        told.append(point)
        if len(told) == 12:
            until(lambda: executor.workers == 2)
            cluster.living[0].kill()

    with Cluster(cluster.address) as executor:
        assert searched(space, executor, Database(":memory:"), kill_one) == expected
        assert executor.workers == 1
    assert sorted(map(str, told)) == sorted(map(str, space))


def test_a_run_that_ends_every_worker_fails(cluster: Dask) -> None:
    cluster.have(2)
    with Cluster(cluster.address) as executor:
        until(lambda: executor.workers == 2)
        [ended] = outcomes_of(executor, [Run(partial(os._exit, 7))], attrgetter("cycles"))
    assert repr(ended) == "RuntimeError('2 workers ended while it ran')"


def test_a_scheduler_that_is_lost_ends_the_search_and_what_was_told_is_kept(
    tmp_path: Path, space: Space, expected: tuple
) -> None:
    told: dict[Point, Outcome] = {}
    database = Database(tmp_path / "tuned.db")
    with dask(tmp_path) as cluster:
        cluster.add_worker()

        def kill_it(point: Point, outcome: Outcome) -> None:
            told[point] = outcome
            if len(told) == 12:
                cluster.scheduler.kill()

        message = rf"^{cluster.address}: the scheduler is lost; what was measured before is kept$"
        with Cluster(cluster.address) as executor, pytest.raises(ConfigError, match=message):
            searched(space, executor, database, kill_it)
    known = {found.point: found.outcome for found in expected[0]}
    assert len(told) >= 12
    assert told.items() <= known.items()
    assert len(database) >= len(set(told))
    assert set(rows(database)) <= set(expected[1])
    assert searched(space, Threads(1), database) == expected


def test_workers_with_another_simulator_or_none_are_told(
    tmp_path: Path, cluster: Dask, space: Space
) -> None:
    other = tmp_path / "other"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, other / folder, ignore=shutil.ignore_patterns("*.pyc"))
    (other / "soc/dma/mchan.py").write_text(
        (ROOT / "soc/dma/mchan.py").read_text() + "\n# another\n"
    )
    none = tmp_path / "none"  # hides one that is installed
    (none / "autotuner").mkdir(parents=True)
    (none / "autotuner/__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'autotuner'\")\n"
    )
    with Cluster(cluster.address) as executor:
        cluster.end_workers()
        until(lambda: executor.workers == 0)
        cluster.add_worker(other)
        with pytest.raises(
            ConfigError,
            match=rf"^{cluster.address}: the worker tcp://127\.0\.0\.1:\d+ has version "
            rf"[0-9a-f]{{12}} of the simulator, this is version {version_beside('soc')[:12]}; "
            r"install the same there$",
        ):
            searched(space, executor, Database(":memory:"))
        cluster.end_workers()
        until(lambda: executor.workers == 0)
        cluster.add_worker(none)
        with pytest.raises(
            ConfigError,
            match=rf"^{cluster.address}: a worker answers: No module named 'autotuner'; "
            r"install pulpsim there, too$",
        ):
            searched(space, executor, Database(":memory:"))


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.dask_executor.ANSWER", 1)
    with pytest.raises(
        ConfigError,
        match=r"^tcp://127.0.0.1:1: no Dask scheduler answers; start one by `dask scheduler`, "
        r"and give the address that it shows$",
    ):
        Cluster("tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["", "here", "http://127.0.0.1:1", "tcp://127.0.0.1"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf'^scheduler "{address}": must be tcp://HOST:PORT, as its log shows it$',
    ):
        Cluster(address)


def test_where_distributed_is_missing_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ConfigError,
        match=r"^a cluster of 2 workers: dask\.distributed is not installed: "
        r"pip install 'pulpsim\[cluster\]'$",
    ):
        Cluster.local(2)
