"""Lines that cores share out evenly: nothing is read before it is there, nothing lost.

The schedule is played: a copy to L1 ends at the next stop that waits at the earliest, one to L2
reads L1 when it starts and when it ends. A stop that copies nothing does not wait, but the first.
"""

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from autotuner.measure import layer_cycles
from firmware.runtime import Team, new_kernel
from soc.chip.spec import load_chip
from tests.trainlib.cluster import PULP
from trainlib.launch import launch
from trainlib.primitive.per_core import Alone, Block, Cuts
from trainlib.primitive.tensor import Tensor
from trainlib.primitive.tile_spec import Tiling
from trainlib.tiling import line_schedule, tile_loop
from trainlib.tiling.line_loop import FIRST
from trainlib.tiling.line_schedule import LineShare, lines_of_cores

LINE = 20  # bytes


def alone(items, rounds, blocks=1, cycles=60.0, front=0, back=0):
    """Items whose lines read three lines each, those outside left out, and write one."""

    def span(first, end):
        return max(first - 1, 0) * LINE, min(end + 1, rounds) * LINE

    def nothing(*_):
        pytest.fail("nothing is emitted")

    cuts = Cuts(span, LINE, LINE, front, back)
    how = (Block(0),) * blocks, rounds, cycles, "X", "Y", nothing, nothing, nothing
    return Alone(items, *how, cuts=cuts)


def tensors(items, rounds):
    sizes = items, rounds, LINE // 4
    return {"X": Tensor(sizes), "W": Tensor((items, 9)), "Y": Tensor(sizes, "out")}


def share(items, rounds, cores, unit=2, growth=2.0, most=9, **how):
    found = alone(items, rounds, **how), tensors(items, rounds)
    return LineShare(*found, cores, unit, growth, most)


class Played:
    """A core's part of L1: of every byte what it is."""

    def __init__(self, of, core):
        self.of, self.core = of, core
        self.l1, self.left = np.zeros(of.block, "i8"), []

    def tags(self, copied):
        number = list(self.of.tensors).index(copied.name) + 1
        start = copied.item * self.of.size(copied.name) + copied.first
        return (number << 40) + np.arange(start, start + copied.size)

    def part(self, copied, number):
        start = self.of.slot(copied.name, number)
        assert 0 <= start < start + copied.size <= self.of.block
        return slice(start, start + copied.size)

    def begin(self, copied, number):
        if copied.name == "Y":
            assert np.array_equal(self.l1[self.part(copied, number)], self.tags(copied))
        else:
            self.l1[self.part(copied, number)] = -1

    def end(self, copied, number):
        if copied.name == "Y":
            self.begin(copied, number)
            self.left += self.tags(copied).tolist()
        else:
            self.l1[self.part(copied, number)] = self.tags(copied)

    def compute(self, number):
        read, wrote = self.of.source(self.core, number), self.of.result(self.core, number)
        assert np.array_equal(self.l1[self.part(read, number)], self.tags(read))
        self.l1[self.part(wrote, number)] = self.tags(wrote)


def play(of):
    left = []
    for core in range(of.cores):
        played, under_way, done = Played(of, core), [(of.source(core, 0), 0)], {}
        played.begin(*under_way[0])
        waits, stops = True, list(of.stops(core))
        if len(of.segments[core]) > 1:
            assert any(stop.copied for stop in stops[:FIRST])  # it waits for the rest of the table
        for number, stop in enumerate(stops):
            while waits and under_way and (stop.copied or not number):
                played.end(*under_way.pop())
            if stop.copied:
                under_way.append((stop.copied, stop.of))
                played.begin(*under_way[-1])
            waits = stop.part is not None
            if stop.part:
                played.compute(stop.number)
                rounds = done.setdefault((stop.number, stop.part.block), [])
                assert stop.part.begins == (not rounds)
                rounds.append(stop.part.rounds)
                segment = of.segments[core][stop.number]
                assert stop.part.ends == (sum(rounds) == of.rounds(segment))
                assert segment.first == 0 or segment.first >= of.cuts.front
                assert stop.part.rounds > 0
        last = len(of.segments[core]) - 1
        for copied in [*under_way, (of.result(core, last), last)]:
            played.end(*copied)
        left += played.left
        assert len(done) == len(of.segments[core]) * len(of.alone.blocks)
    number = list(of.tensors).index("Y") + 1
    assert sorted(left) == [(number << 40) + n for n in range(of.tensors["Y"].size)]


def summing(items, rounds, cores, unit, growth, most, above=0, back=0):
    """Items of which lines of X and Y are read, and added up."""
    of = alone(items, rounds, front=above + bool(above), back=back)
    of = replace(of, cuts=replace(of.cuts, above=above), summed="W")
    return LineShare(of, tensors(items, rounds), cores, unit, growth, most)


def play_summing(of):
    """All lines of both are there when they are read; returns how often each is."""
    read = Counter()
    for core in range(of.cores):
        l1, under_way = {}, [(of.source(core, 0), 0), (of.result(core, 0), 0)]
        last = len(of.segments[core]) - 1
        for stop in of.stops(core):
            segment = of.segments[core][stop.number]
            if stop.part is None or stop.part.begins or stop.copied is None:
                l1 |= {(copied.name, number % 2): copied for copied, number in under_way}
                under_way = []
            if stop.copied:
                assert stop.of == stop.number + 1 <= last
                under_way.append((stop.copied, stop.of))
                l1.pop((stop.copied.name, stop.of % 2), None)
            if stop.part:
                for name, copied in (("X", of.source), ("Y", of.result)):
                    assert l1[name, stop.number % 2] == copied(core, stop.number)
                assert stop.part.rounds > 0
                if stop.part.begins:
                    lines = range(segment.first, segment.end)
                    read.update((segment.item, line) for line in lines)
        assert not under_way
    return read


@pytest.mark.parametrize("ends", [(0, 0), (1, 1), (2, 0), (2, 3)], ids=str)
@pytest.mark.parametrize("items", [2, 5, 8, 17, 35])
def test_what_is_summed_up_is_read_once(items, ends):
    played = 0
    for rounds in (6, 7, 25, 40):
        for unit, growth, most in ((2, 1.0, 9), (3, 1.5, 4), (5, 2.5, 40)):
            of = summing(items, rounds, 7, unit, growth, most, *ends)
            if of.exists:
                read = play_summing(of)
                assert read == Counter(product(range(items), range(rounds)))
                played += 1
    assert played >= 4


def test_sums_of_an_item_are_added_up_by_the_core_that_begins_it():
    of = summing(3, 40, 8, 2, 1.5, 20)
    begun = [list(of.begun(core)) for core in range(8)]
    assert begun == [[0], [], [1], [], [], [2], [], []]
    assert [of.parts(core) for core in range(8)] == [2, 0, 3, 0, 0, 2, 0, 0]
    assert of.sums == (3 + 8) * 36


@pytest.mark.parametrize("ends", [(0, 0), (1, 1), (2, 1)], ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("items", [2, 6, 17, 35])
@pytest.mark.sampled
def test_all_is_there_when_it_is_read_and_leaves_once(items, blocks, ends):
    played = 0
    for rounds in (6, 7, 25, 40):
        for unit, growth, most in ((1, 1.5, 4), (2, 2.0, 9), (5, 3.0, 40)):
            how = {"blocks": blocks, "front": ends[0], "back": ends[1]}
            whole = share(items, rounds, 7, unit, growth, most, **how)
            for of in (whole, replace(whole, tapers=False)):
                if of.exists:
                    play(of)
                    played += 1
    assert played >= 4


def test_a_core_has_the_whole_of_what_begins_and_ends_an_item():
    assert share(17, 25, 8).exists
    assert share(6, 25, 4, unit=1).exists
    short = share(6, 25, 4, unit=1, back=1)  # a last segment of a line would have no round
    assert short.exists
    assert min(s.lines for some in short.segments for s in some if s.end == 25) == 2
    for core, front, back in product(range(9), (0, 1, 2), (0, 1, 2)):
        end = share(17, 25, 8, front=front, back=back)._end(core) % 25
        assert end == 0 or front <= end <= 25 - back


class Greedy(LineShare):
    """With one slot."""

    def slot(self, name, number):
        return super().slot(name, 0)


def test_playing_finds_what_is_overwritten():
    of = share(6, 25, 4)
    play(of)
    with pytest.raises(AssertionError):
        play(Greedy(of.alone, of.tensors, of.cores, of.unit, of.growth, of.most))


def test_cores_have_equal_numbers_of_lines_and_short_segments_at_the_ends():
    of = share(17, 33, 8, unit=3, most=20)
    lines = [sum(segment.lines for segment in some) for some in of.segments]
    assert max(lines) - min(lines) <= 1
    for some in of.segments:
        assert some[0].lines <= 6
        assert all(segment.lines <= 20 for segment in some)
        assert all(a.end == b.first or b.first == 0 for a, b in pairwise(some))


def test_a_last_segment_may_be_as_long_as_others():
    short = share(17, 33, 8, unit=3, most=20)
    for some, others in zip(short.segments, replace(short, tapers=False).segments, strict=True):
        assert (some[0].first, some[-1].end) == (others[0].first, others[-1].end)
        assert others[0].lines <= 6
        assert len(others) <= len(some)
        assert others[-1].lines >= some[-1].lines


def found(of, chip=PULP, tile=None, buffers=2):
    k = new_kernel(chip)
    tiling = Tiling((), {}, lambda *_: None, alone=lambda: of.alone)
    return lines_of_cores(k, Team(k, of.cores), tiling, of.tensors, tile or {}, buffers)


def test_they_share_lines_where_items_are_no_multiple_of_them_and_slower_than_copies():
    assert found(share(17, 25, 8)) is not None
    assert found(share(16, 25, 8)) is None
    assert found(share(17, 5, 8)) is None
    assert found(share(17, 25, 8), tile={"g": 2}) is None
    assert found(share(17, 25, 8), buffers=1) is None
    assert found(share(17, 25, 8), load_chip("pulp-cv32e40p")) is None
    assert found(share(17, 25, 8, cycles=10.0)) is None
    of = share(17, 25, 8)
    assert found(replace(of, alone=replace(of.alone, cuts=None))) is None
    assert found(share(503, 25, 8)) is None  # a table that is too long


def test_of_equal_numbers_of_items_few_are_summed_up():
    assert found(summing(17, 25, 8, 2, 1.5, 9)) is not None
    assert found(summing(16, 25, 8, 2, 1.5, 9)) is not None
    assert found(summing(32, 25, 8, 2, 1.5, 9)) is None
    assert found(summing(9, 9, 8, 2, 1.5, 9)) is None  # 10 lines of a core


SHAPES = (
    ("fw ig", 8, {"inputs": 6, "height": 35, "width": 19, "kernel": 3}),
    ("fw ig", 8, {"inputs": 17, "height": 33, "width": 20, "kernel": 2, "padding": 1}),
    ("fw ig", 4, {"inputs": 7, "height": 25, "width": 5, "kernel": 3, "padding": 1, "bias": True}),
    (
        "fw ig",
        3,
        {"inputs": 5, "height": 20, "width": 12, "kernel": (3, 2), "padding": (1, 0, 1, 1)},
    ),
    ("fw ig", 5, {"inputs": 9, "height": 24, "width": 9, "kernel": 3, "padding": (0, 1, 2, 0)}),
    ("fw", 8, {"inputs": 9, "height": 40, "width": 7, "kernel": 3, "stride": (2, 1), "padding": 1}),
    ("fw ig", 7, {"inputs": 9, "height": 40, "width": 7, "kernel": (2, 1)}),
    (
        "fw ig",
        2,
        {"inputs": 3, "height": 30, "width": 22, "kernel": 3, "dilation": (1, 2), "padding": 1},
    ),
)


@pytest.fixture
def shares(monkeypatch):
    """The shares that programs are built with, however many cycles tiles take."""
    seen = []
    monkeypatch.setattr(line_schedule, "timed_cycles", lambda *_: math.inf)

    def spy(*arguments):
        seen.append(lines_of_cores(*arguments))
        return seen[-1]

    monkeypatch.setattr(tile_loop, "lines_of_cores", spy)
    return seen


def run(kernel, point):
    """Run it; it is right, and writes nowhere else."""
    _, report = launch(kernel, point | {"tile": {}}, PULP, guard=64, max_cycles=2_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize(("shared_in", "cores", "shape"), SHAPES, ids=str)
@pytest.mark.sampled
def test_channels_whose_lines_cores_share_out_are_right(step, shared_in, cores, shape, shares):
    point = shape | {"cores": cores, "warm": cores % 2 == 0}
    if step == "ig":
        point.pop("bias", None)
    run(f"dwconv2d_{step}_f32", point)
    assert (shares[0] is not None) == (step in shared_in)


GRADIENTS = (
    (8, {"inputs": 5, "height": 27, "width": 27, "kernel": 3, "padding": 2}),
    (8, {"inputs": 8, "height": 18, "width": 21, "kernel": 3}),
    (8, {"inputs": 2, "height": 64, "width": 12, "kernel": 3, "padding": 1}),
    (4, {"inputs": 7, "height": 25, "width": 5, "kernel": (3, 2), "padding": (1, 0, 1, 1)}),
    (3, {"inputs": 5, "height": 30, "width": 12, "kernel": (2, 4), "padding": (0, 1, 2, 0)}),
    (5, {"inputs": 9, "height": 24, "width": 31, "kernel": (4, 3), "padding": 1}),
    (7, {"inputs": 9, "height": 40, "width": 23, "kernel": (3, 3), "stride": (2, 1)}),
    (2, {"inputs": 3, "height": 30, "width": 22, "kernel": 3, "dilation": (2, 1), "padding": 1}),
    (8, {"inputs": 53, "height": 14, "width": 5, "kernel": 3, "padding": 1}),
)


@pytest.mark.parametrize(("cores", "shape"), GRADIENTS, ids=str)
def test_gradients_whose_lines_cores_sum_up_are_right(cores, shape, shares):
    run("dwconv2d_wg_f32", shape | {"cores": cores, "warm": cores % 2 == 0})
    assert shares[0].alone.summed == "dW"


@pytest.mark.parametrize(
    "more", [{"bias": True}, {"accumulate": True}, {"batch": 2}, {"multiplier": 2}, {"scale": -0.1}]
)
def test_gradients_of_more_than_weights_have_tiles(more, shares):
    shape = {"inputs": 5, "height": 27, "width": 17, "kernel": 3, "padding": 2}
    run("dwconv2d_wg_f32", shape | more)
    assert shares[0] is None


def test_gradients_take_fewer_cycles_by_lines_of_cores():
    """12,653 by tiles of which all cores compute lines."""
    shape = {"inputs": 5, "height": 27, "width": 27, "kernel": 3, "padding": 2, "tile": {}}
    _, report = launch("dwconv2d_wg_f32", shape)
    assert report.is_correct
    assert layer_cycles(report.result) <= 9_900


@pytest.mark.parametrize("step", ["fw", "wg"])
def test_both_engines_agree_on_them(step):
    point = {"inputs": 7, "height": 14, "width": 6, "kernel": 3, "padding": 1, "tile": {}}
    cycles = [
        launch(f"dwconv2d_{step}_f32", point | {"cores": 4}, PULP, engine=engine)[1].cycles
        for engine in ("compiled", "event")
    ]
    assert cycles[0] == cycles[1]


CARRIED = (
    ("fw", 8, {"inputs": 6, "height": 35, "width": 19, "kernel": 3}),
    ("ig", 8, {"inputs": 12, "height": 41, "width": 18, "kernel": 2, "padding": 1}),
    ("fw", 8, {"inputs": 17, "height": 45, "width": 4, "kernel": 3, "padding": 1, "bias": True}),
    ("ig", 8, {"inputs": 26, "height": 16, "width": 14, "kernel": 3, "padding": 2}),
    ("fw", 3, {"inputs": 5, "height": 40, "width": 5, "kernel": (4, 2), "padding": (2, 1, 0, 0)}),
    ("fw", 8, {"inputs": 25, "height": 32, "width": 5, "kernel": 3, "padding": 2, "bias": True}),
    ("fw", 8, {"inputs": 9, "height": 44, "width": 14, "kernel": 2, "padding": 1}),
    ("ig", 6, {"inputs": 17, "height": 20, "width": 9, "kernel": 3}),
    ("fw", 5, {"inputs": 8, "height": 34, "width": 6, "kernel": (3, 2), "padding": (0, 1, 0, 1)}),
)


@pytest.mark.parametrize(("step", "cores", "shape"), CARRIED, ids=str)
@pytest.mark.sampled
def test_sums_are_carried_from_line_to_line(step, cores, shape, shares):
    run(f"dwconv2d_{step}_f32", shape | {"cores": cores})
    assert shares[0].cuts.begun > 0


def test_of_shares_that_one_core_bounds_that_with_least_for_the_others_is_taken(shares):
    """17,528 cycles if the first one is, of an estimate that many have."""
    point = {"inputs": 45, "height": 13, "width": 13, "kernel": 3, "padding": 2, "tile": {}}
    _, report = launch("dwconv2d_ig_f32", point)
    assert report.is_correct
    assert shares[0] is not None
    assert layer_cycles(report.result) <= 17_300


@pytest.mark.parametrize(
    ("shape", "most"),
    [({"inputs": 23, "height": 12, "width": 27, "padding": 2}, 16_000),
     ({"inputs": 4, "height": 40, "width": 35, "padding": 1}, 13_000)],
    ids=str,
)  # fmt: skip
def test_lines_are_not_shared_where_tiles_take_fewer_cycles(shape, most):
    """18,003 and 14,240 cycles if they are."""
    _, report = launch("dwconv2d_ig_f32", shape | {"kernel": 3, "tile": {}})
    assert report.is_correct
    assert layer_cycles(report.result) <= most


def test_shapes_of_all_kinds_are_right(request, shares):
    numbers = random.Random(8)
    for _ in range(200 if request.config.getoption("--full") else 10):
        shape = {
            "inputs": numbers.randint(1, 40),
            "height": numbers.randint(8, 40),
            "width": numbers.randint(4, 30),
            "kernel": (numbers.randint(1, 4), numbers.randint(1, 4)),
            "stride": (numbers.choice((1, 1, 2)), numbers.choice((1, 1, 2))),
            "padding": tuple(numbers.choice((0, 0, 1, 1, 2)) for _ in range(4)),
            "cores": numbers.randint(2, 8),
        }
        run(f"dwconv2d_{numbers.choice(('fw', 'ig', 'wg'))}_f32", shape)
    assert any(share is not None for share in shares)
