"""Gradients of weights whose lines are parts of cores, against PyTorch in float64."""

import pytest

from soc.chip.spec import load_chip
from tests.trainlib.cluster import CHIPS, WARM
from trainlib.conv.axis import Axis
from trainlib.conv.line_parts import line_parts, sums_of_parts
from trainlib.launch import checked, launch

FEW = {"inputs": 2, "outputs": 1, "height": 23, "width": 14, "kernel": 3}
DEEP = {"inputs": 3, "height": 21, "width": 14, "kernel": 3}
SHAPES = {
    "plain": ("conv2d", FEW),
    "padded": ("conv2d", FEW | {"padding": (3, 4, 1, 0)}),
    "strided": ("conv2d", FEW | {"height": 41, "stride": 2, "padding": 1}),
    "dilated": ("conv2d", FEW | {"dilation": (4, 2), "padding": (3, 2, 1, 1)}),
    "lines of taps beyond a part": ("conv2d", FEW | {"kernel": (9, 2), "padding": (8, 8, 0, 1)}),
    "one tap along y": ("conv2d", FEW | {"kernel": (1, 4)}),
    "a batch": ("conv2d", FEW | {"batch": 3, "bias": True}),
    "hwc": ("conv2d", FEW | {"layout": "hwc", "padding": 1}),
    "added": ("conv2d", FEW | {"accumulate": True, "bias": True, "batch": 2}),
    "groups": ("conv2d", FEW | {"outputs": 2, "groups": 2, "padding": 1}),
    "depthwise": ("dwconv2d", DEEP | {"padding": (1, 0, 1, 0)}),
    "more than one group a core": ("dwconv2d", DEEP | {"inputs": 9, "height": 30}),
    "transposed": ("tconv2d", FEW | {"stride": 2, "padding": 1, "bias": True}),
    "tiles": ("conv2d", FEW | {"tile": {"y": 9, "ci": 1}, "padding": 1}),
    "tiles of groups": ("dwconv2d", DEEP | {"inputs": 11, "tile": {"g": 8, "y": 12}}),
}


def right(kind, shape, chip=WARM):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(f"{kind}_wg_f32", shape, chip, guard=64, max_cycles=5_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.stray_writes == []
    assert report.is_correct
    return report


def parts_of(kind, shape, cores):
    of = checked(f"{kind}_wg_f32", {n: v for n, v in shape.items() if n != "tile"}).shape
    per_group = of.outputs // of.groups, of.inputs // of.groups
    return line_parts(cores, of.groups, *per_group, of.ys, of.xs)


@pytest.mark.parametrize("name", SHAPES)
def test_parts_of_lines_add_up_to_the_gradient(name):
    kind, shape = SHAPES[name]
    assert parts_of(kind, shape, 8) > 1
    right(kind, shape)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cores", [2, 5])
def test_parts_of_lines_suit_every_cluster(chip, cores):
    right("conv2d", FEW | {"padding": 1, "cores": cores}, CHIPS[chip])
    right("dwconv2d", DEEP | {"padding": 1, "cores": cores}, CHIPS[chip])


def test_the_room_is_that_of_the_cores_that_a_chip_has():
    of = {"inputs": 1, "outputs": 5, "height": 6, "width": 13, "kernel": 7, "padding": (6, 8, 3, 3)}
    strided = {"stride": (4, 5), "dilation": (3, 1), "bias": True}
    four = of | {"outputs": 4}
    two = load_chip("pulp", {"icache.kind": "ideal", "cores": 2})
    parts = [parts_of("tconv2d", s | strided, cores) for s in (of, four) for cores in (8, 2)]
    assert parts == [1, 2, 2, 1]
    right("tconv2d", of | strided | {"outputs": 9, "tile": {"ci": 5}, "buffers": 1}, two)


def test_cores_that_share_no_row_share_lines():
    of = {"inputs": 2, "outputs": 2, "height": 50, "width": 50, "kernel": 3}
    alone = right("conv2d", of | {"split": (2, 2)}).cycles
    assert right("conv2d", of).cycles < 0.55 * alone


def test_rows_that_suffice_have_all_lines():
    ys, xs = Axis(16, 16, 3, pad=1), Axis(16, 16, 3, pad=1)
    assert line_parts(8, 1, 16, 16, ys, xs) == 1
    assert sums_of_parts(8, (1, 1), (16, 16), (16, 16), ys, xs) == 0


def test_the_room_for_parts_is_that_of_the_tile_that_has_most():
    ys, xs = Axis(32, 32, 3, pad=1), Axis(32, 32, 3, pad=1)
    assert line_parts(8, 1, 8, 8, ys, xs) == 1
    parts = line_parts(8, 1, 8, 1, ys, xs)
    assert parts > 1
    assert sums_of_parts(8, (1, 1), (8, 8), (8, 9), ys, xs) == parts * 8 * 9 * 4


def test_a_tile_at_an_end_of_lines_that_are_cut_has_room_for_its_parts():
    """The last tile has one channel, of which a tile's lines have more parts than all."""
    of = {"inputs": 13, "outputs": 4, "height": 39, "width": 4, "kernel": 3, "padding": 2}
    right("conv2d", of | {"tile": {"co": 4, "ci": 4, "y": 21, "x": 6}})
