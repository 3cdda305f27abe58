"""Operators on elements: activations, sums and products, dropout, transposes, padding."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph import Attributes, Shape
from trainlib.deploy.operator import Backward, Invocation, Lower, Operator, Rule, Shapes
from trainlib.maps.layout import broadcast_shape

ACTIVATIONS = {  # what the backward kernel reads beside dy
    "relu": "y",  # as good as x, and x may be overwritten
    "leaky_relu": "x",
    "sigmoid": "y",
    "tanh": "y",
    "silu": "x",
    "gelu": "x",
}


def element_wise(kernel: str, like: str) -> Lower:
    """A map of all elements of one operand, whatever its shape."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        return Invocation(kernel, {"shape": (prod(shapes[like]),), **attributes})

    return lower


def shaped_as(**like: str) -> Any:
    """Outputs have the shapes of inputs."""
    return lambda shapes, attributes: {name: shapes[other] for name, other in like.items()}


def _activation(name: str, reads: str) -> list[Operator]:
    forward, backward = f"{name}_fw", f"{name}_bw"
    read = "x" if name == "relu" else reads  # the kernel's name for it

    def rule(b: Backward) -> None:
        inputs = {read: b.value(reads), "dy": b.gradient("y")}
        b.give("x", b.emit(backward, inputs, b.attributes())["dx"])

    return [
        Operator(
            *(forward, element_wise(forward, "x"), shaped_as(y="x"), rule),
            in_place=(("x", "y"),),
        ),
        Operator(
            *(backward, element_wise(backward, "dy"), shaped_as(dx="dy")),
            in_place=(("dy", "dx"),),
        ),
    ]


def _binary(name: str) -> Lower:
    def lower(shapes: Shapes, _: Attributes) -> Invocation:
        a, b = shapes["a"], shapes["b"]
        if a == b:
            a = b = (prod(a),)
        return Invocation(name, {"a": a or (1,), "b": b or (1,)})

    return lower


def _broadcast(shapes: Shapes, _: Attributes) -> Shapes:
    return {"y": broadcast_shape(shapes["a"], shapes["b"]), "a": shapes["a"], "b": shapes["b"]}


def _add_rule(b: Backward) -> None:
    for operand in ("a", "b"):
        if b.needs(operand):
            b.give(operand, summed_to(b, b.gradient("y"), b.shape("y"), b.shape(operand)))


def _multiply_rule(b: Backward) -> None:
    for operand, other in (("a", "b"), ("b", "a")):
        if b.needs(operand):
            product = b.emit("multiply", {"a": b.gradient("y"), "b": b.value(other)})["y"]
            b.give(operand, summed_to(b, product, b.shape("y"), b.shape(operand)))


def summed_to(b: Backward, gradient: str, shape: Shape, wanted: Shape) -> str:
    """The gradient of what was broadcast from one shape to another: sums over its copies."""
    if shape == wanted:
        return gradient
    own = (1,) * (len(shape) - len(wanted)) + tuple(wanted)
    pairs = enumerate(zip(shape, own, strict=True))
    axes = tuple(axis for axis, (n, m) in pairs if n != m)
    if axes:
        gradient = b.emit("reduce", {"x": gradient}, {"axes": axes, "what": "sum"})["y"]
    return b.reshaped(gradient, wanted)


def _dropout_rule(b: Backward) -> None:
    inputs = {"x": b.gradient("y"), "seed": b.value("seed")}
    b.give("x", b.emit("dropout", inputs, b.attributes())["y"])


def _with_shape(kernel: str) -> Lower:
    """A kernel whose argument `shape` is that of x."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        return Invocation(kernel, {"shape": shapes["x"], **attributes})

    return lower


def _transpose_rule(b: Backward) -> None:
    axes = b.attributes()["axes"]
    back = tuple(axes.index(axis) for axis in range(len(axes)))
    b.give("x", b.emit("transpose", {"x": b.gradient("y")}, {"axes": back})["y"])


def _reduce_rule(b: Backward) -> None:
    """dy for every element that was added, by a product with what broadcasts it."""
    how, shape = b.attributes(), b.shape("x")
    axes = how["axes"]
    if how["what"] == "max":
        raise ValueError("a maximum over dimensions has no gradient here; use max_pool2d")
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    copies = tuple(n if axis in axes else 1 for axis, n in enumerate(shape))
    value = 1 / prod(copies) if how["what"] == "mean" else 1.0
    factor = b.constant("copies", _filled(copies, value))
    dy = b.reshaped(b.gradient("y"), kept)
    b.give("x", b.emit("multiply", {"a": dy, "b": factor})["y"])


def _filled(shape: Shape, value: float) -> Any:
    return np.full(shape, value, np.float32)


def _reciprocal_rule(b: Backward) -> None:
    """d(1 / x) = -dy y^2."""
    square = b.emit("multiply", {"a": b.value("y"), "b": b.value("y")})["y"]
    minus = b.emit("multiply", {"a": square, "b": b.constant("minus_one", [-1.0])})["y"]
    b.give("x", b.emit("multiply", {"a": minus, "b": b.gradient("y")})["y"])


def _unary(name: str, rule: Rule | None = None) -> Operator:
    return Operator(name, element_wise(name, "x"), shaped_as(y="x"), rule, (("x", "y"),))


def _exp_rule(b: Backward) -> None:
    b.give("x", b.emit("multiply", {"a": b.value("y"), "b": b.gradient("y")})["y"])


def _pad_rule(b: Backward) -> None:
    """What lies inside, as rows of a table, where all that is outside is whole rows."""
    how, shape, wanted = b.attributes(), b.shape("y"), b.shape("x")
    rows = InnerRows(shape, how["before"], wanted)
    columns = prod(shape) // rows.total
    table = b.reshaped(b.gradient("y"), (rows.total, columns))
    taken = b.emit("take", {"table": table, "index": b.constant("rows", rows.index)})["y"]
    b.give("x", b.reshaped(taken, wanted))


class InnerRows:
    """Which rows of an array of one shape are those of a box in it.

    total    rows, each as long as lies without a gap in both
    index    of those in the box, int32
    """

    def __init__(self, shape: Shape, start: Shape, box: Shape) -> None:
        pairs = list(zip(shape, box, strict=True))
        cut = max((axis for axis, (n, m) in enumerate(pairs) if n != m), default=-1)
        outer = shape[: cut + 1] or (1,)
        self.total = prod(outer)
        numbers = np.arange(self.total, dtype=np.int32).reshape(outer)
        inside = tuple(slice(s, s + m) for s, m in zip(start[: cut + 1], box, strict=False))
        self.index = np.ascontiguousarray(numbers[inside]).reshape(-1)


OPERATORS = (
    *(op for name, reads in ACTIVATIONS.items() for op in _activation(name, reads)),
    Operator("add", _binary("add"), _broadcast, _add_rule, (("a", "y"), ("b", "y"))),
    Operator("multiply", _binary("multiply"), _broadcast, _multiply_rule, (("a", "y"), ("b", "y"))),
    Operator(
        *("dropout", element_wise("dropout", "x"), shaped_as(y="x"), _dropout_rule),
        in_place=(("x", "y"),),
    ),
    Operator("transpose", _with_shape("transpose"), rule=_transpose_rule),
    Operator("pad", _with_shape("pad"), rule=_pad_rule),
    Operator("reduce", _with_shape("reduce"), rule=_reduce_rule),
    _unary("reciprocal", _reciprocal_rule),
    _unary("exp", _exp_rule),
)
