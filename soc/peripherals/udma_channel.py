"""Channels between L2 and a peripheral of the uDMA: their registers, transfers and FIFOs.

Cycles are those of the RTL with equal, aligned clocks and an L2 that always grants: udma_core 1.1.2
(udma_ch_addrgen.sv, udma_tx_channels.sv, udma_rx_channels.sv), simulated with udma_uart 1.0.2. On
its way to a peripheral an element goes through io_tx_fifo (2 places, taken when L2 is asked) and
udma_dc_fifo. In cycles after A, the store that enables the channel: L2 is asked in A + 3, the
peripheral sees the element in A + 10.

Not measured on RTL: a second transfer that waits; a peripheral's clock that is divided, which is
derived from the stages: one cycle of L2's clock and three of the peripheral's from FIFO to FIFO.
Elements that cross a word take one access to L2 here; channels do not wait for each other.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from soc.address_map.register import Block
from soc.address_map.udma import CLEAR, CONTINUOUS, ENABLE, PENDING
from soc.peripherals.bus import later
from soc.peripherals.register_block import RegisterBlock, loads, stores
from soc.peripherals.udma import UdmaPorts

SIZE = (1 << 20) - 1
FETCHED = 2
"""Elements that io_tx_fifo holds."""
SPILL = 2
"""Elements that udma_dc_fifo holds besides those of its depth."""

_CHANNELS = ("RX", "TX", "CMD")

Device = TypeVar("Device")


def _nothing() -> None:
    pass


class Channel:
    """One way between the peripheral and L2.

    prefix    of its registers
    step      bytes of an element

    Ports
        event    out   the last element of a transfer is on its way

    State: `offset` in L2 of the next element, `left` bytes of the transfer.
    """

    def __init__(
        self, block: RegisterBlock, ports: UdmaPorts, prefix: str, event: int, step: int = 1
    ):
        self.env, self.l2, self.event = ports.env, ports.l2, ports.event
        self.word, self.prefix, self.number, self.step = block.word, prefix, event, step
        self.offset = self.left = self.config = 0
        self.is_enabled = self.is_pending = False

    def store_config(self, value: int) -> None:
        """A store to CONFIG: a transfer begins, waits for its turn, or is dropped."""
        self.config = value
        if value & ENABLE:
            if self.is_enabled:
                self.is_pending = True
            else:
                self._take_up()
                later(self.env, 2, self.ask)
        elif value & CLEAR:
            self.is_enabled = self.is_pending = False

    def load_config(self) -> int:
        """What a load of CONFIG finds, but for the size of elements."""
        bits = self.config & CONTINUOUS
        return bits | ENABLE * self.is_enabled | PENDING * self.is_pending

    def ask(self) -> None:
        """Let the next element move, if it can."""
        raise NotImplementedError

    def _take_up(self) -> None:
        size = self.word(f"{self.prefix}_SIZE") & SIZE
        self.offset = self.l2.place(self.word(f"{self.prefix}_ADDRESS"), size)
        self.left = size
        self.is_enabled = size > 0

    def _advance(self) -> tuple[int, int, bool]:
        """Grant an element: its offset, its bytes, and whether it is the transfer's last."""
        offset, size = self.offset, min(self.step, self.left)
        self.left -= size
        self.offset = offset + self.step & self.l2.mask
        return offset, size, self.left == 0

    def _end(self) -> None:
        """A transfer's last element is granted: what waits begins, or the same anew."""
        if self.is_pending or self.config & CONTINUOUS:
            self.is_pending = False
            self._take_up()
        else:
            self.is_enabled = False


class ToPeripheral(Channel):
    """From L2: granted -> `fetched` -> crossing to the peripheral's clock -> `waiting`.

    depth     of udma_dc_fifo
    period    cycles of the peripheral's clock

    Ports
        passing    out   an element begins to cross
        arrived    out   there is one more that the peripheral sees
        take       in    the peripheral takes the first one
    """

    def __init__(
        self,
        block: RegisterBlock,
        ports: UdmaPorts,
        prefix: str,
        event: int,
        depth: int,
        arrived: Callable[[], None],
        step: int = 1,
    ):
        super().__init__(block, ports, prefix, event, step)
        self.room, self.arrived = depth + SPILL, arrived
        self.passing: Callable[[int], None] = lambda _: None
        self.period = 1
        self.granted = -1  # cycle of the last grant
        self.fetching = 0  # places of io_tx_fifo that are taken
        self.fetched: list[int] = []
        self.popped = -1
        self.crossing = 0
        self.waiting: list[int] = []  # elements that the peripheral sees

    def ask(self) -> None:
        """Let L2 be asked for the next element, if there is room for it; one a cycle."""
        now = int(self.env.now)
        if not self.is_enabled or self.fetching == FETCHED or self.granted == now:
            return
        self.granted = now
        self.fetching += 1
        offset, _, is_last = self._advance()
        later(self.env, 1, self._fetch, offset, self.step, is_last)
        if is_last:
            self._end()
        later(self.env, 1, self.ask)

    def take(self) -> int:
        """The first element that waits, which the peripheral takes."""
        later(self.env, 3 + self.period, self._free_crossing)
        return self.waiting.pop(0)

    def _fetch(self, offset: int, size: int, is_last: bool) -> None:
        later(self.env, 3, self._offer, int.from_bytes(self.l2.load(offset, size), "little"))
        if is_last:
            self.event(self.number)

    def _offer(self, element: int) -> None:
        self.fetched.append(element)
        self._pop()

    def _pop(self) -> None:
        """Let the next element cross, if there is room; one a cycle."""
        if not self.fetched or self.crossing == self.room:
            return
        if self.popped == int(self.env.now):
            later(self.env, 1, self._pop)
            return
        self.popped = int(self.env.now)
        self.crossing += 1
        later(self.env, 2, self._free_fetched)
        element = self.fetched.pop(0)
        later(self.env, 1 + 3 * self.period, self._arrive, element)
        self.passing(element)

    def _free_fetched(self) -> None:
        self.fetching -= 1
        self.ask()

    def _arrive(self, element: int) -> None:
        self.waiting.append(element)
        self.arrived()

    def _free_crossing(self) -> None:
        self.crossing -= 1
        self._pop()


class ToL2(Channel):
    """From the peripheral: `received` -> L2.

    depth    of udma_dc_fifo

    Ports
        is_held    in    nothing is to be taken out of `received`
        taken      out   one has been
    """

    def __init__(
        self,
        block: RegisterBlock,
        ports: UdmaPorts,
        prefix: str,
        event: int,
        depth: int,
        step: int = 1,
    ):
        super().__init__(block, ports, prefix, event, step)
        self.room = depth + SPILL
        self.is_held: Callable[[], bool] = bool
        self.taken: Callable[[], None] = _nothing
        self.received: list[int] = []
        self.is_draining = False

    def put(self, element: int) -> bool:
        """An element has crossed to L2's clock. False: there is no room, it is lost."""
        if len(self.received) == self.room:
            return False
        self.received.append(element)
        self.ask()
        return True

    def ask(self) -> None:
        """Grant the channel its next element: one a cycle."""
        if self.is_draining or not self.received or self.is_held() or not self.is_enabled:
            return
        self.is_draining = True
        offset, size, is_last = self._advance()
        later(self.env, 1, self._granted, is_last)
        later(self.env, 2, self._told, is_last)
        later(self.env, 3, self._write, offset, self.received.pop(0), size)
        self.taken()

    def _granted(self, is_last: bool) -> None:
        self.is_draining = False
        if is_last:
            self._end()
        self.ask()

    def _told(self, is_last: bool) -> None:
        if is_last:
            self.event(self.number)

    def _write(self, offset: int, element: int, size: int) -> None:
        self.l2.store(offset, (element & (1 << 8 * size) - 1).to_bytes(size, "little"))


class ChannelBlock(RegisterBlock):
    """The registers of a peripheral with channels.

    channels    by the prefix of their registers; the class that inherits fills them in
    """

    def __init__(self, ports: UdmaPorts, block: Block):
        super().__init__(ports.name, block, ports.warn)
        self.env, self.l2, self.event = ports.env, ports.l2, ports.event
        self.channels: dict[str, Channel] = {}

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield from self.channels.values()

    @property
    def now(self) -> int:
        """The cycle."""
        return int(self.env.now)

    @loads(*(f"{prefix}_ADDRESS" for prefix in _CHANNELS))
    def _load_address(self, name: str, index: int) -> int:
        channel = self._channel(name)
        return self.l2.base + channel.offset if channel.is_enabled else 0

    @loads(*(f"{prefix}_SIZE" for prefix in _CHANNELS))
    def _load_size(self, name: str, index: int) -> int:
        channel = self._channel(name)
        return channel.left if channel.is_enabled else 0

    @loads(*(f"{prefix}_CONFIG" for prefix in _CHANNELS))
    def _load_config(self, name: str, index: int) -> int:
        return self._channel(name).load_config() | self.size_bits(name)

    @stores(*(f"{prefix}_CONFIG" for prefix in _CHANNELS))
    def _store_config(self, name: str, index: int, value: int) -> None:
        channel = self._channel(name)
        self.set_size(channel, value)
        channel.store_config(value)
        self.started(channel)

    def size_bits(self, name: str) -> int:
        """Bits 2:1 that a load of CONFIG finds."""
        return 0

    def set_size(self, channel: Channel, config: int) -> None:
        """Let a channel have the size of elements of a CONFIG: here it is always the same."""

    def started(self, channel: Channel) -> None:
        """CONFIG of a channel has been stored."""

    def _channel(self, name: str) -> Channel:
        return self.channels[name.partition("_")[0]]


class CommandBlock(ChannelBlock, Generic[Device]):
    """The registers of a master that carries out the commands of its channel CMD one by one.

    devices    on its lines
    setup      numbers of the commands SET_ADDRESS and SET_SIZE
    depth      elements that each of its three FIFOs, udma_dc_fifo, holds
    step       bytes of an element of RX and TX

    Events 0 to 2 are those of RX, TX and CMD.
    """

    def __init__(
        self,
        ports: UdmaPorts,
        block: Block,
        devices: Iterable[Device],
        setup: tuple[int, int],
        depth: int,
        step: int,
    ):
        super().__init__(ports, block)
        self.devices, self.setup = tuple(devices), setup
        self.rx = ToL2(self, ports, "RX", 0, depth, step)
        self.tx = ToPeripheral(self, ports, "TX", 1, depth, self.tx_arrived, step)
        self.cmd = ToPeripheral(self, ports, "CMD", 2, depth, self.go_on, 4)
        self.cmd.passing = self._note_setup
        self.channels = {"RX": self.rx, "TX": self.tx, "CMD": self.cmd}

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield from super().parts()
        for device in self.devices:
            yield device
            yield from getattr(device, "parts", tuple)()

    def go_on(self) -> None:
        """A command has arrived: take it, if none is under way."""
        raise NotImplementedError

    def tx_arrived(self) -> None:
        """An element of TX has arrived."""
        raise NotImplementedError

    def _note_setup(self, word: int) -> None:
        """A command begins to cross: SET_ADDRESS and SET_SIZE act here."""
        set_address, set_size = self.setup
        command, side = word >> 28, "TX" if word >> 27 & 1 else "RX"
        if command == set_address:
            self.put(f"{side}_ADDRESS", 0, self.l2.base + (word & self.l2.mask))
        elif command == set_size:
            self.put(f"{side}_SIZE", 0, word & SIZE)
            channel = self.channels[side]
            self.set_size(channel, word >> 24)
            channel.store_config(channel.config & CONTINUOUS | ENABLE)
