"""ONNX's operators of forward passes as nodes.

A rule takes the importer, names of inputs and attributes: RULES[op](importer, inputs, attributes).
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers import aten_activations, aten_elements, aten_layers, aten_shapes
from trainlib.deploy.importers.aten_importer import Importer, Rule

Names = Sequence[str]
Attributes = Mapping[str, Any]
LAYERS, SHAPES = aten_layers.RULES, aten_shapes.RULES
ELEMENTS = aten_elements.RULES | aten_activations.RULES
ONES = (1, 1)


def _gemm(i: Importer, x: Names, a: Attributes) -> str:
    if a.get("alpha", 1.0) != 1 or (len(x) > 2 and a.get("beta", 1.0) != 1) or a.get("transA"):
        raise DeployError("alpha, beta or transA; there are x w or x w^T, and a bias")
    bias = x[2] if len(x) > 2 else None
    if a.get("transB"):
        return LAYERS["linear"](i, x[0], x[1], bias)
    y = LAYERS["matmul"](i, x[0], x[1])
    return i.node("add", {"a": y, "b": i.name(bias)})["y"] if bias else y


def _matmul(i: Importer, x: Names, _: Attributes) -> str:
    left, right = i.shape(x[0]), i.shape(x[1])
    if len(left) == 2 < len(right) and prod(right[:-2]) == 1:
        flat = i.graph.reshaped(i.name(x[1]), right[-2:])
        y = i.node("matmul", {"A": i.name(x[0]), "B": flat})["C"]
        return i.graph.reshaped(y, (*right[:-2], left[0], right[-1]))
    return LAYERS["matmul"](i, x[0], x[1])


def _convolution(i: Importer, x: Names, a: Attributes) -> str:
    _check_padding(a)
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    how = {
        "stride": tuple(a.get("strides", ONES)),
        "padding": (top, bottom, left, right),
        "dilation": tuple(a.get("dilations", ONES)),
        "groups": a.get("group", 1),
    }
    bias = i.name(x[2]) if len(x) > 2 else None
    inputs = {"X": i.name(x[0]), "W": i.name(x[1]), "bias": bias}
    return i.node("conv2d_fw", inputs, **how)["Y"]


def _check_padding(a: Attributes) -> None:
    padding = a.get("auto_pad", b"NOTSET")
    if padding not in (b"NOTSET", "NOTSET"):
        raise DeployError(f"auto_pad {padding!r}; say pads")


def _pool(op: str) -> Rule:
    def rule(i: Importer, x: Names, a: Attributes) -> str:
        _check_padding(a)
        pads = tuple(a.get("pads", (0, 0, 0, 0)))
        if pads[:2] != pads[2:] or a.get("ceil_mode") or set(a.get("dilations", ONES)) != {1}:
            raise DeployError("pads of two sizes, ceil_mode or dilations; the kernel has none")
        how = {"kernel": tuple(a["kernel_shape"]), "stride": tuple(a.get("strides", ONES))}
        more = {"counts_pad": bool(a.get("count_include_pad"))} if op == "avgpool2d_fw" else {}
        return i.node(op, {"x": i.name(x[0])}, **how, pad=pads[:2], **more)["y"]

    return rule


def _global_pool(i: Importer, x: Names, _: Attributes) -> str:
    size = i.shape(x[0])[2:]
    return i.node("avgpool2d_fw", {"x": i.name(x[0])}, kernel=size, stride=size)["y"]


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
    axis = a.get("axis", -1) % len(shape)
    bias = x[2] if len(x) > 2 else None
    return LAYERS["layer_norm"](i, x[0], shape[axis:], x[1], bias, a.get("epsilon", 1e-5))


def _binary(name: str) -> Rule:
    return lambda i, x, _: ELEMENTS[name](i, x[0], x[1])


def _unary(name: str) -> Rule:
    return lambda i, x, _: ELEMENTS[name](i, x[0])


def _gelu(i: Importer, x: Names, a: Attributes) -> str:
    approximate = a.get("approximate", b"none")
    name = approximate.decode() if isinstance(approximate, bytes) else approximate
    return ELEMENTS["gelu"](i, x[0], name)


def _softmax(i: Importer, x: Names, a: Attributes) -> str:
    return ELEMENTS["softmax.int"](i, x[0], a.get("axis", -1))


def _axes(i: Any, x: Names, a: Attributes) -> list[int] | None:
    """An attribute, an input, or all."""
    if "axes" in a:
        return [a["axes"]] if isinstance(a["axes"], int) else list(a["axes"])
    return [int(n) for n in i.number(x[1])] if len(x) > 1 else None


def _reshape(i: Any, x: Names, _: Attributes) -> str:
    shape = i.shape(x[0])
    wanted = [int(n) for n in i.number(x[1])]
    sizes = [shape[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    return SHAPES["view"](i, x[0], sizes)


def _flatten(i: Importer, x: Names, a: Attributes) -> str:
    shape, axis = i.shape(x[0]), a.get("axis", 1)
    return i.graph.reshaped(i.name(x[0]), (prod(shape[:axis]), prod(shape[axis:])))


def _unsqueeze(i: Any, x: Names, a: Attributes) -> str:
    shape = list(i.shape(x[0]))
    for axis in sorted(_axes(i, x, a) or []):
        shape.insert(axis % (len(shape) + 1), 1)
    return i.graph.reshaped(i.name(x[0]), tuple(shape))


def _transpose(i: Importer, x: Names, a: Attributes) -> str:
    rank = len(i.shape(x[0]))
    return SHAPES["permute"](i, x[0], a.get("perm", tuple(reversed(range(rank)))))


def _reduction(name: str) -> Rule:
    return lambda i, x, a: ELEMENTS[name](i, x[0], _axes(i, x, a), bool(a.get("keepdims", 1)))


def _cross_entropy(i: Importer, x: Names, a: Attributes) -> str:
    if len(x) > 2 or "ignore_index" in a:
        raise DeployError("weights or ignore_index; the kernel has neither")
    return i.node(
        *("cross_entropy_loss", {"x": i.name(x[0]), "t": i.name(x[1])}), reduction=_sum_or_mean(a)
    )["loss"]


def _mse(i: Importer, x: Names, a: Attributes) -> str:
    return i.node(*("mse_loss", {"x": i.name(x[0]), "t": i.name(x[1])}), reduction=_sum_or_mean(a))[
        "loss"
    ]


def _sum_or_mean(a: Attributes) -> str:
    reduction = a.get("reduction", b"mean")
    name = reduction.decode() if isinstance(reduction, bytes) else reduction
    if name not in ("mean", "sum"):
        raise DeployError(f"reduction {name}; there are mean and sum")
    return name


LOSSES: dict[str, Rule] = {"SoftmaxCrossEntropyLoss": _cross_entropy, "MSELoss": _mse}
RULES: dict[str, Rule] = {
    **LOSSES,
    "Add": _binary("add.Tensor"),
    "AveragePool": _pool("avgpool2d_fw"),
    "BatchNormInternal": _batch_norm,
    "BatchNormalization": _batch_norm,
    "Concat": lambda i, x, a: SHAPES["cat"](i, x, a["axis"]),
    "Conv": _convolution,
    "Cos": _unary("cos"),
    "Div": _binary("div.Tensor"),
    "Exp": _unary("exp"),
    "Flatten": _flatten,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "Identity": lambda i, x, _: i.name(x[0]),
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
    "MaxPool": _pool("maxpool2d_fw"),
    "Mul": _binary("mul.Tensor"),
    "Neg": _unary("neg"),
    "ReduceMean": _reduction("mean.dim"),
    "ReduceSum": _reduction("sum.dim_IntList"),
    "Relu": _unary("relu"),
    "Reshape": _reshape,
    "Sigmoid": _unary("sigmoid"),
    "Sin": _unary("sin"),
    "Softmax": _softmax,
    "Squeeze": lambda i, x, a: SHAPES["squeeze"](i, x[0], _axes(i, x, a)),
    "Sub": _binary("sub.Tensor"),
    "Tanh": _unary("tanh"),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
