"""Groups of parameters with options of their own, and learning rates by step, as torch has them."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

from trainlib.deploy import SGD, Adam, AdamW, DeployError, deploy  # noqa: E402


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))


def data(steps=3):
    torch.manual_seed(5)
    return [(torch.randn(2, 6), torch.randint(0, 3, (2,))) for _ in range(steps)]


BATCHES = data()


def grouped(kind, options, own):
    """An optimiser of torch's that has weights in one group, and biases and norms in another."""

    def make(module):
        others = [p for n, p in module.named_parameters() if n in ("0.weight", "3.weight")]
        apart = [p for n, p in module.named_parameters() if n not in ("0.weight", "3.weight")]
        return kind([{"params": others}, {"params": apart, **own}], **options)

    return make


def trained_by_torch(make, schedule=None, batches=BATCHES):
    """Losses and parameters in float64."""
    module = network().double()
    optimizer = make(module)
    scheduler = schedule(optimizer) if schedule else None
    losses = []
    for x, t in batches:
        loss = F.cross_entropy(module(x.double()), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if scheduler:
            scheduler.step()
    return losses, {n: p.detach().numpy() for n, p in module.named_parameters()}


def check(trained, expected):
    losses, weights = expected
    np.testing.assert_allclose(trained.losses, losses, 0, 1e-5)
    for name, exact in weights.items():
        np.testing.assert_allclose(trained.weights[name], exact, 0, 1e-6, err_msg=name)


APART = {"params": ["*.bias", "1.*"]}
CASES = {
    "adamw": (AdamW, {"lr": 0.01, "weight_decay": 0.3}, {"weight_decay": 0.0}),
    "adam": (Adam, {"lr": 0.01}, {"betas": (0.8, 0.9), "eps": 1e-5, "lr": 0.02}),
    "sgd": (SGD, {"lr": 0.1, "weight_decay": 0.3}, {"weight_decay": 0.0, "momentum": 0.5}),
}


@pytest.mark.parametrize("name", CASES)
def test_groups_learn_by_their_own_options(name):
    kind, options, own = CASES[name]
    make = grouped(getattr(torch.optim, kind.__name__), options, own)
    expected = trained_by_torch(make)
    module = network()
    for optimizer in (kind(**options, groups=[APART | own]), make(module)):
        deployed = deploy(module, loss=F.cross_entropy, batch=BATCHES[0], optimizer=optimizer)
        check(deployed.train(BATCHES), expected)
        assert deployed.built().faults() == []


def test_a_bias_that_learns_otherwise_leaves_the_update_in_the_gradient_of_its_weights():
    optimizer = SGD(lr=0.1, momentum=0.9, groups=[{"params": "*.bias", "lr": 0.2}])
    deployed = deploy(network(), loss=F.cross_entropy, batch=BATCHES[0], optimizer=optimizer)
    nodes = [(n.layer, n.op) for n in deployed.schedule.nodes if n.step == "update"]
    assert ("0", "linear_wg") in nodes
    assert [(layer, op) for layer, op in nodes if layer == "0"].count(("0", "sgd_momentum")) == 1
    wanted = trained_by_torch(
        lambda m: torch.optim.SGD(
            [
                {"params": [p for n, p in m.named_parameters() if "bias" not in n]},
                {"params": [p for n, p in m.named_parameters() if "bias" in n], "lr": 0.2},
            ],
            lr=0.1,
            momentum=0.9,
        )
    )
    check(deployed.train(BATCHES), wanted)


def test_the_last_group_that_fits_holds_and_accumulation_and_clipping_go_with_it():
    groups = [{"params": "*", "lr": 9.0}, {"params": "*.weight", "lr": 0.1}, APART | {"lr": 0.2}]
    optimizer = SGD(lr=5.0, clip_norm=0.1, groups=groups)
    how = {"loss": F.cross_entropy, "batch": BATCHES[0], "accumulate": 2, "mean": True}
    trained = deploy(network(), optimizer=optimizer, **how).train(
        [batch for batch in BATCHES for _ in range(2)]
    )

    class Clipping(torch.optim.SGD):
        def step(self):
            nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.1)
            super().step()

    losses, weights = trained_by_torch(grouped(Clipping, {"lr": 0.1}, {"lr": 0.2}))
    np.testing.assert_allclose(trained.losses[::2], losses, 0, 1e-5)
    for name, exact in weights.items():
        np.testing.assert_allclose(trained.weights[name], exact, 0, 1e-6, err_msg=name)


def test_what_an_optimizer_of_torch_does_not_have_does_not_learn():
    module = network()
    optimizer = torch.optim.SGD(module[3].parameters(), lr=0.1)
    deployed = deploy(module, loss=F.cross_entropy, batch=BATCHES[0], optimizer=optimizer)
    assert deployed.graph.trained == ("3.weight", "3.bias")
    check(
        deployed.train(BATCHES), trained_by_torch(lambda m: torch.optim.SGD(m[3].parameters(), 0.1))
    )


SCHEDULES = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 3),
    "by group": lambda o: lr_scheduler.LambdaLR(o, [lambda s: 0.5**s, lambda s: 1 / (s + 1)]),
    "warm up": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=1), lr_scheduler.StepLR(o, 1)], [1]
    ),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=9, cycle_momentum=False),
}
MAKE = grouped(torch.optim.SGD, {"lr": 0.2, "momentum": 0.9}, {"lr": 0.1})


def test_learning_rates_are_those_of_a_scheduler():
    module = network()
    how = {"loss": F.cross_entropy, "batch": BATCHES[0]}
    deployed = deploy(module, optimizer=MAKE(module), **how)
    for schedule in SCHEDULES.values():
        scheduler = schedule(MAKE(module))
        trained = deployed.train(BATCHES[:1], lr=scheduler)
        more = {"weights": trained.weights, "states": trained.states, "lr": scheduler}
        trained.losses.extend((rest := deployed.train(BATCHES[1:], **more)).losses)
        trained.weights.update(rest.weights)
        check(trained, trained_by_torch(MAKE, schedule))
    listed = deployed.train(BATCHES[:2], lr=lambda step: [0.2 * 0.5**step, 0.1 / (step + 1)])
    check(listed, trained_by_torch(MAKE, SCHEDULES["by group"], BATCHES[:2]))


def cycling(optimizer):
    return lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda o: 0.1,
            "lr = 0.1: the groups learn at 0.2, 0.1; give a list of 2: of what is in no group, and "
            "of each group",
        ),
        (
            lambda o: [0.1],
            "lr = 0.1: 1 learning rates; there are 2: of what is in no group, and of 1 groups",
        ),
        (lambda o: [0.1, -1], "lr[1] = -1; it is a finite number, 0 or more"),
        (lambda o: lambda step: "x", "lr(0) = x; it is a finite number, 0 or more"),
        (
            cycling,
            "lr: OneCycleLR lets momentum be 0.95; on the chip it stays 0.9: give it "
            "cycle_momentum=False",
        ),
        (
            lr_scheduler.ReduceLROnPlateau,
            "lr: ReduceLROnPlateau steps by metrics; give lr=scheduler.get_last_lr(), and let the "
            "scheduler step between trainings",
        ),
    ],
)
def test_learning_rates_that_cannot_be_are_refused(make, message):
    module = network()
    how = {"loss": F.cross_entropy, "batch": BATCHES[0], "optimizer": MAKE(module)}
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deploy(module, **how).train(BATCHES, lr=make(MAKE(module)))


def test_all_mistakes_in_groups_are_told_at_once():
    rule = (
        'it is a pattern of names, or a list of them, such as ["*.bias", "norm*"]; parameters '
        "themselves are for an optimizer of torch.optim"
    )
    has = "a group has lr, weight_decay, momentum, nesterov"
    groups = [
        {"lr": -1.0},
        "*.bias",
        {"params": [], "betas": (0.9, 0.9)},
        {"params": "*", "lr": "x", "nesterov": True},
    ]
    lines = [
        f"groups[0]: params is missing; {rule}",
        "groups[0]: lr = -1.0; it is 0 or more",
        "groups[1]: a str; it is {'params': ..., and options}",
        f"groups[2]: params = []; {rule}",
        f"groups[2]: betas: {has}",
        "groups[3]: lr = 'x'; it is a number",
        "groups[3]: nesterov without a momentum; it looks ahead along that",
    ]
    message = "\n".join(f"SGD: {line}" for line in lines)
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        SGD(lr=0.1, groups=groups)
    message = "SGD: groups: a dict; it is a list of {'params': ..., ...}"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        SGD(lr=0.1, groups={"*": {}})


def test_a_pattern_that_no_parameter_fits_is_refused():
    optimizer = SGD(lr=0.1, groups=[{"params": ["*.bias", "head.*"], "lr": 1.0}])
    message = (
        "SGD: groups[0]: params 'head.*': no parameter fits; there are 0.weight, 0.bias, 1.weight, "
        "1.bias, 3.weight, 3.bias"
    )
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deploy(network(), loss=F.cross_entropy, batch=BATCHES[0], optimizer=optimizer)


def test_patterns_of_groups_and_of_types_that_fit_nothing_are_said_at_once():
    optimizer = SGD(lr=0.1, groups=[{"params": ["nothing.*", "*.bias"], "lr": 0.2}])
    how = {"loss": F.cross_entropy, "batch": BATCHES[0], "optimizer": optimizer}
    with pytest.raises(DeployError) as refused:
        deploy(network(), dtypes={"none": "f16"}, **how)
    first, second = str(refused.value).split("\n")
    assert first.startswith("SGD: groups[0]: params 'nothing.*': no parameter fits; there are ")
    assert second.startswith("dtypes: no layer fits 'none'; there are ")


def stepped(module):
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    F.cross_entropy(module(BATCHES[0][0]), BATCHES[0][1]).backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m: torch.optim.RMSprop(m.parameters()),
            "optimizer: torch.optim.RMSprop: there is no kernel for it; take SGD, Adam, AdamW",
        ),
        (
            lambda m: torch.optim.Adam(
                [*m.parameters(), nn.Parameter(torch.ones(2))], amsgrad=True
            ),
            "optimizer: Adam: group 0: amsgrad = True: the chip's Adam has no such option\n"
            "optimizer: Adam: group 0: a parameter of shape [2] is none of the module's; give "
            "those of the module that is deployed",
        ),
        (
            stepped,
            "optimizer: this SGD has made steps; give a new one: states of an earlier training go "
            "on by `states` of `train`",
        ),
    ],
)
def test_optimizers_of_torch_that_there_is_no_kernel_for_are_refused(make, message):
    module = network()
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deploy(module, loss=F.cross_entropy, batch=BATCHES[0], optimizer=make(module))
