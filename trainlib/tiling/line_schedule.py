"""The schedule of cores that have equal numbers of lines, where items can't be shared out evenly.

All lines of all items, one after the other, are cut in as many equal parts as there are cores. A
core computes its own in segments: lines of an item that are next to each other, few in the first
segment and in the last one, whose copies nothing hides, most between. While one is computed, the
next one's input is copied, then the last one's output; L1 has room for two of each.

Where lines of two tensors are read, and added up, the next one's lines of both are copied. Each
core has a sum for every item that it has lines of; in the end those of an item are added up by the
core that has begun it.

A table says it, each core's in L1: stops as in trainlib.tiling.per_core_loop, but with addresses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, product
from math import inf

from firmware.builder import Kernel
from firmware.drivers import LONGEST
from firmware.runtime import Team
from trainlib.primitive.per_core import Alone, Cuts
from trainlib.primitive.tensor import BANKS, WORD, Tensors
from trainlib.primitive.tile_spec import Sizes, Tiling
from trainlib.tiling.per_core_schedule import ALIGN, BEAT, SKEW, BlockRounds, Copied
from trainlib.tiling.tile_size import MOST_ISSUERS, timed_cycles

SLOTS = 2  # segments of a streamed tensor that a core has in L1
LEAST = 6  # lines of an item, and of a core
STOP_WORDS = 12  # of a stop in the table, at most
LEAST_SUMMED = 12  # of a core, if they are summed up
MOST_TABLE = 1024  # bytes of a core
UNITS = 2, 3, 5, 8, 12  # lines of the first segment that are tried
GROWTHS = 1.5, 2.5
SUMMED_UNITS, SUMMED_GROWTHS = (2, 3, 4, 5, 8, 12), (1.0, 1.5, 2.5)  # if they are summed up
AROUND = 20  # cycles that a copy takes besides those for its bytes, about
NEW = 80  # cycles of a segment's block besides lines: a stop, and code that is fetched again
SEGMENT = 60  # cycles of a segment besides
KIND = 350  # cycles of code for blocks that is new
WORTH = 0.95  # of the cycles of tiles, whose estimate is not timed: at most, if they are summed up
MOST_ITEMS = 3  # of a core, equal in number, of which lines are summed up in fewer cycles
MEETING = 1.1  # how much longer lines take since cores and the DMA meet in banks
SUMMED = 250  # cycles after the last line of what is summed up
SHOWN = 0.3  # of the first copy and the last one, which others' and code that is fetched hide


@dataclass(frozen=True)
class Segment:
    """Lines of an item, from the first one up to an end."""

    item: int
    first: int
    end: int

    @property
    def lines(self) -> int:
        """How many."""
        return self.end - self.first


@dataclass(frozen=True)
class LineStop:
    """A copy is started, then a part of a segment is computed.

    copied    None: nothing
    of        the number of the segment that it is of
    part      None: nothing; the next stop does not wait then
    """

    copied: Copied | None
    of: int
    number: int
    part: BlockRounds | None


@dataclass(frozen=True, eq=False)
class LineShare:
    """The work of the cores.

    unit      lines of the first segment of a core, and of the last one, if no item ends there
    growth    how many times as long as the one before a segment is, up to the middle
    most      lines of a segment
    tapers    is the last segment short, too? Its output is there sooner, for a segment more
    """

    alone: Alone
    tensors: Tensors
    cores: int
    unit: int
    growth: float
    most: int
    tapers: bool = True

    @property
    def cuts(self) -> Cuts:
        """How items are cut."""
        assert self.alone.cuts
        return self.alone.cuts

    @property
    def others(self) -> list[str]:
        """Tensors that are not streamed."""
        known = self.alone.source, self.alone.result, self.alone.summed
        return [n for n in self.tensors if n not in known]

    def size(self, name: str) -> int:
        """Bytes of an item."""
        return self.tensors[name].size // self.alone.items

    @cached_property
    def segments(self) -> list[list[Segment]]:
        """Those of each core."""
        return [
            list(self._segments(*pair)) for pair in pairwise(map(self._end, range(self.cores + 1)))
        ]

    def _end(self, core: int) -> int:
        """The number of lines of the cores before one; items are not cut among the first lines or
        last ones that no code can begin or end with.
        """
        end, rounds = self.alone.items * self.alone.rounds * core // self.cores, self.alone.rounds
        after = end % rounds
        if after < self.cuts.front:
            return end - after
        return end if after < rounds - self.cuts.back else end - after + rounds

    @property
    def exists(self) -> bool:
        """Has every core segments, ones that code can begin and end with?"""
        cuts, rounds = self.cuts, self.alone.rounds
        return all(self.segments) and all(
            (s.first == 0 or s.first >= cuts.front)
            and (s.end == rounds or s.end <= rounds - cuts.back)
            and self.rounds(s) > 0
            for some in self.segments
            for s in some
        )

    def rounds(self, segment: Segment) -> int:
        """Rounds of a block of a segment."""
        above = self.cuts.above if segment.first == 0 else 0
        return segment.lines - above - (self.cuts.back if segment.end == self.alone.rounds else 0)

    def _segments(self, start: int, end: int) -> Iterator[Segment]:
        """Lines of all items, from one to another, in segments."""
        rounds, most = self.alone.rounds, float(self.unit)
        cuts = [start, *range((start // rounds + 1) * rounds, end, rounds), end]
        for first, stop in pairwise(cuts):
            item, before = first // rounds, first % rounds
            last = before + stop - first
            lengths = self._lengths(stop - first, most, self.tapers and stop == end)
            for cut in list(accumulate(lengths, initial=before))[1:]:
                if (after := self._near(cut, last)) > before:
                    most = max(most, self.growth * (after - before))
                    yield Segment(item, before, after)
                    before = after
            if not self.alone.summed:
                most = inf  # what is written between leaves copies time

    def _near(self, end: int, last: int) -> int:
        """The end of a segment, none of an item's first or last lines; or the last one there is."""
        if end >= last:
            return last
        low, high = self.cuts.front, self.alone.rounds - self.cuts.back - 1
        return min(max(end, low), high if last == self.alone.rounds else last - 1)

    def _lengths(self, lines: int, length: float, ends: bool) -> list[int]:
        """Of the segments of lines of an item.

        length    of the first one at most, while they grow
        ends      are they the core's last one? Then the last segment is short
        """
        front, back, left = list[int](), list[int](), lines
        last = self.unit if ends else 0.0
        while True:
            ahead, behind = (int(each) if each <= self.most else 0 for each in (length, last))
            if not ahead + behind or left < ahead + behind + max(ahead, behind):
                break
            front += [ahead] * bool(ahead)
            back += [behind] * bool(behind)
            left -= ahead + behind
            length, last = length * self.growth, last * self.growth
        times = -(-left // self.most)
        middle = [left // times + (i < left % times) for i in range(times)]
        return [*front, *middle, *reversed(back)]

    def span(self, segment: Segment) -> tuple[int, int]:
        """The bytes of its item's source that a segment reads."""
        return self.cuts.span(segment.first, segment.end)

    # L1

    @cached_property
    def _slot(self) -> dict[str, int]:
        """Bytes of a slot of a streamed tensor."""
        every = [segment for some in self.segments for segment in some]
        spans = [end - start for start, end in map(self.span, every)]
        lines = max(segment.lines for segment in every)
        return {self.alone.source: max(spans), self.alone.result: lines * self.cuts.line}

    def items(self, core: int) -> range:
        """The items that a core has lines of."""
        segments = self.segments[core]
        return range(segments[0].item, segments[-1].item + 1)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where in what a core has tensors are."""
        count = max(len(self.items(core)) for core in range(self.cores))
        places, at = {}, 0
        for name in (name for name in self.tensors if name != self.alone.summed):
            places[name] = at
            held = SLOTS * self._slot[name] if name in self._slot else count * self.size(name)
            at += -(-held // WORD) * WORD
        return places | {"": at}

    @property
    def block(self) -> int:
        """Bytes in L1 from what a core has to what the next one has."""
        size = self._places[""]
        return size + (SKEW * WORD - size) % (BANKS * WORD)

    @property
    def size_in_l1(self) -> int:
        """Bytes of L1 that all of it takes."""
        return self.cores * (self.block + self.table) + self.sums

    @property
    def sums(self) -> int:
        """Bytes of all items' sums, and of each core's of an item that it has not begun."""
        summed = self.alone.summed
        return (self.alone.items + self.cores) * self.size(summed) if summed else 0

    def begun(self, core: int) -> range:
        """The items that begin in a core."""
        items = self.items(core)
        return items if self.segments[core][0].first == 0 else items[1:]

    def parts(self, core: int) -> int:
        """How many cores after this one have parts of the last item that it has begun."""
        begun, after = self.begun(core), self.segments[core + 1 :]
        return sum(some[0].item == begun[-1] and some[0].first > 0 for some in after if begun)

    @cached_property
    def table(self) -> int:
        """Bytes of a core's table, at most."""
        stops = max(len(list(self.stops(core))) for core in range(self.cores))
        return WORD * STOP_WORDS * (stops + len(self.others) + 2)

    def slot(self, name: str, number: int) -> int:
        """Where in what a core has that of a segment is."""
        return self._places[name] + number % SLOTS * self._slot[name]

    def place(self, name: str, core: int, item: int) -> int:
        """Likewise an item of what stays."""
        return self._places[name] + (item - self.items(core).start) * self.size(name)

    # Stops

    def source(self, core: int, number: int) -> Copied:
        """The copy of a segment's input."""
        segment = self.segments[core][number]
        start, end = self.span(segment)
        return Copied(self.alone.source, segment.item, start, end - start)

    def result(self, core: int, number: int) -> Copied:
        """The copy of its output."""
        segment, line = self.segments[core][number], self.cuts.line
        return Copied(self.alone.result, segment.item, segment.first * line, segment.lines * line)

    def stops(self, core: int) -> Iterator[LineStop]:
        """Those of a core, the first copies left out.

        NOTE: at the first one the rest of the table is copied, see trainlib.tiling.line_loop: one
        more command would wait until other cores' first copies have begun, nothing computed.
        """
        segments, blocks = self.segments[core], range(len(self.alone.blocks))
        for number, segment in enumerate(segments):
            copies: list[tuple[Copied | None, int]] = [] if number else [(None, 0)]
            if number + 1 < len(segments):
                copies.append((self.source(core, number + 1), number + 1))
                if self.alone.summed:
                    copies.append((self.result(core, number + 1), number + 1))
            if number and not self.alone.summed:
                copies.append((self.result(core, number - 1), number - 1))
            rounds = self.rounds(segment)
            count = max(min(len(copies), rounds), 1) if len(blocks) == 1 else 1
            ends = [rounds * part // count for part in range(count + 1)]
            cuts = [end - start for start, end in pairwise(ends)]
            parts = [
                BlockRounds(block, count, at == 0, at == len(cuts) - 1)
                for block in (reversed(blocks) if number % 2 else blocks)
                for at, count in enumerate(cuts)
            ]
            while len(copies) > len(parts):
                if (copy := copies.pop(0))[0]:
                    yield LineStop(*copy, number, None)
            copies += [(None, 0)] * (len(parts) - len(copies))
            for copied, part in zip(copies, parts, strict=True):
                yield LineStop(*copied, number, part)

    @cached_property
    def cycles(self) -> float:
        """Until the last core's last copy is done, if all cores' copies take turns.

        NOTE: of 430 shares of 25 convolutions, it errs by 8 %.
        """
        new = KIND * len({block.kind for block in self.alone.blocks})
        return new + max(self._each_cycles)

    @property
    def cost(self) -> float:
        """Those cycles and an average core's: so of shares that one core bounds alike, that is
        taken which has less for the others.

        NOTE: of 370 shares of 12 convolutions, what costs least takes 1.009 of the fewest cycles.
        """
        return self.cycles + sum(self._each_cycles) / self.cores

    @cached_property
    def _each_cycles(self) -> list[float]:
        """Of each core, without code that is new."""
        return [self._cycles_of(core) for core in range(self.cores)]

    def _cycles_of(self, core: int) -> float:
        alone, now, last = self.alone, 0.0, len(self.segments[core]) - 1
        there = (1 if alone.summed else SHOWN) * self._read(core, 0)
        for number, segment in enumerate(self.segments[core]):
            now = max(now, there)
            if number < last:
                there = now + self._read(core, number + 1)
            block = MEETING * segment.lines * alone.cycles + self.cuts.begun + NEW
            now += len(alone.blocks) * block + SEGMENT
        return now + (SUMMED if alone.summed else SHOWN * self._turn(self.result(core, last)))

    def _read(self, core: int, number: int) -> float:
        """Cycles of the copies of what segments read."""
        written = self._turn(self.result(core, number)) if self.alone.summed else 0
        return self._turn(self.source(core, number)) + written

    def _turn(self, copied: Copied) -> float:
        """Cycles of such copies of all cores."""
        return self.cores * (copied.size / BEAT + AROUND)


def lines_of_cores(
    k: Kernel, team: Team, tiling: Tiling, tensors: Tensors, tile: Sizes, buffers: int
) -> LineShare | None:
    """The lines of each core; None: cores have equal numbers of items, not few if these are summed
    up, or are better off with tiles in common; sizes of tiles are given, or one buffer.
    """
    if tile or buffers == 1 or k.isa.loop_end != "last" or not 1 < team.cores <= MOST_ISSUERS:
        return None
    alone = tiling.alone()
    if alone is None or alone.cuts is None:
        return None
    most = MOST_ITEMS * team.cores if alone.summed else 0
    if not alone.items % team.cores and alone.items > most:
        return None
    lines = alone.items * alone.rounds // team.cores
    if alone.rounds < LEAST or lines < (LEAST_SUMMED if alone.summed else LEAST):
        return None
    room = k.l1.left - 2 * (k.l1.guard + ALIGN)
    ways = (way for way in (alone, *alone.others) if _is_slower_than_copies(way, team.cores))
    found = [share for way in ways for share in _shares(way, tensors, team.cores, room, lines)]
    if not found:
        return None
    share = min(found, key=lambda share: share.cost)
    worth = WORTH if alone.summed else 1
    if share.cycles > worth * timed_cycles(k, tiling, tensors, buffers):
        return None
    copies = [
        copied
        for core in range(share.cores)
        for number in range(len(share.segments[core]))
        for copied in (share.source(core, number), share.result(core, number))
    ]
    return share if all(copied.size <= LONGEST for copied in copies) else None


def _is_slower_than_copies(alone: Alone, cores: int) -> bool:
    """Do cores compute a line for longer than the DMA copies one for each of them?"""
    assert alone.cuts
    start, end = alone.cuts.span(0, alone.rounds)
    each = (end - start) / alone.rounds, alone.cuts.line
    copying = (sum(each) if alone.summed else max(each)) / BEAT
    return cores * copying <= len(alone.blocks) * alone.cycles


def _shares(
    alone: Alone, tensors: Tensors, cores: int, room: int, lines: int
) -> Iterator[LineShare]:
    """Those that fit the room, of cores that have so many lines each."""
    assert alone.cuts
    per_line = SLOTS * (alone.cuts.step + alone.cuts.line)
    tried = (SUMMED_UNITS, SUMMED_GROWTHS) if alone.summed else (UNITS, GROWTHS)
    for unit, growth, tapers in product(*tried, (True, False)):
        most = min(max(room // cores // per_line, unit), lines)
        share = LineShare(alone, tensors, cores, unit, growth, most, tapers)
        if (over := share.size_in_l1 - room) > 0:
            most = max(most - -(-over // (cores * per_line)), unit)
            share = replace(share, most=most)
        fits = 2 * unit <= lines and share.size_in_l1 <= room and share.table <= MOST_TABLE
        if fits and share.exists:
            yield share
