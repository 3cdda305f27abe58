"""ATen's operators on elements as nodes: activations, arithmetic, dropout, sums over axes."""

from typing import Any

import numpy as np

from trainlib.deploy.aten_importer import Importer, Rule
from trainlib.deploy.graph import DeployError


def _map(op: str) -> Rule:
    return lambda i, x: i.node(f"{op}_fw", {"x": i.name(x)})["y"]


def _gelu(i: Importer, x: Any, approximate: str = "none") -> str:
    return i.node("gelu_fw", {"x": i.name(x)}, approximate=approximate)["y"]


def _leaky(i: Importer, x: Any, slope: float = 0.01) -> str:
    return i.node("leaky_relu_fw", {"x": i.name(x)}, slope=slope)["y"]


def _hardtanh(i: Importer, *_: Any) -> str:
    raise DeployError("ReLU6 and hardtanh have no kernel; nn.ReLU has")


def _softmax(i: Importer, x: Any, dim: int, *_: Any, **__: Any) -> str:
    return i.node("softmax_fw", {"x": i.name(x)}, axis=dim % len(i.shape(x)))["y"]


def _add(i: Importer, a: Any, b: Any, alpha: float = 1) -> str | None:
    if i.known.get(a, "") is None:  # num_batches_tracked
        return None
    if isinstance(b, (int, float)):
        return i.node("add", {"a": i.name(a), "b": i.constant([float(b)])})["y"]
    return i.node("add", {"a": i.name(a), "b": i.scaled(i.name(b), alpha)})["y"]


def _sub(i: Importer, a: Any, b: Any, alpha: float = 1) -> str | None:
    return _add(i, a, -b if isinstance(b, (int, float)) else b, alpha=-alpha)


def _rsub(i: Importer, a: Any, b: float) -> str:
    minus = i.scaled(i.name(a), -1)
    return i.node("add", {"a": minus, "b": i.constant([float(b)])})["y"]


def _mul(i: Importer, a: Any, b: Any) -> str:
    if isinstance(b, (int, float)):
        return i.scaled(i.name(a), float(b))
    return i.node("multiply", {"a": i.name(a), "b": i.name(b)})["y"]


def _div(i: Importer, a: Any, b: Any) -> str:
    if isinstance(b, (int, float)):
        return i.scaled(i.name(a), 1 / b)
    inverse = i.node("reciprocal", {"x": i.name(b)})["y"]
    return i.node("multiply", {"a": i.name(a), "b": inverse})["y"]


def _neg(i: Importer, x: Any) -> str:
    return i.scaled(i.name(x), -1)


def _pow(i: Importer, x: Any, exponent: float) -> str:
    if exponent != 2:
        raise DeployError(f"exponent {exponent}; there is 2 alone")
    return i.node("multiply", {"a": i.name(x), "b": i.name(x)})["y"]


def _dropout(i: Importer, x: Any, p: float, training: bool) -> str:
    return dropped(i, i.name(x), p if training else 0.0)


def dropped(i: Importer, x: str, p: float) -> str:
    """Each dropout draws from a seed of its own, which every batch advances."""
    if not p:
        return x
    i.drops += 1
    name = i.graph.fresh(f"{i.layer}.seed")
    seed = i.graph.add(name, (1,), "state", "int32", np.array([i.drops << 20], np.int32))
    return i.node("dropout", {"x": x, "seed": seed}, p=p)["y"]


def _reduce(what: str) -> Rule:
    def rule(i: Importer, x: Any, dims: Any = None, keep: bool = False, **_: Any) -> str:
        shape = i.shape(x)
        axes = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
        axes = tuple(sorted(axis % len(shape) for axis in axes))
        y = i.node("reduce", {"x": i.name(x)}, axes=axes, what=what)["y"]
        own = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
        return i.graph.reshaped(y, own) if keep else y

    return rule


def _filled(value: float) -> Rule:
    return lambda i, shape, *_, **__: i.constant(np.full(tuple(shape), value, np.float32))


RULES: dict[str, Rule] = {
    "add.Tensor": _add,
    "add_.Tensor": _add,
    "div.Scalar": _div,
    "div.Tensor": _div,
    "dropout": _dropout,
    "exp": lambda i, x: i.node("exp", {"x": i.name(x)})["y"],
    "gelu": _gelu,
    "hardtanh": _hardtanh,
    "hardtanh_": _hardtanh,
    "leaky_relu": _leaky,
    "leaky_relu_": _leaky,
    "mean": _reduce("mean"),
    "mean.dim": _reduce("mean"),
    "mul.Scalar": _mul,
    "mul.Tensor": _mul,
    "neg": _neg,
    "ones": _filled(1.0),
    "pow.Tensor_Scalar": _pow,
    "reciprocal": lambda i, x: i.node("reciprocal", {"x": i.name(x)})["y"],
    "relu": _map("relu"),
    "relu6": _hardtanh,
    "relu_": _map("relu"),
    "rsub.Scalar": _rsub,
    "sigmoid": _map("sigmoid"),
    "silu": _map("silu"),
    "silu_": _map("silu"),
    "softmax.int": _softmax,
    "sub.Tensor": _sub,
    "sum": _reduce("sum"),
    "sum.dim_IntList": _reduce("sum"),
    "tanh": _map("tanh"),
    "zeros": _filled(0.0),
}
