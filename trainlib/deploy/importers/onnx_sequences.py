"""ONNX's recurrent layers as nodes: LSTM, GRU and RNN, and what onnxruntime trains them as.

Parameters have the gates in another order than the kernels: rows are taken in theirs, and what a
parameter learns goes back to where it came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainlib.deploy.graph.sequences import WEIGHTS
from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_sequences import run_layer
from trainlib.deploy.importers.aten_shapes import gathered, joined, permuted
from trainlib.deploy.importers.onnx_elements import Attributes, Names, Rule, at, text

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Which of them begin with the last step."""


@dataclass(frozen=True)
class _Kind:
    """A kind of layer.

    gates          in the kernel's order, by their numbers in ONNX's
    activations    of its gates and states, as ONNX names them
    """

    gates: tuple[int, ...]
    activations: tuple[str, ...]


KINDS = {
    "lstm": _Kind((0, 2, 3, 1), ("sigmoid", "tanh", "tanh")),  # i o f c
    "gru": _Kind((1, 0, 2), ("sigmoid", "tanh")),  # z r h
    "rnn": _Kind((0,), ("tanh",)),
}


def _layer(cell: str) -> Rule:
    """Y[steps, directions, batch, hidden], and the states of the last step."""
    states = ("h0", "c0") if cell == "lstm" else ("h0",)

    def rule(i: Any, x: Names, a: Attributes) -> tuple[str, ...]:
        way = text(a.get("direction", "forward"))
        if way not in DIRECTIONS:
            raise DeployError(f"direction {way}; there are {', '.join(DIRECTIONS)}")
        backs, is_batch_first = DIRECTIONS[way], bool(a.get("layout"))
        how = _options(cell, a, len(backs))
        sequence = permuted(i, i.name(x[0]), (1, 0, 2)) if is_batch_first else i.name(x[0])
        steps, batch, _ = i.graph.values[sequence].shape
        _check_inputs(i, x, steps)
        hidden = i.shape(x[2])[-1]
        found: list[list[str]] = [[] for _ in ("Y", *states)]
        for number, is_back in enumerate(backs):
            operands: dict[str, str | None] = dict(_weights(i, cell, x, number))
            for place, state in enumerate(states, 5):
                operands[state] = _state(i, at(x, place), number, batch, hidden, is_batch_first)
            made = run_layer(i, cell, sequence, operands, is_back, how)
            for values, name in zip(found, made, strict=True):
                values.append(name)
        ys = [i.graph.reshaped(y, (steps, 1, batch, hidden)) for y in found[0]]
        y, *ends = joined(i, ys, 1), *(joined(i, names, 0) for names in found[1:])
        if is_batch_first:
            return permuted(i, y, (2, 0, 1, 3)), *(permuted(i, e, (1, 0, 2)) for e in ends)
        return y, *ends

    return rule


def _options(cell: str, a: Attributes, directions: int) -> dict[str, Any]:
    """Of the kernel.

    raises    DeployError for what it does not do
    """
    wanted = KINDS[cell].activations * directions
    given = tuple(text(name).lower() for name in a.get("activations", ()))
    if cell == "rnn" and given and set(given) == {"relu"}:
        return {"activation": "relu"}
    if given and given != wanted:
        raise DeployError(f"activations {', '.join(given)}; there are {', '.join(wanted)}")
    if a.get("clip") or a.get("input_forget"):
        raise DeployError("clip or input_forget; the kernel has neither: leave it out")
    if cell == "gru" and not a.get("linear_before_reset"):
        raise DeployError(
            "linear_before_reset = 0; the kernel resets what the hidden state's product gives, as "
            "PyTorch does: linear_before_reset = 1"
        )
    return {}


def _check_inputs(i: Any, x: Names, steps: int) -> None:
    """raises    DeployError for sequences of several lengths, and for peepholes"""
    if (lengths := at(x, 4)) and set(np.ravel(i.number(lengths)).tolist()) != {steps}:
        raise DeployError(f"sequence_lens; all sequences have {steps} steps")
    if at(x, 7):
        raise DeployError("P; there are no peepholes")


def _weights(i: Importer, cell: str, x: Names, direction: int) -> dict[str, str]:
    """Weights and biases of a direction, their gates in the kernel's order."""
    gates = KINDS[cell].gates
    found = [_rows(i, i.name(name), direction, gates) for name in x[1:3]]
    if bias := at(x, 3):
        found += [_rows(i, i.name(bias), direction, gates, half) for half in (0, 1)]
    else:
        found += [i.constant(np.zeros(i.graph.values[found[0]].shape[0], np.float32))] * 2
    return dict(zip(WEIGHTS, found, strict=True))


def _rows(
    i: Importer, name: str, direction: int, gates: Sequence[int], half: int | None = None
) -> str:
    """Rows of a direction's gates; of biases, the first or the second half."""
    shape = i.graph.values[name].shape
    numbers = np.arange(i.graph.values[name].elements).reshape(shape)[direction]
    if half is not None:
        numbers = numbers.reshape(2, -1)[half]
    by_gate = numbers.reshape(len(gates), -1)[list(gates)]
    return gathered(i, name, by_gate.reshape(numbers.shape))


def _state(
    i: Importer, value: Any, direction: int, batch: int, hidden: int, is_batch_first: bool
) -> str:
    """The state at first of a direction: zeros where none is given."""
    if value is None:
        return i.constant(np.zeros((batch, hidden), np.float32))
    name = permuted(i, i.name(value), (1, 0, 2)) if is_batch_first else i.name(value)
    size = batch * hidden
    return i.graph.view(f"{name}_{direction}", name, (batch, hidden), direction * size)


RULES: dict[str, Rule] = {
    "GRU": _layer("gru"),
    "GRUTraining": _layer("gru"),
    "LSTM": _layer("lstm"),
    "LSTMTraining": _layer("lstm"),
    "RNN": _layer("rnn"),
}
