"""All kernels of FP16 and bfloat16: their instructions, and their results at odd sizes."""

import re

import numpy as np
import pytest
from ml_dtypes import finfo

from docs.kernel_equations import EQUATIONS
from tests.trainlib.primitives import WARM, check
from trainlib.launch import launch, program
from trainlib.primitive.element import HALVES
from trainlib.registry import KERNELS

NAMES = [name for name in KERNELS if name.endswith(("f16", "bf16"))]
OF_FORMAT = re.compile(r"^(?:f|vf)[a-z]+(?:\.r)?(?:\.[a-z]+)*\.(?:h|ah|b)(?:\.\w+)?$")
SCALAR = {f"f{stem}.{x}" for stem in ("add", "sub", "mul") for x in ("h", "ah")}
SCALAR |= {f"f{stem}.{x}" for stem in ("madd", "msub", "nmadd", "nmsub") for x in ("h", "ah")}
PAIRS = {
    f"vf{stem}{repeated}.{x}"
    for stem in (
        "add",
        "sub",
        "mul",
        "mac",
        "mre",
        "min",
        "max",
        "sgnj",
        "sgnjn",
        "sgnjx",
        "lt",
        "eq",
    )
    for repeated in ("", ".r")
    for x in ("h", "ah")
}
CONVERSIONS = {f"fcvt.s.{x}" for x in ("h", "ah")} | {f"fcvt.{x}.s" for x in ("h", "ah")}
ALLOWED = SCALAR | PAIRS | CONVERSIONS
"""What RI5CY's RTL executes as the ISA says, of the small floats: see isa.extensions.flex_v."""
MOVED = (
    *("transpose", "pad", "residual", "embedding_fw", "nearest_fw", "slice", "concat"),
    "maxpool2d_bw",  # of windows that share no element
)
"""Kernels that compute nothing."""
FLAGS = re.compile(r"\b(?:fflags|fcsr)\b")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", NAMES)
def test_a_kernel_of_halves_uses_what_the_rtl_executes_right(kernel):
    listing = program(kernel, dict(EQUATIONS[kernel][1]), WARM).listing()
    code = [re.sub("[^\0-~]", " ", line) for line in listing.splitlines() if line[:1] != "#"]
    mnemonics = {line.split()[2] for line in code if len(line.split()) > 2}
    of_format = {word for word in mnemonics if OF_FORMAT.match(word)}
    assert of_format <= ALLOWED
    assert not any(FLAGS.search(line) for line in code)
    assert of_format or kernel.startswith(MOVED)


SHAPE = {"shape": (3, 5, 7)}
TILE = {"d0": 2, "d1": 17}
ODD: dict[str, tuple[dict, ...]] = {
    **dict.fromkeys(
        "relu_fw relu_bw sigmoid_fw sigmoid_bw tanh_fw tanh_bw silu_fw silu_bw swiglu_fw swiglu_bw "
        "exp log erf sqrt rsqrt reciprocal neg sin cos atan log1p expm1 round floor".split(),
        ({"shape": (1,)}, SHAPE, {"shape": (2, 131), "cores": 3}, {"shape": (5, 41), "tile": TILE}),
    ),
}
ODD["residual_bw"] = ODD["relu_bw"]
ODD["add"] = ODD["multiply"] = (
    {"a": (1,)},
    {"a": (3, 5, 67)},
    {"a": (3, 5, 66), "b": (5, 1)},
    {"a": (1,), "b": (4, 6)},
    {"a": (3, 5, 7), "b": (7,), "cores": 3},
    {"a": (7, 12), "b": (12,), "tile": {"d0": 2, "d1": 5}},
)
ODD["subtract"] = ODD["divide"] = (
    *ODD["add"],
    {"a": (5, 1), "b": (3, 5, 66)},
    {"a": (3, 4, 1), "b": (4, 6), "tile": {"d0": 2, "d2": 4}},
)
ODD["add"] += ({"a": (3, 5, 67), "relu": True}, {"a": (4, 2), "b": (2,), "relu": True})
ODD["transpose"] = (
    {"shape": (7, 5), "axes": (1, 0)},
    {"shape": (3, 5, 6), "axes": (1, 0, 2)},
    {"shape": (3, 4, 5), "axes": (2, 0, 1), "tile": {"d1": 3, "d2": 2}},
)
ODD["pad"] = (
    {"shape": (5, 3), "before": (1, 2), "after": (0, 1), "value": 1.3},
    {"shape": (3, 4), "before": (0, 2), "after": (1, 0), "tile": {"d1": 3}},
)
ODD["slice"] = (
    {"shape": (5, 9), "start": (1, 2), "size": (3, 6)},
    {"shape": (5, 12), "start": (1, 3), "size": (3, 8)},
    {"shape": (2, 5, 9), "start": (0, 1, 0), "step": (1, 2, 3), "size": (2, 2, 3)},
    {"shape": (4, 1), "start": (0, 0), "step": (1, 0), "size": (4, 10)},
    {"shape": (4, 1), "start": (0, 0), "step": (1, 0), "size": (4, 7), "cores": 3},
    {"shape": (7, 11), "start": (1, 1), "size": (6, 9), "tile": {"d0": 4, "d1": 5}},
)
ODD["concat"] = (
    {"shape": (3, 11), "axis": 1, "sizes": (4, 7)},
    {"shape": (3, 12), "axis": 1, "sizes": (4, 8)},
    {"shape": (7, 5), "axis": 0, "sizes": (1, 4, 2), "cores": 3},
    {"shape": (7, 9), "axis": 1, "sizes": (3, 6), "tile": {"d0": 2, "d1": 4}},
)
ODD["dropout"] = (SHAPE | {"p": 0.3}, {"shape": (7, 101), "tile": {"d0": 2}}, {"shape": (1,)})
RATES: tuple[dict, ...] = ({"lr": 0.1}, {"lr": 1e-6}, {"lr": "operand", "weight_decay": 0.1})
ODD["sgd"] = tuple({**how, **rate} for how, rate in zip(ODD["relu_fw"][1:], RATES, strict=True))
ODD["sgd_momentum"] = tuple({**how, "momentum": 0.9} for how in ODD["sgd"])
ODD["accumulate"] = ODD["relu_fw"] + ({**SHAPE, "scale": 0.3},)
ODD["adam"] = ODD["adamw"] = ODD["relu_fw"] + ({**SHAPE, "lr": "operand", "weight_decay": 0.1},)
ODD["reduce"] = (
    {"shape": (3, 5, 67), "axes": (0, 2)},
    {"shape": (3, 67), "axes": (0, 1), "what": "max"},
    {"shape": (13, 67), "axes": (0,), "tile": {"d0": 3, "d1": 33}, "what": "mean"},
    {"shape": (7, 9), "axes": (1,), "tile": {"d0": 2, "d1": 4}, "what": "max"},
)
ODD["softmax_fw"] = ODD["softmax_bw"] = (
    {"shape": (7, 33)},
    {"shape": (1, 130), "split": "columns"},
    {"shape": (3, 7, 5), "axis": 1},
    {"shape": (9, 7), "tile": {"d0": 2}},
    {"shape": (3, 50), "tile": {"d1": 17}},
)
ODD["mse_loss"] = ODD["l1_loss"] = (SHAPE, {"shape": (7, 33), "tile": {"d0": 2}})
for name in ("berhu_loss", "bce_loss", "bce_logits_loss"):
    ODD[name] = ODD["mse_loss"]
ODD["huber_loss"] = tuple({**how, "delta": 0.7} for how in ODD["mse_loss"])
MAP = {"b": 2, "c": 6, "hw": 7}
for name in ("batchnorm", "instancenorm", "groupnorm", "batchnorm_frozen"):
    groups = {"groups": 3} if name == "groupnorm" else {}
    for step in ("fw", "bw", "apply") if name != "batchnorm_frozen" else ("fw", "bw"):
        ODD[f"{name}_{step}"] = (
            MAP | groups,
            MAP | groups | {"layout": "hwc", "relu": True, "split": "columns"},
            MAP | groups | {"tile": {"hw": 3}},
            MAP | groups | {"hw": 8, "relu": True},
            MAP | groups | {"b": 1, "hw": 133, "relu": True, "split": "columns"},
            MAP | groups | {"hw": 8, "relu": True},
            MAP | groups | {"b": 1, "hw": 133, "relu": True, "split": "columns"},
        )
for name in ("layernorm", "rmsnorm"):
    for step in ("fw", "bw", "apply"):
        ODD[f"{name}_{step}"] = (
            {"rows": 5, "columns": 7},
            {"rows": 3, "columns": 27, "tile": {"columns": 9}},
        )
IMAGE = {"b": 2, "c": 3, "h": 7, "w": 9}
WIDE = {"c": 2, "h": 13, "w": 14, "kernel": 12, "stride": 1}
for name in ("maxpool2d_fw", "maxpool2d_bw", "avgpool2d_fw", "avgpool2d_bw"):
    ODD[name] = (
        IMAGE | {"kernel": 2},
        IMAGE | {"kernel": 3, "stride": 2, "pad": 1, "layout": "hwc"},
        IMAGE | {"kernel": 3, "stride": 2, "pad": 1, "tile": {"y": 2, "c": 1}},
        WIDE,
        WIDE | {"stride": 12, "layout": "hwc"},
    )
ODD["embedding_fw"] = ODD["embedding_bw"] = tuple(
    {"entries": 11, "columns": columns, "tokens": 13, **tile}
    for columns in (8, 9)
    for tile in ({}, {"tile": {"entries": 4, "columns": 5, "tokens": 6}})
)
ODD["cross_entropy_loss"] = tuple(
    {"b": 5, "classes": 33, "is_soft": is_soft, **how}
    for is_soft in (False, True)
    for how in (
        {"classes": 7},
        {"b": 1, "split": "columns"},
        {"tile": {"b": 2}},
        {"tile": {"b": 2, "classes": 9}},
    )
)
SEQUENCE = {"steps": 3, "inputs": 5, "hidden": 7}
for name in ("rnn_fw", "rnn_bw", "lstm_fw", "lstm_bw", "gru_fw", "gru_bw"):
    ODD[name] = (SEQUENCE | {"batch": 2}, SEQUENCE | {"hidden": 9, "tile": {"sums": 4}})
ODD["mhsa_fw"] = ODD["mhsa_bw"] = (
    {"length": 5, "embed": 7, "heads": 2, "size": 3, "batch": 2},
    {"length": 5, "embed": 7, "tile": {"rows": 3}},
)
RESIZED = {"b": 2, "c": 3, "h": 5, "w": 7}
for name in ("nearest_fw", "nearest_bw", "bilinear_fw", "bilinear_bw"):
    ODD[name] = (
        RESIZED | {"out": (10, 14)},
        RESIZED | {"out": (8, 5), "layout": "hwc"},
        RESIZED | {"out": (3, 15), "tile": {"y": 2, "c": 2}},
    )
for name in ("leaky_relu_fw", "leaky_relu_bw"):
    ODD[name] = tuple(SHAPE | {"slope": slope} for slope in (0.01, 1.5, -0.5, 0.0))
for name in ("gelu_fw", "gelu_bw"):
    ODD[name] = tuple(SHAPE | {"approximate": form} for form in ("none", "tanh"))
for name in ("abs_fw", "abs_bw", "softplus_fw", "softplus_bw", "elu_fw", "elu_bw"):
    ODD[name] = ODD["relu_fw"]
LIMITS: tuple[dict, ...] = ({"low": -0.3}, {"high": 0.7}, {"low": -1.0, "high": 0.1})
for name in ("clamp_fw", "clamp_bw"):
    ODD[name] = tuple(SHAPE | limits for limits in LIMITS)
POINTS = [(f"{stem}_{half.name}", how) for half in HALVES for stem in ODD for how in ODD[stem]]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kernel", "how"), POINTS, ids=str)
def test_results_are_those_of_single_precision_rounded_once(kernel, how):
    """Or bit for bit those of the type, see each kernel's reference; nothing else is written."""
    check(kernel, how)


def test_every_kernel_of_halves_is_tested_at_odd_sizes():
    elsewhere = ("cast_", "matmul", "linear", "conv2d", "pwconv2d", "dwconv2d", "tconv2d")
    assert {name.rpartition("_")[0] for name in NAMES if not name.startswith(elsewhere)} == {*ODD}


FLAT = {"shape": (49,)}
SPECIAL: dict[str, dict] = {
    **dict.fromkeys("relu_fw relu_bw accumulate tanh_fw exp abs_fw abs_bw".split(), FLAT),
    **{name: FLAT | {"low": -0.1, "high": 2.0} for name in ("clamp_fw", "clamp_bw")},
    **{name: {"a": (49,)} for name in ("subtract", "divide")},
    "sgd": FLAT | {"lr": 0.5},
}


@pytest.mark.parametrize("half", HALVES, ids=lambda half: half.name)
@pytest.mark.parametrize("stem", SPECIAL)
def test_nans_infinities_and_zeros_go_through(stem, half):
    family = KERNELS[f"{stem}_{half.name}"]
    how = SPECIAL[stem]
    names = [n for n, t in family.tensors(family.arguments(**how)).items() if t.role != "out"]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.0, -2.0], np.float32)
    each = (grid.flatten().astype(half.dtype) for grid in np.meshgrid(special, special))
    check(family.name, how, dict(zip(names, each, strict=False)))


@pytest.mark.parametrize("half", HALVES, ids=lambda half: half.name)
def test_the_distance_from_float64_is_that_of_the_types_rounding(half):
    """Of what is computed in single precision: half a unit in the last place, nearly."""
    unit = float(finfo(half.dtype).eps) / 2
    for stem in ("sigmoid_fw", "tanh_fw", "gelu_fw", "silu_fw", "exp", "rsqrt"):
        of = KERNELS[f"{stem}_f32"], {"shape": (500,), "seed": 5}
        point = of[0].arguments(**of[1])
        x = np.abs(of[0].random(point)["x"]).astype(half.dtype) + half.dtype.type(0.1)
        outputs, _ = launch(f"{stem}_{half.name}", of[1], WARM, {"x": x})
        exact, _ = of[0].reference(point, {"x": x})["y"]
        distance = np.abs(outputs["y"].astype(np.float64) - exact) / np.abs(exact)
        assert unit / 2 < distance.max() < unit * 1.001
