"""Kernels in PyTorch: outputs, or the first of them, from the arguments and inputs of a point."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from trainlib.launch import checked
from trainlib.primitive.tensor import INT32
from trainlib.registry import KERNELS

Tensors = Mapping[str, torch.Tensor]
Meaning = Callable[[Any, Tensors], tuple[torch.Tensor, ...]]


def _gradients(
    of: Callable[..., torch.Tensor], dy: torch.Tensor, *leaves: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    own = [leaf.clone().requires_grad_() for leaf in leaves]
    return torch.autograd.grad(of(*own), own, dy)


def _map(of: Callable[..., torch.Tensor]) -> tuple[Meaning, Meaning]:
    """Forward, and backward from x."""
    return (
        lambda p, t: (of(p, t["x"]),),
        lambda p, t: _gradients(lambda x: of(p, x), t["dy"], t["x"]),
    )


def _loss(of: Callable[..., torch.Tensor]) -> Meaning:
    def meaning(p: Any, t: Tensors) -> tuple[torch.Tensor, ...]:
        x = t["x"].clone().requires_grad_()
        loss = of(p, x, t["t"])
        return loss.detach().reshape(1), *torch.autograd.grad(loss, x)

    return meaning


def _slides(p: Any) -> dict[str, Any]:
    groups = p.inputs if hasattr(p, "multiplier") else p.groups
    return {"stride": p.stride, "dilation": p.dilation, "groups": groups}


def _convolution(p: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    top, bottom, left, right = p.padding
    return F.conv2d(F.pad(x, (left, right, top, bottom)), w, **_slides(p))


def _input_gradient(p: Any, t: Tensors) -> tuple[torch.Tensor, ...]:
    x = t["W"].new_zeros((p.batch, p.inputs, p.height, p.width))
    return _gradients(lambda x: _convolution(p, x, t["W"]), t["dY"], x)


def _weight_gradient(p: Any, t: Tensors) -> tuple[torch.Tensor, ...]:
    outputs, inputs = (p.outputs, p.inputs) if hasattr(p, "outputs") else (t["dY"].shape[1], 1)
    w = t["X"].new_zeros((outputs, inputs, *p.kernel))
    return _gradients(lambda w: _convolution(p, t["X"], w), t["dY"], w)


CONVOLUTIONS: dict[str, Meaning] = {
    "fw": lambda p, t: (_convolution(p, t["X"], t["W"]),),
    "ig": _input_gradient,
    "wg": _weight_gradient,
}


def _norm(name: str, p: Any, x: torch.Tensor, gamma: torch.Tensor, beta: Any) -> Any:
    if name == "batchnorm":
        return F.batch_norm(x, None, None, gamma, beta, True, 0.0, p.eps)
    if name == "instancenorm":
        return F.instance_norm(x, None, None, gamma, beta, True, 0.0, p.eps)
    if name == "groupnorm":
        return F.group_norm(x, p.groups, gamma, beta, p.eps)
    if name == "layernorm":
        return F.layer_norm(x, (p.columns,), gamma, beta, p.eps)
    return F.rms_norm(x, (p.columns,), gamma, p.eps)


def _norm_forward(name: str) -> Meaning:
    return lambda p, t: (_norm(name, p, t["x"], t["gamma"], t.get("beta")),)


def _reduced(p: Any, t: Tensors) -> tuple[torch.Tensor, ...]:
    of: dict[str, Any] = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
    return (torch.atleast_1d(of[p.what](t["x"], p.axes)),)


def _pooled(name: str) -> Meaning:
    def meaning(p: Any, t: Tensors) -> tuple[torch.Tensor, ...]:
        how = {"kernel_size": p.kernel, "stride": p.stride or p.kernel, "padding": p.pad}
        if name == "maxpool2d":
            return (F.max_pool2d(t["x"], **how),)
        return (F.avg_pool2d(t["x"], **how, count_include_pad=p.counts_pad),)

    return meaning


def _entropy(p: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, t if p.is_soft else t.long(), reduction=p.reduction)


def _gelu(p: Any, x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate=p.approximate)


MAPS: dict[str, Callable[..., torch.Tensor]] = {
    "relu": lambda p, x: F.relu(x),
    "leaky_relu": lambda p, x: F.leaky_relu(x, p.slope),
    "silu": lambda p, x: F.silu(x),
    "gelu": _gelu,
    "clamp": lambda p, x: torch.clamp(x, p.low, p.high),
    "abs": lambda p, x: torch.abs(x),
    "softplus": lambda p, x: F.softplus(x, p.beta),
    "elu": lambda p, x: F.elu(x, p.alpha),
}
FUNCTIONS = "exp log erf sqrt rsqrt reciprocal neg".split()
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "mse": lambda p, x, t: F.mse_loss(x, t, reduction=p.reduction),
    "l1": lambda p, x, t: F.l1_loss(x, t, reduction=p.reduction),
    "huber": lambda p, x, t: F.huber_loss(x, t, reduction=p.reduction, delta=p.delta),
    "bce_logits": lambda p, x, t: F.binary_cross_entropy_with_logits(x, t, reduction=p.reduction),
    "bce": lambda p, x, t: F.binary_cross_entropy(x, t, reduction=p.reduction),
    "cross_entropy": _entropy,
}
NORMS = "batchnorm instancenorm groupnorm layernorm rmsnorm".split()


def _function(name: str) -> Meaning:
    return lambda p, t: (getattr(torch, name)(t["x"]),)


MEANINGS: dict[str, Meaning] = {
    **{f"{name}_fw": _map(of)[0] for name, of in MAPS.items()},
    **{f"{name}_bw": _map(of)[1] for name, of in MAPS.items()},
    **{name: _function(name) for name in FUNCTIONS},
    **{f"{name}_fw": _function(name) for name in ("sigmoid", "tanh")},
    **{f"{name}_loss": _loss(of) for name, of in LOSSES.items()},
    **{f"conv2d_{step}": of for step, of in CONVOLUTIONS.items()},
    **{f"{name}_fw": _norm_forward(name) for name in NORMS},
    **{f"{name}_fw": _pooled(name) for name in ("maxpool2d", "avgpool2d")},
    "add": lambda p, t: (t["a"] + t["b"],),
    "subtract": lambda p, t: (t["a"] - t["b"],),
    "multiply": lambda p, t: (t["a"] * t["b"],),
    "divide": lambda p, t: (t["a"] / t["b"],),
    "matmul": lambda p, t: (t["A"] @ t["B"],),
    "matmul_batched": lambda p, t: (t["A"] @ t["B"],),
    "linear_fw": lambda p, t: (F.linear(t["X"], t["W"]),),
    "linear_ig": lambda p, t: (t["dY"] @ t["W"],),
    "linear_wg": lambda p, t: (t["dY"].T @ t["X"],),
    "softmax_fw": lambda p, t: (torch.softmax(t["x"], p.axis),),
    "softmax_bw": lambda p, t: (
        torch._softmax_backward_data(t["dy"], t["y"], p.axis, t["y"].dtype),
    ),
    "reduce": _reduced,
}


def golden(draw: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each output in PyTorch's float64 and in its float32, if the kernel is here."""
    stem = draw.kernel.removesuffix("_f32")
    if stem not in MEANINGS:
        return
    point, found = checked(draw.kernel, draw.arguments), []
    for dtype in (np.float64, np.float32):
        arrays = {n: a if a.dtype == INT32 else a.astype(dtype) for n, a in draw.inputs.items()}
        results = MEANINGS[stem](point, {n: torch.tensor(a) for n, a in arrays.items()})
        found.append([result.detach().numpy() for result in results])
    tensors = KERNELS[draw.kernel].tensors(point)
    names = (
        ["y"]
        if stem.partition("_")[0] in NORMS
        else [n for n in tensors if tensors[n].role == "out"]
    )
    yield from zip(names, *found, strict=False)
