"""What a module of PyTorch may do: stop gradients, tie weights, take and give several tensors."""

import copy
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainlib.deploy import SGD, DeployError, deploy  # noqa: E402


class Two(nn.Module):
    """Two layers, and what a function does with them."""

    def __init__(self, forward):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("places", torch.tensor([[3, 1], [0, 0]]))
        self.function = forward

    def forward(self, *x):
        return self.function(self, *x)


def without_gradient(m, x):
    with torch.no_grad():
        y = m.a(x)
        with torch.no_grad():
            z = y.tanh() * y
    return m.b(z) + x


def composed_without_gradient(m, x):
    """einsum is put together from other operators, here and there."""
    with torch.no_grad():
        y = torch.einsum("bi,oi->bo", m.a(x), m.b.weight)
    return torch.einsum("bi,bo->bio", m.b(x), y).sum(1) + m.a(x)


def decomposed(m, x):
    """einsum is put together from other operators."""
    y = m.a(x)
    return torch.einsum("bi,oi->bo", m.b(y.detach()), m.a.weight) + y


STOPPED = {
    "detached": lambda m, x: m.b(m.a(x).detach()) * m.a(x),
    "straight through": lambda m, x: m.b((y := m.a(x)) + (y.tanh() - y).detach()),
    "of a view": lambda m, x: m.b((y := m.a(x)).detach()[:, [1, 0, 3, 2]].view(2, 4)) + y,
    "without gradient": without_gradient,
    "decomposed": decomposed,
    "composed without gradient": composed_without_gradient,
}


def batch_of(model, loss=F.mse_loss):
    torch.manual_seed(2)
    x = torch.randn(2, 4)
    with torch.no_grad():
        return x, torch.randn_like(model(x))


def expected(model, batch, loss=F.mse_loss):
    """Gradients in float64, by parameter."""
    wide = copy.deepcopy(model).double()
    x, target = (part.double() if part.is_floating_point() else part for part in batch)
    loss(wide(x), target).backward()
    return {n: p.grad.numpy() for n, p in wide.named_parameters() if p.grad is not None}


def deployed(model, batch, loss=F.mse_loss, lr=0.1):
    return deploy(model, loss=loss, batch=batch, optimizer=SGD(lr=lr))


@pytest.mark.parametrize("name", STOPPED)
def test_no_gradient_goes_through_what_is_detached(name):
    model = Two(STOPPED[name])
    batch = batch_of(model)
    network = deployed(model, batch)
    [found] = network.train([batch], gradients=True).gradients
    wanted = expected(model, batch)
    assert found.keys() == wanted.keys()
    for parameter, gradient in wanted.items():
        np.testing.assert_allclose(found[parameter], gradient, 1e-5, 1e-7)
    assert network.built(keeps_gradients=True).faults() == []


def focal(m, x):
    """What is chosen is finite, what is not chosen is not."""
    y = m.a(x)
    z = torch.where(y > 0.1, y.square(), (1e4 * y).exp())
    return m.b(z.masked_fill((y < 0) | ~(y <= 1), 0.5) + (y >= 0.2).float() * y)


def softmaxed(m, x):
    y = m.a(x).masked_fill(torch.eye(2, 4, dtype=torch.bool), float("-inf"))
    z = (y - y.amax(1, keepdim=True)).exp()
    return m.b(z / z.sum(1, keepdim=True))


CHOICES = {
    "chosen": focal,
    "softmax by hand": softmaxed,
    "larger": lambda m, x: torch.maximum(m.a(x), m.b(x)) - torch.min(m.a(x), x),
    "equal": lambda m, x: torch.maximum(m.a(x).relu(), m.b(x).relu()) + (m.b(x) != x).float(),
    "extremes": lambda m, x: m.a(x) * m.b(x).relu().amax((0, 1)) - m.b(x).amin(1, True) + x.max(),
    "both": lambda m, x: m.b(x) * torch.logical_and(m.a(x) > 0, x.abs() > 0.5) + m.b(x).max(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_computed_may_choose(name):
    model = Two(CHOICES[name])
    batch = batch_of(model)
    network = deployed(model, batch)
    trained = network.train([batch], gradients=True)
    [found] = trained.gradients
    with torch.no_grad():
        assert trained.losses[0] == pytest.approx(
            F.mse_loss(model(batch[0]), batch[1]).item(), 1e-5
        )
    for parameter, gradient in expected(model, batch).items():
        bound = 1e-6 * np.abs(gradient).max() + 1e-8
        np.testing.assert_allclose(found[parameter], gradient, 1e-5, bound)
    assert network.built(keeps_gradients=True).faults() == []


class Tied(nn.Module):
    """A table of rows that is also the last layer's weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.rows, self.out = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.out.weight = self.rows.weight

    def forward(self, x):
        return self.out(self.rows(x).tanh())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_tied_weights_stay_one(momentum):
    model, batch = Tied(), (torch.tensor([0, 5, 2]), torch.tensor([1, 0, 5]))
    how = {"lr": 0.5, "momentum": momentum}
    network = deploy(model, loss=F.cross_entropy, batch=batch, optimizer=SGD(**how))
    trained = network.train([batch] * 3)
    assert network.graph.trained == ("rows.weight",)
    wide = copy.deepcopy(model).double()
    optimizer = torch.optim.SGD(wide.parameters(), **how)
    for loss in trained.losses:
        optimizer.zero_grad()
        wanted = F.cross_entropy(wide(batch[0]), batch[1])
        wanted.backward()
        assert loss == pytest.approx(wanted.item(), abs=1e-6)
        optimizer.step()
    for name, array in wide.state_dict().items():
        np.testing.assert_allclose(trained.weights[name], array, 1e-5, 1e-6)
    again = network.train([batch], weights=trained.weights)
    assert again.losses[0] < trained.losses[0]


def test_a_buffer_of_numbers_says_which_elements_even_as_a_view():
    model = Two(lambda m, x: m.b(m.a.weight[m.places.view(-1)].view(2, 8)[:, :4] * x))
    batch = batch_of(model)
    [found] = deployed(model, batch).train([batch], gradients=True).gradients
    for parameter, gradient in expected(model, batch).items():
        np.testing.assert_allclose(found[parameter], gradient, 1e-5, 1e-7)


def test_a_module_may_give_several_outputs():
    model = Two(lambda m, x: (m.a(x), (m.b(x.tanh()), None)))

    def loss(outputs, target):
        return F.mse_loss(outputs[0], target) + 0.5 * outputs[1][0].square().mean()

    batch = torch.randn(2, 4), torch.randn(2, 4)
    network = deployed(model, batch, loss)
    [found] = network.train([batch], gradients=True).gradients
    for parameter, gradient in expected(model, batch, loss).items():
        np.testing.assert_allclose(found[parameter], gradient, 1e-5, 1e-7)
    network = deployed(model, batch, loss)
    [(first, second)] = network.evaluate([batch]).outputs
    with torch.no_grad():
        np.testing.assert_allclose(first, model.a(batch[0]), 0, 1e-6)
        np.testing.assert_allclose(second, model.b(batch[0].tanh()), 0, 1e-6)


def test_inputs_and_targets_may_be_several():
    model = Two(lambda m, x, y: m.a(x) * m.b(y))
    x, y, t, u = torch.randn(4, 2, 4)

    def loss(output, targets):
        return F.mse_loss(output, targets[0]) + F.l1_loss(output, targets[1])

    batch = (x, y), (t, u)
    trained = deploy(model, loss=loss, batch=batch, optimizer=SGD(lr=0.1)).train([batch])
    with torch.no_grad():
        assert trained.losses[0] == pytest.approx(loss(model(x, y), (t, u)).item(), abs=1e-6)


def test_a_batch_that_pytorch_does_not_take_is_said_so():
    model = Two(lambda m, x: m.a(x))
    message = (
        "Two: PyTorch does not take x [2, 4] float32 and target [2, 1] int64: 0D or 1D target "
        "tensor expected, multi-target not supported"
    )
    target = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed(model, (torch.zeros(2, 4), target), F.cross_entropy)


def test_a_batch_with_what_is_no_number_is_refused():
    model = Two(lambda m, x: m.a(x))
    x, target = torch.zeros(2, 4), torch.zeros(2, 4)
    network = deployed(model, (x, target))
    target[1, 2] = torch.nan
    message = "target: element [1, 2] is NaN; every sum with it would be"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        network.train([(x, target)])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, "x: None; it is a tensor, an array, or a tuple or dict of them"),
        (torch.zeros(0, 4), r"x: shape [0, 4] has no elements; give a batch"),
        (
            torch.zeros(2, 4, dtype=torch.uint8),
            "x: type torch.uint8; there are floats, masks of torch.bool, and integers as numbers "
            "of classes and rows: give x.float(), or x.long()",
        ),
    ],
)
def test_batches_of_other_kinds_are_refused(x, message):
    model = Two(lambda m, x: m.a(x))
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed(model, (x, torch.zeros(2, 4)))


class Encoder(nn.Module):
    """A transformer's layer whose padding comes with x, and a mean over what does not pad."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x, mask):
        y = self.layer(x, src_key_padding_mask=~mask)
        weight = mask.unsqueeze(-1).float()
        return self.out((y * weight).sum(1) / weight.sum(1))


class Pooled(nn.Module):
    """A recurrent layer, and attention over its steps."""

    def __init__(self):
        super().__init__()
        self.steps, self.out = nn.GRU(8, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x, mask):
        y, _ = self.steps(x)
        scores = y.sum(2).masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(1).unsqueeze(1) @ y).squeeze(1))


def lengths(*counts):
    return torch.arange(6)[None] < torch.tensor(counts)[:, None]


@pytest.mark.parametrize("kind", [Encoder, Pooled])
def test_masks_come_with_x_and_differ_between_batches(kind):
    torch.manual_seed(4)
    model, target = kind(), torch.tensor([2, 0])
    batches = [((torch.randn(2, 6, 8), mask), target) for mask in (lengths(6, 4), lengths(1, 5))]
    network = deployed(model, batches[0], F.cross_entropy)
    assert network.built().faults() == []
    trained = network.train(batches)
    exact, losses = copy.deepcopy(model).double(), []
    optimizer = torch.optim.SGD(exact.parameters(), lr=0.1)
    for (x, mask), t in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(exact(x.double(), mask), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.testing.assert_allclose(trained.losses, losses, 0, 1e-6)
    for name, parameter in exact.named_parameters():
        np.testing.assert_allclose(trained.weights[name], parameter.detach(), 0, 1e-6)
    wrong = lengths(6, 4).float() * 2
    message = "x_1: element [0, 0] is 2.0; it is a mask: True or False"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        network.train([((batches[0][0][0], wrong), target)])


def test_what_a_module_takes_and_gives_may_be_a_dict():
    """In any order of keys."""
    torch.manual_seed(1)

    def forward(m, given):
        return {"sum": m.a(given["first"]) + given["second"], "product": m.b(given["first"])}

    def loss(found, t):
        return F.mse_loss(found["sum"], t["b"]) + F.l1_loss(found["product"], t["a"])

    def batch(*keys):
        return {key: torch.randn(2, 4) for key in keys}

    model = Two(forward)
    batches = [(batch("second", "first"), batch("b", "a")) for _ in range(2)]
    network = deployed(model, batches[0], loss)
    turned = tuple(dict(reversed(part.items())) for part in batches[1])
    found = network.evaluate([batches[0]]).outputs[0]
    np.testing.assert_allclose(found[0], model(batches[0][0])["sum"].detach(), 0, 1e-6)
    trained = network.train([batches[0], turned])
    wide = copy.deepcopy(model).double()
    optimizer = torch.optim.SGD(wide.parameters(), lr=0.1)
    for got, (x, t) in zip(trained.losses, batches, strict=True):
        wanted = loss(*(wide({k: v.double() for k, v in x.items()}), t))
        assert got == pytest.approx(wanted.item(), abs=1e-6)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
    message = "x['first']: None; it is a tensor, an array, or a tuple or dict of them"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed(model, ({"first": None}, batches[0][1]), loss)


def test_targets_may_be_of_any_type_of_integers():
    torch.manual_seed(4)
    x, t = torch.randn(3, 4), torch.tensor([2, 0, 1], dtype=torch.int32)
    loss = lambda y, t: F.cross_entropy(y, t.long())  # noqa: E731
    model = nn.Linear(4, 3)
    trained = deployed(model, (x, t), loss).train([(x, t)])
    assert trained.losses[0] == pytest.approx(loss(model.double()(x.double()), t).item(), abs=1e-6)
