"""Damaged databases: measurements of the tuner, and results of studies."""

import json
import random
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from tests.fuzz.damage import damaged_bytes, damaged_text, hostile, json_text
from tests.fuzz.formats import Case, Format, written


def cell(rng: random.Random) -> Any:
    """A value of some type that a cell can have."""
    value = hostile(rng)
    if isinstance(value, int) and abs(value) < 1 << 63 or isinstance(value, float):
        return value
    return rng.choice((None, b"", b"\xff\0", "text", str(value)[:1000].encode("utf-8", "replace")))


class Database(Format):
    """An SQLite file: bytes, cells, or statements that change its schema."""

    sample: ClassVar[str]
    table: ClassVar[str]
    statements: ClassVar = (
        "ALTER TABLE {} RENAME TO other",
        "ALTER TABLE {} RENAME COLUMN key TO name",
        "ALTER TABLE {} ADD COLUMN more TEXT",
        "DROP TABLE {}",
        "DELETE FROM {}",
        "PRAGMA user_version = 99",
        "PRAGMA user_version = -1",
        "PRAGMA application_id = 7",
        "PRAGMA encoding = 'UTF-16'",
        "CREATE TABLE other (key)",
        "CREATE TRIGGER t BEFORE INSERT ON {} BEGIN SELECT RAISE(ABORT, 'no'); END",
        "ALTER TABLE {0} RENAME TO o; CREATE VIEW {0} AS SELECT * FROM o",
        "ALTER TABLE {0} RENAME TO o; CREATE VIEW {0} AS WITH RECURSIVE r AS (SELECT * FROM o "
        "UNION ALL SELECT * FROM r) SELECT * FROM r",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE TABLE x (y)'",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 1",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 999999",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET type = 'index'",
    )

    def prepare(self, samples: Path) -> None:
        self.data = (samples / self.sample).read_bytes()

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        file = written(folder / "damaged.db", self.data)
        kind = rng.randrange(3)
        if kind == 0:
            file.write_bytes(damaged_bytes(self.data, rng))
        else:
            connection = sqlite3.connect(file, isolation_level=None)
            connection.execute("PRAGMA journal_mode = DELETE")
            try:
                if kind == 1:
                    connection.executescript(rng.choice(self.statements).format(self.table))
                else:
                    self.change_cells(connection, rng)
            except sqlite3.Error:
                pass
            connection.close()
        return file, self.reader(file)

    def change_cells(self, connection: sqlite3.Connection, rng: random.Random) -> None:
        raise NotImplementedError

    def reader(self, file: Path) -> Callable[[], object]:
        raise NotImplementedError


class Tuned(Database):
    name, count, sample, table = "tuned", 250, "tuned.db", "results"

    @staticmethod
    def make_samples(folder: Path) -> None:
        from autotuner.measurement import Outcome
        from autotuner.measurement_store import Database as Measurements

        database = Measurements(folder / "tuned.db")
        for key, arguments in keys().items():
            outcome = Outcome(1000 + len(key), 4096) if arguments["cores"] else Outcome(None)
            database.keep(key, "linear_fw_f32", arguments, "pulp", outcome)
        database.close()

    def change_cells(self, connection: sqlite3.Connection, rng: random.Random) -> None:
        column = rng.choice(("key", "kernel", "arguments", "chip", "cycles", "l1_bytes", "reason"))
        some = "1" if rng.random() < 0.5 else "abs(random()) % 3 = 0"
        connection.execute(f"UPDATE results SET {column} = ? WHERE {some}", [cell(rng)])

    def reader(self, file: Path) -> Callable[[], object]:
        return lambda: tune(file)


def keys() -> dict[str, dict[str, Any]]:
    """Arguments of the points by key."""
    return {f"{n:064x}": {"cores": n % 8, "tile": [n, n]} for n in range(200)}


def tune(file: Path) -> None:
    """What a search reads and writes, and makes of it."""
    from autotuner.measurement import Outcome
    from autotuner.measurement_store import Database as Measurements
    from autotuner.result import Found
    from autotuner.search import ranked
    from autotuner.space import Point
    from pulpsim.commands.tune.result import point_json

    database = Measurements(file)
    known = database.find(keys())
    for key, arguments in keys().items():
        if key not in known:
            database.keep(key, "linear_fw_f32", arguments, "pulp", Outcome(7, 8))
    len(database)
    database.close()
    point = Point(None, (), 1, 8)
    json.dumps([point_json(each) for each in ranked(Found(point, o) for o in known.values())])


class Studies(Database):
    name, count, sample, table = "studies", 250, "studies.db", "simulations"

    @staticmethod
    def make_samples(folder: Path) -> None:
        study(folder / "studies.db")

    def change_cells(self, connection: sqlite3.Connection, rng: random.Random) -> None:
        rows = connection.execute("SELECT key, result FROM simulations").fetchall()
        for key, kept in rng.sample(rows, min(len(rows), rng.choice((1, 3)))):
            result = json.loads(zlib.decompress(kept[32:]))
            kind = rng.randrange(5)
            value = (
                kept[:32] + zlib.compress(damaged_text(result, json_text, rng))
                if kind < 3
                else zlib.compress(b" " * (1 << 28))
                if kind == 3 and rng.random() < 0.2
                else damaged_bytes(kept, rng)
                if kind == 3
                else cell(rng)
            )
            connection.execute("UPDATE simulations SET result = ? WHERE key = ?", [value, key])

    def reader(self, file: Path) -> Callable[[], object]:
        return lambda: study(file)


SWEEP = {"strides": [1, 4], "offsets": [0, 1], "cores": 2, "reads": 32}


def study(file: Path) -> None:
    """A small study with what a store knows."""
    from pulpsim.commands.study.result_store import Store
    from pulpsim.commands.study.simulate import Simulate
    from pulpsim.commands.study.stride import STUDY
    from soc.chip.spec import load_chip
    from soc.config.validation import Layer, validated

    spec = load_chip("pulp")
    point = validated(STUDY.arguments, [Layer("test", SWEEP)])
    store = Store(file)
    try:
        found = Simulate(STUDY.name, store, workers=1)(STUDY.cases(point, spec))
    finally:
        store.close()
    good = [finding for finding in found if not finding.failure]
    rows = STUDY.rows(point, spec, good)
    if rows:
        STUDY.tables(rows), STUDY.explain(rows)
