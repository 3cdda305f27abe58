"""Convolutions of 1 x 1 in FP16 and bfloat16: bit for bit the reference's, however they are cut."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.gemm.test_halves import HALVES, check
from tests.trainlib.primitives import WARM
from trainlib.launch import launch, program

LAYER = {"inputs": 7, "outputs": 9, "height": 5, "width": 3}
WAYS = [
    {},
    {"accumulate": True},
    {"bias": True, "batch": 3},
    {"height": 1, "width": 1, "batch": 2},
    {"inputs": 1, "outputs": 2, "height": 1, "width": 2},
    {"tile": {"co": 3, "n": 1}, "batch": 2, "bias": True},
    {"tile": {"co": 4, "ci": 3}, "batch": 2},
    {"tile": {"y": 2, "n": 1}, "width": 4, "batch": 2, "accumulate": True},
]


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
@pytest.mark.sampled(4)
def test_the_steps_are_the_references(element, layout, step):
    for way in WAYS:
        is_uncut = layout == "hwc" and step == "fw" and "ci" in way.get("tile", {})
        if not (step == "ig" and "bias" in way) and not is_uncut:
            check(f"pwconv2d_{step}_{element.name}", LAYER | way | {"layout": layout})


def test_an_image_of_odd_lines_is_not_cut_where_places_are_summed_up_in_pairs():
    with pytest.raises(KernelError, match=r"^pwconv2d_wg_f16: tile.y = 2: no such dimension; "):
        program("pwconv2d_wg_f16", LAYER | {"tile": {"y": 2}})
    with pytest.raises(KernelError, match=r"^pwconv2d_wg_f16: tile.n = 2: a size is from 1 to 1"):
        program("pwconv2d_wg_f16", LAYER | {"batch": 2, "tile": {"n": 2}})


def test_a_start_and_a_bias_at_a_time_are_refused():
    with pytest.raises(KernelError, match=r"^pwconv2d_fw_bf16: accumulate with a bias; use one "):
        program("pwconv2d_fw_bf16", LAYER | {"accumulate": True, "bias": True})


def test_they_are_as_far_from_exact_sums_as_their_types_are():
    shape = {"inputs": 20, "outputs": 9, "height": 6, "width": 7, "seed": 5}
    distances = {}
    for name in ("f32", "f16", "bf16"):
        outputs, _ = launch(f"pwconv2d_fw_{name}", shape, WARM)
        inputs = program(f"pwconv2d_fw_{name}", shape, WARM).inputs
        x, w = (inputs[operand].astype(np.float64) for operand in "XW")
        exact = np.einsum("oc,nchw->nohw", w, x)
        distances[name] = float(abs(outputs["Y"].astype(np.float64) - exact).max())
    assert distances["f32"] < 1e-5 < distances["f16"] < 0.05 < distances["bf16"] < 0.5
