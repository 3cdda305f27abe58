"""Gradients of convolutions that are added to their weights at once: tiles, methods, bits."""

import re

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.trainlib.primitives import check
from trainlib.elementwise.fused_update import momentum_of
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
@pytest.mark.sampled
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


LEARNT = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.5, "nesterov": True, "weight_decay": 0.01},
    "decay": {"weight_decay": 0.1},
}
LINEAR = {"inputs": 40, "outputs": 30}
OF_LINEAR = {
    "linear": ("linear", LINEAR | {"bias": True}),
    "linear tiles": ("linear", LINEAR | {"batch": 4, "tile": {"co": 7, "n": 3}, "buffers": 2}),
}


@pytest.mark.parametrize("how", LEARNT)
@pytest.mark.parametrize("name", ["lines", "multiplier", "pointwise", *OF_LINEAR])
@pytest.mark.sampled
def test_momentum_and_decay_are_those_of_a_pass_of_its_own_bit_for_bit(name, how):
    kernel, point = (POINTS | OF_LINEAR)[name]
    family, learnt = family_of(f"{kernel}_wg_f32"), LEARNT[how]
    scaled = point | learnt | {"scale": "operand"}
    values = family.random(checked(family.name, scaled))
    stepped, report = launch(family.name, scaled, inputs=values, guard=16)
    assert report.is_correct
    assert report.stray_writes == []
    gradients, _ = launch(family.name, point, inputs={n: values[n] for n in ("X", "dY")})
    for result, gradient in gradients.items():
        operands = {"w": values[result], "g": gradient, "lr": -values["scale"]}
        names = {"w": result}
        if "momentum" in learnt:
            names["b"] = momentum_of(result)
            operands["b"] = values[names["b"]]
        shape = {"shape": gradient.shape, "lr": "operand", **learnt}
        optimizer = "sgd_momentum_f32" if "momentum" in learnt else "sgd_f32"
        wanted, _ = launch(optimizer, shape, inputs=operands)
        for operand, own in names.items():
            np.testing.assert_array_equal(stepped[own], wanted[operand])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"momentum": 0.9}, "momentum or weight_decay without scale; give -lr as scale"),
        (
            {"scale": 1.0, "nesterov": True},
            "nesterov without a momentum; it looks ahead along that",
        ),
    ],
)
def test_arguments_that_say_nothing_together_are_refused(how, message):
    with pytest.raises(KernelError, match=f"^linear_wg_f32: {re.escape(message)}$"):
        launch("linear_wg_f32", LINEAR | how)


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
