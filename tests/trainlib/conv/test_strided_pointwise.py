"""Convolutions of 1 x 1 with a stride from L2: products of the lines that are read."""

import pytest

from soc.chip.spec import load_chip
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
    HALVED | {"groups": 4, "layout": "hwc", "batch": 2, "tile": {"y": 3}},
    HALVED | {"groups": 4, "accumulate": True, "tile": {"g": 2}},
    HALVED | {"outputs": 1, "tile": {"y": 1}},
    HALVED | {"height": 17, "width": 45, "tile": {"co": 4, "y": 3, "x": 7}},
    HALVED | {"stride": (4, 3), "height": 9, "width": 7, "tile": {"y": 1}},
)


@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lines_that_are_read_are_enough(step, shape):
    check(f"conv2d_{step}_f32", {"tile": {}} | shape)


@pytest.mark.parametrize("step", ["fw", "ig", "wg"])
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions_read_lines_apart(step, bias):
    shape = HALVED | {"height": 7, "width": 9, "output_padding": (1, 0), "bias": bias, "tile": {}}
    check(f"tconv2d_{step}_f32", shape)


@pytest.mark.parametrize("l1_size", [0x8000, 0x80000], ids=["L2", "L1"])
def test_layers_of_a_network_share_all_lines(l1_size):
    layers = [{"kind": "conv2d", "outputs": 6, "kernel": 3, "bias": True}]
    layers += [{"kind": "conv2d", "outputs": 4, "kernel": 1, "stride": 2}, {"kind": "tanh"}]
    point = {"input": (2, 21, 20), "batch": 2, "lr": 0.05, "steps": 2, "layers": layers}
    report = launch("train_f32", point, load_chip("pulp", {"l1.size": l1_size}))[1]
    assert report.is_correct


def test_lines_of_zeros_cost_a_copy_alone():
    layer = {"inputs": 32, "outputs": 24, "height": 24, "width": 24, "kernel": 1, "tile": {}}
    halved, whole = (launch("conv2d_ig_f32", layer | {"stride": s})[1] for s in ((2, 1), 1))
    assert halved.is_correct
    assert halved.cycles < 0.65 * whole.cycles


def test_lines_between_stay_in_l2():
    layer = {"inputs": 32, "outputs": 8, "height": 32, "width": 32, "kernel": 1, "tile": {}}
    halved, all_read = (launch("conv2d_fw_f32", layer | {"stride": s})[1] for s in ((2, 1), 1))
    assert halved.is_correct
    assert halved.cycles < 0.6 * all_read.cycles


@pytest.mark.parametrize("step", ["fw", "wg"])
@pytest.mark.parametrize("more", [{}, {"batch": 2}, {"stride": (3, 2)}, {"tile": {"g": 5, "y": 4}}])
def test_depthwise_layers_read_lines_apart(step, more):
    layer = {"inputs": 13, "height": 17, "width": 12, "kernel": 1, "stride": 2, "tile": {}}
    check(f"dwconv2d_{step}_f32", layer | more)


def test_lines_between_stay_in_l2_of_depthwise_layers():
    layer = {"inputs": 24, "height": 31, "width": 13, "kernel": 1, "tile": {}}
    halved, all_read = (launch("dwconv2d_wg_f32", layer | {"stride": s})[1] for s in ((2, 1), 1))
    assert halved.is_correct
    assert halved.cycles < 0.7 * all_read.cycles
