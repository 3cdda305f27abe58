"""An SQLite file of results, a row for each by its content's key: what its kinds have in common.

Rows are written one by one, in WAL mode: whatever ends the process, they stay. The file is made in
one transaction, so that it is whole or not there, also if several processes begin at once.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from soc.config.toml import ConfigError

WAIT = 60.0  # seconds until another process's write has ended
KEPT = "what was written before is kept there"
REFUSALS = {
    sqlite3.SQLITE_CORRUPT: "damaged, {}; give another file",
    sqlite3.SQLITE_CANTOPEN: "{}; its folder must be there, and writable",
    sqlite3.SQLITE_READONLY: f"cannot be written: it or its disk is read-only; {KEPT}",
    sqlite3.SQLITE_IOERR: f"cannot be read or written: {{}}: is its disk full? {KEPT}",
    sqlite3.SQLITE_FULL: f"cannot be written: its disk is full; {KEPT}",
    sqlite3.SQLITE_BUSY: f"another process has been writing to it for {WAIT:.0f} s; {KEPT}",
}
"""Sentences for SQLite's errors, by its primary result codes; {} is what it says itself."""

AT_ONCE = 500  # keys of a query, fewer than SQLite's 999 parameters


class SqliteFile:
    """A file of results; ":memory:" keeps them for as long as it lives.

    raises    ConfigError, from every method: what SQLite refuses, in one sentence
    """

    what: str
    """It has, for people."""

    table: str
    version: int
    statements: tuple[str, ...]
    """What makes its content, besides the version."""

    def __init__(self, file: Path | str) -> None:
        self.file = file
        with self._refusals():
            self.connection = sqlite3.connect(file, timeout=WAIT)
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    def _is_new(self, version: int, tables: int) -> bool:
        """Is the file still without version and tables?"""
        return (version, tables) == (0, 0)

    def _check(self, version: int) -> None:
        """Raise ConfigError for a file of another kind or version."""
        if version != self.version:
            raise self._error(
                f"a database of version {version}; this program writes version {self.version}: "
                "give another file"
            )
        schema = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        written = [_words(text) for (text,) in self.connection.execute(schema)]
        if written != [_words(text) for text in self.statements if "TABLE" in text]:
            raise self._error(self.foreign)  # NOTE: reading a view may take for ever

    @property
    def foreign(self) -> str:
        """What a person is told of another program's file."""
        return f"not a database of {self.what}; give another file"

    def _sentence(self, error: sqlite3.Error) -> str:
        """Return a sentence for a person that says what an error means."""
        is_text = isinstance(error, sqlite3.OperationalError)  # without a code: text is no UTF-8
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT * is_text) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return self.foreign
        return REFUSALS.get(code, f"{{}}; {KEPT}").format(error)

    def _error(self, sentence: str) -> ConfigError:
        return ConfigError([f"{self.file}: {sentence}"])

    def damaged(self, key: str, what: str) -> ConfigError:
        """What a person is told of a row that cannot be what was written."""
        return self._error(
            f"damaged: table {self.table}, key {key[:12]}...: {what}; delete the file, or give "
            "another one"
        )

    def _prepare(self) -> None:
        version, tables = self._state()
        if not self._is_new(version, tables):
            self._check(version)
            return
        self._write_ahead()
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")  # all of it or nothing, by one process
            if self._is_new(*self._state()):
                for statement in (*self.statements, f"PRAGMA user_version = {self.version}"):
                    self.connection.execute(statement)

    def _write_ahead(self) -> None:
        """Turn on write-ahead logging, which lets readers go on beside a writer; wait if busy."""
        end = monotonic() + WAIT
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > end:
                    raise
            sleep(0.01)

    def _state(self) -> tuple[int, int]:
        """Read version and number of tables at the same moment: others may be making them."""
        tables = "(SELECT count(*) FROM sqlite_master)"
        query = f"SELECT user_version, {tables} FROM pragma_user_version"
        version, count = self.connection.execute(query).fetchone()
        return version, count

    def _rows(self, columns: str, keys: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return key and columns of the rows with these keys."""
        wanted, rows = list(keys), list[tuple[Any, ...]]()
        with self._refusals():
            for at in range(0, len(wanted), AT_ONCE):
                some = wanted[at : at + AT_ONCE]
                places = ",".join("?" * len(some))
                query = f"SELECT key, {columns} FROM {self.table} WHERE key IN ({places})"
                rows += self.connection.execute(query, some)
        return rows

    def _keep(self, row: tuple[Any, ...], *, again: bool = False) -> None:
        """Insert a row and commit; an existing row of its key is replaced only if `again`."""
        places, otherwise = ", ".join("?" * len(row)), "REPLACE" if again else "IGNORE"
        statement = f"INSERT OR {otherwise} INTO {self.table} VALUES ({places})"
        with self._refusals(), self.connection:
            self.connection.execute(statement, row)

    def __len__(self) -> int:
        with self._refusals():
            query = f"SELECT count(*) FROM {self.table}"
            return int(self.connection.execute(query).fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(self._sentence(error)) from None


def _words(text: Any) -> list[str]:
    return str(text).split()
