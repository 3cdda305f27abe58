"""Lines that belong to a core: each computes as many of all items, with copies of its own.

When it copies what: see trainlib.tiling.line_schedule. A core's table lies in L1. A stop in it: a
command, with addresses, and where the base is if that of L2 is relative to an operand; how many
rounds follow, where they begin, and where to go after them; for the first part of an item the
places of what stays; for that of a block where its code is, the places of its input and output, and
where it begins. A stop that copies nothing has a zero for its command, and does not wait; where it
must, one before it does nothing else.

What is summed up lies in L1 for all items, each where the core that begins it adds up its lines;
what other cores have of it lies after these, core by core. When all are done, a core adds the
others' to its last item, and copies its own to L2.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, cast

from firmware.builder import Kernel, Label, Register
from firmware.drivers import COMMAND, CONTROL, STATUS, Dma, command_words
from firmware.fetch_ahead import ahead
from firmware.runtime import EVENT_UNIT, Team
from trainlib.primitive.per_core import Begin, CutCode
from trainlib.primitive.tensor import WORD
from trainlib.tiling.line_schedule import LineShare, LineStop
from trainlib.tiling.per_core_schedule import ALIGN, Copied
from trainlib.tiling.records import Far, Operand, bases_of

AFTER = 3  # words of a stop after its copy, at least
FIRST = 2  # stops that are there before the others, of which one waits for these


class LineWalk:
    """The code and the tables of all cores."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        share: LineShare,
        l2: Mapping[str, Far],
        *,
        is_cold: bool = True,
    ) -> None:
        self.k, self.team, self.share, self.l2, self.is_cold = k, team, share, l2, is_cold
        self.bases = bases_of(l2.values())
        self.l1 = k.buffer(k.l1, "items_in_L1", share.cores * share.block)
        self.summed = share.alone.summed
        self.sums = k.buffer(k.l1, "sums_in_L1", share.sums) if self.summed else 0
        self.asleep, self.fresh, self.copy = (k.label() for _ in range(3))
        self.stop, self.finish = k.label("stop"), k.label("finish")
        kinds = 1 + max(block.kind for block in share.alone.blocks)
        self.again, self.more, self.start, self.ended, self.cut, self.first, self.other = (
            [k.label() for _ in range(kinds)] for _ in range(7)
        )

    def emit(self) -> None:
        """Emit all of it, and a barrier."""
        k = self.k
        with k.compressing(), ahead(k, self.team, self.is_cold) as fetch, k.scope():
            self.entry, self.base, self.bit, self.then = k.x(4)
            self.scratch: list[Register] = []
            self._open(*self._tables())
            fetch()
            code = cast(CutCode, self.share.alone.code(k))
            self.places, self.scratch = code.places, code.scratch
            self.count = self.scratch[1]
            self._wait()
            k.j(self.copy)
            self._blocks(code)
            k.place(self.finish)
            if self.summed:
                self._sum_up()
            self._wait()
            k.sw(self.bit, CONTROL + STATUS, self.base)  # free it
        self.team.barrier()

    def _open(self, tables: int, size: int, first: int) -> None:
        """Start the copy of the first stops of the core's table, which are so many bytes; tables
        lie `size` bytes apart.
        """
        k, value, other = self.k, self.then, self.k.x()
        k.li(self.base, EVENT_UNIT)
        k.lw(self.bit, CONTROL + COMMAND, self.base)
        k.li(other, 1)
        k.sll(self.bit, other, self.bit)
        self.team.core(value)
        k.li(other, size)
        k.mul(value, value, other)
        k.add_constant(self.entry, value, self.entries, other)
        command: list[Any] = command_words(True, 0, 0, first)
        k.li(other, command[0])
        k.sw(other, CONTROL + COMMAND, self.base)
        k.sw(self.entry, CONTROL + COMMAND, self.base)
        k.add_constant(value, value, tables, other)
        k.sw(value, CONTROL + COMMAND, self.base)
        k.free(other)

    def _wait(self) -> None:
        """Wait for the core's copies, where registers hold nothing that only rounds hold."""
        with self.k.scope():
            self.k.free(*self.scratch)
            Dma(self.k).wait_open(self.bit, "dma_wait")

    def _stop(self) -> None:
        """Wait for the core's copies, start the next, go on with the rounds that the table says;
        if nothing is copied, at once.
        """
        k, (command, l1, l2, step) = self.k, self.scratch[:4]
        start, copied = k.label(), k.label()
        k.place(self.stop)
        k.load_post(command, WORD, self.entry)
        k.beqz(command, copied)
        k.lw(step, CONTROL + STATUS, self.base)
        k.and_(step, step, self.bit)
        k.bnez(step, self.asleep)
        k.place(start)
        self._start_copy(command, l1, l2, step)
        k.place(copied)
        for register in (self.count, command, self.then):
            k.load_post(register, WORD, self.entry)
        k.jr(command)
        k.place(self.copy)
        k.load_post(command, WORD, self.entry)
        k.bnez(command, start)
        k.j(copied)
        k.place(self.asleep)
        self._wait()
        k.addi(self.entry, self.entry, -WORD)
        k.j(self.stop)

    def _start_copy(self, command: Register, l1: Register, l2: Register, base: Register) -> None:
        """Start the copy of a command that is loaded; the rest of it follows in the table.

        base    changes, if addresses of L2 are relative to an operand
        """
        k = self.k
        for register in (l1, l2, *([] if self.bases is None else [base])):
            k.load_post(register, WORD, self.entry)
        if self.bases is not None:
            k.lw(base, 0, base)
            k.add(l2, l2, base)
        for register in (command, l1, l2):
            k.sw(register, CONTROL + COMMAND, self.base)

    def _blocks(self, code: CutCode) -> None:
        """The code of all kinds of blocks, and what leads to it from a stop."""
        k = self.k

        def enter() -> Register:
            k.load_post(self.scratch[0], WORD, self.entry)
            return self.scratch[0]

        if k.code.size % WORD:
            k.nop()  # jumps into the middle of a word cost a cycle
        k.place(self.fresh)
        self._load_places(self._staying)
        code.load()
        k.jr(enter())
        for kind, more in enumerate(self.more):
            k.place(self.cut[kind])
            code.end_inside(kind)
            k.j(self.stop)
            k.place(self.ended[kind])
            code.end(kind)
            if kind:
                k.j(self.stop)
            else:
                self._stop()
            k.place(more)
            k.lp_count(code.loop, self.count)
            k.j(self.start[kind])
            k.place(self.again[kind])
            self._load_places([self.share.alone.source, self.share.alone.result])
            begin = Begin(self.first[kind], self.other[kind], enter)
            code.walk(kind, self.count, self.start[kind], begin)
            k.jr(self.then)

    def _load_places(self, names: list[str]) -> None:
        """Take from the table where operands are."""
        for name in names:
            self.k.load_post(self.places[name], WORD, self.entry)

    @property
    def _staying(self) -> list[str]:
        """What an item has a place for, beside its input and output."""
        return [*self.share.others, *([self.summed] if self.summed else [])]

    def _sum_up(self) -> None:
        """Add to the last item that the core has begun what others have of it; start the copy of
        all that it has begun.
        """
        k, words = self.k, self.share.size(str(self.summed)) // WORD
        skipped, none = k.label(), k.label()
        with k.scope():
            k.free(*self.scratch, *self.places.values())
            self.team.barrier()
            place, part, count, each, at = k.x(5)
            total, value = k.f(2)
            if any(map(self.share.parts, range(self.share.cores))):
                for register in (count, place, part):
                    k.load_post(register, WORD, self.entry)
                k.beqz(count, skipped)
                k.li(each, words)
                with k.hwloop(each):
                    k.fload(total, 0, place)
                    k.mv(at, part)
                    k.addi(part, part, WORD)
                    with k.hwloop(count):
                        k.fload_post(value, WORD * words, at)
                        k.nop()  # the load's delay
                        k.fadd_s(total, total, value)
                    k.fstore_post(total, WORD, place)
                    k.nop()  # loops do not end together
                k.place(skipped)
            command, l1, l2 = place, part, count
            k.load_post(command, WORD, self.entry)
            k.beqz(command, none)
            self._start_copy(command, l1, l2, each)
            k.place(none)

    # Tables

    def _tables(self) -> tuple[int, int, int]:
        """Put all cores' tables into L2: where they are, bytes of each, and of its first stops.

        NOTE: the others come while the first part is computed; the second stop waits for them, but
        of a core with one segment, which starts no copy there.
        """
        k, cores = self.k, range(self.share.cores)
        begin = [self._begin(core) for core in cores]
        stops = [self._stops(core) for core in cores]
        copy = len(self._command(True, 0, 0, WORD)) + AFTER
        first = max(len(begin[core]) + copy + sum(map(len, stops[core][:FIRST])) for core in cores)
        lengths = [len(begin[core]) + copy + sum(map(len, stops[core])) for core in cores]
        size = max(*lengths, first + 1)
        self.entries = k.buffer(k.l1, "stops_in_L1", WORD * len(cores) * size)
        at = -(-k.l2.next // ALIGN) * ALIGN
        words: list[int | Label] = []
        for core in cores:
            there, own = WORD * (core * size + first), WORD * max(lengths[core] - first, 1)
            rest = self._command(True, self.entries + there, at + there, own)
            words += [*begin[core], *rest, 0, self.copy, 0, *chain(*stops[core])]
            words += [0] * (size - lengths[core])
        k.words("stops", words, ALIGN)
        return at, WORD * size, WORD * first

    def _begin(self, core: int) -> list[int | Label]:
        """A core's copies before the first part, of what stays and of input."""
        share, words = self.share, list[Any]()
        items = share.items(core)
        for name in share.others:
            whole = Copied(name, items.start, 0, len(items) * share.size(name))
            place = share.place(name, core, items.start)
            words += [*self._copy(core, whole, place), 0, self.copy, 0]
        words += self._source(core, 0)
        if self.summed:
            words += [0, self.copy, 0, *self._result(core, 0)]
        return [*words, 0, self.stop, 0]

    def _stops(self, core: int) -> list[list[int | Label]]:
        """Its stops, and the end."""
        share, words, item = self.share, list[list[Any]](), None
        for stop in share.stops(core):
            words.append(self._words(core, stop, item))
            item = share.segments[core][stop.number].item if stop.part else item
        if self.summed:
            return [*words, [0, 0, self.finish, 0, *self._summing(core)]]
        last = self._result(core, len(share.segments[core]) - 1)
        return [*words, [*last, 0, self.finish, 0]]

    def _summing(self, core: int) -> list[Any]:
        """What a core adds to the last item that it has begun, and its items' copy."""
        share, begun, words = self.share, self.share.begun(core), list[Any]()
        size = share.size(str(self.summed))
        if any(map(share.parts, range(share.cores))):
            last = self.sums + (begun[-1] if begun else 0) * size
            words += [share.parts(core), last, self._part(core + 1)]
        if not begun:
            return [*words, 0]
        start = begun[0] * size
        far = self.l2[str(self.summed)] + start
        return [*words, *self._command(False, self.sums + start, far, len(begun) * size)]

    def _part(self, core: int) -> int:
        """Where the sums of an item are that a core has not begun."""
        share = self.share
        return self.sums + (share.alone.items + core) * share.size(str(self.summed))

    def _place(self, name: str, core: int, item: int) -> int:
        """Where in L1 what stays of an item is."""
        if name != self.summed:
            return self._start(core) + self.share.place(name, core, item)
        if item in self.share.begun(core):
            return self.sums + item * self.share.size(name)
        return self._part(core)

    def _words(self, core: int, stop: LineStop, item: int | None) -> list[int | Label]:
        """A stop; the one before has computed that item."""
        share, part = self.share, stop.part
        if stop.copied is None:  # of what is summed up, the last segment waits
            words = [0, 0, self.asleep, 0] if self.summed and stop.number else [0]
        elif stop.copied.name == share.alone.source:
            words = self._source(core, stop.of)
        else:
            words = self._result(core, stop.of)
        if part is None:
            return [*words, 0, self.copy, 0]
        segment, block = share.segments[core][stop.number], share.alone.blocks[part.block]
        is_whole = segment.end == share.alone.rounds
        goes_on = self.summed and not is_whole and stop.number < len(share.segments[core]) - 1
        ends = self.ended if is_whole else self.cut
        then = self.copy if self.summed and not part.ends and stop.copied else self.stop
        then = ends[block.kind] if part.ends and not goes_on else then
        if not part.begins:
            return [*words, part.rounds, self.more[block.kind], then]
        base = self._start(core)
        read, _ = share.span(segment)
        source = base + share.slot(share.alone.source, stop.number) - read
        places: list[int | Label] = [
            source + segment.first * share.cuts.step + block.source,
            base + share.slot(share.alone.result, stop.number) + block.result,
            (self.other if segment.first else self.first)[block.kind],
        ]
        if segment.item == item:
            return [*words, part.rounds, self.again[block.kind], then, *places]
        whole = [self._place(name, core, segment.item) for name in self._staying]
        again = self.again[block.kind]
        return [*words, part.rounds, self.fresh, then, *whole, again, *places]

    def _start(self, core: int) -> int:
        return self.l1 + core * self.share.block

    def _source(self, core: int, number: int) -> list[Any]:
        slot = self.share.slot(self.share.alone.source, number)
        return self._copy(core, self.share.source(core, number), slot)

    def _result(self, core: int, number: int) -> list[Any]:
        slot = self.share.slot(self.share.alone.result, number)
        return self._copy(core, self.share.result(core, number), slot)

    def _copy(self, core: int, copied: Copied, place: int) -> list[Any]:
        """A command between a place in what a core has and L2."""
        share = self.share
        far = self.l2[copied.name] + (copied.item * share.size(copied.name) + copied.first)
        to_l1 = bool(self.summed) or copied.name != share.alone.result
        return self._command(to_l1, self._start(core) + place, far, copied.size)

    def _command(self, to_l1: bool, l1: int, far: Far, size: int) -> list[Any]:
        """A command, and where its base is if operands have any."""
        command, *_ = command_words(to_l1, l1, 0, size)
        if self.bases is None:
            return [command, l1, far]
        place = (
            far if isinstance(far, Operand) else Operand(self.bases, max(far - self.k.l2.base, 0))
        )
        return [command, l1, place.word, place.base]
