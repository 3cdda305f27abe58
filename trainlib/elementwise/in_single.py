"""Families of halves that are computed in single precision: casts before and after.

For what goes from step to step, or from product to product, and would be rounded at each of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.data_movement import copied
from trainlib.elementwise.elementwise import map_nest, packed
from trainlib.primitive.element import F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import FLOAT32, WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.reference.halves import rounded_once

BUFFER = "single precision"
ALIGNED = 16  # bytes that a tensor in the buffer begins at a multiple of
UNIT = 64  # elements that no core is idle for
RATE = 2.0  # elements per cycle, nearly


def in_single(family: Family, element: Element) -> Family:
    """The family of this type, given that of single precision: in L1 as a whole, or in phases."""
    assert family.emit_l1
    assert not family.tiling
    if not element.is_half:
        return family
    of = _InSingle(family, element)
    return replace(
        family,
        name=family.name.replace(F32.name, element.name),
        tensors=of.tensors,
        reference=of.reference,
        emit_l1=of.emit_l1,
        draw=of.draw,
        phases=of.phases if family.phases else None,
    )


@dataclass(frozen=True)
class _InSingle:
    family: Family
    element: Element

    def _halves(self, point: Any) -> Tensors:
        """Tensors of the family that become halves."""
        tensors = self.family.tensors(point)
        return {n: t for n, t in tensors.items() if t.role != "scratch" and t.dtype == FLOAT32}

    def tensors(self, point: Any) -> Tensors:
        """Operands, and where they are in single precision."""
        halves = self._halves(point)
        own = {n: packed(t.shape, t.role, self.element) for n, t in halves.items()}
        singles = {_single(n): replace(t, role="scratch") for n, t in halves.items()}
        return {**self.family.tensors(point), **own, **singles}

    def reference(self, point: Any, values: Arrays) -> Mapping[str, Expected]:
        """The family's results, rounded."""
        wide = {n: a.astype(np.float32) if a.dtype.itemsize == 2 else a for n, a in values.items()}
        return rounded_once(self.element.dtype, self.family.reference(point, wide))

    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """The family's inputs as halves."""
        drawn = self.family.draw(point, numbers) if self.family.draw else {}
        halves = self._halves(point)
        return {n: a.astype(self.element.dtype) if n in halves else a for n, a in drawn.items()}

    def emit_l1(self, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        """Casts, the family's code, casts."""
        self.element.check(k, self.family.name.replace(F32.name, self.element.name))
        emit, halves = self.family.emit_l1, self._halves(point)
        assert emit
        for name, tensor in halves.items():
            if tensor.role != "out":
                self._cast(k, team, tensor, l1[name], l1[_single(name)], is_back=False)
        team.barrier()
        emit(k, team, point, {**l1, **{name: l1[_single(name)] for name in halves}})
        team.barrier()
        for name, tensor in halves.items():
            if tensor.role != "in":
                self._cast(k, team, tensor, l1[name], l1[_single(name)], is_back=True)

    def _cast(
        self, k: Kernel, team: Team, t: Tensor, half: Address, single: Address, *, is_back: bool
    ) -> None:
        size, columns = self.element.size, t.shape[-1]
        both = [
            Operand(half, (size * columns, size), element=self.element),
            Operand(single, (t.row, WORD)),
        ]
        source, target = reversed(both) if is_back else both
        map_nest(k, team, copied, (prod(t.shape[:-1]), columns), [source], [target])

    def phases(self, point: Any) -> Phases:
        """Casts to a buffer of L2 that has all, the family's phases, casts from there."""
        assert self.family.phases
        whole, halves = self.family.phases(point), self._halves(point)
        sizes = [-(-WORD * tensor.elements // ALIGNED) * ALIGNED for tensor in halves.values()]
        starts = dict(zip(halves, accumulate(sizes, initial=0), strict=False))

        def moved(phase: Phase) -> Phase:
            places = phase.at.items()
            at = {n: (BUFFER, starts[of] + b) if of in halves else (of, b) for n, (of, b) in places}
            return replace(phase, at=at)

        before, after = (self._casts(halves, starts, is_back=is_back) for is_back in (False, True))
        each = [*before, *map(moved, whole.each), *after]
        return Phases(each, {**whole.between, BUFFER: sum(sizes)})

    def _casts(
        self, halves: Tensors, starts: Mapping[str, int], *, is_back: bool
    ) -> Iterator[Phase]:
        other = "in" if is_back else "out"
        for name, tensor in halves.items():
            if tensor.role != other:
                yield self._phase(name, tensor.elements, starts[name], is_back=is_back)

    def _phase(self, name: str, count: int, start: int, *, is_back: bool) -> Phase:
        """A cast of a tensor as one line; its region says of which."""

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            line = Tensor((tile["elements"],))
            self._cast(k, team, line, at["half"], at["single"], is_back=is_back)

        roles: Any = ("out", "in") if is_back else ("in", "out")
        half, single = (
            packed((count,), role, of) for role, of in zip(roles, (self.element, F32), strict=True)
        )
        dims = (Dim("elements", count, min(UNIT, count)),)
        tiling = Tiling(dims, dict.fromkeys(("half", "single"), ("elements",)), emit, rate=RATE)
        at = {"half": (name, 0), "single": (BUFFER, start)}
        region = f"{'round' if is_back else 'widen'}_{name}"
        return Phase(region, tiling, {"half": half, "single": single}, at)


def _single(name: str) -> str:
    return f"{name} in single"
