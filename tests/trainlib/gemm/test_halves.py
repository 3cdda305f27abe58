"""Products of FP16 and bfloat16: bit for bit those of the reference, at every shape and form."""

from itertools import product

import numpy as np
import pytest

from firmware.builder import KernelError
from isa.extensions.flex_v import ALWAYS_WRONG
from soc.config.toml import ConfigError
from tests.trainlib.primitives import GUARD, LONGEST, WARM
from trainlib.launch import launch, program
from trainlib.primitive.element import BF16, ELEMENTS, F16

HALVES = (F16, BF16)
FORMS = [
    {"trans_a": a, "trans_b": b, **start}
    for a, b in product((False, True), repeat=2)
    for start in ({}, {"accumulate": True}, {"bias": "row"}, {"bias": "column"})
]
SHAPES = [(1, 1, 1), (7, 5, 3), (25, 36, 13), (9, 1, 6), (3, 300, 5), (16, 8, 41)]


def patterns(array: np.ndarray) -> np.ndarray:
    """The bits of elements."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def check(kernel: str, arguments: dict, inputs: dict | None = None) -> None:
    """Run it; what it leaves is the reference's bit for bit, and nothing else is written."""
    outputs, report = launch(kernel, arguments, WARM, inputs, guard=GUARD, max_cycles=LONGEST)
    assert (report.result.exit.reason, report.result.exit.code) == ("exit", 0)
    assert report.result.warnings == ()  # nothing is used that RI5CY's RTL computes wrong
    assert report.stray_writes == []
    for name, (expected, bound) in report.expected.items():
        assert bound == 0.0
        wanted = expected.astype(np.float32).astype(outputs[name].dtype)
        is_nan = np.isnan(expected)
        assert np.isnan(outputs[name].astype(np.float32)[is_nan]).all()
        np.testing.assert_array_equal(patterns(outputs[name])[~is_nan], patterns(wanted)[~is_nan])


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
@pytest.mark.sampled
def test_a_product_is_the_references_bit_for_bit(element, form):
    for n, k, m in SHAPES:
        check(f"matmul_{element.name}", {"n": n, "k": k, "m": m, **form})


STARTS = [{}, {"bias": True}, {"accumulate": True}]
LAYERS = [("fw", start) for start in STARTS] + [("ig", {}), ("ig", {"accumulate": True})]
LAYERS += [("wg", start) for start in [*STARTS, {"bias": True, "accumulate": True}]]


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize(("step", "how"), LAYERS, ids=str)
@pytest.mark.sampled
def test_the_steps_of_a_linear_layer_are_the_references(element, step, how):
    for batch, inputs, outputs in [(1, 1, 1), (5, 23, 17), (3, 40, 9), (2, 1, 6)]:
        shape = {"batch": batch, "inputs": inputs, "outputs": outputs}
        check(f"linear_{step}_{element.name}", {**shape, **how})
    shape = {"batch": 7, "inputs": 30, "outputs": 22}
    check(f"linear_{step}_{element.name}", {**shape, **how, "tile": {"co": 8}})


def test_what_linear_layers_of_halves_lack_is_refused():
    shape = {"inputs": 4, "outputs": 4}
    with pytest.raises(KernelError, match=r"^linear_fw_bf16: accumulate with a bias; use one "):
        program("linear_fw_bf16", {**shape, "accumulate": True, "bias": True})
    with pytest.raises(ConfigError, match=r"scale = 0.5: no such field"):
        program("linear_wg_f16", {**shape, "scale": 0.5})
    with pytest.raises(KernelError, match=r"needs \d+ bytes of L1 with buffers = 2, .* none fits$"):
        program("linear_fw_f16", {"inputs": 20_000, "outputs": 3})


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("trans_b", [False, True])
def test_tiles_change_no_bit(element, trans_b):
    shape = {"n": 37, "k": 41, "m": 43, "trans_b": trans_b}
    tile = {"n": 16, "m": 24} if trans_b else {"n": 16, "m": 24, "k": 9}
    check(f"matmul_{element.name}", {**shape, "tile": tile})


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
def test_nans_infinities_and_signs_of_zeros_go_through(element):
    numbers = np.random.default_rng(1)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 6e-8, -65504.0, 1.0], np.float32)
    inputs = {"A": numbers.choice(special, (9, 6)), "B": numbers.choice(special, (6, 7))}
    with np.errstate(invalid="ignore"):
        inputs = {name: array.astype(element.dtype) for name, array in inputs.items()}
    check(f"matmul_{element.name}", {"n": 9, "k": 6, "m": 7}, inputs)
    zeros = {"A": -np.zeros((3, 2), np.float32), "B": np.ones((2, 3), np.float32)}
    check(f"matmul_{element.name}", {"n": 3, "k": 2, "m": 3}, zeros)


def test_the_distance_from_exact_sums_is_that_of_the_types():
    distances = {}
    for element in ELEMENTS:
        arguments = {"n": 32, "k": 32, "m": 32, "seed": 3}
        outputs, report = launch(f"matmul_{element.name}", arguments, WARM)
        a, b = (values_in_double(element, name) for name in "AB")
        distances[element.name] = float(abs(outputs["C"].astype(np.float64) - a @ b).max())
        assert report.is_correct
    assert distances["f32"] < 1e-5 < distances["f16"] < 0.05 < distances["bf16"] < 0.5


def values_in_double(element, name):
    built = program(f"matmul_{element.name}", {"n": 32, "k": 32, "m": 32, "seed": 3}, WARM)
    return built.inputs[name].astype(np.float64)


def test_they_use_nothing_that_the_rtl_computes_wrong():
    built = program("matmul_bf16", {"n": 9, "k": 7, "m": 5, "bias": "row"}, "pulp")
    words = {*built.listing().split()}
    assert "vfmac.r.ah" in words
    assert not words & ALWAYS_WRONG.keys()


def test_halves_need_small_floats_in_x_registers():
    shape = {"n": 4, "k": 4, "m": 4}
    with pytest.raises(KernelError, match=r"^matmul_f16: the chip's cores have no small floats; "):
        program("matmul_f16", shape, "pulp-cv32e40p")
    chip = WARM.model_copy(update={"core": WARM.core.model_copy(update={"float_registers": "f"})})
    with pytest.raises(KernelError, match=r"^matmul_f16: halves are for floats in x registers; "):
        program("matmul_f16", shape, chip)


def test_a_start_and_a_bias_at_a_time_are_refused():
    with pytest.raises(KernelError, match=r"^matmul_f16: accumulate with a bias; use one of them"):
        program("matmul_f16", {"n": 2, "k": 2, "m": 2, "accumulate": True, "bias": "row"})
