"""Long sums are as right as PyTorch's: of equal elements, all rounded alike, and of others."""

import numpy as np
import pytest

from tests.trainlib.hurting import Draw, wrong
from trainlib.launch import checked, launch
from trainlib.registry import KERNELS

pytest.importorskip("torch")

LOSS = {"shape": (4000,)}
KERNELS_WITH_SUMS = {
    "reduce_f32": (
        {"shape": (9000,), "axes": (0,), "what": "mean"},
        {"shape": (20, 20, 20), "axes": (0, 1, 2), "what": "sum"},
        {"shape": (3, 3000), "axes": (1,), "what": "mean"},
    ),
    "softmax_fw_f32": ({"shape": (2, 3000)}, {"shape": (40, 300)}),
    "softmax_bw_f32": ({"shape": (2, 3000)}, {"shape": (40, 300)}),
    "cross_entropy_loss_f32": (
        {"b": 4, "classes": 1000},
        {"b": 600, "classes": 5},
        {"b": 300, "classes": 10, "is_soft": True},
    ),
    "mse_loss_f32": (LOSS, LOSS | {"reduction": "sum"}, {"shape": (12000,)}),
    "l1_loss_f32": (LOSS, {"shape": (1000,)}),
    "huber_loss_f32": (LOSS,),
    "bce_logits_loss_f32": (LOSS,),
    "bce_loss_f32": ({"shape": (1500,)},),
}
VALUES = {
    "equal": lambda g, size: np.full(size, 0.1),
    "few": lambda g, size: g.choice([0.1, 0.3, -0.7], size),
    "half": lambda g, size: np.where(np.arange(size) % 2, 0.1, g.standard_normal(size)),
    "offset": lambda g, size: 3 + g.standard_normal(size),
}
POINTS = [(kernel, point) for kernel, points in KERNELS_WITH_SUMS.items() for point in points]


def drawn(kernel, arguments, values):
    """A point with such values; weights of classes, and what softmax gave, add up to 1."""
    point, g = checked(kernel, arguments), np.random.default_rng(0)
    inputs = KERNELS[kernel].random(point)
    for name, array in inputs.items():
        if array.dtype == np.float32 and not (kernel == "cross_entropy_loss_f32" and name == "t"):
            inputs[name] = VALUES[values](g, array.size).reshape(array.shape).astype(np.float32)
    if kernel == "softmax_bw_f32":
        powers = np.exp(inputs["y"].astype(np.float64))
        inputs["y"] = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    if kernel == "bce_loss_f32":
        inputs = {name: np.clip(array, 0.01, 0.99) for name, array in inputs.items()}
    if kernel in ("mse_loss_f32", "l1_loss_f32", "huber_loss_f32"):
        inputs["t"] *= 0
    return Draw(kernel, arguments, inputs, values, "x")


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("kernel", "point"), POINTS, ids=str)
def test_a_long_sum_is_as_right_as_pytorchs(kernel, point, values, cores):
    assert wrong(drawn(kernel, point | {"cores": cores}, values)) == []


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize(
    ("special", "total"),
    [([np.inf], np.inf), ([-np.inf], -np.inf), ([np.inf, -np.inf], np.nan), ([np.nan], np.nan)],
)
def test_what_is_not_finite_stays_so_in_a_long_sum(special, total, cores):
    x = np.full(6000, 0.1, np.float32)
    x[100 : 100 + len(special)] = special
    point = {"shape": x.shape, "axes": (0,), "what": "sum", "cores": cores}
    found, _ = launch("reduce_f32", point, inputs={"x": x})
    assert np.array_equal(found["y"], [total], equal_nan=True)
