"""The steps of recurrent layers for a tile: some sequences, and some numbers of h."""

from collections.abc import Sequence
from typing import Any

from firmware.builder import EQ, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.nest_operands import Operand
from trainlib.codegen.operand_addresses import Places
from trainlib.elementwise.elementwise import Operation, map_f32
from trainlib.elementwise.fill import fill_f32
from trainlib.gemm.linear import linear_ig_f32
from trainlib.primitive.tensor import WORD, Address
from trainlib.recurrent.gates import GateSlice, Recurrence, Shape, add, copy


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
        self,
        operation: Operation,
        sources: Sequence[GateSlice],
        targets: Sequence[GateSlice],
        **how: Any,
    ) -> None:
        """Results of an operation on gates of the tile go to others."""
        own = ([self._own(part) for part in parts] for parts in (sources, targets))
        super().each(operation, *own, **how)

    def _own(self, part: GateSlice) -> GateSlice:
        return part._replace(name=f"{part.name}_tile") if part.name in self.wide else part

    def operand(self, address: Address, part: GateSlice) -> Operand:
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
            sources = (
                [GateSlice("dh0")] if self.is_all else [GateSlice("dh_next"), GateSlice("dh0")]
            )
            self.each(copy if self.is_all else add, sources, [GateSlice("dh_next")])
            self.team.barrier()
        with self.places.load(source, "Wh", "dh_next") as (dg, w, dh):
            operands = dg, w, dh, s.batch, self.all, s.sums
            adds = accumulate or not self.is_all
            linear_ig_f32(self.k, self.team, *operands, accumulate=adds)
