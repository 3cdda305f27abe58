"""Searches that are killed at random moments: what was told is kept, and the answer is the same."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotuner.measure import Limits, Measure
from autotuner.measurement_store import Database
from pulpsim.commands import app as cli
from pulpsim.commands.tune.config import Options, Tuning, load_tuning

ROOT = Path(__file__).parents[4]
CONFIG = """
program.kernel = "linear_fw_f32"
program.args = {{inputs = 96, outputs = 40, {more}}}
tune = {{sizes = {sizes}, policy = "exhaustive"}}
"""
FEW = CONFIG.format(sizes=2, more="unroll = 1, rows = 1, cols = 1, buffers = 2")
MANY = CONFIG.format(sizes=3, more="unroll = 1")

TELLING = """
if __name__ == "__main__":  # its workers import this file, too
    from pulpsim.commands import app as cli
    from pulpsim.commands.tune import search as tune

    note = tune.Progress.note

    def told(self, point, outcome):
        print(f"{point}|{outcome}", flush=True)
        note(self, point, outcome)

    tune.Progress.note = told
    cli.main()
"""
"""pulpsim, which writes every point as it is told to the user's progress."""


class Search:
    """A search in a process, and what it has told."""

    def __init__(self, folder: Path, database: str, workers: int = 2) -> None:
        self.config, self.database = folder / "layer.toml", folder / database
        self.report = self.database.with_suffix(".json")
        self.lines = folder / "lines.txt"
        script = folder / "telling.py"
        script.write_text(TELLING)
        options = ["--database", self.database, "--json", self.report, "--workers", str(workers)]
        with self.lines.open("w") as lines:
            self.process = subprocess.Popen(
                [sys.executable, script, "tune", self.config, *options],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=lines,
                stderr=subprocess.PIPE,
            )

    @property
    def told(self) -> dict[str, str]:
        """Outcomes by point, so far; the last line may have been cut."""
        whole = self.lines.read_text().rpartition("\n")[0].splitlines()
        return {point: outcome for point, _, outcome in (line.partition("|") for line in whole)}

    @property
    def workers(self) -> list[int]:
        """Its worker processes."""
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            commands = {int(c): Path(f"/proc/{c}/cmdline").read_text() for c in children}
        except OSError:
            return []
        return [child for child, command in commands.items() if "spawn_main" in command]

    def ended(self) -> dict:
        """Let it end; what it reports."""
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, errors
        return reported(self.report)


def reported(file: Path) -> dict:
    """What a search reports of its layer, but how many points it has simulated itself."""
    layer = json.loads(file.read_text())["layers"][0]
    return {name: value for name, value in layer.items() if name != "simulated"}


def undisturbed(folder: Path) -> tuple[dict, dict[str, tuple]]:
    """What the same search reports and keeps here, by one worker that nothing ends."""
    database, report = folder / "whole.db", folder / "whole.json"
    options = ["--database", database, "--json", report, "--workers", 1]
    command = ["tune", *map(str, (folder / "layer.toml", *options))]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.stderr
    return reported(report), kept(database)


def kept(database: Path) -> dict[str, tuple]:
    """All rows, by key; none if the file has not got its table yet."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return (
            {row[0]: row for row in connection.execute("SELECT * FROM results")} if tables else {}
        )


def known(tuning: Tuning, file: Path) -> dict[str, str]:
    """What a database knows: outcomes by point, as they are told."""
    (space,) = tuning.spaces.values()
    with closing(Database(file)) as database:
        limits = Limits(max_cycles=tuning.how.max_cycles)
        measure = Measure(space.layer, space.chip, database, limits)
        keys = {str(point): measure.key(point) for point in space}
        found = database.find(set(keys.values()))
    return {point: str(found[key]) for point, key in keys.items() if key in found}


def wait_for_a_moment(search: Search, before: Collection[str], moments: random.Random) -> None:
    """Until it has told some more points than before, or any moment from its start on."""
    if moments.random() < 0.25:
        time.sleep(moments.expovariate(1.0))
        return
    told = len(search.told.keys() - before)
    wanted = told + moments.randint(1, 5)
    while told < wanted and search.process.poll() is None:
        time.sleep(0.005)
        told = len(search.told.keys() - before)
    time.sleep(moments.uniform(0, 0.1))


def killed(
    search: Search, before: Collection[str], moments: random.Random, most: int
) -> tuple[int, int]:
    """Kill workers of a search at random moments, at last the search; counts of both kills."""
    workers = 0
    while workers + 1 < most:
        wait_for_a_moment(search, before, moments)
        living = search.workers
        if not living or moments.random() < 0.3:
            break
        with suppress(ProcessLookupError):
            os.kill(moments.choice(living), signal.SIGKILL)
        workers += 1
    is_over = search.process.poll() is not None
    search.process.kill()
    search.process.communicate()
    return workers, int(not is_over)


def test_a_search_that_is_killed_again_and_again_ends_with_the_same_answer(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    is_full = request.config.getoption("--full")
    (tmp_path / "layer.toml").write_text(MANY if is_full else FEW)
    tuning = load_tuning(tmp_path / "layer.toml", Options())
    wanted, moments = 100 if is_full else 2, random.Random(7)
    workers, searches, told, rows = 0, 0, dict[str, str](), dict[str, tuple]()
    while workers + searches < wanted:
        search = Search(tmp_path, "killed.db")
        kills = killed(search, told.keys(), moments, wanted - workers - searches)
        workers, searches = workers + kills[0], searches + kills[1]
        told |= search.told
        now = kept(search.database)
        assert rows.items() <= now.items()
        assert told.items() <= known(tuning, search.database).items()
        rows = now
    again = Search(tmp_path, "killed.db")
    answer = again.ended()
    wanted_answer, whole = undisturbed(tmp_path)
    assert answer == wanted_answer
    assert kept(again.database) == whole
    assert rows.items() <= whole.items()
    with capsys.disabled():
        if is_full:
            points = len(answer["found"])
            print(
                f"\n{workers} workers and {searches} searches killed; of {points} points "
                f"{len(told)} were told before the last kill"
            )


def test_two_searches_at_once_share_a_database(tmp_path: Path) -> None:
    (tmp_path / "layer.toml").write_text(FEW)
    both = [Search(tmp_path, "shared.db", workers=1) for _ in range(2)]
    first, second = (search.ended() for search in both)
    assert first == second
