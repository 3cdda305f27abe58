"""Gradients of weights of one channel each in halves: lines of both images are loaded once.

    for each group:  for each line of X:  for each tap

All sums of a group's kernel are in registers, and as many lines of dY as the kernel has: a line of
X is multiplied with all of them, the first of which it ends, the last of which it loads. A register
has two neighbouring places; pairs of X across two words are made in registers, in place:

    pv.shuffle2.h      high half of a word, low half of the next
    srli, p.exthz      where the second place has no output
    slli               where the first one is outside: 0
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.spill import Values, values
from trainlib.codegen.strided_access import REACH
from trainlib.codegen.work_split import EqualParts, Partition, grid_of
from trainlib.conv.correlation import Lane, reads_of
from trainlib.conv.paired_schedule import HALF, HIGH_HIGH, HIGH_LOW, REGISTERS
from trainlib.conv.weight_gradient_schedule import WeightGradient
from trainlib.primitive.element import load, load_post, store
from trainlib.primitive.tensor import WORD, Address

PLACES = 3  # two pointers and the shuffle
SCRATCH = 3  # registers for words of X, at least, which are scratch around the lines
LARGEST = 700  # instructions of all lines


class Pair(NamedTuple):
    """A pair of places of X, and what is multiplied with it: taps along x with pairs of dY."""

    place: int
    is_cut: bool
    products: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Lines:
    """The work on a line of X, of a gradient of weights that may_load_once."""

    g: WeightGradient

    @cached_property
    def reads(self) -> tuple[Lane, ...]:
        """Reads of all outputs of a line."""
        return reads_of(self.g.xs.block(0, self.g.xs.outputs), self.g.element, 2)

    @property
    def words(self) -> list[int]:
        """Places of the words of a line of X."""
        return list(range(0, self.g.xs.inputs, 2))

    @property
    def pairs(self) -> int:
        """Registers for a line of dY."""
        return -(-self.g.xs.outputs // 2)

    @property
    def sums(self) -> int:
        """Registers for sums: all taps'."""
        return self.g.ys.taps * self.g.xs.taps

    @cached_property
    def made(self) -> list[Pair]:
        """Pairs in the order in which words become them; sums go on in the order of places.

        Even places are words. Of odd ones, whole pairs come before those that are cut.
        """
        found: dict[tuple[bool, int, bool], list[tuple[int, int]]] = {}
        for read in self.reads:
            place = -1 if read.kind == "high" else read.place
            is_odd = place % 2 == 1
            key = is_odd, place, is_odd and read.kind == "low"
            found.setdefault(key, []).append((read.tap, read.sum))
        return [Pair(place, cut, tuple(of)) for (_, place, cut), of in sorted(found.items())]

    def touches(self, line: int) -> list[tuple[int, int]]:
        """Taps along y through which lines of dY read a line of X, and those."""
        ys = self.g.ys
        outputs = ((tap, line + ys.pad - tap) for tap in range(ys.taps))
        return [(tap, output) for tap, output in outputs if 0 <= output < ys.outputs]

    @property
    def code(self) -> int:
        """Instructions of all lines, nearly."""
        products = self.g.ys.taps * len(self.reads)
        lines = min(self.g.ys.inputs, 4 * self.g.ys.taps)
        return lines * (products + len(self.made) + len(self.words) + self.pairs)

    @property
    def registers(self) -> int:
        """That all of it takes."""
        inputs = max(SCRATCH, len(self.words) + 1)
        return PLACES + self.sums + self.g.ys.taps * self.pairs + inputs


def may_load_once(g: WeightGradient) -> bool:
    """Is it computed in this way? One channel each, as many outputs as inputs, and short lines."""
    ys, xs = g.ys, g.xs
    is_one = g.rows == g.channels == 1 and g.lanes == 2
    is_same = all(a.inputs == a.outputs and a.stride == a.dilation == 1 for a in (ys, xs))
    if not (is_one and is_same) or ys.pad >= ys.taps or xs.inputs < 2:
        return False
    lines = Lines(g)
    # Even places whose second half counts for no output are the last ones alone.
    is_plain = all(
        read.place % 2 or read.place + 1 == xs.inputs for read in lines.reads if read.kind == "low"
    )
    is_near = {g.x.line, g.dy.line} <= {*REACH}
    fits = lines.registers <= REGISTERS and lines.code <= LARGEST
    return is_plain and is_near and fits and all(map(lines.touches, range(ys.inputs)))


class PairedGradient:
    """The code of all groups.

    px, py      places of the next lines of X and dY
    sums        by tap; dy: of lines of dY, by line modulo those of the kernel
    inputs      words of a line of X, and a pair whose low half is outside
    """

    def __init__(self, k: Kernel, g: WeightGradient, others: Sequence[Address]) -> None:
        self.k, self.g, self.others, self.lines = k, g, others, Lines(g)

    def emit(self, team: Team) -> None:
        """Partition the groups, and do it."""
        k, g = self.k, self.g
        parts = min(team.cores, g.groups)
        with k.compressing(), k.scope():
            given = dict(zip(("dy", "x_start", "dw_row"), k.x(3), strict=True))
            given |= {"each": g.each} if g.each else {}
            i, t = k.x(2)
            groups = Partition(k, g.groups, parts, i, t)
            with grid_of(k, team, (parts, 1), i, i, t):
                for part in self._parts(groups):
                    for name, of, step in (
                        ("dy", g.dy.address, g.dy.group),
                        ("x_start", g.x.address, g.x.group),
                        ("dw_row", g.dw.address, g.dw.group),
                    ):
                        groups.load_start(given[name], part, of, step)
                    with k.scope():
                        k.free(i, t)
                        self._part(given, 0 if g.each else part.size)

    def _parts(self, groups: Partition) -> Iterator[EqualParts]:
        """Emit the body for each size that cores' parts have; or for the one that a register says,
        by which the core's index is multiplied.
        """
        if not self.g.each:
            yield from groups.parts_of_cores()
            return
        self.k.mul(groups.index, groups.index, self.g.each)
        yield EqualParts(1, 0)

    def _part(self, given: dict[str, Register], groups: int) -> None:
        k, g = self.k, self.g
        bases = [g.dy.address, g.x.address, g.dw.address, *self.others]
        with values(k, given, ["groups"], self.registers, bases) as homes:
            self.take()
            self.v = Values(k, homes, *self.inputs[:2])
            k.li(self.select, HIGH_LOW)
            with self.v.loop("groups", groups) if groups else self.v.loop_from("each", "each"):
                self._group()
                for name, step in (("dy", g.dy), ("x_start", g.x), ("dw_row", g.dw)):
                    self.v.add(name, step.group)

    @property
    def registers(self) -> int:
        """That all of it takes."""
        return self.lines.registers

    def take(self) -> None:
        """Take the registers."""
        k, lines = self.k, self.lines
        self.px, self.py = k.short(PLACES - 1)
        self.inputs = k.short(max(SCRATCH, len(lines.words) + 1))
        self.dy: list[list[Register]] = [k.short(lines.pairs) for _ in range(self.g.ys.taps)]
        self.sums, self.select = k.x(lines.sums), k.x()

    def _group(self) -> None:
        self._start_sums()
        self.start()
        self.all_lines()
        self._end_sums()

    def start(self) -> None:
        """Let px and py be the places of the first lines."""
        k, v, t = self.k, self.v, self.inputs[0]
        k.mv(self.px, v.load("x_start", t))
        k.mv(self.py, v.load("dy", t))

    def all_lines(self) -> None:
        """Lines one by one; those in the midst, which meet all taps, in a loop over so many, which
        is entered after those that are too many.
        """
        k, g = self.k, self.g
        for line in range(g.ys.pad):  # those that the first line of X does not load
            if line < g.ys.outputs:
                self._load_dy(line)
        taps = g.ys.taps
        whole = [y for y in range(g.ys.inputs) if len(self.lines.touches(y)) == taps]
        if len(whole) < 2 * taps:
            for line in range(g.ys.inputs):
                self._line(line)
            return
        for line in range(whole[0]):
            self._line(line)
        skipped, start = -len(whole) % taps, k.label()

        def enter() -> None:
            if skipped:
                k.j(start)

        k.li(self.inputs[0], -(-len(whole) // taps))
        with k.hwloop(self.inputs[0], enter):
            for at in range(taps):
                if at == skipped:
                    k.place(start)
                self._line(whole[0] + (at - skipped) % taps)
        for line in range(whole[-1] + 1, g.ys.inputs):
            self._line(line)

    def _load_dy(self, line: int) -> None:
        """Load a line of dY."""
        g = self.g
        self._load_line(self.dy[line % g.ys.taps], g.xs.outputs, g.dy.line, self.py)

    def _load_line(
        self, registers: Sequence[Register], places: int, step: int, p: Register
    ) -> None:
        """Load words of a line, of the last place alone a half, the first one at last."""
        sizes = [WORD if 2 * number + 1 < places else HALF for number in range(-(-places // 2))]
        for number, size in enumerate(sizes[1:], 1):
            load(self.k, size, registers[number], number * WORD, p, is_unsigned=True)
        load_post(self.k, sizes[0], registers[0], step, p, is_unsigned=True)

    def _line(self, line: int) -> None:
        k, g, lines = self.k, self.g, self.lines
        touches = lines.touches(line)
        self._load_line(self.inputs, g.xs.inputs, g.x.line, self.px)
        if touches[0][0] == 0:
            self._load_dy(touches[0][1])
        done: set[int] = set()
        for pair in lines.made:
            value = self._make(pair, done)
            for tap, q in pair.products:
                for s, output in reversed(touches):  # what is loaded last is used last
                    acc = self.sums[s * g.xs.taps + tap]
                    g.element.pairs(k, "vfmac")(acc, value, self.dy[output % g.ys.taps][q])

    def _make(self, pair: Pair, done: set[int]) -> Register:
        """The register of a pair; done: places that are not words any more."""
        k, words = self.k, self.lines.words
        if pair.place % 2 == 0:
            return self.inputs[pair.place // 2]
        if pair.place < 0:
            k.slli(self.inputs[len(words)], self.inputs[0], 16)
            return self.inputs[len(words)]
        number = pair.place // 2
        value, following = self.inputs[number], number + 1
        if pair.is_cut and number in done:
            k.by_field(("p_exthz",), rd=value, rs1=value)
        elif pair.is_cut or following == len(words):
            k.srli(value, value, 16)
        else:
            k.pv_shuffle2_h(value, self.inputs[following], self.select)
        done.add(number)
        return value

    def _start_sums(self) -> None:
        """Let sums be what they start with: of halves, that of even places."""
        k, g = self.k, self.g
        if not g.accumulates:
            for register in self.sums:
                k.li(register, 0)
            return
        place = self.v.load("dw_row", self.inputs[0])
        for register, offset in self._places():
            load(k, HALF if g.closes else WORD, register, offset, place, is_unsigned=True)

    def _end_sums(self) -> None:
        """Store the sums; as halves, lanes added to each other."""
        k, (place, other, *_) = self.k, self.inputs
        if not self.g.closes:
            place = self.v.load("dw_row", place)
            for register, offset in self._places():
                k.sw(register, offset, place)
            return
        ends = self._closed(place, other)
        place = self.v.load("dw_row", place)
        for size, register, offset in ends:
            store(k, size, register, offset, place)

    def _closed(self, select: Register, even: Register) -> list[tuple[int, Register, int]]:
        """Add lanes to each other, two sums at once: each register's bytes and their place."""
        k, element, places = self.k, self.g.element, list(self._places())
        found = []
        k.li(select, HIGH_HIGH)
        while places:
            (first, at), *others = places
            if others and others[0][1] == at + HALF:
                second, *_ = others.pop(0)
                k.pv_pack_h(even, second, first)
                k.pv_shuffle2_h(first, second, select)
                element.pairs(k, "vfadd")(first, even, first)
                found.append((WORD, first, at))
            else:
                k.srli(even, first, 16)
                element.scalar(k, "fadd")(first, first, even)
                found.append((HALF, first, at))
            places = others
        return found

    def _places(self) -> Iterator[tuple[Register, int]]:
        """Each sum, and bytes to it from the first one."""
        dw, taps = self.g.dw, self.g.xs.taps
        for number, register in enumerate(self.sums):
            yield register, number // taps * dw.line + number % taps * dw.place
