"""Rows larger than L1: passes over all of them by tiles, each a phase.

A pass does for each row of a tile what it is told, with that row's sums of the tiles before: they
stay in the tensor where their result comes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.kernels import Addresses, Role, Tensor
from trainlib.maps import fitting
from trainlib.nest import UNROLL
from trainlib.phases import Phase
from trainlib.rows import SCRATCH, Field, Rows, Split, split_of
from trainlib.tiling import Dim, TileShape, Tiling

RATE = 2.0  # elements per cycle, nearly
Prepare = Callable[[Kernel], Any]
Work = Callable[[Rows, TileShape, Any], None]
"""What is done with a row of a tile, given what was prepared for all."""


@dataclass(frozen=True)
class Passes:
    """Passes over a tensor.

    sizes    of it by axis, in the order of memory
    kept     axes that are rows; the others are their elements
    """

    sizes: Mapping[str, int]
    kept: tuple[str, ...]
    split: Split = "auto"
    unroll: int = UNROLL

    @property
    def elements(self) -> tuple[str, ...]:
        """Axes of a row's elements."""
        return tuple(axis for axis in self.sizes if axis not in self.kept)

    def of(
        self,
        name: str,
        work: Work,
        wide: Mapping[str, tuple[str, Role]],
        narrow: Mapping[str, Role],
        *,
        is_sum: bool,
        prepare: Prepare = lambda _: None,
    ) -> Phase:
        """A pass.

        wide       tensors of the same shape, by the work's names: where they are, and their roles
        narrow     those with one element a row, and their roles
        is_sum     are these sums over elements?
        prepare    constants and the like, for all rows
        """
        order = (*self.kept, *self.elements) if is_sum else tuple(self.sizes)
        dims = [Dim(a, self.sizes[a], is_summed=is_sum and a in self.elements) for a in order]
        shape = tuple(self.sizes.values())
        rows = tuple(self.sizes[axis] for axis in self.kept)
        tensors = {n: Tensor(shape, role) for n, (_, role) in wide.items()}
        tensors |= {n: Tensor(rows or (1,), role) for n, role in narrow.items()}
        boxes: Any = dict.fromkeys(wide, tuple(self.sizes))
        boxes |= dict.fromkeys(narrow, self.kept or (None,))

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            self._emit(k, team, tile, at, (list(wide), list(narrow)), prepare, work)

        how: Any = {"rate": RATE, "tells_last": is_sum}
        tiling = Tiling(tuple(dims), boxes, emit, lambda _: dict(SCRATCH), **how)
        at = {n: (base, 0) for n, (base, _) in wide.items()} | {n: (n, 0) for n in narrow}
        return Phase(name, tiling, tensors, at)

    def _emit(
        self,
        k: Kernel,
        team: Team,
        tile: TileShape,
        at: Addresses,
        names: tuple[list[str], list[str]],
        prepare: Prepare,
        work: Work,
    ) -> None:
        rows = [tile[axis] for axis in self.kept] or [1]
        elements = [tile[axis] for axis in self.elements]
        wide, narrow = names
        fields = {name: self._field(name, at, tile, self.sizes) for name in wide}
        fields |= {name: self._field(name, at, tile, self.kept) for name in narrow}
        split = split_of(self.split, prod(rows), prod(elements), 1, team.cores)

        def emit(k: Kernel, team: Team, width: int) -> None:
            with k.scope():
                found = Rows(k, team, rows, elements, fields, at["partials"], split, unroll=width)
                prepared = prepare(k)
                with found.each(), k.scope():
                    work(found, tile, prepared)

        fitting(k, team, emit, self.unroll)

    def _field(self, name: str, at: Addresses, tile: TileShape, axes: Any) -> Field:
        steps = dict(zip(axes, tile.part(name).strides, strict=False))
        rows = tuple(steps.get(axis, 0) for axis in self.kept) or (0,)
        return Field(at[name], rows, tuple(steps.get(axis, 0) for axis in self.elements))
