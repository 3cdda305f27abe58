"""Recurrent layers as primitives: arguments and tensors of RNN, LSTM and GRU over a sequence.

The last steps of Y and C are torch's h_n and c_n.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.elementwise.in_single import in_single
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.tensor import WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.recurrent import rnn
from trainlib.recurrent.cells import CELLS, Activation
from trainlib.recurrent.gates import Cell, Shape, pad
from trainlib.recurrent.phases import backward_phases, forward_phases
from trainlib.reference import rnn as reference
from trainlib.reference.error_analysis import Near

LARGEST = 1 << 20  # elements of a dimension


class RecurrentArguments(TiledArguments):
    """A layer over sequences.

    tile    rows, inputs, sums: of products for all steps, of all sequences, numbers and gates;
            batch, sums: of steps, sequences and rows of Wh; hidden: of the gradient of Wh; what is
            left out is chosen
    """

    steps: int = Field(ge=1, le=LARGEST)
    inputs: int = Field(ge=1, le=LARGEST)
    hidden: int = Field(ge=1, le=LARGEST)
    batch: int = Field(1, ge=1, le=LARGEST)


class RnnArguments(RecurrentArguments):
    """h = f(Wx x + bias_x + Wh h + bias_h) for every step, as torch's RNN.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0[batch, hidden]
    Wx[hidden, inputs]    Wh[hidden, hidden]    dhn: the gradient of the last h, next to dY

    activation    f
    """

    activation: Activation = "tanh"


class LstmArguments(RecurrentArguments):
    """c = f c + i g, h = o tanh(c) for every step, as torch's LSTM.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0, c0[batch, hidden]
    Wx[4 hidden, inputs]    Wh[4 hidden, hidden]    for gates in the order i, f, g, o
    C, gates: c and the gates of every step, which the gradients need
    dhn, dcn: the gradients of the last h and c, next to dY
    """


class GruArguments(RecurrentArguments):
    """n = tanh(Wx x + bias_x + r (Wh h + bias_h)), h = n + z (h - n) for every step: torch's GRU.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0[batch, hidden]
    Wx[3 hidden, inputs]    Wh[3 hidden, hidden]    for gates in the order r, z, n
    gates, N: the gates and what r is multiplied by, of every step, which the gradients need
    dhn: the gradient of the last h, next to dY
    """


class Layer(NamedTuple):
    """A kind of layer."""

    name: str
    arguments: type[RecurrentArguments]
    cell: Cell

    def shape(self, point: Any) -> Shape:
        return Shape(point.steps, point.batch, point.inputs, point.hidden, self.cell.gates)

    def inputs(self, point: Any) -> Tensors:
        """What both directions read."""
        s = self.shape(point)
        return {
            "X": Tensor((s.steps, s.batch, s.inputs)),
            "Wx": Tensor((s.sums, s.inputs)),
            "Wh": Tensor((s.sums, s.hidden)),
            "bias_x": Tensor((s.sums,)),
            "bias_h": Tensor((s.sums,)),
            **{f"{state}0": Tensor((s.batch, s.hidden)) for state in self.cell.states},
        }

    def steps(self, point: Any, role: Role) -> Tensors:
        """What forward gives and the gradients read."""
        s = self.shape(point)
        shapes = {n: (s.steps, s.batch, gates * s.hidden) for n, gates in self.cell.saved.items()}
        return {name: Tensor(shape, role) for name, shape in shapes.items()}

    def forward(self, point: Any) -> Tensors:
        bias = Tensor((self.cell.gates * point.hidden,), "scratch")
        read = {
            name: replace(t, pad=pad(t.shape[-1]) if name in ("X", "Wx", "Wh") else 0)
            for name, t in self.inputs(point).items()
        }
        return {**read, **self.steps(point, "out"), "bias": bias}

    def backward(self, point: Any) -> Tensors:
        s = self.shape(point)
        read = {n: t for n, t in self.inputs(point).items() if not n.startswith("bias")}
        state = (s.batch, s.hidden)
        return {
            **read,
            **self.steps(point, "in"),
            "dY": Tensor((s.steps, s.batch, s.hidden)),
            **{f"d{name}n": Tensor(state) for name in self.cell.states},
            **{f"d{n}": Tensor(t.shape, "out") for n, t in self.inputs(point).items()},
            **{name: Tensor((s.steps, s.batch, s.sums), "scratch") for name in self.cell.sums},
        }

    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """Weights and biases as torch begins with."""
        most = point.hidden**-0.5
        return {
            name: numbers.uniform(-most, most, tensor.shape).astype(np.float32)
            for name, tensor in self.inputs(point).items()
            if name.startswith(("W", "bias"))
        }

    def draw_backward(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """The same, and what forward gives for them."""
        values = {name: t.random(numbers) for name, t in self.inputs(point).items()}
        values |= self.draw(point, numbers)
        saved = self.exact("fw", point, values)
        values |= {name: near.value.astype(np.float32) for name, near in saved.items()}
        return {n: a for n, a in values.items() if not n.startswith("bias")}

    def exact(self, direction: str, point: Any, values: Arrays) -> dict[str, Near]:
        return getattr(reference, f"{self.name}_{direction}")(values, **options(point))

    def expected(self, direction: str, point: Any, values: Arrays) -> dict[str, Expected]:
        return {n: near.expected for n, near in self.exact(direction, point, values).items()}

    def macs(self, products: int, point: Any) -> int:
        s = self.shape(point)
        return products * s.steps * s.batch * s.sums * (s.inputs + s.hidden)

    def family(self, direction: str) -> Family:
        """A direction of it."""
        is_forward = direction == "fw"
        emitter, phases = (
            (rnn.recurrent_fw_f32, forward_phases)
            if is_forward
            else (rnn.recurrent_bw_f32, backward_phases)
        )

        def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
            emitter(k, team, l1, self.shape(point), self._told(point))

        def by_tiles(point: Any) -> Phases:
            s = self.shape(point)
            between = {"bias": WORD * s.sums}
            if not is_forward:
                between = dict.fromkeys(self.cell.sums, s.steps * s.step(s.gates))
            return Phases(phases(s, self._told(point)), between)

        return Family(
            f"{self.name}_{direction}_f32",
            self.arguments,
            self.forward if is_forward else self.backward,
            partial(self.expected, direction),
            partial(self.macs, 1 if is_forward else 2),
            emit,
            draw=self.draw if is_forward else self.draw_backward,
            phases=by_tiles,
        )

    def _told(self, point: Any) -> Cell:
        return self.cell.told(**options(point))


def options(point: Any) -> dict[str, Any]:
    """Options of a cell and its reference."""
    return {name: getattr(point, name) for name in type(point).model_fields if name == "activation"}


LAYERS = (
    Layer("rnn", RnnArguments, CELLS["rnn"]),
    Layer("lstm", LstmArguments, CELLS["lstm"]),
    Layer("gru", GruArguments, CELLS["gru"]),
)
FAMILIES = tuple(
    in_single(layer.family(direction), element)
    for element in ELEMENTS
    for layer in LAYERS
    for direction in ("fw", "bw")
)
