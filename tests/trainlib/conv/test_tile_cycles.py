"""Estimates of tiles' code by its schedules: near what is chosen, and tiles that are fast."""

import pytest

from autotuner.measure import layer_cycles
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.conv.correlation_schedule import choose, cycles, fewest
from trainlib.launch import launch

FREE = dict.fromkeys(("rows", "cols", "split", "is_turned"))


def correlation(groups, rows, channels, height, width, taps, pad):
    x = Images(0, channels * height * width * 4, height * width * 4, width * 4, 4)
    size = taps * taps * 4
    w = Weights(0, rows * channels * size, channels * size, size, taps * 4, 4)
    ys, xs = (Axis(n + 2 * pad - taps + 1, n, taps, pad=pad) for n in (height, width))
    y = Images(0, 0, ys.outputs * xs.outputs * 4, xs.outputs * 4, 4)
    return Correlation(groups, rows, channels, ys, xs, x, w, y)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 16, 8, 16, 3, 1),
        (1, 64, 8, 8, 8, 3, 1),
        (1, 3, 17, 33, 9, 5, 0),
        (1, 53, 33, 4, 6, 5, 4),
        (16, 1, 1, 25, 5, 3, 1),
        (4, 3, 2, 12, 12, 3, 0),
    ],
)
@pytest.mark.parametrize("may_be_even", [False, True])
def test_the_fewest_cycles_are_nearly_those_of_what_is_chosen(shape, may_be_even):
    x = correlation(*shape)
    chosen = cycles(x, choose("f", x, 8, FREE, may_be_even=may_be_even))
    assert fewest(x, 8, may_be_even=may_be_even).cycles == pytest.approx(chosen, rel=0.12)


@pytest.mark.parametrize(
    ("kernel", "shape", "most"),
    [
        ("conv2d_fw_f32", {"inputs": 33, "outputs": 53, "height": 4, "width": 6}
         | {"kernel": 5, "padding": 4}, 207_119),
        ("dwconv2d_ig_f32", {"inputs": 39, "height": 4, "width": 40, "kernel": 3, "padding": 2},
         16_370),
        ("dwconv2d_ig_f32", {"inputs": 17, "height": 18, "width": 41, "kernel": 5, "padding": 2},
         66_871),
        ("conv2d_fw_f32", {"inputs": 41, "outputs": 6, "height": 18, "width": 18, "stride": 2}
         | {"kernel": 3, "padding": 1}, 42_000),
        ("conv2d_fw_f32", {"inputs": 51, "outputs": 15, "height": 4, "width": 6}
         | {"kernel": 5, "padding": 2}, 52_400),
        ("dwconv2d_fw_f32", {"inputs": 14, "height": 6, "width": 39, "kernel": 3, "padding": 1},
         7_314),
        ("dwconv2d_fw_f32", {"inputs": 18, "height": 8, "width": 22, "kernel": 3}, 7_149),
        ("dwconv2d_ig_f32", {"inputs": 20, "height": 16, "width": 17, "kernel": 5, "padding": 3},
         33_581),
        ("dwconv2d_wg_f32", {"inputs": 4, "height": 46, "width": 44, "kernel": 2}, 16_827),
        ("dwconv2d_wg_f32", {"inputs": 3, "height": 60, "width": 60, "kernel": 5, "padding": 2},
         75_206),
        ("conv2d_fw_f32", {"inputs": 38, "outputs": 4, "height": 10, "width": 28, "kernel": 1},
         11_430),
        ("conv2d_ig_f32", {"inputs": 13, "outputs": 35, "height": 10, "width": 21, "kernel": 1},
         22_920),
        ("conv2d_wg_f32", {"inputs": 14, "outputs": 35, "height": 19, "width": 4, "kernel": 2}
         | {"stride": 2}, 10_160),
        ("tconv2d_wg_f32", {"inputs": 5, "outputs": 5, "height": 34, "width": 25, "kernel": 3}
         | {"padding": 1, "stride": 2}, 44_340),
        ("conv2d_wg_f32", {"inputs": 52, "outputs": 20, "height": 7, "width": 7, "kernel": 1},
         12_030),
        ("conv2d_ig_f32", {"inputs": 14, "outputs": 5, "height": 22, "width": 4, "kernel": 3}
         | {"padding": 1}, 11_420),
    ],
)  # fmt: skip
def test_tiles_are_chosen_by_what_their_code_takes(kernel, shape, most):
    _, report = launch(kernel, shape | {"tile": {}})
    assert report.is_correct
    assert layer_cycles(report.result) <= most


def test_cores_that_share_lines_take_as_long_as_the_one_that_has_most():
    shape = {"inputs": 7, "height": 35, "width": 38, "kernel": 3, "padding": 1, "stride": 2}
    _, report = launch("dwconv2d_fw_f32", shape | {"warm": True})
    assert report.is_correct
    assert report.cycles <= 6_202
