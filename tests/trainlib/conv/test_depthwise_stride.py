"""Gradients of the images of depthwise convolutions with a stride: lines computed together."""

import pytest

from tests.trainlib.primitives import check
from trainlib.launch import launch

SQUARE = {"kernel": 3, "padding": 1, "stride": 2}
SHAPES = (
    {"inputs": 8, "height": 13, "width": 17, **SQUARE},
    {"inputs": 9, "height": 6, "width": 6, **SQUARE},
    {"inputs": 16, "height": 48, "width": 40, **SQUARE},
    {"inputs": 8, "height": 9, "width": 20, **SQUARE, "tile": {"y": 4}},
    {"inputs": 8, "height": 11, "width": 8, "kernel": 2, "stride": 2},
    {"inputs": 8, "height": 10, "width": 10, "kernel": 3, "stride": 3, "padding": (0, 1, 2, 0)},
    {"inputs": 8, "height": 10, "width": 10, "kernel": (3, 1), "stride": (2, 1)},
    {"inputs": 8, "height": 10, "width": 12, "kernel": 3, "stride": (1, 2), "tile": {}},
    {"inputs": 4, "height": 12, "width": 12, **SQUARE, "batch": 3},
    {"inputs": 2, "height": 12, "width": 12, **SQUARE, "multiplier": 2},
    {"inputs": 8, "height": 9, "width": 9, **SQUARE, "dilation": 2},
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lines_of_every_shape_are_right(shape):
    check("dwconv2d_ig_f32", shape)


@pytest.mark.parametrize("accumulate", [False, True])
def test_sums_may_start_with_what_there_is(accumulate):
    shape = {"inputs": 8, "height": 9, "width": 12, **SQUARE, "accumulate": accumulate}
    check("dwconv2d_ig_f32", shape)


def test_a_transposed_convolution_adds_its_bias_to_lines_that_read_nothing():
    shape = {"inputs": 8, "outputs": 8, "groups": 8, "height": 6, "width": 7, "bias": True}
    check("tconv2d_fw_f32", shape | {"kernel": 1, "stride": 2, "output_padding": (1, 1)})
    check("tconv2d_fw_f32", shape | SQUARE)


def test_a_gradient_takes_as_long_as_the_way_forward():
    layer = {"inputs": 32, "height": 24, "width": 24, "warm": True, **SQUARE}
    forward, gradient = (launch(f"dwconv2d_{step}_f32", layer)[1] for step in ("fw", "ig"))
    assert gradient.is_correct
    assert gradient.cycles <= 1.02 * forward.cycles
