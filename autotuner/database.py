"""Measurements that are kept: an SQLite database, a row for each point by its content's key.

The key is a digest of all that decides the cycles: primitive and arguments, the chip's fields, the
cycle limit, and the simulator's version, which is the content of the folders it is made of. Rows
are written one by one as runs end, in WAL mode: whatever ends the process, they stay.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from autotuner.outcome import Outcome
from soc.spec import SocSpec
from soc.toml_file import ConfigError

VERSION = 1
FOLDERS = ("isa", "soc", "firmware", "trainlib")
WAIT = 60.0  # seconds until another process's write has ended
AT_ONCE = 500  # keys of a query, fewer than SQLite's 999 parameters

COLUMNS = "key", "kernel", "arguments", "chip", "cycles", "l1_bytes", "reason"
TABLE = """
CREATE TABLE results (
    key TEXT PRIMARY KEY, kernel TEXT, arguments TEXT, chip TEXT,
    cycles INTEGER, l1_bytes INTEGER, reason TEXT
) WITHOUT ROWID
"""

KEPT = "what was measured before is kept there"
FOREIGN = "not a database of measurements; give another file"
REFUSALS = {
    sqlite3.SQLITE_NOTADB: FOREIGN,
    sqlite3.SQLITE_CORRUPT: "damaged, {}; give another file",
    sqlite3.SQLITE_CANTOPEN: "{}; its folder must be there, and writable",
    sqlite3.SQLITE_READONLY: f"cannot be written: it or its disk is read-only; {KEPT}",
    sqlite3.SQLITE_FULL: f"cannot be written: its disk is full; {KEPT}",
    sqlite3.SQLITE_BUSY: f"another process has been writing to it for {WAIT:.0f} s; {KEPT}",
}
"""Sentences for SQLite's errors, by its primary result codes; {} is what it says itself."""


def simulator_version() -> str:
    """A digest of every file that decides what a program is and how long it takes."""
    return version_of(FOLDERS)


@cache
def version_of(folders: tuple[str, ...]) -> str:
    """A digest of all that is written in these folders."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for folder in folders:
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def key_of(kernel: str, arguments: Any, chip: SocSpec, max_cycles: int) -> str:
    """The key of a measurement."""
    content = [simulator_version(), kernel, arguments, chip.model_dump(mode="json"), max_cycles]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Database:
    """A file of measurements; ":memory:" keeps them for as long as it lives.

    raises    ConfigError, from every method: what SQLite refuses, in one sentence
    """

    def __init__(self, file: Path | str) -> None:
        self.file = file
        with self._refusals():
            self.connection = sqlite3.connect(file, timeout=WAIT)
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self) -> None:
        version, tables = self._state()
        if version == VERSION:
            self._check_columns()
            return
        if version or tables:
            raise ConfigError(
                [
                    f"{self.file}: a database of version {version}; this program writes version "
                    f"{VERSION}: give another file"
                ]
            )
        self.connection.execute("PRAGMA journal_mode = WAL")
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")  # all of it or nothing, by one process
            if self._state() == (0, 0):
                self.connection.execute(TABLE)
                self.connection.execute(f"PRAGMA user_version = {VERSION}")

    def _state(self) -> tuple[int, int]:
        """Its version, and how many tables it has: at the same moment, as others may make it."""
        tables = "(SELECT count(*) FROM sqlite_master)"
        query = f"SELECT user_version, {tables} FROM pragma_user_version"
        version, count = self.connection.execute(query).fetchone()
        return version, count

    def _check_columns(self) -> None:
        columns = self.connection.execute("PRAGMA table_info(results)")
        if tuple(column[1] for column in columns) != COLUMNS:
            raise ConfigError([f"{self.file}: {FOREIGN}"])

    def find(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """What is known of these keys."""
        wanted, found = list(keys), {}
        with self._refusals():
            for at in range(0, len(wanted), AT_ONCE):
                some = wanted[at : at + AT_ONCE]
                places = ",".join("?" * len(some))
                query = f"SELECT key, cycles, l1_bytes, reason FROM results WHERE key IN ({places})"
                for key, *outcome in self.connection.execute(query, some):
                    found[key] = Outcome(*outcome)
        return found

    def keep(self, key: str, kernel: str, arguments: Any, chip: str, outcome: Outcome) -> None:
        """Keep a measurement, now."""
        row = (key, kernel, json.dumps(arguments, sort_keys=True), chip)
        with self._refusals(), self.connection:
            self.connection.execute(
                "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, outcome.cycles, outcome.l1_bytes, outcome.reason),
            )

    def __len__(self) -> int:
        with self._refusals():
            return int(self.connection.execute("SELECT count(*) FROM results").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            sentence = REFUSALS.get(code, f"{{}}; {KEPT}").format(error)
            raise ConfigError([f"{self.file}: {sentence}"]) from None
