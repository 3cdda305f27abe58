"""How cores walk the table of a tiled program: the code of a step, see trainlib.tiling.tile_loop.

Steps        one barrier: copies that the next step needs are waited for before it. The DMA has
             no commands then until cores have started those of the next step
Streaming    two: cores start copies before the last ones are waited for, so the DMA always has
             its next commands; for tilings of which copying takes longest
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from firmware.builder import EQ, LT, NE, Kernel, Label, Register
from firmware.drivers import COMMAND, CONTROL, FIELDS, LONGEST, Dma, command_words
from firmware.fetch_ahead import AT, FIRST, MOST, OWN, ahead, emit_fetch
from firmware.platform import DMA
from firmware.registers import SP, ZERO, A
from firmware.runtime import EVENT_UNIT, Team
from soc.icache.private_cache import LINE_BYTES
from trainlib.primitive.tensor import WORD
from trainlib.tiling.plan import FUNCTION, NEXT, RING, Plan
from trainlib.tiling.records import Relatives, start_copies

FRAME = 32  # bytes of a core's stack
TO_ALL = FIELDS["broadcast"].mask  # its end is an event for all cores
APART = WORD  # bytes more that cores' frames are apart: stacks begin in the same bank
ENTRY, COUNT, COUNTERS, WAITS, AHEAD = (WORD * slot for slot in range(5))
"""Its entry, where in it the length of its block is, the counters that it waits for or frees, 0 if
it waits; and what it fetches next of the table."""


class Steps:
    """The code that walks a table.

    entries         address of the ring of entries in L1
    table           of the table in L2
    next, finish    where functions jump to, and what the last entry has as its function
    opening         commands of copies that code starts, before the first entry is there
    relatives       how the table's commands are started if they are relative; None: as they are
    is_cold         does the code run for the first time?
    ends            of the first tile's function, up to which code is fetched at first, and of all
                    code, where entries tell which functions are new; None: all is fetched at first
    """

    def __init__(
        self,
        k: Kernel,
        team: Team,
        plan: Plan,
        places: tuple[int, int],
        labels: tuple[Label, Label],
        opening: Sequence[Sequence[Any]],
        relatives: Relatives | None = None,
        is_cold: bool = True,
        ends: tuple[Label, Label] | None = None,
    ) -> None:
        self.k, self.team, self.plan = k, team, plan
        self.entries, self.table = places
        self.next, self.finish = labels
        self.opening, self.relatives, self.is_cold = opening, relatives, is_cold
        self.ends = ends
        self.entry = A[0]
        self.new, self.fetched = k.label("fetch_new"), k.label()
        self.waiting, self.waited = k.label("wait_for_copies"), k.label()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Emit it around the functions; at its end all copies are done, and all cores are there.

        NOTE: functions lie in the middle, and instructions have 16 bits where they can: so steps
        and functions are in the way of each other in no cache that holds as much.
        """
        k = self.k
        first = k.label()
        is_early = self._is_opened_early
        until = self.ends[0] if self.ends else None
        with k.compressing(), ahead(k, self.team, self.is_cold) as fetch:
            if not is_early:
                fetch(until)
            with k.scope():
                if is_early:
                    counter = self._open()
                self._move_stack(-FRAME)
                if is_early:
                    k.sw(counter, COUNTERS, SP)
            if is_early:
                fetch(until)
            with k.scope():
                k.registers.hold(self.entry)
                self.count, self.words = k.x(2)
                self._prepare(first)
                self._wait_aside()
                if self.ends:
                    self._fetch_aside()
                self._step(first)
            if self.plan.has_code and k.code.size % WORD:
                k.nop()  # functions begin with a word
            yield
            k.place(self.finish)
            with k.scope():
                counters = k.x()
                k.lw(counters, COUNTERS, SP)
                Dma(k).free(counters)
            self._move_stack(FRAME)
            if self.ends:
                k.place(self.ends[1])

    def _move_stack(self, frame: int) -> None:
        """Make room for a frame, or give it back; those of cores begin in different banks."""
        k = self.k
        with k.scope():
            step = k.x()
            self.team.core(step)
            k.slli(step, step, APART.bit_length() - 1)
            k.addi(SP, SP, frame)
            (k.sub if frame < 0 else k.add)(SP, SP, step)

    @property
    def _is_opened_early(self) -> bool:
        """Do the first copies run while code is fetched? Then they begin sooner by more than what
        lines wait for them. In a network's function they do not: its commands take more code.
        """
        return bool(self.opening) and self.relatives is None and self.is_cold

    def _open(self) -> Register:
        """Let a core for each of the first copies start it, the longest first, by code of its own:
        so the lines of code are few for which each has to wait, and nothing is read from L2 beside
        the first copies' bursts. Take a register for the core's counter.
        """
        k, plan = self.k, self.plan
        commands = sorted(self.opening, key=lambda words: words[0] & LONGEST, reverse=True)
        commands = [[words[0] | TO_ALL, *words[1:]] for words in [*commands, self._first_entries]]
        issuers = min(len(commands), plan.cores)
        blocks = [[*chain(*commands[issuer::issuers])] for issuer in range(issuers)]
        counter, done = k.x(), k.label()
        with k.scope():
            port, value, place = k.short(3)
            k.mv(counter, ZERO)
            self._load_place(place, value)
            k.li(value, issuers)
            k.bge(place, value, done)
            k.li(port, DMA + COMMAND)
            k.lw(counter, 0, port)
            k.li(value, 1)
            k.sll(counter, value, counter)
            for words in blocks:
                others = k.label()
                k.bnez(place, others)
                for word in words:
                    k.li(value, word)
                    k.sw(value, 0, port)
                k.j(done)
                k.place(others)
                k.addi(place, place, -1)
            k.place(done)
        return counter

    @property
    def _first_entries(self) -> Sequence[Any]:
        """The command that copies the first two entries."""
        size = sum(self.plan.lengths[:2])
        return command_words(True, self.entries, self.table, size, to_all=True)

    def _start_opening(self, place: Register, value: Register) -> None:
        """Let each core that starts copies start its share of the first ones.

        NOTE: a core's counter is the one that it has taken last, also of later commands.
        """
        k, plan = self.k, self.plan
        commands = [*self.opening, self._first_entries]
        with k.scope():
            counter = k.x()
            k.mv(counter, ZERO)
            k.li(value, plan.issuers)
            with k.if_(LT, place, value):
                Dma(k).begin(counter)
                for issuer in range(plan.issuers):
                    if own := commands[issuer :: plan.issuers]:
                        k.li(value, issuer)
                        with k.if_(EQ, place, value):
                            start_copies(k, own)
            k.sw(counter, COUNTERS, SP)

    def _prepare(self, first: Label) -> None:
        """Start the first copies, if they do not run yet, fill the core's frame, and wait for the
        first two entries.
        """
        k = self.k
        with k.scope():
            place, value = k.x(2)
            self._load_place(place, value)
            if not self._is_opened_early:
                self._start_opening(place, value)
            self._fill_frame(place, value)
        self.team.barrier()
        skip = k.label()
        with k.region("dma_wait"):
            k.lw(self.words, WAITS, SP)
            k.bnez(self.words, skip)
            Dma(k).wait_for_all()
            k.place(skip)
        self.team.barrier()
        with k.scope():
            k.li(self.entry, self.entries)
            self._load_block()
            k.j(first)

    def _load_place(self, place: Register, value: Register) -> None:
        """Load which block is the core's: the last core has the first one."""
        self.team.core(value)
        self.k.li(place, self.plan.cores - 1)
        self.k.sub(place, place, value)

    def _fill_frame(self, place: Register, value: Register) -> None:
        """Store what does not change, given the place."""
        k, plan = self.k, self.plan
        with k.scope():
            most = k.x()
            k.li(value, plan.nothing)
            k.li(most, plan.issuers)
            with k.if_(LT, place, most):
                k.slli(value, place, WORD.bit_length() - 1)
                k.addi(value, value, plan.counts)
            k.sw(value, COUNT, SP)
            k.addi(value, place, -(plan.cores - 1 - plan.waiter))
            k.sw(value, WAITS, SP)

    def _step(self, first: Label) -> None:
        """Wait, start copies, jump to the tile's function with the entry in a0.

        first    the place of this code to begin at, with the first entry and its block
        """
        k, entry = self.k, self.entry
        with k.scope():
            k.place(self.next)
            k.lw(entry, ENTRY, SP)
            if self.ends:
                self._fetch_new()
            with k.region("dma_wait"):
                k.lw(self.words, WAITS, SP)
                k.beqz(self.words, self.waiting)
                k.place(self.waited)
            k.lw(entry, NEXT, entry)
            self._load_block()
            self.team.barrier()
            k.place(first)
            with k.if_(NE, self.words, ZERO):
                self._start(self.count, self.words)
                k.sw(ZERO, 0, self.count)
            with k.scope():
                value = k.x()
                k.lw(value, FUNCTION, entry)
                k.jr(value)

    def _fetch_new(self) -> None:
        """Fetch the next entry's function if it is new: by now the DMA is done, mostly."""
        k = self.k
        with k.scope():
            following = k.x()
            k.lw(following, NEXT, self.entry)
            k.lw(AT, self.plan.code, following)
            k.lw(FIRST, FUNCTION, following)
            k.bnez(AT, self.new)
            k.place(self.fetched)

    def _fetch_aside(self) -> None:
        """Fetch the code from FIRST to AT, or as much as there is to be fetched at most."""
        k = self.k
        with k.routine(self.new):
            k.registers.hold(self.entry, *OWN)
            most = k.x()
            k.li(most, MOST * LINE_BYTES)
            k.add(most, most, FIRST)
            k.p_min(AT, AT, most)
            emit_fetch(k, self.team, is_part=True)
            k.j(self.fetched)

    def _load_block(self) -> None:
        """Load how long the core's block of an entry is, and where that stands."""
        k = self.k
        k.lw(self.count, COUNT, SP)
        k.sw(self.entry, ENTRY, SP)
        k.add(self.count, self.count, self.entry)
        k.lhu(self.words, 0, self.count)

    def _wait_aside(self) -> None:
        """Let the core that waits do so until all copies are done that those of an entry begin.

        It polls what they store when they have begun, a part of each entry that names itself.
        """
        k, plan = self.k, self.plan
        for slot in range(RING):
            counts = self.entries + slot * plan.entry_size + plan.counts
            k.name_part(f"sync_counts_{slot}", counts, WORD * plan.issuers)
        with k.routine(self.waiting):
            k.registers.hold(self.entry)
            value, other = k.x(2)
            begun = k.here()
            k.lw(value, plan.counts, self.entry)
            for issuer in range(1, plan.issuers):
                k.lw(other, plan.counts + WORD * issuer, self.entry)
                k.or_(value, value, other)
            k.bnez(value, begun)
            Dma(k).wait_for_all()
            k.j(self.waited)

    def _start(self, count: Register, words: Register) -> None:
        """Start the copies of the core's block of the entry in a0; at `count` stands where it is,
        after its length, which is in `words`.
        """
        k = self.k
        with k.scope():
            base, value, at = k.x(3)
            k.lhu(at, WORD // 2, count)
            k.add(at, at, self.entry)
            if self.relatives:
                k.free(base, value)
                self.relatives.start(k, at, words)
            else:
                self._store(at, words, base, value)

    def _store(self, at: Register, words: Register, base: Register, value: Register) -> None:
        """Store so many words from there on to the DMA; all but the number change."""
        k = self.k
        k.li(base, EVENT_UNIT)
        with k.hwloop(words):
            k.load_post(value, WORD, at)
            k.nop()  # the load's delay
            k.sw(value, CONTROL + COMMAND, base)
