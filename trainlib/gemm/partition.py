"""How a product is cut into pieces: whatever takes the fewest cycles, nearly.

whole     one piece for all cores; some have a row more than others, which wait for them
rest      what all cores have as many rows of; then the rows left over, partitioned by columns; for
          one core, some rows and the others, each with a block of their own
strips    two strips side by side, each partitioned in equal parts to cores of its own, with a block
          of its own; then a strip's rows left over, partitioned by columns to the cores of either
          one, or computed by one more core that has no part

          25 x 13, eight cores    columns 0..4: cores 0..2    columns 5..12: cores 3..7
                                  8 rows each, as 4 x 5       5 rows each, as 5 x 4
                                  row 24: cores 3..7

The last two with rows for columns, too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from firmware.builder import Register
from trainlib.gemm.operands import Operands
from trainlib.gemm.partition_code import Piece, Share
from trainlib.gemm.register_block_cost import least_cycles

AROUND = 40  # cycles of a further piece beside those of its parts, nearly
BRANCH = 20  # cycles until a core is at the code of its strip, nearly
FEW = 1024  # sums of a product that strips are tried for: where there are more, so are blocks
CLEARLY = 0.97  # of the cycles otherwise: what strips must stay below, as both are estimates

Choose = Callable[[int, int, int], tuple[int, Any]]
"""Cycles, nearly, and point of C[n, m] on so many cores."""

Cut = tuple[int, list[Share]]
"""Cycles, nearly, and who computes what."""


def shares_of(
    x: Operands, n: int, m: int, cores: int, choose: Choose, shares_registers: bool
) -> Cut:
    """Who computes which pieces of C[n, m], and cycles, nearly.

    shares_registers    are floats and addresses in the same ones?
    """
    choose = cache(choose)
    addresses = [a for a in (x.a, x.b, x.c, x.bias) if isinstance(a, Register)]
    if len(set(addresses)) < len(addresses):  # a piece moves each of them
        return _in_one(n, m, cores, choose)
    best = in_one_or_two(n, m, cores, choose)
    if n * m <= FEW:
        sides = _sides(n, m, cores, choose)
        least = least_cycles(x.placeless, n, m, shares_registers)
        both = [*zip(sides, (least, least.T), strict=True)]
        for side, cycles in both if cores == 1 else ():
            best = side.in_two(best, side.best_rows(cycles))
        for spare in range(min(cores, 2)):
            limit = int(CLEARLY * best[0])
            cuts = [side.in_strips(cycles, spare, limit) for side, cycles in both]
            best = min([best, *(cut for cut in cuts if cut)], key=lambda cut: cut[0])
    return best


def in_one_or_two(n: int, m: int, cores: int, choose: Choose) -> Cut:
    """The best without strips."""
    best = _in_one(n, m, cores, choose)
    for side in _sides(n, m, cores, choose):
        best = side.in_two(best, side.n // cores * cores)
    return best


def _in_one(n: int, m: int, cores: int, choose: Choose) -> Cut:
    cycles, point = choose(n, m, cores)
    return cycles, [Share(0, cores, (Piece(0, 0, n, m, point),))]


def _sides(n: int, m: int, cores: int, choose: Choose) -> tuple["Side", "Side"]:
    return Side(n, m, cores, choose), Side(m, n, cores, choose, is_turned=True)


@dataclass(frozen=True)
class Strip:
    """Columns j .. j+m-1: so many cores, from `first` on, have n rows each, `left` are left."""

    j: int
    m: int
    first: int
    cores: int
    n: int
    left: int


@dataclass(frozen=True)
class Side:
    """C[n, m], or with is_turned its transpose."""

    n: int
    m: int
    cores: int
    choose: Choose
    is_turned: bool = False

    def in_two(self, best: Cut, rows: int) -> Cut:
        """That in pieces of so many rows and of the others, if it is better."""
        if rows in (0, self.n):
            return best
        sizes = (rows, self.n - rows)
        chosen = [self._chosen(n, self.m, self.cores) for n in sizes]
        cycles = AROUND + sum(cycles for cycles, _ in chosen)
        if cycles >= best[0]:
            return best
        pieces = [
            self._piece(i, 0, n, self.m, point)
            for i, n, (_, point) in zip((0, rows), sizes, chosen, strict=True)
        ]
        return cycles, [Share(0, self.cores, tuple(pieces))]

    def best_rows(self, least: np.ndarray) -> int:
        """Of the first of two pieces on one core; least[n, m]: cycles of one core."""
        both = least[1:-1, -1] + least[-2:0:-1, -1]
        return int(both.argmin()) + 1 if both.size else 0

    def in_strips(self, least: np.ndarray, spare: int, limit: int) -> Cut | None:
        """The best in strips, None if none is below the limit.

        least    least[n, m]: cycles of one core
        spare    cores that compute what is left over and nothing else: 0 or 1
        """
        best = None
        for m, cores in product(range(1, self.m), range(1, self.cores - spare)):
            others = self.cores - spare - cores
            places = (0, m, spare, cores), (m, self.m - m, spare + cores, others)
            for strips in product(*(self._strips(*at, least, spare, limit) for at in places)):
                for takers in self._takers(strips, spare):
                    cycles = self._cycles(strips, takers, least)
                    if cycles < limit:
                        best, limit = (strips, takers), cycles
        return (limit, self._shares(*best)) if best else None

    def _strips(
        self, j: int, m: int, first: int, cores: int, least: np.ndarray, spare: int, limit: int
    ) -> Iterator[Strip]:
        """Those of so many columns and cores; with fewer rows for each, a spare core has more."""
        most = self.n // cores
        for n in range(most, 0 if spare else most - 1, -1):
            strip = Strip(j, m, first, cores, n, self.n - cores * n)
            if spare and least[strip.left, m] >= limit:
                return
            if n and least[n, m] < limit:
                yield strip

    def _takers(self, strips: tuple[Strip, ...], spare: int) -> Iterable[tuple[int, ...]]:
        """Who may compute what each strip leaves over: the cores of strip 0 or 1, or the spare."""
        if spare:
            return [(len(strips),) * len(strips)]
        return product(*((0, 1) if strip.left else (0,) for strip in strips))

    def _cycles(self, strips: tuple[Strip, ...], takers: tuple[int, ...], least: np.ndarray) -> int:
        busy = [*(int(least[strip.n, strip.m]) for strip in strips), 0]
        for strip, taker in zip(strips, takers, strict=True):
            if strip.left:
                cores = strips[taker].cores if taker < len(strips) else 1
                alone = int(least[strip.left, strip.m])
                more = alone if cores == 1 else self._chosen(strip.left, strip.m, cores)[0]
                busy[taker] += AROUND + more
        return BRANCH + max(busy)

    def _shares(self, strips: tuple[Strip, ...], takers: tuple[int, ...]) -> list[Share]:
        groups = [(strip.first, strip.cores, [self._parts(strip)]) for strip in strips]
        if strips[0].first:
            groups.append((0, strips[0].first, []))
        for strip, taker in zip(strips, takers, strict=True):
            if strip.left:
                _, cores, pieces = groups[taker]
                pieces.append(self._rest(strip, cores))
        shares = [Share(first, cores, tuple(pieces)) for first, cores, pieces in groups]
        return sorted(shares, key=lambda share: share.first)

    def _parts(self, strip: Strip) -> Piece:
        """A strip without what it leaves over."""
        _, point = self._chosen(strip.n, strip.m, 1)
        split = (1, strip.cores) if self.is_turned else (strip.cores, 1)
        rows = strip.cores * strip.n
        return self._piece(0, strip.j, rows, strip.m, replace(point, split=split))

    def _rest(self, strip: Strip, cores: int) -> Piece:
        """What a strip leaves over, on so many cores."""
        _, point = self._chosen(strip.left, strip.m, cores)
        return self._piece(self.n - strip.left, strip.j, strip.left, strip.m, point)

    def _piece(self, i: int, j: int, n: int, m: int, point: Any) -> Piece:
        return Piece(j, i, m, n, point) if self.is_turned else Piece(i, j, n, m, point)

    def _chosen(self, n: int, m: int, cores: int) -> tuple[int, Any]:
        return self.choose(m, n, cores) if self.is_turned else self.choose(n, m, cores)
