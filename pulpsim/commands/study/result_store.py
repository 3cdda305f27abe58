"""Results of simulations that are kept: an SQLite file, a row for each by its content's key.

The key is a digest of all that decides a run: the program's bytes, the chip's fields, the cycle
limit, and the simulator's own code. What is kept is the whole result, compressed JSON after its
digest, so that a study's figures can change without any new simulation. Rows are written one by one
as runs end, in WAL mode: whatever ends the process, they stay.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable
from typing import Any

from autotuner.measurement_store import simulator_version
from autotuner.sqlite_store import SqliteFile
from pulpsim.commands.study.study import Finding, Measured, Result
from soc.chip.spec import SocSpec

VERSION = 1
DIGEST = 32  # bytes of SHA-256
APPLICATION = 0x50534D53  # SQLite's application_id of these files
TABLE = """
CREATE TABLE simulations (
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


class Store(SqliteFile):
    """A file of results; ":memory:" keeps them for as long as it lives.

    raises    ConfigError, from every method: what SQLite refuses, in one sentence
    """

    what = "studies"
    table = "simulations"
    version = VERSION
    statements = (f"PRAGMA application_id = {APPLICATION}", TABLE)

    def _is_new(self, version: int, tables: int) -> bool:
        return tables == 0

    def _check(self, version: int) -> None:
        if self.connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            raise self._error(self.foreign)
        super()._check(version)

    def find(self, keys: Iterable[str]) -> dict[str, Result]:
        """What is known of these keys."""
        return {key: self._result(key, kept) for key, kept in self._rows("result", keys)}

    def _result(self, key: str, kept: Any) -> Result:
        content = kept[DIGEST:] if isinstance(kept, bytes) else b""
        if not content or kept[:DIGEST] != hashlib.sha256(content).digest():
            raise self.damaged(key, "its result is not what was written")
        result: Result = json.loads(zlib.decompress(content))
        return result

    def keep(self, key: str, study: str, finding: Finding) -> None:
        """Keep a result, now."""
        case, content = finding.case, zlib.compress(json.dumps(finding.result).encode())
        kept = hashlib.sha256(content).digest() + content
        self._keep((key, study, json.dumps(dict(case.point)), case.chip.name, kept))
