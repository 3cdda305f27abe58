"""Best points, kept and looked up."""

import pytest

from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.point import Items, Point
from autotuner.result import Found
from autotuner.space import Space
from autotuner.tuned import keep_best, tuned_by
from soc.chip.spec import load_chip

CHIP = load_chip("pulp")
KERNEL, ARGUMENTS = "linear_fw_f32", {"inputs": 64, "outputs": 32}
TILE: Items = (("n", 1), ("co", 16), ("ci", 64))


def found(tile: Items | None = TILE, kernel: Items = (), cores: int = 8) -> Found:
    return Found(Point(tile, kernel, 2, cores), Outcome(1000, 2000))


@pytest.fixture
def database() -> Database:
    return Database(":memory:")


def test_the_best_point_is_found_by_what_is_computed(database: Database) -> None:
    space = Space.of(KERNEL, ARGUMENTS, CHIP)
    keep_best(space, [found(kernel=(("split", (2, 4)),))], database)
    tuned = tuned_by(database, CHIP)
    wanted = {"tile": dict(TILE), "split": [2, 4], "buffers": 2}
    assert tuned(KERNEL, ARGUMENTS) == wanted
    assert tuned(KERNEL, {"outputs": 32, "inputs": 64}) == wanted
    assert tuned(KERNEL, ARGUMENTS | {"bias": True}) == {}
    assert tuned("linear_ig_f32", ARGUMENTS) == {}
    assert tuned_by(database, load_chip("pulp", {"l1.banks": 32}))(KERNEL, ARGUMENTS) == {}


def test_a_later_search_replaces_it(database: Database) -> None:
    space = Space.of(KERNEL, ARGUMENTS, CHIP)
    for tile in (TILE, None):
        keep_best(space, [found(tile)], database)
    assert tuned_by(database, CHIP)(KERNEL, ARGUMENTS) == {"buffers": 2}


def test_a_point_of_fewer_cores_is_none_of_a_network(database: Database) -> None:
    keep_best(Space.of(KERNEL, ARGUMENTS, CHIP), [found(cores=4)], database)
    assert tuned_by(database, CHIP)(KERNEL, ARGUMENTS) == {}


SHAPES = {"tiles": [4096], "all in L1": [64]}


@pytest.mark.parametrize(
    ("name", "cycles", "is_kept"),
    [
        ("tiles", 1020, False),
        ("tiles", 1060, True),
        ("all in L1", 1060, False),
        ("all in L1", 1760, True),
    ],
)
def test_a_point_that_gains_hardly_anything_leaves_a_network_its_own(
    name: str, cycles: int, is_kept: bool, database: Database
) -> None:
    shape = {"shape": SHAPES[name]}
    space = Space.of("relu_fw_f32", shape, CHIP)
    own = space.deployed() or space.default()
    assert (own.tile is None) == (name == "all in L1")
    tile = {"d0": SHAPES[name][0] // 8}
    better = found(tuple(tile.items()))
    keep_best(space, [better, Found(own, Outcome(cycles, 2000))], database)
    tuned = tuned_by(database, CHIP)("relu_fw_f32", shape)
    assert tuned == ({"tile": tile, "buffers": 2} if is_kept else {})
