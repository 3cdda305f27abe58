"""Networks learn on the simulated chip what they learn in float64; how long each layer takes."""

import re

import numpy as np
import pytest

from benchmarks.network import L1_SIZE, REGIONS, SPEED_UP, TRAINING, VARIANTS, second_step
from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.run import run_program
from trainlib.launch import checked, launch, program
from trainlib.network.error_bounds import expected
from trainlib.registry import family_of

ROOMY = load_chip("pulp", {"l1.size": L1_SIZE})
CONVOLUTION = {"kind": "conv2d", "outputs": 3, "kernel": 3}
SMALL = {
    "input": [2, 7, 6],
    "batch": 3,
    "lr": 0.05,
    "steps": 2,
    "layers": [
        {**CONVOLUTION, "stride": (2, 1), "padding": (1, 0, 1, 1), "bias": True},
        {"kind": "sigmoid"},
        {"kind": "conv2d", "outputs": 5, "kernel": (1, 2)},
        {"kind": "gelu"},
        {"kind": "linear", "outputs": 7, "bias": True},
        {"kind": "tanh"},
        {"kind": "linear", "outputs": 2},
    ],
}

LR = float(np.float32(SMALL["lr"]))
"""The word that the chip has."""


def patches(x: np.ndarray) -> np.ndarray:
    """All 3 x 3 windows of X[c, h, w] as rows [places, c * 9]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return windows.transpose(1, 2, 0, 3, 4).reshape(-1, x.shape[0] * 9)


def trained(values, lr, steps):
    """The tutorial's network in float64, from the definitions: losses and weights."""
    x, t = values["X"][0].astype(float), values["T"][0].astype(float)
    first, last = (values[n].astype(float) for n in ("weight_0", "weight_2"))
    losses = []
    for _ in range(steps):
        columns = patches(x)
        y = first.reshape(16, -1) @ columns.T
        hidden = np.maximum(y, 0).reshape(-1)
        difference = last @ hidden - t
        losses.append(np.mean(difference**2))
        slope = 2 / t.size * difference
        back = (last.T @ slope).reshape(16, -1) * (y > 0)
        last = last - lr * np.outer(slope, hidden)
        first = first - lr * (back @ columns).reshape(first.shape)
    return losses, first, last


@pytest.mark.parametrize("chip", ["pulp", ROOMY], ids=["L2", "L1"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.sampled
def test_the_tutorials_network_learns_as_in_float64(variant, chip):
    arguments = {**TRAINING, **VARIANTS[variant], "steps": 4}
    built = program("train_f32", arguments, chip)
    result = run_program(built.program, chip)
    report = built.report(result)
    assert report.is_correct
    losses, first, last = trained(built.inputs, TRAINING["lr"], 4)
    np.testing.assert_allclose(report.outputs["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(report.outputs["weight_0"], first, atol=1e-6)
    np.testing.assert_allclose(report.outputs["weight_2"], last, atol=1e-6)
    assert losses[3] < losses[0] / 10
    printed = re.findall(r"^step (\d): loss (\S+)$", result.console, re.MULTILINE)
    assert [int(step) for step, _ in printed] == [1, 2, 3, 4]
    np.testing.assert_allclose([float(loss) for _, loss in printed], losses, rtol=3e-5)


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("how", [{}, {"momentum": 0.9}, {"kernels": "naive"}], ids=str)
@pytest.mark.sampled
def test_every_layer_learns_on_every_team(how, cores):
    _, report = launch("train_f32", SMALL | how | {"cores": cores}, guard=64)
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize("l1_size", [L1_SIZE, 0x3000])
@pytest.mark.parametrize("padding", [(1, 0, 0, 0), (0, 2, 3, 1), 2])
@pytest.mark.sampled
def test_lines_and_places_that_windows_skip_beside_a_wide_padding_are_skipped(padding, l1_size):
    wide = {"kind": "conv2d", "outputs": 2, "kernel": (1, 2), "stride": (2, 1), "padding": padding}
    point = SMALL | {"layers": [CONVOLUTION, wide, {"kind": "tanh"}]}
    _, report = launch("train_f32", point, load_chip("pulp", {"l1.size": l1_size}))
    assert report.is_correct


@pytest.mark.parametrize("how", [{"momentum": 0.9}, {"optimizer": "adam", "steps": 1}, {}], ids=str)
def test_a_bias_that_a_norm_takes_away_is_no_mistake(how):
    layers = [CONVOLUTION | {"bias": True}, {"kind": "batchnorm"}, {"kind": "relu"}]
    report = launch("train_f32", SMALL | how | {"layers": layers})[1]
    assert report.is_correct


def test_weights_of_a_norm_that_another_takes_away_are_no_mistake():
    layers = [{"kind": "groupnorm", "groups": 1}, {"kind": "batchnorm"}, {"kind": "sigmoid"}]
    layers += [{"kind": "layernorm"}, {"kind": "avgpool2d", "kernel": (2, 3), "stride": (2, 1)}]
    point = {"input": (1, 11, 11), "batch": 4, "lr": 0.1, "steps": 3, "seed": 1001}
    report = launch("train_f32", point | {"layers": layers})[1]
    assert report.is_correct


def test_weights_that_many_products_are_added_to_are_as_right_as_float32_is():
    layers = [CONVOLUTION, {"kind": "conv2d", "outputs": 1, "kernel": 2}, {"kind": "tanh"}]
    point = {"input": [1, 12, 12], "batch": 4, "lr": 1e-4, "steps": 3, "layers": layers}
    assert launch("train_f32", point)[1].is_correct


SLOW = {
    "input": [1, 12, 12],
    "steps": 1,
    "layers": [
        {**CONVOLUTION, "outputs": 4, "bias": True},
        {"kind": "tanh"},
        {"kind": "linear", "outputs": 6, "bias": True},
    ],
}


@pytest.mark.parametrize("kernels", ["best", "naive"])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("lr", [1e-4, 1e-5])
@pytest.mark.sampled
def test_updates_are_of_whole_gradients_and_rounded_once(lr, batch, kernels):
    """Products that are added to weights one by one are off by 6 to 40 roundings of weights."""
    point = checked("train_f32", SLOW | {"lr": lr, "batch": batch, "kernels": kernels})
    values = family_of("train_f32").random(point)
    outputs, report = launch("train_f32", point.model_dump(), inputs=values)
    assert report.is_correct
    for name, (exact, bound) in expected(point, values).items():
        if name != "loss":
            step = exact - values[name]
            rounding = 2.0**-24 * np.abs(values[name]) + 2e-5 * np.abs(step).max()
            assert np.all(np.abs(outputs[name] - exact) <= 1.5 * rounding), name
            lossy = np.float32(values[name] + np.float32(0.59 * step))
            assert np.any(np.abs(lossy - exact) > bound), "41 % less is noticed"


def test_every_layer_learns_from_l2():
    tight = load_chip("pulp", {"l1.size": 0x3000})
    _, report = launch("train_f32", SMALL, tight)
    assert report.is_correct
    assert report.regions["linear_4 backward"].count == SMALL["steps"]
    assert "dma_in" in report.regions
    assert report.regions["compute"].count > 3 * SMALL["steps"]


def test_the_network_of_torch_is_the_same():
    torch = pytest.importorskip("torch")
    built = program("train_f32", SMALL)
    values = {name: torch.tensor(a.astype(np.float64)) for name, a in built.inputs.items()}
    learned = {n: v.requires_grad_() for n, v in values.items() if n not in ("X", "T")}
    f = torch.nn.functional
    losses = []
    for _ in range(SMALL["steps"]):
        y = f.pad(values["X"], (1, 1, 1, 0))
        y = f.conv2d(y, learned["weight_0"], learned["bias_0"], (2, 1)).sigmoid()
        y = f.gelu(f.conv2d(y, learned["weight_2"])).flatten(1)
        y = f.linear(
            f.linear(y, learned["weight_4"], learned["bias_4"]).tanh(), learned["weight_6"]
        )
        loss = f.mse_loss(y, values["T"])
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(learned.values()))
        with torch.no_grad():
            for value, gradient in zip(learned.values(), gradients, strict=True):
                value -= LR * gradient
    expected = built.family.reference(built.arguments, built.inputs)
    np.testing.assert_allclose(expected["loss"][0], losses, rtol=1e-9)
    for name, value in learned.items():
        np.testing.assert_allclose(expected[name][0], value.detach(), rtol=1e-9)


def test_a_wrong_step_would_be_seen():
    built = program("train_f32", SMALL)
    again = program("train_f32", SMALL | {"lr": 0.0501})
    report = built.report(run_program(again.program))
    assert not report.is_correct


def test_regions_are_those_of_layers_and_steps():
    _, report = launch("train_f32", SMALL | {"kernels": "naive"}, ROOMY)
    forward = "conv2d_0 sigmoid_1 conv2d_2 gelu_3 linear_4 tanh_5 linear_6 loss".split()
    wanted = ["dma_in", "compute", *(f"{layer} forward" for layer in forward)]
    for layer in reversed(forward[:-1]):
        wanted.append(f"{layer} backward")
        if layer.startswith(("conv", "linear")):
            wanted.append(f"{layer} update")
    assert list(report.regions) == [*wanted, "dma_out"]
    assert report.regions["gelu_3 backward"].count == SMALL["steps"]


def test_our_best_kernels_are_as_much_faster_than_the_published_as_wanted():
    cycles = second_step(ROOMY)["compute"]
    assert REGIONS["total"].eight / cycles >= SPEED_UP


def test_naive_products_of_one_core_take_what_was_published():
    """The FPU, loads and hardware loops decide them, nothing else: 4 cycles a multiply-add."""
    cycles = second_step(ROOMY, cores=1, **VARIANTS["naive"])
    for name in ("Linear forward", "Linear backward", "total"):
        ours = sum(cycles[own] for own in REGIONS[name].ours)
        assert ours == pytest.approx(REGIONS[name].one, rel=0.05), name


CLASSES = [*SMALL["layers"][:-1], {"kind": "linear", "outputs": 4}]
DECAY = {"weight_decay": 0.1}
NESTEROV = {"momentum": 0.8, "nesterov": True} | DECAY
TRAININGS = (
    ({"loss": "l1"}, "SGD", {}),
    ({"loss": "berhu"}, "SGD", {}),
    ({"loss": "cross_entropy", "layers": CLASSES} | DECAY, "SGD", DECAY),
    ({"momentum": 0.9}, "SGD", {"momentum": 0.9}),
    (NESTEROV, "SGD", NESTEROV),
    ({"optimizer": "adam", "betas": (0.8, 0.95)}, "Adam", {"betas": (0.8, 0.95)}),
    ({"optimizer": "adamw", "eps": 1e-6} | DECAY, "AdamW", {"eps": 1e-6} | DECAY),
)


@pytest.mark.parametrize("how", [t[0] for t in TRAININGS], ids=lambda how: "-".join(how))
@pytest.mark.sampled(2)
def test_every_loss_and_optimizer_learns_as_in_float64(how):
    _, report = launch("train_f32", SMALL | how, ROOMY, guard=64)
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize("number", [2, 4, 6])
@pytest.mark.sampled(2)
def test_losses_and_optimizers_work_from_l2(number):
    tight = load_chip("pulp", {"l1.size": 0x3000})
    _, report = launch("train_f32", SMALL | TRAININGS[number][0], tight)
    assert report.is_correct


POOLS = SMALL | {
    "loss": "cross_entropy",
    "layers": [
        {"kind": "conv2d", "outputs": 3, "kernel": 3, "padding": 1},
        {"kind": "maxpool2d", "kernel": (3, 2), "stride": (2, 2), "padding": (1, 0)},
        {"kind": "conv2d", "outputs": 2, "kernel": 1},
        {"kind": "avgpool2d", "kernel": 2, "stride": 1},
        {"kind": "linear", "outputs": 5},
    ],
}


@pytest.mark.parametrize(("kernels", "l1_size"), [("best", L1_SIZE), ("naive", 0x3000)])
def test_pooling_layers_learn_as_in_float64(kernels, l1_size):
    chip = load_chip("pulp", {"l1.size": l1_size})
    _, report = launch("train_f32", POOLS | {"kernels": kernels}, chip)
    assert report.is_correct
    assert report.regions["maxpool2d_1 backward"].count >= 1


def test_pooling_layers_are_torchs():
    torch = pytest.importorskip("torch")
    built = program("train_f32", POOLS)
    values = {n: torch.tensor(a.astype(float)) for n, a in built.inputs.items() if n != "T"}
    learned = {n: v.requires_grad_() for n, v in values.items() if n != "X"}
    step, f = torch.optim.SGD(learned.values(), lr=LR), torch.nn.functional
    for _ in range(POOLS["steps"]):
        y = f.conv2d(values["X"], learned["weight_0"], padding=1)
        y = f.conv2d(f.max_pool2d(y, (3, 2), (2, 2), (1, 0)), learned["weight_2"])
        y = f.linear(f.avg_pool2d(y, 2, 1).flatten(1), learned["weight_4"])
        step.zero_grad()
        f.cross_entropy(y, torch.tensor(built.inputs["T"]).long()).backward()
        step.step()
    expected = built.family.reference(built.arguments, built.inputs)
    for name, value in learned.items():
        np.testing.assert_allclose(expected[name][0], value.detach(), rtol=1e-9)


NORMS = SMALL | {
    "layers": [
        {"kind": "rmsnorm"},
        {"kind": "conv2d", "outputs": 4, "kernel": 3},
        {"kind": "groupnorm", "groups": 2},
        {"kind": "instancenorm", "eps": 1e-3},
        {"kind": "linear", "outputs": 6},
        {"kind": "layernorm"},
        {"kind": "linear", "outputs": 2},
    ],
}


@pytest.mark.parametrize("l1_size", [L1_SIZE, 0x3000])
def test_norm_layers_learn_as_in_float64(l1_size):
    chip = load_chip("pulp", {"l1.size": l1_size})
    _, report = launch("train_f32", NORMS, chip)
    assert report.is_correct
    assert report.regions["groupnorm_2 backward"].count >= 1


def test_norm_layers_are_torchs():
    torch = pytest.importorskip("torch")
    built = program("train_f32", NORMS)
    values = {n: torch.tensor(a.astype(float)) for n, a in built.inputs.items()}
    w = {n: v.requires_grad_() for n, v in values.items() if n not in ("X", "T")}
    step, f = torch.optim.SGD(w.values(), lr=LR), torch.nn.functional
    for _ in range(NORMS["steps"]):
        x = values["X"].flatten(1)
        y = x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * w["weight_0"]
        y = f.conv2d(y.reshape(values["X"].shape), w["weight_1"])
        y = f.group_norm(y, 2, w["weight_2"], w["bias_2"], 1e-5)
        y = f.instance_norm(y, weight=w["weight_3"], bias=w["bias_3"], eps=1e-3).flatten(1)
        y = f.linear(y, w["weight_4"])
        y = f.linear(f.layer_norm(y, (6,), w["weight_5"], w["bias_5"]), w["weight_6"])
        step.zero_grad()
        f.mse_loss(y, values["T"]).backward()
        step.step()
    expected = built.family.reference(built.arguments, built.inputs)
    for name, value in w.items():
        np.testing.assert_allclose(expected[name][0], value.detach(), rtol=1e-8, atol=1e-12)


BATCHES = SMALL | {
    "layers": [
        {"kind": "conv2d", "outputs": 4, "kernel": 3},
        {"kind": "batchnorm", "momentum": 0.3, "eps": 1e-4},
        {"kind": "relu"},
        {"kind": "batchnorm"},
        {"kind": "linear", "outputs": 2},
    ],
}


@pytest.mark.parametrize("l1_size", [L1_SIZE, 0x3000])
def test_a_batchs_norms_and_running_means_are_torchs(l1_size):
    torch = pytest.importorskip("torch")
    chip = load_chip("pulp", {"l1.size": l1_size})
    built = program("train_f32", BATCHES, chip, guard=64)
    report = built.report(run_program(built.program, chip))
    assert report.is_correct
    assert report.stray_writes == []
    values = {n: torch.tensor(a.astype(float)) for n, a in built.inputs.items()}
    w = {n: v.requires_grad_() for n, v in values.items() if n not in ("X", "T")}
    step, f = torch.optim.SGD(w.values(), lr=LR), torch.nn.functional
    means, variances = ([make(4).double() for _ in range(2)] for make in (torch.zeros, torch.ones))
    for _ in range(BATCHES["steps"]):
        y = f.conv2d(values["X"], w["weight_0"])
        given = means[0], variances[0], w["weight_1"], w["bias_1"]
        y = f.batch_norm(y, *given, training=True, momentum=0.3, eps=1e-4).relu()
        given = means[1], variances[1], w["weight_3"], w["bias_3"]
        y = f.batch_norm(y, *given, training=True, momentum=0.1, eps=1e-5).flatten(1)
        step.zero_grad()
        f.mse_loss(f.linear(y, w["weight_4"]), values["T"]).backward()
        step.step()
    wanted = {name: value.detach() for name, value in w.items()}
    for number, mean, variance in zip((1, 3), means, variances, strict=True):
        wanted |= {f"running_mean_{number}": mean, f"running_var_{number}": variance}
    for name, value in wanted.items():
        np.testing.assert_allclose(report.expected[name][0], value, rtol=1e-8, atol=1e-12)


def berhu(torch, y, t):
    d = (y - t).abs()
    c = 0.2 * d.max().detach()
    return torch.where(d > c, (d * d + c * c) / (2 * c), d).mean()


@pytest.mark.parametrize(("how", "optimizer", "options"), TRAININGS, ids=str)
def test_every_loss_and_optimizer_is_torchs(how, optimizer, options):
    torch = pytest.importorskip("torch")
    built = program("train_f32", SMALL | how | {"steps": 3})
    values = {n: torch.tensor(a.astype(float)) for n, a in built.inputs.items() if n != "T"}
    target = torch.tensor(built.inputs["T"])
    learned = {n: v.requires_grad_() for n, v in values.items() if n != "X"}
    step = getattr(torch.optim, optimizer)(learned.values(), lr=LR, **options)
    f, losses = torch.nn.functional, []
    loss_of = {
        "mse": f.mse_loss,
        "l1": f.l1_loss,
        "berhu": lambda y, t: berhu(torch, y, t),
        "cross_entropy": lambda y, t: f.cross_entropy(y, t.long()),
    }[how.get("loss", "mse")]
    for _ in range(3):
        y = f.pad(values["X"], (1, 1, 1, 0))
        y = f.conv2d(y, learned["weight_0"], learned["bias_0"], (2, 1)).sigmoid()
        y = f.gelu(f.conv2d(y, learned["weight_2"])).flatten(1)
        y = f.linear(y, learned["weight_4"], learned["bias_4"]).tanh()
        loss = loss_of(f.linear(y, learned["weight_6"]), target)
        losses.append(loss.item())
        step.zero_grad()
        loss.backward()
        step.step()
    expected = built.family.reference(built.arguments, built.inputs)
    np.testing.assert_allclose(expected["loss"][0], losses, rtol=1e-6)
    for name, value in learned.items():
        np.testing.assert_allclose(expected[name][0], value.detach(), rtol=1e-6, atol=1e-9)
        for own, theirs in (("b", "momentum_buffer"), ("m", "exp_avg"), ("v", "exp_avg_sq")):
            kept = step.state[value].get(theirs)
            assert (kept is not None) == (f"optimizer.{own}.{name}" in built.outputs)
            if kept is not None:
                exact = expected[f"optimizer.{own}.{name}"][0]
                np.testing.assert_allclose(exact, kept, rtol=1e-6, atol=1e-9)


CLIPS = ({"clip_norm": 0.05}, {"clip_value": 0.01}, {"clip_norm": 0.5, "clip_value": 0.02})


@pytest.mark.parametrize("how", CLIPS, ids=str)
def test_clipped_gradients_are_torchs(how):
    torch = pytest.importorskip("torch")
    layers = [{"kind": "linear", "outputs": 6}, {"kind": "tanh"}, {"kind": "linear", "outputs": 2}]
    built = program("train_f32", SMALL | how | {"layers": layers})
    report = built.report(run_program(built.program))
    assert report.is_correct
    values = {n: torch.tensor(a.astype(float)) for n, a in built.inputs.items()}
    w = {n: v.requires_grad_() for n, v in values.items() if n not in ("X", "T")}
    step, clip = torch.optim.SGD(w.values(), lr=LR), torch.nn.utils
    for _ in range(SMALL["steps"]):
        y = torch.nn.functional.linear(values["X"].flatten(1), w["weight_0"]).tanh()
        step.zero_grad()
        torch.nn.functional.mse_loss(y @ w["weight_2"].T, values["T"]).backward()
        before = [v.grad.clone() for v in w.values()]
        if "clip_norm" in how:
            clip.clip_grad_norm_(w.values(), how["clip_norm"])
        if "clip_value" in how:
            clip.clip_grad_value_(w.values(), how["clip_value"])
        assert any((v.grad != g).any() for v, g in zip(w.values(), before, strict=True))
        step.step()
    for name, value in w.items():
        np.testing.assert_allclose(report.expected[name][0], value.detach(), rtol=1e-6)


REFUSED = (
    (
        {"loss": "cross_entropy", "layers": SMALL["layers"][:1]},
        "cross_entropy gets [3, 3, 6]; it takes a number for each class: let a linear layer be the "
        "last",
    ),
    (
        {"momentum": 0.5, "optimizer": "adam"},
        "adam has no momentum; leave it out, or take sgd",
    ),
    (
        {"layers": [{"kind": "layernorm", "groups": 2}]},
        "layer 0, layernorm: groups = 2; groupnorm has groups, and no other",
    ),
    ({"nesterov": True}, "nesterov without a momentum; it looks ahead along that"),
    ({"warm": True}, "it has no warm; leave it out: take more steps"),
    (
        {"input": [5], "layers": [CONVOLUTION]},
        "layer 0, conv2d: its input is [5]; it takes channels, height and width",
    ),
    (
        {"input": [1, 2, 5], "layers": [CONVOLUTION]},
        "layer 0, conv2d: conv2d: a kernel that reaches over 3 lines does not fit into 2 of them "
        "with a padding of 0 and 0",
    ),
)


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=str)
def test_what_is_no_network_is_refused(change, message):
    with pytest.raises(KernelError, match=f"^{re.escape('train_f32: ' + message)}$"):
        program("train_f32", SMALL | change)


def test_an_unknown_layer_is_told():
    with pytest.raises(ConfigError, match=r"^train_f32: layers\[0\]: kind = \"rulu\": .*'relu'.*$"):
        program("train_f32", SMALL | {"layers": [{"kind": "rulu"}]})


@pytest.mark.parametrize("ignored", [{"buffers": 1}, {"tile": {"rows": 4}}], ids=str)
def test_arguments_of_tiles_are_refused(ignored):
    [name] = ignored
    with pytest.raises(ConfigError, match=rf"^train_f32: {name}( = 1)?: no such field; "):
        program("train_f32", SMALL | ignored)
