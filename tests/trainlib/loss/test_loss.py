"""Losses and their gradients: every shape, split and team; hard data; torch's meaning."""

import numpy as np
import pytest

from tests.trainlib.primitives import check, check_in_registers, check_with_torch

ELEMENTS = (
    *("mse_loss_f32", "l1_loss_f32", "berhu_loss_f32", "huber_loss_f32"),
    *("bce_logits_loss_f32", "bce_loss_f32"),
)
OF_ANY = ELEMENTS[:-1]
SHAPES = (
    {"shape": (1,)},
    {"shape": (7,), "cores": 3},
    {"shape": (3, 5, 7), "reduction": "sum"},
    {"shape": (2, 131), "cores": 4},
    {"shape": (16,), "cores": 1, "unroll": 1},
)
ENTROPIES = (
    {"classes": 1},
    {"classes": 2, "b": 1, "cores": 2},
    {"classes": 10, "b": 7, "cores": 4},
    {"classes": 100, "b": 3, "split": "columns"},
    {"classes": 5, "b": 17, "split": "rows", "reduction": "sum"},
    {"classes": 9, "b": 4, "cores": 1},
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ELEMENTS)
def test_every_shape_and_team_is_right(name, shape):
    check(name, shape)


@pytest.mark.parametrize("is_soft", [False, True])
@pytest.mark.parametrize("point", ENTROPIES, ids=str)
@pytest.mark.sampled
def test_every_batch_and_split_of_cross_entropy_is_right(point, is_soft):
    check("cross_entropy_loss_f32", point | {"is_soft": is_soft})


@pytest.mark.parametrize("name", ELEMENTS)
def test_addresses_may_be_in_registers(name):
    check_in_registers(name, {"shape": (37,), "cores": 4})


@pytest.mark.parametrize("tile", [None, {"d0": 8}])
def test_a_gradient_may_be_times_a_factor(tile):
    x, t = np.linspace(-1, 1, 19, dtype=np.float32), np.full(19, 0.25, np.float32)
    point = {"shape": (19,), "factor": -0.5, "tile": tile}
    outputs = check("mse_loss_f32", point, {"x": x, "t": t})
    np.testing.assert_allclose(outputs["dx"], -(x - 0.25) / 19, rtol=1e-6)
    np.testing.assert_allclose(outputs["loss"], np.mean((x - 0.25) ** 2), rtol=1e-6)


@pytest.mark.parametrize("split", ["rows", "columns"])
@pytest.mark.parametrize("is_soft", [False, True])
def test_addresses_of_cross_entropy_may_be_in_registers(is_soft, split):
    point = {"b": 5, "classes": 11, "cores": 4, "split": split, "is_soft": is_soft}
    check_in_registers("cross_entropy_loss_f32", point)


@pytest.mark.parametrize("name", OF_ANY)
@pytest.mark.parametrize(
    "x",
    [
        [1.0, 2.0, 3.0],  # no difference: the gradient is 0, not NaN
        [np.nan, 2.0, 3.5],
        [np.inf, 2.0, 1.0],
        [1.0, 1e-38, -1e10],
    ],
    ids=str,
)
def test_hard_data_are_right(name, x):
    inputs = {"x": np.array(x, np.float32), "t": np.array([1.0, 2.0, 3.0], np.float32)}
    check(name, {"shape": (3,)}, inputs)


@pytest.mark.parametrize("split", ["rows", "columns"])
def test_large_logits_do_not_overflow(split):
    inf, nan = np.inf, np.nan
    x = [[1e4, 0, -1e4], [-1e4, 0, 1e4], [-inf, 3, 3], [0, 0, 0], [3e38, -3e38, 0]]
    inputs = {"x": np.array(x, np.float32), "t": np.array([0, 0, 1, 2, 0], np.int32)}
    point = {"b": 5, "classes": 3, "split": split}
    check("cross_entropy_loss_f32", point, inputs)
    check_with_torch("cross_entropy_loss_f32", point, cross_entropy("mean"), inputs)
    for value in (inf, nan):
        inputs["x"][3, 1] = value
        check("cross_entropy_loss_f32", point, inputs)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_the_references_are_torchs(name, reduction):
    def golden(torch, x, t):
        f, x = torch.nn.functional, x.requires_grad_()
        functions = {
            "mse_loss_f32": f.mse_loss,
            "l1_loss_f32": f.l1_loss,
            "berhu_loss_f32": berhu,
            "huber_loss_f32": f.huber_loss,
            "bce_logits_loss_f32": f.binary_cross_entropy_with_logits,
            "bce_loss_f32": f.binary_cross_entropy,
        }
        loss = functions[name](x, t, reduction=reduction)
        loss.backward()
        return loss.reshape(1), x.grad

    def berhu(x, t, reduction):
        size = (x - t).abs()
        c = 0.2 * size.max().detach()
        terms = size.where(size <= c, (size**2 + c**2) / (2 * c))
        return terms.mean() if reduction == "mean" else terms.sum()

    check_with_torch(name, {"shape": (5, 9), "reduction": reduction}, golden)


@pytest.mark.parametrize("tile", [None, {"d0": 16}])
def test_huber_is_linear_beyond_delta_and_takes_a_factor(tile):
    x = np.linspace(-3, 3, 61, dtype=np.float32)
    point = {"shape": (61,), "delta": 0.5, "factor": 2.0, "tile": tile}
    outputs = check("huber_loss_f32", point, {"x": x, "t": np.zeros_like(x)})
    size = np.abs(x.astype(np.float64))
    each = np.where(size < 0.5, size**2, size - 0.25)
    np.testing.assert_allclose(outputs["loss"], each.mean(), rtol=1e-6)
    np.testing.assert_allclose(outputs["dx"], 2 * np.clip(x, -0.5, 0.5) / 61, rtol=1e-6)


def test_binary_cross_entropy_is_finite_where_a_class_is_certain():
    """Logits too large for an exponential, and probabilities of 0 and 1."""
    pytest.importorskip("torch")
    x = np.array([200, -200, 20, -20, 0.0, 1e-20], np.float32)
    inputs = {"x": x, "t": np.array([1, 0, 0, 1, 0.5, 0.25], np.float32)}
    check("bce_logits_loss_f32", {"shape": x.shape}, inputs)
    check_with_torch("bce_logits_loss_f32", {"shape": x.shape}, binary(True), inputs)
    inputs["x"] = np.array([0, 1, 1, 0, 1e-30, 1 - 2**-24], np.float32)
    check("bce_loss_f32", {"shape": x.shape}, inputs)
    check_with_torch("bce_loss_f32", {"shape": x.shape}, binary(False), inputs)


def binary(is_logits):
    def golden(torch, x, t):
        f = torch.nn.functional
        x.requires_grad_()
        function = f.binary_cross_entropy_with_logits if is_logits else f.binary_cross_entropy
        loss = function(x, t)
        loss.backward()
        return loss.reshape(1), x.grad

    return golden


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("is_soft", [False, True])
def test_the_reference_of_cross_entropy_is_torchs(is_soft, reduction):
    point = {"b": 6, "classes": 9, "is_soft": is_soft, "reduction": reduction}
    check_with_torch("cross_entropy_loss_f32", point, cross_entropy(reduction))


def cross_entropy(reduction):
    def golden(torch, x, t):
        x.requires_grad_()
        t = t if t.is_floating_point() else t.long()
        loss = torch.nn.functional.cross_entropy(x, t, reduction=reduction)
        loss.backward()
        return loss.reshape(1), x.grad

    return golden
