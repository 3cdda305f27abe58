"""Limits, absolute values, softplus and ELU: shapes, values that hurt, torch's meaning; labels."""

import numpy as np
import pytest
from pydantic import ValidationError

from tests.trainlib.primitives import (
    NOT_FINITE,
    SPECIAL,
    check,
    check_in_registers,
    check_with_torch,
)
from trainlib.registry import KERNELS

RELU6 = {"low": 0.0, "high": 6.0}
SELU = {"alpha": 1.6732632, "scale": 1.0507010}
POINTS = (
    *(("clamp", RELU6), ("clamp", {"low": -1.0}), ("clamp", {"high": -2.0}), ("abs", {})),
    *(("clamp", {"low": -2.5, "high": 2.5, "passes_limits": False}),),
    *(("softplus", {}), ("softplus", {"beta": 2.5}), ("elu", {}), ("elu", SELU)),
    *(("elu", {"alpha": 0.5, "slope": 2.0}),),
)
EVERY = pytest.mark.parametrize(("name", "options"), POINTS, ids=str)
SHAPES = ({"shape": (1,)}, {"shape": (3, 5, 7), "cores": 8}, {"shape": (61,), "unroll": 4})


def cases(name, options):
    """Forward and backward: kernel, arguments, operands."""
    forward = {n: v for n, v in options.items() if n != "passes_limits"}
    return ((f"{name}_fw_f32", forward, ("x",)), (f"{name}_bw_f32", options, ("x", "dy")))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@EVERY
@pytest.mark.sampled
def test_every_shape_and_team_is_right(name, options, shape):
    for kernel, own, _ in cases(name, options):
        check(kernel, own | shape)


@EVERY
def test_special_values_and_limits_are_torchs(name, options):
    for kernel, own, names in cases(name, options):
        if own.keys() & {"slope", "beta"}:
            continue  # powers that float64 has and float32 has not
        x, other = (a.flatten() for a in np.meshgrid(SPECIAL, NOT_FINITE))
        x, other = (np.append(a, [0.0, 6.0, 2.5, -2.5]).astype(np.float32) for a in (x, other))
        inputs = dict(zip(names, (x, other), strict=False))
        check(kernel, own | {"shape": x.shape}, inputs)
        check_with_torch(kernel, own | {"shape": x.shape}, golden(name, options), inputs)


@EVERY
def test_a_wide_range_is_right(name, options):
    small = np.logspace(-38, 2, 400)
    x = np.concatenate([np.linspace(-110, 110, 800), small, -small]).astype(np.float32)
    for kernel, own, names in cases(name, options):
        inputs = dict(zip(names, (x, np.ones_like(x)), strict=False))
        check(kernel, own | {"shape": x.shape}, inputs)


@pytest.mark.parametrize("name", ["clamp", "abs", "softplus", "elu"])
def test_tiles_give_the_same_bits_and_addresses_may_be_in_registers(name):
    options = RELU6 if name == "clamp" else {}
    for kernel, own, _ in cases(name, options):
        shape = own | {"shape": (5, 41), "cores": 4}
        whole, tiles = check(kernel, shape), check(kernel, shape | {"tile": {"d0": 2, "d1": 17}})
        assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)
        check_in_registers(kernel, own | {"shape": (37,), "cores": 4})


@pytest.mark.parametrize(
    ("limits", "message"),
    [({}, "neither low nor high; give one of them"), ({"low": 1, "high": 0}, "low 1 is above")],
)
def test_limits_that_make_no_sense_are_refused(limits, message):
    with pytest.raises(ValidationError, match=message):
        KERNELS["clamp_fw_f32"].arguments(shape=(1,), **limits)


def test_a_label_is_replaced_and_no_other():
    x = np.array([[0, 1, -100], [3, -100, -1]], np.int32)
    outputs = check("replace_label_f32", {"shape": (2, 3), "old": -100, "new": 5}, {"x": x})
    assert outputs["y"].tolist() == [[0, 1, 5], [3, 5, -1]]
    check("replace_label_f32", {"shape": (7, 90), "old": 1, "new": -5, "tile": {"d0": 3}})


def test_integers_are_floats():
    x = np.array([[0, 1, -100], [3, 2**24, -(2**31)]], np.int32)
    assert (check("as_floats_f32", {"shape": (2, 3)}, {"x": x})["y"] == x).all()
    check("as_floats_f32", {"shape": (7, 90), "tile": {"d0": 3}})


def golden(name, options):
    """What torch gives: y, or the gradient by autograd."""

    def function(torch, x):
        f = torch.nn.functional
        if name == "clamp" and not options.get("passes_limits", True):
            return f.hardtanh(x, options.get("low", -float("inf")), options["high"])
        if name == "clamp":
            return x.clamp(options.get("low"), options.get("high"))
        if name == "elu":
            own = (options.get(n, 1.0) for n in ("alpha", "scale", "slope"))
            return torch.ops.aten.elu(x, *own)
        return x.abs() if name == "abs" else f.softplus(x, options.get("beta", 1.0))

    def result(torch, x, dy=None):
        if dy is None:
            return function(torch, x)
        x.requires_grad_()
        function(torch, x).backward(dy)
        return x.grad

    return result
