"""Gradients of biases: sums of many terms, which must not be as inexact as a running sum."""

import numpy as np
import pytest

from trainlib.launch import checked, launch
from trainlib.registry import KERNELS

PLACES = ((1, 64), (1, 1021), (4, 251), (32, 32))
"""Lines and places of a channel: parts as long as each other, with a rest, and one by one."""
LARGE = {"inputs": 3, "outputs": 2, "height": 40, "width": 40, "bias": True}


@pytest.mark.parametrize("channels", [3, 8, 40], ids="{} channels".format)
@pytest.mark.parametrize(("height", "width"), PLACES)
def test_equal_gradients_add_up(channels, height, width):
    """A running sum of 1,024 equal terms is 1.3e-5 off, PyTorch's 3.7e-7."""
    point = {"inputs": 1, "outputs": channels, "height": height, "width": width, "bias": True}
    kernel = KERNELS["pwconv2d_wg_f32"]
    inputs = kernel.random(kernel.arguments(**point))
    each = np.random.default_rng(1).standard_normal(channels).astype(np.float32)
    dy = np.empty_like(inputs["dY"])
    dy[:] = each[:, None, None]
    found, report = launch("pwconv2d_wg_f32", point, inputs=inputs | {"dY": dy})
    assert report.is_correct
    wanted = each.astype(np.float64) * (height * width)
    assert np.abs(found["dbias"] / wanted - 1).max() < 1.2e-6


def gradient_of_two_biases(cores, dy):
    point = LARGE | {"cores": cores}
    inputs = KERNELS["pwconv2d_wg_f32"].random(checked("pwconv2d_wg_f32", point))
    inputs["dY"] = dy.astype(np.float32).reshape(inputs["dY"].shape)
    found, _ = launch("pwconv2d_wg_f32", point, inputs=inputs)
    return found["dbias"], inputs["dY"].astype(np.float64).reshape(2, -1).sum(-1)


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_equal_elements_are_added_up_within_a_few_roundings(value, cores):
    """They are rounded alike: 50 parts that were added up one by one had 10 times a rounding's."""
    found, wanted = gradient_of_two_biases(cores, np.full(3200, value))
    assert np.abs(found / wanted - 1).max() < 6 * 2.0**-24


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(special, cores):
    dy = np.full(3200, 0.1)
    dy[40] = special
    found, _ = gradient_of_two_biases(cores, dy)
    assert np.array_equal(found[:1], [special], equal_nan=True)
    assert found[1] == pytest.approx(160, rel=1e-6)
