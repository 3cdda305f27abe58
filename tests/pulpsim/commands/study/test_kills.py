"""Studies that are killed, or stopped by Ctrl-C: what was kept stays, the rest is done later."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pulpsim.commands.study.command import INTERRUPTED

ROOT = Path(__file__).parents[4]
CASES = 40
SWEEP = [
    *("--arg", "offsets=[0, 1, 2, 3]", "--arg", f"strides={list(range(CASES // 4))}"),
    *("--arg", "cores=8", "--arg", "reads=256", "--workers", "1"),
]


def start(folder: Path) -> subprocess.Popen:
    where = ["--database", str(folder / "studies.db"), "-o", str(folder / "out")]
    return subprocess.Popen(
        [sys.executable, "-m", "pulpsim", "study", "stride", *SWEEP, *where],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kept(database: Path) -> int:
    """Rows of an intact file, 0 if it has none yet."""
    if not database.exists():
        return 0
    connection = sqlite3.connect(database)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(connection.execute("SELECT count(*) FROM simulations").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not made yet, or just being made
    finally:
        connection.close()


def test_a_study_that_is_stopped_goes_on_where_it_was(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    signals = {signal.SIGINT: INTERRUPTED, signal.SIGKILL: -signal.SIGKILL}
    before = 0
    for how, status in list(signals.items()) * (5 if request.config.getoption("--full") else 1):
        process = start(tmp_path)
        while kept(tmp_path / "studies.db") < before + 3 and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(how)
        found, before = process.wait(), kept(tmp_path / "studies.db")
        assert found == status or before == CASES  # it was faster
        assert (tmp_path / "out" / "stride.json").exists() == (found == 0)
    assert before >= 6
    assert start(tmp_path).wait() == 0
    assert kept(tmp_path / "studies.db") == CASES
    rows = json.loads((tmp_path / "out" / "stride.json").read_text())["rows"]
    assert len(rows) == CASES
    assert {row["difference"] for row in rows if row["is_exact"]} == {0}
