"""What a core does by itself: nothing is read before it is there, nothing lost, whatever the shape.

The schedule is played byte by byte: a copy to L1 ends at the next stop at the earliest, one to L2
reads L1 both when it starts and when it ends.
"""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from firmware.runtime import Team, new_kernel
from soc.chip.spec import load_chip
from tests.trainlib.cluster import CHIPS, PULP
from trainlib.launch import launch, program
from trainlib.primitive.per_core import Alone, Block
from trainlib.primitive.tensor import WORD, Tensor
from trainlib.primitive.tile_spec import Tiling
from trainlib.tiling import tile_loop
from trainlib.tiling.per_core_schedule import Copied, Share, share_of

LINE = 20  # bytes


def alone(items, rounds, late=0, more=0, blocks=1):
    """Items whose rounds read a line each, and `more`, and write one, but `late` ones."""
    return Alone(
        items,
        (Block(0),) * blocks,
        rounds,
        60.0,
        "X",
        "Y",
        lambda n: LINE * min(n + more, rounds),
        lambda n: LINE * (n - late),
        lambda k: pytest.fail("nothing is emitted"),
    )


def share(items, rounds, cores=1, bias=False, ring=4, **how):
    tensors = {"X": Tensor((items, rounds, LINE // 4)), "W": Tensor((items, 9))}
    if bias:
        tensors["b"] = Tensor((items,))
    tensors["Y"] = Tensor((items, rounds, LINE // 4), "out")
    return Share(alone(items, rounds, **how), tensors, cores, ring)


class Played:
    """A core's part of L1: of every byte what it is, tensor, item and byte."""

    def __init__(self, of):
        self.of, self.l1 = of, np.zeros(of.block, "i8")
        self.left = {}

    def tags(self, copied):
        number = list(self.of.tensors).index(copied.name) + 1
        start = copied.item * self.of.size(copied.name) + copied.first
        return (number << 40) + np.arange(start, start + copied.size)

    def part(self, copied):
        start = self.of.place(copied.name, copied.item) + copied.first
        assert 0 <= start < start + copied.size <= self.of.block
        return slice(start, start + copied.size)

    def begin(self, copied):
        """A copy starts: what comes is not there yet; what goes is."""
        if copied.name == "Y":
            assert np.array_equal(self.l1[self.part(copied)], self.tags(copied)), copied
        else:
            self.l1[self.part(copied)] = -1

    def end(self, copied):
        """It ends: what comes is there; what goes has not changed, and goes once."""
        if copied.name != "Y":
            self.l1[self.part(copied)] = self.tags(copied)
            return
        self.begin(copied)
        for tag in self.tags(copied).tolist():
            assert self.left.setdefault(tag, copied) is copied

    def compute(self, item, block, done, rounds):
        """What rounds read is there; those of the last block write their lines."""
        a, of = self.of.alone, self.of
        whole = [Copied(name, item, 0, of.size(name)) for name in of.others]
        for read in [*whole, Copied("X", item, 0, a.read(done + rounds))]:
            assert np.array_equal(self.l1[self.part(read)], self.tags(read)), read
        first = max(a.written(done), 0)
        last = of.size("Y") if done + rounds == a.rounds else a.written(done + rounds)
        if block < len(a.blocks) - 1:
            self.l1[self.part(Copied("Y", item, 0, of.size("Y")))] = -1
        elif last > first:
            wrote = Copied("Y", item, first, last - first)
            self.l1[self.part(wrote)] = self.tags(wrote)


def play(of):
    played, done, order = Played(of), 0, []
    for copied in of.opening:
        played.begin(copied)
        played.end(copied)
    for stop in of.stops:
        part = stop.part
        if stop.copied:
            played.begin(stop.copied)
        done = 0 if part.begins else done
        assert part.rounds > 0
        played.compute(stop.item, part.block, done, part.rounds)
        done += part.rounds
        assert part.ends == (done == of.alone.rounds)
        if stop.copied:
            played.end(stop.copied)
        order += [(stop.item, part.block)] * part.begins
    played.begin(of.ending)
    played.end(of.ending)
    assert order == list(product(range(of.items), range(len(of.alone.blocks))))
    assert len(played.left) == of.items * of.size("Y")


@pytest.mark.parametrize("items", [*range(2, 12), 33])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"late": 1},
        {"more": 2, "bias": True},
        {"ring": 2, "late": 1},
        {"ring": 2, "more": 1, "blocks": 2},
        {"ring": 2, "late": 1, "blocks": 5},
    ],
    ids=str,
)
@pytest.mark.sampled
def test_all_is_there_when_it_is_read_and_leaves_once(items, how):
    for rounds in (12, 13, 25, 40, 97):
        play(share(items, rounds, **how))


class Hasty(Share):
    """With less than the first rounds read."""

    @property
    def opening(self):
        *whole, first = super().opening
        return [*whole, replace(first, size=first.size - 4)]


class Greedy(Share):
    """With too few slots."""

    def slots(self, name):
        return min(super().slots(name), 2)


def test_playing_finds_what_is_read_too_early_and_what_is_overwritten():
    of = share(8, 25)
    play(of)
    with pytest.raises(AssertionError, match="Copied"):
        play(Hasty(**vars(of)))
    with pytest.raises(AssertionError, match="Copied"):
        play(Greedy(**vars(of)))


def found(of, chip=PULP, tile=None, buffers=2):
    k = new_kernel(chip)
    tiling = Tiling((), {}, lambda *_: None, alone=lambda: of.alone)
    return share_of(k, Team(k, of.cores), tiling, of.tensors, tile or {}, buffers)


def test_cores_work_alone_where_their_items_are_equal_several_and_slower_than_copies():
    assert found(share(64, 25, 8)).items == 8
    assert found(share(63, 25, 8)) is None
    assert found(share(8, 25, 8)) is None
    assert found(share(64, 11, 8)) is None
    assert found(share(64, 25, 8), tile={"g": 16}) is None
    assert found(share(64, 25, 8), buffers=1) is None
    assert found(share(64, 25, 8), load_chip("pulp-cv32e40p")) is None
    assert found(share(64, 25, 16), load_chip("pulp", {"cores": 16})) is None
    fast = share(64, 25, 8)
    assert found(replace(fast, alone=replace(fast.alone, cycles=20.0))) is None
    assert [found(share(64, rounds, 8)).ring for rounds in (40, 44, 80)] == [4, 2, 2]
    assert found(share(64, 90, 8)) is None  # L1 has no room
    assert found(share(64, 25, 8, blocks=2)).ring == 2


DEEP = {"height": 25, "width": 5, "kernel": 3, "padding": 1}
SHAPES = (
    ("fw ig", 8, DEEP | {"inputs": 64}),
    ("fw ig", 8, DEEP | {"inputs": 16, "bias": True}),
    ("fw ig", 1, DEEP | {"inputs": 3, "width": 6}),
    ("fw ig", 3, DEEP | {"inputs": 15, "padding": (1, 0, 1, 1), "bias": True}),
    ("fw ig", 5, DEEP | {"inputs": 20, "padding": (0, 1, 2, 0)}),
    ("fw", 4, DEEP | {"inputs": 12, "stride": (2, 1), "padding": (0, 0, 1, 1)}),
    ("fw ig", 7, DEEP | {"inputs": 21, "dilation": (1, 2), "padding": (1, 1, 2, 2)}),
    (
        "fw ig",
        2,
        {"inputs": 8, "height": 16, "width": 8, "kernel": (2, 3), "padding": (0, 0, 1, 1)},
    ),
    ("fw ig", 6, {"inputs": 12, "height": 12, "width": 8, "kernel": 3, "padding": 1}),
    ("fw ig", 8, DEEP | {"inputs": 24, "height": 60, "width": 6}),
    ("fw ig", 8, DEEP | {"inputs": 32, "width": 10, "bias": True}),
    ("fw ig", 2, DEEP | {"inputs": 8, "height": 30, "width": 16}),
    ("fw ig", 3, DEEP | {"inputs": 9, "height": 30, "width": 24, "padding": 0, "bias": True}),
)


def columns(alone):
    """Of a block, if it is not the last of several, which may have fewer."""
    line = alone.written(3) - alone.written(2)
    return (alone.blocks[1].result if len(alone.blocks) > 1 else line) // WORD


def both_ways(kernel, point, shares, chip=PULP):
    """Run it; if cores work alone in it, by tiles of given sizes, too: for the same bits."""
    outputs, report = launch(kernel, point | {"tile": {}}, chip, guard=64, max_cycles=2_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.is_correct
    assert report.stray_writes == []
    if shares[-1] is None:
        return
    by_tiles = point | {"tile": {"n": 1}, "buffers": 1}
    if kernel.endswith("f32"):
        by_tiles |= {"cols": columns(shares[-1].alone), "is_turned": False}
    cut, _ = launch(kernel, by_tiles, chip)
    assert {n: v.tobytes() for n, v in outputs.items()} == {n: v.tobytes() for n, v in cut.items()}


@pytest.fixture
def shares(monkeypatch):
    """The shares that programs are built with."""
    seen = []

    def spy(*arguments):
        seen.append(share_of(*arguments))
        return seen[-1]

    monkeypatch.setattr(tile_loop, "share_of", spy)
    return seen


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize(("alone_in", "cores", "shape"), SHAPES, ids=str)
@pytest.mark.sampled
def test_channels_that_a_core_computes_alone_are_those_of_tiles_bit_for_bit(
    step, alone_in, cores, shape, shares
):
    point = shape | {"cores": cores, "warm": cores % 2 == 0}
    if step == "ig":
        point.pop("bias", None)
    both_ways(f"dwconv2d_{step}_f32", point, shares)
    assert [share is not None for share in shares] == (
        [True, False] if step in alone_in else [False]
    )


IN_HALVES = (
    ("fw ig", 8, DEEP | {"inputs": 64}),
    ("fw ig", 4, DEEP | {"inputs": 12, "bias": True}),
    ("", 4, DEEP | {"inputs": 12, "bias": True, "height": 12, "width": 4}),
    ("fw ig", 3, DEEP | {"inputs": 9, "width": 11, "height": 17, "padding": (1, 2, 1, 1)}),
    ("fw ig", 1, DEEP | {"inputs": 3, "width": 6, "padding": (0, 0, 1, 1)}),
    ("fw ig", 2, {"inputs": 4, "height": 20, "width": 7, "kernel": (2, 3), "padding": 1}),
    ("", 2, DEEP | {"inputs": 4, "stride": 2}),
    *(("fw ig", 2, DEEP | {"inputs": 4, "width": n, "height": 16 + n}) for n in (2, 3, 4)),
    ("fw ig", 3, DEEP | {"inputs": 9, "height": 24, "padding": (1, 0, 0, 1), "bias": True}),
    ("fw ig", 3, DEEP | {"inputs": 9, "height": 18, "padding": (1, 2, 1, 2)}),
    ("fw ig", 2, DEEP | {"inputs": 8, "width": 3, "kernel": (4, 2), "padding": (2, 1, 1, 0)}),
)


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize(("alone_in", "cores", "shape"), IN_HALVES, ids=str)
@pytest.mark.sampled
def test_so_are_those_in_halves(step, alone_in, cores, shape, shares):
    point = shape | {"cores": cores, "warm": cores % 2 == 0}
    if step == "ig":
        point.pop("bias", None)
    both_ways(f"dwconv2d_{step}_{'f16' if cores % 2 else 'bf16'}", point, shares)
    assert (shares[0] is not None) == (step in alone_in)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("bias", [False, True])
def test_in_halves_zeros_keep_their_signs_and_what_is_not_finite_its_place(element, bias, shares):
    point = DEEP | {"inputs": 4, "cores": 2, "bias": bias}
    inputs = dict(program(f"dwconv2d_fw_{element}", point).inputs)
    for name in inputs:
        signs = np.sign(inputs[name].astype(np.float32))
        inputs[name] = (0 * signs).astype(inputs[name].dtype)
    inputs["X"][0, 0], inputs["W"][0], inputs["W"][2:] = 0, -1, 1  # sums of channel 0 are -0
    inputs["X"][0, 3, [0, 7, 24], [0, 4, 2]] = np.inf
    found, cut = (
        launch(f"dwconv2d_fw_{element}", point | how, inputs=inputs)[0]["Y"][0]
        for how in ({"tile": {}}, {"tile": {"n": 1}, "buffers": 1})
    )
    assert shares[0] is not None
    assert shares[-1] is None
    values = found.astype(np.float32)
    assert np.signbit(values[:2]).any() == (not bias)
    assert np.isinf(values[3]).sum() > 9
    assert np.isfinite(values[2]).all()
    assert found.tobytes() == cut.tobytes()


@pytest.mark.parametrize("chip", ["ri5cy-f", "cv32e40p-x"])
def test_they_are_so_on_other_cores(chip, shares):
    both_ways("dwconv2d_fw_f32", DEEP | {"inputs": 16, "bias": True}, shares, CHIPS[chip])
    assert (shares[0] is None) == (chip == "cv32e40p-x")


def test_any_number_of_cores_gives_the_same(shares):
    for cores in range(1, 9):
        both_ways("dwconv2d_fw_f32", DEEP | {"inputs": 2 * cores, "cores": cores}, shares)
    assert len(shares) == 16


def test_eight_cores_take_an_eighth_of_the_time_of_one():
    """At least 0.93 of the speed that eight cores would have that wait for nothing.

    NOTE: of 25 lines, what all cores copy takes nearly as long as what they compute.
    """
    shape = DEEP | {"inputs": 64, "height": 60, "warm": True}
    cycles = [
        launch("dwconv2d_fw_f32", shape | {"cores": n, "tile": tile})
        for n, tile in ((8, {}), (1, {}), (1, {"g": 6}))
    ]
    eight, *ones = (report.cycles for _, report in cycles)
    assert min(ones) / 8 / eight >= 0.93


def test_shapes_of_all_kinds_are_right_whether_cores_work_alone_or_not(request, shares):
    numbers = random.Random(7)
    for _ in range(200 if request.config.getoption("--full") else 10):
        cores = numbers.randint(1, 8)
        shape = {
            "inputs": cores * numbers.randint(1, 6),
            "height": numbers.randint(12, 40),
            "width": numbers.randint(4, 20),
            "kernel": (numbers.randint(1, 4), numbers.randint(1, 4)),
            "stride": (numbers.choice((1, 1, 2)), numbers.choice((1, 1, 2))),
            "padding": tuple(numbers.choice((0, 0, 1, 1, 2)) for _ in range(4)),
            "bias": numbers.random() < 0.5,
            "cores": cores,
        }
        both_ways(f"dwconv2d_fw_{numbers.choice(('f32', 'f32', 'bf16'))}", shape, shares)
    assert any(shares)
