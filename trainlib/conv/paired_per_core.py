"""Depthwise convolutions in halves as what each core does by itself: channels, round by round.

A round is a line whose sums move on, or as many lines as sums have registers for: see
trainlib.conv.paired_schedule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from firmware.builder import Kernel, Label, Register
from trainlib.conv.correlation import Correlation
from trainlib.conv.correlation_schedule import REGISTERS
from trainlib.conv.depthwise_schedule import parts_of
from trainlib.conv.paired_code import PairedChannels
from trainlib.conv.paired_schedule import HALF, HIGH_LOW, Block, Stretch, Touch, blocks_of
from trainlib.primitive.element import load, load_post
from trainlib.primitive.per_core import FEW, TAKEN, Alone
from trainlib.primitive.tensor import WORD

PLACES = 4  # registers that hold nothing between two rounds
SCRATCH = 6  # likewise, where all in all there are few
MINUS_ZEROS = -0x7FFF8000  # a pair


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
        self.loop = loop
        self.scratch = self.take_all()
        self.has_few = self.registers + TAKEN > REGISTERS
        registers = {"x": self.px, "y": self.py, "w": self.scratch[2], "bias": self.scratch[3]}
        self.places: Mapping[str, Register] = {name: registers[r] for r, name in names.items()}

    @property
    def registers(self) -> int:
        """How many there are."""
        return _registers(self.x, self.blocks, self.cols)

    def take_all(self) -> list[Register]:
        """Take the registers; those that hold nothing between two rounds."""
        loop, taps = self.loop, self.x.ys.taps
        self.take(max(3, *(block.inputs for block in self.blocks)), self.cols // 2)
        line = loop.first + (loop.per_round - 1 - loop.skipped) % loop.per_round
        ended = self.blocks[0].lines[line][0].output
        free = ended + (taps - 1 if loop.per_round == 1 else 0)  # what has moved leaves its own
        self.k.li(self.select, HIGH_LOW)
        return [*self.inputs, *self.sums[free % taps]]

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


class SuccessorPairs(LonePairs):
    """Channels whose lines are a block: what a line begins has the registers of what it ends.

    So sums of a line less are held, and a round has a line less: a core's own cache holds more of
    the code. A line first does all that ends sums, and stores them. Words are read to the end, so
    pairs across two of them are loaded, too. Rounds end where a line has stored its sums: the first
    line lacks what is before, the last one what is after.

    values     by place, the registers of pairs
    nothing    what sums start with that do not begin with a product
    """

    @property
    def registers(self) -> int:
        """How many there are."""
        return _successors(self.x, self.blocks[0])

    def take_all(self) -> list[Register]:
        """Take the registers; those that hold nothing between two rounds."""
        k, x, loop, taps = self.k, self.x, self.loop, self.x.ys.taps
        self.blocks = [replace(block, overlaps=True) for block in self.blocks]
        (block,) = self.blocks
        self.px, self.py = k.short(2)
        near = [place for place in block.places if place % 2 == 0 and place > min(block.words)]
        self.values = dict(zip(near, k.short(len(near)), strict=True))
        stored = [k.short(block.pairs - 1) for _ in range(1, taps)]
        self.values |= {place: k.x() for place in block.places if place not in self.values}
        self.sums = [[k.x(), *sums] for sums in stored]
        self.weights = k.x(taps * x.xs.taps)
        self.nothing = k.x()
        self.start = self.nothing if x.bias is not None else None
        if not self.start:
            k.li(self.nothing, MINUS_ZEROS)
        free = self.sums_of(loop.per_round - 1 - loop.skipped)
        return [*free, *k.x(max(0, PLACES - len(free)))]

    def sums_of(self, output: int) -> list[Register]:
        """Of a line of the output."""
        return self.sums[output % len(self.sums)]

    def value(self, block: Block, place: int) -> Register:
        """The register of the pair that begins at a place."""
        return self.values[place]

    def make(self, block: Block, place: int) -> None:
        """Make the pair whose low half is outside."""
        self.k.slli(self.values[place], self.values[place + 1], 16)

    def walk(self, kind: int, count: Register, start: Label) -> None:
        """Emit what begins a block, and the loop over its lines."""
        k, loop, (block,), inside = self.k, self.loop, self.blocks, self.k.label()

        def begin() -> None:
            self.begin_block(block, self.px, self.py)
            self._load(block)
            self._start_first()
            if -1 in self.values:
                self.make(block, -1)
            if loop.skipped:
                k.j(inside)

        with k.hwloop(count, begin):
            k.place(start)
            for at in range(loop.per_round):
                if at == loop.skipped:
                    k.place(inside)
                line = at - loop.skipped
                self.add(block, _whole(self.x, line)[1:], {*block.places})
                loaded = self._load(block)
                ended = _whole(self.x, line + 1)[0]
                self.add(block, [ended], loaded)
                self.store(block, ended.output)

    def end(self, kind: int) -> None:
        """Add the last line to what there is, and store that."""
        ys, (block,) = self.x.ys, self.blocks
        touches = _whole(self.x, ys.inputs - 1)[1:]
        found = [touch for touch in touches if touch.output < ys.outputs]
        self.add(block, found, {*block.places})
        for touch in found:
            self.store(block, touch.output)

    def _start_first(self) -> None:
        """Let sums to which the first line adds be what they start with.

        Without a bias that is -0: a product is added to it and stays what it is.
        """
        for register in chain(*map(self.sums_of, range(self.x.ys.taps - 2))):
            self.k.mv(register, self.nothing)

    def _load(self, block: Block) -> set[int]:
        """Load the pairs of a line, that of the first word last; places of those."""
        first, *others = (place for place in block.places if place >= min(block.words))
        for place in reversed(others):
            register, at = self.values[place], (place - first) * HALF
            load(self.k, block.bytes(place), register, at, self.px, is_unsigned=True)
        register, line = self.values[first], self.x.x.line
        load_post(self.k, block.bytes(first), register, line, self.px, is_unsigned=True)
        return {first, *others}


def _whole(x: Correlation, line: int) -> list[Touch]:
    """What a line of the input adds to, as if there were others all around it."""
    taps = x.ys.taps
    return [
        Touch(line + x.ys.pad - tap, tap, begins=tap == 0, ends=tap == taps - 1)
        for tap in reversed(range(taps))
    ]


def _looped(block: Block) -> Stretch:
    """The lines of a block that are its loop."""
    return max(block.stretches, key=lambda each: each.times)


def _registers(x: Correlation, blocks: Sequence[Block], cols: int) -> int:
    """That a core's channels in halves take."""
    taps = x.ys.taps
    sums, count = taps * cols // 2, max(3, *(block.inputs for block in blocks))
    return 3 + count + taps * x.xs.taps + sums + (x.bias is not None)


def _successors(x: Correlation, block: Block) -> int:
    """The same, where what a line begins has the registers of what it ends."""
    taps, places = x.ys.taps, len(block.places)
    sums = (taps - 1) * block.pairs + max(0, PLACES - block.pairs)
    return 3 + places + taps * x.xs.taps + sums


def _may_succeed(x: Correlation, blocks: Sequence[Block]) -> bool:
    """Is a block a line, does the first line end nothing, and are there registers?"""
    (block, *others), taps = blocks, x.ys.taps
    if others or block.run.times > 1 or taps < 3 or x.ys.pad != taps - 2:
        return False
    inside = [place for place in block.places if place >= 0]
    has_words = inside[0] == min(block.words) == 0 and x.ys.inputs > taps
    return has_words and _successors(x, block) + TAKEN <= REGISTERS


def lone_pairs(x: Correlation, cols: int, items: int, names: Mapping[str, str]) -> Alone | None:
    """Channels in halves, see trainlib.conv.depthwise_per_core.lone_channels.

    x    straight, no place left out
    """
    taps, blocks = x.ys.taps, blocks_of(x, cols)
    loop = _loop_of(x, cols, blocks)
    overlapping = [replace(block, overlaps=True) for block in blocks]
    has_odd_lines = x.x.line % WORD > 0  # loading pairs costs no more than words do, then
    if (has_odd_lines or not loop) and _may_succeed(x, overlapping):
        loop = Loop(1, x.ys.inputs - 1, taps - 1, x.ys.inputs)
        return _lone(x, cols, items, names, blocks, loop, SuccessorPairs)
    return _lone(x, cols, items, names, blocks, loop, LonePairs) if loop else None


def _loop_of(x: Correlation, cols: int, blocks: Sequence[Block]) -> Loop | None:
    """Of a channel whose lines of sums have registers of their own, if there are as many."""
    taps, looped = x.ys.taps, {_looped(block)[:2] for block in blocks}
    if len(looped) > 1:
        return None
    first, times = looped.pop()
    registers, scratch = _registers(x, blocks, cols), cols // 2 + min(b.inputs for b in blocks)
    may_walk = registers + (TAKEN if scratch < SCRATCH else FEW) <= REGISTERS
    if times < 2 * taps or not may_walk:
        return None
    return Loop(first, times, 1 if any(b.has_moves for b in blocks) else taps, x.ys.inputs)


def _lone(
    x: Correlation,
    cols: int,
    items: int,
    names: Mapping[str, str],
    blocks: Sequence[Block],
    loop: Loop,
    code: type[LonePairs],
) -> Alone:
    """What a core does by itself by such a loop of each channel."""
    parts = list(parts_of(x, [block.run for block in blocks]))
    cycles = sum(blocks[part.kind].line_cycles for part in parts) * loop.per_round / len(parts)
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
        lambda k: code(k, x, cols, loop, names),
        loop.per_round,
    )
