"""ATen's activations as nodes: those with a kernel, and those that are made of others."""

from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_importer import Importer, Rule

LINEAR_BEYOND = 17.0  # softplus(x) is x to float32


def mapped(op: str) -> Rule:
    """An operator on every element of x, with x alone."""
    return lambda i, x: i.node(op, {"x": i.name(x)})["y"]


def _gelu(i: Importer, x: Any, approximate: str = "none") -> str:
    return i.node("gelu_fw", {"x": i.name(x)}, approximate=approximate)["y"]


def _leaky(i: Importer, x: Any, slope: float = 0.01) -> str:
    return i.node("leaky_relu_fw", {"x": i.name(x)}, slope=slope)["y"]


def clamped(i: Importer, x: str, low: Any, high: Any, *, passes_limits: bool = True) -> str:
    """Values within limits; None: no limit.

    raises    DeployError for limits that are tensors, or none at all
    """
    limits = {name: n for name, n in (("low", low), ("high", high)) if n is not None}
    if not all(isinstance(n, (int, float)) for n in limits.values()):
        raise DeployError("limits that are tensors; they are numbers")
    limits = {name: float(n) for name, n in limits.items() if np.isfinite(n)}
    if not limits:
        return x
    return i.node("clamp_fw", {"x": x}, **limits, passes_limits=passes_limits)["y"]


def _clamp(i: Importer, x: Any, low: Any = None, high: Any = None) -> str:
    return clamped(i, i.name(x), low, high)


def _hardtanh(i: Importer, x: Any, low: float = -1.0, high: float = 1.0) -> str:
    return clamped(i, i.name(x), low, high, passes_limits=False)


def _ramp(i: Importer, x: Any) -> str:
    """0 up to -3, 1 from 3 on."""
    away = i.node("add", {"a": i.name(x), "b": i.constant([3.0])})["y"]
    return i.scaled(clamped(i, away, 0.0, 6.0, passes_limits=False), 1 / 6)


def _hardswish(i: Importer, x: Any) -> str:
    return i.node("multiply", {"a": i.name(x), "b": _ramp(i, x)})["y"]


def _elu(i: Importer, x: Any, alpha: float = 1.0, scale: float = 1.0, slope: float = 1.0) -> str:
    return i.node("elu_fw", {"x": i.name(x)}, alpha=alpha, scale=scale, slope=slope)["y"]


SELU = 1.6732632423543772, 1.0507009873554805


def _celu(i: Importer, x: Any, alpha: float = 1.0) -> str:
    return _elu(i, x, alpha, slope=1 / alpha)


def _softplus(i: Importer, x: Any, beta: float = 1.0, threshold: float = 20.0) -> str:
    if threshold < LINEAR_BEYOND:
        raise DeployError(f"threshold {threshold}; it is {LINEAR_BEYOND} or more")
    return i.node("softplus_fw", {"x": i.name(x)}, beta=float(beta))["y"]


def log_sigmoid(i: Importer, x: Any) -> str:
    """-softplus(-x)."""
    minus = i.scaled(i.name(x), -1)
    return i.scaled(i.node("softplus_fw", {"x": minus})["y"], -1)


def _mish(i: Importer, x: Any) -> str:
    gate = i.node("tanh_fw", {"x": _softplus(i, x)})["y"]
    return i.node("multiply", {"a": i.name(x), "b": gate})["y"]


def _prelu(i: Importer, x: Any, weight: Any) -> str:
    shape, count = i.shape(x), i.graph.values[i.name(weight)].elements
    own = (count, *(1 for _ in shape[2:])) if count > 1 else (1,)
    slope = i.graph.reshaped(i.name(weight), own)
    below = clamped(i, i.name(x), None, 0.0)
    above = i.node("relu_fw", {"x": i.name(x)})["y"]
    return i.node("add", {"a": above, "b": i.node("multiply", {"a": below, "b": slope})["y"]})["y"]


def _rrelu(
    i: Importer, x: Any, low: float = 0.125, high: float = 1 / 3, training: bool = False
) -> str:
    """In evaluation mode the mean slope.

    raises    DeployError in training: random slopes
    """
    if training:
        raise DeployError("random slopes; take leaky_relu, or its evaluation mode")
    return _leaky(i, x, (low + high) / 2)


def _fake_quantised(i: Importer, x: Any, scale: float, zero: int, low: int, high: int) -> str:
    """Whole multiples of a scale, straight through where they are within limits."""
    near = clamped(i, i.name(x), (low - zero - 0.5) * scale, (high - zero + 0.5) * scale)
    whole = i.node("round", {"x": i.scaled(near, 1 / scale)})["y"]
    within = i.scaled(clamped(i, whole, float(low - zero), float(high - zero)), scale)
    away = i.graph.stop(i.node("subtract", {"a": within, "b": near})["y"])
    return i.node("add", {"a": near, "b": away})["y"]


def _softshrink(i: Importer, x: Any, limit: float = 0.5) -> str:
    inside = clamped(i, i.name(x), -limit, limit)
    return i.node("subtract", {"a": i.name(x), "b": inside})["y"]


def _softmax(i: Importer, x: Any, dim: int, *_: Any, **__: Any) -> str:
    return i.node("softmax_fw", {"x": i.name(x)}, axis=dim % len(i.shape(x)))["y"]


def _shifted(i: Importer, x: str, axes: tuple[int, ...]) -> tuple[str, str, str]:
    """The largest along axes, x less that, and the logarithm of the sum of its powers."""
    shape = i.graph.values[x].shape
    own = tuple(1 if n in axes else size for n, size in enumerate(shape))
    most = i.graph.reshaped(i.node("shift", {"x": x}, axes=axes)["y"], own)
    away = i.node("subtract", {"a": x, "b": most})["y"]
    power = i.node("exp", {"x": away})["y"]
    total = i.node("reduce", {"x": power}, axes=axes, what="sum")["y"]
    return most, away, i.graph.reshaped(i.node("log", {"x": total})["y"], own)


def log_softmax(i: Importer, x: str, axis: int) -> str:
    """A value less the logarithm of the sum of its powers."""
    _, away, log = _shifted(i, x, (axis,))
    y = i.node("subtract", {"a": away, "b": log})["y"]
    i.logits[y] = x, axis
    return y


def _log_softmax(i: Importer, x: Any, dim: int, *_: Any, **__: Any) -> str:
    return log_softmax(i, i.name(x), dim % len(i.shape(x)))


def _logsumexp(i: Importer, x: Any, dims: Any, keep: bool = False) -> str:
    """Over axes, all of them by default."""
    shape = i.shape(x)
    some = [dims] if isinstance(dims, int) else dims or range(len(shape))
    axes = tuple(sorted(axis % len(shape) for axis in some))
    most, _, log = _shifted(i, i.name(x), axes)
    y = i.node("add", {"a": most, "b": log})["y"]
    left = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    return y if keep else i.graph.reshaped(y, left or (1,))


RULES: dict[str, Rule] = {
    "abs": mapped("abs_fw"),
    "celu": _celu,
    "clamp": _clamp,
    "clamp_max": lambda i, x, high: _clamp(i, x, None, high),
    "clamp_min": lambda i, x, low: _clamp(i, x, low),
    "elu": _elu,
    "fake_quantize_per_tensor_affine": _fake_quantised,
    "gelu": _gelu,
    "hardsigmoid": _ramp,
    "hardswish": _hardswish,
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky,
    "log_sigmoid": log_sigmoid,
    "log_softmax.int": _log_softmax,
    "logsumexp": _logsumexp,
    "mish": _mish,
    "prelu": _prelu,
    "relu": mapped("relu_fw"),
    "relu6": lambda i, x: _hardtanh(i, x, 0.0, 6.0),
    "rrelu": _rrelu,
    "selu": lambda i, x: _elu(i, x, *SELU),
    "sigmoid": mapped("sigmoid_fw"),
    "silu": mapped("silu_fw"),
    "softmax.int": _softmax,
    "softplus": _softplus,
    "softshrink": _softshrink,
    "tanh": mapped("tanh_fw"),
}
