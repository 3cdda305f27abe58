"""Recurrent layers whose tensors lie in L2: their steps by tiles.

A tile is a step of some sequences, for some numbers of h: the columns of all gates that these have,
and the rows of Wh. What one step gives the next stays in L1, for all numbers of h: tiles read it
from one buffer and leave it in another, and exchange both when a step is done.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.operand_addresses import places_of
from trainlib.elementwise.activations import tanh_forward
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import WORD, Addresses, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.recurrent.gates import Cell, GateSlice, Shape, copy, pad
from trainlib.recurrent.step_state import STATE, State
from trainlib.recurrent.tile_step import TileStep

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


@dataclass(frozen=True)
class Steps:
    """The steps of a layer, in one direction or the other."""

    shape: Shape
    cell: Cell

    def _moving(self, names: Mapping[str, int], roles: dict[str, Role]) -> Tensors:
        s = self.shape
        return {
            name: Tensor((s.steps, s.batch, gates, s.hidden), roles.get(name, "in"))
            for name, gates in names.items()
        }

    def _state(self, names: Iterable[str], role: Role = "in") -> Tensors:
        return {name: Tensor((self.shape.batch, self.shape.hidden), role) for name in names}

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
        roles: dict[str, Role] = dict.fromkeys(self.cell.saved, "out")
        roles[self.cell.sums_in] = "inout"
        tensors = {
            "Wh": self._wh(is_read_by_rows=True),
            **self._state([f"{name}0" for name in self.cell.states]),
            **self._moving(self.cell.saved, roles),
        }
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(
            tensors, ("step", "batch", None, "hidden")
        )
        boxes |= {"Wh": (None, "hidden", None)}
        boxes |= {f"{name}0": ("batch", None) for name in self.cell.states}
        if s.gates == 3:
            tensors["bias_h"] = Tensor((s.gates, s.hidden))
            boxes["bias_h"] = (None, "hidden")

        def scratch(sizes: Sized) -> dict[str, Any]:
            names = ("h_even", "h_odd", *(f"{n}_now" for n in self.cell.states if n != "h"))
            return dict.fromkeys(names, WORD * s.hidden * sizes["batch"]) | {"state": STATE}

        return Tiling(self._dims, boxes, self._emit_forward, scratch, rate=self._rate), tensors

    def _emit_forward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s = self.shape
        part = Shape(1, tile["batch"], s.inputs, tile["hidden"], s.gates)
        state = State(k, team, at["state"], (at["h_even"], at["h_odd"]), s, part)
        if tile.is_first:
            state.begin(at["h0"], at["h_even"])
        with state.loaded() as (h, h_next, column):
            own = {f"{n}_t" if n in self.cell.saved else n: a for n, a in at.items()}
            own |= {"h": h, "h_next": h_next, "column": column}
            wide = ["h", "h_next"]
            if "c0" in own:
                own["c"] = own.pop("c_now")
                wide.append("c")
            after: dict[str, tuple[str, int]] = {f"{name}_tile": (name, 0) for name in wide}
            if s.gates == 3:
                after["Wh_n"] = "Wh", 2 * part.hidden * tile.part("Wh").row
                after["bias_n"] = "bias_h", WORD * 2 * part.hidden
            with places_of(k, own, after, 0) as places:
                layer = TileStep(k, team, part, places, s.hidden, wide)
                layer.find_tile()
                if tile.is_first and "c0" in own:
                    layer.copy_rows("c0", "c")
                self.cell.step(layer)
                team.barrier()
                layer.each(copy, [GateSlice("Y_t")], [GateSlice("h_next")])
                if "c0" in own:
                    layer.each(copy, [GateSlice("C_t")], [GateSlice("c")])
        state.end()

    def backward(self) -> tuple[Tiling, Tensors]:
        """Gradients of sums, and of the first h and c."""
        s = self.shape
        back: tuple[Axis, ...] = (Backwards("step", s.steps), "batch", None, "hidden")
        tensors = dict(self._moving(self.cell.gradients, dict.fromkeys(self.cell.sums, "out")))
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(tensors, back)
        tensors["Wh"], boxes["Wh"] = self._wh(is_read_by_rows=False), (None, "hidden", None)
        states = {**self._state([f"d{name}n" for name in self.cell.states])}
        states |= self._state([f"d{name}0" for name in self.cell.states], "out")
        if self.cell.before:
            states |= self._state([f"{self.cell.before}0"])
            if s.steps > 1:
                tensors["before"] = Tensor((s.steps, s.batch, 1, s.hidden))
                boxes["before"] = (Backwards("step", s.steps, 1), *back[1:])
        tensors |= states
        boxes |= dict.fromkeys(states, ("batch", None))

        def scratch(sizes: Sized) -> dict[str, Any]:
            return {"dh_odd": WORD * s.hidden * sizes["batch"], "state": STATE}

        return Tiling(self._dims, boxes, self._emit_backward, scratch, rate=self._rate), tensors

    def _emit_backward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s, before = self.shape, self.cell.before
        part = Shape(1, tile["batch"], s.inputs, tile["hidden"], s.gates)
        ends = at["dh0"], at["dh_odd"]
        state = State(k, team, at["state"], ends, s, part)
        if tile.is_first:
            state.begin(at["dhn"], ends[(s.steps - 1) % 2])
        with state.loaded() as (dh, dh_next, column):
            own = {f"{n}_t" if n in self.cell.gradients else n: a for n, a in at.items()}
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
                    layer.each(tanh_forward, [GateSlice("C_t")], [GateSlice("dG_t", 3, 4)])
                    team.barrier()
                self.cell.step_back(layer)
        state.end()
