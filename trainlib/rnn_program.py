"""Recurrent layers as primitives: arguments and tensors of RNN, LSTM and GRU over a sequence.

The last steps of Y and C are torch's h_n and c_n.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib import kernels, rnn
from trainlib.kernels import WORD, Addresses, Arrays, Expected, Family, Role, Tensor, Tensors
from trainlib.phases import emit_phases
from trainlib.recurrent import Shape, pad
from trainlib.reference import rnn as reference
from trainlib.reference.near import Near
from trainlib.rnn_phases import backward_phases, forward_phases
from trainlib.rnn_tiles import Steps

LARGEST = 1 << 20  # elements of a dimension


class Arguments(kernels.Arguments):
    """A layer over sequences.

    tile    rows, inputs, sums: of products for all steps, of all sequences, numbers and gates;
            batch, hidden: of steps, sequences and numbers of h; what is left out is chosen
    """

    steps: int = Field(ge=1, le=LARGEST)
    inputs: int = Field(ge=1, le=LARGEST)
    hidden: int = Field(ge=1, le=LARGEST)
    batch: int = Field(1, ge=1, le=LARGEST)


class RnnArguments(Arguments):
    """h = f(Wx x + bias_x + Wh h + bias_h) for every step, as torch's RNN.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0[batch, hidden]
    Wx[hidden, inputs]    Wh[hidden, hidden]    dhn: the gradient of the last h, next to dY

    activation    f
    """

    activation: rnn.Activation = "tanh"


class LstmArguments(Arguments):
    """c = f c + i g, h = o tanh(c) for every step, as torch's LSTM.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0, c0[batch, hidden]
    Wx[4 hidden, inputs]    Wh[4 hidden, hidden]    for gates in the order i, f, g, o
    C, gates: c and the gates of every step, which the gradients need
    dhn, dcn: the gradients of the last h and c, next to dY
    """


class GruArguments(Arguments):
    """n = tanh(Wx x + bias_x + r (Wh h + bias_h)), h = n + z (h - n) for every step: torch's GRU.

    X[steps, batch, inputs]    Y[steps, batch, hidden]    h0[batch, hidden]
    Wx[3 hidden, inputs]    Wh[3 hidden, hidden]    for gates in the order r, z, n
    gates, N: the gates and what r is multiplied by, of every step, which the gradients need
    dhn: the gradient of the last h, next to dY
    """


class Layer(NamedTuple):
    """What layers differ in.

    gates     that lie side by side in the rows of weights
    states    what one step gives the next
    saved     outputs of every step by name, and gates that each has: what the gradients need
    sums      scratch of the gradients with all gates
    """

    name: str
    arguments: type[Arguments]
    gates: int
    states: tuple[str, ...]
    saved: dict[str, int]
    sums: tuple[str, ...]

    def shape(self, point: Any) -> Shape:
        return Shape(point.steps, point.batch, point.inputs, point.hidden, self.gates)

    def inputs(self, point: Any) -> Tensors:
        """What both directions read."""
        s = self.shape(point)
        return {
            "X": Tensor((s.steps, s.batch, s.inputs)),
            "Wx": Tensor((s.sums, s.inputs)),
            "Wh": Tensor((s.sums, s.hidden)),
            "bias_x": Tensor((s.sums,)),
            "bias_h": Tensor((s.sums,)),
            **{f"{state}0": Tensor((s.batch, s.hidden)) for state in self.states},
        }

    def steps(self, point: Any, role: Role) -> Tensors:
        """What forward gives and the gradients read."""
        s = self.shape(point)
        shapes = {n: (s.steps, s.batch, gates * s.hidden) for n, gates in self.saved.items()}
        return {name: Tensor(shape, role) for name, shape in shapes.items()}

    def forward(self, point: Any) -> Tensors:
        bias = Tensor((self.gates * point.hidden,), "scratch")
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
            **{f"d{name}n": Tensor(state) for name in self.states},
            **{f"d{n}": Tensor(t.shape, "out") for n, t in self.inputs(point).items()},
            **{name: Tensor((s.steps, s.batch, s.sums), "scratch") for name in self.sums},
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

    def emit(
        self, emitter: Callable[..., None], k: Kernel, team: Team, point: Any, l1: Addresses
    ) -> None:
        emitter(k, team, l1, self.shape(point), **options(point))

    def family(self, direction: str) -> Family:
        is_forward = direction == "fw"
        emitter = getattr(rnn, f"{self.name}_{direction}_f32")
        return Family(
            emitter.__name__,
            self.arguments,
            self.forward if is_forward else self.backward,
            partial(self.expected, direction),
            partial(self.macs, 1 if is_forward else 2),
            partial(self.emit, emitter),
            draw=self.draw if is_forward else self.draw_backward,
            emit_l2=self.emit_forward if is_forward else self.emit_backward,
        )

    def emit_forward(self, k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
        """Emit the layer by tiles."""
        between = {"bias": WORD * self.shape(point).sums}
        phases = forward_phases(self.shape(point), self._steps(point, "step"))
        emit_phases(
            *(k, team, phases, l2, between), point.tile or {}, point.buffers, is_warm=point.warm
        )

    def emit_backward(self, k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
        """Emit the gradients by tiles."""
        s = self.shape(point)
        between = dict.fromkeys(self.sums, s.steps * s.step(s.gates))
        phases = backward_phases(s, self._steps(point, "step_back"))
        emit_phases(
            *(k, team, phases, l2, between), point.tile or {}, point.buffers, is_warm=point.warm
        )

    def _steps(self, point: Any, what: str) -> Steps:
        step = partial(getattr(rnn, f"{self.name}_{what}"), **options(point))
        return Steps(self.shape(point), self.saved, self.states, self.sums, step)


def options(point: Any) -> dict[str, Any]:
    """Of an emitter and its reference."""
    return {name: getattr(point, name) for name in type(point).model_fields if name == "activation"}


LAYERS = (
    Layer("rnn", RnnArguments, 1, ("h",), {"Y": 1}, ("dG",)),
    Layer("lstm", LstmArguments, 4, ("h", "c"), {"Y": 1, "C": 1, "gates": 4}, ("dG",)),
    Layer("gru", GruArguments, 3, ("h",), {"Y": 1, "gates": 3, "N": 1}, ("dG", "dGh")),
)
FAMILIES = tuple(layer.family(direction) for layer in LAYERS for direction in ("fw", "bw"))
