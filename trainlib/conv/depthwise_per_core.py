"""Depthwise convolutions as what each core does by itself: channels, a round for each line.

Those in halves: see trainlib.conv.paired_per_core.
"""

from collections.abc import Callable, Mapping, Sequence
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
    Carried,
    Line,
    Round,
    carried_row,
    is_single,
    lines_of,
    parts_of,
    round_of,
)
from trainlib.conv.paired_per_core import SCRATCH, lone_pairs
from trainlib.primitive.per_core import FEW, TAKEN, Alone, Begin, Block, Cuts

AROUND = 3 + INPUTS  # registers beside floats: two places, and one more than inputs
NEW_KIND = 400  # cycles of a core that code of a block takes until it is in the cache, about
NEW_BLOCK = 250  # that it takes to begin a block, of all segments of lines
BEGUN = 60  # that it takes to begin a block of a channel, nearly
LINE_TAKEN = 4  # registers that cores walk lines with, see trainlib.tiling.line_loop
ALL = 30  # registers that such code can have
TRIED = 3  # of ways to cut lines that cores share


Lines = Round | Line | Carried


class LoneChannels(Channels):
    """The code of channels that a core computes one after the other.

    kinds       of blocks, the lines of each: a loop whose rounds begin in the middle of a line, or
                a line, if all are alike; or sums that are carried from line to line
    names       of operands: x, w, y and maybe bias
    is_shared   do cores have lines of them?
    """

    loop = 0

    def __init__(
        self,
        k: Kernel,
        x: Correlation,
        point: Point,
        kinds: Sequence[Lines],
        names: Mapping[str, str],
        *,
        is_shared: bool = False,
    ) -> None:
        super().__init__(k, x, point)
        self.kinds = kinds
        inputs = max(_inputs_of(lines) for lines in kinds)
        self.scratch: list[Register]
        self.px, *self.scratch = k.short(2 + INPUTS)
        is_carried = isinstance(kinds[0], Carried) and not is_shared
        self.has_few = is_carried and _registers(x, kinds) + TAKEN > REGISTERS
        self.scratch += k.x(SCRATCH - len(self.scratch)) if self.has_few else []
        self.py = k.x()
        sums = max(_held_of(lines) for lines in kinds) * point.cols
        self.weights, self.sums = k.f(x.ys.taps * x.xs.taps), k.f(sums)
        if k.has_float_registers:
            self.pool = k.f(inputs)
        else:
            self.pool = [*self.scratch, *k.x(max(inputs - len(self.scratch), 0))][:inputs]
        self.start = k.f() if x.bias is not None else None
        registers = {"x": self.px, "y": self.py, "w": self.scratch[2], "bias": self.scratch[3]}
        self.places: Mapping[str, Register] = {name: registers[r] for r, name in names.items()}

    def load(self) -> None:
        """Load weights and bias."""
        k, x, (t, _, w, bias, *_) = self.k, self.x, self.scratch
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
            self._begin(lines, begin)
            if isinstance(lines, Carried):
                self._fill(lines, begin)
                return
            if begin:
                k.jr(begin.load())
                k.place(begin.first)
            if isinstance(lines, Round):
                self.enter(lines, whole, after)

        with k.hwloop(count, enter):
            k.place(start)
            if isinstance(lines, Round):
                self.round(lines, whole, after)
            elif isinstance(lines, Carried):
                self._carried_line(lines)
            else:
                k.place(whole)
                self._line(lines)

    def _fill(self, lines: Carried, begin: Begin | None) -> None:
        """The rounds before those of the loop: all that read lines before a block's first one, or
        those that are left of them with the first line of all; if none are, its sums are started.
        """
        k, x, front = self.k, self.x, lines.missing[0]
        width, filled, middle = len(lines.line.outputs), range(front, lines.held), k.label()
        if begin:
            k.jr(begin.load())
            k.place(begin.first)
            if front:
                for register in self.sums[(lines.held - front) * width : lines.held * width]:
                    self._start_sum(register)
                k.add_constant(self.px, self.px, front * x.x.line, self.pool[0])
                k.j(middle)
            k.place(begin.other)
            for number in range(front):
                self._carried_line(lines, lines.held - number)
        elif not filled:
            for register in self.sums[: lines.held * width]:
                self._start_sum(register)
        k.place(middle)
        for number in filled:
            is_first = number == front and not (begin and front)
            self._carried_line(lines, lines.held - number, is_first=is_first)

    def _begin(self, lines: Lines, begin: Begin | None) -> None:
        """Let px and py be the places that rounds expect."""
        k, x, t = self.k, self.x, self.scratch[0]
        self.last = _line_of(lines).outputs[-1]
        k.add_constant(self.py, self.py, self.last, t)
        if isinstance(lines, Carried):
            above = x.ys.pad * x.x.line if begin else 0
            k.add_constant(self.px, self.px, lines.taps[0][-1].offset - above, t)
            return
        first = lines.heads[0][0] if isinstance(lines, Round) else lines.inputs[-1]
        k.add_constant(self.px, self.px, first.offset - x.ys.pad * x.x.line, t)

    def end(self, kind: int) -> None:
        """Store the last line of a block, or the last ones."""
        lines = self.kinds[kind]
        if isinstance(lines, Carried):
            self.last, width = lines.line.outputs[-1], len(lines.line.outputs)
            for number in range(lines.missing[1]):
                self._store(lines.line, number * width)
        elif _tails_of(self.kinds[kind]):
            self.last = _line_of(self.kinds[kind]).outputs[-1]
            self._store(_line_of(self.kinds[kind]))

    def end_inside(self, kind: int) -> None:
        """Likewise if lines follow it: it has taps at its end as all others."""
        lines = self.kinds[kind]
        if isinstance(lines, Round) and lines.tails:
            self.last = lines.line.outputs[-1]
            self._end_line(lines)
            self._store(lines.line)


def _line_of(lines: Lines) -> Line:
    return lines if isinstance(lines, Line) else lines.line


def _inputs_of(lines: Lines) -> int:
    """Registers for inputs."""
    return lines.inputs if isinstance(lines, Carried) else INPUTS


def _held_of(lines: Lines) -> int:
    """Lines of sums that registers hold."""
    return lines.held if isinstance(lines, Carried) else 1


def _tails_of(lines: Lines) -> int:
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
    carried = x.straight
    x = replace(x, carries=False)
    try:
        point = choose(name, x, 1, given | {"is_turned": False})
    except KernelError:
        return None
    x = x.straight
    if x.is_paired:
        return None if x.xs.stride > 1 else lone_pairs(x, point.cols, items, names)
    is_plain = not point.is_turned and not x.ys.is_transposed
    if not is_plain or point.rows > 1:
        return None
    every = [given["cols"]] if given["cols"] else range(1, x.xs.outputs + 1)
    if items % cores == 0:
        cuts = [_cut(x, point.cols), *(_carried_cut(carried, cols) for cols in every)]
        some = [cut for cut in cuts if cut]
        best = min(some, key=lambda cut: cut.cost(items / cores, x.ys.outputs), default=None)
        return _alone(x, best, items, point, names, is_shared=False) if best else None
    found: list[_Cut] = []
    for cut in (lambda cols: _cut(x, cols), lambda cols: _carried_cut(carried, cols, LINE_TAKEN)):
        some = [each for cols in every if (each := cut(cols))]
        found += sorted(some, key=lambda each: each.cost(items / cores, x.ys.outputs))[:TRIED]
    ways = [_alone(x, cut, items, point, names, is_shared=True) for cut in found]
    return replace(ways[0], others=tuple(ways[1:])) if ways else None


def _alone(
    x: Correlation,
    cut: "_Cut",
    items: int,
    point: Point,
    names: Mapping[str, str],
    *,
    is_shared: bool,
) -> Alone:
    """Channels in such blocks.

    is_shared    have cores lines of them?
    """
    first, lines = cut.kinds[0], x.ys.outputs
    front, back, begun, tails = 0, 0, 0, _tails_of(first)
    read: Callable[[int], int] = partial(_read, x, tails)
    if isinstance(first, Carried):
        front, back = first.missing
        lines -= 0 if is_shared else back
        begun = first.held - front
        read = partial(_read_carried, x, begun)
    step = x.ys.stride * x.x.line
    cuts = Cuts(partial(_span, x), step, x.y.line, front, back, cut.begun / len(cut.blocks))
    how = replace(point, cols=cut.cols), cut.kinds, names
    return Alone(
        items,
        cut.blocks,
        lines,
        cut.cycles / len(cut.blocks),
        names["x"],
        names["y"],
        read,
        lambda rounds: (rounds - bool(tails)) * x.y.line,
        lambda k: LoneChannels(k, x, *how, is_shared=is_shared),
        begun=begun,
        cuts=cuts if is_shared else None,
    )


class _Cut(NamedTuple):
    """A line of outputs in blocks of so many, or fewer.

    kinds      the code of blocks that differ
    cycles     of a line, all of its blocks, nearly
    begun      instructions before the first line of them, of a channel's lines from the middle on
    """

    cols: int
    kinds: Sequence[Lines]
    blocks: tuple[Block, ...]
    cycles: int
    begun: int = 0

    def cost(self, channels: float, lines: int) -> float:
        """Cycles of a core that computes so many channels of so many lines, about."""
        new = NEW_KIND * len(self.kinds) + NEW_BLOCK * len(self.blocks)
        return channels * (lines * self.cycles + BEGUN * len(self.blocks)) + new


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


def _carried_cut(x: Correlation, cols: int, taken: int | None = None) -> _Cut | None:
    """None: sums of blocks of so many cannot be carried.

    taken    registers that cores walk items with; None: as few as can be
    """
    kinds = carried_row(x, cols, 1)
    if not kinds or x.xs.is_transposed and x.xs.stride > 1:
        return None
    if taken is None:
        fits = _registers(x, kinds, SCRATCH) + FEW <= REGISTERS
    else:
        fits = _registers(x, kinds) + taken <= ALL
    if not fits or not is_single(x, 1, cols, 1):
        return None
    blocks = tuple(parts_of(x, x.xs.runs(cols)))
    cycles = sum(kinds[b.kind].instructions for b in blocks)
    return _Cut(cols, kinds, blocks, cycles, sum(kinds[b.kind].begun for b in blocks))


def _registers(x: Correlation, kinds: Sequence[Lines], scratch: int = 1 + INPUTS) -> int:
    """For blocks that are carried, with so many at least that hold nothing between rounds."""
    sums = max(_held_of(lines) * len(_line_of(lines).outputs) for lines in kinds)
    inputs = max([scratch, *map(_inputs_of, kinds)])
    return 2 + inputs + x.ys.taps * x.xs.taps + sums + (x.bias is not None)


def _like(x: Correlation, block: BlockRun) -> Line | None:
    """The line that all are like, None: there are others, or it reads nothing."""
    line, *others = lines_of(x, block)
    return line if line.inputs and not others else None


def _span(x: Correlation, first: int, end: int) -> tuple[int, int]:
    """The bytes of the input that some lines read, from and to."""
    read = [extent for extent in x.ys.extents[first:end] if extent]
    return min(r.start for r in read) * x.x.line, max(r.stop for r in read) * x.x.line


def _read(x: Correlation, tails: int, rounds: int) -> int:
    """Bytes of the input, from its start on, that so many rounds read, the last without tails."""
    sources = [
        source
        for line in range(rounds)
        for tap in range(x.ys.taps - tails * (line == rounds - 1))
        if (source := x.ys.source(line, tap)) is not None
    ]
    return (max(sources) + 1) * x.x.line


def _read_carried(x: Correlation, begun: int, rounds: int) -> int:
    """Likewise where so many rounds come before."""
    return (rounds + begun) * x.x.line
