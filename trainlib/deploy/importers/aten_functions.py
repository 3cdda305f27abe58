"""ATen's functions of elements that exponentials, logarithms, roots and angles make; whole numbers.

No gradient goes through what is rounded, as in PyTorch.
"""

from math import frexp, log
from typing import Any

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped, mapped
from trainlib.deploy.importers.aten_importer import Importer, Rule

MOST_POWER = 16
TINY = 2.0**-126
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


def _sinh(i: Importer, x: Any) -> str:
    """(e^x - e^-x) / 2, by what both are more than 1."""
    up = i.node("expm1", {"x": i.name(x)})["y"]
    down = i.node("expm1", {"x": i.node("neg", {"x": i.name(x)})["y"]})["y"]
    return i.scaled(_node(i, "subtract", up, down), 0.5)


def _around_one(i: Importer, x: Any) -> tuple[str, str]:
    """1 - x and 1 + x."""
    one = i.constant([1.0])
    return _node(i, "subtract", one, i.name(x)), _node(i, "add", one, i.name(x))


def _atanh(i: Importer, x: Any) -> str:
    """log(1 + 2 x / (1 - x)) / 2."""
    rest, _ = _around_one(i, x)
    ratio = _node(i, "divide", i.scaled(i.name(x), 2.0), rest)
    return i.scaled(i.node("log1p", {"x": ratio})["y"], 0.5)


def _asin(i: Importer, x: Any) -> str:
    """The angle whose tangent is x / sqrt((1 - x) (1 + x))."""
    side = i.node("sqrt", {"x": _node(i, "multiply", *_around_one(i, x))})["y"]
    return i.node("atan", {"x": _node(i, "divide", i.name(x), side)})["y"]


def _acos(i: Importer, x: Any) -> str:
    """Twice the angle whose tangent is sqrt((1 - x) / (1 + x)): small ones keep their digits."""
    tangent = i.node("sqrt", {"x": _node(i, "divide", *_around_one(i, x))})["y"]
    return i.scaled(i.node("atan", {"x": tangent})["y"], 2.0)


def _asinh(i: Importer, x: Any) -> str:
    """log(1 + t + t^2 / (1 + sqrt(1 + t^2))) of what is above 0, less that of what is below."""
    minus = i.node("neg", {"x": i.name(x)})["y"]
    parts = clamped(i, i.name(x), 0.0, None), clamped(i, minus, 0.0, None, passes_limits=False)
    return _node(i, "subtract", *(_asinh_of_positive(i, part) for part in parts))


def _asinh_of_positive(i: Importer, t: str) -> str:
    one, square = i.constant([1.0]), _node(i, "multiply", t, t)
    root = i.node("sqrt", {"x": _node(i, "add", square, one)})["y"]
    more = _node(i, "divide", square, _node(i, "add", root, one))
    return i.node("log1p", {"x": _node(i, "add", t, more)})["y"]


def _acosh(i: Importer, x: Any) -> str:
    """log(1 + t + sqrt(t (t + 2))), t = x - 1."""
    t = _node(i, "subtract", i.name(x), i.constant([1.0]))
    square = _node(i, "multiply", t, _node(i, "add", t, i.constant([2.0])))
    root = i.node("sqrt", {"x": square})["y"]
    return i.node("log1p", {"x": _node(i, "add", t, root)})["y"]


def _hypotenuse(i: Importer, a: Any, b: Any) -> str:
    squares = (_node(i, "multiply", i.name(side), i.name(side)) for side in (a, b))
    return i.node("sqrt", {"x": _node(i, "add", *squares)}, is_of_squares=True)["y"]


def _times_log(i: Importer, a: Any, b: Any) -> str:
    """a log(b); 0 where a is."""
    factor = i.constant([float(a)]) if isinstance(a, (int, float)) else i.name(a)
    log_of = i.node("log", {"x": clamped(i, i.name(b), TINY, None)})["y"]
    return _node(i, "multiply", factor, log_of)


def _entropy(i: Importer, x: Any) -> str:
    return i.scaled(_times_log(i, x, x), -1)


def _power_of(i: Importer, a: Any, b: Any) -> str:
    """a^b of a above 0, as e^(b log(a))."""
    return i.node(
        "exp", {"x": _node(i, "multiply", i.name(b), i.node("log", {"x": i.name(a)})["y"])}
    )["y"]


def _quotient(i: Importer, x: Any, by: Any, rounding_mode: str | None = None) -> str:
    """A whole one, as far as it is certain.

    raises    DeployError for what is not divided by a power of two
    """
    if rounding_mode is None:
        return i.scaled(i.name(x), 1 / by)
    if not isinstance(by, (int, float)) or by <= 0 or frexp(by)[0] != 0.5:
        raise DeployError(
            f"whole quotients and remainders of {by}; there are those of powers of two, which are "
            f"exact: take (x / y).floor() or x - y * (x / y).floor(), which go by rounded quotients"
        )
    share = i.scaled(i.name(x), 1 / by)
    return rounded(i, "floor", share) if rounding_mode == "floor" else truncated(i, share)


def _remainder(rounding_mode: str) -> Rule:
    def rule(i: Importer, x: Any, by: Any) -> str:
        whole = _quotient(i, x, by, rounding_mode)
        return _node(i, "subtract", i.name(x), i.scaled(whole, by))

    return rule


def _log_of_sum(i: Importer, a: Any, b: Any) -> str:
    """log(e^a + e^b) = a + softplus(b - a)."""
    away = _node(i, "subtract", i.name(b), i.name(a))
    return _node(i, "add", i.name(a), i.node("softplus_fw", {"x": away})["y"])


def rounded(i: Importer, op: str, x: str) -> str:
    """The nearest whole number, or the next below."""
    return i.graph.stop(i.node(op, {"x": x})["y"])


def _round(i: Importer, x: Any, *, decimals: int = 0) -> str:
    if not decimals:
        return rounded(i, "round", i.name(x))
    return i.scaled(rounded(i, "round", i.scaled(i.name(x), 10.0**decimals)), 10.0**-decimals)


def _ceil(i: Importer, x: Any) -> str:
    minus = i.node("neg", {"x": i.name(x)})["y"]
    return i.graph.stop(i.node("neg", {"x": rounded(i, "floor", minus)})["y"])


def truncated(i: Importer, x: str) -> str:
    """The whole part: of the positive ones, less that of the negative ones."""
    parts = (clamped(i, part, 0.0, None) for part in (x, i.node("neg", {"x": x})["y"]))
    return i.graph.stop(_node(i, "subtract", *(rounded(i, "floor", part) for part in parts)))


def _fraction(i: Importer, x: Any) -> str:
    return _node(i, "subtract", i.name(x), truncated(i, i.name(x)))


RULES: dict[str, Rule] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": mapped("atan"),
    "atanh": _atanh,
    "ceil": _ceil,
    "cos": mapped("cos"),
    "cosh": _cosh,
    "div.Scalar_mode": _quotient,
    "div.Tensor_mode": _quotient,
    "erf": mapped("erf"),
    "exp": mapped("exp"),
    "exp2": lambda i, x: exponential(i, 2.0, x),
    "expm1": mapped("expm1"),
    "floor_divide": lambda i, x, by: _quotient(i, x, by, "floor"),
    "floor_divide.Scalar": lambda i, x, by: _quotient(i, x, by, "floor"),
    "fmod.Scalar": _remainder("trunc"),
    "floor": lambda i, x: rounded(i, "floor", i.name(x)),
    "frac": _fraction,
    "hypot": _hypotenuse,
    "log": mapped("log"),
    "log10": _logarithm(10),
    "log1p": mapped("log1p"),
    "log2": _logarithm(2),
    "logaddexp": _log_of_sum,
    "logit": _logit,
    "neg": mapped("neg"),
    "pow.Scalar": exponential,
    "pow.Tensor_Scalar": power,
    "pow.Tensor_Tensor": _power_of,
    "pow_.Scalar": power,
    "reciprocal": mapped("reciprocal"),
    "remainder.Scalar": _remainder("floor"),
    "round": _round,
    "round.decimals": _round,
    "rsqrt": mapped("rsqrt"),
    "sin": mapped("sin"),
    "special_entr": _entropy,
    "sinh": _sinh,
    "sqrt": mapped("sqrt"),
    "square": lambda i, x: power(i, x, 2),
    "tan": _tan,
    "trunc": lambda i, x: truncated(i, i.name(x)),
    "xlogy.Scalar_Self": _times_log,
    "xlogy.Tensor": _times_log,
}
