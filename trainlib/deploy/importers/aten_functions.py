"""ATen's functions of elements that exponentials, logarithms, roots and sines make."""

from math import log
from typing import Any

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped, mapped
from trainlib.deploy.importers.aten_importer import Importer, Rule

MOST_POWER = 16
PARTS = 4  # of 1, that an exponent is a multiple of


def _node(i: Importer, op: str, a: str, b: str) -> str:
    return i.node(op, {"a": a, "b": b})["y"]


def power(i: Importer, x: Any, exponent: float) -> str:
    """Roots and reciprocals, and powers by repeated squares.

    raises    DeployError for other exponents than multiples of 1/4
    """
    for known, op in ((0.5, "sqrt"), (-0.5, "rsqrt")):
        if exponent == known:
            return i.node(op, {"x": i.name(x)})["y"]
    size = abs(exponent)
    if not 0 < size <= MOST_POWER or size * PARTS != int(size * PARTS):
        raise DeployError(
            f"exponent {exponent}; there are multiples of 1/{PARTS} up to {MOST_POWER}, and their "
            f"negatives; for others take (exponent * x.log()).exp() of what is above 0"
        )
    base = i.name(x)
    if exponent < 0:
        base = i.node("reciprocal", {"x": base})["y"]
    factors = [_whole_power(i, base, int(size))] if size >= 1 else []
    root = base
    for part in (0.5, 0.25):
        root = i.node("sqrt", {"x": root}, is_of_squares=size > 1)["y"] if size % 1 else root
        factors += [root] if size * PARTS % (2 * part * PARTS) >= part * PARTS else []
    result, *others = factors
    for factor in others:
        result = _node(i, "multiply", result, factor)
    return result


def _whole_power(i: Importer, square: str, left: int) -> str:
    result = ""
    while left:
        if left & 1:
            result = _node(i, "multiply", result, square) if result else square
        left >>= 1
        if left:
            square = _node(i, "multiply", square, square)
    return result


def exponential(i: Importer, base: float, x: Any) -> str:
    """base^x.

    raises    DeployError for a base that is not above 0
    """
    if not base > 0:
        raise DeployError(f"a base of {base}; it is above 0")
    return i.node("exp", {"x": i.scaled(i.name(x), log(base))})["y"]


def _logarithm(base: float) -> Rule:
    return lambda i, x: i.scaled(i.node("log", {"x": i.name(x)})["y"], 1 / log(base))


def _tan(i: Importer, x: Any) -> str:
    return _node(i, "divide", *(i.node(op, {"x": i.name(x)})["y"] for op in ("sin", "cos")))


def _cosh(i: Importer, x: Any) -> str:
    """(e^x + e^-x) / 2."""
    up = i.node("exp", {"x": i.name(x)})["y"]
    down = i.node("exp", {"x": i.node("neg", {"x": i.name(x)})["y"]})["y"]
    return i.scaled(_node(i, "add", up, down), 0.5)


def _logit(i: Importer, x: Any, eps: float | None = None) -> str:
    """log(x / (1 - x)); eps and 1 - eps are limits of x."""
    y = i.name(x) if eps is None else clamped(i, i.name(x), eps, 1 - eps)
    rest = _node(i, "subtract", i.constant([1.0]), y)
    return i.node("log", {"x": _node(i, "divide", y, rest)})["y"]


RULES: dict[str, Rule] = {
    "cos": mapped("cos"),
    "cosh": _cosh,
    "erf": mapped("erf"),
    "exp": mapped("exp"),
    "exp2": lambda i, x: exponential(i, 2.0, x),
    "log": mapped("log"),
    "log10": _logarithm(10),
    "log2": _logarithm(2),
    "logit": _logit,
    "neg": mapped("neg"),
    "pow.Scalar": exponential,
    "pow.Tensor_Scalar": power,
    "reciprocal": mapped("reciprocal"),
    "rsqrt": mapped("rsqrt"),
    "sin": mapped("sin"),
    "sqrt": mapped("sqrt"),
    "square": lambda i, x: power(i, x, 2),
    "tan": _tan,
}
