"""Gradients of weights of one channel each as what each core does by itself: lines of a channel.

    load        all sums of a kernel are zero
    walk        lines on top that are read through some taps alone; then a round for each line
    end         likewise lines at the bottom; sums are stored

Sums stay in registers from a core's first line of a channel to its last one, wherever it stops. See
trainlib.tiling.line_loop.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from firmware.builder import Kernel, Label, Register
from trainlib.codegen.inner_loop import CACHED, REFETCH
from trainlib.codegen.strided_access import access_each
from trainlib.conv.weight_gradient_code import emit_runs
from trainlib.conv.weight_gradient_schedule import LOOPED, Border, Nest, WeightGradient
from trainlib.primitive.element import store
from trainlib.primitive.per_core import Alone, Begin, Block, Cuts

SCRATCH = 4  # registers of the pool that hold nothing between lines, at least
ADDRESSES = 3  # of dY, of X, of the sums
REGISTERS = 26  # for all of it: of 30, cores walk lines with four
WIDEST = 12  # places of a body that are tried


@dataclass(frozen=True)
class Lines:
    """How lines are computed: in bodies of so many places, all taps at once.

    g    of one channel, taps along y as channels where there are several
    """

    g: WeightGradient
    cols: int

    @property
    def pool(self) -> int:
        """Registers for what is loaded, as many as are of use."""
        sums = self.g.channels * self.g.xs.taps
        return min(REGISTERS - ADDRESSES - sums, sums + 4)

    def nest(self, count: int) -> Nest:
        """Of so many taps along y."""
        return Nest(self.g, 1, count, range(self.g.xs.taps), self.cols, self.pool)

    @property
    def fits(self) -> bool:
        """Do registers suffice, and does one reach all of a line of dY, one all of X?"""
        nests = [self.nest(count) for count in range(1, self.g.channels + 1)]
        bodies = [body for nest in nests for body in nest.bodies]
        return self.pool >= SCRATCH and all(
            len(body.reaches) == 2 and not body.constants for body in bodies
        )

    @property
    def cycles(self) -> float:
        """Of a line, nearly."""
        nest = self.nest(self.g.channels)
        size = sum(len(body.steps) for body in nest.bodies)
        total = REFETCH * size * (size > CACHED)
        for run, body in zip(nest.runs, nest.bodies, strict=True):
            total += run.times * body.cycles + body.entry_cycles + LOOPED * (run.times > 1)
        return total


def _ways(g: WeightGradient) -> Iterator[Lines]:
    """Those that fit."""
    for cols in range(1, min(g.xs.outputs, WIDEST) + 1):
        if (lines := Lines(g, cols)).fits:
            yield lines


class GradientLines:
    """The code of some lines of a channel.

    names    of operands: dy, x, dw
    """

    has_few = False

    def __init__(self, k: Kernel, lines: Lines, names: Mapping[str, str]) -> None:
        self.k, self.lines, self.g = k, lines, lines.g
        self.nest = lines.nest(self.g.channels)
        self.loop = int(any(run.times > 1 for run in self.nest.runs))
        self.pointers, self.dw = k.x(2), k.x()
        self.sums, self.pool = k.f(self.nest.sums), k.f(self.nest.pool)
        self.scratch = k.x(SCRATCH) if k.has_float_registers else self.pool[:SCRATCH]
        registers = dict(zip(("dy", "x", "dw"), (*self.pointers, self.dw), strict=True))
        self.places: Mapping[str, Register] = {names[of]: registers[of] for of in registers}

    def load(self) -> None:
        """Let all sums be zero."""
        for register in self.sums:
            self.k.fzero(register)

    def walk(self, kind: int, count: Register, start: Label, begin: Begin | None = None) -> None:
        """Emit what begins with the first line or another one, and the loop over lines."""
        k, g, entered = self.k, self.g, self.k.label()
        assert begin

        def enter() -> None:
            k.jr(begin.load())
            k.place(begin.first)
            if g.first:
                self._go(self._borders(range(g.first), (0, 0)), _place(self.nest, g.first))
                k.j(entered)
            k.place(begin.other)
            self._go((0, 0), _place(self.nest, 0))
            k.place(entered)

        with k.hwloop(count, enter):
            k.place(start)
            self._line(self.nest, self.sums, is_loop=True)

    def end(self, kind: int) -> None:
        """Emit the lines that are left, and store the sums."""
        after = self.g.first + self.g.ys.outputs
        self._borders(range(after, after + len(self.g.borders)), _place(self.nest, after))
        self.end_inside(kind)

    def end_inside(self, kind: int) -> None:
        """Store the sums."""
        k, dw, size = self.k, self.g.dw, self.g.element.size
        places = product(range(self.g.channels), self.nest.taps)
        offsets = [channel * dw.channel + tap * dw.place for channel, tap in places]
        sums = dict(zip(offsets, self.sums, strict=True))
        access_each(k, partial(store, k, size), sums, self.dw, *self.scratch[:2])

    def _borders(self, lines: range, here: tuple[int, int]) -> tuple[int, int]:
        """Those of some lines that are read through some taps alone; returns where pointers are
        then, which are here before.
        """
        for border in self.g.borders:
            if border.line in lines:
                self._go(here, self._before(border, border.line))
                nest, taps = self.lines.nest(len(border.taps)), self.g.xs.taps
                self._line(nest, self.sums[border.taps.start * taps : border.taps.stop * taps])
                here = self._before(border, border.line + 1)
        return here

    def _before(self, border: Border, line: int) -> tuple[int, int]:
        return _place(self.lines.nest(len(border.taps)), line, border.taps.start)

    def _go(self, here: tuple[int, int], there: tuple[int, int]) -> None:
        """Let pointers go on, given bytes from where the places of dY and X are."""
        for register, old, new in zip(self.pointers, here, there, strict=True):
            self.k.add_constant(register, register, new - old, self.scratch[0])

    def _line(self, nest: Nest, sums: list[Register], *, is_loop: bool = False) -> None:
        registers: Any = sums, self.pool, self.pointers, {}, self.scratch[0]
        emit_runs(self.k, nest, range(len(nest.runs)), *registers, is_loop=is_loop)


def _place(nest: Nest, line: int, tap: int = 0) -> tuple[int, int]:
    """Where pointers are before a line of dY, from some tap along y on: bytes from the first line
    of dY, and from the line of X that is as many strides before its own.
    """
    g, ahead = nest.g, nest.ahead(0)
    of_dy, of_x = (pointer.bias for pointer in nest.bodies[0].pointers)
    above = (g.above + (line - g.first) * g.ys.stride) * g.x.line + tap * g.x.channel
    return line * g.dy.line + ahead["g"] + of_dy, above + ahead["x"] + of_x


def lone_gradient(g: WeightGradient, items: int, names: Mapping[str, str]) -> Alone | None:
    """What cores can do by themselves: lines of channels; None: registers do not hold all sums of a
    kernel, or lines at the borders are many.

    g        of one channel, addresses anything but None
    items    channels
    names    of operands: dy, x, dw
    """
    ys, line, g = g.ys, g.x.line, g.deep
    if ys.taps > g.channels or ys.taps == 1 and len(ys.middle) < ys.outputs:
        return None
    best = min(_ways(g), key=lambda lines: lines.cycles, default=None)
    if best is None:
        return None
    above, below = g.first, ys.outputs - g.first - g.ys.outputs

    def span(first: int, end: int) -> tuple[int, int]:
        reads = product(range(first, end), range(ys.taps))
        sources = [at for read in reads if (at := ys.source(*read)) is not None]
        return min(sources) * line, (max(sources) + 1) * line

    return Alone(
        items,
        (Block(0),),
        ys.outputs,
        best.cycles,
        names["x"],
        names["dy"],
        lambda rounds: span(0, rounds)[1],
        lambda rounds: rounds * g.dy.line,
        lambda k: GradientLines(k, best, names),
        cuts=Cuts(span, ys.stride * line, g.dy.line, above + bool(above), below, above=above),
        summed=names["dw"],
    )
