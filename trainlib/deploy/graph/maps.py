"""Operators on elements: activations, sums, products and quotients, dropout."""

from math import prod
from typing import Any

from trainlib.deploy.graph.operator import Backward, Invocation, Lower, Operator, Shapes
from trainlib.deploy.graph.values import Attributes, Shape
from trainlib.elementwise.broadcast import broadcast_shape

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


def activation(name: str, reads: str) -> list[Operator]:
    forward, backward = f"{name}_fw", f"{name}_bw"
    read = "x" if name == "relu" else reads  # the kernel's name for it

    def rule(b: Backward) -> None:
        inputs = {read: b.value(reads), "dy": b.gradient("y")}
        b.give("x", b.emit(backward, inputs, b.attributes())["dx"])

    def rule_back(b: Backward) -> None:
        """dy is chosen where x is above 0: of x, there is none."""
        if b.needs("dy"):
            b.give("dy", b.emit(backward, {"x": b.value("x"), "dy": b.gradient("dx")})["dx"])

    return [
        Operator(
            *(forward, element_wise(forward, "x"), shaped_as(y="x"), rule),
            in_place=(("x", "y"),),
        ),
        Operator(
            *(backward, element_wise(backward, "dy"), shaped_as(dx="dy")),
            rule_back if name == "relu" else None,
            in_place=(("dy", "dx"),),
        ),
    ]


def _binary(name: str) -> Lower:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        a, b = shapes["a"], shapes["b"]
        if a == b:
            a = b = (prod(a),)
        return Invocation(name, {"a": a or (1,), "b": b or (1,), **attributes})

    return lower


def _broadcast(shapes: Shapes, _: Attributes) -> Shapes:
    return {"y": broadcast_shape(shapes["a"], shapes["b"]), "a": shapes["a"], "b": shapes["b"]}


def clipped_gradient(b: Backward, output: str) -> str:
    """The gradient of what an output would be without the node's ReLU, if it has one."""
    dy = b.gradient(output)
    if not b.attributes().get("relu"):
        return dy
    return b.emit("relu_bw", {"x": b.value(output), "dy": dy})["dx"]


def _add_rule(b: Backward) -> None:
    dy = clipped_gradient(b, "y")
    for operand in ("a", "b"):
        if b.needs(operand):
            b.give(operand, summed_to(b, dy, b.shape("y"), b.shape(operand)))


def _subtract_rule(b: Backward) -> None:
    dy, shape = b.gradient("y"), b.shape("y")
    if b.needs("a"):
        b.give("a", summed_to(b, dy, shape, b.shape("a")))
    if b.needs("b"):
        b.give("b", _minus(b, summed_to(b, dy, shape, b.shape("b"))))


def _divide_rule(b: Backward) -> None:
    """da = dy / b, db = -da y, both summed over copies."""
    da = b.emit("divide", {"a": b.gradient("y"), "b": b.value("b")})["y"]
    shape = b.shape("y")
    if b.needs("a"):
        b.give("a", summed_to(b, da, shape, b.shape("a")))
    if b.needs("b"):
        product = b.emit("multiply", {"a": da, "b": b.value("y")})["y"]
        b.give("b", _minus(b, summed_to(b, product, shape, b.shape("b"))))


def _minus(b: Backward, name: str) -> str:
    return b.emit("multiply", {"a": name, "b": b.constant("minus_one", [-1.0])})["y"]


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


OPERATORS = (
    *(op for name, reads in ACTIVATIONS.items() for op in activation(name, reads)),
    Operator("add", _binary("add"), _broadcast, _add_rule, (("a", "y"), ("b", "y"))),
    Operator("subtract", _binary("subtract"), _broadcast, _subtract_rule, (("a", "y"), ("b", "y"))),
    Operator("divide", _binary("divide"), _broadcast, _divide_rule, (("a", "y"), ("b", "y"))),
    Operator("multiply", _binary("multiply"), _broadcast, _multiply_rule, (("a", "y"), ("b", "y"))),
    Operator(
        *("dropout", element_wise("dropout", "x"), shaped_as(y="x"), _dropout_rule),
        in_place=(("x", "y"),),
    ),
)
