"""ATen's comparisons as nodes, what they choose between, and largest elements of several.

Truth values that are computed are 1 and 0, and no gradient goes through them. They are what
differences come to, times a number by which that of any two normal ones is 1 or more, within
limits. A value is chosen by its bits: what is not chosen may be infinite.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainlib.deploy.importers.aten_activations import clamped
from trainlib.deploy.importers.aten_elements import chosen, kept, reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_pools import extreme
from trainlib.deploy.importers.aten_shapes import Known, expanded

LARGE = 2.0**126


def _floats(i: Importer, value: Any) -> str:
    """A value, or a number as a constant; integers as floats."""
    if isinstance(value, (int, float)):
        return i.constant([float(value)])
    if i.is_array(value) and i.array(value).dtype.kind == "i":
        return i.constant(i.array(value).astype(np.float32))
    return i.as_floats(i.name(value))


def _node(i: Importer, op: str, a: str, b: str) -> str:
    return i.node(op, {"a": a, "b": b})["y"]


def above(i: Importer, a: str, b: str, low: float = 0.0) -> str:
    """1 where a is above b, else 0, or `low` where it is below."""
    away = i.scaled(_node(i, "subtract", a, b), LARGE)
    return i.graph.stop(clamped(i, away, low, 1.0))


def negation(i: Importer, truth: str) -> str:
    """1 where a truth value is 0, else 0."""
    return _node(i, "subtract", i.constant([1.0]), truth)


def differs(i: Importer, a: str, b: str) -> str:
    """1 where two values are not equal, else 0."""
    sign = above(i, a, b, -1.0)
    return _node(i, "multiply", sign, sign)


def _comparison(of: Any, *, turns: bool = False, is_not: bool = False) -> Rule:
    """A function of two values; of the second and the first; or where that is not so."""

    def rule(i: Importer, a: Any, b: Any) -> str:
        first, second = _floats(i, a), _floats(i, b)
        truth = of(i, second, first) if turns else of(i, first, second)
        return i.graph.stop(negation(i, truth) if is_not else truth)

    return rule


def _all_of(i: Importer, a: Any, b: Any) -> str:
    return _node(i, "multiply", _floats(i, a), _floats(i, b))


def _any_of(i: Importer, a: Any, b: Any) -> str:
    return negation(i, _node(i, "multiply", negation(i, _floats(i, a)), negation(i, _floats(i, b))))


def where(i: Importer, condition: Any, a: Any, b: Any) -> str:
    """a where a condition is true, else b."""
    if i.is_array(condition):
        return chosen(i, i.array(condition), a, b)
    truth, values = _floats(i, condition), [_floats(i, value) for value in (a, b)]
    shapes = (i.graph.values[name].shape for name in (truth, *values))
    shape = np.broadcast_shapes(*shapes)
    parts = [
        kept(i, expanded(i, keeps, shape), expanded(i, value, shape))
        for keeps, value in zip((truth, negation(i, truth)), values, strict=True)
    ]
    return _node(i, "add", *parts)


def _masked(i: Importer, x: Any, mask: Any, value: Any) -> str:
    return where(i, mask, value, x)


def _sign(i: Importer, x: Any) -> str:
    return above(i, i.name(x), i.constant([0.0]), -1.0)


def _threshold(i: Importer, x: Any, limit: float, value: float) -> str:
    """x where it is above a limit, else a value."""
    is_above = above(i, i.name(x), i.constant([float(limit)]))
    return where(i, Known(i, is_above), x, float(value))


def _hardshrink(i: Importer, x: Any, limit: float = 0.5) -> str:
    """0 where the magnitude is not above a limit."""
    size = i.node("abs_fw", {"x": i.name(x)})["y"]
    return where(i, Known(i, above(i, size, i.constant([float(limit)]))), x, 0.0)


def _limited(i: Importer, x: Any, low: Any = None, high: Any = None) -> str:
    """Within limits that are values, which have the gradient of what is beyond them."""
    y = x
    for limit, of in ((low, lambda a, b: above(i, b, a)), (high, lambda a, b: above(i, a, b))):
        if limit is not None:
            is_beyond = of(i.name(y), _floats(i, limit))
            y = Known(i, where(i, Known(i, is_beyond), limit, y))
    return i.name(y)


def _one_of(i: Importer, a: Any, b: Any) -> str:
    """Where one of two truth values is, and the other is not."""
    return i.graph.stop(differs(i, _floats(i, a), _floats(i, b)))


def _signed(i: Importer, x: Any, other: Any) -> str:
    """The magnitude with another value's sign: of 0, +."""
    is_below = above(i, i.constant([0.0]), _floats(i, other))
    sign = i.graph.stop(_node(i, "subtract", i.constant([1.0]), i.scaled(is_below, 2.0)))
    return _node(i, "multiply", i.node("abs_fw", {"x": i.name(x)})["y"], sign)


def larger(i: Importer, a: str, b: str, *, is_smaller: bool = False) -> str:
    """The larger of two values, or the smaller: equal ones have half of the gradient each, as in
    PyTorch.
    """
    half = i.scaled(above(i, *((b, a) if is_smaller else (a, b)), -1.0), 0.5)
    shares = (i.graph.stop(_node(i, op, i.constant([0.5]), half)) for op in ("add", "subtract"))
    return _node(i, "add", *(_node(i, "multiply", *p) for p in zip((a, b), shares, strict=True)))


def _maximum(i: Importer, a: Any, b: Any) -> str:
    return larger(i, _floats(i, a), _floats(i, b))


def _minimum(i: Importer, a: Any, b: Any) -> str:
    return larger(i, _floats(i, a), _floats(i, b), is_smaller=True)


def _largest(i: Importer, x: Any, dims: Any = (), keep: bool = False) -> str:
    """Over several axes, all by default: equal ones have equal parts of the gradient."""
    return largest_of(i, i.name(x), dims, keep)


def _smallest(i: Importer, x: Any, dims: Any = (), keep: bool = False) -> str:
    return smallest_of(i, i.name(x), dims, keep)


def smallest_of(i: Importer, x: str, dims: int | Sequence[int], keep: bool) -> str:
    """The negative of the largest of negatives, by its name in the graph."""
    return i.scaled(largest_of(i, i.scaled(x, -1), dims, keep), -1)


def largest_of(i: Importer, x: str, dims: int | Sequence[int], keep: bool) -> str:
    """Of a value by its name in the graph."""
    shape = i.graph.values[x].shape
    axes = [dims] if isinstance(dims, int) else list(dims) or list(range(len(shape)))
    most = x
    for axis in axes:
        most = extreme(i, most, axis, True)
    is_less = above(i, expanded(i, i.graph.stop(most), shape), x)
    truth = negation(i, is_less)
    share = i.graph.stop(_node(i, "divide", truth, reduced(i, truth, axes, True, "sum")))
    return reduced(i, _node(i, "multiply", kept(i, share, x), share), axes, keep, "sum")


def _both(name: str, rule: Rule) -> dict[str, Rule]:
    """Of values with values, and with numbers."""
    return {f"{name}.Tensor": rule, f"{name}.Scalar": rule}


RULES: dict[str, Rule] = {
    **_both("eq", _comparison(differs, is_not=True)),
    **_both("ge", _comparison(above, turns=True, is_not=True)),
    **_both("gt", _comparison(above)),
    **_both("le", _comparison(above, is_not=True)),
    **_both("lt", _comparison(above, turns=True)),
    **_both("ne", _comparison(differs)),
    "__and__.Tensor": _all_of,
    "__or__.Tensor": _any_of,
    "__xor__.Tensor": _one_of,
    "amax": _largest,
    "amin": _smallest,
    "bitwise_and.Tensor": _all_of,
    "bitwise_not": lambda i, x: negation(i, _floats(i, x)),
    "bitwise_or.Tensor": _any_of,
    "bitwise_xor.Tensor": _one_of,
    "clamp.Tensor": _limited,
    "clamp_max.Tensor": lambda i, x, high: _limited(i, x, None, high),
    "clamp_min.Tensor": _limited,
    "copysign.Tensor": _signed,
    "hardshrink": _hardshrink,
    "logical_and": _all_of,
    "logical_not": lambda i, x: negation(i, _floats(i, x)),
    "logical_or": _any_of,
    "logical_xor": _one_of,
    "masked_fill.Scalar": _masked,
    "max": _largest,
    "maximum": _maximum,
    "max.other": _maximum,
    "min": _smallest,
    "minimum": _minimum,
    "min.other": _minimum,
    "sign": _sign,
    "threshold": _threshold,
    "where.ScalarOther": where,
    "where.ScalarSelf": where,
    "where.self": where,
}
