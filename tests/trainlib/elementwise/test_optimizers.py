"""Optimisers: every shape and team, steps in a row, the contract of addresses, torch's steps."""

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.config.toml import ConfigError
from tests.trainlib.primitives import WARM, check, check_in_registers, check_with_torch
from trainlib.launch import checked, launch, program
from trainlib.registry import family_of

POINTS = (
    ("sgd_f32", {"lr": 0.1}),
    ("sgd_f32", {"lr": 0.1, "weight_decay": 0.01}),
    ("sgd_momentum_f32", {"lr": 0.1, "momentum": 0.9}),
    ("sgd_momentum_f32", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("accumulate_f32", {}),
    ("accumulate_f32", {"scale": 0.25}),
    ("adam_f32", {}),
    ("adam_f32", {"weight_decay": 0.01, "betas": (0.8, 0.99), "eps": 1e-6}),
    ("adamw_f32", {}),
    ("adamw_f32", {"weight_decay": 0.1}),
)
BY_WORD = tuple(
    (name, options | {"lr": "operand"}) for name, options in POINTS if not name.startswith("acc")
)
BY_HALVES = (
    ("sgd_f32", {"lr": 0.1, "gradient": "bf16"}),
    ("sgd_f32", {"lr": "operand", "gradient": "f16", "unscale": True, "weight_decay": 0.01}),
    ("sgd_momentum_f32", {"lr": "operand", "momentum": 0.9, "unscale": True}),
    ("adam_f32", {"lr": "operand", "gradient": "bf16", "unscale": True, "weight_decay": 0.01}),
    ("adamw_f32", {"gradient": "f16"}),
    ("sgd_f32", {"lr": 0.1, "gradient": "bf16", "halves": "bf16"}),
    ("sgd_momentum_f32", {"lr": 0.1, "momentum": 0.9, "halves": "f16"}),
    ("adam_f32", {"lr": "operand", "gradient": "bf16", "unscale": True, "halves": "bf16"}),
)
SHAPES = (
    {"shape": (1,)},
    {"shape": (7,), "cores": 3},
    {"shape": (3, 5, 7), "cores": 8},
    {"shape": (2, 131), "cores": 4},
    {"shape": (16,), "cores": 1, "unroll": 1},
)


def each(points):
    return pytest.mark.parametrize(("name", "options"), points, ids=str)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@each(POINTS + BY_WORD + BY_HALVES)
@pytest.mark.sampled
def test_every_shape_and_team_is_right(name, options, shape):
    check(name, options | shape)


@each([POINTS[1], POINTS[3], POINTS[5], POINTS[6], POINTS[9], *BY_WORD[-4:], *BY_HALVES])
def test_addresses_may_be_in_registers(name, options):
    check_in_registers(name, options | {"shape": (37,), "cores": 4})


@each(BY_HALVES)
def test_gradients_of_halves_are_cast_and_scaled_first(name, options):
    """To the bit what the plain update makes of the gradient that PyTorch widens and scales."""
    kind = {"f16": "float16", "bf16": "bfloat16"}.get(options.get("gradient", ""))
    torch = pytest.importorskip("torch")
    g = torch.randn(33, generator=torch.Generator().manual_seed(4))
    narrow = g.to(getattr(torch, kind)) if kind else g
    family = family_of(name)
    how = options | {"shape": (33,)}
    inputs = dict(family.random(checked(name, how)))
    inputs["g"] = narrow.float().numpy().astype(inputs["g"].dtype)
    found = check(name, how, inputs)
    plain = {n: v for n, v in how.items() if n not in ("gradient", "unscale", "halves")}
    scale = inputs.pop("inverse", np.ones(1, np.float32))
    wanted = check(name, plain, inputs | {"g": narrow.float().numpy() * scale})
    for output, value in wanted.items():
        np.testing.assert_array_equal(found[output], value)
    if "halves" in options:
        np.testing.assert_array_equal(found["h"], found["w"].astype(found["h"].dtype))


def test_weights_in_halves_take_gradients_like_them():
    message = "^sgd_bf16: gradient, unscale and halves are for weights in single precision; take "
    with pytest.raises(KernelError, match=message):
        launch("sgd_bf16", {"shape": (3,), "lr": 0.1, "unscale": True}, WARM)


@each(POINTS)
def test_nan_and_infinity_go_through(name, options):
    special = np.array([np.nan, np.inf, -np.inf, 1.0, 0.0], np.float32)
    inputs = {state: np.ones(5, np.float32) for state in "wbmv"} | {"g": special, "x": special}
    inputs["corrections"] = np.array([0.5, 0.5], np.float32)
    if name == "accumulate_f32":
        inputs["g"] = inputs["w"]
    used = {"sgd_f32": "w g", "sgd_momentum_f32": "w b g", "accumulate_f32": "g x"}
    names = used.get(name, "w m v corrections g").split()
    check(name, options | {"shape": (5,)}, {n: inputs[n] for n in names})


@each(POINTS[:4] + POINTS[6:])
def test_three_steps_are_torchs(name, options):
    """The states of each step are those that the one before has left, on the chip and in torch."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(7)
    w = random.standard_normal(12).astype(np.float32)
    golden = torch.tensor(w.astype(np.float64), requires_grad=True)
    kinds = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
    optimiser = getattr(torch.optim, kinds[name.split("_")[0]])([golden], **options)
    names = {"sgd_f32": "w", "sgd_momentum_f32": "w b"}.get(name, "w m v").split()
    state = {n: np.zeros(12, np.float32) for n in names} | {"w": w}
    corrections = {"corrections": np.zeros(2, np.float32)}
    betas = {"betas": options["betas"]} if "betas" in options else {}
    for _ in range(3):
        g = random.standard_normal(12).astype(np.float32)
        corrections = check("adam_corrections_f32", betas, corrections)
        more = corrections if "adam" in name else {}
        state = check(name, options | {"shape": (12,)}, state | {"g": g} | more)
        golden.grad = torch.tensor(g.astype(np.float64))
        optimiser.step()
        np.testing.assert_allclose(state["w"], golden.detach().numpy(), rtol=0, atol=3e-6)


@each(POINTS[4:6])
def test_the_reference_of_accumulation_is_torchs(name, options):
    def golden(torch, g, x):
        return g + options.get("scale", 1.0) * x

    check_with_torch(name, options | {"shape": (50,)}, golden)


def test_the_first_corrections_of_adam_are_accurate():
    """1 - beta would be wrong by 6e-5 for 0.999 if beta were rounded to float32 first."""
    outputs = check("adam_corrections_f32", {}, {"corrections": np.zeros(2, np.float32)})
    np.testing.assert_allclose(outputs["corrections"], [0.1, 0.001], rtol=1e-7)
    check_in_registers("adam_corrections_f32", {})


@pytest.mark.parametrize("buffers", [1, 2])
@each([POINTS[3], POINTS[7], POINTS[9], BY_WORD[1]])
def test_tiles_of_weights_in_l2_give_the_same_bits(name, options, buffers):
    shape = {"shape": (7, 50)}
    whole = check(name, options | shape)
    tiles = check(name, options | shape | {"tile": {"d0": 3, "d1": 16}, "buffers": buffers})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)


@pytest.mark.parametrize("kernel", ["adam_f32", "adamw_f32", "adam_corrections_f32", "train_f32"])
def test_means_that_never_change_are_refused(kernel):
    network = {"input": [3], "layers": [{"kind": "relu"}], "lr": 1.0}
    point = {"adam_corrections_f32": {}, "train_f32": network}
    given = point.get(kernel, {"shape": [3]}) | {"betas": [1.0, 0.9]}
    with pytest.raises(ConfigError, match=rf"^{kernel}: betas = \[1.0, 0.9\]: must be less than 1"):
        program(kernel, given)


@each(BY_WORD)
def test_a_rate_in_a_word_gives_what_a_number_gives(name, options):
    """AdamW's 1 - lr weight_decay is rounded once more; bounded by float32's steps of weights."""
    shape, rate = {"shape": (40,)}, np.float32(0.05)
    family = family_of(name)
    number = options | shape | {"lr": float(rate)}
    values = family.random(checked(name, number))
    outputs = check(name, number, values)
    by_word = check(name, options | shape, values | {"lr": np.full(1, rate)})
    most = 2**-23 * np.abs(values["w"]) if name == "adamw_f32" else 0
    for state, expected in outputs.items():
        assert np.all(np.abs(by_word[state] - expected) <= most), state


@pytest.mark.parametrize("lr", [-0.1, "word", float("inf")])
def test_rates_that_are_none_are_refused(lr):
    with pytest.raises(ConfigError, match=r"^sgd_f32: lr.*"):
        program("sgd_f32", {"shape": (3,), "lr": lr})
