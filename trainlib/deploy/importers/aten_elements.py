"""ATen's operators on elements as nodes: arithmetic, dropout, masks, sums over axes."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_shapes import expanded


def _number(i: Importer, value: Any) -> str:
    """A value, or a number as a constant; integers that are known, as floats."""
    if isinstance(value, (int, float)):
        return i.constant([float(value)])
    is_known = i.is_array(value) and i.array(value).dtype.kind == "i"
    return i.constant(i.array(value).astype(np.float32)) if is_known else i.name(value)


def _binary(op: str) -> Rule:
    return lambda i, a, b: i.node(op, {"a": _number(i, a), "b": _number(i, b)})["y"]


def _add(i: Importer, a: Any, b: Any, alpha: float = 1) -> str | None:
    if i.known.get(a, "") is None:  # num_batches_tracked
        return None
    return i.node("add", {"a": _number(i, a), "b": i.scaled(_number(i, b), alpha)})["y"]


def _sub(i: Importer, a: Any, b: Any, alpha: float = 1) -> str:
    return i.node("subtract", {"a": _number(i, a), "b": i.scaled(_number(i, b), alpha)})["y"]


def _rsub(i: Importer, a: Any, b: Any, alpha: float = 1) -> str:
    return i.node("subtract", {"a": _number(i, b), "b": i.scaled(_number(i, a), alpha)})["y"]


def _mul(i: Importer, a: Any, b: Any) -> str:
    if isinstance(b, (int, float)):
        return i.scaled(i.name(a), float(b))
    return i.node("multiply", {"a": _number(i, a), "b": _number(i, b)})["y"]


def _div(i: Importer, a: Any, b: Any) -> str:
    if isinstance(b, (int, float)):
        return i.scaled(i.name(a), 1 / b)
    return i.node("divide", {"a": _number(i, a), "b": _number(i, b)})["y"]


def _dropout(i: Importer, x: Any, p: float, training: bool) -> str:
    return dropped(i, i.name(x), p if training else 0.0)


def _native_dropout(i: Importer, x: Any, p: float, training: bool | None) -> tuple[str, None]:
    """As `dropout`, which PyTorch puts together from it; what it keeps would be given, too."""
    return _dropout(i, x, p, bool(training)), None


def _drawn(i: Importer, x: Any, p: float = 0.5, **_: Any) -> str:
    """1 with a probability, else 0, for each element of x."""
    ones = np.ones(i.shape(x), np.float32)
    if p in (0, 1):
        return i.constant(ones * p)
    return i.graph.stop(i.scaled(dropped(i, i.constant(ones), 1 - p), p))


def _feature_dropout(i: Importer, x: Any, p: float, training: bool) -> str:
    """Whole channels: what they are multiplied by is dropped."""
    if not training or not p:
        return i.name(x)
    shape = i.shape(x)
    ones = np.ones((*shape[:2], *(1 for _ in shape[2:])), np.float32)
    kept = dropped(i, i.constant(ones), p)
    return i.node("multiply", {"a": i.name(x), "b": kept})["y"]


SELU_BELOW = -1.7580993408473766
"""What SELU comes to for the least of inputs: dropped elements are that in an alpha dropout."""


def _alpha_dropout(i: Importer, x: Any, p: float, training: bool) -> str:
    """Elements are dropped to the least of SELU, and all moved back to mean 0 and variance 1."""
    if not training or not p:
        return i.name(x)
    ones = i.constant(np.ones(i.shape(x), np.float32))
    stays = i.graph.stop(i.scaled(dropped(i, ones, p), 1 - p))
    scale = ((1 - p) * (1 + p * SELU_BELOW**2)) ** -0.5
    kept_ones = i.node("multiply", {"a": i.name(x), "b": stays})["y"]
    away = i.node("subtract", {"a": i.constant([1.0]), "b": stays})["y"]
    low = i.node("multiply", {"a": away, "b": i.constant([SELU_BELOW])})["y"]
    whole = i.scaled(i.node("add", {"a": kept_ones, "b": low})["y"], scale)
    return i.node("add", {"a": whole, "b": i.constant([-scale * p * SELU_BELOW])})["y"]


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
        return reduced(i, i.name(x), dims, keep, what)

    return rule


def reduced(i: Importer, x: str, dims: Any, keep: bool, what: str) -> str:
    """A sum or a mean over axes, all of them by default."""
    shape = i.graph.values[x].shape
    axes = [dims] if isinstance(dims, int) else dims or range(len(shape))
    axes = tuple(sorted(axis % len(shape) for axis in axes))
    y = i.node("reduce", {"x": x}, axes=axes, what=what)["y"]
    own = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return i.graph.reshaped(y, own) if keep else y


def _variance(*, is_root: bool, by_correction: bool) -> Rule:
    """A mean square of what the mean is taken off, as PyTorch's two schemas have it: with a
    correction of how many elements there are, or whether that is 1.
    """

    def corrected(
        i: Importer, x: Any, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
    ) -> str:
        return _mean_square(i, x, dims, keepdim, 1 if correction is None else correction, is_root)

    def unbiased(
        i: Importer, x: Any, dims: Any = None, unbiased: bool = True, keepdim: bool = False
    ) -> str:
        return _mean_square(i, x, dims, keepdim, int(unbiased), is_root)

    return corrected if by_correction else unbiased


def _mean_square(
    i: Importer, x: Any, dims: Any, keep: bool, correction: float, is_root: bool
) -> str:
    shape, name = i.shape(x), i.name(x)
    away = i.node("subtract", {"a": name, "b": reduced(i, name, dims, True, "mean")})["y"]
    square = i.node("multiply", {"a": away, "b": away})["y"]
    total = reduced(i, square, dims, keep, "sum")
    count = prod(shape) // i.graph.values[total].elements
    if count <= correction:
        raise DeployError(f"{count} elements; a variance takes more than {correction}")
    y = i.scaled(total, 1 / (count - correction))
    return _root_of_squares(i, y) if is_root else y


def _with_mean(spread: Rule) -> Rule:
    """A variance or its root, and the mean."""

    def rule(i: Importer, x: Any, dims: Any = None, *how: Any, **more: Any) -> tuple[str, str]:
        keep = bool(more.get("keepdim", len(how) > 1 and how[1]))
        return spread(i, x, dims, *how, **more), reduced(i, i.name(x), dims, keep, "mean")

    return rule


def _norm(
    i: Importer, x: Any, order: float = 2, dims: Any = None, keep: bool = False, **_: Any
) -> str:
    if order not in (1, 2):
        raise DeployError(f"a norm of order {order}; there are 1 and 2")
    name = i.name(x)
    if order == 1:
        return reduced(i, i.node("abs_fw", {"x": name})["y"], dims, keep, "sum")
    square = i.node("multiply", {"a": name, "b": name})["y"]
    return _root_of_squares(i, reduced(i, square, dims, keep, "sum"))


def _root_of_squares(i: Importer, total: str) -> str:
    """Where all squares are 0, none of what they are of has a gradient, as in PyTorch."""
    return i.node("sqrt", {"x": total}, is_of_squares=True)["y"]


def _cosine(i: Importer, a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> str:
    first, second = i.name(a), i.name(b)
    sizes = [clamped(i, _norm(i, v, 2, dim), eps, None) for v in (a, b)]
    product = i.node("multiply", {"a": first, "b": second})["y"]
    total = reduced(i, product, dim, False, "sum")
    size = i.node("multiply", dict(zip("ab", sizes, strict=True)))["y"]
    return i.node("divide", {"a": total, "b": size})["y"]


def chosen(i: Importer, condition: np.ndarray, a: Any, b: Any) -> str:
    """a where a condition is true, else b: values, numbers or constants."""
    parts = []
    for value, keeps in ((a, condition != 0), (b, condition == 0)):
        if isinstance(value, (int, float)) or i.is_array(value):
            fixed = np.asarray(value if isinstance(value, (int, float)) else i.array(value))
            parts.append(i.constant(np.where(keeps, fixed, 0).astype(np.float32)))
        else:
            parts.append(_kept_by_constant(i, i.name(value), keeps))
    return i.node("add", dict(zip("ab", parts, strict=True)))["y"]


def kept(i: Importer, truth: str, x: str) -> str:
    """x where a truth value is 1, else 0: by its bits."""
    return i.node("relu_bw", {"x": truth, "dy": x})["dx"]


def _kept_by_constant(i: Importer, x: str, keeps: np.ndarray) -> str:
    """x where it is kept, else 0: by its bits where a constant may have made it infinite."""
    shape = np.broadcast_shapes(i.graph.values[x].shape, keeps.shape)
    if i.is_finite(x):
        return i.node("multiply", {"a": x, "b": i.constant(keeps.astype(np.float32))})["y"]
    truth = i.constant(np.broadcast_to(keeps, shape).astype(np.float32))
    return kept(i, truth, expanded(i, x, shape))


RULES: dict[str, Rule] = {
    "add.Scalar": _add,
    "add.Tensor": _add,
    "alpha_dropout": _alpha_dropout,
    "bernoulli.p": _drawn,
    "cosine_similarity": _cosine,
    "div.Scalar": _div,
    "div.Tensor": _div,
    "dropout": _dropout,
    "feature_dropout": _feature_dropout,
    "linalg_vector_norm": _norm,
    "mean": _reduce("mean"),
    "mean.dim": _reduce("mean"),
    "mul.Scalar": _mul,
    "mul.Tensor": _mul,
    "native_dropout": _native_dropout,
    "rsub.Scalar": _rsub,
    "std": lambda i, x, unbiased=True: RULES["std.dim"](i, x, None, unbiased),
    "std.correction": _variance(is_root=True, by_correction=True),
    "std_mean.correction": _with_mean(_variance(is_root=True, by_correction=True)),
    "std_mean.dim": _with_mean(_variance(is_root=True, by_correction=False)),
    "std.dim": _variance(is_root=True, by_correction=False),
    "sub.Scalar": _sub,
    "sub.Tensor": _sub,
    "sum": _reduce("sum"),
    "sum.dim_IntList": _reduce("sum"),
    "var": lambda i, x, unbiased=True: RULES["var.dim"](i, x, None, unbiased),
    "var.correction": _variance(is_root=False, by_correction=True),
    "var_mean.correction": _with_mean(_variance(is_root=False, by_correction=True)),
    "var_mean.dim": _with_mean(_variance(is_root=False, by_correction=False)),
    "var.dim": _variance(is_root=False, by_correction=False),
}
