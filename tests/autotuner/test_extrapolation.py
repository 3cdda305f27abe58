"""Estimates from a part of a layer's tiles, against simulations of all of them."""

import gc
import pickle
from concurrent.futures import Future
from functools import partial
from random import Random

import pytest

from autotuner.extrapolation import NONE, WORST, Estimate, Steady, estimate, outcome_of
from autotuner.measure import Builder, Limits, Measure
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.periodicity import LEAST, NoSteadyStateError, Repeat, longest_repeat
from autotuner.point import Layer, Point
from autotuner.result import Found
from autotuner.sampled_program import Sample, Shortener, TimedRun, sample_of
from autotuner.search import confirmed
from autotuner.space import Space
from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.run_many import Threads, run_many
from trainlib.primitive.slices import TileShape
from trainlib.tiling.schedule import Step

CHIP = load_chip("pulp")
LIMIT = 100_000_000

FC = {"inputs": 640, "outputs": 640}
POINTWISE = {"inputs": 64, "outputs": 64, "height": 50, "width": 20}
DEPTHWISE = {"inputs": 64, "height": 50, "width": 50, "kernel": 3, "padding": 1}
WIDE = {"inputs": 16, "outputs": 16, "height": 96, "width": 96, "kernel": 3, "padding": 1}
DEEP = {"inputs": 64, "outputs": 64, "height": 32, "width": 32, "kernel": 3, "padding": 1}
LAYERS = [
    ("pwconv2d_fw_f32", POINTWISE, {"y": 1, "co": 64, "ci": 64}, 2),
    ("dwconv2d_fw_f32", DEPTHWISE, {"y": 50, "x": 50, "g": 1}, 2),
    ("linear_ig_f32", FC, {"ci": 640, "co": 10}, 2),
    ("pwconv2d_wg_f32", POINTWISE, {"y": 1, "co": 64, "ci": 64}, 2),
    ("pwconv2d_ig_f32", POINTWISE, {"y": 1, "co": 64, "ci": 64}, 2),
    ("dwconv2d_wg_f32", DEPTHWISE, {"y": 50, "x": 50, "g": 1}, 2),
    ("dwconv2d_ig_f32", DEPTHWISE, {"y": 50, "x": 50, "g": 1}, 2),
    ("conv2d_fw_f32", WIDE, {"y": 2, "x": 48, "co": 16, "ci": 16}, 2),
    ("conv2d_wg_f32", WIDE, {"y": 2, "x": 48, "co": 16, "ci": 16}, 2),
    ("conv2d_ig_f32", WIDE, {"y": 2, "x": 48, "co": 16, "ci": 16}, 2),
    ("conv2d_fw_f32", WIDE, {"y": 2, "x": 48, "co": 16, "ci": 16}, 1),
    ("conv2d_wg_f32", DEEP, {"y": 8, "x": 32, "co": 8, "ci": 8}, 2),
    ("linear_wg_f32", FC, {"ci": 320, "co": 10}, 2),
    ("linear_fw_f32", FC, {"ci": 640, "co": 8}, 1),
    ("linear_fw_f32", FC | {"batch": 32}, {"n": 32, "ci": 64, "co": 8}, 2),
    ("linear_wg_f32", FC, {"ci": 640, "co": 8}, 1),
    ("matmul_f32", {"n": 256, "k": 256, "m": 256}, {"n": 16, "m": 32, "k": 128}, 2),
    ("pwconv2d_fw_f32", POINTWISE | {"layout": "hwc"}, {"y": 1, "co": 64, "ci": 64}, 2),
    ("pwconv2d_fw_f32", POINTWISE, {"y": 1, "co": 32, "ci": 64}, 1),
    ("dwconv2d_fw_f32", DEPTHWISE, {"y": 25, "x": 50, "g": 1}, 2),
]


def layer_and_point(kernel, arguments, tile, buffers, cores=8):
    layer = Layer.of(kernel, arguments)
    tiling = layer.family.tiling(layer.checked({}))
    sizes = tuple((dim.name, tile.get(dim.name, dim.size)) for dim in tiling.dims)
    return layer, Point(sizes, (), buffers, cores)


def part_at(layer, point, max_cycles=LIMIT):
    run = TimedRun(Shortener(layer, point, CHIP), CHIP, max_cycles=max_cycles)
    [part] = run_many([run], keep=sample_of)
    return part


@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_an_estimate_is_within_its_bound_and_one_percent_of_all_cycles(request, number):
    if number >= 3 and not request.config.getoption("--full"):
        pytest.skip("simulates twenty large layers; --full does")
    layer, point = layer_and_point(*LAYERS[number])
    found = estimate(part_at(layer, point))
    [outcome] = Measure(layer, CHIP, Database(":memory:"), Limits(workers=1))([point])
    error = found.cycles / outcome.cycles - 1
    assert abs(error) <= found.error <= WORST == 0.01
    assert found.l1_bytes == outcome.l1_bytes
    print(f"{layer.kernel}: {outcome.cycles} cycles, {error:+.2%}, bound {found.error:.2%}")


SMALL_FC = {"inputs": 320, "outputs": 320}
SMALL_POINTWISE = {"inputs": 32, "outputs": 32, "height": 40, "width": 20}
SMALL_DEPTHWISE = {"inputs": 32, "height": 25, "width": 25, "kernel": 3, "padding": 1}
FEW = {"inputs": 4, "outputs": 8, "height": 64, "width": 64, "kernel": 3, "padding": 1}
MANY = {"inputs": 32, "outputs": 32, "height": 12, "width": 12, "kernel": 3, "padding": 1}
STRIDED = FEW | {"stride": 2, "padding": [0, 1, 0, 1]}
DRAWN = [
    *(("linear", more) for more in (SMALL_FC, SMALL_FC | {"batch": 32})),
    *(("pwconv2d", SMALL_POINTWISE | {"layout": layout}) for layout in ("chw", "hwc")),
    ("dwconv2d", SMALL_DEPTHWISE),
    *(("conv2d", shape) for shape in (FEW, MANY, STRIDED)),
]


def drawn(moments):
    """A point of any tile, blocking, buffers and cores, of a layer and step of any family."""
    family, arguments = moments.choice(DRAWN)
    step = moments.choice(("fw", "wg", "ig"))
    space = Space.of(f"{family}_{step}_f32", arguments, CHIP)
    method, cores = moments.choice(space.methods), moments.choice(space.cores)
    buffers = moments.choice((1, 2))
    tiles, blockings = space.tiles(buffers, method), space.blockings(method, cores)
    blocking = moments.choice([blockings[0], moments.choice(blockings)])
    return space.layer, Point(moments.choice(tiles), blocking, buffers, cores)


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_of_a_point_drawn_at_random_holds(request, seed):
    if seed >= 2 and not request.config.getoption("--full"):
        pytest.skip("simulates forty layers; --full does")
    moments, found = Random(seed), None
    while found is None:
        layer, point = drawn(moments)
        part = part_at(layer, point)
        found = estimate(part) if isinstance(part, Sample) else None
    [outcome] = Measure(layer, CHIP, Database(":memory:"), Limits(workers=1))([point])
    error = found.cycles / outcome.cycles - 1
    print(f"{layer.kernel} {point}: {outcome.cycles} cycles, {error:+.2%} of {found.error:.2%}")
    assert abs(error) <= found.error


@pytest.mark.parametrize("number", [7, 0])  # 7: its code is fetched function by function
@pytest.mark.sampled(2)
def test_with_all_steps_it_is_the_launchers_program_and_periods_are_all_its_cycles(number):
    layer, point = layer_and_point(*LAYERS[number])
    repeat = Shortener(layer, point, CHIP)().repeat
    assert repeat.times > repeat.enough
    whole = Shortener(layer, point, CHIP, repeat.times)()
    assert whole.segments == Builder(layer, point, CHIP)().segments
    [part] = run_many([TimedRun(lambda: whole, CHIP)], keep=sample_of)
    [outcome] = Measure(layer, CHIP, Database(":memory:"), Limits(workers=1))([point])
    assert part.cycles == outcome.cycles
    assert {len(periods) for periods in part.durations} == {repeat.times}
    mean = sum(map(sum, part.durations)) / len(repeat.firsts) / repeat.times
    assert all(mean / 2 < cycles < 2 * mean for periods in part.durations for cycles in periods)
    assert sum(map(sum, part.durations)) < part.cycles
    steps = len(repeat.firsts) * repeat.times * repeat.period
    assert sum(map(sum, part.durations)) > part.cycles * steps / (steps + 2 * repeat.period + 9)


def steps(marks):
    shapes = {mark: TileShape((("n", ord(mark)),), (), True, False) for mark in marks}
    return [Step(shapes[mark]) for mark in marks]


def test_the_repeat_is_found_that_leaves_out_most_at_all_its_places():
    assert longest_repeat(steps("abcdefghijklmnopq")) is None
    assert longest_repeat(steps("x" + "ab" * 14 + "y")) == Repeat((1,), 2, 14)
    twice = steps("x" + "a" * 16 + "y" + "a" * 16 + "z")
    repeat = longest_repeat(twice)
    assert repeat == Repeat((1, 18), 1, 16)
    kept = repeat.kept(len(twice), 2)
    assert kept == [0, 1, 2, 17, 18, 19, 34]
    assert longest_repeat(steps("a" * LEAST)) is None


def test_periods_are_timed_where_they_are_left():
    repeat = Repeat((1, 32), 2, 15)
    starts = [7, *range(100, 220, 10), *range(221, 361, 10), 500]
    assert repeat.durations(starts, 6) == ((20,) * 5 + (21,), (20,) * 6)


def test_where_little_would_be_spared_there_is_none():
    fc = {"inputs": 640, "outputs": 128}
    layer, point = layer_and_point("linear_fw_f32", fc, {"co": 64, "ci": 64}, 2)
    with pytest.raises(NoSteadyStateError):
        Shortener(layer, point, CHIP)()


def test_the_first_quarter_of_the_periods_tells_nothing_and_the_bound_is_what_the_rest_differs():
    durations = (90, 80, 70, *[100] * 3, *[101] * 3, *[99] * 3)
    part = Sample(1500, (durations,), 112, 64)
    assert estimate(part) is None  # of 11500 cycles 230 are unsure: 2 %
    durations = (90, 80, 70, *[1000] * 3, *[1001] * 3, *[999] * 3)
    part = Sample(9500, (durations, durations), 112, 64)
    assert estimate(part) == Estimate(209500, 2 * 100 * (2 + 3) / 209500, 64)


def test_where_a_part_does_not_end_there_is_none():
    layer, point = layer_and_point(*LAYERS[0])
    part = part_at(layer, point, max_cycles=1000)
    assert (part.cycles, part.durations) == (None, ())
    assert estimate(part) is None


def test_a_trace_with_a_gap_is_told_and_no_trace_is_left_behind():
    layer, point = layer_and_point("linear_fw_f32", {"inputs": 64, "outputs": 400}, {"co": 4}, 1)
    run, folders = TimedRun(Shortener(layer, point, CHIP), CHIP), []

    def shortened(result, size):
        folders.append(result.program.trace.parent)
        result.program.trace.write_bytes(result.program.trace.read_bytes()[:-size] if size else b"")
        return sample_of(result)

    for size, message in ((0, "not a trace"), (160, "the file is truncated")):
        [error] = run_many([run], keep=partial(shortened, size=size))
        assert message in str(error)
        assert outcome_of(error) == NONE
    part_at(layer, point)
    del error
    gc.collect()
    assert not any(folder.exists() for folder in folders)


def test_what_has_no_estimate_is_measured_and_estimates_are_remembered():
    layer, tiled = layer_and_point(
        "linear_fw_f32", {"inputs": 64, "outputs": 400}, {"co": 4, "ci": 64}, 1
    )
    few = Point((("n", 1), ("co", 100), ("ci", 64)), (), 1, 8)
    impossible = Point(tiled.tile, (("cols", 99), ("rows", 99)), 1, 8)
    noted = {}
    full = Measure(layer, CHIP, Database(":memory:"), Limits(workers=1), on_end=noted.__setitem__)
    points = [few, tiled, impossible]
    found = Steady(full)(points)
    assert full.simulated == 1
    assert found[0] == full([few])[0]
    assert found[1].cycles == pytest.approx(full([tiled])[0].cycles, rel=0.01)
    assert found[2].reason.startswith("matmul_f32: ")
    noted.clear()
    before = full.simulated
    assert Steady(full)(points) == found
    assert (full.simulated, noted) == (before, dict(zip(points, found, strict=True)))


def test_what_goes_wrong_is_the_points_outcome_if_it_is_the_points_fault():
    assert outcome_of(KernelError("too many")) == Outcome(None, None, "too many")
    assert outcome_of(NoSteadyStateError()) == NONE
    assert outcome_of(RuntimeError("the run's process ended")) == NONE


def test_what_a_lost_process_had_is_measured_in_full_and_estimated_again_the_next_time():
    layer, point = layer_and_point("linear_fw_f32", {"inputs": 64, "outputs": 400}, {"co": 4}, 1)

    losses = []

    class Lossy(Threads):
        def submit(self, function, /, run, keep):
            if keep is sample_of and not losses:
                losses.append(future := Future())
                future.set_exception(RuntimeError("ended"))
                return future
            return super().submit(function, run, keep)

    with Lossy(1) as executor:
        full = Measure(layer, CHIP, Database(":memory:"), executor=executor)
        measured = Steady(full)([point])
        assert (measured, len(full.database)) == (full([point]), 1)
        [estimated] = Steady(full)([point])
    assert estimated.cycles == pytest.approx(measured[0].cycles, rel=0.01)
    assert len(full.database) == 2


def sent(thing):
    return pickle.loads(pickle.dumps(thing))


def test_parts_and_what_they_say_can_be_sent_to_another_process():
    layer, point = layer_and_point("linear_fw_f32", {"inputs": 64, "outputs": 400}, {"co": 4}, 1)

    class Elsewhere(Threads):
        def submit(self, function, /, *arguments):
            return super().submit(lambda: sent(function(*sent(arguments))))

    found = []
    for kind in (Threads, Elsewhere):
        with kind(1) as executor:
            full = Measure(layer, CHIP, Database(":memory:"), executor=executor)
            found += Steady(full)([point])
            assert full.simulated == 0
    assert found[0] == found[1] != NONE


def test_an_interruption_ends_it_with_what_was_kept(monkeypatch):
    layer, point = layer_and_point("linear_fw_f32", {"inputs": 64, "outputs": 400}, {"co": 4}, 1)
    points = [point, *(Point((("n", 1), ("co", n), ("ci", 64)), (), 1, 8) for n in range(20, 60))]
    full = Measure(layer, CHIP, Database(":memory:"), Limits(workers=1))
    keep, kept = full.database.keep, []

    def interrupted(*row):
        if kept:
            raise KeyboardInterrupt
        kept.append(row)
        keep(*row)

    monkeypatch.setattr(full.database, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Steady(full)(points)
    assert len(full.database) == 1


def test_the_winner_is_confirmed_by_a_full_simulation():
    points = [Point((("n", size),), (), 1, 8) for size in (1, 2, 3, 4)]
    real = dict(zip(points, (105, 101, 99, 98), strict=True))
    found = [Found(p, Outcome(c)) for p, c in zip(points[:3], (95, 97, 103), strict=True)]
    failed = Found(points[3], Outcome(None, None, "trap"))
    asked = []

    def measure(some):
        asked.extend(some)
        return [Outcome(real[point]) for point in some]

    result = confirmed([*found, failed], measure)
    assert asked == points[:2]
    assert result[0] == Found(points[1], Outcome(101))
    assert [f.is_estimated for f in result] == [False, True, False, False]
    assert confirmed([failed], measure) == [failed]
