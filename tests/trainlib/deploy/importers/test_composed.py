"""Layers, functions and losses that other operators make: gradients are those of autograd."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.trainlib.deploy.importers.test_torch import Of, check, check_module, interpreted  # noqa: E402
from trainlib.deploy import SGD, DeployError, deploy  # noqa: E402
from trainlib.deploy.importers.torch_graph import graph_of  # noqa: E402


def functions(m, x):
    y = m.first(x)
    z = 2**y + torch.exp2(-y) + torch.cosh(y) + torch.tan(y / 4) + torch.logit(y.sigmoid())
    z = z + torch.log2(y.abs() + 1) - torch.log10(y.abs() + 2) + torch.logit(y, 0.2)
    return z + y.relu() ** 2.5 + (y.abs() + 1) ** -0.75 + (y * y + 1) ** 1.25


def in_place(m, x):
    y = F.relu6(m.first(x), inplace=True) + m.first(x).tanh_() + m.first(x).pow_(2)
    z = F.selu(m.first(x), inplace=True) + m.first(x).clamp_(-1, 0.5) * m.first(x).sigmoid_()
    y = y + z.unsqueeze_(0).neg_()[0].exp_() + m.first(x).round_() * y
    return y + m.first(x).abs_().add_(1).sqrt_()


def by_values(m, x):
    """Limits and exponents that learn, signs, truth values, and quotients by powers of two."""
    y = m.first(x)
    z = torch.clamp(y, max=m.limit.weight[0]) + torch.clamp(y, m.limit.weight[1], x.abs())
    z = (
        z
        + (y.abs() + 0.5) ** m.limit.weight[0]
        + torch.copysign(y, x) * torch.xlogy(y * y, y.exp())
    )
    z = z + torch.hypot(y, x) + torch.special.entr(y.sigmoid()) + y % 0.5 + torch.fmod(y, 0.25)
    z = z + ((y > 0) ^ (x > 0)) * y * torch.div(y, 0.5, rounding_mode="floor")
    z = z + torch.asinh(4 * y) + torch.acosh(y.exp() + 1) + (y * 0).asinh() * y
    return z * (y > 0).any(1, keepdim=True) * (y > -9).all() + sum(
        torch.std_mean(y, 1, keepdim=True)
    )


def written(m, x):
    """Where a mask is true, in steps, along a diagonal."""
    y = m.first(x) * 1
    y[y > 0.3] = 0.5
    y[:, ::2] = m.first(x)[:, 1::2]
    z = torch.diagonal_scatter(y, x[0, :3]).scatter_reduce(
        1, torch.tensor([[0, 0], [1, 1], [3, 2]]), y[:, :2], "mean"
    )
    return z + y.quantile(0.3, 1, keepdim=True) + y.narrow(1, 0, 1).broadcast_to(3, 4).ravel()[:4]


def quantised(m, x):
    """Whole multiples of a scale, whose gradient goes straight through."""
    y = torch.fake_quantize_per_tensor_affine(m.first(x), 0.125, 1, -4, 3)
    return F.alpha_dropout(F.rrelu(y), 0.5, training=False) + y


def resized(m, x):
    y = F.interpolate(m.first(x), size=(7, 5), mode="bicubic")
    y = F.interpolate(y, scale_factor=1.5, mode="bicubic", align_corners=True)
    z = F.interpolate(y[:, None], size=(3, 4, 6), mode="trilinear", align_corners=False)
    return F.instance_norm(z[:, 0], m.mean, m.var, use_input_stats=False)


class Resized(Of):
    def __init__(self, forward, **layers):
        super().__init__(forward, **layers)
        self.register_buffer("mean", torch.rand(3))
        self.register_buffer("var", torch.rand(3) + 0.5)


def mapped(m, x):
    """Each row by itself, as a function of it."""
    return torch.vmap(lambda row, other: m.first(row) @ other)(x, x.mT)


def translated(m, x):
    """With a causal mask, which PyTorch looks at."""
    late = nn.Transformer.generate_square_subsequent_mask(3)
    return m.both(x, m.first(x)[:, :3], tgt_mask=late)


def angles(m, x):
    y = m.first(x).tanh()
    z = torch.asin(y) - torch.acos(y * 0.9) + torch.atan(3 * y) + torch.sinh(y) * torch.atanh(y)
    return z + torch.log1p(y.abs()) - torch.expm1(-y) + torch.logaddexp(y, 2 * x)


def whole(m, x):
    """No gradient goes through what is rounded: straight through as a quantiser has it."""
    y = 4 * m.first(x)
    q = y + (y.round() - y).detach() + y.floor() - y.ceil() * y.trunc()
    return q + y.frac() * y + torch.round(y, decimals=1)


def products(m, x):
    """Of elements along an axis, with a 0 among them, and of all."""
    y = m.first(x) * torch.tensor([1.0, 0.0, 1.0, 1.0])
    z = y.prod(1, keepdim=True) + m.first(x).prod(0) + (y + 2).prod() + y.cumprod(1)
    return z + y.logcumsumexp(0) + torch.logcumsumexp(y, -1)


def distances(m, x):
    y = m.first(x)
    return torch.cdist(y, y) + torch.cdist(x[:, :2, :2], y, p=1).mT @ y[:, :2] @ y.mT


def windows(m, x):
    y = F.unfold(m.first(x), (3, 2), (1, 2), (1, 0), (1, 2))
    z = F.fold(F.unfold(m.first(x)[0], 2), (5, 6), 2)
    return F.fold(F.unfold(x, 3, padding=1, stride=2) * y.mean(), (5, 6), 3, 1, 1, 2) + z


def transposed_volumes(m, x):
    y = m.third(m.second(m.first(x)))
    return F.conv_transpose3d(y[:, :2], m.third.weight[:, :1], padding=1, dilation=(1, 2, 1))


def volumes(m, x):
    y = m.first(x)
    z = F.avg_pool3d(y, 2, 1, 1, count_include_pad=False).mean() + F.adaptive_avg_pool3d(y, 2)
    return z + F.max_pool3d(y, (2, 1, 2), 1)[:, :, :2, :2, :2] * F.avg_pool3d(y, 2, 1, 0, False)


def averages(m, x):
    y = m.first(x)
    z = F.avg_pool2d(y, 3, 2, 1, ceil_mode=True) + F.avg_pool2d(y, 2, ceil_mode=True)
    z = z - F.avg_pool2d(y, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False)[..., :3, :3]
    return z + F.avg_pool2d(y, 2, ceil_mode=True, divisor_override=3)


def numbers(m, x):
    """Integers that are constants as floats, and places that are."""
    y = m.first(x)
    z = y * F.one_hot(torch.tensor([0, 3, 1]), 4) + torch.arange(4) - torch.tensor([[2], [1], [3]])
    z = z.masked_fill(torch.tensor([1, 0, 0, 1]).bool(), 0.5)
    return z + y.gather(1, torch.tensor([[1, 0, 3, 3], [2, 2, 1, 0], [0, 1, 2, 3]]))


def bilinear(m, x):
    return m.both(m.first(x), x)


torch.manual_seed(0)  # for the weights of these
MODULES = {
    "functions": (Of(functions, first=nn.Linear(4, 4)), (3, 4)),
    "angles": (Of(angles, first=nn.Linear(4, 4)), (3, 4)),
    "whole": (Of(whole, first=nn.Linear(4, 4)), (3, 4)),
    "in place": (Of(in_place, first=nn.Linear(4, 4)), (3, 4)),
    "by values": (Of(by_values, first=nn.Linear(4, 4), limit=nn.Embedding(2, 4)), (3, 4)),
    "written": (Of(written, first=nn.Linear(4, 4)), (3, 4)),
    "quantised": (Of(quantised, first=nn.Linear(4, 4)), (3, 4)),
    "resized": (Resized(resized, first=nn.Conv2d(1, 2, 2)), (2, 1, 4, 5)),
    "mapped": (Of(mapped, first=nn.Linear(4, 4)), (2, 3, 4)),
    "translated": (
        Of(
            *(translated,),
            first=nn.Linear(8, 8),
            both=nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True),
        ),
        (2, 4, 8),
    ),
    "products": (Of(products, first=nn.Linear(4, 4)), (3, 4)),
    "distances": (Of(distances, first=nn.Linear(4, 2)), (2, 3, 4)),
    "windows": (Of(windows, first=nn.Conv2d(1, 3, 1)), (2, 1, 5, 6)),
    "transposed volumes": (
        Of(
            transposed_volumes,
            first=nn.ConvTranspose3d(2, 4, 2, 2, groups=2),
            second=nn.ConvTranspose3d(4, 2, (3, 2, 1), (2, 1, 1), (1, 0, 0), (1, 0, 0)),
            third=nn.ConvTranspose3d(2, 3, 2, bias=False, dilation=(2, 1, 1)),
        ),
        (2, 2, 2, 1, 2),
    ),
    "volumes": (
        Of(volumes, first=nn.Conv3d(2, 4, (2, 1, 2), 1, (1, 0, 0), groups=2)),
        (2, 2, 2, 3, 4),
    ),
    "strided volumes": (
        nn.Sequential(nn.Conv3d(1, 2, 3, (1, 2, 2), "valid", (1, 1, 2)), nn.Flatten(2)),
        (1, 1, 4, 5, 7),
    ),
    "volumes of the same size": (nn.Conv3d(1, 2, (2, 3, 1), padding="same"), (1, 1, 3, 3, 2)),
    "averages": (Of(averages, first=nn.Conv2d(1, 2, 1)), (2, 1, 5, 5)),
    "local response": (
        nn.Sequential(nn.Conv2d(1, 4, 2), nn.LocalResponseNorm(2), nn.LocalResponseNorm(3, 0.5)),
        (2, 1, 3, 3),
    ),
    "numbers": (Of(numbers, first=nn.Linear(4, 4)), (3, 4)),
    "bilinear": (Of(bilinear, first=nn.Linear(4, 3), both=nn.Bilinear(3, 4, 2)), (2, 3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_are_those_of_autograd(name):
    check_module(*MODULES[name])


@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_a_convolution_of_what_is_no_batch_is_refused(layer):
    module, x = layer(2, 3, 2), torch.ones(2, *[4] * (int(layer.__name__[4])))
    with pytest.raises(DeployError, match=re.escape("it takes a batch of them: unsqueeze(0)")):
        graph_of(module, F.mse_loss, x, module(x).detach())


def scattered(y, t):
    soft = torch.full_like(y, 0.05).scatter_(1, t[:, None], 0.9)
    return -(soft * F.log_softmax(y, 1)).sum(1).mean()


def of_rows(y, t):
    weights = torch.tensor([0.5, 1.0, 2.0, 3.0])[t]
    return (weights * F.cross_entropy(y, t, reduction="none")).mean() + y.t()[t].mean()


LOSSES = {
    "gathered": lambda y, t: -F.log_softmax(y, 1).gather(1, t[:, None]).mean(),
    "indexed": lambda y, t: -F.log_softmax(y, 1)[torch.arange(3), t].mean(),
    "one hot": lambda y, t: (F.softmax(y, 1) - F.one_hot(t, 4).float()).square().mean(),
    "scattered": scattered,
    "of rows": of_rows,
    "as floats": lambda y, t: F.binary_cross_entropy_with_logits(y[:, 0], t.float() / 4),
    "compared": lambda y, t: (
        y.square().sum(1) * (t == 1).float() + y[:, 1] * (t.view(3) > 2)
    ).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_integers_of_a_batch_choose_as_in_torch(name):
    torch.manual_seed(1)
    module, x, target = nn.Linear(5, 4), torch.randn(3, 5), torch.tensor([1, 3, 0])
    check(module, LOSSES[name], x, target)


def test_what_lies_elsewhere_along_an_axis_may_be_infinite():
    late = torch.tensor([[0, 1, 1, 0]] * 3).bool()
    module, x, target = nn.Linear(5, 4), torch.randn(3, 5), torch.tensor([0, 3, 0])
    check(
        *(module, lambda y, t: y.masked_fill(late, -torch.inf).gather(1, t[:, None]).sum()),
        *(x, target),
    )


@pytest.mark.parametrize("how", [{"mode": "sum", "padding_idx": 0}, {}, {"mode": "max"}])
def test_bags_of_rows_are_those_of_torch(how):
    module = nn.Sequential(nn.EmbeddingBag(6, 4, **how), nn.Linear(4, 3))
    x = torch.tensor([[0, 5, 2], [3, 3, 0]])
    check(module, F.cross_entropy, x, torch.tensor([2, 0]))


def test_what_other_operators_make_is_right_on_the_chip():
    torch.manual_seed(1)
    net = nn.Sequential(
        *(nn.Conv3d(1, 4, 2), nn.ReLU(), nn.Flatten(2, 3), nn.LocalResponseNorm(2)),
        *(nn.AvgPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(24, 4)),
    )
    x, t = torch.randn(2, 1, 3, 4, 4), torch.tensor([3, 1])

    def loss(y, t):
        return LOSSES["gathered"](y, t) + scattered(y, t)

    deployed = deploy(net, loss=loss, batch=(x, t), optimizer=SGD(lr=0.1))
    [found] = deployed.train([(x, t)], gradients=True).gradients
    loss(net(x), t).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(torch.tensor(found[name]), parameter.grad, rtol=1e-5, atol=1e-6)
    assert deployed.built(keeps_gradients=True).faults() == []
    message = "target: element [1] is 4; it is a number from 0 to 3"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        deployed.train([(x, torch.tensor([3, 4]))])


def test_an_alpha_dropout_keeps_the_mean_and_the_variance():
    module = nn.Sequential(nn.Linear(4, 2000, bias=False), nn.AlphaDropout(0.3))
    with torch.no_grad():
        module[0].weight.copy_(torch.randn(2000, 4) / 2)
    x = torch.ones(1, 4)
    graph, _ = graph_of(module, F.mse_loss, x, torch.zeros(1, 2000))
    interpreter, _ = interpreted(graph, x, torch.zeros(1, 2000))
    y = interpreter.get(next(node for node in graph.nodes if node.op == "mse_loss").inputs["x"])
    assert (abs(y.mean()) < 0.1, abs(y.var() - 1) < 0.15) == (True, True)


@pytest.mark.parametrize(
    "kind", [nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_dropouts_that_pytorch_puts_together_draw_from_seeds(kind):
    """Where something changes in place, it composes them of random truth values."""

    def forward(m, x):
        y = m.first(x) * 1
        y.view(-1).mul_(0.5)
        return m.drop(y)

    module, x = Of(forward, first=nn.Conv2d(1, 40, 1), drop=kind(0.25)), torch.rand(2, 1, 3, 4)
    target = torch.zeros(2, 40, 3, 4)
    graph, _ = graph_of(module, F.mse_loss, x, target)
    interpreter, found = interpreted(graph, x, target)
    y = interpreter.get(next(node for node in graph.nodes if node.op == "mse_loss").inputs["x"])
    maps = y.reshape(80, 12)
    least = np.array([each[0] for each in maps if (each == each[0]).all()])
    share = len(least) / 80 if "2d" in kind.__name__ or "Feature" in kind.__name__ else None
    assert share is None or 0.1 < share < 0.4
    assert [node.op for node in graph.nodes].count("dropout") == 1
    assert np.isfinite(found["first.weight"]).all()


def test_a_dropout_of_constants_is_drawn_in_each_step():
    """As a mask that all steps of a sequence share."""
    module = Of(lambda m, x: m.first(x) * F.dropout(torch.ones(1, 40), 0.5), first=nn.Linear(4, 40))
    x, target = torch.rand(3, 4), torch.zeros(3, 40)
    graph, _ = graph_of(module, F.mse_loss, x, target)
    assert [node.op for node in graph.nodes] == ["linear_fw", "dropout", "multiply", "mse_loss"]


def test_what_pytorch_composes_of_others_wrongly_is_refused():
    """Its multi-label margin with a target that ends early."""
    target = torch.tensor([[1, 0, -1, 0, 0]] * 3)
    message = "multilabel_margin_loss: PyTorch composes it of other operators, which give a loss of"
    with pytest.raises(DeployError, match=message):
        graph_of(
            *(nn.Linear(4, 5), lambda y, t: F.multilabel_margin_loss(y, target) + 0 * t.sum()),
            *(torch.randn(3, 4), torch.zeros(1)),
        )


def test_a_refusal_names_no_operator_that_others_make():
    """einsum is put together from others: it is not what is missing."""
    module = Of(
        lambda m, x: torch.einsum("bi,bi->b", m.first(x), x.lgamma()) + x.moveaxis(0, 1).sum(),
        first=nn.Linear(4, 4),
    )
    with pytest.raises(DeployError) as refused:
        graph_of(module, F.mse_loss, torch.rand(3, 4), torch.rand(3))
    assert str(refused.value).startswith("layer lgamma: lgamma: there is no kernel")
    assert "\n" not in str(refused.value)


REFUSED = {
    "index": (
        lambda y, t: y[torch.tensor([2, 1, 0]), t].sum(),
        "integers of a batch choose along one axis, as x[:, index], or for each row, as "
        "x[torch.arange(len(x)), index]; for others take gather",
    ),
    "scatter": (
        lambda y, t: torch.zeros(3, 4).scatter(1, t.view(1, 3), 1.0).sum() + y.sum(),
        "an index of [1, 3] for [3, 4]; all axes but the one that places are along, 1, are as long",
    ),
    "values at a mask": (
        lambda y, t: (z := y * 1, z.__setitem__(z > 0, y[y > 0]), z.sum() + t.sum())[2],
        "what is computed says how many elements there are",
    ),
    "remainder": (lambda y, t: (y % 0.3).sum() + t.sum(), "there are those of powers of two"),
    "slopes": (
        lambda y, t: F.rrelu(y, training=True).sum() + t.sum(),
        "random slopes; take leaky_relu, or its evaluation mode",
    ),
    "distance": (
        lambda y, t: torch.cdist(y, y, p=3).sum() + t.sum(),
        "a distance of order 3.0; there are 1 and 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_integers_do_not_choose_is_refused(name):
    loss, message = REFUSED[name]
    x, target = torch.randn(3, 5), torch.tensor([1, 3, 0])
    with pytest.raises(DeployError) as refused:
        graph_of(nn.Linear(5, 4), loss, x, target)
    assert message in str(refused.value)


def test_bags_of_several_sizes_are_refused():
    module = Of(lambda m, x: m.bag(x, torch.tensor([0, 1])), bag=nn.EmbeddingBag(6, 4))
    message = "bags of several sizes; give an index of two axes, a row for each bag"
    with pytest.raises(DeployError, match=re.escape(message)):
        graph_of(module, F.cross_entropy, torch.tensor([1, 2, 3]), torch.tensor([2, 0]))
    padded = nn.EmbeddingBag(6, 4, padding_idx=0)
    with pytest.raises(DeployError, match="a padding_idx of a mean or a maximum; a sum has one"):
        graph_of(padded, F.cross_entropy, torch.tensor([[1, 2]]), torch.tensor([2]))
