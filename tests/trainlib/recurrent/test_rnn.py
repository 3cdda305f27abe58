"""Recurrent layers: every shape, batch and team; torch's meaning; what does not fit."""

import numpy as np
import pytest

from tests.trainlib.primitives import WARM, check, check_in_registers
from trainlib.launch import launch
from trainlib.recurrent.ops import LAYERS

LAYER = pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
DIRECTION = pytest.mark.parametrize("direction", ["fw", "bw"])
SHAPES = (
    {"steps": 1, "inputs": 1, "hidden": 1, "cores": 1},
    {"steps": 3, "inputs": 5, "hidden": 7, "batch": 2},
    {"steps": 2, "inputs": 3, "hidden": 13, "cores": 4},
    {"steps": 1, "inputs": 11, "hidden": 2, "batch": 5, "cores": 2},
    {"steps": 20, "inputs": 2, "hidden": 3, "batch": 3, "cores": 3},
)
MODULES = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
PARAMETERS = {"Wx": "weight_ih_l0", "Wh": "weight_hh_l0", "bias_x": "bias_ih_l0"}
PARAMETERS |= {"bias_h": "bias_hh_l0"}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@DIRECTION
@LAYER
@pytest.mark.sampled
def test_every_shape_is_right(name, direction, shape):
    check(f"{name}_{direction}_f32", shape)


@DIRECTION
def test_an_rnn_may_have_relus(direction):
    check(f"rnn_{direction}_f32", SHAPES[1] | {"activation": "relu"})


@DIRECTION
@LAYER
def test_addresses_may_be_in_registers(name, direction):
    check_in_registers(f"{name}_{direction}_f32", SHAPES[1])


@LAYER
def test_nan_spreads_to_later_steps_of_its_sequence(name):
    layer = next(layer for layer in LAYERS if layer.name == name)
    inputs = layer.family("fw").random(layer.arguments(**SHAPES[1]))
    inputs["X"][1, 0, 2] = np.nan
    outputs = check(f"{name}_fw_f32", SHAPES[1], inputs)
    is_nan = np.isnan(outputs["Y"])
    assert is_nan.all(2).tolist() == [[False, False], [True, False], [True, False]]
    assert (is_nan.any(2) == is_nan.all(2)).all()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@LAYER
def test_the_references_are_torchs(name, activation):
    torch = pytest.importorskip("torch")
    if activation == "relu" and name != "rnn":
        return
    layer = next(layer for layer in LAYERS if layer.name == name)
    option = {"activation": activation} if name == "rnn" else {}
    point = layer.arguments(steps=4, batch=3, inputs=5, hidden=6, **option)
    forward, backward = layer.family("fw"), layer.family("bw")
    given = {n: a.astype(np.float64) for n, a in forward.random(point).items()}
    tensors = {n: torch.tensor(a, requires_grad=True) for n, a in given.items()}
    module = getattr(torch.nn, MODULES[name])(5, 6, dtype=torch.float64)
    if name == "rnn":
        module.mode = f"RNN_{activation.upper()}"
    parameters = {own: tensors[n] for n, own in PARAMETERS.items()}
    state = tuple(tensors[f"{s}0"][None] for s in layer.cell.states)
    arguments = tensors["X"], state if name == "lstm" else state[0]
    y, last = torch.func.functional_call(module, parameters, arguments)
    last = last if name == "lstm" else (last,)
    outputs = forward.reference(point, given)
    saved = {n: value for n, (value, _) in outputs.items()}
    np.testing.assert_allclose(saved["Y"], y.detach().numpy(), 1e-12, 1e-12)
    if name == "lstm":
        np.testing.assert_allclose(saved["C"][-1], last[1][0].detach().numpy(), 1e-12, 1e-12)
    drawn = backward.random(point)
    incoming = {n: drawn[n].astype(np.float64) for n in drawn if n in ("dY", "dhn", "dcn")}
    torch.autograd.backward(
        [y, *last],
        [
            torch.tensor(incoming["dY"]),
            *(torch.tensor(incoming[f"d{s}n"])[None] for s in layer.cell.states),
        ],
    )
    gradients = backward.reference(point, given | saved | incoming)
    assert set(gradients) == {f"d{n}" for n in given}
    for n, tensor in tensors.items():
        np.testing.assert_allclose(gradients[f"d{n}"][0], tensor.grad.numpy(), 1e-11, 1e-12)


@LAYER
def test_bounds_of_errors_are_small(name):
    """A bound that grows beyond float32's use would pass mistakes."""
    layer = next(layer for layer in LAYERS if layer.name == name)
    for direction in ("fw", "bw"):
        family = layer.family(direction)
        for shape in SHAPES[1:]:
            point = layer.arguments(**shape)
            for exact, bound in family.reference(point, family.random(point)).values():
                assert bound.max() < 2e-4 * abs(exact).max()


@pytest.mark.parametrize(
    ("name", "forward", "backward"), [("rnn", 3.0, 4.0), ("lstm", 2.95, 4.15), ("gru", 3.05, 4.2)]
)
def test_macs_per_cycle_do_not_fall_below_what_was_reached(name, forward, backward):
    """Multiply-adds alone reach 5.33; a step of 64 sums per gate waits for the one before."""
    point = {"steps": 8, "inputs": 32, "hidden": 16, "batch": 4}
    for direction, least in (("fw", forward), ("bw", backward)):
        _, report = launch(f"{name}_{direction}_f32", point, WARM)
        assert report.macs_per_cycle >= least
