"""ATen's layers as nodes: convolutions, products, norms, pools, losses."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.aten_importer import Importer, Rule, both, pair
from trainlib.deploy.graph import DeployError

REDUCTIONS = {1: "mean", 2: "sum"}


def _convolution(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> str:
    g, shape, kernel = i.graph, i.shape(x), i.shape(weight)
    x, weight, bias = i.name(x), i.name(weight), i.optional(bias)
    is_line = len(kernel) == 3
    if is_line:
        x = g.reshaped(x, (*shape[:2], 1, shape[2]))
        weight = g.reshaped(weight, (*kernel[:2], 1, kernel[2]))
        kernel = (*kernel[:2], 1, kernel[2])
    if len(shape) != len(kernel) - is_line:
        raise DeployError(f"an input of {list(shape)}; it takes batches of images")
    dilation, stride = (both(v, is_line, 1) for v in (dilation, stride))
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(dilation, kernel[2:], strict=True)]
        pads = [n for r in reach for n in (r // 2, r - r // 2)]
    elif padding == "valid":
        pads = [0, 0, 0, 0]
    else:
        pads = [n for n in both(padding, is_line, 0) for _ in range(2)]
    how = {"stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": groups}
    y = i.node("conv2d_fw", {"X": x, "W": weight, "bias": bias}, **how)["Y"]
    shape = g.values[y].shape
    return g.reshaped(y, (*shape[:2], shape[3])) if is_line else y


def _linear(i: Importer, x: Any, weight: Any, bias: Any = None) -> str:
    inputs = {"X": i.name(x), "W": i.name(weight), "bias": i.optional(bias)}
    return i.node("linear_fw", inputs)["Y"]


def _matmul(i: Importer, a: Any, b: Any) -> str:
    """A transpose in front of it becomes the product's own; with a matrix it is a linear layer."""
    first, second = i.name(a), i.name(b)
    left, right = i.shape(a), i.shape(b)
    if len(left) < 2 or len(right) < 2:
        raise DeployError(f"a product of {list(left)} and {list(right)}; both have 2 or more axes")
    if len(right) == 2 and second in i.turned:
        return i.node("linear_fw", {"X": first, "W": i.turned[second]})["Y"]
    if len(right) == 2 < len(left):
        rows = i.graph.reshaped(first, (prod(left[:-1]), left[-1]))
        y = i.node("matmul", {"A": rows, "B": second})["C"]
        return i.graph.reshaped(y, (*left[:-1], right[-1]))
    how = {name: True for name, v in (("trans_a", first), ("trans_b", second)) if v in i.turned}
    inputs = {"A": i.turned.get(first, first), "B": i.turned.get(second, second)}
    return i.node("matmul", inputs, **how)["C"]


def _addmm(i: Importer, bias: Any, a: Any, b: Any) -> str:
    y = i.node("matmul", {"A": i.name(a), "B": i.name(b)})["C"]
    return i.node("add", {"a": y, "b": i.name(bias)})["y"]


def _batch_norm(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> str:
    channels = i.shape(x)[1]
    gamma, beta = _affine(i, weight, bias, channels)
    inputs = {"x": i.name(x), "gamma": gamma, "beta": beta}
    if mean is None:
        running = (np.zeros(channels, np.float32), np.ones(channels, np.float32))
        names = [f"{i.layer}.running_{name}" for name in ("mean", "var")]
        inputs["running_mean"], inputs["running_var"] = (
            i.graph.add(i.graph.fresh(n), (channels,), "state", array=a)
            for n, a in zip(names, running, strict=True)
        )
        momentum = momentum or 0.0
    else:
        inputs |= {"running_mean": i.name(mean), "running_var": i.name(var)}
    if not training:
        return i.node("batchnorm_frozen_fw", inputs, eps=eps)["y"]
    return i.node("batchnorm_fw", inputs, eps=eps, momentum=momentum)["y"]


def _affine(i: Importer, weight: Any, bias: Any, size: int) -> tuple[str, str]:
    """Weight and bias of a norm; ones and zeros where it has none."""
    gamma = i.constant(np.ones(size, np.float32)) if weight is None else i.name(weight)
    beta = i.constant(np.zeros(size, np.float32)) if bias is None else i.name(bias)
    return gamma, beta


def _instance_norm(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> str:
    if not use_input_stats or mean is not None:
        raise DeployError("running statistics; leave track_running_stats out")
    gamma, beta = _affine(i, weight, bias, i.shape(x)[1])
    return i.node("instancenorm_fw", {"x": i.name(x), "gamma": gamma, "beta": beta}, eps=eps)["y"]


def _group_norm(
    i: Importer,
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> str:
    gamma, beta = _affine(i, weight, bias, i.shape(x)[1])
    inputs = {"x": i.name(x), "gamma": gamma, "beta": beta}
    return i.node("groupnorm_fw", inputs, groups=groups, eps=eps)["y"]


def _layer_norm(
    i: Importer,
    x: Any,
    shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> str:
    gamma, beta = _affine(i, weight, bias, prod(shape))
    inputs = {"x": i.name(x), "gamma": gamma, "beta": beta}
    return i.node("layernorm_fw", inputs, eps=eps)["y"]


def _rms_norm(
    i: Importer, x: Any, shape: Sequence[int], weight: Any = None, eps: Any = None
) -> str:
    gamma, _ = _affine(i, weight, None, prod(shape))
    eps = float(np.finfo(np.float32).eps) if eps is None else eps
    return i.node("rmsnorm_fw", {"x": i.name(x), "gamma": gamma}, eps=eps)["y"]


def _max_pool(
    i: Importer,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> str:
    if ceil_mode or pair(dilation) != (1, 1):
        raise DeployError("ceil_mode or dilation; the kernel has neither")
    return _pool(i, "maxpool2d_fw", x, kernel, stride or kernel, padding)


def _avg_pool(
    i: Importer,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    counts_pad: bool = True,
    divisor: Any = None,
) -> str:
    if ceil_mode or divisor is not None:
        raise DeployError("ceil_mode or divisor_override; the kernel has neither")
    return _pool(i, "avgpool2d_fw", x, kernel, stride or kernel, padding, counts_pad=counts_pad)


def _pool(i: Importer, op: str, x: Any, kernel: Any, stride: Any, padding: Any, **more: Any) -> str:
    shape, name = i.shape(x), i.name(x)
    is_line = len(shape) == 3
    if is_line:
        name = i.graph.reshaped(name, (*shape[:2], 1, shape[2]))
    kernel, stride, pad = (both(v, is_line, n) for v, n in ((kernel, 1), (stride, 1), (padding, 0)))
    y = i.node(op, {"x": name}, kernel=kernel, stride=stride, pad=pad, **more)["y"]
    shape = i.graph.values[y].shape
    return i.graph.reshaped(y, (*shape[:2], shape[3])) if is_line else y


def _adaptive(i: Importer, x: Any, size: Any) -> str:
    shape = i.shape(x)
    sizes = shape[2:]
    wanted = [size] if isinstance(size, int) else list(size)
    wanted = [n if m is None else m for n, m in zip(sizes, wanted, strict=True)]
    if any(n % m for n, m in zip(sizes, wanted, strict=True)):
        raise DeployError(f"windows of {list(sizes)} for {wanted} are not of one size")
    windows = [n // m for n, m in zip(sizes, wanted, strict=True)]
    return _pool(i, "avgpool2d_fw", x, windows, windows, 0)


def _reduction(number: int) -> str:
    if number not in REDUCTIONS:
        raise DeployError('reduction "none"; there are "mean" and "sum"')
    return REDUCTIONS[number]


def _cross_entropy(
    i: Importer,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> str:
    if weight is not None or smoothing or ignore != -100:
        raise DeployError("weights, label smoothing or ignore_index; the kernel has none of them")
    shape = i.shape(x)
    if len(shape) != 2:
        raise DeployError(f"an input of {list(shape)}; it takes a row of classes for each example")
    is_soft = i.graph.values[i.name(target)].dtype == "float32"
    inputs = {"x": i.name(x), "t": i.name(target)}
    how = {"reduction": _reduction(reduction), "is_soft": is_soft}
    return i.node("cross_entropy_loss", inputs, **how)["loss"]


def _loss(op: str) -> Rule:
    def rule(i: Importer, x: Any, target: Any, reduction: int = 1) -> str:
        if i.shape(x) != i.shape(target):
            raise DeployError(
                f"an output of {list(i.shape(x))} and a target of {list(i.shape(target))}; "
                f"both have the same shape"
            )
        inputs = {"x": i.name(x), "t": i.name(target)}
        return i.node(op, inputs, reduction=_reduction(reduction))["loss"]

    return rule


RULES: dict[str, Rule] = {
    "adaptive_avg_pool1d": _adaptive,
    "adaptive_avg_pool2d": _adaptive,
    "addmm": _addmm,
    "avg_pool1d": _avg_pool,
    "avg_pool2d": _avg_pool,
    "batch_norm": _batch_norm,
    "bmm": _matmul,
    "conv1d": _convolution,
    "conv1d.padding": _convolution,
    "conv2d": _convolution,
    "conv2d.padding": _convolution,
    "cross_entropy_loss": _cross_entropy,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "l1_loss": _loss("l1_loss"),
    "layer_norm": _layer_norm,
    "linear": _linear,
    "matmul": _matmul,
    "max_pool1d": _max_pool,
    "max_pool2d": _max_pool,
    "mm": _matmul,
    "mse_loss": _loss("mse_loss"),
    "rms_norm": _rms_norm,
}
