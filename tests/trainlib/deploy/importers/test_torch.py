"""Modules as graphs: their losses and gradients in float64 are those of PyTorch's autograd."""

import copy
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.distributions import (  # noqa: E402
    Bernoulli,
    Categorical,
    Normal,
    kl_divergence,
)
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils.parametrizations import spectral_norm, weight_norm  # noqa: E402

from trainlib.deploy import SGD, deploy  # noqa: E402
from trainlib.deploy.gradient import differentiate  # noqa: E402
from trainlib.deploy.graph.values import DeployError  # noqa: E402
from trainlib.deploy.importers.torch_graph import graph_of  # noqa: E402
from trainlib.deploy.interpret import Interpreter  # noqa: E402

CONSTANTS = 2e-7
"""Relative: constants of a graph, such as a scale, are float32."""


class Last(nn.Module):
    """The last step of a recurrent layer, classified."""

    def __init__(self, layer: nn.Module, state: int | None = None) -> None:
        super().__init__()
        self.layer, self.state = layer, state
        self.out = nn.Linear(layer.hidden_size, 3)

    def forward(self, x):
        y, states = self.layer(x)
        if self.state is None:
            return self.out(y[:, -1])
        return self.out(states[self.state][-1])


class Of(nn.Module):
    """A function with some layers."""

    def __init__(self, forward, **layers: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.function(self, x)


def attention(m, x):
    y, _ = m.attention(x, x, x, need_weights=False)
    return m.out((x + m.norm(y)).mean(1))


def residual(m, x):
    y = F.relu(m.norm(m.first(x)))
    return torch.cat((m.second(y) + m.down(x), y), 1).mean((2, 3))


def arithmetic(m, x):
    a, b = torch.chunk(m.first(x), 2, -1)
    c = torch.sigmoid(a) * b - 0.5 * a / (1 + b**2) - torch.exp(-a)
    return m.out(c.transpose(0, 1).t())


def masked(m, x):
    """Attention with masks of numbers and of truth values, of what is later, and across."""
    late = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    short = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
    how = {"need_weights": False}
    y, _ = m.first(x, x, x, attn_mask=late, key_padding_mask=short, **how)
    scores = y @ x.mT
    y = scores.masked_fill(late, float("-inf")).softmax(-1) @ y
    y = F.scaled_dot_product_attention(y, x, y, is_causal=True)
    return m.second(y[:, :3], x, y, **how)[0]


def both_ways(m, x):
    y, (h, c) = m.lstm(x)
    z, last = m.gru(y)
    return torch.cat((z.mean(1), h[0], c[-1], last[1]), 1)


def cells(m, x):
    h, c = m.lstm(x[:, 0])
    h, c = m.lstm(x[:, 1], (h, c))
    return m.rnn(m.gru(h, c))


def products(m, x):
    a, b = x.view(2, 1, 3, 4), m.first(x).view(2, 4, 3)
    y = a @ b[None]
    return y + (x @ x[0, 0])[:, None, :, None] + m.first.weight.sum(0)[:3] @ b[0].T[:3, :1]


def arranged(m, x):
    y = m.first(x)
    y = torch.stack((y[:, ::2], y.flip(1)[:, 1::2], y[:, [3, 0]]), 1).repeat(1, 2, 1)
    y = F.pad(y, (1, 1), mode="reflect") * x[:, None, :1].expand(2, 6, 4)
    return torch.where(torch.arange(4) < 2, y, y.roll(1, 2)) / (1 + y * y)


def functions(m, x):
    y = m.first(x)
    z = (y * y + 1).sqrt() + (y * y + 0.5).rsqrt() + (y**2 + 0.1).log() + y.erf() - y.abs() ** 3
    z = z + (3 * y).sin() - (-y).cos() - z.logsumexp(1, keepdim=True)
    z = z + z.var(1, keepdim=True) - z.std(1, keepdim=True)
    return F.normalize(z.clamp(max=2.0).clamp_min(-3.0), dim=1) - 1 / (2 + z * z)


def extremes(m, x):
    y = m.first(x).relu()
    z = y.max(1, True).values - y.min(-1).values[:, :, None] + y.max(2, True).values
    return z + y.logsumexp((1, 2), True) - y.logsumexp((-1, 0))[None, :, None]


def of_nothing(m, x):
    """Norms, deviations and similarities of rows that are 0, which have no gradient."""
    y, z = m.first(x), m.first(-x) * torch.tensor([[1.0], [0.0], [1.0]])
    lengths = z.norm(dim=1, keepdim=True) + z.std(1, keepdim=True)
    return F.normalize(z, dim=1) + lengths * y + F.cosine_similarity(z, y)[:, None]


def changed(m, x):
    """What is changed in place is seen through all that lies in the same memory."""
    y, flat = (z := m.first(x) * 1), z.view(-1)
    flat.mul_(2)
    y[:, 0] = 3
    y[1, 1:3] += m.first(x)[0, :2]
    F.leaky_relu_(y.t(), 0.1)
    return y * flat.view_as(y)


def assigned(m, x):
    y = x.new_zeros(3, 6)
    for n in range(3):
        y[n, :4] = m.first(x[n])
    return y


def without_infinities(m, x):
    """What is not chosen may be infinite by a mask."""
    late = torch.triu(torch.ones(3, 4, dtype=torch.bool), 1)
    return torch.where(late, 0.5, m.first(x).masked_fill(late, float("-inf")))


def alone(m, x):
    """Pools of one image or line without an axis of batches."""
    y = m.first(x)
    images = F.max_pool2d(y, 2) + F.avg_pool2d(y, 2) + F.adaptive_avg_pool2d(y, (2, 2))
    lines = F.max_pool1d(y[0], 2) + F.adaptive_max_pool1d(y[1], 2)
    return images + F.adaptive_max_pool2d(y, 2) + lines.mean()


def masked_by_itself(m, x):
    """Masks of truth values that are computed, with rows in which nothing counts; and constant."""
    late = torch.tril(torch.ones(5, 5, dtype=torch.bool), -1)
    y = F.scaled_dot_product_attention(m.first(x), x, x, attn_mask=late)
    few = m.first(x)[..., 0] > 0.2
    y = F.scaled_dot_product_attention(y, m.first(x), x, attn_mask=few[:, :, None] & few[:, None])
    return F.scaled_dot_product_attention(y, m.first(x), x, attn_mask=few[:, None])


class Names(nn.Module):
    """Parameters that are called as a batch is."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.target, self.loss = (nn.Parameter(torch.rand(4)) for _ in range(3))

    def forward(self, x):
        return (x * self.x - self.target) * self.loss


def variances(m, x):
    """By all of PyTorch's schemas."""
    y = m.first(x)
    z = y.var(unbiased=False) + y.std(1, unbiased=False) - y.std() + y.var(0, False, True)
    z = z + y.std((0, 1), correction=2) + y.var(correction=0) + y.std(-1, True)
    return z * y.var(1, keepdim=True)


def added(m, x):
    y = m.first(x)
    z = torch.addmm(y, x, m.first.weight, beta=0.5, alpha=2.0)
    z = z + torch.addmv(x[:, 0], y, m.first.bias, alpha=0.5)[:, None]
    return z + torch.baddbmm(x[None], y[None] @ y.mT @ y, torch.eye(4)[None].to(x), beta=2)[0]


def in_others(m, x):
    """Operators without a kernel of their own, which PyTorch puts together from others."""
    y = torch.einsum("bchw,oc->bohw", m.norm(x), m.last.weight)
    return m.last(torch.addcmul(y, y, y, value=0.5).cumsum(1).mean((2, 3)))


torch.manual_seed(0)  # for the weights of these
MODULES = {
    "conv": (nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1), nn.Flatten(), nn.Linear(27, 3)), (2, 2, 6, 6)),
    "groups": (nn.Sequential(nn.Conv2d(4, 6, 3, groups=2, dilation=2), nn.Flatten()), (2, 4, 5, 5)),
    "depthwise": (
        nn.Sequential(nn.Conv2d(3, 6, (3, 1), groups=3, padding="same"), nn.AvgPool2d(4)),
        (2, 3, 4, 4),
    ),
    "pointwise": (
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2, 2), nn.Flatten()),
        (2, 3, 4, 4),
    ),
    "padded": (nn.Sequential(nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(1, 2, 3)), (2, 1, 4, 4)),
    "line": (
        nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.MaxPool1d(2), nn.Flatten()),
        (2, 2, 8),
    ),
    "batchnorm": (nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3)), (3, 1, 5, 5)),
    "rows": (nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()), (4, 4)),
    "norms": (
        nn.Sequential(
            *(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.LeakyReLU(0.1)),
            *(nn.InstanceNorm2d(4, affine=True), nn.SiLU(), nn.LayerNorm((4, 3, 3))),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        ),
        (2, 1, 5, 5),
    ),
    "activations": (
        nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 5), nn.GELU("tanh"), nn.Sigmoid()),
        (3, 4),
    ),
    "softmax": (nn.Sequential(nn.Linear(4, 5), nn.Softmax(-1), nn.RMSNorm(5, eps=1e-5)), (3, 4)),
    "attention": (
        Of(
            *(attention,),
            attention=nn.MultiheadAttention(8, 2, batch_first=True),
            norm=nn.LayerNorm(8, elementwise_affine=False),
            out=nn.Linear(8, 3),
        ),
        (2, 5, 8),
    ),
    "encoder": (
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True),
        (1, 5, 8),
    ),
    "residual": (
        Of(
            *(residual,),
            first=nn.Conv2d(2, 4, 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(4),
            second=nn.Conv2d(4, 4, 3, padding=1),
            down=nn.Conv2d(2, 4, 1),
        ),
        (2, 2, 4, 4),
    ),
    "arithmetic": (Of(arithmetic, first=nn.Linear(4, 6), out=nn.Linear(3, 2)), (3, 4)),
    "limits": (
        nn.Sequential(
            *(nn.Linear(4, 6), nn.ReLU6(), nn.Linear(6, 6), nn.Hardtanh(-0.3, 0.4)),
            *(nn.Linear(6, 6), nn.Hardswish(), nn.Linear(6, 6), nn.Hardsigmoid()),
            *(nn.Linear(6, 6), nn.Softshrink(0.1), nn.PReLU(), nn.GLU()),
        ),
        (5, 4),
    ),
    "exponentials": (
        nn.Sequential(
            *(nn.Linear(4, 6), nn.ELU(0.7), nn.Linear(6, 6), nn.SELU(), nn.CELU(0.5)),
            *(nn.Linear(6, 6), nn.Softplus(2.0), nn.Linear(6, 6), nn.Mish(), nn.LogSigmoid()),
            *(nn.Softmin(-1), nn.LogSoftmax(0), nn.Softsign(), nn.Tanhshrink()),
        ),
        (5, 4),
    ),
    "masks": (
        Of(
            *(masked,),
            first=nn.MultiheadAttention(8, 2, batch_first=True),
            second=nn.MultiheadAttention(8, 4, batch_first=True),
        ),
        (2, 5, 8),
    ),
    "both ways": (
        Of(
            *(both_ways,),
            lstm=nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
            gru=nn.GRU(8, 3, bidirectional=True, batch_first=True),
        ),
        (2, 5, 3),
    ),
    "cells": (
        Of(cells, lstm=nn.LSTMCell(3, 4), gru=nn.GRUCell(4, 4), rnn=nn.RNNCell(4, 5)),
        (2, 2, 3),
    ),
    "products": (Of(products, first=nn.Linear(4, 4)), (2, 3, 4)),
    "arranged": (Of(arranged, first=nn.Linear(4, 4)), (2, 4)),
    "in others": (
        Of(in_others, norm=nn.BatchNorm2d(3), last=weight_norm(nn.Linear(3, 3))),
        (2, 3, 4, 2),
    ),
    "in others, in evaluation": (
        Of(in_others, norm=nn.BatchNorm2d(3), last=weight_norm(nn.Linear(3, 3))).eval(),
        (2, 3, 4, 2),
    ),
    "extremes": (Of(extremes, first=nn.Linear(4, 3)), (2, 3, 4)),
    "of nothing": (Of(of_nothing, first=nn.Linear(4, 4)), (3, 4)),
    "changed": (Of(changed, first=nn.Linear(4, 4)), (3, 4)),
    "assigned": (Of(assigned, first=nn.Linear(4, 4)), (3, 4)),
    "without infinities": (Of(without_infinities, first=nn.Linear(4, 4)), (3, 4)),
    "alone": (Of(alone, first=nn.Linear(4, 4)), (2, 4, 4)),
    "masked by itself": (Of(masked_by_itself, first=nn.Linear(4, 4)), (2, 5, 4)),
    "names": (Names(), (3, 4)),
    "variances": (Of(variances, first=nn.Linear(4, 4)), (4, 4)),
    "added": (Of(added, first=nn.Linear(4, 4)), (3, 4)),
    "factors": (
        nn.Sequential(
            *(nn.Conv2d(2, 3, 1), nn.Upsample(scale_factor=1.7), nn.Conv2d(3, 2, 2)),
            *(nn.Upsample(scale_factor=(1.3, 0.6), mode="bilinear"), nn.Conv2d(2, 2, 2)),
            *(nn.Upsample(scale_factor=2.5), nn.Upsample(scale_factor=(1.1, 2), mode="bilinear")),
        ),
        (2, 2, 5, 6),
    ),
    "thresholds": (
        nn.Sequential(
            *(nn.Linear(4, 6), nn.Threshold(0.1, 0.2), nn.Linear(6, 6), nn.Hardshrink(0.2)),
            Of(lambda m, x: (x.abs() + 1) ** -3 * x.sign()),
        ),
        (3, 4),
    ),
    "functions": (Of(functions, first=nn.Linear(4, 6)), (3, 4)),
    "transposed": (
        nn.Sequential(
            *(nn.Conv2d(2, 4, 3, 2), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2)),
            *(nn.Upsample(scale_factor=2), nn.MaxPool2d(3, 2, ceil_mode=True)),
            *(nn.Upsample(size=(5, 4), mode="bilinear"), nn.AdaptiveAvgPool2d((3, 2))),
            *(nn.PixelShuffle(1), nn.ReflectionPad2d(1), nn.AdaptiveMaxPool2d(1)),
        ),
        (1, 2, 7, 7),
    ),
    "transposed, padded by strides": (
        nn.Sequential(
            nn.ConvTranspose2d(2, 3, (3, 2), (1, 2), 1, output_padding=(1, 2), dilation=(2, 3)),
            *(nn.Tanh(), nn.Flatten(2), nn.ConvTranspose1d(3, 2, 2, 2, 1, 3, dilation=4)),
        ),
        (2, 2, 4, 3),
    ),
    "windows": (
        nn.Sequential(nn.Conv2d(1, 2, 2), nn.AdaptiveMaxPool2d((3, 2)), nn.AdaptiveAvgPool2d(2)),
        (2, 1, 6, 8),
    ),
    "lines": (
        nn.Sequential(
            *(nn.Conv1d(2, 4, 3, 2, padding=1, groups=2, padding_mode="circular"), nn.ReLU6()),
            *(nn.ConvTranspose1d(4, 2, 3), nn.AdaptiveAvgPool1d(4), nn.Dropout1d(0.5).eval()),
        ),
        (2, 2, 8),
    ),
    "lstm": (Last(nn.LSTM(3, 4, batch_first=True)), (2, 5, 3)),
    "lstm state": (Last(nn.LSTM(3, 4, num_layers=1, batch_first=True), 1), (2, 5, 3)),
    "two lstms": (Last(nn.LSTM(3, 4, num_layers=2, batch_first=True)), (2, 5, 3)),
    "gru": (Last(nn.GRU(3, 4, batch_first=True)), (1, 5, 3)),
    "rnn": (Last(nn.RNN(3, 4, nonlinearity="relu", batch_first=True, bias=False)), (2, 5, 3)),
}


def gradients(module, loss, x, target):
    """The loss and its gradients, by torch in float64."""
    wide = copy.deepcopy(module).double()
    target = target.double() if target.is_floating_point() else target
    value = loss(wide(x.double() if x.is_floating_point() else x), target)
    value.backward()
    named = wide.named_parameters()
    return value.item(), {n: p.grad.numpy() for n, p in named if p.grad is not None}


def interpreted(graph, x, target):
    graph = differentiate(graph)
    graph.validate()
    names = [value.name for value in graph.of_role("input")]
    interpreter = Interpreter(graph, dict(zip(names, (x.numpy(), target.numpy()), strict=True)))
    interpreter.run()
    return interpreter, {n: interpreter.get(g) for n, g in graph.gradients.items()}


def check(module, loss, x, target):
    graph, _ = graph_of(module, loss, x, target)
    interpreter, found = interpreted(graph, x, target)
    value, expected = gradients(module, loss, x, target)
    assert float(interpreter.get(graph.loss)[0]) == pytest.approx(value, rel=CONSTANTS)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        most = np.abs(gradient).max()
        bound = CONSTANTS * most + 1e-12
        np.testing.assert_allclose(found[name], gradient, 0, bound, err_msg=name)
    return graph, interpreter


def check_module(module, shape):
    """Of random numbers of a shape."""
    torch.manual_seed(1)
    x = torch.randn(shape)
    with torch.no_grad():
        output = copy.deepcopy(module)(x)
    check(module, F.mse_loss, x, torch.randn(output.shape))


@pytest.mark.parametrize("name", MODULES)
def test_gradients_are_those_of_autograd(name):
    check_module(*MODULES[name])


WEIGHTS = (0.5, 1.0, 2.0, 1.0, 3.0)


def weighed(function, **how):
    return lambda x, t: function(x, t, torch.tensor(WEIGHTS, dtype=x.dtype), **how)


def positive(x, t):
    weights = torch.tensor(WEIGHTS, dtype=x.dtype)
    return F.binary_cross_entropy_with_logits(x, t, weights, pos_weight=weights + 1)


OF_CLASSES = {
    "ignored": lambda x, t: F.cross_entropy(x, t, ignore_index=2),
    "ignored and none": lambda x, t: F.cross_entropy(x, t, ignore_index=-1),
    "weights": weighed(F.cross_entropy),
    "smoothed": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "all of it": weighed(F.cross_entropy, ignore_index=1, label_smoothing=0.2),
    "sum": weighed(F.cross_entropy, ignore_index=1, reduction="sum"),
    "none": lambda x, t: F.cross_entropy(x, t, reduction="none").square().mean(),
    "nll": lambda x, t: F.nll_loss(F.log_softmax(x, 1), t),
    "nll of others": weighed(lambda x, t, w: F.nll_loss(x.tanh(), t, w, ignore_index=0)),
}
OF_ELEMENTS = {
    "logits": F.binary_cross_entropy_with_logits,
    "positive": positive,
    "probabilities": lambda x, t: F.binary_cross_entropy(x.sigmoid(), t),
    "huber": lambda x, t: F.huber_loss(x, t, delta=0.5),
    "smooth": lambda x, t: F.smooth_l1_loss(x, t, beta=0.5, reduction="sum"),
    "none": lambda x, t: F.smooth_l1_loss(x, t, beta=0.5, reduction="none").mean(),
    "divergence": lambda x, t: F.kl_div(F.log_softmax(x, 1), t, reduction="batchmean"),
    "margin": lambda x, t: F.soft_margin_loss(x, 2 * t - 1),
    "soft": weighed(F.cross_entropy, label_smoothing=0.1),
    "cosine": lambda x, t: (1 - F.cosine_similarity(x, t)).mean(),
    "of a column": lambda x, t: F.mse_loss(x.sum(1, keepdim=True), t[:, :1]),
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_of_classes_are_torchs(name):
    torch.manual_seed(2)
    target = torch.tensor([0, 2, 1, 2, 4, 3])
    check(nn.Linear(4, 5), OF_CLASSES[name], torch.randn(6, 4), target)


@pytest.mark.parametrize("name", OF_ELEMENTS)
def test_losses_of_elements_are_torchs(name):
    torch.manual_seed(2)
    check(nn.Linear(4, 5), OF_ELEMENTS[name], torch.randn(6, 4), torch.rand(6, 5))


OF_COMPUTED_TARGETS = {
    "squares": lambda a, b: F.mse_loss(a, b) + F.mse_loss(a.detach(), b, reduction="sum"),
    "distances": F.l1_loss,
    "huber": lambda a, b: 3 * F.huber_loss(a, b, delta=0.5) + F.smooth_l1_loss(b, a, beta=0.3),
    "logits": lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()),
    "probabilities": lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid()),
    "sums of probabilities": lambda a, b: F.binary_cross_entropy(
        a.sigmoid().detach(), b.sigmoid(), reduction="sum"
    ),
    "classes": lambda a, b: F.cross_entropy(a, b.softmax(1)) * b.mean(),
    "smoothed": lambda a, b: F.cross_entropy(a, b.softmax(1), label_smoothing=0.2),
    "of classes alone": lambda a, b: F.cross_entropy(a.detach(), b, reduction="sum"),
}


@pytest.mark.parametrize("name", OF_COMPUTED_TARGETS)
def test_targets_that_are_computed_learn(name):
    torch.manual_seed(2)
    loss = OF_COMPUTED_TARGETS[name]
    module = Of(lambda m, x: (m.a(x), m.b(x)), a=nn.Linear(4, 5), b=nn.Linear(4, 5))
    check(module, lambda y, t: loss(*y) + 0 * t.sum(), torch.randn(6, 4), torch.zeros(1))


OF_DISTRIBUTIONS = {
    "normal": lambda y, t: -Normal(y, F.softplus(y) + 0.1).log_prob(t).mean(),
    "divergence": lambda y, t: kl_divergence(Normal(y, y.exp()), Normal(0 * y, 1 + 0 * y)).mean(),
    "classes": lambda y, t: (
        -Categorical(logits=y).log_prob(torch.arange(5).repeat(2)[:6]).mean()
        - 0.1 * Categorical(probs=y.softmax(-1)).entropy().mean()
        + t.mean()
    ),
    "truths": lambda y, t: -Bernoulli(logits=y).log_prob((t > 0.5).to(y.dtype)).mean(),
}


@pytest.mark.parametrize("name", OF_DISTRIBUTIONS)
def test_distributions_that_check_their_arguments_are_taken(name):
    """Such a check is a number that Python reads; afterwards they check again."""
    torch.manual_seed(2)
    check(nn.Linear(4, 5), OF_DISTRIBUTIONS[name], torch.randn(6, 4), torch.rand(6, 5))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        Normal(torch.zeros(1), -torch.ones(1))


def test_cross_entropy_takes_places_of_an_image_and_an_example_alone():
    torch.manual_seed(2)
    image, target = torch.randn(2, 2, 4, 4), torch.randint(3, (2, 4, 4))
    check(nn.Conv2d(2, 3, 1), F.cross_entropy, image, target)
    check(nn.Linear(4, 3), F.cross_entropy, torch.randn(4), torch.tensor(2))


def test_a_row_of_an_embedding_that_pads_does_not_learn():
    module = nn.Sequential(nn.Embedding(7, 4, padding_idx=2), nn.Flatten(), nn.Linear(12, 3))
    x, target = torch.tensor([[1, 2, 6], [2, 2, 0]]), torch.tensor([2, 0])
    graph, _ = check(module, F.cross_entropy, x, target)
    gradient = interpreted(graph, x, target)[1]["0.weight"]
    assert not gradient[2].any()
    assert gradient[1].any()


ON_THE_CHIP = (
    *("masks", "arranged", "exponentials", "of nothing", "changed", "without infinities", "alone"),
    *("masked by itself", "names", "factors", "thresholds"),
)


@pytest.mark.parametrize("name", ON_THE_CHIP)
def test_what_is_made_of_other_operators_is_right_on_the_chip(name):
    module, shape = MODULES[name]
    torch.manual_seed(1)
    x = torch.randn(shape)
    with torch.no_grad():
        target = torch.randn(copy.deepcopy(module)(x).shape)
    deployed = deploy(module, loss=F.mse_loss, batch=(x, target), optimizer=SGD(lr=0.1))
    assert deployed.built(keeps_gradients=True).faults() == []
    trained = deployed.train([(x, target)], gradients=True)
    value, expected = gradients(module, F.mse_loss, x, target)
    assert trained.losses[0] == pytest.approx(value, rel=1e-6)
    for parameter, gradient in expected.items():
        bound = 1e-6 * np.abs(gradient).max() + 1e-8
        np.testing.assert_allclose(trained.gradients[0][parameter], gradient, 0, bound)


def test_running_statistics_advance_as_those_of_torch():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, momentum=0.3))
    x, target = torch.randn(2, 1, 4, 4), torch.randn(2, 2, 2, 2)
    _, interpreter = check(module, F.l1_loss, x, target)
    wide = copy.deepcopy(module).double()
    wide(x.double())
    for name, buffer in wide.named_buffers():
        if "running" in name:
            np.testing.assert_allclose(interpreter.get(name), buffer.numpy(), 1e-12)


def test_layers_in_evaluation_mode_use_their_running_statistics():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5)).eval()
    module[1].running_mean.normal_()
    x, target = torch.randn(2, 1, 4, 4), torch.randn(2, 2, 2, 2)
    graph, _ = check(module, F.mse_loss, x, target)
    assert [node.op for node in graph.nodes] == ["conv2d_fw", "batchnorm_frozen_fw", "mse_loss"]


def test_parameters_that_do_not_learn_cost_nothing():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    for parameter in (*module[0].parameters(), module[2].weight):
        parameter.requires_grad = False
    x, target = torch.randn(3, 4), torch.tensor([0, 1, 1])
    graph, _ = check(module, F.cross_entropy, x, target)
    back = [node.op for node in differentiate(graph).nodes if node.step == "backward"]
    assert back == ["linear_wg", "linear_ig", "relu_bw", "reduce"]


def test_an_embedding_takes_numbers_of_its_rows():
    module = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 3))
    check(module, F.cross_entropy, torch.tensor([[1, 2, 6], [2, 2, 0]]), torch.tensor([2, 0]))


def test_dropout_draws_from_a_seed_and_goes_back_with_the_same_one():
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    x, target = torch.randn(3, 4), torch.randn(3, 2)
    graph, _ = graph_of(module, F.mse_loss, x, target)
    interpreter, found = interpreted(graph, x, target)
    drop = next(node for node in graph.nodes if node.op == "dropout")
    mask = interpreter.get(drop.outputs["y"]) / interpreter.get(drop.inputs["x"])
    assert set(np.unique(np.round(mask, 6))) == {0.0, 2.0}
    wide = copy.deepcopy(module).double()
    loss = F.mse_loss(wide[2](wide[0](x.double()) * torch.tensor(mask)), target.double())
    loss.backward()
    for name, parameter in wide.named_parameters():
        np.testing.assert_allclose(found[name], parameter.grad.numpy(), 1e-6, 1e-9)


def test_padding_of_zeros_becomes_the_convolutions_own():
    module = nn.Sequential(nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(1, 2, 3))
    graph, _ = graph_of(module, F.mse_loss, torch.randn(1, 1, 4, 4), torch.randn(1, 2, 5, 3))
    assert [node.op for node in graph.nodes] == ["conv2d_fw", "mse_loss"]
    assert graph.nodes[0].attributes["padding"] == (2, 1, 1, 0)


class Counts(nn.Module):
    """A mean over batches of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


def changed_without_gradient(m, x):
    y = m.first(x)
    with torch.no_grad():
        y.mul_(2)
    return y


class Unknown(nn.Module):
    def forward(self, x):
        return torch.lgamma(x)


REFUSALS = {
    "unknown": (
        nn.Sequential(nn.Linear(4, 4), Unknown()),
        "layer 1: lgamma: there is no kernel for it; `pulpsim deploy --operators` lists those "
        "that there are",
    ),
    "projections": (
        Of(lambda m, x: m.layer(x[None])[0][0], layer=nn.LSTM(4, 4, proj_size=2)),
        "layer layer: lstm.input: proj_size; there is no kernel for projections: leave it out",
    ),
    "dilated pool": (
        nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.MaxPool2d(1, dilation=2), nn.Flatten()),
        "layer 1: max_pool2d: a dilation; the kernel has none: leave it out",
    ),
    "near": (
        Of(lambda m, x: torch.erfc(x)),
        "layer erfc: erfc: there is no kernel for it; near it: erf; `pulpsim deploy --operators` "
        "lists those that there are",
    ),
    "mean of all batches": (
        nn.BatchNorm1d(4, momentum=None),
        "layer : momentum=None, a mean of all batches; the kernel has a number: give it a "
        "momentum, such as 0.1",
    ),
    "base": (
        Of(lambda m, x: (-2.0) ** x),
        "layer pow_1: pow.Scalar: a base of -2.0; it is above 0",
    ),
    "buffer": (
        Counts(),
        "mean: forward changes it; on the chip a batch norm changes its buffers, and the optimizer "
        "parameters",
    ),
    "spectral norm": (
        spectral_norm(nn.Linear(4, 4)),
        "parametrizations.weight.0._u: forward changes it; on the chip a batch norm changes its "
        "buffers, and the optimizer parameters\n"
        "parametrizations.weight.0._v: forward changes it; on the chip a batch norm changes its "
        "buffers, and the optimizer parameters",
    ),
    "changed": (
        Of(changed_without_gradient, first=nn.Linear(4, 4)),
        "layer mul_: what has a gradient is changed in place under torch.no_grad(); use detach()",
    ),
    "division": (Of(lambda m, x: x / 0), "layer div: div.Tensor: division by zero"),
    "power": (
        Of(lambda m, x: x**1.6),
        "layer pow_1: pow.Tensor_Scalar: exponent 1.6; there are multiples of 1/4 up to 16, and "
        "their negatives; for others take (exponent * x.log()).exp() of what is above 0",
    ),
    "step": (
        Of(lambda m, x: (y := x * 1).lgamma_() + y),
        "layer lgamma_: lgamma_: there is no kernel for it; `pulpsim deploy --operators` lists "
        "those that there are",
    ),
    "values": (
        Of(lambda m, x: x * x.lgamma()),
        "layer lgamma: lgamma: there is no kernel for it; `pulpsim deploy --operators` lists those "
        "that there are",
    ),
    "random": (
        Of(lambda m, x: x + torch.randn(2, 4)),
        "layer randn: randn: random numbers of its own; dropout has them: let others come with x",
    ),
    "several": (
        Of(
            lambda m, x: (
                torch.lgamma(m.tail(m.pool(x.view(-1, 1, 2, 2)).flatten(1))).sum() + m.a(x)
            ),
            pool=nn.MaxPool2d(1, dilation=2),
            tail=nn.Linear(4, 4),
            a=Unknown(),
        ),
        "layer pool: max_pool2d: a dilation; the kernel has none: leave it out\n"
        "layer lgamma: lgamma: there is no kernel for it; `pulpsim deploy --operators` "
        "lists those that there are\n"
        "layer a: lgamma: there is no kernel for it; `pulpsim deploy --operators` lists those "
        "that there are",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_has_no_kernel_is_refused_with_the_layer_and_the_way_out(name):
    module, message = REFUSALS[name]
    with torch.no_grad():
        target = copy.deepcopy(module)(torch.randn(2, 4))
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        graph_of(module, F.mse_loss, torch.randn(2, 4), target)


def test_a_table_whose_gradients_go_by_frequency_is_refused():
    module = nn.Sequential(nn.Embedding(7, 4, scale_grad_by_freq=True), nn.Flatten())
    message = "layer 0: embedding: scale_grad_by_freq; the kernel has none: leave it out"
    with pytest.raises(DeployError, match=f"^{message}$"):
        graph_of(module, F.mse_loss, torch.tensor([[1, 2]]), torch.zeros(1, 8))


def test_a_module_that_cannot_be_captured_prints_nothing(capfd):
    module = Of(lambda m, x: x[: int(x.sum().item())])
    message = r"^Of: torch\.export cannot capture it at .*test_torch\.py, line \d+, `.*`: "
    with pytest.raises(DeployError, match=message):
        graph_of(module, F.mse_loss, torch.ones(2, 4), torch.ones(2, 4))
    assert capfd.readouterr() == ("", "")


def test_a_module_that_depends_on_values_is_refused():
    class Depends(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    message = (
        r"^Depends: torch\.export cannot capture it at .*test_torch\.py, line \d+, "
        r"`return x if x\.sum\(\) > 0 else -x`: numbers that are computed stay tensors: "
    )
    with pytest.raises(DeployError, match=message):
        graph_of(Depends(), F.mse_loss, torch.randn(2), torch.randn(2))


NUMBER = (
    ": item: numbers that are computed stay tensors: float(), .item(), .numpy(), and `if` of them "
    "are of Python, which runs once, before the first batch; take torch.where to choose, a mask's "
    "product to leave out"
)
COUNT = (
    ": what is computed says how many elements there are; shapes are the same in all batches: take "
    "a mask's product, or torch.where, in place of the elements that it chooses"
)


@pytest.mark.parametrize(
    ("forward", "loss", "message"),
    [
        (lambda m, x: m.a(x) * x.max().item(), F.mse_loss, f"layer item{NUMBER}"),
        (lambda m, x: m.a(x), lambda y, t: F.mse_loss(y, t) * y.mean().item(), f"the loss{NUMBER}"),
        (
            lambda m, x: m.a(x),
            lambda y, t: y.sum() / max((y > 0).sum().item(), 1),
            f"the loss{NUMBER}",
        ),
        (
            lambda m, x: m.a(x),
            lambda y, t: F.mse_loss(y, t) + y[y > 0].sum(),
            f"the loss: index.Tensor{COUNT}",
        ),
        (
            lambda m, x: m.a(x).masked_select(x > 0).mean() + x,
            F.mse_loss,
            f"layer masked_select: masked_select{COUNT}",
        ),
    ],
)
def test_what_python_reads_of_what_is_computed_is_refused_once(forward, loss, message):
    module = Of(forward, a=nn.Linear(4, 4))
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        graph_of(module, loss, torch.ones(2, 4), torch.ones(2, 4))


def test_a_parameter_that_the_loss_does_not_depend_on_does_not_learn():
    module = Of(lambda m, x: m.used(x), used=nn.Linear(4, 3), unused=nn.Linear(3, 3))
    graph, _ = graph_of(module, F.mse_loss, torch.randn(2, 4), torch.randn(2, 3))
    assert differentiate(graph).trained == ("used.weight", "used.bias")
