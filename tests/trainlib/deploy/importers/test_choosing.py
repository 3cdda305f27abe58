"""What is chosen by computed numbers: places of largest elements, order, scatters, types."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.trainlib.deploy.importers.test_torch import Of, check, check_module  # noqa: E402
from trainlib.deploy import SGD, DeployError, deploy  # noqa: E402
from trainlib.deploy.importers.torch_graph import graph_of  # noqa: E402


def quantised(m, x):
    """The nearest row of a table, straight through; and the one it is by name."""
    z = m.first(x)
    index = torch.cdist(z, m.table.weight).argmin(1)
    return z + (m.table(index) - z).detach() + F.one_hot(z.argmax(-1), 4) * z


def gated(m, x):
    """The two largest gates of each row, the others 0."""
    gates = m.first(x).softmax(-1)
    values, index = gates.topk(2, -1)
    kept = torch.zeros_like(gates).scatter(-1, index, values)
    return kept / kept.sum(-1, keepdim=True) + gates.topk(1, 0, largest=False).values


def ordered(m, x):
    y = m.first(x)
    values, places = y.sort(descending=True)
    z = values * torch.arange(4) + y.gather(1, places.flip(1)) * y.median()
    z = z + y.sort(0).values + y.kthvalue(2, 1, keepdim=True).values * y.argsort(1)
    return z + y.median(0).values + y.view(-1).topk(6, largest=False).values.sum()


def ordered_with_infinities(m, x):
    """What a mask has put last."""
    y = m.first(x).masked_fill(torch.tensor([True, False, False, False]), float("-inf"))
    values, places = y.sort(1, descending=True)
    z = values[:, :3] * y[:, 1:] + y.topk(2).values.sum() + y.gather(1, places)[:, :3]
    large = y.masked_fill(y > 0, float("inf"))
    return z + torch.sort(large, dim=1, stable=True).indices[:, 1:] * z


def of_many(m, x):
    """A few of more than are put in order, with fewer than that that are not -infinity."""
    y = (m.first(x).view(3, 4, 1) * torch.arange(1, 11) * m.first(x)[..., None]).view(3, 40)
    late = y.masked_fill(torch.arange(40) > 1, float("-inf"))
    places = late.topk(3).indices[:, :2]
    return (
        y.topk(3).values.sum(1, keepdim=True)
        + y.topk(2, largest=False).values
        + y.gather(1, places)
    )


def neighbours(m, x):
    """Points that are near each other, with indices of three axes."""
    y = m.first(x)
    index = torch.cdist(y, y).topk(2, -1, largest=False).indices
    near = y[:, None].expand(-1, 3, -1, -1).gather(2, index[..., None].expand(-1, -1, -1, 4))
    return near.max(2).values - y


def scattered(m, x):
    y = m.first(x)
    z = y.scatter(1, torch.tensor([[0, 2], [1, 3], [3, 0]]), x[:, :2] * y[:, 1:3])
    z = z.scatter_add(0, torch.tensor([[0, 0, 2, 1], [1, 0, 2, 2]]), y[:2] * 2)
    z = z.index_add(0, torch.tensor([2, 0, 2]), x * y) + y.scatter(1, torch.tensor([[1]] * 3), 0.5)
    z = z.index_add(1, torch.tensor([1, 1]), y[:, :2], alpha=0.5)
    z[torch.tensor([0, 2])] = y[1:] * 3
    return z.index_put((torch.tensor([0, 1]), torch.tensor([1, 1])), y[:2, 0], accumulate=True)


def of_other_types(m, x):
    y = 3 * m.first(x)
    z = y * y.long() + y * (y.int() > 0) + y * y.bool().float() + (y > 0).long() * y
    return z + y.max(1, True).indices * y + y.min(1).indices[:, None] + y.argmax() * y


def indexed(m, x):
    y = m.first(x)
    places = y.argmax(1)
    z = y[places] + y[:, places] @ y.T + y[torch.arange(3), places][:, None]
    return z + y.index_select(0, 2 - places).sum(0) + y[:, None, :][:, :, places].sum(1)


torch.manual_seed(0)  # for the weights of these
MODULES = {
    "quantised": (Of(quantised, first=nn.Linear(4, 4), table=nn.Embedding(5, 4)), (3, 4)),
    "gated": (Of(gated, first=nn.Linear(4, 4)), (3, 4)),
    "ordered": (Of(ordered, first=nn.Linear(4, 4)), (3, 4)),
    "ordered with infinities": (Of(ordered_with_infinities, first=nn.Linear(4, 4)), (3, 4)),
    "of many": (Of(of_many, first=nn.Linear(4, 4)), (3, 4)),
    "neighbours": (Of(neighbours, first=nn.Linear(4, 4)), (2, 3, 4)),
    "scattered": (Of(scattered, first=nn.Linear(4, 4)), (3, 4)),
    "of other types": (Of(of_other_types, first=nn.Linear(4, 4)), (3, 4)),
    "indexed": (Of(indexed, first=nn.Linear(4, 3)), (3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_are_those_of_autograd(name):
    check_module(*MODULES[name])


@pytest.mark.parametrize(
    "name", ["quantised", "ordered", "ordered with infinities", "of many", "scattered"]
)
def test_what_is_chosen_is_right_on_the_chip(name):
    module, shape = MODULES[name]
    torch.manual_seed(1)
    x = torch.randn(shape)
    target = torch.randn(copy.deepcopy(module)(x).shape)
    deployed = deploy(module, loss=F.mse_loss, batch=(x, target), optimizer=SGD(lr=0.1))
    assert deployed.built(keeps_gradients=True).faults() == []
    trained = deployed.train([(x, target)], gradients=True)
    wide = copy.deepcopy(module).double()
    loss = F.mse_loss(wide(x.double()), target.double())
    loss.backward()
    assert trained.losses[0] == pytest.approx(loss.item(), rel=1e-6)
    for n, parameter in wide.named_parameters():
        if parameter.grad is not None:
            bound = 1e-6 * parameter.grad.abs().max().item() + 1e-8
            np.testing.assert_allclose(trained.gradients[0][n], parameter.grad, 0, bound)


def test_places_of_largest_elements_are_outputs_of_an_evaluation():
    torch.manual_seed(1)

    def forward(m, x):
        y = m.first(x)
        return y, y.argmax(1), y.topk(2, -1).indices, y.argmax(), y.max(0).indices

    def loss(found, t):
        return F.cross_entropy(found[0], t)

    module = Of(forward, first=nn.Linear(5, 4))
    x, t = torch.randn(3, 5), torch.tensor([1, 3, 0])
    deployed = deploy(module, loss=loss, batch=(x, t), optimizer=SGD(lr=0.1))
    [found] = deployed.evaluate([(x, t)]).outputs
    for got, wanted in zip(found, module(x), strict=True):
        np.testing.assert_allclose(got.reshape(wanted.shape), wanted.detach(), 1e-5)


def test_numbers_of_classes_are_compared_and_computed_with():
    """A target may be both: the share that is right, and by how far others are not."""
    torch.manual_seed(1)

    def loss(y, t):
        share = (y.argmax(1) == t).float().mean()
        return F.cross_entropy(y, t) * (2 - share) + (t * y[:, 0] + t.float() / 4).mean()

    check(nn.Linear(5, 4), loss, torch.randn(6, 5), torch.tensor([1, 3, 0, 2, 2, 1]))


def test_classes_that_are_computed_are_targets():
    """Of the largest output, as pseudo labels are; in another order, as mixup has them; rounded."""
    torch.manual_seed(1)
    x, t = torch.randn(6, 5), torch.rand(6) * 3
    check(nn.Linear(5, 4), lambda y, t: F.cross_entropy(y, y.argmax(1)) * t.sum(), x, t)
    check(nn.Linear(5, 4), lambda y, t: F.cross_entropy(y, t.long(), label_smoothing=0.1), x, t)

    def mixed(y, t):
        both = torch.cat((t, t.roll(1)))
        return 0.3 * F.cross_entropy(y, t.flip(0)) + F.cross_entropy(y.repeat(2, 1), both)

    classes = torch.tensor([1, 3, -100, 0, 2, 2])
    check(nn.Linear(5, 4), mixed, x, classes)
    sums = lambda y, t: F.cross_entropy(y, t.roll(1), reduction="sum", label_smoothing=0.2)  # noqa: E731
    check(nn.Linear(5, 4), sums, x, classes)
    message = "numbers of classes that are computed, with weights or an ignore_index"
    with pytest.raises(DeployError, match=message):
        graph_of(
            nn.Linear(5, 4), lambda y, t: F.cross_entropy(y, t.flip(0), torch.ones(4)), x, classes
        )


def test_a_place_that_is_written_to_twice_is_refused():
    module = Of(lambda m, x: m.a(x).index_put((torch.tensor([0, 0]),), x[1:]), a=nn.Linear(4, 4))
    with pytest.raises(DeployError, match="a place that is written to twice; let each be there"):
        graph_of(module, F.mse_loss, torch.randn(3, 4), torch.randn(3, 4))
