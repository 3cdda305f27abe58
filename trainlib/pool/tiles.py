"""Pooling by tiles: some images, channels and rows. A tile has all of its windows' rows, or of its
rows' windows; numbers in a plane count from a word in L1 that tiles move on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from soc.chip.spec import MOST_CORES
from trainlib.elementwise.fill import fill_f32
from trainlib.pool.windows import Layout, Pooling
from trainlib.primitive.slices import Axis, Spread, TileShape, Window
from trainlib.primitive.tensor import WORD, Address, Addresses
from trainlib.primitive.tile_spec import Dim, Tiling

RATE = 4.0  # elements of windows per cycle, nearly
Emitter = Callable[..., None]


@dataclass(frozen=True)
class Cover:
    """The windows that have rows of a tile, see Spread.

    rows    of the image: a tile that windows with less than all of their rows touch has code of
            its own, which knows where it is; None: it is not needed
    """

    dim: str
    kernel: int
    stride: int
    before: int
    outputs: int
    rows: int | None

    @property
    def _spread(self) -> Spread:
        return Spread(self.dim, self.kernel, self.stride, before=self.before)

    @property
    def _least(self) -> int:
        return self.kernel - self.stride

    def of(self, there: range) -> range:
        """The windows."""
        return self._spread.of(there)

    def phase(self, there: range) -> int:
        """See `place_of`."""
        windows = range(max(self.of(there).start, 0), min(self.of(there).stop, self.outputs))
        phase = self._spread.phase(there) - self._least
        if self.rows is None or not windows:
            return phase
        last = windows[-1] * self.stride - self.before + self.kernel
        is_cut = windows[0] * self.stride < self.before or last > self.rows
        return phase + self.stride * (1 + there.start) * is_cut

    def place_of(self, phase: int) -> tuple[int, int | None]:
        """Rows from the first window's to the tile's first; and the number of that, if known."""
        tag, rest = divmod(phase, self.stride)
        return rest + self._least, tag - 1 if tag else None


@dataclass(frozen=True)
class Tiles:
    """How a step of pooling is cut.

    emitter     of a tile's planes, given addresses of `names`
    has_index   does it deal with numbers in a plane?
    """

    p: Pooling
    emitter: Emitter
    names: tuple[str, ...]
    is_backward: bool
    has_index: bool
    counts_pad: bool

    @property
    def axis(self) -> int:
        """Axis of rows."""
        return 2 if self.p.layout == "chw" else 1

    @property
    def cover(self) -> Cover:
        p = self.p
        rows = None if self.counts_pad else p.h
        return Cover("y", p.kernel[0], p.stride[0], p.pad[0], p.out[0], rows)

    def tiling(self) -> Tiling:
        """Along images, channels and rows: of y, or of dx."""
        p = self.p
        dims = (
            Dim("b", p.b),
            Dim("c", p.c),
            Dim("y", p.h if self.is_backward else p.out[0], is_summed=self.has_index),
        )
        window = Window("y", p.kernel[0], p.stride[0], before=p.pad[0])
        axes: dict[str, Axis] = dict.fromkeys(self.names, self.cover if self.is_backward else "y")
        axes["dx" if self.is_backward else "x"] = "y" if self.is_backward else window
        boxes = {name: planes_of(p.layout, rows) for name, rows in axes.items()}
        scratch = {"place": WORD, "nowhere": WORD * MOST_CORES} if self.has_index else {}
        emit = self._emit_backward if self.is_backward else self._emit_forward
        rate = RATE / (p.out[1] * p.kernel[0] * p.kernel[1])
        return Tiling(dims, boxes, emit, lambda _: dict(scratch), rate=rate)

    def _emit_forward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        p, part = self.p, tile.part("x")
        own = replace(
            p,
            b=tile["b"],
            c=tile["c"],
            h=part.shape[self.axis],
            pad=(part.before[self.axis], p.pad[1]),
            windows=(tile["y"], p.out[1]),
        )
        moves = -p.pad[0] * p.w, tile["y"] * p.stride[0] * p.w
        with self._place(k, team, tile, at, *moves) as how:
            self.emitter(k, team, *(at[name] for name in self.names), own, **how)

    def _emit_backward(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        p, part = self.p, tile.part("dy")
        after, start = self.cover.place_of(part.phase[self.axis])
        around = p.kernel[0], p.kernel[0]
        if start is not None:
            around = start, p.h - start - tile["y"]
        own = replace(
            p,
            b=tile["b"],
            c=tile["c"],
            h=tile["y"],
            pad=(after - part.before[self.axis] * p.stride[0], p.pad[1]),
            windows=(part.shape[self.axis], p.out[1]),
            around=around,
        )
        with self._place(k, team, tile, at, 0, tile["y"] * p.w) as how:
            if self.has_index:
                how["nowhere"] = at["nowhere"]
            if part.elements:
                self.emitter(k, team, *(at[name] for name in self.names), own, **how)
            else:
                fill_f32(k, team, at["dx"], tile.part("dx").elements, element=p.image)

    @contextmanager
    def _place(
        self, k: Kernel, team: Team, tile: TileShape, at: Addresses, first: int, step: int
    ) -> Iterator[dict[str, Any]]:
        """The number of the tile's first element in its plane, if that is needed."""
        if not self.has_index:
            yield {}
            return
        if tile.is_first:
            with team.only(0), k.scope():
                value = k.x()
                k.li(value, first)
                _store(k, value, at["place"])
            team.barrier()
        with k.scope():
            place = k.x()
            _load(k, place, at["place"])
            yield {"place": place}
        team.barrier()
        with team.only(0), k.scope():
            value, more = k.x(2)
            _load(k, value, at["place"])
            k.add_constant(value, value, step, more)
            _store(k, value, at["place"])


def _load(k: Kernel, register: Register, address: Address) -> None:
    k.set(register, address)
    k.lw(register, 0, register)


def _store(k: Kernel, value: Register, address: Address) -> None:
    with k.scope():
        pointer = k.x()
        k.set(pointer, address)
        k.sw(value, 0, pointer)


def planes_of(layout: Layout, rows: Axis = None) -> tuple[Axis, ...]:
    """The box of tiles that have planes, or some rows of them."""
    return ("b", "c", rows, None) if layout == "chw" else ("b", rows, None, "c")
