"""HyperBus, served by the uDMA: transactions of eight queues between L2 and a HyperRAM.

Its cycles are those of udma_hyper 83ab704, simulated with equal, aligned clocks, an L2 that always
grants and an ideal HyperRAM: T = 2 H + 6 + c C, from the store that enables the channel to the end
of the transaction, with H the half-words moved, C the chunks, and c = 58 for writes, 60 for reads,
where the latency is 12 clocks (6 doubled) and the recovery 6. A transfer in lines has c 2 higher,
and 4 instead of 6. Another latency changes c by 2 cycles a clock. A transaction that has waited for
another ends T - 4 cycles after it.

A chunk's last word is written to L2 4 cycles before the chunk ends, its event comes 2 cycles before
that; a write's event comes 50 cycles before its chunk ends.

Not known from RTL: other recovery times, which change c by 4 cycles a step here. A chunk reads L2
19 cycles after its start, or writes it with its last word, not a word every four cycles; the
device's registers are not modelled.

Of the RTL's text (hyperbus_phy.sv, udma_cmd_queue.sv), not measured: SELECT_MAX - 5 - the latency
half-words pass before the device is cut off. What would be written after them is lost, what would
be read is not defined, here 0xFF; no time is saved. A read waits for a device that is missing as
long. An id's accesses wait while eight of its transactions do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from soc.address_map.hyperbus import HYPERBUS, HYPERBUS_COMMON
from soc.address_map.udma import ENABLE, HYPERBUS_COMMON_ID, HYPERBUS_QUEUES, PENDING
from soc.board.memory import BoardMemory
from soc.peripherals.bus import NotReady, later
from soc.peripherals.register_block import RegisterBlock, loads, stores
from soc.peripherals.udma import UdmaPorts

SIZE = (1 << 20) - 1
READ, REGISTER = 1 << 2, 1 << 1
QUEUE = 8
RX_EVENT, TX_EVENT, READ_EVENT, WRITE_EVENT = 0, 1, 2, 3
OVERHEAD = 6
WRITE_CHUNK, READ_CHUNK, LINE = 58, 60, 2
LATENCY, RECOVERY = 12, 6
FOLLOWING = 4
FETCH = 19
"""Cycles from the store that enables a write to its first read of L2."""
STORED, READ_TOLD, WRITE_TOLD = 4, 6, 50
"""Cycles before the end of a chunk: a read's last word is in L2, its event, a write's event."""
SELECTED, SELECT = 5, 0xFFFF
"""PHY cycles with the device selected besides latency and data; bits of SELECT_MAX that count."""
PAGES = (128, 256, 512, 1024)


@dataclass(frozen=True)
class Lines:
    """A side of a 2D transfer: lines of `count` bytes, `stride` from one to the next."""

    is_active: bool
    count: int
    stride: int

    def place(self, position: int) -> int:
        """Offset of a byte of the transfer."""
        if not self.is_active:
            return position
        line, rest = divmod(position, self.count)
        return line * self.stride + rest

    def left(self, position: int) -> int:
        """Bytes to the end of its line."""
        return self.count - position % self.count if self.is_active else SIZE + 1


Chunk = tuple[int, int, int]
"""Address in the device, offset in L2, bytes."""


class HyperBusQueue(RegisterBlock, read_only=("STATUS",)):
    """The registers of one transaction id."""

    def __init__(self, ports: UdmaPorts, common: "HyperBus"):
        super().__init__(ports.name, HYPERBUS, ports.warn)
        self.common, self.number = common, ports.number - (HYPERBUS_COMMON_ID - HYPERBUS_QUEUES)

    def loading(self, offset: int) -> Callable[[], int]:
        """As in RegisterBlock; raises NotReady while the queue is full."""
        load = super().loading(offset)

        def ready() -> int:
            self.common.await_room(self.number)
            return load()

        return ready

    def storing(self, offset: int) -> Callable[[int], object]:
        """As in RegisterBlock; raises NotReady while the queue is full."""
        store = super().storing(offset)

        def ready(value: int) -> None:
            self.common.await_room(self.number)
            store(value)

        return ready

    @stores("RX_CONFIG", "TX_CONFIG")
    def _enable(self, name: str, index: int, value: int) -> None:
        if value & ENABLE:
            words = {r.name: self.word(r.name) for r in HYPERBUS.registers}
            self.common.enqueue(self.number, name == "RX_CONFIG", words)

    @loads("RX_CONFIG", "TX_CONFIG")
    def _config(self, name: str, index: int) -> int:
        waiting = self.common.waiting(self.number)
        return ENABLE * (waiting > 0) | PENDING * (waiting > 1)

    @loads("STATUS")
    def _status(self, name: str, index: int) -> int:
        waiting = self.common.waiting(self.number)
        return int(waiting > 0) | max(0, waiting - 1) << 1


class HyperBus(RegisterBlock, read_only=("TRANSACTION",)):
    """The common registers, and the controller that carries out one transaction at a time.

    Ports
        ports    see UdmaPorts
    """

    def __init__(self, ports: UdmaPorts, ram: BoardMemory):
        super().__init__(ports.name, HYPERBUS_COMMON, ports.warn)
        self.env, self.l2, self.event, self.ram = ports.env, ports.l2, ports.event, ram
        self.queues: list[list[tuple[bool, dict[str, int]]]] = [[] for _ in range(HYPERBUS_QUEUES)]
        self.serving = -1  # id of the transaction under way
        self.last = -1
        self.asking: list[tuple[int, Callable[[], None]]] = []  # accesses that wait for room

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield self.ram

    def waiting(self, number: int) -> int:
        """Transactions of an id that are not over."""
        return len(self.queues[number])

    def enqueue(self, number: int, is_read: bool, words: dict[str, int]) -> None:
        """Take a transaction with its registers."""
        self.queues[number].append((is_read, words))
        if self.serving < 0:
            self._serve(0)

    def await_room(self, number: int) -> None:
        """Raises NotReady while an id's queue is full."""
        if len(self.queues[number]) - (number == self.serving) >= QUEUE:
            self.warn_once(
                f"{QUEUE} transactions of queue {number} wait: accesses to its registers wait, too",
                "full",
            )
            raise NotReady(lambda again: self.asking.append((number, again)))

    @loads("TRANSACTION")
    def _free(self, name: str, index: int) -> int:
        free = [number for number, queue in enumerate(self.queues) if not queue]
        return free[0] if free else 0

    def _serve(self, earlier: int) -> None:
        """Carry out the transaction of the next id that has one; `earlier`: cycles saved."""
        asking = [number for number, queue in enumerate(self.queues) if queue]
        if not asking:
            self.serving = -1
            return
        self.serving = min(asking, key=lambda number: (number <= self.last, number))
        self._let_in()
        is_read, words = self.queues[self.serving][0]
        if words["COMMAND"] & REGISTER:
            later(self.env, 2 * (9 + self.word("RECOVERY")), self._end)
            return
        each = (READ_CHUNK if is_read else WRITE_CHUNK) + 2 * (self._latency() - LATENCY)
        each += 4 * (self.word("RECOVERY") - RECOVERY)
        is_2d = bool(words["DEVICE_2D"] & 1 or words["L2_2D"] & 1)
        each += LINE * is_2d
        chunks = list(self._chunks(is_read, words))
        self._check(is_read, chunks)
        self._next_chunk(is_read, chunks, each, OVERHEAD - LINE * is_2d, 0, -earlier)

    def _let_in(self) -> None:
        """Accesses that waited for the queue that is served now take place in this cycle."""
        ready = [again for number, again in self.asking if number == self.serving]
        self.asking = [each for each in self.asking if each[0] != self.serving]
        for again in ready:
            later(self.env, 0, again)

    def _most(self) -> int:
        """Half-words that pass before the device is cut off."""
        most = (self.word("SELECT_MAX") & SELECT) - SELECTED - self._latency()
        return max(0, most)

    def _kept(self, address: int, size: int) -> int:
        """Bytes of a chunk that pass before the device is cut off."""
        return max(0, min(size, 2 * (address // 2 + self._most()) - address))

    def _check(self, is_read: bool, chunks: list[Chunk]) -> None:
        """Tell of chunks whose bytes do not all pass."""
        how = "what is read is 0xFF" if is_read else "writes are lost"
        if self.word("DEVICE"):
            self.warn_once(f"there is no device {self.word('DEVICE')}: {how}", f"device, {how}")
        for address, _, size in chunks:
            kept = self._kept(address, size)
            if kept < size and not self.word("DEVICE"):
                most = self.word("SELECT_MAX") & SELECT
                self.warn_once(
                    f"SELECT_MAX = {most} cuts off the device after {kept} of {size} bytes: {how}",
                    f"select, {how}",
                )

    def _next_chunk(
        self, is_read: bool, chunks: list[Chunk], each: int, rest: int, number: int, start: int
    ) -> None:
        """Begin a chunk, so many cycles from now.

        each    cycles of a chunk besides those of its half-words
        rest    cycles from a chunk's own to its end
        """
        if number == len(chunks):
            later(self.env, start + rest, self._end)
            return
        address, place, size = chunks[number]
        until = start + 2 * ((address + size + 1) // 2 - address // 2) + each
        if is_read and self.word("DEVICE"):
            until += 2 * self._most()
        if is_read:
            later(self.env, until + rest - READ_TOLD, self.event, RX_EVENT)
            later(self.env, until + rest - STORED, self._store, address, place, size)
        else:
            later(self.env, start + FETCH, self._fetch, address, place, size)
            later(self.env, max(start + FETCH, until + rest - WRITE_TOLD), self.event, TX_EVENT)
        if number + 1 < len(chunks):
            later(self.env, until, self._next_chunk, is_read, chunks, each, rest, number + 1, 0)
        else:
            later(self.env, until + rest, self._end)

    def _fetch(self, address: int, place: int, size: int) -> None:
        if not self.word("DEVICE"):
            self.ram.write(address, self.l2.load(place, size)[: self._kept(address, size)])

    def _store(self, address: int, place: int, size: int) -> None:
        kept = 0 if self.word("DEVICE") else self._kept(address, size)
        self.l2.store(place, self.ram.read(address, kept).ljust(size, b"\xff"))

    def _latency(self) -> int:
        return self.word("LATENCY") << (self.word("LATENCY_ADD") & 1)

    def _chunks(self, is_read: bool, words: dict[str, int]) -> Iterator[Chunk]:
        side = "RX" if is_read else "TX"
        total = words[f"{side}_SIZE"] & SIZE
        device, start = words["ADDRESS"], self.l2.place(words[f"{side}_ADDRESS"], total)
        bound = self.word("PAGE_BOUND") & 7
        page = PAGES[bound] if bound < len(PAGES) else 1 << 32
        sides = [
            Lines(bool(words[f"{n}_2D"] & 1), words[f"{n}_COUNT"] or 1, words[f"{n}_STRIDE"])
            for n in ("DEVICE", "L2")
        ]
        position = 0
        while position < total:
            address = device + sides[0].place(position)
            left = min(side.left(position) for side in sides)
            size = min(total - position, left, page - address % page)
            yield address, start + sides[1].place(position), size
            position += size
        if device + total > self.ram.size:
            self.warn_once(f"{total} bytes at {device:#x} go past the end of the device")

    def _end(self) -> None:
        is_read, _ = self.queues[self.serving].pop(0)
        self.last = self.serving
        if not self.queues[self.last]:
            self.event(READ_EVENT if is_read else WRITE_EVENT)
        self._serve(FOLLOWING)
