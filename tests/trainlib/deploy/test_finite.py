"""Weights, buffers and states that a training cannot begin with are refused by their names."""

import re
from math import inf, nan

import numpy as np
import pytest

from soc.chip.spec import load_chip
from trainlib.deploy.graph.values import Graph

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainlib.deploy import SGD, Adam, Deployed, DeployError, deploy  # noqa: E402

NAN = "every sum with it would be: give finite ones, such as those saved before a training diverged"
INFINITE = NAN.replace("every sum with it would be", "no step makes it finite again")
BATCH = torch.ones(2, 4), torch.zeros(2, 3)


def network(**changed):
    """A linear layer and a batch norm; of some values the last is another."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for name, value in changed.items():
            module.state_dict()[name.replace("_", ".", 1)].view(-1)[-1] = value
    return module


def deployed(module, optimizer=None):
    return deploy(module, loss=F.mse_loss, batch=BATCH, optimizer=optimizer or SGD(lr=0.1))


def refused(message):
    return pytest.raises(DeployError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("0_weight", nan, f"0.weight: 1 of 12 values is NaN, the first at [2, 3]; {NAN}"),
        (
            "0_weight",
            -inf,
            f"0.weight: 1 of 12 values is infinite, the first at [2, 3]; {INFINITE}",
        ),
        ("1_running_mean", nan, f"1.running_mean: 1 of 3 values is NaN, the first at [2]; {NAN}"),
        (
            *("1_running_var", inf),
            f"1.running_var: 1 of 3 values is infinite, the first at [2]; {INFINITE}",
        ),
    ],
)
def test_a_module_with_a_value_that_is_no_number_is_refused(name, value, message):
    with refused(message):
        deployed(network(**{name: value}))


def test_all_that_is_wrong_is_said_at_once():
    module = network(**{"0_bias": nan})
    module[0].weight.data.fill_(nan)
    lines = (
        f"0.weight: 12 of 12 values are NaN, the first at [0, 0]; {NAN}",
        f"0.bias: 1 of 3 values is NaN, the first at [2]; {NAN}",
    )
    with refused("\n".join(lines)):
        deployed(module)


def test_what_is_too_large_for_float32_is_infinite():
    with refused(f"0.bias: 1 of 3 values is infinite, the first at [2]; {INFINITE}"):
        deploy(
            network().double().train().requires_grad_(True).apply(_enlarge),
            loss=F.mse_loss,
            batch=tuple(part.double() for part in BATCH),
            optimizer=SGD(lr=0.1),
        )


def _enlarge(module):
    if isinstance(module, nn.Linear):
        module.bias.data[2] = 1e39


class Masked(nn.Module):
    """A product with weights that a mask chooses; the mask is a buffer, or does not learn."""

    def __init__(self, mask, is_buffer):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 3)
        if is_buffer:
            self.register_buffer("mask", mask)
        else:
            self.mask = nn.Parameter(mask, requires_grad=False)

    def forward(self, x):
        return (self.layer(x) + self.mask).softmax(-1)


@pytest.mark.parametrize("is_buffer", [True, False])
def test_a_mask_may_be_infinite_and_not_nan(is_buffer):
    mask = torch.tensor([0.0, -inf, 0.0])
    trained = deployed(Masked(mask, is_buffer)).train([BATCH])
    assert np.isfinite(trained.weights["layer.weight"]).all()
    with refused(f"mask: 1 of 3 values is NaN, the first at [1]; {NAN}"):
        deployed(Masked(mask.nan_to_num(neginf=nan), is_buffer))


def test_a_saved_graph_is_refused_likewise(tmp_path):
    graph = deployed(network()).graph
    graph.arrays["0.weight"][1, 2] = nan
    graph.save(tmp_path / "graph.zip")
    with refused(f"0.weight: 1 of 12 values is NaN, the first at [1, 2]; {NAN}"):
        Deployed(Graph.load(tmp_path / "graph.zip"), SGD(lr=0.1), load_chip("pulp"))


def test_what_a_training_goes_on_with_is_checked():
    job = deployed(network(), Adam(lr=0.1))
    trained = job.train([BATCH])
    weights, states = dict(trained.weights), dict(trained.states)
    job.train([BATCH], weights=weights, states=states)
    states["optimizer.v.0.bias"] = np.array([0, inf, inf], np.float32)
    message = "optimizer.v.0.bias: 2 of 3 values are infinite, the first at [1]; " + INFINITE
    with refused(message):
        job.train([BATCH], weights=weights, states=states)
    weights["1.running_var"] = torch.tensor([1.0, 1.0, nan])
    message = f"1.running_var: 1 of 3 values is NaN, the first at [2]; {NAN}"
    with refused(message):
        job.train([BATCH], weights=weights)
    with refused(message):
        job.evaluate([BATCH], weights=weights)


def test_a_module_that_is_nan_when_it_is_to_be_evaluated_is_refused():
    module = network()
    job = deployed(module)
    module[0].bias.data[0] = nan
    with refused(f"0.bias: 1 of 3 values is NaN, the first at [0]; {NAN}"):
        job.evaluate([BATCH])
