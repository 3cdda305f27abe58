"""Activations: every shape and team, special values, the addresses' contract, torch's meaning."""

import numpy as np
import pytest

from tests.trainlib.primitives import (
    NOT_FINITE,
    SPECIAL,
    check,
    check_in_registers,
    check_with_torch,
)
from trainlib.elementwise import activations, gated_activations

FAMILIES = activations.FAMILIES + gated_activations.FAMILIES
NAMES = [family.name for family in FAMILIES if family.name.endswith("_f32")]
OPTIONS = {
    "leaky_relu_fw_f32": ({"slope": 0.01}, {"slope": 1.5}, {"slope": -0.5}, {"slope": 0.0}),
    "leaky_relu_bw_f32": ({"slope": 0.01}, {"slope": -0.5}),
    "gelu_fw_f32": ({"approximate": "none"}, {"approximate": "tanh"}),
    "gelu_bw_f32": ({"approximate": "none"}, {"approximate": "tanh"}),
}
POINTS = [(name, options) for name in NAMES for options in OPTIONS.get(name, ({},))]
SHAPES = (
    {"shape": (1,)},
    {"shape": (7,), "cores": 3},
    {"shape": (3, 5, 7), "cores": 8},
    {"shape": (2, 131), "cores": 4},
    {"shape": (16,), "cores": 1, "unroll": 1},
    {"shape": (61,), "cores": 2, "unroll": 4},
)


def each(points):
    return pytest.mark.parametrize(("name", "options"), points, ids=str)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@each(POINTS)
@pytest.mark.sampled
def test_every_shape_and_team_is_right(name, options, shape):
    check(name, options | shape)


@each(POINTS)
def test_special_values_are_torchs(name, options):
    names = [n for n, t in _family(name).tensors(_point(name, options)).items() if t.role == "in"]
    first, others = SPECIAL, SPECIAL
    if len(names) > 1:  # each with each, but no products that overflow on the way
        first, others = (a.flatten() for a in np.meshgrid(NOT_FINITE, NOT_FINITE))
    inputs = {n: first if i == 0 else others for i, n in enumerate(names)}
    check(name, options | {"shape": first.shape}, inputs)
    check_with_torch(name, options | {"shape": first.shape}, golden(name, options), inputs)


@each(POINTS)
def test_a_wide_range_is_right(name, options):
    names = [n for n, t in _family(name).tensors(_point(name, options)).items() if t.role == "in"]
    wide = np.linspace(-110, 110, 2000, dtype=np.float32)
    inputs = {n: wide if i == 0 else np.ones_like(wide) for i, n in enumerate(names)}
    check(name, options | {"shape": wide.shape}, inputs)


@pytest.mark.parametrize("name", NAMES)
def test_addresses_may_be_in_registers(name):
    check_in_registers(name, {"shape": (37,), "cores": 4})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(2)
def test_tiles_of_tensors_in_l2_give_the_same_bits(name):
    shape = {"shape": (5, 41), "cores": 4}
    whole = check(name, shape)
    tiles = check(name, shape | {"tile": {"d0": 2, "d1": 17}})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)


def test_a_tensor_larger_than_l1_is_cut_by_itself():
    check("relu_bw_f32", {"shape": (3, 9001)})


@each(POINTS)
def test_the_reference_is_torchs(name, options):
    check_with_torch(name, options | {"shape": (400,)}, golden(name, options))


def _family(name):
    return next(family for family in FAMILIES if family.name == name)


def _point(name, options):
    return _family(name).arguments(**(options | {"shape": (1,)}))


def golden(name, options):
    """What torch makes of the inputs: y, or gradients by autograd."""

    def function(torch, x):
        f = torch.nn.functional
        functions = {
            "relu": f.relu,
            "leaky_relu": lambda x: f.leaky_relu(x, options.get("slope", 0.01)),
            "sigmoid": torch.sigmoid,
            "tanh": torch.tanh,
            "silu": f.silu,
            "gelu": lambda x: f.gelu(x, approximate=options.get("approximate", "none")),
        }
        return functions[name[:-7]](x)

    def forward(torch, x):
        return function(torch, x)

    def backward(torch, x, dy):
        x.requires_grad_()
        function(torch, x).backward(dy)
        return x.grad

    def backward_of_output(torch, y, dy):
        operator = getattr(torch.ops.aten, f"{name[:-7]}_backward")
        return operator(dy, y)

    def swiglu(torch, a, b):
        return torch.nn.functional.silu(a) * b

    def swiglu_backward(torch, a, b, dy):
        a.requires_grad_(), b.requires_grad_()
        swiglu(torch, a, b).backward(dy)
        return a.grad, b.grad

    if name.startswith("swiglu"):
        return swiglu if "_fw_" in name else swiglu_backward
    if "_fw_" in name:
        return forward
    return backward_of_output if name[:-7] in ("sigmoid", "tanh") else backward
