"""Depthwise convolutions as what each core does by itself: channels, a round for each line.

Those in halves: see trainlib.conv.paired_per_core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from firmware.builder import Kernel, KernelError, Label, Register
from trainlib.codegen.strided_access import access_each
from trainlib.conv.axis import BlockRun
from trainlib.conv.correlation import Correlation
from trainlib.conv.correlation_schedule import REGISTERS, Point, choose
from trainlib.conv.depthwise_code import Channels
from trainlib.conv.depthwise_schedule import (
    INPUTS,
    Line,
    Round,
    is_single,
    lines_of,
    parts_of,
    round_of,
)
from trainlib.conv.paired_per_core import lone_pairs
from trainlib.primitive.per_core import TAKEN, Alone, Begin, Block, Cuts

AROUND = 3 + INPUTS  # registers beside floats: two places, and one more than inputs
NEW_KIND = 400  # cycles of a core that code of a block takes until it is in the cache, about
NEW_BLOCK = 250  # that it takes to begin a block, of all segments of lines


class LoneChannels(Channels):
    """The code of channels that a core computes one after the other.

    kinds    of blocks, the lines of each: a loop whose rounds begin in the middle of a line, or a
             line, if all are alike
    names    of operands: x, w, y and maybe bias
    """

    has_few = False

    def __init__(
        self,
        k: Kernel,
        x: Correlation,
        point: Point,
        kinds: Sequence[Round | Line],
        names: Mapping[str, str],
    ) -> None:
        super().__init__(k, x, point)
        self.kinds = kinds
        self.scratch: list[Register]
        self.px, *self.scratch = k.short(2 + INPUTS)
        self.py = k.x()
        self.weights, self.sums = k.f(x.ys.taps * x.xs.taps), k.f(point.cols)
        self.pool = k.f(INPUTS) if k.has_float_registers else self.scratch[:INPUTS]
        self.start = k.f() if x.bias is not None else None
        registers = {"x": self.px, "y": self.py, "w": self.scratch[2], "bias": self.scratch[3]}
        self.places: Mapping[str, Register] = {name: registers[r] for r, name in names.items()}

    def load(self) -> None:
        """Load weights and bias."""
        k, x, (t, _, w, bias) = self.k, self.x, self.scratch
        taps = range(x.xs.taps)
        offsets = [
            x.w.offset + y * x.w.line + tap * x.w.place for y in range(x.ys.taps) for tap in taps
        ]
        if self.start:
            k.fload(self.start, 0, bias)
        access_each(k, k.fload, dict(zip(offsets, self.weights, strict=True)), w, self.py, t)

    def walk(self, kind: int, count: Register, start: Label, begin: Begin | None = None) -> None:
        """Emit what begins a block, and the loop over its lines."""
        k, lines, after = self.k, self.kinds[kind], self.k.label()
        whole = begin.other if begin else k.label()

        def enter() -> None:
            self._begin(lines)
            if begin:
                k.jr(begin.load())
                k.place(begin.first)
            if isinstance(lines, Round):
                self.enter(lines, whole, after)

        with k.hwloop(count, enter):
            k.place(start)
            if isinstance(lines, Round):
                self.round(lines, whole, after)
            else:
                k.place(whole)
                self._line(lines)

    def _begin(self, lines: Round | Line) -> None:
        """Let px and py be the places that rounds expect."""
        k, x, t = self.k, self.x, self.scratch[0]
        self.last = _line_of(lines).outputs[-1]
        k.add_constant(self.py, self.py, self.last, t)
        first = lines.heads[0][0] if isinstance(lines, Round) else lines.inputs[-1]
        k.add_constant(self.px, self.px, first.offset - x.ys.pad * x.x.line, t)

    def end(self, kind: int) -> None:
        """Store the last line of a block."""
        if _tails_of(self.kinds[kind]):
            self.last = _line_of(self.kinds[kind]).outputs[-1]
            self._store(_line_of(self.kinds[kind]))

    def end_inside(self, kind: int) -> None:
        """Likewise if lines follow it: it has taps at its end as all others."""
        lines = self.kinds[kind]
        if isinstance(lines, Round) and lines.tails:
            self.last = lines.line.outputs[-1]
            self._end_line(lines)
            self._store(lines.line)


def _line_of(lines: Round | Line) -> Line:
    return lines.line if isinstance(lines, Round) else lines


def _tails_of(lines: Round | Line) -> int:
    """Taps that a round adds up for the line of the one before."""
    return lines.missing[1] if isinstance(lines, Round) else 0


def lone_channels(
    name: str,
    x: Correlation,
    items: int,
    names: Mapping[str, str],
    given: dict[str, Any],
    cores: int,
) -> Alone | None:
    """What cores can do by themselves: channels; None: their lines are no loop that can be left.

    x        of one of them, addresses anything but None
    items    channels
    given    of the point, see trainlib.conv.correlation_schedule.choose
    """
    if items % cores and not x.is_paired:
        given = given | {"is_turned": False}  # cores share lines, too
    try:
        point = choose(name, x, 1, given)
    except KernelError:
        return None
    x = x.straight
    if x.is_paired:
        return None if x.xs.stride > 1 else lone_pairs(x, point.cols, items, names)
    is_plain = not point.is_turned and not x.ys.is_transposed
    if not is_plain or point.rows > 1:
        return None
    tried = range(1, x.xs.outputs + 1) if items % cores else [point.cols]
    cuts = [cut for cols in tried if (cut := _cut(x, cols))]
    if not cuts:
        return None
    times = items * x.ys.outputs / cores
    cut = min(cuts, key=lambda cut: cut.cost(times))
    tails = _tails_of(cut.kinds[0])
    return Alone(
        items,
        cut.blocks,
        x.ys.outputs,
        cut.cycles / len(cut.blocks),
        names["x"],
        names["y"],
        lambda rounds: _read(x, tails, rounds),
        lambda rounds: (rounds - bool(tails)) * x.y.line,
        lambda k: LoneChannels(k, x, replace(point, cols=cut.cols), cut.kinds, names),
        cuts=Cuts(partial(_span, x), x.ys.stride * x.x.line, x.y.line),
    )


class _Cut(NamedTuple):
    """A line of outputs in blocks of so many, or fewer.

    kinds      the code of blocks that differ
    cycles     of a line, all of its blocks, nearly
    """

    cols: int
    kinds: list[Round | Line]
    blocks: tuple[Block, ...]
    cycles: int

    def cost(self, times: float) -> float:
        """Cycles of a core that computes so many lines, about."""
        new = NEW_KIND * len(self.kinds) + NEW_BLOCK * len(self.blocks)
        return times * self.cycles + new


def _cut(x: Correlation, cols: int) -> _Cut | None:
    """None: lines are no loop that can be left, or registers do not suffice."""
    floats = x.ys.taps * x.xs.taps + cols + (x.bias is not None)
    if AROUND + floats + TAKEN > REGISTERS or not is_single(x, 1, cols, 1):
        return None
    runs = x.xs.runs(cols)
    kinds = [round_of(x, run) or _like(x, run) for run in runs]
    if not all(kinds):
        return None
    found = [lines for lines in kinds if lines]
    blocks = tuple(parts_of(x, runs))
    return _Cut(cols, found, blocks, sum(_line_of(found[b.kind]).instructions for b in blocks))


def _like(x: Correlation, block: BlockRun) -> Line | None:
    """The line that all are like, None: there are others, or it reads nothing."""
    line, *others = lines_of(x, block)
    return line if line.inputs and not others else None


def _span(x: Correlation, first: int, end: int) -> tuple[int, int]:
    """The bytes of the input that some lines read, from and to."""
    sources = [
        source
        for line in range(first, end)
        for tap in range(x.ys.taps)
        if (source := x.ys.source(line, tap)) is not None
    ]
    return min(sources) * x.x.line, (max(sources) + 1) * x.x.line


def _read(x: Correlation, tails: int, rounds: int) -> int:
    """Bytes of the input, from its start on, that so many rounds read, the last without tails."""
    sources = [
        source
        for line in range(rounds)
        for tap in range(x.ys.taps - tails * (line == rounds - 1))
        if (source := x.ys.source(line, tap)) is not None
    ]
    return (max(sources) + 1) * x.x.line
