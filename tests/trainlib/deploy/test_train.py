"""Training on the chip, batch by batch, held against PyTorch and against the graph's meaning."""

import copy
import re
from hashlib import sha256

import numpy as np
import pytest

from soc.chip.spec import load_chip
from soc.run import run_program

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainlib.deploy import SGD, Adam, AdamW, DeployError, deploy  # noqa: E402
from trainlib.deploy.program_store import KEEPS_NOTHING  # noqa: E402


def convolutional(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)),
    )


def data(steps=3, batch=2):
    torch.manual_seed(5)
    return torch.randn(steps, batch, 1, 6, 6), torch.randint(0, 3, (steps, batch))


def trained_by_torch(
    module, batches, optimizer, accumulate=1, dtype=torch.float32, mean=False, clip=lambda p: None
):
    """Losses, gradients of each step, and the module, trained."""
    module = copy.deepcopy(module).to(dtype)
    optimizer = optimizer(module.parameters())
    losses, gradients = [], []
    for number, (x, t) in enumerate(batches):
        loss = F.cross_entropy(module(x.to(dtype)), t)
        (loss / accumulate if mean else loss).backward()
        losses.append(loss.item())
        if (number + 1) % accumulate == 0:
            named = module.named_parameters()
            gradients.append({n: p.grad.numpy().astype(np.float64) for n, p in named})
            clip(module.parameters())
            optimizer.step()
            optimizer.zero_grad()
    return losses, gradients, module


@pytest.fixture(scope="module")
def plain():
    """A network, its batches, and its deployment."""
    module, (x, t) = convolutional(), data()
    how = {"loss": F.cross_entropy, "optimizer": SGD(lr=0.1, momentum=0.9)}
    return module, list(zip(x, t, strict=True)), deploy(module, batch=(x[0], t[0]), **how)


def test_losses_gradients_and_weights_are_those_of_torch(plain):
    module, batches, deployed = plain
    trained = deployed.train(batches, gradients=True)

    def optimizer(p):
        return torch.optim.SGD(p, lr=0.1, momentum=0.9)

    narrow = trained_by_torch(module, batches, optimizer)
    losses, gradients, after = trained_by_torch(module, batches, optimizer, dtype=torch.float64)
    np.testing.assert_allclose(trained.losses, losses, 0, 1e-5)
    for name, exact in gradients[0].items():
        bound = 4 * np.abs(narrow[1][0][name] - exact).max() + 1e-7 * np.abs(exact).max()
        assert np.abs(trained.gradients[0][name] - exact).max() <= bound, name
    for name, exact in after.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_allclose(trained.weights[name], exact, 0, 2e-6, err_msg=name)


def test_the_same_batches_give_the_same_cycles_and_layers_add_up(plain):
    _, batches, deployed = plain
    first, again = (deployed.train(batches).report for _ in range(2))
    assert first.cycles == again.cycles
    batch = first.batches[1]
    assert {layer.step for layer in batch.layers} == {"forward", "backward", "update"}
    assert 0.95 * batch.cycles < sum(layer.cycles for layer in batch.layers) < batch.cycles
    layers = {(layer.layer, layer.step) for layer in first.layers}
    assert ("0", "update") in layers
    assert ("5", "update") in layers


def test_both_engines_agree():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    batches = [(torch.randn(1, 4), torch.randn(1, 3)) for _ in range(2)]
    how = {"loss": F.mse_loss, "optimizer": SGD(lr=0.1), "cores": 1}
    deployed = deploy(module, batch=batches[0], **how)
    compiled = deployed.train(batches)
    deployed.engine = "event"
    event = deployed.train(batches)
    assert event.report.cycles == compiled.report.cycles
    assert event.losses == compiled.losses
    for name, array in compiled.weights.items():
        np.testing.assert_array_equal(event.weights[name], array)


def test_training_goes_on_from_weights_and_states(plain):
    _, batches, deployed = plain
    whole = deployed.train(batches)
    part = deployed.train(batches[:1])
    rest = deployed.train(batches[1:], weights=part.weights, states=part.states)
    assert part.losses + rest.losses == whole.losses
    for name, array in whole.weights.items():
        np.testing.assert_array_equal(rest.weights[name], array)


def test_weights_go_back_into_the_module(plain):
    module, batches, deployed = plain
    trained = deployed.train(batches[:1])
    module = copy.deepcopy(module)
    module.load_state_dict(trained.state_dict, strict=False)
    np.testing.assert_array_equal(module[0].weight.detach().numpy(), trained.weights["0.weight"])


def test_an_evaluation_is_that_of_the_module_in_evaluation_mode(plain):
    module, batches, deployed = plain
    trained = deployed.train(batches)
    found = deployed.evaluate(batches[:2])
    module = copy.deepcopy(module)
    module.load_state_dict(trained.state_dict, strict=False)
    module.eval()
    for number, (x, t) in enumerate(batches[:2]):
        y = module(x)
        np.testing.assert_allclose(found.outputs[number], y.detach().numpy(), 0, 1e-5)
        assert found.losses[number] == pytest.approx(F.cross_entropy(y, t).item(), abs=1e-5)


def test_a_schedule_changes_the_learning_rate_between_steps(plain):
    _, batches, deployed = plain
    still = deployed.train(batches, lr=lambda step: 0.1 if step == 0 else 0.0)
    once = deployed.train(batches[:1])
    np.testing.assert_array_equal(still.weights["5.weight"], once.weights["5.weight"])


@pytest.mark.parametrize("mean", [False, True])
def test_gradients_of_several_batches_add_up(mean):
    module, (x, t) = convolutional(), data(steps=6)
    batches = list(zip(x, t, strict=True))
    how = {"loss": F.cross_entropy, "optimizer": SGD(lr=0.1), "accumulate": 3, "mean": mean}
    trained = deploy(module, batch=batches[0], **how).train(batches, gradients=True)

    def optimizer(p):
        return torch.optim.SGD(p, lr=0.1)

    losses, gradients, after = trained_by_torch(module, batches, optimizer, 3, mean=mean)
    np.testing.assert_allclose(trained.losses, losses, 0, 1e-5)
    assert len(trained.gradients) == 2
    for name, gradient in gradients[0].items():
        np.testing.assert_allclose(trained.gradients[0][name], gradient, 0, 2e-6, err_msg=name)
    np.testing.assert_allclose(trained.weights["5.weight"], after[5].weight.detach(), 0, 2e-6)


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_adam_is_that_of_torch(kind):
    module, (x, t) = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), data()
    batches = list(zip(x, t, strict=True))
    options = {"lr": 0.01, "weight_decay": 0.1}
    deployed = deploy(module, loss=F.cross_entropy, batch=batches[0], optimizer=kind(**options))
    trained = deployed.train(batches)

    def optimizer(p):
        return getattr(torch.optim, kind.__name__)(p, **options)

    _, _, after = trained_by_torch(module, batches, optimizer)
    np.testing.assert_allclose(trained.weights["1.weight"], after[1].weight.detach(), 0, 1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    ("clip_norm", "clip_value", "is_clipped"),
    [(0.3, None, True), (50.0, None, False), (0.5, 0.05, True)],
)
@pytest.mark.sampled
def test_gradients_are_clipped_as_torch_does(clip_norm, clip_value, is_clipped, accumulate):
    module, (x, t) = convolutional(), data(4)
    batches = list(zip(x, t, strict=True))
    clipping = {"clip_norm": clip_norm, "clip_value": clip_value}
    optimizer = SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, **clipping)
    deployed = deploy(
        *(module,),
        **{"loss": F.cross_entropy, "batch": batches[0]},
        **{"optimizer": optimizer, "accumulate": accumulate},
    )
    assert deployed.built().faults() == []
    trained = deployed.train(batches)

    def clip(parameters):
        parameters = list(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        assert (norm > clip_norm) == is_clipped
        if clip_value:
            torch.nn.utils.clip_grad_value_(parameters, clip_value)

    how = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
    of = {"dtype": torch.float64, "clip": clip, "accumulate": accumulate}
    *_, after = trained_by_torch(module, batches, lambda p: torch.optim.SGD(p, **how), **of)
    for name, weight in after.named_parameters():
        np.testing.assert_allclose(trained.weights[name], weight.detach(), 0, 2e-6, err_msg=name)


def test_a_program_with_its_batches_runs_without_a_host(plain):
    _, batches, deployed = plain
    expected = deployed.train(batches)
    built = deployed.with_data(batches)
    result = run_program(built.program, "pulp")
    assert (result.exit.reason, result.exit.code) == ("exit", 0)
    lines = [f"batch {n}: loss {loss:.5e}" for n, loss in enumerate(expected.losses, 1)]
    assert result.console.splitlines() == lines
    weights = built.array_of("5.weight", result.read)
    np.testing.assert_array_equal(weights, expected.weights["5.weight"])


def test_dropout_draws_other_numbers_for_each_batch_and_the_same_ones_again():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    x, t = data()
    batches = [(x[0], t[0])] * 2
    deployed = deploy(module, loss=F.cross_entropy, batch=batches[0], optimizer=SGD(lr=0.0))
    first, again = deployed.train(batches), deployed.train(batches)
    assert first.losses == again.losses
    assert first.losses[0] != first.losses[1]


def test_the_program_is_the_same_twice(plain):
    module, batches, deployed = plain
    how = {"loss": F.cross_entropy, "optimizer": deployed.optimizer}
    again = deploy(module, batch=batches[0], **how)
    again.store = KEEPS_NOTHING
    hashes = {sha256(d.program.to_elf()).hexdigest() for d in (deployed, again)}
    assert len(hashes) == 1


MISTAKES = {
    "shape": (
        lambda x, t: (x[0, :1], t[0]),
        "x: shape [1, 1, 6, 6]; the network has [2, 1, 6, 6]; all batches have as many examples: "
        "leave out the last one if it is shorter",
    ),
    "size": (
        lambda x, t: (x[0, :, :, :5], t[0]),
        "x: shape [2, 1, 5, 6]; the network has [2, 1, 6, 6]",
    ),
    "kind": (lambda x, t: {"x": x[0]}, "a batch is a dict; it is a tuple: (x, target)"),
    "type": (lambda x, t: (x[0], t[0].float()), "target: type float32; it takes int32"),
    "number": (lambda x, t: (x[0],), "a batch of 1 arrays; the network takes x, target"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_batches_that_do_not_fit_are_refused(plain, name):
    wrong, message = MISTAKES[name]
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        plain[2].train([wrong(*data())])


@pytest.mark.parametrize(
    ("lr", "message"),
    [
        (-0.1, "lr = -0.1; it is a finite number, 0 or more"),
        (
            lambda step: 1 / step if step else float("nan"),
            "lr(0) = nan; it is a finite number, 0 or more",
        ),
        (lambda step: None, "lr(0) = None; it is a finite number, 0 or more"),
        ("fast", "lr = fast; it is a finite number, 0 or more"),
    ],
)
def test_learning_rates_that_no_step_can_take_are_refused(plain, lr, message):
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        plain[2].train(plain[1], lr=lr)


def test_names_that_the_network_does_not_have_are_refused(plain):
    _, batches, deployed = plain
    array = np.zeros(3, np.float32)
    message = "^head: the network has no such parameter or buffer$"
    with pytest.raises(DeployError, match=message):
        deployed.train(batches, weights={"head": array})
    with pytest.raises(DeployError, match=message):
        deployed.evaluate(batches, weights={"head": array})
    message = (
        "optimizer.m.5.bias: no state of SGD here; it is what `states` of an earlier training has, "
        "and weights are `weights`"
    )
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed.train(batches, states={"optimizer.m.5.bias": array})


@pytest.mark.parametrize("cores", [0, 9])
def test_cores_that_the_chip_does_not_have_are_refused(plain, cores):
    module, batches, _ = plain
    how = {"loss": F.cross_entropy, "batch": batches[0], "optimizer": SGD(lr=0.1)}
    with pytest.raises(DeployError, match=f"^cores = {cores}; the chip pulp has 1 to 8$"):
        deploy(module, cores=cores, **how)


def test_batches_in_bfloat16_are_their_numbers_in_float32(plain):
    _, [(x, t), *_], deployed = plain
    halves = x.bfloat16()
    assert deployed.train([(halves, t)]).losses == deployed.train([(halves.float(), t)]).losses


WEIGHT = torch.tensor([1.0, 2.0, 0.5])
IGNORING = {
    "another": lambda y, t: F.cross_entropy(y, t, ignore_index=-1),
    "by default, with weights": lambda y, t: F.cross_entropy(y, t, WEIGHT.to(y.dtype)),
    "by default, a sum": lambda y, t: F.cross_entropy(y, t, reduction="sum", label_smoothing=0.1),
}


@pytest.mark.parametrize("name", IGNORING)
def test_targets_that_are_ignored_count_for_nothing_and_others_are_refused(name):
    torch.manual_seed(3)
    loss, ignored = IGNORING[name], -1 if name == "another" else -100
    module, x = nn.Linear(4, 3), torch.randn(4, 4)
    t = torch.tensor([2, ignored, 0, ignored])
    deployed = deploy(module, loss=loss, batch=(x, t), optimizer=SGD(lr=0.1))
    trained = deployed.train([(x, t)], gradients=True)
    exact = loss(copy.deepcopy(module).double()(x.double()), t).item()
    assert trained.losses[0] == pytest.approx(exact, abs=1e-6)
    for wrong in (3, -2):  # 3 is the row of the table that what is ignored has
        message = (
            f"target: element [1] is {wrong}; it is a number from 0 to 2, or {ignored}, which is "
            f"ignored"
        )
        with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
            deployed.train([(x, torch.tensor([2, wrong, 0, ignored]))])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_mean_over_all_targets_refuses_those_that_pytorch_ignores_by_default(smoothing):
    """It divides by the number of targets, not of those that count."""
    torch.manual_seed(3)
    x, t = torch.randn(2, 4), torch.tensor([2, 0])
    how = {"loss": nn.CrossEntropyLoss(label_smoothing=smoothing), "optimizer": SGD(lr=0.1)}
    deployed = deploy(nn.Linear(4, 3), batch=(x, t), **how)
    message = (
        "target: element [1] is -100; it is a number from 0 to 2; PyTorch's losses ignore -100 by "
        "default: give the loss another ignore_index, such as -1, and targets that number"
    )
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed.train([(x, torch.tensor([2, -100]))])


class WithLoss(torch.nn.Module):
    """A module that gives its loss by itself, of rows of a table."""

    def __init__(self):
        super().__init__()
        self.rows, self.out = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 3)

    def forward(self, x, target):
        return torch.nn.functional.cross_entropy(self.out(self.rows(x)), target)


@pytest.fixture(scope="module")
def with_loss():
    torch.manual_seed(2)
    module, batch = WithLoss(), (torch.tensor([1, 6, 0]), torch.tensor([2, 0, 1]))
    return module, batch, deploy(module, batch=batch, optimizer=SGD(lr=0.1))


def test_a_module_may_give_its_loss_by_itself(with_loss):
    module, batch, deployed = with_loss
    loss = module(*batch)
    trained = deployed.train([batch] * 2, lr=0.5)
    assert trained.losses[0] == pytest.approx(loss.item(), abs=1e-6)
    [gradient] = torch.autograd.grad(loss, [module.out.weight])
    wanted = (module.out.weight - 0.5 * gradient).detach().numpy()
    once = deployed.train([batch], lr=lambda step: 0.5).weights["out.weight"]
    np.testing.assert_allclose(once, wanted, 0, 1e-6)
    assert repr(trained).startswith("<Trained by 2 batches, losses 1.")
    found = deployed.evaluate([batch])
    assert repr(found).startswith("<Evaluated with 1 batches, losses 0.")
    assert repr(deployed) == (
        "<Deployed 3 operators, 3 parameters learn by SGD(lr=0.1, weight_decay=0.0, "
        "clip_norm=None, clip_value=None, groups=(), momentum=0.0, nesterov=False), on pulp>"
    )


@pytest.mark.parametrize(
    ("x", "target", "message"),
    [
        ([1, 7, 0], [2, 0, 1], "x: element [1] is 7; it is a number from 0 to 6"),
        ([1, 6, -1], [2, 0, 1], "x: element [2] is -1; it is a number from 0 to 6"),
        ([1, 6, 0], [3, 0, 1], "target: element [0] is 3; it is a number from 0 to 2"),
    ],
)
def test_numbers_that_there_are_no_rows_or_classes_for_are_refused(x, target, message, with_loss):
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        with_loss[2].train([(torch.tensor(x), torch.tensor(target))])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": torch.zeros(2, 3)}, "batch: a Tensor; it is (x, target)"),
        (
            {"loss": "mse"},
            "loss: 'mse'; it is a function of (output, target), such as "
            "torch.nn.functional.cross_entropy",
        ),
        (
            {"optimizer": "sgd"},
            "optimizer: a str; it is a SGD, Adam or AdamW of trainlib.deploy or torch.optim",
        ),
        ({"epochs": 3}, "deploy() got an unexpected keyword argument 'epochs'"),
    ],
)
def test_arguments_of_another_kind_are_refused(given, message, with_loss):
    module, batch, _ = with_loss
    how = {"batch": batch, "optimizer": SGD(lr=0.1)} | given
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        deploy(module, **how)


def test_a_loss_of_several_numbers_is_refused(with_loss):
    module = torch.nn.Linear(3, 2)
    batch = torch.zeros(4, 3), torch.zeros(4, 2)
    message = r"^the loss has \[4, 2\]; it is one number$"
    with pytest.raises(DeployError, match=message):
        deploy(module, loss=lambda y, t: (y - t) ** 2, batch=batch, optimizer=SGD(lr=0.1))


def test_weights_of_another_network_are_refused(plain):
    _, batches, deployed = plain
    message = "^7.weight: the network has no such parameter or buffer$"
    with pytest.raises(DeployError, match=message):
        deployed.train(batches, weights={"7.weight": np.zeros(3)})


def test_an_incomplete_step_is_refused():
    module, (x, t) = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), data()
    how = {"loss": F.cross_entropy, "optimizer": SGD(lr=0.1), "accumulate": 2}
    deployed = deploy(module, batch=(x[0], t[0]), **how)
    message = "^3 batches; a step takes 2, so give a multiple of that$"
    with pytest.raises(DeployError, match=message):
        deployed.train(list(zip(x, t, strict=True)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(lr=-1.0), "SGD: lr = -1.0; it is 0 or more"),
        (lambda: SGD(lr=float("nan")), "SGD: lr = nan; it is 0 or more"),
        (lambda: SGD(lr="0.1"), "SGD: lr = '0.1'; it is a number"),
        (lambda: Adam(betas=(0.9, None)), "Adam: betas = (0.9, None); it is a number"),
        (lambda: SGD(lr=0.1, clip_norm=0.0), "SGD: clip_norm = 0.0; it is above 0"),
        (lambda: SGD(lr=0.1, nesterov=True), "SGD: nesterov without a momentum; it looks ahead "),
        (lambda: Adam(betas=(0.9, 1.0)), "Adam: betas = (0.9, 1.0); it is two, from 0 to below 1"),
    ],
)
def test_optimisers_that_cannot_be_are_refused(make, message):
    with pytest.raises(DeployError, match=f"^{re.escape(message)}"):
        make()


def test_a_chip_of_16_mb_is_a_chip(plain):
    module, batches, _ = plain
    chip = load_chip("pulp", {"l2": {"size": 1 << 24}})
    how = {"loss": F.cross_entropy, "optimizer": SGD(lr=0.1), "chip": chip}
    trained = deploy(module, batch=batches[0], **how).train(batches[:1])
    assert len(trained.losses) == 1


def test_tiles_that_have_been_measured_are_taken_if_they_fit():
    module, (x, t) = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Linear(24, 3)), data()
    batches = list(zip(x, t, strict=True))

    def tuned(kernel, arguments):
        if kernel == "linear_fw_f32":
            return {"tile": {"co": 8}, "buffers": 1} if arguments["outputs"] == 24 else {}
        return {"tile": {"co": 10**6}} if kernel == "linear_wg_f32" else {}

    how = {"loss": F.cross_entropy, "batch": batches[0], "optimizer": SGD(lr=0.1)}
    plain, measured = (deploy(module, **how, tuned=choice) for choice in (None, tuned))
    tiles = {
        (e.call.kernel, e.call.region): e.call.arguments.get("tile") for e in measured.built().calls
    }
    assert tiles["linear_fw_f32", "1 forward"] == {"co": 8}
    assert tiles["linear_fw_f32", "2 forward"] is None
    assert all(tile != {"co": 10**6} for tile in tiles.values())
    losses = [deployed.train(batches).losses for deployed in (plain, measured)]
    np.testing.assert_allclose(*losses, 1e-6)
