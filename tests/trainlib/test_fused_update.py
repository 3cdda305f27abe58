"""Gradients of convolutions that are added to their weights at once: tiles, methods, bits."""

import re

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.trainlib.primitives import check
from trainlib.launch import checked, launch
from trainlib.registry import family_of

MAP = {"height": 6, "width": 5, "inputs": 4, "padding": 1}
FULL = MAP | {"outputs": 6, "kernel": 3}
POINTS = {
    "whole": ("conv2d", FULL),
    "images": ("conv2d", FULL | {"batch": 2, "bias": True}),
    "lines": ("conv2d", FULL | {"tile": {"y": 2, "co": 4}, "buffers": 2}),
    "bias of tiles": ("conv2d", FULL | {"tile": {"y": 4, "co": 3}, "bias": True}),
    "columns": ("conv2d", FULL | {"method": "columns", "tile": {"y": 2, "ci": 2}}),
    "columns by dma": ("conv2d", FULL | {"method": "columns_by_dma", "tile": {"y": 3}}),
    "groups": ("conv2d", FULL | {"groups": 2, "tile": {"g": 1, "y": 5}}),
    "multiplier": ("dwconv2d", MAP | {"kernel": 3, "multiplier": 2, "tile": {"g": 2, "y": 3}}),
    "depthwise": ("dwconv2d", MAP | {"kernel": 3, "bias": True}),
    "pointwise": ("pwconv2d", {"height": 6, "width": 5, "inputs": 4, "outputs": 9, "bias": True}),
    "places": (
        "pwconv2d",
        {"height": 6, "width": 5, "inputs": 8, "outputs": 9, "tile": {"y": 4, "co": 5, "ci": 3}},
    ),
}


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("scale", [-1e-3, "operand"])
def test_a_gradient_is_scaled_and_added_once(name, scale):
    kernel, point = POINTS[name]
    if "tile" not in point:
        check(f"{kernel}_wg_f32", point | {"scale": scale})
        return
    _, report = launch(f"{kernel}_wg_f32", point | {"scale": scale}, guard=16)
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize("name", ["lines", "multiplier", "pointwise"])
def test_it_is_a_step_of_sgd_bit_for_bit(name):
    kernel, point = POINTS[name]
    family = family_of(f"{kernel}_wg_f32")
    values = family.random(checked(family.name, point | {"scale": 1.0}))
    stepped, _ = launch(family.name, point | {"scale": -0.01}, inputs=values)
    read = {n: values[n] for n in ("X", "dY")}
    gradients, _ = launch(family.name, point, inputs=read)
    for result, gradient in gradients.items():
        operands = {"w": values[result], "g": gradient}
        shape = {"shape": gradient.shape, "lr": 0.01}
        wanted, _ = launch("sgd_f32", shape, inputs=operands)
        np.testing.assert_array_equal(stepped[result], wanted["w"])


def test_scale_and_accumulate_are_not_taken_together():
    message = "conv2d_wg_f32: accumulate and scale; scale adds, leave one out"
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        launch("conv2d_wg_f32", FULL | {"accumulate": True, "scale": 1.0})


def test_sums_that_no_tile_has_room_for_are_refused():
    chip = load_chip("pulp", {"l1.size": 0x4000})
    point = {"height": 4, "width": 4, "inputs": 64, "groups": 2, "outputs": 64, "kernel": 7}
    message = "conv2d_wg_f32: scale, where no tile of all of it fits L1; leave it"
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        launch("conv2d_wg_f32", point | {"scale": 1.0, "padding": 3}, chip)
