"""The exact GELU and its slope are as near the normal distribution as their polynomials say."""

from math import erfc, exp, inf, nan, pi, sqrt

import numpy as np
import pytest

from tests.trainlib.primitives import WARM
from trainlib.launch import launch

U = 2.0**-24
X = np.concatenate([np.linspace(-8, 8, 4001), np.logspace(-20, 4, 49), -np.logspace(-20, 4, 49)])


def _phi(x):
    return erfc(-x / sqrt(2)) / 2


def _slope(x):
    return _phi(x) + x * exp(-x * x / 2) / sqrt(2 * pi)


def _measured(kernel, x):
    inputs = {"x": x.astype(np.float32), "dy": np.ones(len(x), np.float32)}
    given = inputs if kernel == "gelu_bw_f32" else {"x": inputs["x"]}
    outputs, _ = launch(kernel, {"shape": x.shape}, WARM, given)
    [result] = outputs.values()
    return inputs["x"].astype(float), result.astype(float)


def test_phi_is_within_its_bound_and_one_or_zero_beyond():
    x, y = _measured("gelu_fw_f32", X)
    wanted = x * np.vectorize(_phi)(x)
    assert (np.abs(y - wanted) <= 2.5 * U * np.abs(x) + U * np.abs(wanted)).all()
    far = np.abs(x) > 6
    assert (y[far] == np.maximum(x[far], 0)).all()


def test_the_slope_is_within_its_bound():
    x, dx = _measured("gelu_bw_f32", X)
    assert np.abs(dx - np.vectorize(_slope)(x)).max() <= 5.2 * U


def test_the_slope_is_one_or_zero_where_pytorchs_is():
    """A batch of negative numbers has no gradient that 1e-8 would be little beside."""
    x = np.array([5.91, 6, 100, 3e38])
    assert _measured("gelu_bw_f32", x)[1].tolist() == [1.0] * 4
    assert _measured("gelu_bw_f32", -x)[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("kernel", ["gelu_fw_f32", "gelu_bw_f32"])
def test_special_values_are_torchs(kernel):
    _, result = _measured(kernel, np.array([nan, -nan, -inf, inf]))
    assert np.isnan(result[:3]).all()
    assert result[3] == inf if kernel == "gelu_fw_f32" else np.isnan(result[3])
