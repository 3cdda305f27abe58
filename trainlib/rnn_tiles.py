"""Recurrent layers whose tensors lie in L2: their steps by tiles.

A tile is a step of some sequences, for some numbers of h: the columns of all gates that these have,
and the rows of Wh. What one step gives the next stays in L1, for all numbers of h: tiles read it
from one buffer and leave it in another, and exchange both when a step is done.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from firmware.builder import EQ, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.act import tanh_forward
from trainlib.fill import fill_f32
from trainlib.kernels import WORD, Address, Addresses, Role, Tensor, Tensors
from trainlib.linear import linear_ig_f32
from trainlib.maps import Operation, map_f32
from trainlib.nest import Operand
from trainlib.places import Places, places_of
from trainlib.recurrent import Part, Recurrence, Shape, add, copy, pad
from trainlib.tiling import Axis, Dim, Sized, TileShape, Tiling

NOW, NEXT, COLUMN = (WORD * word for word in range(3))
"""Words of a tile's state: where h is, where the next step's comes, bytes to the tile's numbers."""
STATE = 16  # bytes
UNIT = 8  # numbers of h in a tile
RATE = 4.0  # multiply-adds per cycle, nearly


@dataclass(frozen=True)
class Backwards:
    """The steps of a tensor from the last to the first, or those so many before."""

    dim: str
    steps: int
    before: int = 0

    def of(self, there: range) -> range:
        """The steps; before the first one there is none."""
        return range(*(self.steps - end - self.before for end in (there.stop, there.start)))

    def phase(self, there: range) -> int:
        """Nothing: the code for all steps is the same."""
        return 0


class TileStep(Recurrence):
    """A layer's step for a tile's numbers of h.

    wide    of its tensors, those that have all numbers of h in their rows; the address of what
            the tile has of "h" is "h_tile"
    """

    def __init__(
        self, k: Kernel, team: Team, shape: Shape, places: Places, depth: int, wide: Sequence[str]
    ) -> None:
        super().__init__(k, team, shape, places)
        self.all, self.wide = depth, wide

    @property
    def depth(self) -> int:
        """Numbers of h in a sum."""
        return self.all

    @property
    def is_all(self) -> bool:
        """Does the tile have all of them?"""
        return self.shape.hidden == self.all

    def find_tile(self) -> None:
        """Let the addresses of the tile's own numbers be where its columns are."""
        for name in self.wide:
            self.places.add(f"{name}_tile", "column")

    def copy_rows(self, source: str, target: str) -> None:
        """Copy all numbers of the batch."""
        with self.places.load(source, target) as (x, y):
            map_f32(self.k, self.team, copy, [x], [y], self.shape.batch * self.all)
        self.team.barrier()

    def clear_next(self) -> None:
        """Let sums for the next step begin with 0, where those of several tiles are added."""
        if self.is_all:
            return
        with self.places.load("column", "dh_next") as (column, dh):
            assert isinstance(column, Register)
            with self.k.if_(EQ, column, ZERO):
                fill_f32(self.k, self.team, dh, self.shape.batch * self.all)

    def each(
        self, operation: Operation, sources: Sequence[Part], targets: Sequence[Part], **how: Any
    ) -> None:
        """Results of an operation on gates of the tile go to others."""
        own = ([self._own(part) for part in parts] for parts in (sources, targets))
        super().each(operation, *own, **how)

    def _own(self, part: Part) -> Part:
        return part._replace(name=f"{part.name}_tile") if part.name in self.wide else part

    def operand(self, address: Address, part: Part) -> Operand:
        """A gate in the rows of a tensor that is at an address."""
        if part.name.removesuffix("_tile") in self.wide:
            return Operand(address, (WORD * self.all, WORD))
        return super().operand(address, part)

    def hidden_gradient(self, source: str, *, accumulate: bool = False) -> None:
        """Add the gradient of h by way of the tile's sums to the next step's.

        accumulate    and what the tile has of dh0 by now
        """
        s = self.shape
        if accumulate:
            sources = [Part("dh0")] if self.is_all else [Part("dh_next"), Part("dh0")]
            self.each(copy if self.is_all else add, sources, [Part("dh_next")])
            self.team.barrier()
        with self.places.load(source, "Wh", "dh_next") as (dg, w, dh):
            operands = dg, w, dh, s.batch, self.all, s.sums
            adds = accumulate or not self.is_all
            linear_ig_f32(self.k, self.team, *operands, accumulate=adds)


@dataclass(frozen=True)
class Steps:
    """The steps of a layer.

    shape     of the layer
    saved     gates that each output of forward has
    states    what one step gives the next: h, and maybe c
    sums      names of the gradients of sums
    step      emits a step
    """

    shape: Shape
    saved: dict[str, int]
    states: tuple[str, ...]
    sums: tuple[str, ...]
    step: Callable[[Recurrence], None]

    def _moving(self, names: dict[str, int], roles: dict[str, Role]) -> Tensors:
        s = self.shape
        return {
            name: Tensor((s.steps, s.batch, gates, s.hidden), roles.get(name, "in"))
            for name, gates in names.items()
        }

    def _state(self, names: Sequence[str], role: Role = "in") -> Tensors:
        return {name: Tensor((self.shape.batch, self.shape.hidden), role) for name in names}

    @property
    def sums_in(self) -> str:
        """What has the sums of inputs before the steps."""
        return "gates" if self.shape.gates > 1 else "Y"

    @property
    def _dims(self) -> tuple[Dim, ...]:
        s = self.shape
        return (
            Dim("batch", s.batch),
            Dim("step", s.steps, is_summed=True, limit=1),
            Dim("hidden", s.hidden, min(UNIT, s.hidden), is_summed=True),
        )

    @property
    def _rate(self) -> float:
        return RATE / (self.shape.gates * self.shape.hidden)

    def _wh(self, is_read_by_rows: bool) -> Tensor:
        s = self.shape
        return Tensor((s.gates, s.hidden, s.hidden), pad=pad(s.hidden) if is_read_by_rows else 0)

    def forward(self) -> tuple[Tiling, Tensors]:
        """Y and what else is saved, given the sums of inputs in the one with all gates."""
        s = self.shape
        roles: dict[str, Role] = {n: "inout" if n == self.sums_in else "out" for n in self.saved}
        tensors = {
            "Wh": self._wh(is_read_by_rows=True),
            **self._state([f"{name}0" for name in self.states]),
            **self._moving(self.saved, roles),
        }
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(
            tensors, ("step", "batch", None, "hidden")
        )
        boxes |= {"Wh": (None, "hidden", None)}
        boxes |= {f"{name}0": ("batch", None) for name in self.states}
        if s.gates == 3:
            tensors["bias_h"] = Tensor((s.gates, s.hidden))
            boxes["bias_h"] = (None, "hidden")

        def scratch(sizes: Sized) -> dict[str, Any]:
            names = ("h_even", "h_odd", *(f"{n}_now" for n in self.states[1:]))
            return dict.fromkeys(names, WORD * s.hidden * sizes["batch"]) | {"state": STATE}

        return Tiling(self._dims, boxes, self._emit_forward, scratch, rate=self._rate), tensors

    def _emit_forward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s = self.shape
        part = Shape(1, tile["batch"], s.inputs, tile["hidden"], s.gates)
        state = _State(k, team, at["state"], (at["h_even"], at["h_odd"]), s, part)
        if tile.is_first:
            state.begin(at["h0"], at["h_even"])
        with state.loaded() as (h, h_next, column):
            own = {f"{n}_t" if n in self.saved else n: a for n, a in at.items()}
            own |= {"h": h, "h_next": h_next, "column": column}
            wide = ["h", "h_next"]
            if "c0" in own:
                own["c"] = own.pop("c_now")
                wide.append("c")
            behind: dict[str, tuple[str, int]] = {f"{name}_tile": (name, 0) for name in wide}
            if s.gates == 3:
                behind["Wh_n"] = "Wh", 2 * part.hidden * tile.part("Wh").row
                behind["bias_n"] = "bias_h", WORD * 2 * part.hidden
            with places_of(k, own, behind, 0) as places:
                layer = TileStep(k, team, part, places, s.hidden, wide)
                layer.find_tile()
                if tile.is_first and "c0" in own:
                    layer.copy_rows("c0", "c")
                self.step(layer)
                team.barrier()
                layer.each(copy, [Part("Y_t")], [Part("h_next")])
                if "c0" in own:
                    layer.each(copy, [Part("C_t")], [Part("c")])
        state.end()

    def backward(self) -> tuple[Tiling, Tensors]:
        """Gradients of sums, and of the first h and c."""
        s = self.shape
        back: tuple[Axis, ...] = (Backwards("step", s.steps), "batch", None, "hidden")
        tensors = dict(self._moving(self._gradients, dict.fromkeys(self.sums, "out")))
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(tensors, back)
        tensors["Wh"], boxes["Wh"] = self._wh(is_read_by_rows=False), (None, "hidden", None)
        states = {**self._state([f"d{name}n" for name in self.states])}
        states |= self._state([f"d{name}0" for name in self.states], "out")
        if self._before:
            states |= self._state([f"{self._before}0"])
            if s.steps > 1:
                tensors["before"] = Tensor((s.steps, s.batch, 1, s.hidden))
                boxes["before"] = (Backwards("step", s.steps, 1), *back[1:])
        tensors |= states
        boxes |= dict.fromkeys(states, ("batch", None))

        def scratch(sizes: Sized) -> dict[str, Any]:
            return {"dh_odd": WORD * s.hidden * sizes["batch"], "state": STATE}

        return Tiling(self._dims, boxes, self._emit_backward, scratch, rate=self._rate), tensors

    @property
    def _before(self) -> str | None:
        """What of the step before the gradients need: c, or h, or nothing."""
        return "c" if "c" in self.states else "h" if self.shape.gates > 1 else None

    @property
    def _gradients(self) -> dict[str, int]:
        """Gates of what has steps."""
        of = dict.fromkeys(self.sums, self.shape.gates) | {"dY": 1} | self.saved
        return {name: gates for name, gates in of.items() if name != "Y" or not self._before}

    def _emit_backward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s, before = self.shape, self._before
        part = Shape(1, tile["batch"], s.inputs, tile["hidden"], s.gates)
        ends = at["dh0"], at["dh_odd"]
        state = _State(k, team, at["state"], ends, s, part)
        if tile.is_first:
            state.begin(at["dhn"], ends[(s.steps - 1) % 2])
        with state.loaded() as (dh, dh_next, column):
            own = {f"{n}_t" if n in self._gradients else n: a for n, a in at.items()}
            own["dh0_end"] = own["dh0"]
            own |= {"dh0": dh, "dh_next": dh_next, "column": column}
            wide = ["dh0", "dh_next", *(["dc0"] if "dc0" in own else [])]
            if before and "before" in own and tile.part("before").elements:
                own[before] = own.pop("before")
            elif before:
                own[before] = own.pop(f"{before}0")
                wide.append(before)
            with places_of(k, own, {f"{name}_tile": (name, 0) for name in wide}, 0) as places:
                layer = TileStep(k, team, part, places, s.hidden, wide)
                layer.find_tile()
                if tile.is_first and "dc0" in own:
                    layer.copy_rows("dcn", "dc0")
                layer.clear_next()
                if "dc0" in own:
                    layer.each(tanh_forward, [Part("C_t")], [Part("dG_t", 3, 4)])
                    team.barrier()
                self.step(layer)
        state.end()


class _State:
    """Where what one step gives the next is: words in L1.

    ends    two buffers: what is read is in one of them, but for the first step
    """

    def __init__(
        self,
        k: Kernel,
        team: Team,
        at: Address,
        ends: tuple[Address, Address],
        whole: Shape,
        tile: Shape,
    ) -> None:
        self.k, self.team, self.at, self.ends = k, team, at, ends
        self.row, self.step = WORD * whole.hidden, WORD * tile.hidden

    def begin(self, now: Address, following: Address) -> None:
        """Let the first step begin."""
        k = self.k
        with self.team.only(0), k.scope():
            place, value = k.x(2)
            k.set(place, self.at)
            for slot, address in ((NOW, now), (NEXT, following), (COLUMN, 0)):
                k.set(value, address)
                k.sw(value, slot, place)
        self.team.barrier()

    @contextmanager
    def loaded(self) -> Iterator[list[Register]]:
        """The words."""
        k = self.k
        with k.scope():
            words = k.x(3)
            k.set(words[2], self.at)
            for register, slot in zip(words, (NOW, NEXT, COLUMN), strict=True):
                k.lw(register, slot, words[2])
            yield words

    def end(self) -> None:
        """Go on to the next columns, or to the next step."""
        k = self.k
        with self.team.only(0), k.scope():
            place, column, value, other = k.x(4)
            k.set(place, self.at)
            k.lw(column, COLUMN, place)
            k.add_constant(column, column, self.step, value)
            k.li(value, self.row)
            with k.if_(EQ, column, value):
                k.lw(value, NEXT, place)
                k.sw(value, NOW, place)
                k.set(other, self.ends[0])
                k.sub(value, other, value)
                k.set(other, self.ends[1])
                k.add(value, other, value)
                k.sw(value, NEXT, place)
                k.li(column, 0)
            k.sw(column, COLUMN, place)
