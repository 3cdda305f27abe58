"""ONNX's operators on elements as nodes: activations, arithmetic, sums over axes.

A rule takes the importer, names of inputs and attributes: RULES[op](importer, inputs, attributes).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers import (
    aten_activations,
    aten_choices,
    aten_elements,
    aten_functions,
)
from trainlib.deploy.importers.aten_activations import clamped
from trainlib.deploy.importers.aten_elements import dropped, reduced
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_shapes import Known

Names = Sequence[Any]
Attributes = Mapping[str, Any]
Rule = Callable[[Any, Names, Attributes], Any]
ATEN = {
    **aten_elements.RULES,
    **aten_functions.RULES,
    **aten_activations.RULES,
    **aten_choices.RULES,
}
ERF, TANH = "none", "tanh"
QUICK = 1.702  # the slope of QuickGelu's sigmoid


def text(attribute: Any) -> str:
    """An attribute that is a word."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def at(x: Names, number: int) -> str | None:
    """An input that may have been left out."""
    return x[number] if number < len(x) else None


def axes_of(i: Any, x: Names, a: Attributes) -> list[int] | None:
    """An attribute, an input, or all."""
    if "axes" in a:
        return [a["axes"]] if isinstance(a["axes"], int) else list(a["axes"])
    return [int(n) for n in i.number(x[1])] if at(x, 1) else None


def _unary(name: str, **defaults: float) -> Rule:
    """One of ATen's, whose arguments are attributes with these defaults."""
    return lambda i, x, a: ATEN[name](i, x[0], *(a.get(n, v) for n, v in defaults.items()))


def _binary(name: str) -> Rule:
    return lambda i, x, _: ATEN[name](i, x[0], x[1])


def _several(name: str) -> Rule:
    """One after the other."""

    def rule(i: Importer, x: Names, _: Attributes) -> str:
        names = [i.name(value) for value in x]
        return reduce(lambda a, b: i.node(name, {"a": a, "b": b})["y"], names)

    return rule


def _extreme(*, is_smaller: bool) -> Rule:
    """Of several values."""

    def rule(i: Importer, x: Names, _: Attributes) -> str:
        names = [i.name(value) for value in x]
        return reduce(lambda a, b: aten_choices.larger(i, a, b, is_smaller=is_smaller), names)

    return rule


def _extreme_of_axes(of: Any) -> Rule:
    """Of one value along its axes."""
    return lambda i, x, a: of(i, i.name(x[0]), axes_of(i, x, a) or (), bool(a.get("keepdims", 1)))


def _mean(i: Importer, x: Names, a: Attributes) -> str:
    return i.scaled(_several("add")(i, x, a), 1 / len(x))


def _clip(i: Any, x: Names, a: Attributes) -> str:
    """Limits are constants, or values that may learn."""
    limits = [at(x, place) for place in (1, 2)]
    if any(name and not i.is_array(name) for name in limits):
        return ATEN["clamp.Tensor"](i, x[0], *limits)
    low, high = (
        float(np.ravel(i.number(name))[0]) if (name := at(x, place)) else a.get(option)
        for place, option in ((1, "min"), (2, "max"))
    )
    return clamped(i, i.name(x[0]), low, high)


def _gelu(i: Importer, x: Names, a: Attributes) -> str:
    return ATEN["gelu"](i, x[0], text(a.get("approximate", ERF)))


def _with_bias(approximate: str) -> Rule:
    """GELU of x and a bias, which may be left out."""

    def rule(i: Importer, x: Names, _: Attributes) -> str:
        name = i.name(x[0])
        if bias := at(x, 1):
            name = i.node("add", {"a": name, "b": i.name(bias)})["y"]
        return i.node("gelu_fw", {"x": name}, approximate=approximate)["y"]

    return rule


def _swish(slope: float) -> Rule:
    """x times the sigmoid of alpha x."""

    def rule(i: Importer, x: Names, a: Attributes) -> str:
        alpha = a.get("alpha", slope)
        if alpha == 1:
            return ATEN["silu"](i, x[0])
        gate = i.node("sigmoid_fw", {"x": i.scaled(i.name(x[0]), alpha)})["y"]
        return i.node("multiply", {"a": i.name(x[0]), "b": gate})["y"]

    return rule


def _hard_sigmoid(i: Importer, x: Names, a: Attributes) -> str:
    steep = i.scaled(i.name(x[0]), a.get("alpha", 0.2))
    ramp = i.node("add", {"a": steep, "b": i.constant([float(a.get("beta", 0.5))])})["y"]
    return clamped(i, ramp, 0.0, 1.0, passes_limits=False)


def _softsign(i: Importer, x: Names, _: Attributes) -> str:
    """x / (1 + |x|)."""
    size = i.node("abs_fw", {"x": i.name(x[0])})["y"]
    below = i.node("add", {"a": size, "b": i.constant([1.0])})["y"]
    return i.node("divide", {"a": i.name(x[0]), "b": below})["y"]


def _prelu(i: Importer, x: Names, _: Attributes) -> str:
    """A slope that is broadcast."""
    below = clamped(i, i.name(x[0]), None, 0.0)
    above = i.node("relu_fw", {"x": i.name(x[0])})["y"]
    sloped = i.node("multiply", {"a": below, "b": i.name(x[1])})["y"]
    return i.node("add", {"a": above, "b": sloped})["y"]


def _pow(i: Any, x: Names, _: Attributes) -> str:
    exponent = np.ravel(i.number(x[1]))
    if exponent.size != 1:
        raise DeployError("several exponents; there may be one")
    return ATEN["pow.Tensor_Scalar"](i, x[0], float(exponent[0]))


def _thresholded(i: Importer, x: Names, a: Attributes) -> str:
    return ATEN["threshold"](i, x[0], a.get("alpha", 1.0), 0.0)


def _shrink(i: Importer, x: Names, a: Attributes) -> str:
    """0 near 0, else nearer to it by a bias."""
    limit, bias = a.get("lambd", 0.5), a.get("bias", 0.0)
    sizes = i.node("abs_fw", {"x": i.name(x[0])})["y"]
    is_far = aten_choices.above(i, sizes, i.constant([float(limit)]))
    step = i.scaled(ATEN["sign"](i, x[0]), bias)
    moved = i.node("subtract", {"a": i.name(x[0]), "b": step})["y"]
    return aten_choices.where(i, Known(i, is_far), Known(i, moved), 0.0)


def _modulo(i: Any, x: Names, a: Attributes) -> str:
    name = "fmod.Scalar" if a.get("fmod") else "remainder.Scalar"
    by = np.ravel(i.number(x[1]))
    if by.size != 1:
        raise DeployError("several divisors; there may be one")
    return ATEN[name](i, x[0], float(by[0]))


def _normalised(i: Importer, x: Names, a: Attributes) -> str:
    """Divided by its norm along an axis."""
    size = ATEN["linalg_vector_norm"](i, x[0], a.get("p", 2), a.get("axis", -1), True)
    return i.node("divide", {"a": i.name(x[0]), "b": size})["y"]


def _standardised(i: Importer, x: Names, a: Attributes) -> str:
    """Less its mean, and divided by its deviation and 1e-9, over axes."""
    axes = list(a.get("axes", (0, 2, 3)))
    mean = reduced(i, i.name(x[0]), axes, True, "mean")
    away = i.node("subtract", {"a": i.name(x[0]), "b": mean})["y"]
    square = i.node("multiply", {"a": away, "b": away})["y"]
    root = i.node("sqrt", {"x": reduced(i, square, axes, True, "mean")}, is_of_squares=True)["y"]
    below = i.node("add", {"a": root, "b": i.constant([1e-9])})["y"]
    return i.node("divide", {"a": away, "b": below})["y"]


def _log_of_sum(i: Importer, x: Names, a: Attributes) -> str:
    total = reduced(i, i.name(x[0]), axes_of(i, x, a), bool(a.get("keepdims", 1)), "sum")
    return i.node("log", {"x": total})["y"]


def _softmax(name: str) -> Rule:
    return lambda i, x, a: ATEN[name](i, x[0], a.get("axis", -1))


def _reduction(name: str) -> Rule:
    return lambda i, x, a: ATEN[name](i, x[0], axes_of(i, x, a), bool(a.get("keepdims", 1)))


def _norm(order: int) -> Rule:
    how = "linalg_vector_norm"
    return lambda i, x, a: ATEN[how](i, x[0], order, axes_of(i, x, a), bool(a.get("keepdims", 1)))


def _sum_of_squares(i: Importer, x: Names, a: Attributes) -> str:
    square = i.node("multiply", {"a": i.name(x[0]), "b": i.name(x[0])})["y"]
    return reduced(i, square, axes_of(i, x, a), bool(a.get("keepdims", 1)), "sum")


def _dropout(i: Any, x: Names, a: Attributes) -> str:
    """Training is an input, or, of old, what a graph is not said to be out of."""
    is_training = bool(np.ravel(i.number(x[2]))[0]) if at(x, 2) else False
    ratio = float(np.ravel(i.number(x[1]))[0]) if at(x, 1) else a.get("ratio", 0.5)
    return dropped(i, i.name(x[0]), ratio if is_training else 0.0)


RULES: dict[str, Rule] = {
    "Abs": _unary("abs"),
    **{
        name: _unary(name.lower())
        for name in (
            *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh"),
            *("Ceil", "Floor", "Round", "Sinh"),
        )
    },
    "Add": _binary("add.Tensor"),
    "And": _binary("logical_and"),
    "BiasGelu": _with_bias(ERF),
    "Celu": _unary("celu", alpha=1.0),
    "Clip": _clip,
    "Cos": _unary("cos"),
    "Cosh": _unary("cosh"),
    "Div": _binary("div.Tensor"),
    "Dropout": _dropout,
    "Elu": _unary("elu", alpha=1.0),
    "Equal": _binary("eq.Tensor"),
    "Erf": _unary("erf"),
    "Exp": _unary("exp"),
    "FastGelu": _with_bias(TANH),
    "Gelu": _gelu,
    "Greater": _binary("gt.Tensor"),
    "GreaterOrEqual": _binary("ge.Tensor"),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary("hardswish"),
    "LeakyRelu": _unary("leaky_relu", alpha=0.01),
    "Less": _binary("lt.Tensor"),
    "LessOrEqual": _binary("le.Tensor"),
    "Log": _unary("log"),
    "LogSoftmax": _softmax("log_softmax.int"),
    "Max": _extreme(is_smaller=False),
    "Mean": _mean,
    "Min": _extreme(is_smaller=True),
    "LpNormalization": _normalised,
    "MeanVarianceNormalization": _standardised,
    "Mish": _unary("mish"),
    "Mod": _modulo,
    "Mul": _binary("mul.Tensor"),
    "Neg": _unary("neg"),
    "Not": _unary("logical_not"),
    "Or": _binary("logical_or"),
    "PRelu": _prelu,
    "Pow": _pow,
    "QuickGelu": _swish(QUICK),
    "Reciprocal": _unary("reciprocal"),
    "ReduceL1": _norm(1),
    "ReduceL2": _norm(2),
    "ReduceLogSum": _log_of_sum,
    "ReduceLogSumExp": _reduction("logsumexp"),
    "ReduceMax": _extreme_of_axes(aten_choices.largest_of),
    "ReduceMean": _reduction("mean.dim"),
    "ReduceMin": _extreme_of_axes(aten_choices.smallest_of),
    "ReduceSum": _reduction("sum.dim_IntList"),
    "ReduceSumSquare": _sum_of_squares,
    "Relu": _unary("relu"),
    "Selu": lambda i, x, a: ATEN["elu"](
        i, x[0], a.get("alpha", aten_activations.SELU[0]), a.get("gamma", aten_activations.SELU[1])
    ),
    "Shrink": _shrink,
    "Sigmoid": _unary("sigmoid"),
    "Sign": _unary("sign"),
    "Sin": _unary("sin"),
    "Softmax": _softmax("softmax.int"),
    "Softplus": _unary("softplus"),
    "Softsign": _softsign,
    "Sqrt": _unary("sqrt"),
    "Sub": _binary("sub.Tensor"),
    "Sum": _several("add"),
    "Swish": _swish(1.0),
    "Tan": _unary("tan"),
    "Tanh": _unary("tanh"),
    "Xor": _binary("logical_xor"),
    "ThresholdedRelu": _thresholded,
    "Where": lambda i, x, _: aten_choices.where(i, *x),
}
