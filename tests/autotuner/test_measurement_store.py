"""Files that cannot be read, made or written are told in one sentence, and nothing is lost."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import time

import pytest

from autotuner.measurement import Outcome
from autotuner.measurement_store import VERSION, Database
from soc.config.toml import ConfigError
from soc.host.compile_process import ROOT


def filled(file: Path, count: int) -> Path:
    with closing(Database(file)) as database:
        for number in range(count):
            database.keep(f"{number:0100}", "a", {}, "pulp", Outcome(number))
    return file


def test_many_make_and_write_the_same_file_at_once(tmp_path: Path) -> None:
    at_once = threading.Barrier(6)

    def write(number: int) -> None:
        at_once.wait()
        with closing(Database(tmp_path / "tuned.db")) as database:
            database.keep(str(number), "a", {}, "pulp", Outcome(number))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    with closing(Database(tmp_path / "tuned.db")) as database:
        assert database.find(map(str, range(6))) == {str(n): Outcome(n) for n in range(6)}


def test_a_table_of_other_columns_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE results (song)")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    before = file.read_bytes()
    with pytest.raises(
        ConfigError, match=rf"^{file}: not a database of measurements; give another file$"
    ):
        Database(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE other (key)",
        "CREATE TRIGGER t BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'no'); END",
        "ALTER TABLE results RENAME TO o; CREATE VIEW results AS WITH RECURSIVE r AS "
        "(SELECT * FROM o UNION ALL SELECT * FROM r) SELECT * FROM r",
    ],
)
def test_a_database_of_another_schema_is_refused_before_it_is_read(
    tmp_path: Path, change: str
) -> None:
    file = filled(tmp_path / "tuned.db", 3)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(change)
    with pytest.raises(ConfigError, match=rf"^{file}: not a database of measurements; give anot"):
        Database(file)


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        ("cycles", "many", r"cycles = 'many' is no number of cycles"),
        ("cycles", -1, r"cycles = -1 is no number of cycles"),
        ("l1_bytes", b"\xff", r"l1_bytes = b'\\xff' is no number of l1_bytes"),
        ("reason", None, r"reason = None is no text"),
    ],
)
def test_a_cell_of_another_type_is_told_by_its_key_and_column(
    tmp_path: Path, column: str, cell: object, rule: str
) -> None:
    file = filled(tmp_path / "tuned.db", 1)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE results SET {column} = ?", [cell])
    with (
        closing(Database(file)) as database,
        pytest.raises(
            ConfigError,
            match=rf"^{file}: damaged: table results, key 0{{12}}\.\.\.: {rule}; delete the file, "
            r"or give another one$",
        ),
    ):
        database.find([f"{0:0100}"])


def test_a_text_that_is_no_utf_8_is_damage(tmp_path: Path) -> None:
    file = filled(tmp_path / "tuned.db", 1)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE results SET reason = CAST(x'ff' AS TEXT)")
    with (
        closing(Database(file)) as database,
        pytest.raises(ConfigError, match=rf"^{file}: damaged, Could not decode to UTF-8 column"),
    ):
        database.find([f"{0:0100}"])


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "songs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE songs (name)")
    before = file.read_bytes()
    with pytest.raises(
        ConfigError,
        match=rf"^{file}: a database of version 0; this program writes version {VERSION}: give "
        r"another file$",
    ):
        Database(file)
    assert file.read_bytes() == before


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    file = filled(tmp_path / "tuned.db", 300)
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    with (
        closing(Database(file)) as database,
        pytest.raises(
            ConfigError,
            match=rf"^{file}: damaged, database disk image is malformed; give another file$",
        ),
    ):
        database.find([f"{7:0100}"])


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "no/tuned.db"
    with pytest.raises(
        ConfigError,
        match=rf"^{file}: unable to open database file; its folder must be there, and writable$",
    ):
        Database(file)


def test_a_file_that_another_process_does_not_let_go_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = filled(tmp_path / "tuned.db", 1)
    monkeypatch.setattr("autotuner.sqlite_store.WAIT", 0.05)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            closing(Database(file)) as database,
            pytest.raises(
                ConfigError,
                match=rf"^{file}: another process has been writing to it for 60 s; what was "
                r"written before is kept there$",
            ),
        ):
            database.keep("k", "a", {}, "pulp", Outcome(1))


def test_what_sqlite_says_otherwise_is_told_as_it_says_it() -> None:
    database = Database(":memory:")
    database.close()
    with pytest.raises(
        ConfigError,
        match=r"^:memory:: Cannot operate on a closed database\.; what was written before is "
        r"kept there$",
    ):
        len(database)


LIMITED = """
import resource, signal, sys
from autotuner.measurement_store import Database
from autotuner.measurement import Outcome

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, -1))
database = Database(sys.argv[1])
try:
    for number in range(1000):
        database.keep(str(number), "a", {}, "pulp", Outcome(number))
except ValueError as error:
    print(error)
"""


def test_a_limit_of_files_is_told_and_what_was_kept_is_there(tmp_path: Path) -> None:
    file = tmp_path / "tuned.db"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, file], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        f"{file}: cannot be read or written: disk I/O error: is its disk full? what was written "
        "before is kept there\n"
    )
    with closing(Database(file)) as database:
        kept = len(database)
        assert 0 < kept < 1000
        assert database.find(["0", str(kept - 1), str(kept)]) == {
            "0": Outcome(0),
            str(kept - 1): Outcome(kept - 1),
        }


def made_at(file: Path, second: float) -> bool:
    while time() < second:
        pass
    Database(file).close()
    return True


def test_processes_that_make_a_file_at_once_all_have_it(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as pool:
        for number in range(40):
            begins = [time() + 0.02] * 4
            assert all(pool.map(made_at, [tmp_path / f"{number}.db"] * 4, begins))
