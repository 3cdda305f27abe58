"""The uDMA's UART: characters from L2 to a serial line, and from the line to L2.

All clocks are equal here, so the cycles are those of the RTL with equal, aligned clocks and an L2
that always grants: udma_uart 1.0.2 with udma_core 1.1.2, simulated. On the way of a character to
the line lie two FIFOs, `fetched` (2 places, taken when L2 is asked) and `crossing` (6), so that up
to nine bytes have left L2 before the first one is sent. In cycles after A, the store that enables
the channel: L2 is asked in A + 3, the start bit begins in A + 11, STATUS tells of it from A + 13.

Not measured on RTL: a second transfer that waits, a divider of 0 or 1 in the receiver.
"""

from collections.abc import Callable, Iterator

from soc.address_map.udma import CLEAR, CONTINUOUS, ENABLE, PENDING, UART
from soc.board.uart_source import Source
from soc.peripherals.bus import later
from soc.peripherals.register_block import RegisterBlock, loads, stores
from soc.peripherals.udma import UdmaPorts

RX, TX = 0, 1
SIDES = ("RX", "TX")
SIZE = (1 << 20) - 1

TX_ON, RX_ON = 1 << 8, 1 << 9
POLLING, CLEAN = 1 << 4, 1 << 5
BY_INTERRUPT = 1 << 0
OVERFLOW, BAD_PARITY = 1 << 0, 1 << 1

FETCHED, CROSSING = 2, 6
"""Bytes that the transmitter's FIFOs hold: io_tx_fifo; udma_dc_fifo (4) with its spill register."""

RECEIVED = 6
"""Bytes that wait for the receiver's channel: udma_dc_fifo (4) with its spill register."""


class Channel:
    """One way of the UART to L2 or back.

    offset     in L2, of the next element
    left       bytes that are left of the transfer
    """

    def __init__(self) -> None:
        self.offset = self.left = self.config = 0
        self.is_enabled = self.is_pending = False


class Uart(RegisterBlock, read_only=("STATUS", "ERROR", "VALID", "DATA")):
    """Sends and receives characters.

    source      bytes that come from outside, back to back, while a transfer or polling waits
    loopback    what is sent is received, too

    Ports
        ports    see UdmaPorts
        sent     out   a character has gone out
    """

    def __init__(
        self,
        ports: UdmaPorts,
        sent: Callable[[int], None],
        source: Source | None = None,
        loopback: bool = False,
    ):
        super().__init__(ports.name, UART, ports.warn)
        self.env, self.l2, self.event = ports.env, ports.l2, ports.event
        self.sent, self.source, self.loopback = sent, source, loopback
        self.channels = (Channel(), Channel())
        self.position = 0  # in the source
        self.divider = self.frame_bits = self.data_bits = 0  # as the line has them
        self.has_parity = False
        # transmitter
        self.granted = -1  # cycle of the channel's last grant
        self.fetching = 0  # places of io_tx_fifo that are taken
        self.fetched: list[int] = []
        self.popped = -1
        self.crossing = 0
        self.waiting: list[int] = []  # bytes that the state machine sees
        self.sending = -1  # byte under way
        self.frame = 0  # its number
        self.spans = [(0, 0), (0, 0)]  # cycles of the last two characters
        # receiver
        self.received: list[int] = []
        self.heard = 0  # characters that have begun and are not received
        self.receiving = 0  # cycle from which the next character may be taken
        self.is_listening = False
        self.is_draining = False
        self.reported: list[str] = []

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield from self.channels

    @property
    def now(self) -> int:
        """The cycle."""
        return int(self.env.now)

    def _report(self, text: str) -> None:
        if text not in self.reported:
            self.reported.append(text)
            self.warn(f"uart: {text}")

    # Registers

    @loads("RX_ADDRESS", "TX_ADDRESS")
    def _load_address(self, name: str, index: int) -> int:
        channel = self._channel(name)
        return self.l2.base + channel.offset if channel.is_enabled else 0

    @loads("RX_SIZE", "TX_SIZE")
    def _load_size(self, name: str, index: int) -> int:
        channel = self._channel(name)
        return channel.left if channel.is_enabled else 0

    @loads("RX_CONFIG", "TX_CONFIG")
    def _load_config(self, name: str, index: int) -> int:
        channel = self._channel(name)
        bits = channel.config & CONTINUOUS
        return bits | ENABLE * channel.is_enabled | PENDING * channel.is_pending

    @stores("RX_CONFIG", "TX_CONFIG")
    def _store_config(self, name: str, index: int, value: int) -> None:
        channel = self._channel(name)
        channel.config = value
        if value & ENABLE:
            if channel.is_enabled:
                channel.is_pending = True
            else:
                self._take_up(channel, name[:2])
                ask = self._grant if channel is self.channels[TX] else self._drain
                later(self.env, 2, ask)
                self._listen()
        elif value & CLEAR:
            channel.is_enabled = channel.is_pending = False

    def _channel(self, name: str) -> Channel:
        return self.channels[SIDES.index(name[:2])]

    def _take_up(self, channel: Channel, side: str) -> None:
        size = self.word(f"{side}_SIZE") & SIZE
        channel.offset = self.l2.place(self.word(f"{side}_ADDRESS"), size)
        channel.left = size
        channel.is_enabled = size > 0

    def _end(self, channel: Channel, side: str) -> None:
        """A transfer's last element is granted: what waits begins, or the same anew."""
        if channel.is_pending or channel.config & CONTINUOUS:
            channel.is_pending = False
            self._take_up(channel, side)
        else:
            channel.is_enabled = False

    @loads("STATUS")
    def _status(self, name: str, index: int) -> int:
        seen = self.now - 2  # two flip-flops
        is_sending = any(begin <= seen < end for begin, end in self.spans)
        return int(is_sending) | self._is_receiving(seen) << 1

    def _is_receiving(self, cycle: int) -> bool:
        return self.is_listening and self.receiving - self._frame() < cycle < self.receiving

    @stores("SETUP")
    def _store_setup(self, name: str, index: int, value: int) -> None:
        rises = value & ~self.word("SETUP") & (TX_ON | RX_ON)
        self.put(name, index, value)
        if rises:  # the line's settings are taken then alone
            self.divider = value >> 16
            self.data_bits, self.has_parity = 5 + (value >> 1 & 3), bool(value & 1)
            self.frame_bits = 1 + self.data_bits + self.has_parity + 1 + (value >> 3 & 1)
        if value & CLEAN:
            self.received.clear()
        if not value & TX_ON and self.sending >= 0:
            self._report("the transmitter is switched off in the midst of a character")
            self.sending = -1
            self.frame += 1
            self.spans[-1] = self.spans[-1][0], self.now + 1
        if value & TX_ON:
            later(self.env, 3, self._send)
        if value & RX_ON:
            self._listen()

    @stores("INTERRUPTS")
    def _store_interrupts(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & 3)
        self._drain()

    @loads("ERROR")
    def _load_error(self, name: str, index: int) -> int:
        error = self.word(name)
        self.put(name, index, 0)
        return error

    @loads("VALID")
    def _valid(self, name: str, index: int) -> int:
        self._listen()
        return int(self._is_polled() and bool(self.received))

    @loads("DATA")
    def _data(self, name: str, index: int) -> int:
        if not self._is_polled() or not self.received:
            return 0
        byte = self.received.pop(0)
        self._listen()
        return byte

    def _is_polled(self) -> bool:
        return bool(self.word("SETUP") & POLLING or self.word("INTERRUPTS") & BY_INTERRUPT)

    # Transmitter: grant -> L2 -> fetched -> crossing -> the line

    def _grant(self) -> None:
        """Let L2 be asked for the next byte, if there is room for it; one a cycle."""
        channel = self.channels[TX]
        if not channel.is_enabled or self.fetching == FETCHED or self.granted == self.now:
            return
        self.granted = self.now
        self.fetching += 1
        channel.left -= 1
        is_last = channel.left == 0
        later(self.env, 1, self._fetch, channel.offset, is_last)
        channel.offset = channel.offset + 1 & self.l2.mask
        if is_last:
            self._end(channel, "TX")
        later(self.env, 1, self._grant)

    def _fetch(self, offset: int, is_last: bool) -> None:
        later(self.env, 3, self._offer, self.l2.load(offset, 1)[0])
        if is_last:
            self.event(TX)

    def _offer(self, byte: int) -> None:
        self.fetched.append(byte)
        self._pop()

    def _pop(self) -> None:
        """Let the next byte cross to the line's clock, if there is room; one a cycle."""
        if not self.fetched or self.crossing == CROSSING:
            return
        if self.popped == self.now:
            later(self.env, 1, self._pop)
            return
        self.popped = self.now
        self.crossing += 1
        later(self.env, 2, self._free_fetched)
        later(self.env, 4, self._arrive, self.fetched.pop(0))

    def _free_fetched(self) -> None:
        self.fetching -= 1
        self._grant()

    def _arrive(self, byte: int) -> None:
        self.waiting.append(byte)
        self._send()

    def _send(self) -> None:
        """Take the next byte, if the line is idle: its start bit begins in the next cycle."""
        if self.sending >= 0 or not self.waiting or not self.word("SETUP") & TX_ON:
            return
        self.sending = self.waiting.pop(0)
        later(self.env, 4, self._free_crossing)
        start = self.now + 1
        self.spans = [self.spans[-1], (start, start + self._frame() + 1)]
        later(self.env, self._frame() + 2, self._end_character, self.frame)
        if self.loopback:
            self._hear(self.sending & (1 << self.data_bits) - 1, start)

    def _free_crossing(self) -> None:
        self.crossing -= 1
        self._pop()

    def _end_character(self, frame: int) -> None:
        if frame == self.frame:
            self.frame += 1
            byte, self.sending = self.sending, -1
            self.sent(byte & (1 << self.data_bits) - 1)
            self._send()

    def _frame(self) -> int:
        """Cycles of a character, but for the start bit's one more."""
        return self.frame_bits * (self.divider + 1)

    # Receiver: the line -> received -> L2

    def _listen(self) -> None:
        """Let the next character of the source begin, if one is waited for and has room."""
        if self.is_listening or self.source is None or not self.word("SETUP") & RX_ON:
            return
        if len(self.received) >= RECEIVED:
            return  # when one is taken, it goes on
        channel = self.channels[RX]
        if not self._is_polled() and channel.left <= len(self.received) + self.heard:
            return
        byte = self.source.byte(self.position)
        if byte is None:
            return
        self.position += 1
        self.is_listening = True
        start = max(self.now, self.receiving)
        self.receiving = start + self._frame()
        later(self.env, self.receiving - self.now, self._next_character)
        self._hear(byte, start)

    def _next_character(self) -> None:
        self.is_listening = False
        self._listen()

    def _hear(self, byte: int, start: int) -> None:
        """A character begins on the line in a cycle: it has left the receiver in its stop bit."""
        if self.word("SETUP") & RX_ON:
            bits = 1 + self.data_bits + self.has_parity
            left = start + 3 + self.divider // 2 + bits * (self.divider + 1)
            self.heard += 1
            later(self.env, left + 4 - self.now, self._receive, byte)

    def _receive(self, byte: int) -> None:
        self.heard -= 1
        setup = self.word("SETUP")
        if not setup & RX_ON or setup & CLEAN:
            return
        if len(self.received) == RECEIVED:
            self._report(f"a character is lost: {RECEIVED} wait, no transfer takes them")
            self.put("ERROR", 0, self.word("ERROR") | OVERFLOW)
            return
        self.received.append(byte)
        self._drain()

    def _drain(self) -> None:
        """Grant the channel its next element: one a cycle."""
        channel = self.channels[RX]
        if self.is_draining or not self.received or self._is_polled() or not channel.is_enabled:
            return
        self.is_draining = True
        channel.left -= 1
        is_last = channel.left == 0
        later(self.env, 1, self._granted, is_last)
        later(self.env, 2, self._ask_to_write, is_last)
        later(self.env, 3, self._write, channel.offset, self.received.pop(0))
        channel.offset = channel.offset + 1 & self.l2.mask
        self._listen()

    def _granted(self, is_last: bool) -> None:
        self.is_draining = False
        if is_last:
            self._end(self.channels[RX], "RX")
        self._drain()

    def _ask_to_write(self, is_last: bool) -> None:
        if is_last:
            self.event(RX)

    def _write(self, offset: int, byte: int) -> None:
        self.l2.store(offset, bytes([byte]))
