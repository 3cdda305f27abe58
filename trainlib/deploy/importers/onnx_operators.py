"""ONNX's operators of forward passes as nodes: layers and losses; RULES has all of them.

A rule takes the importer, names of inputs and attributes: RULES[op](importer, inputs, attributes).
"""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers import (
    aten_cubes,
    aten_layers,
    aten_losses,
    aten_pools,
    aten_sequences,
    onnx_einsum,
    onnx_elements,
    onnx_numbers,
    onnx_sequences,
    onnx_shapes,
)
from trainlib.deploy.importers.aten_elements import reduced
from trainlib.deploy.importers.aten_functions import power
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_layers import multiplied
from trainlib.deploy.importers.aten_pools import extreme
from trainlib.deploy.importers.aten_shapes import Known, gathered, permuted
from trainlib.deploy.importers.onnx_elements import Attributes, Names, Rule, at, text

LAYERS, LOSS_RULES, POOLS = aten_layers.RULES, aten_losses.RULES, aten_pools.RULES
CUBES = aten_cubes.RULES
CUBIC = -0.75
"""PyTorch's coefficient of cubic interpolation, and ONNX's by default."""
Pads = tuple[int, ...]


def _gemm(i: Importer, x: Names, a: Attributes) -> str:
    """alpha x w, or their transposes, + beta bias."""
    left = permuted(i, i.name(x[0]), (1, 0)) if a.get("transA") else i.name(x[0])
    bias = i.scaled(i.name(x[2]), a.get("beta", 1.0)) if at(x, 2) else None
    alpha = a.get("alpha", 1.0)
    if a.get("transB") and alpha == 1 and bias and len(i.graph.values[bias].shape) == 1:
        return i.node("linear_fw", {"X": left, "W": i.name(x[1]), "bias": bias})["Y"]
    turns = bool(a.get("transB"))
    y = i.scaled(aten_layers.product(i, left, i.name(x[1]), turns_right=turns), alpha)
    return i.node("add", {"a": y, "b": bias})["y"] if bias else y


def _matmul(i: Importer, x: Names, _: Attributes) -> str:
    left, right = i.shape(x[0]), i.shape(x[1])
    if len(left) == 2 < len(right) and prod(right[:-2]) == 1:
        flat = i.graph.reshaped(i.name(x[1]), right[-2:])
        y = i.node("matmul", {"A": i.name(x[0]), "B": flat})["C"]
        return i.graph.reshaped(y, (*right[:-2], left[0], right[-1]))
    return LAYERS["matmul"](i, x[0], x[1])


def _fused_matmul(i: Importer, x: Names, a: Attributes) -> str:
    """With its last two axes transposed, and times alpha."""
    if a.get("transBatchA") or a.get("transBatchB"):
        raise DeployError("transBatchA or transBatchB; there are transA and transB")
    names = [i.name(name) for name in x]
    for number, option in enumerate(("transA", "transB")):
        if a.get(option):
            *axes, before, last = range(len(i.graph.values[names[number]].shape))
            names[number] = permuted(i, names[number], (*axes, last, before))
    return i.scaled(aten_layers.product(i, *names), a.get("alpha", 1.0))


def _sides(a: Attributes, sizes: Pads, kernel: Pads) -> tuple[Pads, Pads]:
    """Padding before and after each axis of an image or a line."""
    rank = len(kernel)
    ones = (1,) * rank
    stride, dilation = tuple(a.get("strides", ones)), tuple(a.get("dilations", ones))
    how = text(a.get("auto_pad", "NOTSET"))
    if how in ("SAME_UPPER", "SAME_LOWER"):
        sides = zip(sizes, kernel, stride, dilation, strict=True)
        all_of = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in sides]
        halves = tuple(n // 2 for n in all_of)
        rest = tuple(n - half for n, half in zip(all_of, halves, strict=True))
        return (halves, rest) if how == "SAME_UPPER" else (rest, halves)
    if how == "VALID":
        return (0,) * rank, (0,) * rank
    pads = tuple(a.get("pads", (0,) * 2 * rank))
    return pads[:rank], pads[rank:]


def _as_image(values: Any, filled: int) -> Pads:
    """Of a line: what its height of 1 has, then its own."""
    return (filled, *values) if len(values) == 1 else tuple(values)


def _image(i: Importer, name: str) -> str:
    """A line as an image of height 1."""
    shape = i.shape(name)
    if len(shape) == 4:
        return i.name(name)
    return i.graph.reshaped(i.name(name), (*shape[:2], 1, shape[2]))


def _like(i: Importer, y: str, x: Any) -> str:
    """An image as the line that it is, where the input is one."""
    shape = i.graph.values[y].shape
    return i.graph.reshaped(y, (*shape[:2], shape[3])) if len(i.shape(x)) == 3 else y


def _padded(i: Importer, x: Any, before: Pads, after: Pads, value: float) -> str:
    """A value with a margin around its last axes."""
    if not any((*before, *after)):
        return i.name(x)
    sides = {"before": (0, 0, *before), "after": (0, 0, *after), "value": value}
    return i.node("pad", {"x": i.name(x)}, **sides)["y"]


def _volume(i: Importer, x: Names, a: Attributes, before: Pads, after: Pads) -> str:
    ones = (1, 1, 1)
    padded = Known(i, _padded(i, x[0], before, after, 0.0))
    stride, dilation = a.get("strides", ones), a.get("dilations", ones)
    return CUBES["conv3d"](i, padded, x[1], at(x, 2), stride, 0, dilation, a.get("group", 1))


def _convolution(i: Importer, x: Names, a: Attributes) -> str:
    kernel = i.shape(x[1])[2:]
    ones = (1,) * len(kernel)
    if len(kernel) == 3:
        return _volume(i, x, a, *_sides(a, i.shape(x[0])[2:], kernel))
    before, after = (_as_image(n, 0) for n in _sides(a, i.shape(x[0])[2:], kernel))
    how = {
        "stride": _as_image(a.get("strides", ones), 1),
        "padding": (before[0], after[0], before[1], after[1]),
        "dilation": _as_image(a.get("dilations", ones), 1),
        "groups": a.get("group", 1),
    }
    bias = i.name(x[2]) if at(x, 2) else None
    inputs = {"X": _image(i, x[0]), "W": _image(i, x[1]), "bias": bias}
    return _like(i, i.node("conv2d_fw", inputs, **how)["Y"], x[0])


def _transposed(i: Importer, x: Names, a: Attributes) -> str:
    kernel = i.shape(x[1])[2:]
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    before, after = tuple(a.get("pads", 2 * zeros))[: len(kernel)], a.get("pads", 2 * zeros)
    if tuple(after[len(kernel) :]) != before or "output_shape" in a:
        raise DeployError("pads of two sizes, or output_shape; the kernel has neither")
    if text(a.get("auto_pad", "NOTSET")) not in ("NOTSET", "VALID"):
        raise DeployError(f"auto_pad {text(a['auto_pad'])}; say pads")
    name = "conv_transpose1d" if len(kernel) == 1 else f"conv_transpose{len(kernel)}d.input"
    more, groups = a.get("output_padding", zeros), a.get("group", 1)
    stride, dilation = a.get("strides", ones), a.get("dilations", ones)
    rules = CUBES if len(kernel) == 3 else LAYERS
    return rules[name](i, *x[:2], at(x, 2), stride, before, more, groups, dilation)


def _pool(op: str) -> Rule:
    """Pools of PyTorch, which pads both sides alike: other padding is of the input."""
    is_average = op == "avg_pool"

    def rule(i: Importer, x: Names, a: Attributes) -> str:
        kernel = tuple(a["kernel_shape"])
        if set(a.get("dilations", (1,))) != {1}:
            raise DeployError("dilations; the kernel has none")
        before, after = _sides(a, i.shape(x[0])[2:], kernel)
        counts, ceil = bool(a.get("count_include_pad")), bool(a.get("ceil_mode"))
        name, pad = i.name(x[0]), before
        if before != after:
            if is_average and not counts:
                raise DeployError("pads of two sizes that do not count; let them, or pad the input")
            value = 0.0 if is_average else float("-inf")
            name, pad = _padded(i, x[0], before, after, value), (0,) * len(kernel)
        steps = list(a.get("strides", (1,) * len(kernel)))
        how = list(kernel), steps, list(pad), *((ceil, counts) if is_average else (1, ceil))
        rules = CUBES if len(kernel) == 3 else POOLS
        return rules[f"{op}{len(kernel)}d"](i, Known(i, name), *how)

    return rule


def _global_average(i: Importer, x: Names, _: Attributes) -> str:
    shape = i.shape(x[0])
    if len(shape) > 4:
        return reduced(i, i.name(x[0]), list(range(2, len(shape))), True, "mean")
    name = _image(i, x[0])
    size = i.graph.values[name].shape[2:]
    return _like(i, i.node("avgpool2d_fw", {"x": name}, kernel=size, stride=size)["y"], x[0])


def _global_maximum(i: Importer, x: Names, _: Attributes) -> str:
    shape = i.shape(x[0])
    flat = i.graph.reshaped(i.name(x[0]), (*shape[:2], prod(shape[2:])))
    return i.graph.reshaped(extreme(i, flat, 2, True), (*shape[:2], *(1 for _ in shape[2:])))


def _resize(i: Any, x: Names, a: Attributes) -> str:
    """As torch's interpolate does it; sizes or scales are constants."""
    shape = i.shape(x[0])
    if at(x, 3):
        size = [int(n) for n in i.number(x[3])]
    else:
        size = [int(n * factor) for n, factor in zip(shape, i.number(x[2]), strict=True)]
    if tuple(size[:2]) != shape[:2] or "axes" in a:
        raise DeployError("other axes than those of images")
    mode, places = text(a.get("mode", "nearest")), "coordinate_transformation_mode"
    place = text(a.get(places, "half_pixel"))
    aligned, is_volume = place == "align_corners", len(shape) == 5
    is_smooth = place in ("half_pixel", "pytorch_half_pixel", "align_corners")
    if mode == "nearest" and place == "asymmetric" and text(a.get("nearest_mode")) == "floor":
        if is_volume:
            return _nearest_of_volume(i, x[0], size[2:])
        return LAYERS["upsample_nearest2d.vec"](i, x[0], size[2:])
    if mode == "linear" and is_smooth:
        name = "upsample_trilinear3d.vec" if is_volume else "upsample_bilinear2d.vec"
        return LAYERS[name](i, x[0], size[2:], aligned)
    if mode == "cubic" and is_smooth and abs(a.get("cubic_coeff_a", CUBIC) - CUBIC) < 1e-6:
        return LAYERS["upsample_bicubic2d.vec"](i, x[0], size[2:], aligned)
    raise DeployError(
        f"{mode}, {place}; there are nearest (asymmetric, floor), linear and cubic (a = {CUBIC})"
    )


def _nearest_of_volume(i: Importer, x: Any, size: Any) -> str:
    shape = i.shape(x)
    numbers = np.arange(prod(shape)).reshape(shape)
    for axis, m in enumerate(size, 2):
        numbers = numbers.take(np.arange(m) * shape[axis] // m, axis)
    return gathered(i, i.name(x), numbers)


def _local_response(i: Importer, x: Names, a: Attributes) -> str:
    """Divided by a power of the squares of channels around each."""
    size, count = a["size"], i.shape(x[0])[1]
    places = np.arange(count)
    away = places[None, :] - places[:, None]
    near = (away >= -((size - 1) // 2)) & (away <= size // 2)
    square = i.node("multiply", {"a": i.name(x[0]), "b": i.name(x[0])})["y"]
    total = multiplied(i, square, 1, near.astype(np.float32) * a.get("alpha", 1e-4) / size)
    base = i.node("add", {"a": total, "b": i.constant([float(a.get("bias", 1.0))])})["y"]
    factor = power(i, Known(i, base), -float(a.get("beta", 0.75)))
    return i.node("multiply", {"a": i.name(x[0]), "b": factor})["y"]


def _batch_norm(i: Importer, x: Names, a: Attributes) -> str:
    """Running statistics stay as they are: they are constants of the graph."""
    names = ("x", "gamma", "beta", "running_mean", "running_var")
    inputs = {operand: i.name(value) for operand, value in zip(names, x, strict=True)}
    eps = a.get("epsilon", 1e-5)
    if not a.get("training_mode", 0):
        return i.node("batchnorm_frozen_fw", inputs, eps=eps)["y"]
    return i.node("batchnorm_fw", inputs, eps=eps, momentum=0.0)["y"]


def _layer_norm(i: Importer, x: Names, a: Attributes) -> str:
    shape = i.shape(x[0])
    own = shape[a.get("axis", -1) % len(shape) :]
    return LAYERS["layer_norm"](i, x[0], own, x[1], at(x, 2), a.get("epsilon", 1e-5))


def _rms_norm(i: Importer, x: Names, a: Attributes) -> str:
    shape = i.shape(x[0])
    own = shape[a.get("axis", -1) % len(shape) :]
    return LAYERS["rms_norm"](i, x[0], own, x[1], a.get("epsilon", 1e-5))


def _instance_norm(i: Importer, x: Names, a: Attributes) -> str:
    inputs = {"x": i.name(x[0]), "gamma": i.name(x[1]), "beta": i.name(x[2])}
    return i.node("instancenorm_fw", inputs, eps=a.get("epsilon", 1e-5))["y"]


def _group_norm(i: Importer, x: Names, a: Attributes) -> str:
    """Scale and bias are of channels; before version 21 of ONNX, of groups: refused."""
    channels, size = i.shape(x[0])[1], i.shape(x[1])
    if size != (channels,):
        raise DeployError(f"scales of {list(size)}; there is one for each of {channels} channels")
    return LAYERS["group_norm"](i, x[0], a["num_groups"], *x[1:3], a.get("epsilon", 1e-5))


def _attention(i: Importer, x: Names, a: Attributes) -> str:
    """Queries, keys and values of [batch, heads, steps, size]; grouped heads are repeated."""
    if any(len(i.shape(name)) != 4 for name in x[:3]) or any(x[4:]) or a.get("softcap"):
        raise DeployError("heads in an axis of their own; neither a past nor softcap")
    how: dict[str, Any] = {"scale": a.get("scale"), "enable_gqa": True}
    rule = aten_sequences.RULES["scaled_dot_product_attention"]
    return rule(i, *x[:3], at(x, 3), 0.0, bool(a.get("is_causal")), **how)


REDUCTIONS = {"mean": 1, "sum": 2}  # as ATen counts them


def _cross_entropy(i: Importer, x: Names, a: Attributes) -> str:
    if not at(x, 2) and "ignore_index" not in a:
        inputs = {"x": i.name(x[0]), "t": i.name(x[1])}
        return i.node("cross_entropy_loss", inputs, reduction=_sum_or_mean(a))["loss"]
    return _classes("cross_entropy_loss")(i, x, a)


def _classes(name: str) -> Rule:
    """A loss of classes, with weights and one that does not count."""

    def rule(i: Importer, x: Names, a: Attributes) -> str:
        how = REDUCTIONS[_sum_or_mean(a)], a.get("ignore_index", -100)
        return LOSS_RULES[name](i, x[0], x[1], at(x, 2), *how)

    return rule


def _mse(i: Importer, x: Names, a: Attributes) -> str:
    inputs = {"x": i.name(x[0]), "t": i.name(x[1])}
    return i.node("mse_loss", inputs, reduction=_sum_or_mean(a))["loss"]


def _sum_or_mean(a: Attributes) -> str:
    name = text(a.get("reduction", "mean"))
    if name not in REDUCTIONS:
        raise DeployError(f"reduction {name}; there are mean and sum")
    return name


LOSSES: dict[str, Rule] = {
    "MSELoss": _mse,
    "NegativeLogLikelihoodLoss": _classes("nll_loss_nd"),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
RULES: dict[str, Rule] = {
    **onnx_einsum.RULES,
    **onnx_elements.RULES,
    **onnx_numbers.RULES,
    **onnx_sequences.RULES,
    **onnx_shapes.RULES,
    **LOSSES,
    "Attention": _attention,
    "AveragePool": _pool("avg_pool"),
    "BatchNormInternal": _batch_norm,
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "FusedMatMul": _fused_matmul,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_maximum,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
    "LRN": _local_response,
    "MaxPool": _pool("max_pool"),
    "RMSNormalization": _rms_norm,
    "Resize": _resize,
    "SimplifiedLayerNormalization": _rms_norm,
}
