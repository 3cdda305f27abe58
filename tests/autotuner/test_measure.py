"""What is measured, remembered, refused; whatever fails can never win."""

import multiprocessing
import os
import signal
import sqlite3

import numpy as np
import pytest

from autotuner import measure as measuring
from autotuner.extrapolation import KIND
from autotuner.measure import Builder, Checked, Limits, Measure, failure, is_lasting
from autotuner.measurement import Outcome
from autotuner.measurement_store import VERSION, Database, key_of
from autotuner.search import ranked
from autotuner.single_tile import MeasureTile
from autotuner.space import Layer, Point, Space
from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.host.source_version import FOLDERS, version_of
from soc.run import run_program
from trainlib.launch import launch

CHIP = load_chip("pulp")
ONE = Limits(workers=1)
LAYER = Layer.of("linear_fw_f32", {"inputs": 16, "outputs": 8})
WHOLE = Point(None, (), 1, 8)
TILED = Point((("n", 1), ("co", 4), ("ci", 16)), (), 2, 8)
IMPOSSIBLE = Point(None, (("cols", 99), ("rows", 99)), 1, 8)


def one(measure, point):
    return measure([point])[0]


def test_cycles_are_those_from_l2_to_l2_all_in_l1_or_by_tiles():
    measure = Measure(LAYER, CHIP, Database(":memory:"), ONE)
    for point in (WHOLE, TILED):
        _, report = launch(LAYER.kernel, LAYER.given | point.arguments)
        regions = [report.regions[n].cycles for n in ("dma_in", "compute", "dma_out")
                   if n in report.regions]  # fmt: skip
        assert max(regions) < one(measure, point).cycles <= sum(regions) or len(regions) == 1
        assert one(measure, point).cycles < report.result.cycles
    assert measure.simulated == 2


def test_an_update_that_is_fused_with_its_gradient_is_measured():
    """It has tiles of all of it alone: phases are refused with it."""
    shape = {"inputs": 4, "outputs": 8, "height": 8, "width": 8, "kernel": 3, "padding": 1}
    layer = Layer.of("conv2d_wg_f32", shape | {"scale": "operand"})
    space = Space.of(layer.kernel, layer.given, CHIP, sizes=2)
    for point in (space.default(), next(point for point in space if point.tile)):
        outcome = one(Measure(layer, CHIP, Database(":memory:"), ONE), point)
        assert (outcome.reason, outcome.phases) == ("", ())
        assert outcome.cycles


def test_nothing_is_simulated_twice_not_even_after_the_file_was_closed(tmp_path):
    file = tmp_path / "tuned.db"
    first = Measure(LAYER, CHIP, Database(file), ONE)
    found = first([WHOLE, TILED, WHOLE])
    assert (first.simulated, found[0]) == (2, found[2])
    first.database.close()
    seen = []
    again = Measure(LAYER, CHIP, Database(file), on_end=lambda *pair: seen.append(pair))
    assert again([WHOLE, TILED]) == found[:2]
    assert (again.simulated, seen) == (0, [(WHOLE, found[0]), (TILED, found[1])])


def test_another_chip_layer_limit_or_simulator_is_another_measurement(monkeypatch):
    keys = set()
    other = CHIP.model_copy(update={"cores": 4})
    for chip, kernel, limit in (
        (CHIP, "a", 1),
        (other, "a", 1),
        (CHIP, "b", 1),
        (CHIP, "a", 2),
    ):
        keys.add(key_of(kernel, {}, chip, limit))
    keys.add(key_of("a", {"n": 1}, CHIP, 1))
    keys.add(key_of("a", {}, CHIP, 1, ("autotuner/single_tile.py",)))
    monkeypatch.setattr("autotuner.measurement_store.version_of", lambda places: "another")
    keys.add(key_of("a", {}, CHIP, 1))
    assert len(keys) == 7


@pytest.mark.parametrize(
    ("changed", "others"),
    [
        ("soc/core/pipeline.py", {"whole", "tile", "estimate"}),
        ("trainlib/reduction/softmax.py", {"whole", "tile", "estimate"}),
        ("autotuner/measure.py", {"whole", "tile"}),
        ("autotuner/single_tile.py", {"tile"}),
        ("autotuner/extrapolation.py", {"estimate"}),
        ("autotuner/periodicity.py", {"estimate"}),
        ("autotuner/space.py", set()),
    ],
)
def test_where_the_code_that_makes_an_outcome_changes_it_is_measured_again(
    tmp_path, monkeypatch, changed, others
):
    measure = Measure(LAYER, CHIP, Database(":memory:"))
    tile = MeasureTile(LAYER, CHIP, Database(":memory:"))

    def keys(name, text):
        root = tmp_path / name
        for file in (*KIND.made_by, *tile.kind.made_by, *(f"{f}/a.py" for f in FOLDERS), changed):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text if file == changed else "text")
        monkeypatch.setattr(
            "autotuner.measurement_store.version_of", lambda places: version_of(places, root)
        )
        kinds = (("whole", measure, None), ("tile", tile, None), ("estimate", measure, KIND))
        return {name: measured.key(TILED, kind) for name, measured, kind in kinds}

    before, after = keys("before", "text"), keys("after", "other text")
    assert keys("again", "text") == before
    assert len(set(before.values())) == 3
    assert {name for name in after if after[name] != before[name]} == others


def test_what_cannot_be_built_fails_with_its_reason_and_is_remembered():
    measure = Measure(LAYER, CHIP, Database(":memory:"), ONE)
    outcome = one(measure, IMPOSSIBLE)
    assert outcome.reason.startswith("linear_fw_f32: matmul_f32: rows 99")
    assert (outcome.cycles, one(measure, IMPOSSIBLE), measure.simulated) == (None, outcome, 1)


def test_what_overruns_its_limit_has_failed():
    measure = Measure(LAYER, CHIP, Database(":memory:"), Limits(workers=1, max_cycles=1000))
    assert one(measure, WHOLE).reason.startswith("max_cycles: ")
    assert one(measure, WHOLE).cycles is None


def test_a_wrong_result_has_failed():
    result = run_program(Builder(LAYER, WHOLE, CHIP)(), CHIP)
    assert measuring.outcome_of(result).cycles
    address, _ = result.program.kernel.outputs["Y"]
    word = (address - CHIP.l2.base) // 4
    right = result.chip.l2[word]
    result.chip.l2[word] = np.float32(1e6).view(np.int32)
    outcome = measuring.outcome_of(result)
    assert outcome.cycles is None
    assert outcome.reason.startswith("wrong result: largest error 99999")
    result.chip.l2[word] = right
    result.chip.l2[word + 1000] ^= 1  # after all outputs
    code = result.program.entry
    result.chip.l2.view(np.uint8)[code - CHIP.l2.base] ^= 1
    assert measuring.outcome_of(result).reason == f"wrote to {code:#010x}, not its own"


def test_traps_deadlocks_and_exit_codes_are_failures():
    result = run_program(Builder(LAYER, WHOLE, CHIP)(), CHIP)
    from dataclasses import replace

    from soc.result import Exit

    for end, reason in (
        (Exit("trap", 0, "cycle 3: x"), "trap: cycle 3: x"),
        (Exit("deadlock", 0, "all wait"), "deadlock: all wait"),
        (Exit("exit", 83), "exit code 83"),
    ):
        outcome = measuring.outcome_of(replace(result, exit=end))
        assert (outcome.cycles, outcome.reason) == (None, reason)


def test_failures_come_after_everything_else():
    from autotuner.result import Found

    slow, failed = Found(WHOLE, Outcome(10**9)), Found(TILED, Outcome(None, 0, "trap"))
    assert ranked([failed, slow]) == [slow, failed]


def test_what_is_not_the_points_fault_is_not_remembered(monkeypatch):
    assert failure(RuntimeError("gone")) == Outcome(None, None, "RuntimeError: gone")
    assert failure(KernelError("no room")) == Outcome(None, None, "no room")
    assert is_lasting(KernelError("no room"))
    assert not is_lasting(RuntimeError("gone"))
    assert not is_lasting(Outcome(None, 0, "interrupted: by the host"))
    assert is_lasting(Outcome(None, 0, "trap: x"))
    monkeypatch.setattr(Builder, "__call__", lambda self: 1 // 0)
    measure = Measure(LAYER, CHIP, Database(":memory:"), ONE)
    assert one(measure, WHOLE).reason.startswith("ZeroDivisionError: ")
    assert len(measure.database) == 0


def test_the_program_of_a_point_is_the_launchers():
    built = Builder(LAYER, TILED, CHIP)()
    assert isinstance(built, Checked)
    assert built.segments == built.kernel.program.segments


def keep_for_ever(file, pipe):
    database = Database(file)
    for number in range(10**6):
        database.keep(f"k{number}", "a", {}, "pulp", Outcome(number))
        pipe.send(number)


@pytest.mark.parametrize("wait", [1, 7, 23])
@pytest.mark.sampled(3)
def test_a_kill_loses_nothing_that_was_reported(tmp_path, wait):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    file = str(tmp_path / "killed.db")
    writer = context.Process(target=keep_for_ever, args=(file, theirs), daemon=True)
    writer.start()
    reported = [ours.recv() for _ in range(wait)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    while ours.poll():
        reported.append(ours.recv())
    database = Database(file)
    found = database.find(f"k{number}" for number in reported)
    assert found == {f"k{number}": Outcome(number) for number in reported}
    assert database.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_more_keys_are_found_than_a_query_takes():
    database = Database(":memory:")
    for number in range(1200):
        database.keep(str(number), "a", {}, "pulp", Outcome(number))
    assert len(database.find(map(str, range(2000)))) == 1200


def test_files_that_are_no_such_database_are_refused(tmp_path):
    text, other, foreign = (tmp_path / name for name in ("a.txt", "b.db", "c.db"))
    text.write_text("This is no database. " * 100)
    with pytest.raises(
        ConfigError, match=rf"^{text}: not a database of measurements; give another file$"
    ):
        Database(text)
    for file, version, table in ((other, VERSION + 1, "results"), (foreign, 0, "songs")):
        with sqlite3.connect(file) as connection:
            connection.execute(f"CREATE TABLE {table} (x)")
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(
            ConfigError,
            match=rf"^{file}: a database of version {version}; this program writes version "
            rf"{VERSION}: give another file$",
        ):
            Database(file)
    with pytest.raises(
        ConfigError,
        match=rf"^{tmp_path}: unable to open database file; its folder must be there, and "
        r"writable$",
    ):
        Database(tmp_path)


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("query_only = 1", "cannot be written: it or its disk is read-only"),
        ("max_page_count = 1", "cannot be written: its disk is full"),
    ],
)
def test_a_read_only_or_full_disk_ends_the_search_with_what_it_had(tmp_path, pragma, message):
    file = tmp_path / "tuned.db"
    measure = Measure(LAYER, CHIP, Database(file), ONE)
    known = one(measure, WHOLE)
    measure.database.connection.execute(f"PRAGMA {pragma}")
    for number in range(200):
        arguments = {"text": "x" * 100 * (message != "")}
        try:
            measure.database.keep(f"k{number}", "a", arguments, "pulp", Outcome(1))
        except ConfigError:
            break
    with pytest.raises(
        ConfigError, match=rf"^{file}: {message}; what was written before is kept there$"
    ):
        one(measure, TILED)
    measure.database.close()
    again = Measure(LAYER, CHIP, Database(file), ONE)
    assert (one(again, WHOLE), again.simulated) == (known, 0)


def test_spaces_and_measurements_agree_on_what_fits():
    space = Space.of("linear_fw_f32", {"inputs": 200, "outputs": 90}, CHIP, sizes=3)
    measure = Measure(space.layer, CHIP, Database(":memory:"), ONE)
    points = [Point(tile, (), 2, 8) for tile in space.tiles(2)[:4]]
    assert all(outcome.cycles for outcome in measure(points))
