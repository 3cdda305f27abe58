"""Searches on real disks that are full or read-only, mounted in a namespace of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
NAMESPACE = ["unshare", "--map-root-user", "--mount"]
CONFIG = """
program.kernel = "linear_fw_f32"
program.args = {inputs = 96, outputs = 40, unroll = 1, rows = 1, cols = 1}
tune = {sizes = 2, policy = "exhaustive", workers = 1}
"""
SEARCHES = """
import json, sqlite3, subprocess, sys
from contextlib import closing
from pathlib import Path
from typer.testing import CliRunner
from pulpsim.commands import app as cli

folder = Path(sys.argv[1])
disk = folder / "disk"
disk.mkdir()

def mount(options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)

def tune(name="tuned.db"):
    report = folder / "report.json"
    options = ["--database", str(disk / name), "--json", str(report)]
    result = CliRunner().invoke(cli.app, ["tune", str(folder / "layer.toml"), *options])
    best = json.loads(report.read_text())["layers"][0]["best"] if report.exists() else None
    report.unlink(missing_ok=True)
    return {"code": result.exit_code, "errors": result.stderr.splitlines(), "best": best}

def rows():
    with closing(sqlite3.connect(disk / "tuned.db")) as connection:
        return sorted(connection.execute("SELECT * FROM results"))

found = {}
mount("size=64k")
found["full"], found["rows"] = tune(), rows()
mount("remount,size=64m")
found["larger"], found["all rows"] = tune(), rows()
mount("remount,ro")
found["read-only"], found["new"] = tune(), tune("new.db")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount disks in a namespace")
    folder = tmp_path_factory.mktemp("disks")
    (folder / "layer.toml").write_text(CONFIG)
    (folder / "searches.py").write_text(SEARCHES)
    done = subprocess.run(
        [*NAMESPACE, sys.executable, folder / "searches.py", folder],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout) | {"disk": folder / "disk"}


def test_on_a_full_disk_a_search_ends_with_one_message_and_what_it_had(found: dict) -> None:
    assert found["full"] == {
        "code": 2,
        "errors": [
            f"pulpsim: {found['disk']}/tuned.db: cannot be written: its disk is full; what was "
            f"written before is kept there"
        ],
        "best": None,
    }
    assert 1 <= len(found["rows"]) < len(found["all rows"])


def test_once_the_disk_has_room_the_same_search_goes_on(found: dict) -> None:
    assert found["larger"]["code"] == 0
    assert found["larger"]["best"]["cycles"] > 0
    assert [row for row in found["all rows"] if row in found["rows"]] == found["rows"]


@pytest.mark.parametrize(("search", "file"), [("read-only", "tuned.db"), ("new", "new.db")])
def test_a_read_only_disk_is_told(found: dict, search: str, file: str) -> None:
    assert found[search] == {
        "code": 2,
        "errors": [
            f"pulpsim: {found['disk']}/{file}: unable to open database file; its folder must be "
            f"there, and writable"
        ],
        "best": None,
    }
