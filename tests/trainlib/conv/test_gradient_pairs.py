"""Gradients of few weights: cores have equal numbers of pairs of a row and a channel."""

from dataclasses import replace

import pytest

from tests.trainlib.cluster import CHIPS
from tests.trainlib.primitives import check
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Images, Weights
from trainlib.conv.line_parts import line_parts
from trainlib.conv.weight_gradient_schedule import WeightGradient, choose_view
from trainlib.launch import launch

FREE = dict.fromkeys(("rows", "channels", "cols", "split", "is_turned"))
SMALL = {"inputs": 5, "outputs": 3, "height": 7, "width": 7, "kernel": 3}
POINTS = {
    "corner": SMALL,
    "more than it needs": SMALL | {"layout": "hwc", "accumulate": True, "bias": True, "batch": 2},
    "a core": SMALL | {"cores": 1},
    "three cores": SMALL | {"cores": 3},
    "tall": {"inputs": 9, "outputs": 5, "height": 25, "width": 7, "kernel": 3},
    "wide": {"inputs": 10, "outputs": 3, "height": 9, "width": 30, "kernel": 3},
    "a channel": {"inputs": 1, "outputs": 10, "height": 20, "width": 20, "kernel": 3},
    "a row": {"inputs": 11, "outputs": 1, "height": 20, "width": 20, "kernel": 2, "stride": 2},
    "by tiles": {
        "inputs": 5,
        "outputs": 3,
        "height": 30,
        "width": 9,
        "kernel": 3,
        "tile": {"y": 9},
    },
}


@pytest.mark.parametrize("kernel", ["conv2d_wg_f32", "tconv2d_wg_f32"])
@pytest.mark.parametrize("name", POINTS)
def test_it_is_what_its_reference_says(kernel, name):
    check(kernel, POINTS[name])


@pytest.mark.parametrize("chip", CHIPS)
def test_it_is_on_every_cluster(chip):
    _, report = launch("conv2d_wg_f32", SMALL, CHIPS[chip], guard=64)
    assert report.is_correct
    assert report.stray_writes == []


def gradient(rows, channels, outputs=5, taps=3):
    """A gradient without padding."""
    axis, item = Axis(outputs, outputs + taps - 1, taps), 4
    size, source, kernel = outputs**2, axis.inputs**2, taps**2
    return WeightGradient(
        *(1, rows, channels, axis, axis),
        Images(0x10000000, item * rows * size, item * size, item * outputs, item),
        Images(0x10004000, item * channels * source, item * source, item * axis.inputs, item),
        Weights(
            *(0x10008000, item * rows * channels * kernel, item * channels * kernel),
            *(item * kernel, item * taps, item),
        ),
    )


def test_pairs_are_groups_in_the_order_of_rows():
    g = gradient(3, 5)
    assert (g.pairs.groups, g.pairs.rows, g.pairs.channels, g.pairs.of_row) == (15, 1, 1, 5)
    steps = g.pairs.dy.group, g.pairs.x.group, g.pairs.dw.group
    assert steps == (g.dy.channel, g.x.channel, g.dw.channel)
    one = gradient(7, 1).pairs
    assert (one.groups, one.of_row, one.x.group, one.dw.group) == (7, 0, 0, 36)
    assert gradient(1, 1).pairs == gradient(1, 1)


def test_cores_have_pairs_where_blocks_leave_some_without_work():
    view, point = choose_view("wg", gradient(3, 5), 8, FREE)
    assert view == gradient(3, 5).pairs.deep
    assert point.split == (8, 1)
    view, _ = choose_view("wg", gradient(8, 8), 8, FREE)
    assert view.groups == 1
    given = FREE | {"rows": 3}
    assert choose_view("wg", gradient(3, 5), 8, given)[0].groups == 1


def test_lines_are_parts_of_cores_where_pairs_are_no_better():
    few, axis = Axis(48, 50, 3), Axis(25, 27, 3)
    assert line_parts(8, 1, 5, 9, Axis(23, 25, 3), Axis(5, 7, 3)) == 1
    assert line_parts(8, 1, 2, 2, few, few) > 1
    padded = replace(axis, inputs=25, pad=1)
    assert line_parts(8, 1, 5, 9, padded, padded) > 1
