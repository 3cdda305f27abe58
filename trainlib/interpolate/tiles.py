"""Interpolation by tiles: some images, channels and rows of what is computed.

Which rows of the other tensor a tile needs depends on where it is; code computes where that is, as
tiles follow each other: words in L1 say which rows the next one begins with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from firmware.builder import LT, Kernel
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.interpolate.interpolate import Planes, Start
from trainlib.interpolate.weights import Method, sources_of
from trainlib.pool.tiles import planes_of
from trainlib.primitive.slices import Axis, Sized, TileShape, Window
from trainlib.primitive.tensor import WORD, Addresses
from trainlib.primitive.tile_spec import Dim, Tiling

RATE = 2.0  # elements of y per cycle, nearly
OF_X, OF_Y = 0, WORD
"""Words of a tile's place: numbers of its first rows."""
Emitter = Callable[..., None]


@cache
def sources(method: Method, size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last row of x that each row of y is made of, as float32 computes them."""
    o = np.arange(out)
    if method == "nearest":
        low = o * size // out
        return low, low
    is_aligned = method == "aligned"
    scale = (size - 1) / max(out - 1, 1) if is_aligned else size / out
    start = 0.0 if is_aligned else scale / 2 - 0.5
    step, begin = Fraction(float(np.float32(scale))), Fraction(float(np.float32(start)))
    places = [max(_rounded(number * step + begin), np.float32(0)) for number in range(out)]
    low = np.array(places).astype(int)
    return low, np.minimum(low + 1, size - 1)


def _rounded(exact: Fraction) -> np.float32:
    """The nearest float32; of two, the even one."""
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))

    def distance(value: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(value)) - exact), int(value.view(np.int32)) & 1

    return min(around, key=distance)


@dataclass(frozen=True)
class _Others:
    """Rows of one tensor for rows of the other: as many for each tile, but at the ends.

    size, out    rows of x and of y
    """

    dim: str
    method: Method
    size: int
    out: int

    def phase(self, there: range) -> int:
        """Nothing: code computes where it is, and leaves out what it is told too much."""
        return 0


class Sources(_Others):
    """The rows of x that rows of y are made of."""

    def of(self, there: range) -> range:
        """The rows."""
        low, high = sources(self.method, self.size, self.out)
        count = int((high[len(there) - 1 :] - low[: self.out - len(there) + 1]).max()) + 1
        first = int(low[there.start])
        return range(first, first + count)


class Targets(_Others):
    """The rows of y that are made of rows of x, and maybe some more."""

    def of(self, there: range) -> range:
        """The rows; those that nothing is made of have none, after the last."""
        low, high = sources(self.method, self.size, self.out)
        starts = np.arange(self.size - len(there) + 1)
        firsts = np.searchsorted(high, starts)
        ends = np.searchsorted(low, starts + len(there) - 1, side="right")
        first = int(firsts[there.start])
        return range(first, first + int((ends - firsts).max()))


@dataclass(frozen=True)
class Tiles:
    """How an interpolation is cut.

    emitter    of a tile, given addresses of `names` and of what lies between
    names      of what is read, and of its result
    """

    p: Planes
    method: Method
    emitter: Emitter
    names: tuple[str, str]
    is_backward: bool

    def tiling(self) -> Tiling:
        """Along images, channels and rows."""
        p = self.p
        rows = p.size[0] if self.is_backward or self._copies else p.out[0]
        dims = Dim("b", p.b), Dim("c", p.c), Dim("y", rows, is_summed=not self._copies)
        of_x, of_y = self.names[::-1] if self.is_backward else self.names
        times = p.out[0] // p.size[0]
        of = self.method, p.size[0], p.out[0]
        if self._copies:
            boxes: dict[str, Axis] = {of_x: "y", of_y: Window("y", times, times)}
        elif self.is_backward:
            boxes = {of_x: "y", of_y: Targets("y", *of)}
        else:
            boxes = {of_x: Sources("y", *of), of_y: "y"}
        axes = {name: planes_of(p.layout, boxes[name]) for name in self.names}
        rate = RATE / p.out[1] * rows / p.out[0]
        return Tiling(dims, axes, self._emit, self._scratch, rate=rate)

    @property
    def _copies(self) -> bool:
        """Is it pooling?"""
        return self.method == "nearest" and self.p.copies() is not None

    @property
    def _first_sources(self) -> np.ndarray:
        return sources(self.method, self.p.size[0], self.p.out[0])[0]

    def _scratch(self, sizes: Sized) -> dict[str, Any]:
        p = self.p
        if self._copies:
            return {"between": WORD}
        rows = sizes["y"]
        if not self.is_backward:
            of = Sources("y", self.method, p.size[0], p.out[0])
            rows = np.vectorize(lambda n: min(len(of.of(range(int(n)))), p.size[0]))(rows)
        between = sizes["b"] * sizes["c"] * rows * p.out[1] * WORD
        return {"between": int(between) if np.ndim(between) == 0 else between, "place": 2 * WORD}

    def _emit(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        p, axis = self.p, 2 if self.p.layout == "chw" else 1
        of_x, of_y = self.names[::-1] if self.is_backward else self.names
        here = tile.part(of_x).shape[axis], tile.part(of_y).shape[axis]
        sizes = (p.size, p.out) if not self._copies else ((here[0], p.size[1]), (here[1], p.out[1]))
        own = Planes(tile["b"], tile["c"], *sizes, p.layout, here, p.elements)
        operands = *(at[name] for name in self.names), at["between"], own, self.method
        if self._copies:
            self.emitter(k, team, *operands)
            return
        with self._start(k, team, tile, at) as start:
            self.emitter(k, team, *operands, start=start)

    @contextmanager
    def _start(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> Iterator[Start]:
        """Where the tile begins; then, where the next one does."""
        with team.only(0), k.scope():
            if tile.is_first:
                place, first = k.x(2)
                k.set(place, at["place"])
                k.sw(ZERO, OF_Y, place)
                k.li(first, 0 if self.is_backward else int(self._first_sources[0]))
                k.sw(first, OF_X, place)
        if tile.is_first:
            team.barrier()
        with k.scope():
            x, y = k.x(2)
            k.set(y, at["place"])
            k.lw(x, OF_X, y)
            k.lw(y, OF_Y, y)
            yield Start(x, y)
        team.barrier()
        with team.only(0), k.scope():
            (self._advance_backward if self.is_backward else self._advance)(k, tile, at)

    def _advance(self, k: Kernel, tile: TileShape, at: Addresses) -> None:
        """The next rows of y, and the first of x that they are made of."""
        place, y = k.x(2)
        k.set(place, at["place"])
        k.lw(y, OF_Y, place)
        with k.scope():
            k.add_constant(y, y, tile["y"], k.x())
        k.sw(y, OF_Y, place)
        line, _ = sources_of(k, self.method, (self.p.size[0], self.p.out[0]), y)[0]
        k.sw(line, OF_X, place)

    def _advance_backward(self, k: Kernel, tile: TileShape, at: Addresses) -> None:
        """The next rows of x, and the first of y that is made of one of them."""
        place, x, y, last = k.x(4)
        k.set(place, at["place"])
        k.lw(x, OF_X, place)
        k.lw(y, OF_Y, place)
        k.add_constant(x, x, tile["y"], last)
        k.sw(x, OF_X, place)
        again = k.here()
        k.li(last, self.p.out[0])
        with k.if_(LT, y, last), k.scope():
            line, _ = sources_of(k, self.method, (self.p.size[0], self.p.out[0]), y)[-1]
            with k.if_(LT, line, x):
                k.addi(y, y, 1)
                k.j(again)
        k.sw(y, OF_Y, place)
