"""Correlations of one channel each, the body of depthwise convolutions: weights stay in registers.

    for each group and row:  load all weights
        for each block of columns:  for each run of lines that read alike:  for each line

A line of a block loads each input once, multiplies it with all weights that want it, and stores its
sums: no loop over taps, and no weight is loaded again.

Where no more than the first line and the last one have fewer taps, all lines share the code of one:
see Round. So a core's own cache holds it.

At a stride of 1, sums of neighbouring lines may be carried: each line of the input is loaded once,
for all lines of the output that read it, see Carried. So blocks are narrower.

Of the gradient of images with a stride, that many neighbouring lines are computed together: groups
of lines read alike, single ones do not. Where registers do not hold the weights of all these, lines
that far apart are a correlation of their own, with a stride of 1 and fewer taps: see
Correlation.phases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, product
from typing import NamedTuple

from trainlib.codegen.inner_loop import CACHED, REFETCH, STEPS
from trainlib.codegen.strided_access import REACH
from trainlib.conv.axis import Axis, BlockRun
from trainlib.conv.correlation import Correlation
from trainlib.primitive.per_core import Block

INPUTS = 3  # registers for inputs: two loads are ahead of the multiply-adds
ADDRESSES = 4  # registers inside of a block: of input and output, the line, and where lines end
REGISTERS = 28  # for all of it; others hold what stands around
LARGEST_CODE = 600  # instructions of all lines: they share the cache with other functions
BLOCK, RUN, ROW = 10, 7, 20  # instructions around a block, around a run of lines, around a row
FILLED = 25  # cycles between a carried block's first rounds and the others


class Input(NamedTuple):
    """An input of a line: its bytes from the block's place, and which sums want it times what.

    uses    of each, the sum and the weight
    """

    offset: int
    uses: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Line:
    """The work for each of some lines of a block.

    lines      that read alike
    inputs     in the order of their loads
    outputs    bytes of each sum from the block's place
    """

    lines: BlockRun
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]

    @cached_property
    def instructions(self) -> int:
        """How many, if sums start with nothing that is loaded."""
        return len(self.outputs) + sum(1 + len(each.uses) for each in self.inputs)

    @cached_property
    def is_near(self) -> bool:
        """Do loads and stores reach all of it?"""
        inputs = [each.offset for each in self.inputs] or [0]
        return all(max(at) - min(at) in REACH for at in (inputs, self.outputs))


class Round(NamedTuple):
    """All lines of a block by one loop, whose rounds end and begin in the middle of a line.

    A line adds up tap by tap along y, then stores. The first line may lack its first taps: the loop
    is entered after them. The last one may lack its last taps: a round begins with these, of the
    line before, and so the loop ends with all that the last line has but its store.

    line       with all taps
    taps       its inputs, by tap along y
    missing    taps at the front of the first line, at the end of the last one
    """

    line: Line
    taps: tuple[tuple[Input, ...], ...]
    missing: tuple[int, int]

    @property
    def heads(self) -> tuple[tuple[Input, ...], ...]:
        """The taps that the end of a round adds up, of the line whose rest the next one does."""
        return self.taps[: len(self.taps) - self.missing[1]]

    @property
    def tails(self) -> tuple[tuple[Input, ...], ...]:
        """The taps that a round begins with."""
        return self.taps[len(self.heads) :]


class Carried(NamedTuple):
    """All lines of a block by one loop, a round for each line of the input.

    The sums of a line begin with its first taps along y and move on to other registers with every
    line of the input, by the multiply-adds themselves; those that have their last taps are stored.
    The first rounds fill the registers: what they store is no sum, and stored again. There are none
    for a first line that has its last tap alone, whose registers are full as they start.

    line       with all taps
    taps       what it reads of each line of the input, by tap along y, the first one first
    missing    taps along y that the first line and the last one of all lack
    """

    line: Line
    taps: tuple[tuple[Input, ...], ...]
    missing: tuple[int, int]

    @property
    def held(self) -> int:
        """Lines of sums that registers hold, and rounds that fill these in the midst of lines."""
        return len(self.taps) - 1

    @property
    def inputs(self) -> int:
        """Registers for inputs."""
        return max(INPUTS, len(self.taps[0]))

    @property
    def instructions(self) -> int:
        """Of a round."""
        uses = sum(len(each.uses) for inputs in self.taps for each in inputs)
        return len(self.taps[0]) + uses + len(self.line.outputs)

    @property
    def begun(self) -> int:
        """Instructions of the rounds that fill registers in the midst of lines, which leave out
        taps of lines before.
        """
        uses = [sum(len(each.uses) for each in inputs) for inputs in self.taps]
        return self.held * len(self.taps[0]) + sum(accumulate(uses[:-1]))

    def cycles(self, lines: int, parts: int) -> float:
        """Of so many lines, a part of them for each core, nearly: of the core that has most."""
        front, back = self.missing
        rounds = self.held + (-(-lines // parts) if parts > 1 else lines - front - back)
        return rounds * self.instructions + (front + back) * len(self.line.outputs) + FILLED


def height_of(ys: Axis) -> int:
    """Lines that are computed together."""
    return ys.stride if ys.is_transposed else 1


def steps_of(x: Correlation) -> tuple[int, int]:
    """Bytes of input and output from the lines that are computed together to the next ones."""
    return (1 if x.ys.is_transposed else x.ys.stride) * x.x.line, height_of(x.ys) * x.y.line


def lines_of(x: Correlation, block: BlockRun) -> list[Line]:
    """The lines of a block, those that read alike taken together."""
    steps = x.x.line, x.x.place, x.y.line, x.y.place
    return list(_lines(x.ys, x.xs.taps, block, *steps))


@cache
def _lines(
    ys: Axis,
    taps: int,
    block: BlockRun,
    line_bytes: int,
    place_bytes: int,
    next_bytes: int,
    output_bytes: int,
) -> tuple[Line, ...]:
    found, width = [], block.first.width
    pad = 0 if ys.is_transposed else ys.pad
    for lines in ys.runs(height_of(ys)):
        uses: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for down in lines.first.reads:
            for across in block.first.reads:
                place = down.place + pad, across.place
                use = down.q * width + across.q, down.tap * taps + across.tap
                uses.setdefault(place, []).append(use)
        inputs = tuple(
            Input(down * line_bytes + across * place_bytes, _apart(uses[down, across]))
            for down, across in sorted(uses)
        )
        sums = product(range(lines.first.width), range(width))
        outputs = tuple(next_bytes * down + output_bytes * across for down, across in sums)
        found.append(Line(lines, inputs, outputs))
    return tuple(found)


def _apart(uses: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The last sum first: the next input begins with another, which waits for no multiply-add."""
    return tuple(sorted(uses, reverse=True))


def round_of(x: Correlation, block: BlockRun) -> Round | None:
    """A block's lines as one loop, None: they have none."""
    if x.ys.is_transposed:
        return None
    lines, taps = lines_of(x, block), x.xs.taps
    line = max(lines, key=lambda each: len(each.inputs))
    by_tap = [
        tuple(i for i in line.inputs if all(tap // taps == down for _, tap in i.uses))
        for down in range(x.ys.taps)
    ]
    at = lines.index(line)
    ends = lines[:at], lines[at + 1 :]
    if len(lines) == 1 or any(sum(each.lines.times for each in end) > 1 for end in ends):
        return None
    sums = set(range(len(line.outputs)))
    if any({q for i in inputs for q, _ in i.uses} != sums for inputs in by_tap):
        return None
    missing = []
    for end in ends:
        read = {tap // taps for each in end for i in each.inputs for _, tap in i.uses}
        missing.append(len(by_tap) - len(read) if end else 0)
    front, back = missing
    has_front = not ends[0] or ends[0][0].inputs == sum(by_tap[front:], ())
    has_back = not ends[1] or ends[1][0].inputs == sum(by_tap[: len(by_tap) - back], ())
    is_one = has_front and has_back and front + back < len(by_tap)
    return Round(line, tuple(by_tap), (front, back)) if is_one else None


def carried_row(x: Correlation, cols: int, parts: int) -> tuple[Carried, ...]:
    """The blocks of a row whose lines so many cores share; none if they are no loops of this kind,
    or other ones are faster.
    """
    row = _carried_row(x, cols)
    if not row or x.ys.outputs // parts < row[0].held:
        return ()
    others = -(-x.ys.outputs // parts) / x.ys.outputs * _cycles_of_lines(x, cols)
    return row if _cycles_of_carried(x, cols, row, parts) < others else ()


@cache
def _carried_row(x: Correlation, cols: int) -> tuple[Carried, ...]:
    """The same however many cores there are, if all are loops of this kind."""
    ys, taps = x.ys, x.xs.taps
    steps = ys.stride, ys.dilation
    if ys.is_transposed or steps != (1, 1) or x.accumulates or not x.carries:
        return ()
    front, back = ys.pad, max(ys.outputs - ys.pad + ys.taps - 1 - ys.inputs, 0)
    held = ys.taps - 1
    if not held or max(front, back) > held or x.x.line not in STEPS:
        return ()
    found = []
    for block in x.xs.runs(cols):
        line = max(lines_of(x, block), key=lambda each: len(each.inputs))
        by_tap = [
            tuple(i for i in line.inputs if any(tap // taps == down for _, tap in i.uses))
            for down in range(ys.taps)
        ]
        sums = set(range(block.first.width))
        if any({q for i in inputs for q, _ in i.uses} != sums for inputs in by_tap):
            return ()
        found.append(Carried(line, tuple(by_tap), (front, back)))
    inputs = max(each.inputs for each in found)
    floats = ys.taps * taps + held * cols + inputs + (x.bias is not None)
    return tuple(found) if ADDRESSES + floats <= REGISTERS else ()


@cache
def _cycles_of_lines(x: Correlation, cols: int) -> float:
    """Cycles of all lines of a row by themselves, nearly."""
    return float(
        sum(
            block.times * each.lines.times * each.instructions
            for block in x.xs.runs(cols)
            for each in lines_of(x, block)
        )
    )


def _cycles_of_carried(x: Correlation, cols: int, row: tuple[Carried, ...], parts: int) -> float:
    """Cycles of a row, nearly; a core's own cache holds one kind of blocks, not several."""
    blocks = x.xs.runs(cols)
    new = sum(each.instructions for each in row) if len(row) > 1 else 0
    return REFETCH * new + sum(
        block.times * each.cycles(x.ys.outputs, parts)
        for block, each in zip(blocks, row, strict=True)
    )


def is_single(x: Correlation, rows: int, cols: int, parts: int) -> bool:
    """Can it be computed in this way, with so many sums of a line, by so many cores a line?"""
    return x.channels == rows == 1 and _is_single(x.one_row, cols, parts > 1)


@cache
def _is_single(x: Correlation, cols: int, is_shared: bool) -> bool:
    x, taps = x.straight, x.ys.taps * x.xs.taps
    height = height_of(x.ys)
    floats = taps + height * cols + INPUTS + (x.bias is not None)
    if ADDRESSES + floats > REGISTERS:
        return False
    if x.element.is_half or height > 1 and is_shared:
        return False
    if any(step not in STEPS for step in steps_of(x)):
        return False
    lines = [line for block in x.xs.runs(cols) for line in lines_of(x, block)]
    most = max(line.instructions for line in lines)
    total = sum(line.instructions + RUN for line in lines)
    return most <= CACHED and total <= LARGEST_CODE and all(line.is_near for line in lines)


def cycles_of_row(x: Correlation, cols: int, parts: int) -> float:
    """Cycles of a row of a group on one core of those that share its lines, nearly."""
    return _cycles_of_row(x.one_row, cols, parts)


@cache
def _cycles_of_row(x: Correlation, cols: int, parts: int) -> float:
    x = x.straight
    total = float(ROW + x.ys.taps * x.xs.taps)
    if carried := carried_row(x, cols, parts):
        around = (BLOCK + RUN) * sum(block.times for block in x.xs.runs(cols))
        return total + around + _cycles_of_carried(x, cols, carried, parts)
    part = -(-x.ys.outputs // parts) / x.ys.outputs
    for block in x.xs.runs(cols):
        total += block.times * (BLOCK + RUN * len(lines_of(x, block)))
    return total + part * _cycles_of_lines(x, cols)


def code_of_row(x: Correlation, cols: int) -> int:
    """Instructions of a row, nearly."""
    x = x.straight
    code = ROW + x.ys.taps * x.xs.taps
    if carried := carried_row(x, cols, 1):
        return code + sum(BLOCK + RUN + each.instructions for each in carried)
    for block in x.xs.runs(cols):
        round_ = round_of(x, block)
        lines = [round_.line] if round_ else lines_of(x, block)
        code += BLOCK + sum(RUN + line.instructions for line in lines)
    return code


def parts_of(x: Correlation, runs: Sequence[BlockRun]) -> Iterator[Block]:
    """The blocks of a channel that a core computes by itself."""
    for kind, (first, times, step) in enumerate(runs):
        for number in range(times):
            source, result = first.base + number * step, first.start + number * first.width
            yield Block(kind, source * x.x.place, result * x.y.place)
