"""Tiles that belong to a core: its own items, its own copies, no step in common with others.

No core waits for another one; each begins as soon as the first lines of its first item are there.
When it copies what: see trainlib.tiling.per_core_schedule.

The table lies in L1, once for all cores. A stop in it: a command, with a place among a core's items
for its address in L1 and the first core's address in L2, and how far from there the next core's is,
and where its base is if that is relative to an operand;
how many rounds follow, and where they begin; for the first part of an item the places of its
operands; and where to go after the rounds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from firmware.builder import Kernel, Label, Register
from firmware.drivers import COMMAND, CONTROL, STATUS, Dma, command_words
from firmware.fetch_ahead import ahead
from firmware.runtime import EVENT_UNIT, Team
from trainlib.primitive.per_core import Code
from trainlib.primitive.tensor import WORD
from trainlib.tiling.per_core_schedule import Copied, Share, Stop
from trainlib.tiling.records import Far, Operand, bases_of

COPY_WORDS = 4  # of a stop


class AloneWalk:
    """The code and the table of all cores' shares."""

    def __init__(
        self, k: Kernel, team: Team, share: Share, l2: Mapping[str, Far], *, is_cold: bool = True
    ) -> None:
        self.k, self.team, self.share, self.l2, self.is_cold = k, team, share, l2, is_cold
        self.is_relative = bases_of(l2.values()) is not None
        self.l1 = k.buffer(k.l1, "items_in_L1", share.cores * share.block)
        self.meet, self.asleep, self.fresh, self.begun = (k.label() for _ in range(4))
        self.stop, self.finish = k.label("stop"), k.label("finish")
        kinds = 1 + max(block.kind for block in share.alone.blocks)
        self.again, self.more, self.start, self.ended = (
            [k.label() for _ in range(kinds)] for _ in range(4)
        )

    def emit(self) -> None:
        """Emit all of it, and a barrier."""
        k = self.k
        with k.compressing(), ahead(k, self.team, self.is_cold) as fetch, k.scope():
            fetch()
            code = self.share.alone.code(k)
            self.places, self.scratch = code.places, code.scratch
            words = self._table()
            table = k.words("stops", words)
            self.entries = k.buffer(k.l1, "stops_in_L1", WORD * len(words))
            self.keeps_base = self.keeps_core = not code.has_few
            if code.has_few:
                self.entry, self.bit, self.mine = k.x(3)
                self.base, self.core = self.scratch[4:6]
            else:
                self.entry, self.base, self.bit, self.mine, self.core = k.x(5)
            self.count = self.scratch[1]
            has_room = not code.has_few or k.registers.free("x")
            self.then = k.x() if has_room else None
            if code.has_few and k.registers.free("x"):
                self.keeps_core, self.core = True, k.x()
            self._open(code, table, WORD * len(words))
            self._meet()
            if k.code.size % WORD:
                k.nop()  # jumps into the middle of a word cost a cycle
            k.place(self.ended[0])
            code.end(0)
            self._stop()
            self._blocks(code)
            k.place(self.finish)
            self._wait()
            self._load_again()
            k.sw(self.bit, CONTROL + STATUS, self.base)  # free it
        self.team.barrier()

    def _open(self, code: Code, table: int, size: int) -> None:
        """Start the first copies; when they are done, begin the first item.

        NOTE: the last core, whose copies come last, also copies the table, which comes after them.
        """
        k, share, stop = self.k, self.share, self.share.stops[0]
        assert stop.copied
        value, also = self.scratch[0], self.places[share.alone.source]
        self._count(self.bit)
        self.team.core(self.core)
        k.li(value, share.block)
        k.mul(self.mine, self.core, value)
        k.li(value, self.l1)
        k.add(self.mine, self.mine, value)
        for copied in share.opening:
            self._copy(copied)
        k.li(also, 0)
        with self._between_rounds(), self.team.only(share.cores - 1):
            self._count(also)
            Dma(k).to_l1(self.entries, table, size)
        self._wait()
        self._load_again()
        k.or_(self.bit, self.bit, also)
        self._copy(stop.copied)
        k.li(self.entry, self.entries + WORD if self.then else table)
        if self.then:
            k.la(self.then, self.meet)
        self._find(self._others)
        code.load()
        self._find(self._streamed)
        k.li(self.count, stop.part.rounds)
        k.j(self.begun)

    def _load_again(self) -> None:
        """Load what registers do not keep if there are few."""
        if not self.keeps_base:
            self.k.li(self.base, EVENT_UNIT)
        if not self.keeps_core:
            self.team.core(self.core)

    def _find(self, names: list[str]) -> None:
        """Load where the operands of the first item are."""
        for name in names:
            place = self.places[name]
            self.k.add_constant(place, self.mine, self.share.place(name, 0), place)

    def _count(self, rd: Register) -> None:
        """Take a counter: rd = its bit in STATUS."""
        k, one = self.k, self.scratch[0]
        k.li(self.base, EVENT_UNIT)
        k.lw(rd, CONTROL + COMMAND, self.base)
        k.li(one, 1)
        k.sll(rd, one, rd)

    def _copy(self, copied: Copied) -> None:
        """Start a copy, given the core and the distance of what it has in L1."""
        k, (value, other, *_) = self.k, self.scratch
        command, l1, l2 = self._command(copied)
        k.li(value, command)
        k.sw(value, CONTROL + COMMAND, self.base)
        k.add_constant(value, self.mine, l1, value)
        k.sw(value, CONTROL + COMMAND, self.base)
        if isinstance(l2, Operand):
            l2.load(k, value, other)
        else:
            k.li(value, l2)
        k.li(other, self._apart(copied))
        k.p_mac(value, other, self.core)
        k.sw(value, CONTROL + COMMAND, self.base)

    def _meet(self) -> None:
        """After the first part: wait until the table is there for all cores."""
        k = self.k
        k.place(self.meet)
        self._wait()
        with self._between_rounds():
            self.team.barrier()
        if self.then is None:
            k.li(self.entry, self.entries + WORD)
        k.j(self.stop)
        k.place(self.asleep)
        self._wait()
        k.j(self.stop)

    @contextmanager
    def _between_rounds(self) -> Iterator[None]:
        """Where registers hold nothing that only rounds and stops hold."""
        with self.k.scope():
            self.k.free(*self.scratch)
            yield

    def _wait(self) -> None:
        """Wait for the core's copies."""
        with self._between_rounds():
            Dma(self.k).wait_open(self.bit, "dma_wait")

    def _stop(self) -> None:
        """Wait for the core's copies, start the next, go on with the rounds that the table says."""
        k, (command, l1, l2, step) = self.k, self.scratch[:4]
        k.place(self.stop)
        self._load_again()
        k.lw(step, CONTROL + STATUS, self.base)
        k.and_(step, step, self.bit)
        k.bnez(step, self.asleep)
        for register in (command, l1, l2, step):
            k.load_post(register, WORD, self.entry)
        if self.is_relative:
            k.p_mac(l2, step, self.core)
            k.load_post(step, WORD, self.entry)
        copied = k.label()
        if any(stop.copied is None for stop in self.share.stops):
            k.beqz(command, copied)
        k.add(l1, l1, self.mine)
        if self.is_relative:
            k.lw(step, 0, step)
            k.add(l2, l2, step)
        else:
            k.p_mac(l2, step, self.core)
        for register in (command, l1, l2):
            k.sw(register, CONTROL + COMMAND, self.base)
        k.place(copied)
        for register in (self.count, command):
            k.load_post(register, WORD, self.entry)
        k.jr(command)

    def _blocks(self, code: Code) -> None:
        """The code of all kinds of blocks, and what leads to it from a stop."""
        k = self.k
        for kind, more in enumerate(self.more):
            if kind:
                k.place(self.ended[kind])
                code.end(kind)
                k.j(self.stop)
            k.place(more)
            k.lp_count(0, self.count)
            self._load_then()
            k.j(self.start[kind])
            if kind == 0:
                k.place(self.fresh)
                self._load_places(self._others)
                code.load()
            k.place(self.again[kind])
            self._load_places(self._streamed)
            self._load_then()
            if kind == 0:
                k.place(self.begun)
            code.walk(kind, self.count, self.start[kind])
            if self.then:
                k.jr(self.then)
            else:
                k.load_post(self.scratch[0], WORD, self.entry)
                k.jr(self.scratch[0])

    def _load_then(self) -> None:
        """Take from the table where to go after the rounds, if a register is left for it."""
        if self.then:
            self.k.load_post(self.then, WORD, self.entry)

    @property
    def _streamed(self) -> list[str]:
        return [self.share.alone.source, self.share.alone.result]

    @property
    def _others(self) -> list[str]:
        return [name for name in self.places if name not in self._streamed]

    def _load_places(self, names: list[str]) -> None:
        """Take from the table where operands are."""
        for name in names:
            self.k.load_post(self.places[name], WORD, self.entry)
        for name in names:
            self.k.add(self.places[name], self.places[name], self.mine)

    # Table

    def _table(self) -> list[int | Label]:
        """Where to go after the first stop, whose copy code starts; all others, and the end.

        NOTE: without a register for it the first word is read in L2, before the table is in L1.
        """
        share, stops = self.share, self.share.stops
        words: list[int | Label] = [self.meet]
        for stop in stops[1:]:
            words += self._words(stop)
        return [*words, *self._copy_words(share.ending), 0, self.finish]

    def _words(self, stop: Stop) -> list[int | Label]:
        share, part = self.share, stop.part
        block = share.alone.blocks[part.block]
        then = self.ended[block.kind] if part.ends else self.stop
        nothing = [0] * (COPY_WORDS + self.is_relative)
        words = self._copy_words(stop.copied) if stop.copied else nothing
        if not part.begins:
            return [*words, part.rounds, self.more[block.kind], then]
        offsets = block.source, block.result
        places: list[int | Label] = [
            share.place(name, stop.item) + offset
            for name, offset in zip(self._streamed, offsets, strict=True)
        ]
        if part.block:
            return [*words, part.rounds, self.again[block.kind], *places, then]
        whole = [share.place(name, stop.item) for name in self._others]
        return [*words, part.rounds, self.fresh, *whole, *places, then]

    def _copy_words(self, copied: Copied) -> list[Any]:
        """The command, how far apart cores' items are, and where its base is if it has one."""
        command, l1, l2 = self._command(copied)
        if isinstance(l2, Operand):
            return [command, l1, l2.word, self._apart(copied), l2.base]
        return [command, l1, l2, self._apart(copied)]

    def _command(self, copied: Copied) -> list[Any]:
        """The command for the first core."""
        share, start = self.share, copied.item * self.share.size(copied.name) + copied.first
        l1 = share.place(copied.name, copied.item) + copied.first
        to_l1 = copied.name != share.alone.result
        l2: Any = self.l2[copied.name] + start
        return command_words(to_l1, l1, l2, copied.size)

    def _apart(self, copied: Copied) -> int:
        """Bytes in L2 from a core's items to those of the next one."""
        return self.share.items * self.share.size(copied.name)
