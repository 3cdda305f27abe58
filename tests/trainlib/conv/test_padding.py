"""Weights and gradients that are no finite numbers, where they meet the padding of an image."""

import numpy as np
import pytest

from trainlib.launch import checked, launch, program
from trainlib.registry import KERNELS

POINT = {"inputs": 1, "outputs": 1, "height": 1, "width": 4, "kernel": 3, "padding": 1}
VALUES = pytest.mark.parametrize("value", [np.nan, np.inf])


def outputs(method, value):
    family = KERNELS["conv2d_fw_f32"]
    arguments = POINT | {"method": method}
    inputs = family.random(family.arguments.model_validate(arguments))
    inputs["W"][0, 0, 0, 1] = value  # above the only line
    return inputs, launch("conv2d_fw_f32", arguments, inputs=inputs)[0]["Y"]


@VALUES
def test_columns_hold_the_zeros_and_give_what_torch_gives(value):
    torch = pytest.importorskip("torch")
    inputs, y = outputs("columns", value)
    x, w = (torch.tensor(inputs[name]).double() for name in ("X", "W"))
    assert np.isnan(torch.nn.functional.conv2d(x, w, padding=1).numpy()).all()
    assert np.isnan(y).all()


@VALUES
def test_what_is_computed_directly_leaves_zeros_out(value):
    inputs, y = outputs("direct", value)
    inputs["W"][0, 0, 0, 1] = 0
    assert y.tobytes() == launch("conv2d_fw_f32", POINT, inputs=inputs)[0]["Y"].tobytes()


SQUARE = {"height": 6, "width": 5, "kernel": 3, "padding": 1}
SPREADING = [
    ("conv2d_fw_f32", {"inputs": 2, "outputs": 3}, "W"),
    ("conv2d_wg_f32", {"inputs": 2, "outputs": 3}, "dY"),
    ("conv2d_wg_f32", {"inputs": 2, "outputs": 3, "stride": 2}, "dY"),
    ("conv2d_wg_f32", {"inputs": 2, "outputs": 3, "method": "columns"}, "dY"),
    ("conv2d_wg_f32", {"inputs": 2, "outputs": 3, "tile": {"y": 3}}, "dY"),
    ("conv2d_ig_f32", {"inputs": 2, "outputs": 3}, "dY"),
    ("conv2d_ig_f32", {"inputs": 2, "outputs": 3, "stride": 2, "method": "columns"}, "W"),
    ("dwconv2d_fw_f32", {"inputs": 3}, "W"),
    ("dwconv2d_wg_f32", {"inputs": 3}, "dY"),
    ("tconv2d_fw_f32", {"inputs": 2, "outputs": 3}, "X"),
    ("tconv2d_wg_f32", {"inputs": 2, "outputs": 3}, "X"),
]


@VALUES
@pytest.mark.parametrize(("kernel", "more", "name"), SPREADING)
@pytest.mark.sampled
def test_the_reference_knows_what_meets_padding(kernel, more, name, value):
    """By columns it is multiplied with zeros, as in PyTorch; directly, with nothing."""
    arguments = SQUARE | more
    inputs = {n: array.copy() for n, array in program(kernel, arguments).inputs.items()}
    for place in (0, inputs[name].size // 2):
        inputs[name].flat[place] = value
        _, report = launch(kernel, arguments, inputs=inputs)
        assert report.is_correct
        inputs[name].flat[place] = 1


ALONE = {"height": 1, "width": 11, "kernel": 3, "stride": (2, 4), "padding": (5, 0, 2, 6)}


@pytest.mark.parametrize("tile", [None, {}])
@pytest.mark.parametrize("half", ["f32", "f16"])
@pytest.mark.parametrize("step", ["fw", "ig", "wg"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_images_of_which_nothing_is_read_are_cut_as_others(step, half, tile):
    """The only line lies between those that the kernel reads."""
    for kernel, size in (("conv2d", {"inputs": 3, "outputs": 7}), ("dwconv2d", {"inputs": 3})):
        name, point = f"{kernel}_{step}_{half}", ALONE | size | {"tile": tile}
        assert checked(name, point).shape.ys.reads == 0
        _, report = launch(name, point)
        assert report.is_correct


def test_gradients_of_weights_whose_first_taps_read_nothing():
    """They are a block of sums of their own, which has no pointers."""
    wide = {"height": 7, "width": 7, "kernel": (1, 4), "dilation": 3, "padding": (0, 0, 10, 0)}
    lone = {"height": 1, "width": 3, "kernel": 3, "stride": 5, "dilation": 3}
    far = {"padding": (7, 3, 8, 0), "layout": "hwc", "tile": {"co": 1, "ci": 8, "y": 1, "x": 1}}
    for name, point in (
        ("tconv2d_wg_f32", wide | {"inputs": 11, "bias": True}),
        ("conv2d_wg_f32", lone | far | {"inputs": 9, "buffers": 1}),
    ):
        _, report = launch(name, point | {"outputs": 11})
        assert report.is_correct
