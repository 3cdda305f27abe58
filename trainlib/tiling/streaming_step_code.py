"""Steps of tiled programs of which copying takes longest: see trainlib.tiling.tile_loop.

Cores start the copies of a step before those of the last one are waited for, between two barriers:
so the DMA always has its next commands.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from firmware.builder import EQ, LT, NE, Label, Register
from firmware.drivers import Dma
from firmware.fetch_ahead import ahead
from firmware.registers import SP, ZERO, A
from trainlib.primitive.tensor import WORD
from trainlib.tiling.plan import FUNCTION, NEXT, RING
from trainlib.tiling.records import start_copies
from trainlib.tiling.step_code import AHEAD, COUNT, COUNTERS, ENTRY, FRAME, WAITS, Steps


class Ahead(Steps):
    """Steps with two barriers, between which copies start and the last ones are waited for."""

    @contextmanager
    def around(self) -> Iterator[None]:
        """Emit it around the functions; at its end all copies are done, and all cores are there."""
        k, is_called = self.k, self.relatives is not None
        is_short = not (is_called or self.plan.tiling.streams)  # loops of streams begin at words
        with (
            k.compressing() if is_short else nullcontext(),
            ahead(k, self.team, self.is_cold) as self.fetch,
        ):
            with k.compact(is_called):
                self._move_stack(-FRAME)
                self._prepare(self.next)
                k.place(self.next)
                self._step(self.next)
            yield
            with k.compact(is_called):
                k.place(self.finish)
                with k.scope():
                    counters = k.x()
                    k.lw(counters, COUNTERS, SP)
                    Dma(k).wait(counters)
                self._move_stack(FRAME)
                self.team.barrier()

    def _prepare(self, first: Label) -> None:
        """Start the first copies, fill the core's frame, and wait for the first two entries."""
        k, plan, dma = self.k, self.plan, Dma(self.k)
        with k.scope():
            counter = k.x()
            k.sw(ZERO, COUNTERS, SP)
            with k.scope():
                self._open_all(counter)
            self.fetch()
            with self.team.only(plan.waiter):
                dma.wait(counter)

    def _open_all(self, counter: Register) -> None:
        """Start the first copies, and those of the first entries under a counter, and fill the
        core's frame.
        """
        k, plan = self.k, self.plan
        with self.team.only(plan.waiter):
            if plan.is_whole:
                self._load_table(counter)
            if self.opening:
                opened = k.x()
                Dma(k).begin(opened)
                start_copies(k, self.opening)
                k.sw(opened, COUNTERS, SP)
            if not plan.is_whole:
                self._load_table(counter)
        place, value = k.x(2)
        self._load_place(place, value)
        self._fill_frame(place, value)
        k.li(value, self.entries)
        k.sw(value, ENTRY, SP)
        self._begin_fetching(place, value)

    def _load_table(self, counter: Register) -> None:
        """Start to copy the first entries, under a fresh counter."""
        Dma(self.k).begin(counter)
        count = self.plan.ring if self.plan.is_whole else 2
        Dma(self.k).to_l1(self.entries, self.table, sum(self.plan.lengths[:count]))

    def _step(self, first: Label) -> None:
        k, entry = self.k, A[0]
        self.team.barrier()
        with k.scope():
            k.registers.hold(entry)
            count, words, value, counters = k.x(4)
            k.lw(entry, ENTRY, SP)
            k.lw(count, COUNT, SP)
            k.lw(counters, COUNTERS, SP)
            k.add(count, count, entry)
            k.lhu(words, 0, count)
            k.lw(value, NEXT, entry)
            k.sw(value, ENTRY, SP)
            with k.region("dma_wait"):
                if self.plan.cores == 1:
                    self._wait(counters)
                with k.if_(NE, words, ZERO):
                    self._begin(count, words)
                self._fetch(entry)
                if self.plan.cores > 1:
                    self._wait(counters)
            self.team.barrier()
            self._part_ways(words)
            k.lw(value, FUNCTION, entry)
            self._note(entry, counters)
            k.jr(value)

    def _begin(self, count: Register, words: Register) -> None:
        """Start the copies of a block under a fresh counter, and leave that in its count."""
        k = self.k
        with k.scope():
            counter = k.x()
            Dma(k).begin(counter)
            self._start(count, words)
            k.sw(counter, 0, count)

    def _begin_fetching(self, place: Register, value: Register) -> None:
        """Nothing: the DMA fetches entries."""

    def _fetch(self, entry: Register) -> None:
        """Nothing: the DMA does."""

    def _part_ways(self, t: Register) -> None:
        """Nothing: cores begin to compute together."""

    def _wait(self, counters: Register) -> None:
        with self.k.if_(NE, counters, ZERO):
            Dma(self.k).wait(counters)

    def _note(self, entry: Register, counters: Register) -> None:
        """Keep the counters of all blocks for the core that waits for them."""
        k, plan = self.k, self.plan
        with k.scope():
            values = k.x(plan.issuers)
            k.lw(counters, WAITS, SP)
            with k.if_(EQ, counters, ZERO):
                for issuer, value in enumerate(values):
                    k.lw(value, plan.counts + WORD * issuer, entry)
                k.mv(counters, values[0])
                for value in values[1:]:
                    k.or_(counters, counters, value)
                k.sw(counters, COUNTERS, SP)


class Streaming(Ahead):
    """The same for a tiling that streams: the DMA has no time for entries.

    All of a short table is there from the start on; of a long one cores fetch entries themselves.
    And they begin to compute one after the other: those that begin at once meet each other and the
    DMA in every bank.
    """

    def _begin_fetching(self, place: Register, value: Register) -> None:
        """Store where in the table the core's first words are that it fetches."""
        k = self.k
        if self.plan.is_whole:
            return
        self.team.core(value)
        k.slli(value, value, 2)
        k.li(place, self.table + 2 * self.plan.entry_size)
        k.add(place, place, value)
        k.sw(place, AHEAD, SP)

    def _fetch(self, entry: Register) -> None:
        """Fetch the core's words of the next entry but one: the DMA has no time for them."""
        k, size, step = self.k, self.plan.entry_size, WORD * self.plan.cores
        if self.plan.is_whole:
            return
        with k.scope():
            source, place, value = k.x(3)
            k.lw(source, AHEAD, SP)
            k.li(value, self.table + self.plan.table_size)
            with k.if_(LT, source, value):
                k.mv(place, entry)
                k.li(value, self.entries)
                with k.if_(EQ, place, value):
                    k.li(place, self.entries + RING * size)
                self.team.core(value)
                k.slli(value, value, 2)
                k.add(place, place, value)
                k.addi(place, place, -size)
                for offset in range(0, size, step):
                    k.lw(value, offset, source)
                    k.sw(value, offset, place)
                k.addi(source, source, size)
                k.sw(source, AHEAD, SP)

    def _part_ways(self, t: Register) -> None:
        """Begin one core after the other."""
        k = self.k
        self.team.core(t)
        k.addi(t, t, 1)
        with k.loop(t):
            pass
