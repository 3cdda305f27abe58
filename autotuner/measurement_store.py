"""Measurements that are kept: an SQLite database, a row for each point by its content's key.

The key is a digest of all that decides the cycles: primitive and arguments, the chip's fields, the
cycle limit, the content of the folders that the simulator is made of, and of the files here that
make an outcome of runs. Rows are written one by one as runs end, in WAL mode: whatever ends the
process, they stay.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from autotuner.measurement import Outcome
from autotuner.sqlite_store import SqliteFile
from soc.chip.spec import SocSpec
from soc.host.source_version import FOLDERS, version_of

VERSION = 1

TABLE = """
CREATE TABLE results (
    key TEXT PRIMARY KEY, kernel TEXT, arguments TEXT, chip TEXT,
    cycles INTEGER, l1_bytes INTEGER, reason TEXT
) WITHOUT ROWID
"""


def simulator_version() -> str:
    """A digest of every file that decides what a program is and how long it takes."""
    return version_of(FOLDERS)


def key_of(
    kernel: str, arguments: Any, chip: SocSpec, max_cycles: int, made_by: tuple[str, ...] = ()
) -> str:
    """The key of a measurement.

    made_by    files that make an outcome of runs, as version_of takes them
    """
    version = version_of((*FOLDERS, *made_by))
    content = [version, kernel, arguments, chip.model_dump(mode="json"), max_cycles]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Database(SqliteFile):
    """A file of measurements; ":memory:" keeps them for as long as it lives.

    raises    ConfigError, from every method: what SQLite refuses, in one sentence
    """

    what = "measurements"
    table = "results"
    version = VERSION
    statements = (TABLE,)

    def find(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """What is known of these keys."""
        rows = self._rows("cycles, l1_bytes, reason", keys)
        return {key: self._outcome(key, *cells) for key, *cells in rows}

    def arguments_of(self, key: str) -> dict[str, Any] | None:
        """The arguments that a row was kept with."""
        for _, cell in self._rows("arguments", [key]):
            try:
                found = json.loads(cell)
            except (TypeError, ValueError):
                found = None
            if not isinstance(found, dict):
                raise self.damaged(key, f"arguments = {cell!r:.40} are no table")
            return found
        return None

    def _outcome(self, key: str, cycles: Any, l1_bytes: Any, reason: Any) -> Outcome:
        for name, cell in (("cycles", cycles), ("l1_bytes", l1_bytes)):
            if not (cell is None or isinstance(cell, int) and cell >= 0):
                raise self.damaged(key, f"{name} = {cell!r:.40} is no number of {name}")
        if not isinstance(reason, str):
            raise self.damaged(key, f"reason = {reason!r:.40} is no text")
        return Outcome(cycles, l1_bytes, reason)

    def keep(
        self,
        key: str,
        kernel: str,
        arguments: Any,
        chip: str,
        outcome: Outcome,
        *,
        again: bool = False,
    ) -> None:
        """Keep a measurement, now; again: in place of what there is."""
        row = (key, kernel, json.dumps(arguments, sort_keys=True), chip)
        self._keep((*row, outcome.cycles, outcome.l1_bytes, outcome.reason), again=again)
