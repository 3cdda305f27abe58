"""Correlations of one channel each in halves: every line of the input is loaded once.

    for each group and row:  load all weights
        for each block of columns:  for each line of the input

A line of the input is multiplied with every line of the kernel that reads it: sums of as many
lines of the output as the kernel has are in registers, the first of which the line ends and
stores, the last of which it begins, with a product. A register has two neighbouring places. Words
are loaded where they are aligned; pairs across two of them are made in registers:

    pv.shuffle2.h    high half of a word, low half of the next, in place of the first
    slli, srli       where the other half is outside: 0

So of the taps along x those that read words come first, then places in order: see taps_of.

Lines that are alike are a loop. Either its body has as many lines as sums have registers for, and
nothing is moved; or it has one, after which sums move to the registers of the line before them,
where so little code fits a core's own cache and so much does not.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from trainlib.codegen.inner_loop import CACHED, REFETCH, Kind
from trainlib.codegen.strided_access import REACH
from trainlib.conv.axis import Axis, BlockRun
from trainlib.conv.correlation import Correlation, Lane
from trainlib.primitive.tensor import WORD

HALF = WORD // 2
HIGH_LOW = 1 | 2 << 16  # of pv.shuffle2.h: low is the high half of rd, high the low half of rs1
HIGH_HIGH = 1 | 3 << 16  # likewise: low is the high half of rd, high the one of rs1
REGISTERS = 28  # for all of it; others hold what stands around
AROUND = 4  # two places, the shuffle, and a start
LARGEST = 700  # instructions of a block's lines
LINES = 5  # of a kernel at most
HELD = 105  # instructions of a loop that a core's own cache holds whatever lies around it


class Touch(NamedTuple):
    """A line of the input adds to one of the output through a tap: as its first, as its last?"""

    output: int
    tap: int
    begins: bool
    ends: bool


class Stretch(NamedTuple):
    """Lines of the input that are alike; outputs that the last of them ends besides."""

    first: int
    times: int
    ends: tuple[int, ...] = ()


class Product(NamedTuple):
    """The two outputs of a pair read through a tap the inputs from a place on."""

    pair: int
    tap: int
    place: int


def taps_of(xs: Axis) -> list[int]:
    """Taps along x in the order in which pairs are added up: first those that read words."""
    return sorted(range(xs.taps), key=lambda tap: (_first(xs, tap) % 2, _first(xs, tap)))


def _first(xs: Axis, tap: int) -> int:
    """The place that output 0 reads, inside or outside."""
    if xs.is_transposed:
        return xs.pad - tap * xs.dilation
    return tap * xs.dilation - xs.pad


def may_pair(ys: Axis, xs: Axis, channels: int) -> bool:
    """Is it computed in this way? All that a tile of it is, too."""
    has_steps = ys.stride > 1 or ys.dilation > 1 or xs.stride > 1
    reads = (axis.line(output).reads for axis in (ys, xs) for output in range(axis.outputs))
    fits = ys.taps <= LINES and _registers(ys.taps, xs.taps, 1) <= REGISTERS
    line, next_line = (-(-places // 2) * WORD for places in (xs.inputs, xs.outputs))
    fits &= max(_far(ys, line, next_line, 2)) in REACH
    return channels == 1 and not has_steps and fits and all(reads)


def _far(ys: Axis, line: int, next_line: int, cols: int) -> tuple[int, int]:
    """Bytes from a line of the output to the last one held, and to the next one of the input."""
    return ys.taps * next_line + 2 * cols, line + 2 * cols


def _registers(lines: int, taps: int, pairs: int) -> int:
    words = pairs + 1 + taps // 2
    return lines * pairs + lines * taps + words + AROUND


@dataclass(frozen=True)
class Block:
    """The code of a block of columns for all lines.

    run         of blocks that read alike
    overlaps    of an odd number of outputs, has the last register the last two of them, the other
                half of which counts for nothing? Else the last one and nothing
    """

    x: Correlation
    run: BlockRun
    overlaps: bool = False

    @property
    def starts(self) -> list[int]:
        """Of each register for sums, the output in its low half."""
        width = self.run.first.width
        found = list(range(0, width, 2))
        return [*found[:-1], width - 2] if self.overlaps and width % 2 and width > 1 else found

    @cached_property
    def products(self) -> list[Product]:
        """Products of a line of the kernel, in order; places count from the block's."""
        x, first = self.x, self.run.first
        reads = {(read.tap, read.q): read.place for read in first.reads}
        found = []
        for tap in taps_of(x.xs):
            for pair, q in enumerate(self.starts):
                low, high = reads.get((tap, q)), reads.get((tap, q + 1))
                if low is not None and q % 2 == 0:
                    found.append(Product(pair, tap, low))
                elif high is not None:
                    found.append(Product(pair, tap, high - 1))
        return found

    @cached_property
    def words(self) -> dict[int, int]:
        """By place, the register of each word that is loaded; its bytes are 2 at the border."""
        needed = set()
        for product in self.products:
            at = product.place
            needed |= {at} if at % 2 == 0 else {at - 1, at + 1}
        inside = sorted(at for at in needed if 0 <= at + self.run.first.base < self.x.xs.inputs)
        return {place: number for number, place in enumerate(inside)}

    @property
    def has_front(self) -> bool:
        """Is there a pair whose low half is outside?"""
        return any(p.place + self.run.first.base < 0 for p in self.products)

    @property
    def inputs(self) -> int:
        """Registers for words and pairs."""
        return len(self.words) + self.has_front

    @cached_property
    def places(self) -> list[int]:
        """Where all pairs begin that are read."""
        return sorted({product.place for product in self.products})

    @property
    def pairs(self) -> int:
        """Registers for the sums of a line."""
        return -(-self.run.first.width // 2)

    def bytes(self, place: int) -> int:
        """Bytes of the word at a place: the last one of a line of odd length is half a word."""
        is_last = place + self.run.first.base + 1 == self.x.xs.inputs
        return HALF if is_last and self.run.times == 1 else WORD

    @cached_property
    def lines(self) -> list[tuple[Touch, ...]]:
        """The lines of the output to which each line of the input adds."""
        ys = self.x.ys
        reads: list[list[tuple[int, int]]] = [[] for _ in range(ys.inputs)]
        for output in range(ys.outputs):
            for tap in range(ys.taps):
                source = ys.source(output, tap)
                if source is not None:
                    reads[source].append((output, tap))
        ends = {output: line for line, some in enumerate(reads) for output, _ in some}
        seen: set[int] = set()
        found = []
        for line, some in enumerate(reads):
            found.append(tuple(Touch(o, t, o not in seen, ends[o] == line) for o, t in some))
            seen |= {output for output, _ in some}
        return found

    @property
    def stretches(self) -> list[Stretch]:
        """All lines, in order.

        Lines at the end may go with whole ones before them: what they add besides is not stored,
        and the last one may end more. Not where sums start with what outputs hold: those that they
        begin besides would be read from what follows, the outputs of other cores.
        """
        alike = [tuple(touch[1:] for touch in line) for line in self.lines]
        found, at = list[Stretch](), 0
        for _, group in groupby(alike):
            count = len(list(group))
            before = found[-1] if found else Stretch(0, 0)
            if count == 1 and not self.x.accumulates and self._may_join(before, at):
                is_last = at + 1 == len(alike)
                more = [touch.output for touch in self.lines[at] if touch.ends][1:]
                ends = tuple(more) if is_last else ()
                found[-1] = Stretch(before.first, before.times + 1, ends)
            else:
                found.append(Stretch(at, count))
            at += count
        return found

    def _may_join(self, before: Stretch, line: int) -> bool:
        """Does a line do nothing else than whole ones before, but that the last one ends more?"""
        taps, after = range(self.x.ys.taps), len(self.lines) - 1 - line
        is_loop = before.times + 1 >= 2 * len(taps)
        whole = self.lines[before.first] if is_loop else ()
        last = self.lines[line]
        own, ends = ([touch[at] for touch in last] for at in (1, 3))
        is_whole = sorted(touch.tap for touch in whole) == [*taps] and whole[0].ends
        is_first = [touch.ends for touch in whole].count(True) == 1
        follows = own == [touch.tap for touch in whole][: len(own)]
        is_alike = ends[:1] == [True] and (not any(ends[1:]) or not after)
        return is_whole and is_first and follows and is_alike

    @property
    def line_cycles(self) -> int:
        """Cycles, nearly, of a line that adds to as many lines as there can be."""
        odd = len({p.place for p in self.products if p.place % 2})
        macs = self.x.ys.taps * len(self.products)
        return len(self.words) + odd + macs + self.pairs

    @property
    def code(self) -> int:
        """Instructions of all lines, nearly."""
        return self._code(moves=self.has_moves)

    @property
    def cycles(self) -> float:
        """Cycles of all lines, nearly."""
        return self._cycles(moves=self.has_moves)

    @cached_property
    def has_moves(self) -> bool:
        """Do sums move from line to line?"""
        return self._cycles(moves=True) < self._cycles(moves=False)

    def _code(self, *, moves: bool) -> int:
        taps = self.x.ys.taps
        most = 1 if moves else 2 * taps - 1
        return sum(min(each.times, most) for each in self.stretches) * self.line_cycles

    def _cycles(self, *, moves: bool) -> float:
        taps, code = self.x.ys.taps, self._code(moves=moves)
        total = float(len(self.lines) * self.line_cycles)
        if moves:
            loops = sum(each.times for each in self.stretches if each.times > 1)
            total += loops * (taps - 1) * self.pairs
        elif taps * self.line_cycles > HELD:
            total += REFETCH * total
        if code > CACHED:
            total += REFETCH * code
        return total


def blocks_of(x: Correlation, cols: int) -> list[Block]:
    """The blocks of a line."""
    return [Block(x, run) for run in x.xs.runs(cols)]


class StridedRead(NamedTuple):
    """The elements that two neighbouring outputs read through a tap: every second place.

    word       whose half the first one reads; the second one reads the next word's
    is_high    are these the high halves?
    kind       "word": both; "low", "high": the other place is outside, or has no output
    """

    tap: int
    word: int
    is_high: bool
    kind: Kind

    @classmethod
    def of(cls, read: Lane) -> "StridedRead":
        """From the first place that is inside."""
        place = read.place - 2 * (read.kind == "high")
        return cls(read.tap, place // 2, place % 2 == 1, read.kind)

    @property
    def words(self) -> list[int]:
        """The words that are read."""
        first = self.word + (self.kind == "high")
        return list(range(first, self.word + 1 + (self.kind != "low")))


def may_stride(ys: Axis, xs: Axis, channels: int) -> bool:
    """Is it computed by pairs of outputs that read every second place? All tiles of it are, too."""
    if channels > 1 or xs.stride != 2 or xs.dilation > 1 or ys.is_transposed or xs.is_transposed:
        return False
    reads = (axis.line(output).reads for axis in (ys, xs) for output in range(axis.outputs))
    line = -(-xs.inputs // 2) * WORD
    return strided_registers(ys, xs) < REGISTERS and _reaches(ys, xs, line) and all(reads)


def _reaches(ys: Axis, xs: Axis, line: int) -> bool:
    """Do loads reach the words of all lines, so many bytes apart, that an output reads?"""
    return (ys.taps - 1) * ys.dilation * line + WORD * strided_words(xs) in REACH


def strided_words(xs: Axis) -> int:
    """Registers for the words of a line that two outputs read; two at least."""
    places = range(-xs.pad, xs.taps - xs.pad)
    return max(2, places[-1] // 2 + 1 - places[0] // 2 + 1)


def strided_registers(ys: Axis, xs: Axis) -> int:
    """For all of it, but for a bias."""
    return 5 + ys.taps * xs.taps + 2 * strided_words(xs)


def _cycles_of_strided_row(x: Correlation) -> float:
    pairs, words = -(-x.xs.outputs // 2), strided_words(x.xs)
    line = pairs * (x.ys.taps * (words + 2 * x.xs.taps) + 2) + 8
    return 20.0 + x.ys.taps * x.xs.taps + x.ys.outputs * line


def is_paired(x: Correlation, rows: int, cols: int) -> bool:
    """Can it be computed in this way, with so many sums a line?"""
    x = x.straight
    if x.xs.stride > 1:
        return rows == cols == 1 and _reaches(x.ys, x.xs, x.x.line)
    if x.ys.is_transposed or rows > 1 or x.lanes == 1 or cols % 2:
        return False
    blocks = blocks_of(x, cols)
    floats = x.ys.taps * (x.xs.taps + cols // 2) + max(block.inputs for block in blocks) + AROUND
    is_near = max(_far(x.ys, x.x.line, x.y.line, cols)) in REACH
    return floats <= REGISTERS and is_near and max(block.code for block in blocks) <= LARGEST


def cycles_of_paired_row(x: Correlation, cols: int) -> float:
    """Cycles of a row of a group on one core, nearly."""
    x = x.straight
    if x.xs.stride > 1:
        return _cycles_of_strided_row(x)
    around, per_block = 20.0 + x.ys.taps * x.xs.taps, 12
    return around + sum(b.run.times * (per_block + b.cycles) for b in blocks_of(x, cols))
