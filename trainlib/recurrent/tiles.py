"""Recurrent layers whose tensors lie in L2: their steps by tiles.

A tile is rows of Wh, for a step of some sequences. What one step gives the next stays in L1: tiles
read it from one buffer and leave it in another, and exchange both when a step is done. So do as
many rows of Wh as there is room for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.operand_addresses import places_of
from trainlib.elementwise.activations import tanh_forward
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import WORD, Addresses, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Costs, Dim, Tiling
from trainlib.recurrent.gates import Cell, GateSlice, Shape, copy, pad
from trainlib.recurrent.step_state import STATE, State
from trainlib.recurrent.tile_step import TileStep

UNIT = 8  # rows of a tile, and cores that share them
BLOCK = 4, 4  # sequences and rows of which a core computes the sums side by side, about
TILE = 150  # cycles of a tile besides


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
        s, unit = self.shape, min(UNIT, self.shape.sums)
        return (
            Dim("batch", s.batch),
            Dim("step", s.steps, is_summed=True, limit=1),
            Dim("sums", s.sums, unit, is_summed=True, multiple=unit),
        )

    def _wh(self, is_read_by_rows: bool) -> Tensor:
        s = self.shape
        return Tensor((s.sums, s.hidden), pad=pad(s.hidden) if is_read_by_rows else 0)

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
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(tensors, ("step", "batch", None, None))
        boxes |= {"Wh": ("sums", None)}
        boxes |= {f"{name}0": ("batch", None) for name in self.cell.states}
        if s.gates == 3:
            tensors["bias_h"] = Tensor((s.gates, s.hidden))
            boxes["bias_h"] = (None, None)

        def scratch(sizes: Sized) -> dict[str, Any]:
            names = ("h_even", "h_odd", *(f"{n}_now" for n in self.cell.states if n != "h"))
            found = dict.fromkeys(names, WORD * s.hidden * sizes["batch"]) | {"state": STATE}
            if s.gates == 3:
                is_cut = sizes["sums"] < s.sums
                found["hidden_sums"] = WORD * s.sums * sizes["batch"] * is_cut
            return found

        return Tiling(self._dims, boxes, self._emit_forward, scratch, **self._costs), tensors

    @property
    def _costs(self) -> dict[str, Any]:
        """By which sizes of tiles are chosen."""
        return {"work": self._work, "costs": Costs(kernel=TILE)}

    def _work(self, sizes: Sized) -> Any:
        """Cycles of a tile's sums: multiply-adds, and loads of h and Wh that these share."""
        batch, rows = sizes["batch"], np.ceil(sizes["sums"] / UNIT)
        loads = 1 / np.minimum(batch, BLOCK[0]) + 1 / np.minimum(rows, BLOCK[1])
        return self.shape.hidden * batch * rows * (1 + loads)

    def _emit_forward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s, rows = self.shape, tile["sums"]
        part = replace(s, steps=1, batch=tile["batch"])
        state = State(k, team, at["state"], (at["h_even"], at["h_odd"]), s.sums, rows)
        if tile.is_first:
            state.begin(at["h0"], at["h_even"])
        with state.loaded() as (h, h_next, column):
            own = {f"{n}_t" if n in self.cell.saved else n: a for n, a in at.items()}
            own |= {"h": h, "h_next": h_next, "column": column}
            if "c0" in own:
                own["c"] = own.pop("c_now")
            moving = {"tile_t": ("hidden_sums" if s.gates == 3 else f"{self.cell.sums_in}_t", 0)}
            if s.gates == 3:
                n = 2 * s.hidden
                moving["bias_n"] = "bias_h", WORD * n
                if rows == s.sums:
                    moving["Wh_n"] = "Wh", n * tile.part("Wh").row
            with places_of(k, own, moving, 0) as places:
                layer = TileStep(k, team, part, places, rows)
                if tile.is_first and "c0" in own:
                    layer.copy_rows("c0", "c")
                if s.gates == 3 and not layer.is_all:
                    with layer.in_tile(0):
                        layer.begin_reset_sums()
                layer.tile_sums()
                if layer.is_all or not tile.is_first:
                    with layer.in_tile(s.sums - rows):
                        self._end_step(layer)
        state.end()

    def _end_step(self, layer: TileStep) -> None:
        """What follows from the sums, and what the next step is given."""
        self.cell.step(layer)
        layer.team.barrier()
        layer.each(copy, [GateSlice("Y_t")], [GateSlice("h_next")])
        if "c" in self.cell.states:
            layer.each(copy, [GateSlice("C_t")], [GateSlice("c")])

    def backward(self) -> tuple[Tiling, Tensors]:
        """Gradients of sums, and of the first h and c."""
        s = self.shape
        back: tuple[Axis, ...] = (Backwards("step", s.steps), "batch", None, None)
        tensors = dict(self._moving(self.cell.gradients, dict.fromkeys(self.cell.sums, "out")))
        boxes: dict[str, tuple[Axis, ...]] = dict.fromkeys(tensors, back)
        tensors["Wh"], boxes["Wh"] = self._wh(is_read_by_rows=False), ("sums", None)
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

        return Tiling(self._dims, boxes, self._emit_backward, scratch, **self._costs), tensors

    def _emit_backward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        s, rows, before = self.shape, tile["sums"], self.cell.before
        part = replace(s, steps=1, batch=tile["batch"])
        ends = at["dh0"], at["dh_odd"]
        state = State(k, team, at["state"], ends, s.sums, rows)
        if tile.is_first:
            state.begin(at["dhn"], ends[(s.steps - 1) % 2])
        with state.loaded() as (dh, dh_next, column):
            own = {f"{n}_t" if n in self.cell.gradients else n: a for n, a in at.items()}
            own["dh0_end"] = own["dh0"]
            own |= {"dh0": dh, "dh_next": dh_next, "column": column}
            if before and "before" in own and tile.part("before").elements:
                own[before] = own.pop("before")
            elif before:
                own[before] = own.pop(f"{before}0")
            moving = {"tile_t": (f"{self.cell.sums[-1]}_t", 0)}
            with places_of(k, own, moving, 0) as places:
                layer = TileStep(k, team, part, places, rows)
                if tile.is_first and "dc0" in own:
                    layer.copy_rows("dcn", "dc0")
                with layer.in_tile(0):
                    self._begin_step(layer)
                layer.tile_gradient()
        state.end()

    def _begin_step(self, layer: TileStep) -> None:
        """The gradients of the sums, and what that of h begins with."""
        if "c" in self.cell.states:
            layer.each(tanh_forward, [GateSlice("C_t")], [GateSlice("dG_t", 3, 4)])
            layer.team.barrier()
        self.cell.step_back(layer)
