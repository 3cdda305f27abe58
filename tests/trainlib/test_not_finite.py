"""Data that is not finite: what comes of it is right where PyTorch's result is the same."""

import numpy as np
import pytest

from trainlib.launch import launch, program
from trainlib.reference.error_analysis import Near

LAYER = {"steps": 2, "inputs": 3, "hidden": 4}
IMAGE = {"c": 2, "h": 5, "w": 6, "out": (9, 4)}
CASES = (
    ("rnn_fw_f32", LAYER, "X"),
    ("lstm_fw_f32", LAYER, "X"),
    ("gru_fw_f32", LAYER, "Wx"),
    ("mhsa_fw_f32", {"length": 5, "embed": 4, "heads": 2}, "X"),
    ("rmsnorm_fw_f32", {"rows": 3, "columns": 6}, "x"),
    ("nearest_fw_f32", IMAGE, "x"),
    ("nearest_bw_f32", IMAGE, "dy"),
    ("bilinear_fw_f32", IMAGE | {"aligned": True}, "x"),
    ("bilinear_bw_f32", IMAGE, "dy"),
    ("sgd_f32", {"shape": (9,), "lr": 0.1}, "w"),
    ("sgd_momentum_f32", {"shape": (9,), "lr": 0.1, "momentum": 0.9}, "w"),
    ("adam_f32", {"shape": (9,)}, "w"),
    ("adamw_f32", {"shape": (9,)}, "v"),
)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kernel", "point", "name"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.sampled
def test_a_value_that_is_not_finite_spreads_as_the_reference_says(kernel, point, name, special):
    values = {n: array.copy() for n, array in program(kernel, point).inputs.items()}
    values[name].flat[values[name].size // 2] = abs(special) if name == "v" else special
    outputs, report = launch(kernel, point, inputs=values, max_cycles=1_000_000)
    wrong = {n: (outputs[n], exact) for n, (exact, _) in report.expected.items()}
    assert report.is_correct, wrong


@pytest.mark.parametrize("scale", [100, 1e4])
@pytest.mark.parametrize(("kernel", "point", "name"), CASES[:4], ids=[c[0] for c in CASES[:4]])
def test_large_values_that_saturate_are_right_and_called_so(kernel, point, name, scale):
    values = program(kernel, point).inputs
    values = values | {name: values[name] * np.float32(scale)}
    _, report = launch(kernel, point, inputs=values, max_cycles=1_000_000)
    assert report.is_correct, report.max_error
    bounds = [np.asarray(bound) for _, bound in report.expected.values()]
    assert all(np.isfinite(bound).all() for bound in bounds)


@pytest.mark.parametrize("aligned", [None, False, True])
@pytest.mark.parametrize("out", [(9, 4), (3, 11), (1, 7), (2, 2)])
def test_interpolation_of_what_is_not_finite_means_what_pytorch_means(aligned, out):
    torch = pytest.importorskip("torch")
    mode = {"mode": "nearest"}
    if aligned is not None:
        mode = {"mode": "bilinear", "align_corners": aligned}
    kernel = f"{mode['mode']}_fw_f32"
    point = IMAGE | {"out": out} | ({} if aligned is None else {"aligned": aligned})
    built = program(kernel, point)
    for special in (np.nan, np.inf, -np.inf):
        values = built.inputs["x"].copy()
        values[0, 1, 2, 3] = special
        ((exact, _),) = built.family.reference(built.arguments, {"x": values}).values()
        golden = torch.nn.functional.interpolate(torch.tensor(values).double(), out, **mode)
        np.testing.assert_allclose(exact, golden.numpy(), rtol=1e-12, atol=1e-12)


def test_what_is_not_finite_has_no_error():
    one = Near(np.array([np.inf, 2.0]), np.array([np.nan, 0.5]))
    assert one.error.tolist() == [0, 0.5]
    assert one.tanh().value[0] == 1
    assert one.tanh().error[0] < 1e-6
