"""ATen's operators on sequences as nodes: recurrent layers, attention, embeddings."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from trainlib.deploy.aten_elements import dropped
from trainlib.deploy.aten_importer import Importer, Rule
from trainlib.deploy.aten_shapes import permuted
from trainlib.deploy.graph import DeployError
from trainlib.deploy.sequences import WEIGHTS


def _cell(cell: str, **how: Any) -> Rule:
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
        if bidirectional:
            raise DeployError("bidirectional; there is no kernel that goes backward: leave it out")
        g, shape = i.graph, i.shape(x)
        if len(shape) != 3:
            raise DeployError(f"an input of {list(shape)}; it takes batches of sequences")
        given = [states] if cell != "lstm" else list(states)
        x = _swapped(i, i.name(x)) if batch_first else i.name(x)
        each = 4 if has_bias else 2
        ends: list[list[str]] = [[], []]
        for layer in range(layers):
            own = weights[layer * each : layer * each + each]
            begin = [_state(i, s, layer) for s in given]
            y = i.node(f"{cell}_fw", {"X": x, **_operands(i, begin, own)}, **how)
            batch, hidden = g.values[y["Y"]].shape[1:]
            for number, name in enumerate(("Y", "C")[: len(given)]):
                start = (g.values[y[name]].shape[0] - 1) * batch * hidden
                last = g.view(f"{i.layer}.last", y[name], (1, batch, hidden), start)
                ends[number].append(last)
            x = y["Y"]
            if layer < layers - 1 and training:
                x = dropped(i, x, dropout)
        result = _swapped(i, x) if batch_first else x
        if layers > 1:
            return (result, *(None for _ in given))
        return (result, *(end[0] for end in ends[: len(given)]))

    return rule


def _state(i: Importer, value: Any, layer: int) -> str:
    """The state at first of a layer: a part of [layers, batch, hidden]."""
    name = i.name(value)
    _, batch, hidden = i.graph.values[name].shape
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
) -> str:
    if causal or mask is not None:
        raise DeployError("a mask; there is no kernel for it: leave it out")
    factor = 1 / sqrt(i.shape(q)[-1]) if scale is None else scale
    queries = i.scaled(i.name(q), factor)
    scores = i.node("matmul", {"A": queries, "B": i.name(k)}, trans_b=True)["C"]
    weights = i.node("softmax_fw", {"x": scores}, axis=-1)["y"]
    return i.node("matmul", {"A": dropped(i, weights, dropout), "B": i.name(v)})["C"]


def _embedding(i: Importer, table: Any, index: Any, padding: int = -1, *_: Any) -> str:
    if padding != -1:
        raise DeployError("padding_idx; leave it out: its row would learn")
    return i.node("take", {"table": i.name(table), "index": i.name(index)})["y"]


RULES: dict[str, Rule] = {
    "embedding": _embedding,
    "gru.input": _cell("gru"),
    "lstm.input": _cell("lstm"),
    "rnn_relu.input": _cell("rnn", activation="relu"),
    "rnn_tanh.input": _cell("rnn"),
    "scaled_dot_product_attention": _attention,
}
