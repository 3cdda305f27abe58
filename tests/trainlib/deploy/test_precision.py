"""Mixed precision: halves beside single precision, scaled losses, steps that are skipped."""

import copy
import re
import warnings
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from firmware.builder import KernelError  # noqa: E402
from tests.trainlib.primitives import check, check_in_registers  # noqa: E402
from trainlib.deploy import SGD, Adam, DeployError, LossScale, deploy  # noqa: E402
from trainlib.deploy.interpret import Interpreter  # noqa: E402

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8}
HALVES = pytest.mark.parametrize("dtype", TYPES)
CHANNELS = 6
PLACES = 2 * 7 * 5  # terms of the longest sums, which are rounded after each


class Small(nn.Module):
    """What ResNets and DS-CNNs consist of, with an odd number of places."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.depth = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.point = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.out = nn.Linear(CHANNELS, 4)

    def forward(self, x):
        y = F.relu(self.norm(self.stem(x)))
        y = F.relu(self.point(self.depth(y)) + y)
        return self.out(y.mean((2, 3)))


def small(**how):
    """The network on the chip, its module, and a batch."""
    torch.manual_seed(3)
    module = Small()
    batch = torch.randn(2, 3, 7, 5), torch.tensor([1, 3])
    how = {"optimizer": SGD(lr=0.1)} | how
    return deploy(module, loss=F.cross_entropy, batch=batch, **how), module, batch


def gradients(module, batch, dtype=None):
    """PyTorch's loss and gradients: in float64, or by autocast to a type."""
    module = copy.deepcopy(module)
    x, target = batch
    if dtype is None:
        loss = F.cross_entropy(module.double()(x.double()), target)
    else:
        with torch.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(module(x), target)
    loss.backward()
    return loss.item(), {n: p.grad.double().numpy() for n, p in module.named_parameters()}


@HALVES
def test_gradients_are_as_near_to_float64_as_rounded_sums_can_be(dtype):
    """Errors of n roundings, independent of each other: sqrt(n) of one; twice that is allowed."""
    deployed, module, batch = small(dtype=dtype, loss_scale=256.0)
    trained = deployed.train([batch], gradients=True)
    loss, exact = gradients(module, batch)
    cast, _ = gradients(module, batch, TYPES[dtype])
    assert abs(trained.losses[0] - loss) <= ROUNDING[dtype] * loss
    assert abs(trained.losses[0] - cast) <= ROUNDING[dtype] * loss
    for name, gradient in exact.items():
        error = np.linalg.norm(trained.gradients[0][name] - gradient)
        assert error <= 2 * PLACES**0.5 * ROUNDING[dtype] * np.linalg.norm(gradient), name


@HALVES
def test_a_step_is_what_the_kernels_references_say_in_their_order(dtype):
    deployed, _, batch = small(dtype=dtype, loss_scale=256.0)
    built = deployed.built(keeps_gradients=True)
    trained = deployed.train([batch], gradients=True)
    graph = built.schedule.reference
    inputs = dict(zip(built.schedule.inputs, (b.numpy() for b in batch), strict=True))
    meant = Interpreter(graph, inputs)
    meant.run()
    ours = np.concatenate([g.ravel() for g in trained.gradients[0].values()])
    theirs = np.concatenate([meant.get(g).ravel() for g in graph.gradients.values()])
    same = np.isclose(ours, theirs, rtol=1e-6, atol=0)
    assert same.mean() > 0.9  # others are rounded the other way, where a norm's sum is a tie
    assert np.abs(ours - theirs).max() <= 2 * ROUNDING[dtype] * np.abs(theirs).max()


def test_a_scale_changes_no_bit_where_nothing_is_too_small():
    plain, _, batch = small(dtype="bf16")
    scaled, _, _ = small(dtype="bf16", loss_scale=2.0**20)
    runs = [each.train([batch], gradients=True) for each in (plain, scaled)]
    assert runs[0].losses == runs[1].losses
    for name, gradient in runs[0].gradients[0].items():
        np.testing.assert_array_equal(runs[1].gradients[0][name], gradient)


def test_gradients_below_the_least_half_are_there_with_a_scale():
    def found(scale):
        torch.manual_seed(0)
        module = nn.Linear(4, 2)
        batch = torch.randn(2, 4) * 1e-3, torch.tensor([[0.0, 1.0], [2.0, 0.0]])
        how = {"loss": lambda y, t: F.mse_loss(y, t) * 1e-5, "optimizer": SGD(lr=0.1)}
        deployed = deploy(module, batch=batch, dtype="f16", loss_scale=scale, **how)
        return deployed.train([batch], gradients=True).gradients[0]["weight"]

    assert not found(None).any()
    assert found(2.0**16).all()
    assert np.isfinite(found(2.0**16)).all()  # the scale itself is more than the largest half


class Deep(nn.Module):
    """Layers whose loss is a mean over many elements: small gradients."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 1, 3, padding=1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x) * 0.01


@pytest.mark.parametrize(
    ("dtype", "scale", "is_warned"),
    [
        ("f16", None, True),
        ("f16", 2.0**14, False),
        ("f16", "dynamic", False),
        ("bf16", None, False),
    ],
)
def test_gradients_that_f16_loses_are_warned_of(dtype, scale, is_warned):
    torch.manual_seed(0)
    batch = torch.randn(2, 1, 16, 16), 0.02 * torch.randn(2, 1, 16, 16)
    how = {"loss": lambda y, t: 0.02 * F.mse_loss(y, t), "optimizer": SGD(lr=0.1)}
    deployed = deploy(Deep(), batch=batch, dtype=dtype, loss_scale=scale, **how)
    with warnings.catch_warnings(record=True) as found:
        trained = deployed.train([batch], gradients=True)
        deployed.train([batch])  # it is said once
    zeros = {name: float((g == 0).mean()) for name, g in trained.gradients[0].items()}
    assert any(share >= 0.5 for share in zeros.values()) == is_warned
    if not is_warned:
        assert found == []
        return
    lost = deployed.underflow(batch)
    assert {name: pytest.approx(share, abs=0.02) for name, share in zeros.items() if share} == lost
    assert [str(warning.message) for warning in found] == [
        "gradients of 3 of 4 parameters have zeros in f16 that they have not in f32, 100 % of "
        "layers.0.weight's in the first batch: numbers below 6e-8 are lost; scale the loss "
        "(loss_scale='dynamic', --loss-scale dynamic), or take bf16"
    ]


def test_a_layer_that_is_too_wide_in_halves_is_named_with_the_way_out():
    module, batch = nn.Sequential(nn.Linear(16200, 4)), (torch.randn(1, 16200), torch.tensor([1]))
    how = {"loss": F.cross_entropy, "batch": batch, "optimizer": SGD(lr=0.1), "dtype": "bf16"}
    message = (
        r"^layer 0 forward, linear_fw_bf16: the smallest tile of n = 1, co = \d needs \d+ bytes of "
        r"L1 with buffers = 2, \d+ are free; none fits; take f32 for the layer, "
        r'dtypes = \{"0": "f32"\}, a chip with a larger l1\.size, or a smaller layer$'
    )
    with pytest.raises(KernelError, match=message):
        deploy(module, **how).built()
    assert deploy(module, **how, dtypes={"0": "f32"}).built().faults() == []


class Mixed(nn.Module):
    """What moves and compares values, with a softmax that is made of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(10, 4)

    def forward(self, x):
        y = self.first(x).clamp(-1.0, 2.0)
        low, high = y[:, :5], y[:, 3:]
        y = torch.cat([low - high, low / (1 + high.abs())], 1)
        return F.log_softmax(self.last(y), 1).exp()


def test_what_moves_and_compares_values_has_halves_and_powers_single_precision():
    torch.manual_seed(1)
    module, batch = Mixed(), (torch.randn(3, 6), torch.rand(3, 4))
    how = {"loss": F.mse_loss, "batch": batch, "optimizer": SGD(lr=0.1)}
    deployed = deploy(module, dtype="bf16", **how)
    forward = [(n.op, n.element) for n in deployed.schedule.nodes if n.step == "forward"]
    halves = {op for op, element in forward if element == "bf16"}
    assert {"clamp_fw", "slice", "concat", "divide", "abs_fw", "linear_fw"} <= halves
    last = [each for each in forward if each[0] in ("subtract", "exp", "log")]
    assert [element for _, element in last] == ["bf16", *["f32"] * (len(last) - 1)]
    trained = deployed.train([batch], gradients=True)
    loss = F.mse_loss(module.double()(batch[0].double()), batch[1].double())
    loss.backward()
    assert abs(trained.losses[0] - loss.item()) <= ROUNDING["bf16"] * loss.item()
    for name, parameter in module.named_parameters():
        exact = parameter.grad.numpy()
        error = np.linalg.norm(trained.gradients[0][name] - exact)
        assert error <= 6 * ROUNDING["bf16"] * np.linalg.norm(exact), name


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


def test_recurrent_layers_learn_in_halves():
    torch.manual_seed(2)
    module, batch = Cell(), (torch.randn(2, 4, 5), torch.tensor([0, 2]))
    how = {"loss": F.cross_entropy, "batch": batch, "optimizer": SGD(lr=0.1)}
    trained = deploy(module, dtype="bf16", **how).train([batch])
    exact, _ = gradients(module, batch)
    assert abs(trained.losses[0] - exact) <= ROUNDING["bf16"] * exact


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1), Adam(clip_norm=1.0)], ids=["sgd", "adam"])
@pytest.mark.sampled
def test_a_step_that_overflows_is_skipped_and_the_scale_backs_off(accumulate, optimizer):
    scale = LossScale(initial=2.0**30, backoff=2.0**-8, interval=2)
    deployed, module, batch = small(
        dtype="f16", loss_scale=scale, accumulate=accumulate, optimizer=optimizer
    )
    assert deployed.built().faults() == []
    first = deployed.train([batch] * accumulate)
    for name, parameter in module.named_parameters():
        np.testing.assert_array_equal(first.weights[name], parameter.detach().numpy())
    assert list(first.states["loss_scale"]) == [2.0**22, 2.0**-22]
    assert list(first.states["loss_scale.steps"]) == [0, 1, 1]
    more = deployed.train([batch] * 5 * accumulate, states=first.states, weights=first.weights)
    scale, inverse = more.states["loss_scale"]
    _, skipped, times = more.states["loss_scale.steps"]
    assert scale * inverse == 1
    assert (skipped, times < 5) == (0, True)
    assert more.weights["out.weight"].tolist() != module.out.weight.tolist()
    assert more.losses[-1] < more.losses[0]


def test_layers_have_types_of_their_own_and_optimisers_single_precision():
    deployed, module, batch = small(dtype="bf16", dtypes={"out": "f32", "depth": "f16"})
    types = {(n.layer, n.op): n.element for n in deployed.schedule.nodes}
    assert types["out", "linear_fw"] == types["out", "linear_wg"] == "f32"
    assert types["stem", "conv2d_fw"] == "bf16"
    assert types["depth", "conv2d_fw"] == types["depth", "conv2d_ig"] == "f16"
    assert {element for (_, op), element in types.items() if op == "sgd"} == {"f32"}
    exact, _ = gradients(module, batch)
    trained = deployed.train([batch])
    assert abs(trained.losses[0] - exact) <= ROUNDING["bf16"] * exact
    assert trained.weights["stem.weight"].dtype == np.float32
    evaluated = deployed.evaluate([batch])
    assert evaluated.outputs[0].dtype == np.float32


@cache
def single_precision(steps):
    """Bytes of L2 without halves, and the loss after so many steps."""
    deployed, _, batch = small()
    return deployed.memory.peak, deployed.train([batch] * steps).losses[-1]


@HALVES
@pytest.mark.parametrize("scale", [None, LossScale(initial=256.0)], ids=["none", "dynamic"])
@pytest.mark.sampled
def test_memory_is_right_and_losses_stay_those_of_single_precision(dtype, scale):
    mixed, _, batch = small(dtype=dtype, loss_scale=scale)
    peak, wanted = single_precision(20)
    assert mixed.built().faults() == []
    assert mixed.memory.peak < peak
    loss = mixed.train([batch] * 20).losses[-1]
    assert abs(loss - wanted) <= max(0.02 * wanted, 0.01)


@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.5), Adam()], ids=["sgd", "adam"])
def test_updates_that_take_halves_leave_what_casts_and_updates_do(optimizer):
    deployed, _, batch = small(dtype="f16", loss_scale=256.0, optimizer=optimizer)
    fused, apart = (deployed.train([batch] * 2, gradients=g) for g in (False, True))
    ops = [[n.op for n in deployed.built(keeps_gradients=g).schedule.nodes] for g in (False, True)]
    assert ops[0].count("cast") < ops[1].count("cast")
    assert deployed.built().faults() == []
    assert fused.losses == apart.losses
    for name, weight in apart.weights.items():
        np.testing.assert_array_equal(fused.weights[name], weight)


def test_halves_that_updates_keep_are_those_of_weights_that_are_given():
    deployed, _, batch = small(dtype="bf16")
    first = deployed.train([batch])
    values = deployed.built().schedule.graph.values
    assert {v.role for v in values.values() if v.name.endswith("weight.bf16")} == {"state"}
    assert not any(name.endswith(".bf16") for name in first.states)
    further = deployed.train([batch], weights=first.weights, states=first.states)
    whole = deployed.train([batch] * 2)
    assert further.losses == whole.losses[1:]
    for name, weight in whole.weights.items():
        np.testing.assert_array_equal(further.weights[name], weight)


@pytest.mark.parametrize("total", [1.5, np.nan, -np.inf])
@pytest.mark.parametrize("scale", [8.0, 2.0**-126, 2.0**126])
def test_the_scale_changes_as_pytorchs_does(total, scale):
    how = {"growth": 4.0, "backoff": 0.25, "interval": 3}
    inputs = {
        "total": np.array([total], np.float32),
        "scale": np.array([scale, 1 / scale], np.float32),
        "steps": np.array([2, 1, 7], np.int32),
    }
    found = check("change_scale_f32", how, inputs)
    wanted, steps = torch.tensor([scale]), torch.tensor([2], dtype=torch.int32)
    overflow = torch.tensor([0.0 if np.isfinite(total) else 1.0])
    torch._amp_update_scale_(wanted, steps, overflow, how["growth"], how["backoff"], 3)
    within = 2.0**-126 <= wanted.item() <= 2.0**126
    assert found["scale"][0] == (wanted.item() if within else np.float32(scale))
    assert found["steps"].tolist() == [steps.item(), int(overflow), 7 + int(overflow)]


def test_the_scale_takes_addresses_in_registers():
    check_in_registers("change_scale_f32", {"interval": 1})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"dtype": "fp8"}, "dtype = 'fp8'; there are f32, f16, bf16"),
        ({"dtypes": {"out": "int8"}}, "dtypes: out = 'int8'; there are f32, f16, bf16"),
        (
            {"dtypes": {"head.*": "f16"}},
            "dtypes: no layer fits 'head.*'; there are stem, norm, relu, depth, point, add, "
            "relu_1, mean, out, cross_entropy_loss",
        ),
        (
            {"dtype": "f16", "master": "f16"},
            "master = 'f16'; parameters and the optimiser's state are f32: halves lose updates "
            "that are small beside them",
        ),
        (
            {"dtype": "f8", "dtypes": {"out": "f9"}, "loss_scale": []},
            "dtype = 'f8'; there are f32, f16, bf16\n"
            "dtypes: out = 'f9'; there are f32, f16, bf16\n"
            "loss_scale = []; it is a power of two, 'dynamic' or a LossScale",
        ),
        ({"loss_scale": "auto"}, "loss_scale = 'auto'; it is a number, or 'dynamic'"),
        (
            {"loss_scale": 1000.0},
            f"loss scale: loss_scale = 1000; it is a power of two from {2.0**-126:g} to "
            f"{2.0**126:g}",
        ),
    ],
)
def test_what_is_no_precision_is_said(how, message):
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        small(**how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"growth": 3.0}, "loss scale: growth = 3; it is a power of two from 2 to 65536"),
        (
            {"backoff": 1.0},
            "loss scale: backoff = 1; it is a power of two from 1.52588e-05 to 0.5",
        ),
        ({"interval": 0}, "loss scale: interval = 0; it is 1 or more"),
    ],
)
def test_what_is_no_loss_scale_is_said(how, message):
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        LossScale(**how)


class Odd(nn.Module):
    """Parts of values, parameters and constants that begin inside of a word, where halves are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.lstm = nn.Linear(5, 5), nn.LSTM(5, 5, 2, bidirectional=True)
        self.bias, self.token = nn.Parameter(torch.randn(3, 5)), nn.Parameter(torch.randn(4))
        self.register_buffer("scale", torch.rand(3, 5) + 1)

    def forward(self, x):
        y = self.first(x)
        y, z = y[:, 0], y[:, 1:] + self.bias[1] * self.scale[1]
        state = y[None].expand(4, -1, -1), self.bias[None, 1].expand(4, 2, 5)
        y = self.lstm(z.transpose(0, 1), state)[0][1].flatten()
        return torch.cat((y[:5], self.token, y[5:]))


@HALVES
def test_halves_may_begin_inside_of_a_word(dtype):
    torch.manual_seed(4)
    module, batch = Odd(), (torch.randn(2, 4, 5), torch.randn(24))
    deployed = deploy(module, loss=F.mse_loss, batch=batch, optimizer=SGD(lr=0.1), dtype=dtype)
    assert deployed.built(keeps_gradients=True).faults() == []
    trained = deployed.train([batch], gradients=True)
    wide = copy.deepcopy(module).double()
    loss = F.mse_loss(wide(batch[0].double()), batch[1].double())
    loss.backward()
    assert trained.losses[0] == pytest.approx(loss.item(), rel=4 * ROUNDING[dtype])
    for name, parameter in wide.named_parameters():
        exact = parameter.grad.numpy()
        error = np.linalg.norm(trained.gradients[0][name] - exact)
        assert error <= 2 * PLACES**0.5 * ROUNDING[dtype] * np.linalg.norm(exact), name


def equal(m, x):
    """Comparisons of what is equal, and extremes."""
    y = m.a(x).relu()
    z = torch.maximum(y, m.b(x).relu()) + (y > 0) * y.amax(1, True) + torch.where(y >= 0, y, x)
    z = z * (y != 0) + y.sign()
    return z - 0.1 * (z + y / 3).max()


@HALVES
def test_comparisons_of_what_is_equal_are_right_in_halves(dtype):
    torch.manual_seed(5)
    module = nn.Module()
    module.a, module.b = nn.Linear(5, 5), nn.Linear(5, 5)
    module.forward = lambda x: equal(module, x)
    batch = torch.randn(3, 5), torch.randn(3, 5)
    deployed = deploy(module, loss=F.mse_loss, batch=batch, optimizer=SGD(lr=0.1), dtype=dtype)
    trained = deployed.train([batch], gradients=True)
    loss = F.mse_loss(module(batch[0]), batch[1])
    loss.backward()
    assert trained.losses[0] == pytest.approx(loss.item(), rel=4 * ROUNDING[dtype])
    for name, parameter in module.named_parameters():
        exact = parameter.grad.double().numpy()
        error = np.linalg.norm(trained.gradients[0][name] - exact)
        assert error <= 2 * PLACES**0.5 * ROUNDING[dtype] * np.linalg.norm(exact), name
