"""Operators that are a function of each element: logarithms, roots, angles, limits, ELU."""

from math import pi, sqrt

from trainlib.deploy.graph.maps import activation, element_wise, shaped_as
from trainlib.deploy.graph.operator import Backward, Invocation, Operator, Rule, Shapes
from trainlib.deploy.graph.values import Attributes

LEAST_ROOT = 2.0**-63
"""Of the least normal number."""


def _multiplied(b: Backward, first: str | None, second: str | None) -> str:
    return b.emit("multiply", {"a": first, "b": second})["y"]


def _times(b: Backward, name: str | None, factor: float) -> str:
    return _multiplied(b, name, b.constant("factor", [float(factor)]))


def _divided(b: Backward, name: str | None, by: str | None) -> str:
    return b.emit("divide", {"a": name, "b": by})["y"]


def _exp_rule(b: Backward) -> None:
    b.give("x", _multiplied(b, b.value("y"), b.gradient("y")))


def _log_rule(b: Backward) -> None:
    b.give("x", _divided(b, b.gradient("y"), b.value("x")))


def _sqrt_rule(b: Backward) -> None:
    """dy / 2y; of a sum of squares that is 0, which are 0, too, dy by something else."""
    y = b.value("y")
    if b.attributes().get("is_of_squares"):
        y = b.emit("clamp_fw", {"x": y}, {"low": LEAST_ROOT})["y"]
    b.give("x", _divided(b, _times(b, b.gradient("y"), 0.5), y))


def _rsqrt_rule(b: Backward) -> None:
    """-y^3 / 2 dy."""
    y = b.value("y")
    cube = _multiplied(b, _multiplied(b, y, y), y)
    b.give("x", _multiplied(b, _times(b, cube, -0.5), b.gradient("y")))


def _erf_rule(b: Backward) -> None:
    """2 / sqrt(pi) e^(-x^2) dy."""
    x = b.value("x")
    power = b.emit("exp", {"x": _times(b, _multiplied(b, x, x), -1)})["y"]
    b.give("x", _multiplied(b, _times(b, power, 2 / sqrt(pi)), b.gradient("y")))


def _neg_rule(b: Backward) -> None:
    b.give("x", b.emit("neg", {"x": b.gradient("y")})["y"])


def _sin_rule(b: Backward) -> None:
    """cos(x) dy."""
    b.give("x", _multiplied(b, b.emit("cos", {"x": b.value("x")})["y"], b.gradient("y")))


def _cos_rule(b: Backward) -> None:
    """-sin(x) dy."""
    slope = b.emit("neg", {"x": b.emit("sin", {"x": b.value("x")})["y"]})["y"]
    b.give("x", _multiplied(b, slope, b.gradient("y")))


def _atan_rule(b: Backward) -> None:
    """dy / (1 + x^2)."""
    square = _multiplied(b, b.value("x"), b.value("x"))
    b.give("x", _divided(b, b.gradient("y"), _plus_one(b, square)))


def _log1p_rule(b: Backward) -> None:
    """dy / (1 + x)."""
    b.give("x", _divided(b, b.gradient("y"), _plus_one(b, b.value("x"))))


def _expm1_rule(b: Backward) -> None:
    """(1 + y) dy."""
    b.give("x", _multiplied(b, _plus_one(b, b.value("y")), b.gradient("y")))


def _plus_one(b: Backward, name: str | None) -> str:
    return b.emit("add", {"a": name, "b": b.constant("one", [1.0])})["y"]


def _reciprocal_rule(b: Backward) -> None:
    """-dy y^2."""
    square = _multiplied(b, b.value("y"), b.value("y"))
    b.give("x", _multiplied(b, _times(b, square, -1), b.gradient("y")))


def _clamp(step: str, like: str) -> Operator:
    """Limits; whether gradients pass at a limit is for the way back alone."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        how = _without(attributes, "passes_limits") if step == "fw" else attributes
        return element_wise(f"clamp_{step}", like)(shapes, how)

    output = "y" if step == "fw" else "dx"
    rule = _clamp_rule if step == "fw" else None
    place = (("x", "y"),) if step == "fw" else (("dy", "dx"),)
    return Operator(f"clamp_{step}", lower, shaped_as(**{output: like}), rule, place)


def _clamp_rule(b: Backward) -> None:
    """Where no gradient passes at a limit, the output says as much as the input."""
    read = "x" if b.attributes().get("passes_limits", True) else "y"
    inputs = {"x": b.value(read), "dy": b.gradient("y")}
    b.give("x", b.emit("clamp_bw", inputs, b.attributes())["dx"])


def _without(attributes: Attributes, name: str) -> Attributes:
    return {other: value for other, value in attributes.items() if other != name}


def _unary(name: str, rule: Rule | None) -> Operator:
    return Operator(name, element_wise(name, "x"), shaped_as(y="x"), rule, (("x", "y"),))


def _root(shapes: Shapes, attributes: Attributes) -> Invocation:
    """Whether it is of a sum of squares is for the way back alone."""
    return element_wise("sqrt", "x")(shapes, _without(attributes, "is_of_squares"))


OPERATORS = (
    *(op for name in ("abs", "softplus", "elu") for op in activation(name, "x")),
    _clamp("fw", "x"),
    _clamp("bw", "dy"),
    _unary("atan", _atan_rule),
    _unary("cos", _cos_rule),
    _unary("erf", _erf_rule),
    _unary("exp", _exp_rule),
    _unary("expm1", _expm1_rule),
    _unary("floor", None),
    _unary("log", _log_rule),
    _unary("log1p", _log1p_rule),
    _unary("neg", _neg_rule),
    _unary("reciprocal", _reciprocal_rule),
    _unary("round", None),
    _unary("rsqrt", _rsqrt_rule),
    _unary("sin", _sin_rule),
    Operator("sqrt", _root, shaped_as(y="x"), _sqrt_rule, (("x", "y"),)),
)
