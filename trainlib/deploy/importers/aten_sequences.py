"""ATen's operators on sequences as nodes: recurrent layers, attention, embeddings."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from trainlib.deploy.graph.sequences import WEIGHTS
from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_choices import negation, where
from trainlib.deploy.importers.aten_elements import dropped
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_layers import product
from trainlib.deploy.importers.aten_places import rows_of
from trainlib.deploy.importers.aten_pools import extreme
from trainlib.deploy.importers.aten_shapes import Known, gathered, joined, permuted


def _layers(cell: str, **how: Any) -> Rule:
    """Recurrent layers, one after the other, in one direction or both."""

    def rule(
        i: Importer,
        x: Any,
        states: Any,
        weights: Sequence[Any],
        has_bias: bool,
        layers: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        given = [states] if cell != "lstm" else list(states)
        directions, each = 1 + bidirectional, 4 if has_bias else 2
        if len(weights) != layers * directions * each:
            raise DeployError("proj_size; there is no kernel for projections: leave it out")
        is_batch, y = len(i.shape(x)) == 3, _sequences(i, x, batch_first)
        ends: list[list[str]] = [[] for _ in given]
        for layer in range(layers):
            found = []
            for number in range(layer * directions, (layer + 1) * directions):
                begin = [_state(i, s, number) for s in given]
                operands = _operands(i, begin, weights[number * each : (number + 1) * each])
                is_back = number % directions == 1
                own, *lasts = run_layer(i, cell, y, operands, is_back, how)
                found.append(own)
                for end, last in zip(ends, lasts, strict=True):
                    end.append(last)
            y = joined(i, found, 2)
            if layer < layers - 1 and training:
                y = dropped(i, y, dropout)
        y = _swapped(i, y) if batch_first and is_batch else y
        results = [y, *(joined(i, end, 0) for end in ends)]
        return tuple(results if is_batch else (_without_batch(i, v) for v in results))

    return rule


def run_layer(
    i: Importer, cell: str, x: str, operands: Any, is_back: bool, how: dict[str, Any]
) -> tuple[str, ...]:
    """What a layer gives in one direction, and its states at the end."""
    made = i.node(f"{cell}_fw", {"X": reversed_steps(i, x) if is_back else x, **operands}, **how)
    steps, batch, hidden = i.graph.values[made["Y"]].shape
    names = [made[name] for name in ("Y", "C") if name in made and (name == "Y" or cell == "lstm")]
    offset = (steps - 1) * batch * hidden
    last = [i.graph.view(f"{i.layer}.last", name, (1, batch, hidden), offset) for name in names]
    return (reversed_steps(i, made["Y"]) if is_back else made["Y"], *last)


def reversed_steps(i: Importer, x: str) -> str:
    """The last step first."""
    shape = i.graph.values[x].shape
    return gathered(i, x, np.arange(prod(shape)).reshape(shape)[::-1])


def _sequences(i: Importer, x: Any, batch_first: bool) -> str:
    """[steps, batch, inputs]."""
    name, shape = i.name(x), i.shape(x)
    if len(shape) == 2:
        return i.graph.reshaped(name, (shape[0], 1, shape[1]))
    return _swapped(i, name) if batch_first else name


def _without_batch(i: Importer, x: str) -> str:
    first, _, last = i.graph.values[x].shape
    return i.graph.reshaped(x, (first, last))


def _cell(cell: str, **how: Any) -> Rule:
    """One step."""

    def rule(i: Importer, x: Any, states: Any, *weights: Any) -> Any:
        given = [states] if cell != "lstm" else list(states)
        shape = i.shape(x)
        own = i.graph.reshaped(i.name(x), (1, *shape) if len(shape) == 2 else (1, 1, *shape))
        begin = []
        for state in given:
            size = i.shape(state)
            begin.append(i.graph.reshaped(i.name(state), size if len(size) == 2 else (1, *size)))
        used = [weight for weight in weights if weight is not None]
        _, *ends = run_layer(i, cell, own, _operands(i, begin, used), False, how)
        wanted = i.shape(given[0])
        found = tuple(i.graph.reshaped(end, wanted) for end in ends)
        return found if cell == "lstm" else found[0]

    return rule


def _state(i: Importer, value: Any, layer: int) -> str:
    """The state at first of a layer: a part of [layers, batch, hidden]."""
    name = i.name(value)
    *_, hidden = shape = i.graph.values[name].shape
    batch = shape[1] if len(shape) == 3 else 1
    return i.graph.view(f"{name}_{layer}", name, (batch, hidden), layer * batch * hidden)


def _operands(i: Importer, states: list[str], weights: Sequence[Any]) -> dict[str, str | None]:
    """Weights and states at first by the kernel's names."""
    names = [i.name(weight) for weight in weights]
    if len(names) == 2:
        zeros = np.zeros(i.graph.values[names[0]].shape[0], np.float32)
        names += [i.constant(zeros)] * 2
    operands: dict[str, str | None] = dict(zip(WEIGHTS, names, strict=True))
    return operands | dict(zip(("h0", "c0"), states, strict=False))


def _swapped(i: Importer, x: str) -> str:
    """[batch, steps, ...] as [steps, batch, ...], and back."""
    return permuted(i, x, (1, 0, 2))


def _attention(
    i: Importer,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    """softmax(q k^T scale + mask) v; grouped heads of k and v are repeated."""
    factor = 1 / sqrt(i.shape(q)[-1]) if scale is None else scale
    queries = i.scaled(i.name(q), factor)
    keys, values = i.name(k), i.name(v)
    if enable_gqa:
        keys, values = (_repeated_heads(i, n, i.shape(q)[-3]) for n in (keys, values))
    scores = product(i, queries, keys, turns_right=True)
    scores, some = _masked(i, scores, mask, causal)
    weights = i.node("softmax_fw", {"x": scores}, axis=-1)["y"]
    if some is not None:
        weights = i.node("multiply", {"a": weights, "b": some})["y"]
    return product(i, dropped(i, weights, dropout), values)


def _repeated_heads(i: Importer, x: str, heads: int) -> str:
    """Each head of keys or values several times, one after the other."""
    shape = i.graph.values[x].shape
    numbers = np.arange(prod(shape)).reshape(shape)
    return gathered(i, x, numbers.repeat(heads // shape[-3], -3))


def _masked(i: Importer, scores: str, mask: Any, causal: bool) -> tuple[str, str | None]:
    """Scores with a mask: numbers are added, what is False does not count, nor what is later.

    And a factor of each row, 0 where nothing counts; None: in all of them something may.
    """
    if causal:
        *_, rows, columns = i.graph.values[scores].shape
        late = np.triu(np.ones((rows, columns), bool), 1)
        scores = i.node("add", {"a": scores, "b": i.constant(np.where(late, -np.inf, 0.0))})["y"]
    if mask is None:
        return scores, None
    if i.is_array(mask):
        return _masked_by_constants(i, scores, i.array(mask))
    if i.is_truth(mask):
        some = extreme(i, i.name(mask), -1, True)
        counts = i.node("add", {"a": i.name(mask), "b": negation(i, some)})["y"]
        return where(i, Known(i, counts), Known(i, scores), -np.inf), i.graph.stop(some)
    return i.node("add", {"a": scores, "b": i.name(mask)})["y"], None


def _masked_by_constants(i: Importer, scores: str, mask: np.ndarray) -> tuple[str, str | None]:
    """As `_masked`, where all is known before the run."""
    values = np.where(mask, 0.0, -np.inf) if mask.dtype.kind in "bi" else mask
    some = (values > -np.inf).any(-1, keepdims=True)
    own = i.constant(np.where(some, values, 0.0))
    factor = None if some.all() else i.constant(some.astype(np.float32))
    return i.node("add", {"a": scores, "b": own})["y"], factor


def _embedding(
    i: Importer, table: Any, index: Any, padding: int = -1, by_frequency: bool = False, *_: Any
) -> str:
    """padding: a row that does not learn; -1: all do."""
    if by_frequency:
        raise DeployError("scale_grad_by_freq; the kernel has none: leave it out")
    how = {} if padding == -1 else {"frozen": padding % i.shape(table)[0]}
    return rows_of(i, i.name(table), i.name(index), **how)


RULES: dict[str, Rule] = {
    "embedding": _embedding,
    "gru.input": _layers("gru"),
    "gru_cell": _cell("gru"),
    "lstm.input": _layers("lstm"),
    "lstm_cell": _cell("lstm"),
    "rnn_relu.input": _layers("rnn", activation="relu"),
    "rnn_relu_cell": _cell("rnn", activation="relu"),
    "rnn_tanh.input": _layers("rnn"),
    "rnn_tanh_cell": _cell("rnn"),
    "scaled_dot_product_attention": _attention,
}
