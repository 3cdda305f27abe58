"""Elementary functions: stated errors on millions of floats, and the same words on the chip."""

import math

import numpy as np
import pytest

from firmware.lanes import Lanes
from tests.firmware.kernels import new_kernel
from tests.trainlib.primitives import SPECIAL, check, check_in_registers, check_with_torch
from tests.trainlib.straight_line import execute
from trainlib.elementwise import activations, math_functions

U = 2.0**-24
SMALLEST = 2.0**-126


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def phi(x):
    return np.vectorize(lambda a: math.erfc(-a / math.sqrt(2)) / 2, otypes=[np.float64])(x)


def sigmoid(x):
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def sine(x):
    return np.sin(np.where(np.abs(x) <= 2**17, x, np.nan))


def cosine(x):
    return np.cos(np.where(np.abs(x) <= 2**17, x, np.nan))


STATED = {
    "exp": (math_functions.exp, np.exp, 2, 2.0**-125),
    "log": (math_functions.log, np.log, 2, 0.0),
    "erf": (math_functions.erf, erf, 8, 0.0),
    "sin": (math_functions.sine, sine, 3, 0.0),
    "cos": (math_functions.cosine, cosine, 3, 0.0),
    "atan": (math_functions.arctangent, np.arctan, 3, 0.0),
    "log1p": (math_functions.log1p, np.log1p, 4, 0.0),
    "expm1": (math_functions.expm1, np.expm1, 3, 0.0),
    "round": (math_functions.nearest, np.round, 0, 0.0),
    "floor": (math_functions.below, np.floor, 0, 0.0),
    "sigmoid": (activations.sigmoid_forward, sigmoid, 3, SMALLEST),
    "tanh": (activations.tanh_forward, np.tanh, 4, 0.0),
}
"""Code, meaning, errors in U of the result and absolute ones, as trainlib states them."""


def computed(operation, x: np.ndarray) -> np.ndarray:
    """What an operation's body makes of floats, without loops."""
    k = new_kernel()
    body = operation(k)
    lane = [k.x()]
    [[result]] = body(Lanes(k, 1), lane)
    inputs = {lane[0].number: x.view(np.uint32)}
    return execute(k.code.instructions, inputs)[result.number].view(np.float32)


def floats(step: int) -> np.ndarray:
    """Every step-th pattern: all signs, exponents and fractions in turn."""
    return np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", STATED)
def test_errors_on_all_scales_are_as_stated(name, request):
    """Every 9973rd of all floats (every 509th: --full), and those where the functions bend."""
    operation, meaning, relative, absolute = STATED[name]
    step = 509 if request.config.getoption("--full") and name != "erf" else 9973
    near = np.linspace(-110, 110, 200_001, dtype=np.float32)
    for x in (floats(step), near, np.linspace(0, 4, 100_001, dtype=np.float32)):
        with np.errstate(all="ignore"):
            exact = meaning(x.astype(np.float64))
            exact = np.where(
                np.abs(exact) >= 2.0**128 - 2.0**103, np.copysign(np.inf, exact), exact
            )
            got = computed(operation, x).astype(np.float64)
            is_same = (got == exact) | np.isnan(got) & np.isnan(exact)
            error = np.abs(got - exact)
            bound = relative * U * np.abs(exact) + absolute
        is_right = is_same | (error <= np.maximum(bound, 2.0**-149))
        assert is_right.all(), (x[~is_right][:3], got[~is_right][:3], exact[~is_right][:3])


@pytest.mark.parametrize("name", STATED)
def test_the_stated_errors_are_not_far_from_what_there_is(name):
    """A bound that nothing comes near would hide mistakes: errors reach a quarter of it."""
    operation, meaning, relative, _ = STATED[name]
    x = np.linspace(0.01, 5, 300_001, dtype=np.float32)
    exact = meaning(x.astype(np.float64))
    error = np.abs(computed(operation, x) - exact) / np.maximum(np.abs(exact), 1e-300) / U
    assert error[exact != 0].max() >= relative / 4


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_tanh_of_a_zero_has_its_sign(zero):
    [y] = computed(activations.tanh_forward, np.array([zero], np.float32))
    assert (y, np.signbit(y)) == (0, np.signbit(zero))


NAMES = [family.name for family in math_functions.FAMILIES if family.name.endswith("_f32")]


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 131)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled
def test_every_shape_on_the_chip_is_right(name, shape):
    x = np.abs(np.random.default_rng(1).standard_normal(shape, np.float32)) + 0.01
    check(name, {"shape": shape}, {"x": x})


@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_torchs(name):
    normal = {"rsqrt_f32", "reciprocal_f32"}  # of a subnormal: overflow
    x = SPECIAL[~((SPECIAL != 0) & (np.abs(SPECIAL) < 1e-37))] if name in normal else SPECIAL
    if name in {"sin_f32", "cos_f32"}:
        x = np.where(np.abs(x) == np.float32(3e38), np.float32(1e5), x)  # NaN here beyond 2^17
    check(name, {"shape": x.shape}, {"x": x})

    def golden(torch, x):
        return getattr(torch, name[:-4])(x)

    check_with_torch(name, {"shape": x.shape}, golden, {"x": x})


@pytest.mark.parametrize("name", NAMES)
def test_addresses_may_be_in_registers(name):
    check_in_registers(name, {"shape": (5,), "cores": 2, "seed": 3})


@pytest.mark.parametrize(
    "operation", [math_functions.exp, math_functions.log, activations.sigmoid_forward]
)
def test_code_on_arrays_is_code_on_the_chip(operation):
    names = {
        math_functions.exp: "exp_f32",
        math_functions.log: "log_f32",
        activations.sigmoid_forward: "sigmoid_fw_f32",
    }
    x = np.concatenate([SPECIAL, np.linspace(-100, 100, 1001, dtype=np.float32)])
    y = check(names[operation], {"shape": x.shape}, {"x": x})["y"]
    same = (y.view(np.uint32) == computed(operation, x).view(np.uint32)) | np.isnan(y)
    assert same.all()
