"""ATen's layers as nodes: convolutions, resizing, products, norms."""

from collections.abc import Sequence
from math import floor, prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_importer import Importer, Rule, both
from trainlib.deploy.importers.aten_shapes import expanded, gathered, permuted


def check_batch(shape: Sequence[int], kernel: Sequence[int]) -> None:
    """raises    DeployError for an input of a convolution that is no batch"""
    if len(shape) != len(kernel):
        raise DeployError(f"an input of {list(shape)}; it takes a batch of them: unsqueeze(0)")


def sides_of(
    padding: str | tuple[int, ...], kernel: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Zeros before and after each axis of a convolution.

    padding    "same", "valid", or as many on both sides of an axis
    kernel     taps by axis
    """
    if not isinstance(padding, str):
        return [(p, p) for p in padding]
    if padding == "valid":
        return [(0, 0) for _ in kernel]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return [(r // 2, r - r // 2) for r in reach]


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
    check_batch(shape, kernel)
    x, weight, bias = i.name(x), i.name(weight), i.optional(bias)
    is_line = len(kernel) == 3
    if is_line:
        x = g.reshaped(x, (*shape[:2], 1, shape[2]))
        weight = g.reshaped(weight, (*kernel[:2], 1, kernel[2]))
        kernel = (*kernel[:2], 1, kernel[2])
    dilation, stride = (both(v, is_line, 1) for v in (dilation, stride))
    given = padding if isinstance(padding, str) else both(padding, is_line, 0)
    pads = [n for side in sides_of(given, kernel[2:], dilation) for n in side]
    how = {"stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": groups}
    y = i.node("conv2d_fw", {"X": x, "W": weight, "bias": bias}, **how)["Y"]
    shape = g.values[y].shape
    return g.reshaped(y, (*shape[:2], shape[3])) if is_line else y


def _transposed(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    more: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> str:
    """The gradient of a convolution's input, as a layer.

    A stride or more of output padding is a line of zeros after its own input, each as far apart.
    """
    g, shape, kernel = i.graph, i.shape(x), i.shape(weight)
    x, weight = i.name(x), i.name(weight)
    is_line = len(kernel) == 3
    check_batch(shape, kernel)
    if is_line:
        x = g.reshaped(x, (*shape[:2], 1, shape[2]))
        weight = g.reshaped(weight, (*kernel[:2], 1, kernel[2]))
    dilation, stride = (both(v, is_line, 1) for v in (dilation, stride))
    padding, more = (both(v, is_line, 0) for v in (padding, more))
    lines = tuple(extra // step for extra, step in zip(more, stride, strict=True))
    if any(lines):
        x = i.node("pad", {"x": x}, before=(0,) * 4, after=(0, 0, *lines), value=0.0)["y"]
    more = tuple(extra % step for extra, step in zip(more, stride, strict=True))
    sides = zip(g.values[x].shape[2:], g.values[weight].shape[2:], range(2), strict=True)
    size = tuple(
        (n - 1) * stride[d] - 2 * padding[d] + dilation[d] * (m - 1) + 1 + more[d]
        for n, m, d in sides
    )
    pads = tuple(n for n in padding for _ in range(2))
    how = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    channels = kernel[1] * groups
    y = i.node("conv2d_ig", {"dY": x, "W": weight}, input=(channels, *size), **how)["dX"]
    if bias is not None:
        own = g.reshaped(i.name(bias), (channels, 1, 1))
        y = i.node("add", {"a": y, "b": own})["y"]
    return g.reshaped(y, (shape[0], channels, size[1])) if is_line else y


def _bilinear(i: Importer, x: Any, size: Any, aligned: bool, scales: Any = None) -> str:
    return _resized(i, "bilinear_fw", x, size, scales, aligned=aligned)


def _nearest(i: Importer, x: Any, size: Any, scales: Any = None) -> str:
    return _resized(i, "nearest_fw", x, size, scales)


def _resized(i: Importer, op: str, x: Any, size: Any, scales: Any, **how: Any) -> str:
    """Kernels go by the sizes. Where factors are others, as 1.7 of 5 to 8 places, PyTorch goes by
    those, but for an axis that stays as it is, and for lines that are aligned.
    """
    shape = i.shape(x)
    if size is None:
        size = [floor(n * factor) for n, factor in zip(shape[2:], scales, strict=True)]
        axes = list(zip(shape[2:], size, scales, strict=True))
        is_exact = all(m in (n, n * factor) for n, m, factor in axes)
        if not how.get("aligned") and not is_exact:
            return (_nearest_by if op == "nearest_fw" else _bilinear_by)(i, i.name(x), axes)
    is_line = len(shape) == 3
    name = i.graph.reshaped(i.name(x), (*shape[:2], 1, shape[2])) if is_line else i.name(x)
    out = (1, *size) if is_line else tuple(size)
    y = i.node(op, {"x": name}, out=out, **how)["y"]
    return i.graph.reshaped(y, (*shape[:2], *size)) if is_line else y


def _nearest_by(i: Importer, x: str, axes: Sequence[tuple[int, int, float]]) -> str:
    """By factors: sizes before, after, and the factor of each axis of an image."""
    shape = i.graph.values[x].shape
    numbers = np.arange(prod(shape)).reshape(shape)
    for axis, (n, m, factor) in enumerate(axes, 2):
        places = np.arange(m) * np.float32(1 / factor if m != n else 1)
        numbers = numbers.take(np.minimum(places.astype(int), n - 1), axis)
    return gathered(i, x, numbers)


def _bilinear_by(i: Importer, x: str, axes: Sequence[tuple[int, int, float]]) -> str:
    """By factors, see `_nearest_by`: a product with the shares of both neighbours for each axis."""
    for axis, (n, m, factor) in enumerate(axes, 2):
        if m == n:
            continue
        places = np.maximum((np.arange(m) + 0.5) / factor - 0.5, 0)
        first = np.minimum(places.astype(int), n - 1)
        second, share = np.minimum(first + 1, n - 1), np.minimum(places - first, 1)
        shares = np.zeros((m, n), np.float32)
        np.add.at(shares, (np.arange(m), first), 1 - share)
        np.add.at(shares, (np.arange(m), second), share)
        x = multiplied(i, x, axis, shares)
    return x


def _by_matrices(how: str) -> Rule:
    """Resizing axis by axis, each a product with the shares that PyTorch gives to lines of ones.

    how    as torch.nn.functional.interpolate calls it
    """

    def rule(i: Importer, x: Any, size: Any, aligned: bool, scales: Any = None) -> str:
        shape, y = i.shape(x), i.name(x)
        factors = scales or [None] * (len(shape) - 2)
        sizes = size or [floor(n * f) for n, f in zip(shape[2:], factors, strict=True)]
        for axis, (m, factor) in enumerate(zip(sizes, factors, strict=True), 2):
            if m != shape[axis]:
                y = multiplied(i, y, axis, _shares(how, shape[axis], m, factor, aligned))
        return y

    return rule


def _shares(how: str, n: int, m: int, factor: float | None, aligned: bool) -> np.ndarray:
    """[m, n]: what each of m places takes of each of n."""
    import torch
    from torch.nn.functional import interpolate

    ones = torch.eye(n, dtype=torch.float64)[None, :, :, None]
    given: dict[str, Any] = {"mode": how, "align_corners": aligned}
    given |= {"size": (m, 1)} if factor is None else {"scale_factor": (factor, 1.0)}
    found = interpolate(ones, **given)[0, :, :, 0]
    return np.asarray(found.T.numpy(), np.float32)


def _linear(i: Importer, x: Any, weight: Any, bias: Any = None) -> str:
    inputs = {"X": i.name(x), "W": i.name(weight), "bias": i.optional(bias)}
    return i.node("linear_fw", inputs)["Y"]


def _matmul(i: Importer, a: Any, b: Any) -> str:
    """A vector is a matrix of one row or column."""
    left, right = i.shape(a), i.shape(b)
    first = i.name(a) if len(left) > 1 else i.graph.reshaped(i.name(a), (1, *left))
    second = i.name(b) if len(right) > 1 else i.graph.reshaped(i.name(b), (*right, 1))
    y = product(i, first, second)
    shape = i.graph.values[y].shape
    if len(left) > 1 and len(right) > 1:
        return y
    rows = shape[-2:-1] if len(left) > 1 else ()
    columns = shape[-1:] if len(right) > 1 else ()
    return i.graph.reshaped(y, (*shape[:-2], *rows, *columns) or (1,))


def product(i: Importer, first: str, second: str, *, turns_right: bool = False) -> str:
    """A product of matrices, or of several; what there is one of is repeated.

    A transpose in front of it becomes the product's own; with one matrix it is a linear layer.

    turns_right    of rows of the second
    """
    values = i.graph.values
    if not turns_right and second in i.turned:
        second, turns_right = i.turned[second], True
    left, right = values[first].shape, values[second].shape
    if len(right) == 2 and turns_right and first not in i.turned:
        return i.node("linear_fw", {"X": first, "W": second})["Y"]
    if len(right) == 2 < len(left):
        rows = i.graph.reshaped(first, (prod(left[:-1]), left[-1]))
        y = product(i, rows, second, turns_right=turns_right)
        return i.graph.reshaped(y, (*left[:-1], values[y].shape[-1]))
    how = {"trans_a": True} if first in i.turned else {}
    how |= {"trans_b": True} if turns_right else {}
    first = i.turned.get(first, first)
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise DeployError(f"a product of {list(left)} and {list(right)}") from None
    pair = (expanded(i, n, (*batch, *values[n].shape[-2:])) for n in (first, second))
    return i.node("matmul", dict(zip("AB", pair, strict=True)), **how)["C"]


def _added_product(
    i: Importer, other: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1
) -> str:
    """beta times a value, and alpha times a product."""
    y = i.scaled(_matmul(i, a, b), alpha)
    return i.node("add", {"a": y, "b": i.scaled(i.name(other), beta)})["y"]


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


def _batch_norm_of_state(i: Importer, *of: Any) -> tuple[str | None, ...]:
    """As `batch_norm`, which gives new statistics, too: the kernel writes those where they are."""
    return _batch_norm(i, *of), *(None,) * 4


def _batch_norm_without_training(
    i: Importer, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> tuple[str | None, ...]:
    """With running statistics; that of a batch would be given, too."""
    return _batch_norm(i, x, weight, bias, mean, var, False, momentum, eps), None, None


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
    if use_input_stats and mean is not None:
        raise DeployError("running statistics; leave track_running_stats out")
    gamma, beta = _affine(i, weight, bias, i.shape(x)[1])
    if not use_input_stats:
        inputs = {"x": i.name(x), "gamma": gamma, "beta": beta}
        inputs |= {"running_mean": i.name(mean), "running_var": i.name(var)}
        return i.node("batchnorm_frozen_fw", inputs, eps=eps)["y"]
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


def _running_sum(i: Importer, x: Any, dim: int, **_: Any) -> str:
    axis = dim % len(i.shape(x))
    return multiplied(i, i.name(x), axis, np.tri(i.shape(x)[axis], dtype=np.float32))


def multiplied(i: Importer, x: str, axis: int, matrix: np.ndarray) -> str:
    """A constant matrix times what lies along an axis."""
    rank = len(i.graph.values[x].shape)
    order = [*(a for a in range(rank) if a != axis), axis]
    y = permuted(i, x, tuple(order)) if axis != rank - 1 else x
    y = i.node("linear_fw", {"X": y, "W": i.constant(matrix)})["Y"]
    back = tuple(order.index(a) for a in range(rank))
    return permuted(i, y, back) if axis != rank - 1 else y


RULES: dict[str, Rule] = {
    "_native_batch_norm_legit_functional": _batch_norm_of_state,
    "_native_batch_norm_legit_no_training": _batch_norm_without_training,
    "addmm": _added_product,
    "addmv": _added_product,
    "baddbmm": _added_product,
    "batch_norm": _batch_norm,
    "bmm": _matmul,
    "conv1d": _convolution,
    "conv1d.padding": _convolution,
    "conv2d": _convolution,
    "conv2d.padding": _convolution,
    "conv_transpose1d": _transposed,
    "conv_transpose2d.input": _transposed,
    "cumsum": _running_sum,
    "dot": _matmul,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "mv": _matmul,
    "rms_norm": _rms_norm,
    "upsample_bilinear2d.vec": _bilinear,
    "upsample_bicubic2d.vec": _by_matrices("bicubic"),
    "upsample_nearest1d.vec": _nearest,
    "upsample_nearest2d.vec": _nearest,
    "upsample_trilinear3d.vec": _by_matrices("bilinear"),
}
