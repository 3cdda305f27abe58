"""Policies: against made-up measurements, and by simulation on small layers."""

import pytest

from autotuner.lower_bound import lower_bound, moved, rereads
from autotuner.measure import Limits, Measure
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.point import Point
from autotuner.search import SHARE, exhaustive, guided, paper
from autotuner.single_tile import MeasureTile
from autotuner.space import Space
from soc.chip.spec import load_chip
from trainlib.launch import launch
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.tiling.schedule import schedule

CHIP = load_chip("pulp")
ONE = Limits(workers=1)


def made_up(space, costs):
    """A measurement that asks a function, and notes what it was asked."""
    asked = []

    def measure(points):
        asked.extend(points)
        return [costs(point) for point in points]

    return measure, asked


def pointwise(**changes):
    arguments = {"inputs": 32, "outputs": 32, "height": 20, "width": 20, "rows": 4, "cols": 4}
    return Space.of("pwconv2d_fw_f32", arguments | changes, CHIP, sizes=4)


def test_exhaustive_measures_every_point_and_sorts_failures_after():
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 64}, CHIP, sizes=2)
    every = list(space)
    costs = {
        point: Outcome(None, 0, "trap") if i % 3 else Outcome(10000 - i)
        for i, point in enumerate(every)
    }
    measure, asked = made_up(space, costs.get)
    found = exhaustive(space, measure)
    assert asked == every
    ranks = [f.outcome.rank for f in found]
    assert ranks == sorted(ranks)
    assert found[0].outcome == min(costs.values(), key=lambda outcome: outcome.rank)


def test_guided_measures_a_seventh_at_most_and_never_a_point_twice():
    space = pointwise()
    measure, asked = made_up(space, lambda p: Outcome(1_000_000 + hash(p) % 1000, 64))
    guided(space, measure)
    assert len(asked) == len(set(asked)) <= len(space) // SHARE
    assert set(asked) <= set(space)


def test_guided_measures_what_networks_choose_after_what_the_primitive_does():
    space = Space.of("relu_fw_f32", {"shape": [4096]}, CHIP, sizes=3)
    measure, asked = made_up(space, lambda p: Outcome(10**6, 64))
    guided(space, measure)
    assert asked[:2] == [space.default(), space.deployed()]
    assert asked[0].tile is None
    assert asked[1].tile == (("d0", 1024),)


def test_guided_skips_what_the_bound_excludes():
    space = pointwise()
    fast = min(lower_bound(space, point) for point in space)
    measure, asked = made_up(space, lambda p: Outcome(int(fast), 64))
    guided(space, measure)
    assert len(asked) <= 8


def test_guided_tries_other_blockings_where_the_primitives_own_fails():
    space = Space.of("linear_fw_f32", {"inputs": 40, "outputs": 24}, CHIP, sizes=3)
    measure, _ = made_up(
        space, lambda p: Outcome(10**6, 64) if p.kernel else Outcome(None, None, "no registers")
    )
    assert guided(space, measure)[0].outcome.cycles == 10**6


def test_nothing_that_fails_is_chosen():
    space = pointwise()
    own = space.default()
    measure, _ = made_up(space, lambda p: Outcome(10**6 if p == own else None, 0, "trap"))
    assert guided(space, measure)[0].point == own


POINTWISE = {"inputs": 16, "outputs": 16, "height": 8, "width": 8}
PARTLY = POINTWISE | {"unroll": 1, "tile": {"ci": 16}}
DEPTHWISE = {"inputs": 16, "height": 12, "width": 12, "kernel": 3, "padding": 1, "buffers": 2,
             "is_turned": False}  # fmt: skip
SMALL = {"inputs": 4, "outputs": 8, "height": 8, "width": 8, "kernel": 3, "buffers": 2,
         "is_turned": False}  # fmt: skip
BY_COLUMNS = {"inputs": 4, "outputs": 8, "height": 8, "width": 8, "kernel": 3, "buffers": 2,
              "tile": {"x": 6, "ci": 4}, "split": [4, 2]}  # fmt: skip
BY_DMA = {"inputs": 16, "outputs": 16, "height": 15, "width": 15, "kernel": 3, "stride": 2,
          "layout": "hwc", "buffers": 2, "tile": {"x": 7, "ci": 16, "co": 16}}  # fmt: skip
AFFORDABLE = [
    ("linear_fw_f32", {"inputs": 40, "outputs": 24, "unroll": 1}),
    ("pwconv2d_fw_f32", {"inputs": 8, "outputs": 8, "height": 4, "width": 4, "unroll": 1,
                         "tile": {"n": 1, "co": 8, "ci": 8}}),
    ("conv2d_wg_f32", {"inputs": 4, "outputs": 4, "height": 6, "width": 6, "kernel": 3,
                       "is_turned": False, "split": [4, 1], "channels": 2, "buffers": 2,
                       "method": "direct"}),
    ("relu_fw_f32", {"shape": [60, 50]}),
    ("linear_fw_f32", {"inputs": 128, "outputs": 128}),
    ("linear_wg_f32", {"inputs": 128, "outputs": 128}),
    ("linear_ig_f32", {"inputs": 128, "outputs": 128}),
    ("pwconv2d_fw_f32", PARTLY),
    ("pwconv2d_wg_f32", PARTLY),
    ("pwconv2d_ig_f32", PARTLY),
    ("dwconv2d_fw_f32", DEPTHWISE),
    ("dwconv2d_wg_f32", DEPTHWISE),
    ("dwconv2d_ig_f32", DEPTHWISE),
    ("conv2d_fw_f32", SMALL | {"tile": {"x": 6, "ci": 4}}),
    ("conv2d_wg_f32", SMALL | {"tile": {"x": 6, "ci": 4}}),
    ("conv2d_ig_f32", SMALL | {"tile": {"x": 8, "ci": 4}}),
    ("conv2d_fw_f32", BY_COLUMNS),
    ("conv2d_fw_f32", BY_DMA),
    ("conv2d_wg_f32", BY_DMA | {"channels": 1}),
    ("pwconv2d_fw_f32", POINTWISE),
]  # fmt: skip
"""Layers of which every point can be measured: together they have 9,000."""

REGULAR = 0, 3
"""Those of which every point is measured regularly; of others, some are held against the bound."""


@pytest.mark.parametrize("number", range(len(AFFORDABLE)))
def test_guided_is_within_one_percent_of_the_optimum_by_a_seventh_of_the_points(request, number):
    if number not in REGULAR and not request.config.getoption("--full"):
        pytest.skip("measures 9,000 points; --full does")
    kernel, arguments = AFFORDABLE[number]
    space = Space.of(kernel, arguments, CHIP, sizes=2, cores=(8,))
    measure = Measure(space.layer, CHIP, Database(":memory:"))
    best, simulated = guided(space, measure)[0].outcome, measure.simulated
    all_points = exhaustive(space, measure)
    optimum = all_points[0].outcome
    print(
        f"{kernel}: {len(space)} points, {simulated} simulated, {best.cycles} cycles, "
        f"{best.cycles / optimum.cycles - 1:.2%} over the optimum"
    )
    assert simulated <= len(space) / SHARE
    assert best.cycles <= 1.01 * optimum.cycles
    for found in all_points:
        assert lower_bound(space, found.point) <= found.outcome.rank
    _, report = launch(kernel, arguments | all_points[0].point.arguments)
    assert report.is_correct


@pytest.mark.parametrize("kernel", ["matmul_f16", "matmul_f32"])
def test_a_product_in_l1_takes_no_less_than_the_bound(kernel):
    space = Space.of(kernel, {"n": 48, "k": 48, "m": 48}, CHIP, sizes=2, cores=(8,))
    point = space.default()
    [outcome] = Measure(space.layer, CHIP, Database(":memory:"), ONE)([point])
    assert lower_bound(space, point) <= outcome.rank


@pytest.mark.parametrize("number", [1, 2, 10, 18])
@pytest.mark.sampled(2)
def test_points_of_other_layers_take_no_less_than_the_bound(number):
    kernel, arguments = AFFORDABLE[number]
    space = Space.of(kernel, arguments, CHIP, sizes=2, cores=(8,))
    measure = Measure(space.layer, CHIP, Database(":memory:"), ONE)
    points = list(space)
    points = points[number % 7 :: -(-len(points) // 6)]
    for point, outcome in zip(points, measure(points), strict=True):
        assert lower_bound(space, point) <= outcome.rank
    assert any(outcome.cycles for outcome in measure(points))


def test_the_papers_policy_takes_the_fastest_single_tile_and_measures_its_layer():
    space = Space.of("linear_fw_f32", {"inputs": 640, "outputs": 64}, CHIP)
    database = Database(":memory:")
    measure = Measure(space.layer, CHIP, database, ONE)
    tile = MeasureTile(space.layer, CHIP, database, ONE)
    found = paper(space, measure, tile, most=1)
    points = space.paper(1)
    latency = {p: o.cycles for p, o in zip(points, tile(points), strict=True) if o.cycles}
    assert latency[found[0].point] == min(latency.values())
    assert found[0].outcome.cycles > latency[found[0].point]
    assert (tile.simulated, measure.simulated) == (len(points), 1)


def test_where_the_papers_choice_is_wrong_the_next_is_taken():
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 16}, CHIP)
    points = space.paper()
    order = {point: Outcome(10 + i) for i, point in enumerate(points)}
    order[points[0]] = Outcome(None, None, "trap")
    measure, asked = made_up(
        space, lambda p: Outcome(None, 0, "wrong") if p == points[1] else Outcome(99)
    )
    found = paper(space, measure, lambda some: [order[p] for p in some])
    assert found[0].point == points[2]
    assert asked == points[1:3]
    assert {f.outcome.reason for f in found} == {"", "wrong"}


def test_a_single_tile_of_a_primitive_without_tiles_is_refused():
    space = Space.of("berhu_loss_f32", {"shape": [4]}, CHIP)
    tile = MeasureTile(space.layer, CHIP, Database(":memory:"), ONE)
    whole, cut = tile([Point(None, (), 1, 8), Point((("n", 1),), (), 1, 8)])
    assert whole.cycles
    assert cut.reason == "berhu_loss_f32: it has no tiles"


def test_a_tile_that_does_not_end_has_failed():
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 16}, CHIP)
    tile = MeasureTile(space.layer, CHIP, Database(":memory:"), Limits(workers=1, max_cycles=500))
    assert tile([space.default()])[0].reason.startswith("max_cycles: ")


STRIDED = {"inputs": 8, "outputs": 8, "height": 12, "width": 12, "kernel": 1, "stride": 3}
WINDOWS = {"inputs": 8, "outputs": 8, "height": 12, "width": 12, "kernel": 3, "padding": 1}


@pytest.mark.parametrize("layer", [STRIDED, WINDOWS], ids=("strided", "windows"))
@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
@pytest.mark.parametrize("method", ["direct", "columns", "columns_by_dma"])
def test_no_schedule_copies_fewer_bytes_than_the_bound_counts(method, step, layer):
    space = Space.of(f"conv2d_{step}_f32", layer | {"method": method}, CHIP, sizes=3, cores=(8,))
    tiling, tensors = space.tiling(method), space.tensors
    for tile in space.tiles(2, method)[::23]:
        sizes = dict(tile)
        slots = space.choice(2, method).slots(sizes)
        steps = schedule(list(tiling.tiles(sizes, tensors)), tensors, slots)
        for to_l1, least in zip((True, False), moved(space, Point(tile, (), 2, 8)), strict=True):
            copied = [t.copy.size for step in steps for t in step.transfers if t.to_l1 is to_l1]
            assert least <= sum(copied)


def test_what_stays_in_l1_is_read_once_and_what_loops_around_come_back_to_again():
    def emit(k, team, shape, at):
        """No computation."""

    tiling = Tiling(
        (Dim("n", 4), Dim("m", 6), Dim("k", 8, is_summed=True)),
        {"A": ("n", "k"), "B": ("k", "m"), "C": ("n", "m"), "x": ("n",)},
        emit,
    )

    def times(slots=1, **tile):
        return [rereads(tiling, name, tile, slots) for name in ("A", "B", "C", "x")]

    assert times(n=4, m=6, k=8) == [1, 1, 1, 1]
    assert times(n=2, m=2, k=2) == [3, 2, 1, 1]
    assert times(n=2, m=2, k=8) == [1, 2, 1, 1]
    assert times(n=4, m=2, k=2) == [3, 1, 1, 1]
    assert times(slots=2, n=2, m=2, k=2) == [2, 1 + 10 / 12, 1, 1]
    assert times(slots=4, n=2, m=2, k=2) == [1, 1 + 8 / 12, 1, 1]
