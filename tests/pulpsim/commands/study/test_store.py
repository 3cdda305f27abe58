"""Results that are kept: by what decides them, in files that say when they are not theirs."""

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.measurement_store import Database
from pulpsim.commands.study import result_store as module
from pulpsim.commands.study.result_store import Store, key_of
from pulpsim.commands.study.simulate import Simulate, finding_of
from pulpsim.commands.study.stride_program import StrideProgram
from pulpsim.commands.study.study import Case, Finding, Measured
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError

PULP = load_chip("pulp")
CASE = Case({"stride": 1}, PULP, StrideProgram(PULP, 2, 1, 0, 32))


def test_what_is_kept_is_found_again_in_the_file(tmp_path: Path) -> None:
    file, result = tmp_path / "a.db", {"exit": {"reason": "exit", "code": 0}, "cycles": 3}
    first = Store(file)
    first.keep("key", "stride", Finding(CASE, result))
    first.keep("key", "stride", Finding(CASE, {"cycles": 4}))  # known already
    first.close()
    second = Store(file)
    assert (len(second), second.find(["key", "other"])) == (1, {"key": result})
    second.close()


@pytest.mark.parametrize(
    "change", ["x''", "7", "'text'", "NULL", "substr(result, 1, 40)", "zeroblob(99)"]
)
def test_a_result_that_is_not_what_was_written_is_told_by_its_key(
    tmp_path: Path, change: str
) -> None:
    file = tmp_path / "a.db"
    store = Store(file)
    store.keep("key", "stride", Finding(CASE, {"cycles": 3}))
    with store.connection:
        store.connection.execute(f"UPDATE simulations SET result = {change}")
    with pytest.raises(
        ConfigError,
        match=rf"^{file}: damaged: table simulations, key key\.\.\.: its result is not what was "
        r"written; delete the file, or give another one$",
    ):
        store.find(["key"])
    store.close()


def test_the_key_is_that_of_program_chip_limit_and_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = CASE.build()
    keys = {
        key_of(program, PULP, 100),
        key_of(program, PULP, 101),
        key_of(program, load_chip("pulp", {"l1.banks": 32}), 100),
        key_of(replace(program, entry=program.entry + 4), PULP, 100),
        key_of(replace(program, regions={0: "other"}), PULP, 100),
        key_of(StrideProgram(PULP, 2, 2, 0, 32)(), PULP, 100),
    }
    assert key_of(CASE.build(), PULP, 100) in keys
    monkeypatch.setattr(module, "simulator_version", lambda: "another")
    keys.add(key_of(program, PULP, 100))
    assert len(keys) == 7


def test_a_database_of_something_else_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "tuned.db"
    Database(file).close()
    with pytest.raises(ConfigError, match=r"^.*tuned.db: not a database of studies; give another"):
        Store(file)


def test_a_database_in_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    message = r"^.*/no/a.db: unable to open database file; its folder must be there, and writable$"
    with pytest.raises(ConfigError, match=message):
        Store(tmp_path / "no" / "a.db")


def test_a_database_of_another_version_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    Store(file).close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    message = r"^.*a.db: a database of version 7; this program writes version 1: give another file$"
    with pytest.raises(ConfigError, match=message):
        Store(file)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.db")
    store.keep("small", "stride", Finding(CASE, {}))
    store.connection.execute("PRAGMA max_page_count = 4")
    large = Finding(CASE, {"text": random.Random(1).randbytes(50_000).hex()})
    message = (
        r"^.*a.db: cannot be written: its disk is full; what was written before is kept there$"
    )
    with pytest.raises(ConfigError, match=message):
        store.keep("large", "stride", large)
    assert store.find(["small", "large"]) == {"small": {}}
    store.close()


def test_a_run_that_does_not_end_well_says_why_and_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pulpsim.commands.study.simulate.LIMIT", 100)
    store = Store(":memory:")
    (finding,) = Simulate("stride", store)([CASE])
    assert finding.failure == "max_cycles: cycle limit of 100 reached"
    assert len(store) == 1
    store.close()


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        ({"exit": {"reason": "exit", "code": 3}}, "exit code 3"),
        ({"exit": {"reason": "trap", "code": 0, "message": "at 4"}}, "trap: at 4"),
        (
            {
                "exit": {"reason": "exit", "code": 0},
                "program": {"correct": False, "max_error": 0.5},
            },
            "wrong result: largest error 0.5",
        ),
        ({"exit": {"reason": "exit", "code": 0}, "program": {"correct": True}}, ""),
    ],
)
def test_a_finding_says_what_went_wrong(result: dict, failure: str) -> None:
    assert finding_of(CASE, result).failure == failure


def test_an_interrupted_run_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Measured, run: object) -> dict:
        return {"exit": {"reason": "interrupted", "code": 0, "message": "at cycle 3"}}

    monkeypatch.setattr(Measured, "result", interrupted)
    store = Store(":memory:")
    (finding,) = Simulate("stride", store)([CASE])
    assert (finding.failure, len(store)) == ("interrupted: at cycle 3", 0)
    store.close()
