"""Gradients of weights of one channel each in halves, of lines that are too long for registers.

    for each group:  for each line of X:  for each pair of places of dY:  for each tap

All sums of a group's kernel are in registers. A line of X passes once, while the lines of dY that
read it pass beside it, as many as the kernel has. A register has two neighbouring places; a word of
X becomes, after its last use, the pair of its high half and the next word's low one:

    pv.shuffle2.h      high half of a word, low half of the next
    srli, p.exthz      where the second place has no output
    slli               where the first one is outside: 0

Of the registers that words pass through, each has the next one's task a pair later: pairs that are
alike are a loop over as many of them as there are such registers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Literal, NamedTuple

from firmware.builder import Label, Register
from trainlib.codegen.inner_loop import Kind
from trainlib.codegen.strided_access import REACH
from trainlib.conv.correlation import reads_of
from trainlib.conv.paired_gradient import PLACES, PairedGradient
from trainlib.conv.paired_schedule import HALF, REGISTERS
from trainlib.conv.weight_gradient_schedule import WeightGradient
from trainlib.primitive.element import load, load_post
from trainlib.primitive.tensor import WORD


class Lanes(NamedTuple):
    """The pair of X that a pair of places of dY reads through a tap, so many places further on.

    kind    "word": both; "low", "high": the other place is outside, or has no output
    """

    tap: int
    offset: int
    kind: Kind


class Pair(NamedTuple):
    """The work on a pair of places of dY.

    load       the word of X that it loads first: all of it, half of it, nothing
    ends       is that the last one of the line, is it the last pair?
    reads      even places first, they are words
    made       odd offsets of the pairs that are made of words
    """

    load: Literal["word", "half", ""]
    ends: tuple[bool, bool]
    reads: tuple[Lanes, ...]
    made: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """How a line of X passes, of a gradient of weights that may_stream."""

    g: WeightGradient

    @property
    def offsets(self) -> list[int]:
        """Places of X from that of the output, by tap."""
        return [tap - self.g.xs.pad for tap in range(self.g.xs.taps)]

    @property
    def ahead(self) -> int:
        """Words from a pair's own to the last one that it needs."""
        return max((offset + 1) // 2 for offset in self.offsets)

    @property
    def registers(self) -> int:
        """That words pass through."""
        return self.ahead - min(offset // 2 for offset in self.offsets) + 1

    @property
    def words(self) -> int:
        """The words of a line that are read."""
        last = (self.g.xs.outputs - 1) // 2 + self.ahead
        return min(-(-self.g.xs.inputs // 2), last + 1)

    @property
    def is_in_turn(self) -> bool:
        """Is a word used as such before it becomes a pair?"""
        even = [offset for offset in self.offsets if offset % 2 == 0]
        odd = [offset for offset in self.offsets if offset % 2]
        return not even or not odd or max(odd) - 1 <= min(even)

    def load(self, word: int) -> Literal["word", "half", ""]:
        """What there is of a word of a line."""
        if not 0 <= word < self.words:
            return ""
        return "word" if 2 * word + 1 < self.g.xs.inputs else "half"

    @cached_property
    def pairs(self) -> list[Pair]:
        """The pairs of a line of dY, in order."""
        g, made = self.g, set[int]()
        reads: dict[int, list[Lanes]] = {}
        for read in reads_of(g.xs.block(0, g.xs.outputs), g.element, 2):
            place = read.place - (read.kind == "high")
            lanes = Lanes(read.tap, place - 2 * read.sum, read.kind)
            reads.setdefault(read.sum, []).append(lanes)
        found = []
        count = -(-g.xs.outputs // 2)
        for pair in range(count):
            own = sorted(reads.get(pair, []), key=lambda r: (r.offset % 2, r.offset))
            odd = {r.offset: 2 * pair + r.offset for r in own if r.offset % 2 and r.kind != "low"}
            new = tuple(offset for offset, place in odd.items() if place not in made)
            made |= {*odd.values()}
            word = pair + self.ahead
            ends = word == self.words - 1, pair == count - 1
            found.append(Pair(self.load(word), ends, tuple(own), new))
        return found

    def taps_of(self, line: int) -> tuple[int, ...]:
        """The taps along y through which lines of dY read a line of X."""
        ys = self.g.ys
        outputs = ((tap, line + ys.pad - tap * ys.dilation) for tap in range(ys.taps))
        return tuple(tap for tap, output in outputs if 0 <= output < ys.outputs)


def may_stream(g: WeightGradient) -> bool:
    """Is it computed in this way? One channel each, no strides, a kernel that fits registers."""
    ys, xs, stream = g.ys, g.xs, Stream(g)
    is_one = g.rows == g.channels == 1 and g.lanes == 2
    if not is_one or ys.stride > 1 or xs.dilation > 1 or not stream.is_in_turn:
        return False
    far = (ys.taps - 1) * ys.dilation * g.dy.line + WORD, g.x.line, g.dy.line
    floats = ys.taps * xs.taps + stream.registers + ys.taps + 1
    return PLACES + floats <= REGISTERS and max(far) in REACH and stream.words > 0


class StreamedGradient(PairedGradient):
    """The code of all groups.

    px, py    places of the next words of X, of dY in the line that the last tap reads, or would
    slots     registers that words of X pass through; dy: pairs of lines of dY, by tap along y
    other     what is used at once
    """

    @property
    def registers(self) -> int:
        """That all of it takes."""
        taps = self.g.ys.taps
        return PLACES + taps * self.g.xs.taps + self.stream.registers + taps + 1

    @cached_property
    def stream(self) -> Stream:
        """How lines of X pass."""
        return Stream(self.g)

    def take(self) -> None:
        """Take the registers."""
        k, taps = self.k, self.g.ys.taps
        self.px, self.py, self.select = k.x(PLACES)
        self.sums = k.x(taps * self.g.xs.taps)
        self.other, *self.slots = k.x(1 + self.stream.registers)
        self.pairs = k.x(taps)
        self.inputs = [self.other, *self.slots, *self.pairs]

    def start(self) -> None:
        """Let px and py be the places of the first lines."""
        k, v, g = self.k, self.v, self.g
        (t, other), ys = self.inputs[:2], g.ys
        k.mv(self.px, v.load("x_start", t))
        first = (ys.pad - (ys.taps - 1) * ys.dilation) * g.dy.line
        k.add_constant(self.py, v.load("dy", t), first, other)

    def all_lines(self) -> None:
        """Lines by those of dY that read them."""
        k, g, stream = self.k, self.g, self.stream
        for taps, lines in groupby(range(g.ys.inputs), stream.taps_of):
            count = len(list(lines))
            if not taps:
                k.add_constant(self.px, self.px, count * g.x.line, self.other)
                k.add_constant(self.py, self.py, count * g.dy.line, self.other)
                continue
            first = self._line_of(taps[-1])
            k.add_constant(self.py, self.py, first, self.other)
            if count == 1:
                self._pass(taps, first)
            else:
                k.li(self.other, count)
                with k.hwloop(self.other):
                    self._pass(taps, first)
            k.add_constant(self.py, self.py, -first, self.other)

    def _line_of(self, tap: int) -> int:
        """Bytes to the line of dY that reads through a tap from the one of the last tap."""
        return (self.g.ys.taps - 1 - tap) * self.g.ys.dilation * self.g.dy.line

    def _pass(self, taps: tuple[int, ...], first: int) -> None:
        """A line of X, with those of dY that read it through these taps, of which py is at one."""
        k, stream, pairs = self.k, self.stream, self.stream.pairs
        for word in range(stream.ahead):
            self._load_word(word, stream.load(word), is_last=word == stream.words - 1)
        for _, numbers in groupby(range(len(pairs)), pairs.__getitem__):
            some, slots = list(numbers), len(self.slots)
            if len(some) < 2 * slots:
                for number in some:
                    self._pair(number, taps, first)
                continue
            skipped, start = -len(some) % slots, k.label()
            k.li(self.other, -(-len(some) // slots))
            with k.hwloop(self.other, partial(self._enter, start, skipped)):
                for at in range(slots):
                    if at == skipped:
                        k.place(start)
                    self._pair(some[0] + (at - skipped) % slots, taps, first)

    def _enter(self, start: Label, skipped: int) -> None:
        if skipped:
            self.k.j(start)

    def _load_word(self, word: int, size: str, *, is_last: bool) -> None:
        """Load a word of X, and go on to the next one, or the next line."""
        step = self.g.x.line - word * WORD if is_last else WORD
        if size:
            of = WORD if size == "word" else HALF
            load_post(self.k, of, self._slot(word), step, self.px, is_unsigned=True)

    def _slot(self, word: int) -> Register:
        return self.slots[word % len(self.slots)]

    def _pair(self, number: int, taps: tuple[int, ...], first: int) -> None:
        k, g, pair = self.k, self.g, self.stream.pairs[number]
        word_ends, ends = pair.ends
        self._load_word(number + self.stream.ahead, pair.load, is_last=word_ends)
        size = HALF if ends and g.xs.outputs % 2 else WORD
        step = g.dy.line - number * WORD if ends else WORD
        for tap in taps[:-1]:
            offset = self._line_of(tap) - first
            load(k, size, self.pairs[tap], offset, self.py, is_unsigned=True)
        load_post(k, size, self.pairs[taps[-1]], step, self.py, is_unsigned=True)
        for lanes, value in self._values(number, pair):
            for tap in taps:
                acc = self.sums[tap * g.xs.taps + lanes.tap]
                g.element.pairs(k, "vfmac")(acc, value, self.pairs[tap])

    def _values(self, number: int, pair: Pair) -> Iterator[tuple[Lanes, Register]]:
        """What a pair reads, and its register, as they are made."""
        k = self.k
        for lanes in pair.reads:
            word, rest = divmod(2 * number + lanes.offset, 2)
            value = self._slot(word)
            if lanes.kind == "low":
                is_made = rest and any(
                    2 * n + offset == 2 * word + 1
                    for n, each in enumerate(self.stream.pairs[: number + 1])
                    for offset in each.made
                )
                if rest and not is_made:
                    k.srli(self.other, value, 16)
                elif rest or self.stream.load(word) == "word":
                    k.by_field(("p_exthz",), rd=self.other, rs1=value)
                else:
                    yield lanes, value
                    continue
                yield lanes, self.other
                continue
            if lanes.offset in pair.made and lanes.kind == "high":
                k.slli(value, self._slot(word + 1), 16)
            elif lanes.offset in pair.made:
                k.pv_shuffle2_h(value, self._slot(word + 1), self.select)
            yield lanes, value
