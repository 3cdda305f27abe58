"""Every primitive on every kind of core, run without time; and a listing of a small kernel."""

import numpy as np
import pytest

from soc.chip.spec import load_chip
from tests.firmware.machine import Machine
from trainlib.launch import program

CHIPS = {
    "ri5cy-f": load_chip("pulp", {"core.float_registers": "f"}),
    "cv32e40p-x": load_chip("pulp-cv32e40p"),
    "cv32e40p-f": load_chip("pulp-cv32e40p", {"core.float_registers": "f"}),
}
SHAPE = {"shape": (7,), "cores": 2}
MAP = {"b": 2, "c": 3, "hw": 5, "cores": 2}
SEQUENCE = {"steps": 2, "inputs": 3, "hidden": 2, "batch": 2, "cores": 2}
ROWS = {"rows": 3, "columns": 5, "cores": 2}
POOL = {"c": 3, "h": 5, "w": 4, "kernel": (2, 2), "stride": (1, 2), "pad": (1, 0), "cores": 2}
PLANES = {"b": 2, "c": 3, "h": 3, "w": 2, "out": (2, 3), "cores": 2}
BOTH = ("fw", "bw")
MAPS = ("relu", "leaky_relu", "sigmoid", "tanh", "silu", "gelu", "swiglu")
ELEMENTS = (
    *("exp", "log", "erf", "sqrt", "rsqrt", "reciprocal", "dropout", "adam", "adamw"),
    *("atan", "expm1", "floor", "log1p"),
)
POINTS = [
    *((f"{name}_{p}_f32", SHAPE) for name in MAPS for p in BOTH),
    ("leaky_relu_fw_f32", SHAPE | {"slope": -0.5}),
    *((f"{name}_f32", SHAPE) for name in ELEMENTS),
    *((f"{name}_loss_f32", SHAPE) for name in ("mse", "l1", "berhu")),
    ("sgd_f32", SHAPE | {"lr": 0.1, "weight_decay": 0.1}),
    ("sgd_momentum_f32", SHAPE | {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("accumulate_f32", SHAPE),
    ("adam_corrections_f32", {"cores": 2}),
    *((f"softmax_{p}_f32", {"shape": (3, 5), "cores": 2}) for p in BOTH),
    ("softmax_fw_f32", {"shape": (1, 5), "cores": 2, "split": "columns"}),
    *(
        (f"{n}_{p}_f32", MAP)
        for n in ("batchnorm", "batchnorm_frozen", "instancenorm")
        for p in BOTH
    ),
    *((f"groupnorm_{p}_f32", MAP | {"groups": 3, "layout": "hwc"}) for p in BOTH),
    *((f"{name}_{p}_f32", ROWS) for name in ("layernorm", "rmsnorm") for p in BOTH),
    ("cross_entropy_loss_f32", {"b": 3, "classes": 4, "cores": 2}),
    ("cross_entropy_loss_f32", {"b": 3, "classes": 4, "is_soft": True, "cores": 2}),
    *((f"{name}pool2d_{p}_f32", POOL) for name in ("max", "avg") for p in BOTH),
    *((f"{name}_{p}_f32", PLANES) for name in ("nearest", "bilinear") for p in BOTH),
    *((f"embedding_{p}_f32", {"entries": 4, "columns": 3, "tokens": 5, "cores": 2}) for p in BOTH),
    *((f"{name}_{p}_f32", SEQUENCE) for name in ("rnn", "lstm", "gru") for p in BOTH),
    *((f"mhsa_{p}_f32", {"length": 3, "embed": 4, "heads": 2, "cores": 2}) for p in BOTH),
    ("add_f32", {"a": (3, 1), "b": (1, 5), "cores": 2}),
    ("multiply_f32", {"a": (3, 5), "b": (5,), "cores": 2}),
    ("residual_bw_f32", SHAPE),
    ("transpose_f32", {"shape": (2, 5), "axes": (1, 0), "cores": 2}),
    ("pad_f32", {"shape": (2, 3), "before": (1, 0), "after": (0, 2), "cores": 2}),
    *(
        ("reduce_f32", {"shape": (3, 5), "axes": (1,), "what": w, "cores": 2})
        for w in ("sum", "max")
    ),
]


@pytest.mark.parametrize(("name", "point"), POINTS, ids=str)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.sampled
def test_every_kind_of_core_computes_it(chip, name, point):
    built = program(name, point, CHIPS[chip])
    machine = Machine(built.program, built.isa).run()
    assert machine.code == 0
    for output, (exact, bound) in built.family.reference(built.arguments, built.inputs).items():
        address, tensor = built.outputs[output]
        got = np.frombuffer(machine.read(address, tensor.size), tensor.dtype).astype(np.float64)
        got = got.reshape(tensor.shape)
        with np.errstate(invalid="ignore"):
            is_close = np.abs(got - exact) <= bound
        assert (is_close | (got == exact) | np.isnan(got) & np.isnan(exact)).all(), output
