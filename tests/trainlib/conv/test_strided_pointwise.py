"""Convolutions of 1 x 1 with a stride from L2: products of the lines that are read."""

import pytest

from tests.trainlib.primitives import check
from trainlib.launch import launch

HALVED = {"inputs": 12, "outputs": 20, "height": 14, "width": 18, "kernel": 1, "stride": 2}
SHAPES = (
    HALVED,
    HALVED | {"height": 13, "width": 17},
    HALVED | {"stride": (2, 1)},
    HALVED | {"stride": (1, 2)},
    HALVED | {"stride": (3, 2)},
    HALVED | {"batch": 3},
    HALVED | {"bias": True},
    HALVED | {"accumulate": True},
    HALVED | {"padding": 1},
    HALVED | {"layout": "hwc"},
    HALVED | {"layout": "hwc", "batch": 2, "bias": True, "height": 15},
    HALVED | {"tile": {"y": 3, "x": 4}},
    HALVED | {"tile": {"y": 2, "ci": 4, "co": 8}},
    HALVED | {"layout": "hwc", "tile": {"y": 3, "x": 5, "ci": 4}},
    HALVED | {"inputs": 2, "outputs": 2},
    HALVED | {"groups": 2},
)


@pytest.mark.parametrize("step", ["fw", "wg"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lines_that_are_read_are_enough(step, shape):
    check(f"conv2d_{step}_f32", {"tile": {}} | shape)


@pytest.mark.parametrize("step", ["ig", "wg"])
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions_read_lines_apart(step, bias):
    shape = HALVED | {"height": 7, "width": 9, "output_padding": (1, 0), "bias": bias, "tile": {}}
    check(f"tconv2d_{step}_f32", shape)


def test_lines_between_stay_in_l2():
    layer = {"inputs": 32, "outputs": 8, "height": 32, "width": 32, "kernel": 1, "tile": {}}
    halved, all_read = (launch("conv2d_fw_f32", layer | {"stride": s})[1] for s in ((2, 1), 1))
    assert halved.is_correct
    assert halved.cycles < 0.6 * all_read.cycles
