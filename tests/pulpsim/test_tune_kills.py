"""Searches that are killed at random moments: what was kept stays, and the answer is the same."""

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = """
program.kernel = "linear_fw_f32"
program.args = {inputs = 96, outputs = 40, unroll = 1, rows = 1, cols = 1}
tune = {sizes = 3, workers = 1, policy = "exhaustive"}
"""


def command(config: Path, database: Path, report: Path) -> list[str]:
    options = ["--database", str(database), "--json", str(report)]
    return [sys.executable, "-m", "pulpsim", "tune", str(config), *options]


def kept(database: Path) -> dict[str, tuple]:
    """All rows, by key; none if the file has not got its table yet."""
    connection = sqlite3.connect(database)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return (
            {row[0]: row for row in connection.execute("SELECT * FROM results")} if tables else {}
        )
    finally:
        connection.close()


def best(report: Path) -> dict:
    return json.loads(report.read_text())["layers"][0]["best"]


def test_a_search_that_is_killed_again_and_again_ends_with_the_same_answer(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    config, killed, whole = (tmp_path / name for name in ("layer.toml", "killed.db", "whole.db"))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    config.write_text(CONFIG)
    rows: dict[str, tuple] = {}
    moments = random.Random(7)
    for _ in range(100 if request.config.getoption("--full") else 2):
        search = subprocess.Popen(
            command(config, killed, first),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            search.wait(moments.uniform(0.2, 3.0))
        except subprocess.TimeoutExpired:
            search.kill()
            search.wait()
        now = kept(killed)
        assert rows.items() <= now.items()
        rows = now
    for database, report in ((killed, first), (whole, second)):
        done = command(config, database, report)
        subprocess.run(done, cwd=ROOT, check=True, capture_output=True)
    assert rows.items() <= kept(killed).items()
    assert kept(killed) == kept(whole)
    assert best(first) == best(second)
