"""Gates of recurrent layers: their sums over a sequence, and the gradients of these.

X[steps, batch, inputs]    Wx[gates hidden, inputs]    Wh[gates hidden, hidden]

What does not wait for the step before is one product for the whole sequence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.codegen.operand_addresses import Places
from trainlib.elementwise.elementwise import Operation, map_nest
from trainlib.gemm.linear import linear_fw_f32, linear_ig_f32, linear_wg_f32
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.tensor import WORD, Address


def pad(words: int) -> int:
    """Words after rows that are read side by side: they begin in different banks."""
    return 1 - words % 2


def padded(words: int) -> int:
    """Bytes from one such row to the next."""
    return WORD * (words + pad(words))


@dataclass(frozen=True)
class Shape:
    """Steps of the sequence, sequences side by side, and what a step of one has."""

    steps: int
    batch: int
    inputs: int
    hidden: int
    gates: int

    @property
    def sums(self) -> int:
        """Sums of all gates."""
        return self.gates * self.hidden

    @property
    def x_line(self) -> int:
        """Bytes from row to row of X and Wx where the sums are computed."""
        return padded(self.inputs)

    def step(self, gates: int) -> int:
        """Bytes of a step in a tensor with so many gates."""
        return WORD * self.batch * gates * self.hidden


class GateSlice(NamedTuple):
    """One of the gates that lie side by side in the rows of a tensor, and how many these are."""

    name: str
    gate: int = 0
    gates: int = 1


def add(_: Kernel) -> Body:
    def body(v: Lanes, x: Lane, y: Lane) -> list[Lane]:
        v.fadd_s(x, x, y)
        return [x]

    return body


def copy(_: Kernel) -> Body:
    return lambda v, x: [x]


class Recurrence:
    """A layer's code, given where its tensors are."""

    def __init__(self, k: Kernel, team: Team, shape: Shape, places: Places) -> None:
        self.k, self.team, self.shape, self.places = k, team, shape, places

    @property
    def h_line(self) -> int:
        """Bytes from row to row of Wh where the sums are computed."""
        return padded(self.shape.hidden)

    @contextmanager
    def forward(self, names: Mapping[str, int], state: Mapping[str, str]) -> Iterator[None]:
        """Repeat the body for every step from the first on; a barrier ends it.

        names    gates of each tensor that has steps; "Y_t" is the step's part of "Y"
        state    what moves to the step's part of another when the step is done
        """
        with self.places.loop(0, self.shape.steps):
            yield
            self.team.barrier()
            for name, source in state.items():
                self.places.copy(name, f"{source}_t")
            for name, gates in names.items():
                self.places.move(f"{name}_t", self.shape.step(gates))

    @contextmanager
    def backward(
        self, names: Mapping[str, int], state: Mapping[str, tuple[str, str]]
    ) -> Iterator[None]:
        """Repeat the body for every step from the last on; a barrier ends it.

        state    what is the step before in a tensor, or at the first step another tensor
        """
        with self.places.loop(0, self.shape.steps):
            yield
            self.team.barrier()
            for name, gates in names.items():
                self.places.move(f"{name}_t", -self.shape.step(gates))
            for name, (source, first) in state.items():
                self.places.move_down(name, self.shape.step(1), source, first)

    def each(
        self,
        operation: Operation,
        sources: Sequence[GateSlice],
        targets: Sequence[GateSlice],
        *,
        rows: int | None = None,
        gates: int = 1,
        late: Sequence[int] = (),
    ) -> None:
        """Results of an operation on gates of the batch's rows go to others."""
        names = list(dict.fromkeys(part.name for part in (*sources, *targets)))
        with self.places.load(*names) as loaded:
            at = dict(zip(names, loaded, strict=True))
            operands = [
                [self.operand(at[part.name], part) for part in parts]
                for parts in (sources, targets)
            ]
            dims = rows or self.shape.batch, gates * self.shape.hidden
            map_nest(self.k, self.team, operation, dims, *operands, late=late)

    def operand(self, address: Address, part: GateSlice) -> Operand:
        """A gate in the rows of a tensor that is at an address."""
        hidden = self.shape.hidden
        return Operand(address, (WORD * part.gates * hidden, WORD), None, WORD * part.gate * hidden)

    def bias_sums(self, added: int) -> None:
        """bias = bias_x, and bias_h for the first so many gates."""
        s = self.shape
        row = GateSlice("bias", 0, s.gates)
        both = [GateSlice("bias_x", 0, s.gates), GateSlice("bias_h", 0, s.gates)]
        self.each(add, both, [row], rows=1, gates=added)
        if added < s.gates:
            rest = [GateSlice(name, added, s.gates) for name in ("bias_x", "bias")]
            self.each(copy, rest[:1], rest[1:], rows=1, gates=s.gates - added)
        self.team.barrier()

    def input_sums(self, target: str, added: int) -> None:
        """Wx x + bias_x, and bias_h for the first so many gates, of all steps."""
        k, team, s = self.k, self.team, self.shape
        self.bias_sums(added)
        with self.places.load("X", "Wx", target, "bias") as (x, w, y, bias):
            operands, line = (x, w, y, s.steps * s.batch, s.inputs, s.sums), s.x_line
            linear_fw_f32(k, team, *operands, bias=bias, a_line=line, b_line=line)
        team.barrier()

    def hidden_sums(self, target: str) -> None:
        """Add Wh h to the sums of a step."""
        s = self.shape
        with self.places.load("h", "Wh", target) as (h, w, y):
            operands = h, w, y, s.batch, s.hidden, s.sums
            linear_fw_f32(self.k, self.team, *operands, accumulate=True, b_line=self.h_line)
        self.team.barrier()

    def reset_sums(self) -> None:
        """Add Wh h to GRU's sums of r and z; that of n is kept apart, for r is multiplied by it."""
        k, team, s = self.k, self.team, self.shape
        with self.places.load("h", "Wh", "gates_t") as (h, w, y):
            operands = h, w, y, s.batch, s.hidden, 2 * s.hidden
            lines = {"b_line": self.h_line, "c_line": WORD * s.sums}
            linear_fw_f32(k, team, *operands, accumulate=True, **lines)
        with self.places.load("h", "Wh_n", "N_t", "bias_n") as (h, w, y, bias):
            parts = h, w, y, s.batch, s.hidden, s.hidden
            linear_fw_f32(k, team, *parts, bias=bias, b_line=self.h_line)
        team.barrier()

    def hidden_gradient(self, source: str, *, accumulate: bool = False) -> None:
        """The gradient of h by way of the sums of a step, to dh0; or added to it."""
        s = self.shape
        with self.places.load(source, "Wh", "dh0") as (dg, w, dh):
            operands = dg, w, dh, s.batch, s.hidden, s.sums
            linear_ig_f32(self.k, self.team, *operands, accumulate=accumulate)

    def gradients(self, of_x: str, of_h: str) -> None:
        """Gradients of inputs, weights and biases, given those of the sums: X's part and h's.

        of_h + "_1" is the second step of of_h.
        """
        k, team, s = self.k, self.team, self.shape
        rows = s.steps * s.batch
        with self.places.load(of_x, "Wx", "dX") as (dg, w, dx):
            linear_ig_f32(k, team, dg, w, dx, rows, s.inputs, s.sums)
        with self.places.load(of_x, "X", "dWx") as (dg, x, dw):
            linear_wg_f32(k, team, dg, x, dw, rows, s.inputs, s.sums)
        for source, target in ((of_x, "dbias_x"), (of_h, "dbias_h")):
            with self.places.load(source, target) as (dg, dbias):
                sums_f32(k, team, dg, dbias, s.sums, rows, row=WORD, term=WORD * s.sums)
        with self.places.load(of_h, "h0", "dWh") as (dg, h, dw):
            linear_wg_f32(k, team, dg, h, dw, s.batch, s.hidden, s.sums)
        if s.steps > 1:
            team.barrier()
            with self.places.load(f"{of_h}_1", "Y", "dWh") as (dg, h, dw):
                operands = dg, h, dw, rows - s.batch, s.hidden, s.sums
                linear_wg_f32(k, team, *operands, accumulate=True)


@dataclass(frozen=True)
class Cell:
    """A step of a layer, and its tensors.

    gates           that lie side by side in the rows of weights
    states          what one step gives the next, and what has it of every step
    saved           outputs of every step by name, and gates that each has: what the gradients need
    sums            names of the gradients of sums, by which x's weights get theirs, and h's
    step            emits a step
    step_back       emits its gradients
    """

    gates: int
    states: Mapping[str, str]
    saved: Mapping[str, int]
    sums: tuple[str, ...]
    step: Callable[..., None]
    step_back: Callable[..., None]

    def told(self, **options: Any) -> "Cell":
        """The same with options of its steps."""
        both = partial(self.step, **options), partial(self.step_back, **options)
        return replace(self, step=both[0], step_back=both[1])

    @property
    def sums_in(self) -> str:
        """What has the sums of inputs before the steps."""
        return "gates" if self.gates > 1 else "Y"

    @property
    def added(self) -> int:
        """Gates whose biases of h are added before the steps, too: not that of GRU's n."""
        return 2 if self.gates == 3 else self.gates

    @property
    def before(self) -> str | None:
        """What of the step before the gradients need: c, or h, or nothing."""
        return "c" if "c" in self.states else "h" if self.gates > 1 else None

    @property
    def gradients(self) -> dict[str, int]:
        """What has steps in the backward pass, and gates that each has."""
        of = dict.fromkeys(self.sums, self.gates) | {"dY": 1} | dict(self.saved)
        return {name: gates for name, gates in of.items() if name != "Y" or not self.before}
