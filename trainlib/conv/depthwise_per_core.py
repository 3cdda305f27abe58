"""Depthwise convolutions as what each core does by itself: channels, a round for each line.

In halves a round is a line whose sums move on, or as many lines as sums have registers for: see
trainlib.conv.paired_schedule.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from firmware.builder import Kernel, KernelError, Label, Register
from trainlib.codegen.strided_access import access_each
from trainlib.conv.axis import BlockRun
from trainlib.conv.correlation import Correlation
from trainlib.conv.correlation_schedule import REGISTERS, Point, choose
from trainlib.conv.depthwise_code import Channels
from trainlib.conv.depthwise_schedule import INPUTS, Line, Round, is_single, lines_of, round_of
from trainlib.conv.paired_code import PairedChannels
from trainlib.conv.paired_schedule import HALF, HIGH_LOW, Stretch, blocks_of
from trainlib.conv.paired_schedule import Block as Pairs
from trainlib.primitive.per_core import FEW, TAKEN, Alone, Block

AROUND = 3 + INPUTS  # registers beside floats: two places, and one more than inputs
SCRATCH = 6  # registers that hold nothing between two rounds, where all in all there are few


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

    def walk(self, kind: int, count: Register, start: Label) -> None:
        """Emit what begins a block, and the loop over its lines."""
        k, lines, whole, after = self.k, self.kinds[kind], self.k.label(), self.k.label()

        def begin() -> None:
            self._begin(lines)
            if isinstance(lines, Round):
                self.enter(lines, whole, after)

        with k.hwloop(count, begin):
            k.place(start)
            if isinstance(lines, Round):
                self.round(lines, whole, after)
            else:
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


class Loop(NamedTuple):
    """The lines of a channel of halves: some one by one, a loop over those alike, some one by one.

    first, times    of those of the loop
    per_round       lines of a round, which skip so many before the first one
    inputs          all lines
    """

    first: int
    times: int
    per_round: int
    inputs: int

    @property
    def rounds(self) -> int:
        """Of the loop."""
        return -(-self.times // self.per_round)

    @property
    def skipped(self) -> int:
        """Lines of the first round that there are not."""
        return -self.times % self.per_round

    def done(self, rounds: int) -> int:
        """Lines that so many rounds have read."""
        if rounds == self.rounds:
            return self.inputs
        return self.first + max(0, rounds * self.per_round - self.skipped)


class LonePairs(PairedChannels):
    """The code of channels in halves that a core computes one after the other.

    loop     of each channel
    names    of operands: x, w, y and maybe bias
    """

    def __init__(
        self, k: Kernel, x: Correlation, cols: int, loop: Loop, names: Mapping[str, str]
    ) -> None:
        super().__init__(k, x, cols)
        self.loop, taps, pairs = loop, x.ys.taps, cols // 2
        count = max(3, *(block.inputs for block in self.blocks))
        self.take(count, pairs)
        line = loop.first + (loop.per_round - 1 - loop.skipped) % loop.per_round
        ended = self.blocks[0].lines[line][0].output
        free = ended + (taps - 1 if loop.per_round == 1 else 0)  # what has moved leaves its own
        self.scratch = [*self.inputs, *self.sums[free % taps]]
        self.has_few = _registers(x, self.blocks, cols) + TAKEN > REGISTERS
        registers = {"x": self.px, "y": self.py, "w": self.scratch[2], "bias": self.scratch[3]}
        self.places: Mapping[str, Register] = {name: registers[r] for r, name in names.items()}
        k.li(self.select, HIGH_LOW)

    def load(self) -> None:
        """Load weights and bias."""
        _, _, w, bias = self.scratch[:4]
        self.load_weights(w, self.x.w.offset)
        if self.start:
            self.load_start(bias)

    def walk(self, kind: int, count: Register, start: Label) -> None:
        """Emit what begins a block, and the loop over its lines."""
        k, block, loop, inside = self.k, self.blocks[kind], self.loop, self.k.label()
        self.moved = 0

        def begin() -> None:
            self.begin_block(block, self.px, self.py)
            for line in range(loop.first):
                self.line(block, line)
            if loop.skipped:
                k.j(inside)

        with k.hwloop(count, begin):
            k.place(start)
            for at in range(loop.per_round):
                if at == loop.skipped:
                    k.place(inside)
                self.line(block, loop.first + (at - loop.skipped) % loop.per_round)
            if loop.per_round == 1:
                self.move(block, loop.first)

    def end(self, kind: int) -> None:
        """Store what the loop's last line ends besides, and do the lines after it."""
        block, loop = self.blocks[kind], self.loop
        self.moved = loop.times if loop.per_round == 1 else 0
        for output in _looped(block).ends:
            self.store(block, output)
        for line in range(loop.first + loop.times, loop.inputs):
            self.line(block, line)


def _looped(block: Pairs) -> Stretch:
    """The lines of a block that are its loop."""
    return max(block.stretches, key=lambda each: each.times)


def _registers(x: Correlation, blocks: Sequence[Pairs], cols: int) -> int:
    """That a core's channels in halves take."""
    taps = x.ys.taps
    sums, count = taps * cols // 2, max(3, *(block.inputs for block in blocks))
    return 3 + count + taps * x.xs.taps + sums + (x.bias is not None)


def _lone_pairs(x: Correlation, cols: int, items: int, names: Mapping[str, str]) -> Alone | None:
    """The same in halves."""
    taps, runs, blocks = x.ys.taps, x.xs.runs(cols), blocks_of(x, cols)
    looped = {_looped(block)[:2] for block in blocks}
    if len(looped) > 1:
        return None
    first, times = looped.pop()
    per_round = 1 if any(block.has_moves for block in blocks) else taps
    if times < 2 * taps:
        return None
    loop = Loop(first, times, per_round, x.ys.inputs)
    registers, scratch = _registers(x, blocks, cols), cols // 2 + min(b.inputs for b in blocks)
    if registers + (TAKEN if scratch < SCRATCH else FEW) > REGISTERS:
        return None
    parts = list(_blocks(x, runs))
    cycles = sum(blocks[part.kind].line_cycles for part in parts) * per_round / len(parts)
    ends = [any(touch.ends for touch in touches) for touches in blocks[0].lines]
    source, result = (HALF * axis for axis in (x.xs.inputs, x.xs.outputs))
    return Alone(
        items,
        tuple(parts),
        loop.rounds,
        cycles,
        names["x"],
        names["y"],
        lambda rounds: source * loop.done(rounds),
        lambda rounds: result * sum(ends[: loop.done(rounds)]),
        lambda k: LonePairs(k, x, cols, loop, names),
        per_round,
    )


def _line_of(lines: Round | Line) -> Line:
    return lines.line if isinstance(lines, Round) else lines


def _tails_of(lines: Round | Line) -> int:
    """Taps that a round adds up for the line of the one before."""
    return lines.missing[1] if isinstance(lines, Round) else 0


def lone_channels(
    name: str, x: Correlation, items: int, names: Mapping[str, str], given: dict[str, Any]
) -> Alone | None:
    """What cores can do by themselves: channels; None: their lines are no loop that can be left.

    x        of one of them, addresses anything but None
    items    channels
    given    of the point, see trainlib.conv.correlation_schedule.choose
    """
    try:
        point = choose(name, x, 1, given)
    except KernelError:
        return None
    x = x.straight
    if x.is_paired and x.xs.stride > 1:
        return None
    if x.is_paired:
        return _lone_pairs(x, point.cols, items, names)
    is_plain = not point.is_turned and not x.ys.is_transposed
    if not is_plain or not is_single(x, point.rows, point.cols, 1):
        return None
    runs = x.xs.runs(point.cols)
    kinds = [round_of(x, run) or _like(x, run) for run in runs]
    floats = x.ys.taps * x.xs.taps + point.cols + (x.bias is not None)
    if not all(kinds) or AROUND + floats + TAKEN > REGISTERS:
        return None
    found = [lines for lines in kinds if lines]
    tails = _tails_of(found[0])
    blocks = list(_blocks(x, runs))
    cycles = sum(_line_of(found[block.kind]).instructions for block in blocks)
    return Alone(
        items,
        tuple(blocks),
        x.ys.outputs,
        cycles / len(blocks),
        names["x"],
        names["y"],
        lambda rounds: _read(x, tails, rounds),
        lambda rounds: (rounds - bool(tails)) * x.y.line,
        lambda k: LoneChannels(k, x, point, found, names),
    )


def _blocks(x: Correlation, runs: list[BlockRun]) -> Iterator[Block]:
    """The blocks of a channel."""
    for kind, (first, times, step) in enumerate(runs):
        for number in range(times):
            source, result = first.base + number * step, first.start + number * first.width
            yield Block(kind, source * x.x.place, result * x.y.place)


def _like(x: Correlation, block: BlockRun) -> Line | None:
    """The line that all are like, None: there are others, or it reads nothing."""
    line, *others = lines_of(x, block)
    return line if line.inputs and not others else None


def _read(x: Correlation, tails: int, rounds: int) -> int:
    """Bytes of the input, from its start on, that so many rounds read, the last without tails."""
    sources = [
        source
        for line in range(rounds)
        for tap in range(x.ys.taps - tails * (line == rounds - 1))
        if (source := x.ys.source(line, tap)) is not None
    ]
    return (max(sources) + 1) * x.x.line
