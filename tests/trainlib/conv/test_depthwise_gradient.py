"""Gradients of the weights of one channel each: several lines of taps in a block of sums."""

import pytest

from autotuner.measure import layer_cycles
from tests.trainlib.cluster import CHIPS
from tests.trainlib.primitives import check
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Images, Weights
from trainlib.conv.weight_gradient_schedule import WeightGradient, choose_view
from trainlib.launch import launch

FREE = {"rows": None, "channels": None, "cols": None, "split": None, "is_turned": None}
SHAPES = (
    {"inputs": 3, "height": 9, "width": 8, "kernel": 2},
    {"inputs": 9, "height": 7, "width": 11, "kernel": 3},
    {"inputs": 11, "height": 14, "width": 9, "kernel": 5},
    {"inputs": 8, "height": 9, "width": 7, "kernel": (3, 2), "padding": (0, 0, 1, 0)},
    {"inputs": 8, "height": 9, "width": 7, "kernel": (2, 5), "padding": (1, 1, 0, 0)},
    {"inputs": 5, "height": 15, "width": 12, "kernel": 3, "stride": 2},
    {"inputs": 5, "height": 15, "width": 12, "kernel": (4, 3), "dilation": (2, 1)},
    {"inputs": 4, "height": 8, "width": 9, "kernel": 3, "multiplier": 2},
    {"inputs": 4, "height": 8, "width": 9, "kernel": 3, "batch": 3, "accumulate": True},
    {"inputs": 4, "height": 8, "width": 9, "kernel": 3, "layout": "hwc", "bias": True},
    {"inputs": 4, "height": 46, "width": 14, "kernel": 2, "tile": {}},
    {"inputs": 19, "height": 15, "width": 19, "kernel": 5, "tile": {"g": 8}},
    {"inputs": 24, "height": 16, "width": 20, "kernel": 3, "padding": 1},
    {"inputs": 24, "height": 17, "width": 20, "kernel": 3, "padding": (2, 1, 0, 2), "batch": 2},
    {"inputs": 17, "height": 24, "width": 18, "kernel": 3, "padding": 2, "layout": "hwc"},
    {"inputs": 9, "height": 21, "width": 23, "kernel": 3, "padding": 1, "stride": 2},
    {"inputs": 9, "height": 26, "width": 19, "kernel": (4, 2), "padding": 1, "accumulate": True},
    {"inputs": 16, "height": 40, "width": 20, "kernel": 3, "padding": 2, "dilation": 2},
    {"inputs": 2, "height": 40, "width": 25, "kernel": 3, "padding": 2},
    {"inputs": 3, "height": 41, "width": 30, "kernel": (2, 3), "padding": 1, "tile": {}},
    {"inputs": 12, "height": 31, "width": 20, "kernel": 3, "padding": 1, "tile": {"y": 9}},
    {"inputs": 2, "height": 14, "width": 22, "kernel": (2, 3), "padding": (2, 0, 0, 1), "cores": 4},
    {"inputs": 9, "height": 9, "width": 9, "kernel": 3, "cols": 4, "is_turned": True},
    {"inputs": 9, "height": 9, "width": 9, "kernel": 3, "split": (3, 1), "is_turned": False},
)


def gradient(pad):
    ys, xs = Axis(9 + 2 * pad, 11, 3, pad=pad), Axis(20, 22, 3)
    dy, x = Images(0x1000, 0, 0, 4 * 20, 4), Images(0x2000, 0, 0, 4 * 22, 4)
    return WeightGradient(1, 1, 1, ys, xs, dy, x, Weights(0x4000, 36, 36, 36, 12, 4))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_several_lines_of_taps_are_right(shape):
    check("dwconv2d_wg_f32", shape)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cores", [1, 3])
def test_they_are_on_every_cluster(chip, cores):
    shape = {"inputs": 3, "height": 9, "width": 8, "kernel": 3, "cores": cores}
    _, report = launch("dwconv2d_wg_f32", shape, CHIPS[chip], guard=64)
    assert report.is_correct
    assert report.stray_writes == []


def test_taps_are_channels_lines_at_the_borders_apart():
    even, padded = gradient(0), gradient(1)
    assert (even.deep.channels, even.deep.ys.taps) == (3, 1)
    assert even.deep.x.channel == even.x.line
    assert padded.deep.borders == ((0, range(1, 3)), (padded.ys.outputs - 1, range(2)))
    assert padded.deep.lines == padded.ys.outputs
    view, point = choose_view("wg", even, 1, FREE)
    assert view == even.deep
    assert point.channels > 1


def test_lines_at_the_borders_pay_where_there_are_many_others():
    shape = {"inputs": 24, "height": 16, "width": 29, "kernel": 3, "padding": 1, "tile": {}}
    assert layer_cycles(launch("dwconv2d_wg_f32", shape)[1].result) <= 24_500  # 26,570 without


def test_a_block_of_them_loads_fewer_gradients():
    shape = {"inputs": 26, "height": 15, "width": 19, "kernel": 5, "tile": {}}
    assert layer_cycles(launch("dwconv2d_wg_f32", shape)[1].result) <= 25_600


@pytest.mark.parametrize(
    ("shape", "most"),
    [({"inputs": 35, "height": 6, "width": 5, "padding": 3}, 7_100),
     ({"inputs": 27, "height": 15, "width": 6, "padding": 1}, 9_200)],
    ids=str,
)  # fmt: skip
def test_a_line_that_is_no_longer_than_a_body_is_one(shape, most):
    """7,506 and 9,971 cycles with bodies of their own at the borders."""
    _, report = launch("dwconv2d_wg_f32", shape | {"kernel": 5, "tile": {}})
    assert report.is_correct
    assert layer_cycles(report.result) <= most
