"""Results of simulations that are kept: an SQLite file, a row for each by its content's key.

The key is a digest of all that decides a run: the program's bytes, the chip's fields, the cycle
limit, and the simulator's own code. What is kept is the whole result, compressed JSON, so that a
study's figures can change without any new simulation. Rows are written one by one as runs end, in
WAL mode: whatever ends the process, they stay.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotuner.database import AT_ONCE, WAIT, simulator_version
from pulpsim.study.study import Finding, Measured, Result
from soc.spec import SocSpec
from soc.toml_file import ConfigError

VERSION = 1
APPLICATION = 0x50534D53  # SQLite's application_id of these files
TABLE = """
CREATE TABLE IF NOT EXISTS simulations (
    key TEXT PRIMARY KEY, study TEXT, point TEXT, chip TEXT, result BLOB
) WITHOUT ROWID
"""


def key_of(program: Measured, chip: SocSpec, max_cycles: int) -> str:
    """The key of a run."""
    digest = hashlib.sha256(simulator_version().encode())
    digest.update(json.dumps([chip.model_dump(mode="json"), max_cycles]).encode())
    about = program.entry, program.flags, program.architecture, sorted(program.regions.items())
    digest.update(json.dumps(about).encode())
    for segment in program.segments:
        digest.update(f" {segment.address} {segment.size} {len(segment.data)} ".encode())
        digest.update(segment.data)
    return digest.hexdigest()


class Store:
    """A file of results; ":memory:" keeps them for as long as it lives.

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
        def pragma(name: str) -> int:
            return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

        tables = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and pragma("application_id") != APPLICATION:
            raise ConfigError([f"{self.file}: not a database of studies; give another file"])
        if tables and pragma("user_version") != VERSION:
            raise ConfigError(
                [
                    f"{self.file}: a database of version {pragma('user_version')}; this program "
                    f"writes version {VERSION}: give another file"
                ]
            )
        self.connection.execute("PRAGMA journal_mode = WAL")
        if not tables:
            with self.connection:
                self.connection.execute(f"PRAGMA application_id = {APPLICATION}")
                self.connection.execute(f"PRAGMA user_version = {VERSION}")
                self.connection.execute(TABLE)

    def find(self, keys: Iterable[str]) -> dict[str, Result]:
        """What is known of these keys."""
        wanted, found = list(keys), {}
        with self._refusals():
            for at in range(0, len(wanted), AT_ONCE):
                some = wanted[at : at + AT_ONCE]
                places = ",".join("?" * len(some))
                query = f"SELECT key, result FROM simulations WHERE key IN ({places})"
                for key, kept in self.connection.execute(query, some):
                    found[key] = json.loads(zlib.decompress(kept))
        return found

    def keep(self, key: str, study: str, finding: Finding) -> None:
        """Keep a result, now."""
        case, kept = finding.case, zlib.compress(json.dumps(finding.result).encode())
        row = (key, study, json.dumps(dict(case.point)), case.chip.name, kept)
        with self._refusals(), self.connection:
            self.connection.execute("INSERT OR IGNORE INTO simulations VALUES (?, ?, ?, ?, ?)", row)

    def __len__(self) -> int:
        with self._refusals():
            return int(self.connection.execute("SELECT count(*) FROM simulations").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                message = f"{self.file}: not a database of studies; give another file"
            elif "unable to open" in str(error):
                message = f"{self.file}: cannot be opened; its folder must exist and be writable"
            else:
                message = f"{self.file}: {error}; what was simulated before is kept there"
            raise ConfigError([message]) from None
