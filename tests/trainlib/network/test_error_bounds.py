"""Bounds of a network's results: float32 stays within them, a mistake of a primitive does not."""

from functools import cache

import numpy as np
import pytest

from tests.trainlib.network.test_network import CONVOLUTION, SMALL
from trainlib.launch import launch, program
from trainlib.network.error_bounds import trained
from trainlib.network.step import Step
from trainlib.network.training import network_of

NORMS = [CONVOLUTION | {"bias": True}, {"kind": "batchnorm"}, {"kind": "relu"}]
POOLED = [{"kind": "avgpool2d", "kernel": 3, "stride": 2}]
HOW = (
    SMALL | {"kernels": "naive"},
    SMALL | {"optimizer": "adam"},
    SMALL | {"momentum": 0.9, "loss": "berhu"},
    SMALL | {"layers": NORMS, "optimizer": "adam", "steps": 3},
    {
        "layers": [*POOLED, {"kind": "batchnorm"}, {"kind": "instancenorm"}],
        "loss": "berhu",
        "lr": 0.01,
        "batch": 3,
        "steps": 3,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 0.01,
        "input": [3, 8, 5],
    },
)


@pytest.mark.parametrize("how", HOW, ids=range(len(HOW)))
@pytest.mark.sampled(2)
def test_rounding_errors_are_no_mistakes(how):
    assert launch("train_f32", how | {"seed": 3017})[1].is_correct


def missing_product(inputs, y):
    """The sum in the middle lacks its last product."""
    n, outputs, height, width = y.shape
    at = n // 2, outputs // 2, height // 2, width // 2
    window = inputs["X"][at[0], -1, 2 + at[2], 2 + at[3]]
    y[at] -= float(inputs["weight_0"][at[1], -1, -1, -1]) * float(window)


def wrong_row(_, dw):
    """A row holds what the next one should."""
    dw[0] = dw[1]


def swapped_sign(_, dw):
    """That of the middlemost weight's gradient."""
    middle = np.unravel_index(np.argsort(np.abs(dw), axis=None)[dw.size // 2], dw.shape)
    dw[middle] *= -1


UNPADDED = [CONVOLUTION | {"bias": True}, *SMALL["layers"][1:]]


@cache
def learned_by(optimizer):
    """The program, and what it should leave."""
    point = SMALL | {"layers": UNPADDED, "optimizer": optimizer, "steps": 3}
    built = program("train_f32", point)
    return built, built.family.reference(built.arguments, built.inputs)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("conv2d_0.Y", missing_product),
        ("conv2d_0.dW", wrong_row),
        ("linear_4.dW", wrong_row),
        ("conv2d_0.dW", swapped_sign),
        ("linear_6.dW", swapped_sign),
    ],
)
@pytest.mark.sampled
def test_one_mistake_in_one_step_is_seen(name, mistake, optimizer):
    built, expected = learned_by(optimizer)
    step = Step.of(built.arguments, 1, None)
    calls = []

    def disturb(result_name, result):
        exact = np.array(result[0], float)
        if result_name == name:
            calls.append(name)
            if len(calls) == 2:
                mistake(built.inputs, exact.reshape(step.graph.values[name].shape))
        return exact

    wrong = trained(step, built.inputs, disturb)
    assert len(calls) == 3
    far = [n for n, (exact, bound) in expected.items() if (np.abs(wrong[n] - exact) > bound).any()]
    assert far


def test_a_bound_is_a_small_part_of_what_is_learned():
    built, expected = learned_by("sgd")
    for name in network_of(built.arguments).terms:
        exact, bound = expected[name]
        assert bound.max() < 5e-4 * np.abs(exact - built.inputs[name]).max()


def test_what_only_rounding_errors_decide_has_a_wide_bound():
    """Adam steps a bias before a norm by up to lr, to either side; the norm takes it away."""
    point = SMALL | {"layers": NORMS, "optimizer": "adam", "steps": 1, "lr": 0.05}
    built = program("train_f32", point)
    expected = built.family.reference(built.arguments, built.inputs)
    assert (expected["bias_0"][1] > 0.05).all()
    for name in ("weight_0", "weight_1", "bias_1"):
        assert np.median(expected[name][1]) < 1e-3 * 0.05
