"""Gradients of the images of depthwise convolutions with a stride: lines computed together."""

import pytest

from tests.trainlib.primitives import check
from trainlib.launch import launch

SQUARE = {"kernel": 3, "padding": 1, "stride": 2}
WIDE = {"kernel": 5, "padding": 2, "stride": 2}
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


@pytest.mark.parametrize(
    "shape",
    [
        {"inputs": 8, "height": 14, "width": 17, **WIDE},
        {"inputs": 9, "height": 23, "width": 12, **WIDE, "batch": 2},
        {"inputs": 3, "height": 20, "width": 9, **WIDE, "padding": (0, 1, 4, 2)},
        {"inputs": 16, "height": 21, "width": 15, **WIDE, "stride": 3},
        {"inputs": 16, "height": 15, "width": 20, **WIDE, "padding": 4, "accumulate": True},
        {"inputs": 24, "height": 33, "width": 21, **WIDE, "tile": {"y": 9, "g": 8}},
        {"inputs": 8, "height": 16, "width": 40, **WIDE, "kernel": (7, 3)},
    ],
    ids=str,
)
def test_lines_that_read_through_the_same_taps_are_computed_one_after_the_other(shape):
    check("dwconv2d_ig_f32", shape)


def test_phases_may_begin_with_a_bias():
    shape = {"inputs": 8, "outputs": 8, "groups": 8, "height": 12, "width": 11, "bias": True}
    check("tconv2d_fw_f32", shape | WIDE)


def test_lines_apart_keep_all_their_weights_in_registers():
    layer = {"inputs": 16, "height": 24, "width": 24, "warm": True, **WIDE}
    together = launch("dwconv2d_ig_f32", layer | {"is_turned": False})[1]
    apart = launch("dwconv2d_ig_f32", layer)[1]
    assert apart.is_correct
    assert apart.cycles < 0.65 * together.cycles


def test_a_gradient_takes_as_long_as_the_way_forward():
    layer = {"inputs": 32, "height": 24, "width": 24, "warm": True, **SQUARE}
    forward, gradient = (launch(f"dwconv2d_{step}_f32", layer)[1] for step in ("fw", "ig"))
    assert gradient.is_correct
    assert gradient.cycles <= 1.02 * forward.cycles
