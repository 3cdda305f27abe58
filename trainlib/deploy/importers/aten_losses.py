"""ATen's losses as nodes: a kernel with its gradient where there is one, else arithmetic."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.sequences import DEFAULT_IGNORED, LEAST_LOG
from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_activations import clamped, log_softmax
from trainlib.deploy.importers.aten_elements import reduced
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_places import ones_at
from trainlib.deploy.importers.aten_shapes import Known, expanded, permuted

NONE, MEAN, SUM = 0, 1, 2
REDUCTIONS = {MEAN: "mean", SUM: "sum"}
TINY = 2.0**-126


def _reduced(i: Importer, losses: str, reduction: int) -> str:
    return losses if reduction == NONE else reduced(i, losses, None, False, REDUCTIONS[reduction])


def _product(i: Importer, a: str, b: str) -> str:
    return i.node("multiply", {"a": a, "b": b})["y"]


def _difference(i: Importer, a: str, b: str) -> str:
    return i.node("subtract", {"a": a, "b": b})["y"]


def _rows(i: Importer, x: str) -> str:
    """Classes last, an example in each row: from [classes], or [examples, classes, places]."""
    shape = i.graph.values[x].shape
    if len(shape) == 1:
        return i.graph.reshaped(x, (1, *shape))
    if len(shape) > 2:
        x = permuted(i, x, (0, *range(2, len(shape)), 1))
    return i.graph.reshaped(x, (prod(shape) // shape[1], shape[1]))


def _weights(i: Importer, weight: Any, classes: int) -> np.ndarray:
    """Of classes; ones without."""
    return np.ones(classes) if weight is None else i.array(weight).astype(np.float64)


def _of_targets(i: Importer, target: str, table: np.ndarray, ignore: int | None) -> str:
    """A row of a table for each target, and zeros for what is ignored, if anything is."""
    count = i.graph.values[target].elements
    numbers = i.graph.reshaped(target, (count,))
    classes = len(table)
    if ignore is not None and 0 <= ignore < classes:
        table[ignore] = 0
    elif ignore is not None:
        inputs = {"x": numbers}
        numbers = i.node("replace_label", inputs, old=ignore, new=classes)["y"]
        table = np.concatenate([table, np.zeros((1, table.shape[1]))])
    return i.node("take", {"table": i.constant(table.astype(np.float32)), "index": numbers})["y"]


def _over_shares(i: Importer, total: str, target: str, weights: np.ndarray, ignore: int) -> str:
    """A sum of losses, over the weights of all targets together."""
    each = _of_targets(i, target, weights[:, None].copy(), ignore)
    shares = reduced(i, each, None, False, "sum")
    return i.node("divide", {"a": total, "b": shares})["y"]


def _ignored(weight: Any, ignore: int, reduction: int) -> int | None:
    """The number that is ignored. None: a mean over all targets, where PyTorch's default is
    refused when a batch has it: what the mean is over would depend on the batch.
    """
    is_plain = weight is None and ignore == DEFAULT_IGNORED and reduction == MEAN
    return None if is_plain else ignore


def _cross_entropy(
    i: Importer,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore: int = DEFAULT_IGNORED,
    smoothing: float = 0.0,
) -> str:
    return _entropy(i, i.name(x), target, weight, reduction, ignore, smoothing)


def _entropy(
    i: Importer,
    x: str,
    target: Any,
    weight: Any,
    reduction: int,
    ignore: int,
    smoothing: float = 0.0,
) -> str:
    shape = i.graph.values[x].shape
    rows, t = _rows(i, x), i.name(target)
    if i.graph.values[t].dtype == "float32" and i.is_whole(target):
        if weight is not None or ignore != DEFAULT_IGNORED:
            raise DeployError(
                "numbers of classes that are computed, with weights or an ignore_index; let them "
                "come with the target as they are"
            )
        return _of_moved_classes(i, rows, t, reduction, smoothing, shape)
    count, classes = i.graph.values[rows].shape
    weights = _weights(i, weight, classes)
    if i.graph.values[t].dtype == "float32":
        t = _rows(i, t)
        if smoothing:
            rest = i.constant([smoothing / classes])
            t = i.node("add", {"a": i.scaled(t, 1 - smoothing), "b": rest})["y"]
        if weight is not None:
            t = _product(i, t, i.constant(weights.astype(np.float32)))
        return _soft(i, rows, t, reduction, shape)
    is_plain = weight is None and ignore == DEFAULT_IGNORED
    if is_plain and not smoothing and reduction != NONE:
        inputs = {"x": rows, "t": i.graph.reshaped(t, (count,))}
        return i.node("cross_entropy_loss", inputs, reduction=REDUCTIONS[reduction])["loss"]
    table = np.diag((1 - smoothing) * weights) + smoothing / classes * weights
    ignored = _ignored(weight, ignore, reduction)
    soft = _of_targets(i, t, table, ignored)
    if reduction != MEAN or ignored is None:
        return _soft(i, rows, soft, reduction, shape)
    return _over_shares(i, _soft(i, rows, soft, SUM, shape), t, weights, ignored)


def _of_moved_classes(
    i: Importer, rows: str, t: str, reduction: int, smoothing: float, shape: tuple[int, ...]
) -> str:
    """Of classes that are floats without a fraction; other numbers than classes are ignored."""
    count, classes = i.graph.values[rows].shape
    ones = ones_at(i, Known(i, i.graph.reshaped(t, (count,))), classes)
    there = reduced(i, ones, 1, True, "sum")
    soft = i.scaled(ones, 1 - smoothing)
    if smoothing:
        soft = i.node("add", {"a": soft, "b": i.scaled(there, smoothing / classes)})["y"]
    if reduction != MEAN:
        return _soft(i, rows, soft, reduction, shape)
    total = _soft(i, rows, soft, SUM, shape)
    return i.node("divide", {"a": total, "b": i.graph.stop(reduced(i, there, None, False, "sum"))})[
        "y"
    ]


def _of_examples(i: Importer, each: str, shape: tuple[int, ...]) -> str:
    """One loss for each example, and place, of outputs of this shape."""
    return i.graph.reshaped(each, (shape[0], *shape[2:]) if len(shape) > 1 else (1,))


def _soft(i: Importer, rows: str, t: str, reduction: int, shape: tuple[int, ...]) -> str:
    """With weights of all classes; one loss for each example if they are not reduced."""
    if reduction != NONE:
        how = {"reduction": REDUCTIONS[reduction], "is_soft": True}
        return i.node("cross_entropy_loss", {"x": rows, "t": t}, **how)["loss"]
    logs = log_softmax(i, rows, 1)
    each = i.scaled(reduced(i, _product(i, logs, t), 1, False, "sum"), -1)
    return _of_examples(i, each, shape)


def _nll(
    i: Importer,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore: int = DEFAULT_IGNORED,
) -> str:
    """Cross-entropy, where x are logarithms of a softmax over classes; else what x has there."""
    shape = i.shape(x)
    if i.logits.get(i.name(x), ("", -1))[1] == min(1, len(shape) - 1):
        logits, _ = i.logits[i.name(x)]
        return _entropy(i, logits, target, weight, reduction, ignore)
    rows, t = _rows(i, i.name(x)), i.name(target)
    weights = _weights(i, weight, i.graph.values[rows].shape[1])
    ignored = _ignored(weight, ignore, reduction)
    taken = _product(i, rows, _of_targets(i, t, np.diag(-weights), ignored))
    each = reduced(i, taken, 1, False, "sum")
    if reduction == NONE:
        return _of_examples(i, each, shape)
    if reduction == SUM or ignored is None:
        return _reduced(i, each, reduction)
    return _over_shares(i, _reduced(i, each, SUM), t, weights, ignored)


def _pair(i: Importer, x: Any, target: Any) -> tuple[str, str]:
    """Output and target, of one shape.

    raises    DeployError if neither is broadcast to the other's
    """
    a, b = i.shape(x), i.shape(target)
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        raise DeployError(
            f"an output of {list(a)} and a target of {list(b)}; both have the same shape"
        ) from None
    return expanded(i, i.name(x), shape), expanded(i, i.name(target), shape)


def _of_elements(op: str, each: Any, **how: Any) -> Rule:
    """A loss with a kernel, or each(importer, x, t) where losses are not reduced."""

    def rule(i: Importer, x: Any, target: Any, reduction: int = MEAN) -> str:
        a, t = _pair(i, x, target)
        if reduction == NONE:
            return str(each(i, a, t))
        return i.node(op, {"x": a, "t": t}, reduction=REDUCTIONS[reduction], **how)["loss"]

    return rule


def _square(i: Importer, x: str, t: str) -> str:
    away = _difference(i, x, t)
    return _product(i, away, away)


def _distance(i: Importer, x: str, t: str) -> str:
    return i.node("abs_fw", {"x": _difference(i, x, t)})["y"]


def _huber(is_smooth: bool) -> Rule:
    """Smooth L1 is it, divided by what it is quadratic up to; L1 for 0."""

    def rule(i: Importer, x: Any, target: Any, reduction: int = MEAN, delta: float = 1.0) -> str:
        if not delta and is_smooth:
            return RULES["l1_loss"](i, x, target, reduction)
        factor = 1 / delta if is_smooth else 1.0

        def each(i: Importer, x: str, t: str) -> str:
            away = _difference(i, x, t)
            inside = clamped(i, away, -delta, delta)
            rest = _difference(i, away, i.scaled(inside, 0.5))
            return i.scaled(_product(i, inside, rest), factor)

        how = {"delta": float(delta), "factor": factor}
        return str(_of_elements("huber_loss", each, **how)(i, x, target, reduction))

    return rule


def _binary_logits(
    i: Importer,
    x: Any,
    target: Any,
    weight: Any = None,
    positive: Any = None,
    reduction: int = MEAN,
) -> str:
    """(1 - t) x + (1 + (p - 1) t) softplus(-x), times weights."""
    a, t = _pair(i, x, target)
    if weight is None and positive is None and reduction != NONE:
        inputs = {"x": a, "t": t}
        return i.node("bce_logits_loss", inputs, reduction=REDUCTIONS[reduction])["loss"]
    one = i.constant([1.0])
    plus = i.node("softplus_fw", {"x": i.scaled(a, -1)})["y"]
    if positive is not None:
        more = _product(i, _difference(i, i.name(positive), one), t)
        plus = _product(i, plus, i.node("add", {"a": more, "b": one})["y"])
    losses = i.node("add", {"a": _product(i, _difference(i, one, t), a), "b": plus})["y"]
    if weight is not None:
        losses = _product(i, losses, i.name(weight))
    return _reduced(i, losses, reduction)


def _binary(i: Importer, x: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> str:
    a, t = _pair(i, x, target)
    if weight is not None or reduction == NONE:
        losses = _binary_of_each(i, a, t)
        losses = losses if weight is None else _product(i, losses, i.name(weight))
        return _reduced(i, losses, reduction)
    inputs = {"x": a, "t": t}
    return i.node("bce_loss", inputs, reduction=REDUCTIONS[reduction])["loss"]


def _binary_of_each(i: Importer, x: str, t: str) -> str:
    """-t log(x) - (1 - t) log(1 - x), whose logarithms are not below -100."""
    one = i.constant([1.0])
    pairs = ((t, x), (_difference(i, one, t), _difference(i, one, x)))
    parts = [
        _product(i, share, clamped(i, i.node("log", {"x": value})["y"], LEAST_LOG, None))
        for share, value in pairs
    ]
    return i.scaled(i.node("add", dict(zip("ab", parts, strict=True)))["y"], -1)


def _divergence(
    i: Importer, x: Any, target: Any, reduction: int = MEAN, log_target: bool = False
) -> str:
    """t (log t - x); 0 where t is 0."""
    a, t = _pair(i, x, target)
    if log_target:
        t, log = i.node("exp", {"x": t})["y"], t
    else:
        log = i.node("log", {"x": clamped(i, t, TINY, None)})["y"]
    return _reduced(i, _product(i, t, _difference(i, log, a)), reduction)


def _soft_margin(i: Importer, x: Any, target: Any, reduction: int = MEAN) -> str:
    """softplus(-t x)."""
    a, t = _pair(i, x, target)
    minus = i.scaled(_product(i, t, a), -1)
    return _reduced(i, i.node("softplus_fw", {"x": minus})["y"], reduction)


RULES: dict[str, Rule] = {
    "binary_cross_entropy": _binary,
    "binary_cross_entropy_with_logits": _binary_logits,
    "cross_entropy_loss": _cross_entropy,
    "huber_loss": _huber(False),
    "kl_div": _divergence,
    "l1_loss": _of_elements("l1_loss", _distance),
    "mse_loss": _of_elements("mse_loss", _square),
    "nll_loss": _nll,
    "nll_loss2d": _nll,
    "nll_loss_nd": _nll,
    "smooth_l1_loss": _huber(True),
    "soft_margin_loss": _soft_margin,
}
