"""Multi-head self-attention: every shape, batch and team; torch's meaning; what is refused."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import WARM, check, check_in_registers
from trainlib.attention.ops import FAMILIES, AttentionArguments
from trainlib.launch import launch, program

DIRECTION = pytest.mark.parametrize("direction", ["fw", "bw"])
SHAPES = (
    {"length": 1, "embed": 1, "cores": 1},
    {"length": 5, "embed": 6, "heads": 2, "batch": 3},
    {"length": 2, "embed": 3, "heads": 3, "cores": 4},
    {"length": 11, "embed": 7, "heads": 1, "cores": 2},
    {"length": 17, "embed": 5, "heads": 3, "size": 4, "cores": 3},
    {"length": 9, "embed": 8, "heads": 4, "size": 1, "batch": 2},
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@DIRECTION
@pytest.mark.sampled
def test_every_shape_is_right(direction, shape):
    check(f"mhsa_{direction}_f32", shape)


@DIRECTION
def test_addresses_may_be_in_registers(direction):
    check_in_registers(f"mhsa_{direction}_f32", SHAPES[1])


def test_large_scores_leave_one_element_each():
    family = FAMILIES[0]
    point = AttentionArguments(**SHAPES[1])
    inputs = family.random(point)
    inputs["X"] *= np.float32(30)
    outputs = check("mhsa_fw_f32", SHAPES[1], inputs)
    assert (outputs["P"].max(-1) > 0.999).mean() > 0.5


def test_nan_spreads_as_torchs():
    inputs = FAMILIES[0].random(AttentionArguments(**SHAPES[1]))
    inputs["X"][1, 2, 3] = np.nan
    outputs = check("mhsa_fw_f32", SHAPES[1], inputs)
    assert np.isnan(outputs["Y"]).all((1, 2)).tolist() == [False, True, False]
    assert np.isnan(outputs["Y"]).any((1, 2)).tolist() == [False, True, False]


@pytest.mark.parametrize("point", [SHAPES[1], SHAPES[4]], ids=str)
def test_the_references_are_torchs(point):
    torch = pytest.importorskip("torch")
    point = AttentionArguments(**point)
    forward, backward = FAMILIES[:2]
    given = {n: a.astype(np.float64) for n, a in forward.random(point).items()}
    of = {n: torch.tensor(a, requires_grad=True) for n, a in given.items()}
    rows = torch.nn.functional.linear(of["X"], of["W"], of["bias"])
    heads = [part.unflatten(2, (point.heads, -1)).transpose(1, 2) for part in rows.chunk(3, dim=2)]
    o = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
    y = torch.nn.functional.linear(o, of["Wo"], of["bias_o"])
    saved = {n: value for n, (value, _) in forward.reference(point, given).items()}
    np.testing.assert_allclose(saved["Y"], y.detach().numpy(), 1e-12, 1e-12)
    dy = backward.random(point)["dY"].astype(np.float64)
    y.backward(torch.tensor(dy))
    gradients = backward.reference(point, given | saved | {"dY": dy})
    assert set(gradients) == {f"d{n}" for n in given}
    for n, tensor in of.items():
        np.testing.assert_allclose(gradients[f"d{n}"][0], tensor.grad.numpy(), 1e-11, 1e-12)


def test_it_is_torchs_module_where_heads_divide_its_width():
    torch = pytest.importorskip("torch")
    point = AttentionArguments(**SHAPES[1])
    given = {n: a.astype(np.float64) for n, a in FAMILIES[0].random(point).items()}
    of = {n: torch.tensor(a) for n, a in given.items()}
    module = torch.nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64)
    own = {"in_proj_weight": "W", "in_proj_bias": "bias", "out_proj.weight": "Wo"}
    own |= {"out_proj.bias": "bias_o"}
    parameters = {theirs: of[name] for theirs, name in own.items()}
    inputs = of["X"], of["X"], of["X"]
    y, p = torch.func.functional_call(module, parameters, inputs, {"average_attn_weights": False})
    outputs = FAMILIES[0].reference(point, given)
    np.testing.assert_allclose(outputs["Y"][0], y.detach().numpy(), 1e-12, 1e-12)
    np.testing.assert_allclose(outputs["P"][0], p.detach().numpy(), 1e-12, 1e-12)


def test_bounds_of_errors_are_small():
    """A bound that grows beyond float32's use would pass mistakes."""
    point = AttentionArguments(**SHAPES[1])
    for family in FAMILIES[:2]:
        for exact, bound in family.reference(point, family.random(point)).values():
            assert bound.max() < 1e-4 * abs(exact).max()


def test_macs_per_cycle_do_not_fall_below_what_was_reached():
    for direction, point, least in (
        ("fw", {"length": 24, "embed": 32, "heads": 2}, 4.35),
        ("bw", {"length": 24, "embed": 24, "heads": 1}, 4.75),
    ):
        _, report = launch(f"mhsa_{direction}_f32", point, WARM)
        assert report.macs_per_cycle >= least


@DIRECTION
def test_what_cannot_be_is_refused(direction):
    message = r"^mhsa: heads 3; they do not divide embed 8: give their size$"
    with pytest.raises(KernelError, match=message):
        program(f"mhsa_{direction}_f32", {"length": 2, "embed": 8, "heads": 3})
