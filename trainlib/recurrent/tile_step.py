"""A step of a recurrent layer whose weights of h come by tiles: rows of Wh, of any gates.

A tile has a sum for each of its rows, over all numbers of h. What follows from the sums, or what
their gradients follow from, is computed once a step: with the last tile, or with the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from firmware.builder import EQ, Kernel
from firmware.runtime import Team
from trainlib.codegen.nest_operands import Operand
from trainlib.codegen.operand_addresses import Places
from trainlib.elementwise.elementwise import map_f32
from trainlib.elementwise.fill import fill_f32
from trainlib.gemm.linear import linear_fw_f32, linear_ig_f32
from trainlib.primitive.tensor import WORD, Address
from trainlib.recurrent.gates import GateSlice, Recurrence, Shape, copy


class TileStep(Recurrence):
    """A layer's step, by tiles of so many rows of Wh.

    places    "column" is how far the tile's sums are from the first ones, "tile_t" where they are,
              or their gradients
    """

    def __init__(self, k: Kernel, team: Team, shape: Shape, places: Places, rows: int) -> None:
        super().__init__(k, team, shape, places)
        self.rows = rows
        places.add("tile_t", "column")

    @property
    def is_all(self) -> bool:
        """Does the tile have all rows?"""
        return self.rows == self.shape.sums

    @contextmanager
    def in_tile(self, first: int) -> Iterator[None]:
        """Do the body in the tile whose first row is this one."""
        if self.is_all:
            yield
            return
        k = self.k
        with k.scope():
            column, wanted = k.x(2)
            with self.places.load("column") as [place]:
                k.set(column, place)
            k.li(wanted, WORD * first)
            with k.if_(EQ, column, wanted):
                k.free(column, wanted)
                yield

    def copy_rows(self, source: str, target: str) -> None:
        """Copy all numbers of the batch."""
        with self.places.load(source, target) as (x, y):
            map_f32(self.k, self.team, copy, [x], [y], self.shape.batch * self.shape.hidden)
        self.team.barrier()

    def operand(self, address: Address, part: GateSlice) -> Operand:
        """A gate in the rows of a tensor that is at an address; all rows have the same biases."""
        operand = super().operand(address, part)
        return replace(operand, steps=(0, WORD)) if part.name == "bias_n" else operand

    def begin_reset_sums(self) -> None:
        """What GRU's sums begin with, where tiles add to them: those of inputs, and n's bias."""
        both = GateSlice("gates_t", 0, 3), GateSlice("hidden_sums", 0, 3)
        self.each(copy, [both[0]], [both[1]], gates=2)
        self.each(copy, [GateSlice("bias_n")], [GateSlice("hidden_sums", 2, 3)])
        self.team.barrier()

    def tile_sums(self) -> None:
        """Add Wh h to the tile's sums, if it has not all: these the step itself adds."""
        if self.is_all:
            return
        s = self.shape
        with self.places.load("h", "Wh", "tile_t") as (h, w, y):
            operands = h, w, y, s.batch, s.hidden, self.rows
            lines = {"b_line": self.h_line, "c_line": WORD * s.sums}
            linear_fw_f32(self.k, self.team, *operands, accumulate=True, **lines)
        self.team.barrier()  # before where h is changes, too: a core may not have read it yet

    def hidden_sums(self, target: str) -> None:
        """Nothing if tiles have added all of them by now."""
        if self.is_all:
            super().hidden_sums(target)

    def reset_sums(self) -> None:
        """Let GRU's sums be where they are expected if tiles have added all of them by now."""
        if self.is_all:
            super().reset_sums()
            return
        both = GateSlice("hidden_sums", 0, 3), GateSlice("gates_t", 0, 3)
        self.each(copy, [both[0]], [both[1]], gates=2)
        self.each(copy, [GateSlice("hidden_sums", 2, 3)], [GateSlice("N_t")])
        self.team.barrier()

    def hidden_gradient(self, source: str, *, accumulate: bool = False) -> None:
        """What tiles add the gradient of h to, by way of their sums: h's own part of it, or 0."""
        if accumulate:
            self.each(copy, [GateSlice("dh0")], [GateSlice("dh_next")])
        elif not self.is_all:
            with self.places.load("dh_next") as [dh]:
                fill_f32(self.k, self.team, dh, self.shape.batch * self.shape.hidden)
        if accumulate or not self.is_all:
            self.team.barrier()

    def tile_gradient(self) -> None:
        """Add the gradient of h by way of the tile's sums."""
        s = self.shape
        with self.places.load("tile_t", "Wh", "dh_next") as (dg, w, dh):
            operands = dg, w, dh, s.batch, s.hidden, self.rows
            adds = s.gates == 3 or not self.is_all
            linear_ig_f32(self.k, self.team, *operands, accumulate=adds, a_line=WORD * s.sums)
        if not self.is_all:
            self.team.barrier()  # before where h is changes: a core may not have read it yet
