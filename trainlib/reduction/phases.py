"""Rows larger than L1: passes over all of them by tiles, each a phase.

A pass does its work on the rows of a tile, with their sums of the tiles before: these stay in the
tensor where their result comes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.elementwise import packed
from trainlib.primitive.element import F32, Element
from trainlib.primitive.phases import Phase
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import Address, Addresses, Role
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.reduction.row_reduction import SCRATCH, Field, Kind, Rows, Split
from trainlib.reduction.row_view import View, field_along

RATE = 2.0  # elements per cycle, nearly
Work = Callable[[Rows, TileShape], None]
"""What is done with the rows of a tile."""


@dataclass(frozen=True)
class Passes:
    """Passes over tensors whose axes have names.

    sizes    by axis, in the order of memory
    axes     of a tensor, given its name
    element  of tensors that are not in `single`
    """

    sizes: Mapping[str, int]
    axes: Callable[[str], tuple[str, ...]]
    split: Split = "auto"
    unroll: int = UNROLL
    element: Element = F32
    single: tuple[str, ...] = ()

    def _of(self, name: str) -> Element:
        return F32 if name in self.single else self.element

    def phase(
        self,
        name: str,
        work: Work,
        rows: tuple[str, ...],
        roles: Mapping[str, Role],
        *,
        is_sum: bool,
    ) -> Phase:
        """A pass.

        rows      axes of rows; the others are those of their elements
        roles     of its tensors; they and buffers between passes are called alike
        is_sum    are its results sums over elements?
        """
        elements = tuple(axis for axis in self.sizes if axis not in rows)
        order = (*rows, *elements) if is_sum else tuple(self.sizes)
        dims = tuple(Dim(a, self.sizes[a], is_summed=is_sum and a in elements) for a in order)
        shapes = {n: tuple(self.sizes[a] for a in self.axes(n)) for n in roles}
        tensors = {n: packed(shapes[n] or (1,), role, self._of(n)) for n, role in roles.items()}

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            fields = {n: self._field(n, at[n], tile, rows, elements) for n in roles}
            sizes = tuple(tile[a] for a in rows) or (1,), tuple(tile[a] for a in elements)
            view = View(*sizes, fields, at["partials"], self.split, self.unroll)
            view.emit(k, team, lambda rows: work(rows, tile))

        boxes = {n: self.axes(n) or (None,) for n in roles}
        tiling = Tiling(dims, boxes, emit, lambda _: dict(SCRATCH), rate=RATE, tells_last=is_sum)
        return Phase(name, tiling, tensors, {n: (n, 0) for n in roles})

    def _field(
        self,
        name: str,
        at: Address,
        tile: TileShape,
        rows: tuple[str, ...],
        elements: tuple[str, ...],
    ) -> Field:
        steps = dict(zip(self.axes(name), tile.part(name).strides, strict=False))
        return field_along(at, steps, rows, elements, self._of(name))


def add_old(rows: Rows, tile: TileShape, name: str, value: Register, kind: Kind = "sum") -> None:
    """Add what the tiles before have for the row, or take the larger: for what is stored next."""
    if not tile.is_first:
        with rows.once(), rows.k.scope():
            rows.join(kind, value, rows.load(name))


def keep(rows: Rows, tile: TileShape, **values: Register) -> None:
    """Add what the tiles before have to the row's values, and store them."""
    for name, value in values.items():
        add_old(rows, tile, name, value)
        rows.store(name, value)
