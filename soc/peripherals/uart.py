"""The uDMA's UART: characters from L2 to a serial line, and from the line to L2.

All clocks are equal here, so the cycles are those of the RTL with equal, aligned clocks and an L2
that always grants: udma_uart 1.0.2 with udma_core 1.1.2, simulated. Up to nine bytes have left L2
before the first one is sent (soc.peripherals.udma_channel has the FIFOs on their way). In cycles
after A, the store that enables the channel: L2 is asked in A + 3, the start bit begins in A + 11,
STATUS tells of it from A + 13.

Not measured on RTL: a divider of 0 or 1 in the receiver.
"""

from collections.abc import Callable

from soc.address_map.udma import ENABLE, UART
from soc.board.uart_source import Source
from soc.peripherals.bus import later
from soc.peripherals.register_block import loads, stores
from soc.peripherals.udma import UdmaPorts
from soc.peripherals.udma_channel import Channel, ChannelBlock, ToL2, ToPeripheral

RX, TX = 0, 1

TX_ON, RX_ON = 1 << 8, 1 << 9
POLLING, CLEAN = 1 << 4, 1 << 5
BY_INTERRUPT = 1 << 0
OVERFLOW, BAD_PARITY = 1 << 0, 1 << 1

CROSSING = 4
"""Bytes that udma_dc_fifo holds, either way."""


class Uart(ChannelBlock, read_only=("STATUS", "ERROR", "VALID", "DATA")):
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
        super().__init__(ports, UART)
        self.sent, self.source, self.loopback = sent, source, loopback
        self.rx = ToL2(self, ports, "RX", RX, CROSSING)
        self.tx = ToPeripheral(self, ports, "TX", TX, CROSSING, self._send)
        self.channels |= {"RX": self.rx, "TX": self.tx}
        self.rx.is_held, self.rx.taken = self._is_polled, self._listen
        self.position = 0  # in the source
        self.divider = self.frame_bits = self.data_bits = 0  # as the line has them
        self.has_parity = False
        # transmitter
        self.sending = -1  # byte under way
        self.frame = 0  # its number
        self.spans = [(0, 0), (0, 0)]  # cycles of the last two characters
        # receiver
        self.heard = 0  # characters that have begun and are not received
        self.receiving = 0  # cycle from which the next character may be taken
        self.is_listening = False

    def started(self, channel: Channel) -> None:
        """As in ChannelBlock: a transfer that receives lets the source go on."""
        if channel.config & ENABLE:
            self._listen()

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
            self.rx.received.clear()
        if not value & TX_ON and self.sending >= 0:
            self.warn_once("the transmitter is switched off in the midst of a character")
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
        self.rx.ask()

    @loads("ERROR")
    def _load_error(self, name: str, index: int) -> int:
        error = self.word(name)
        self.put(name, index, 0)
        return error

    @loads("VALID")
    def _valid(self, name: str, index: int) -> int:
        self._listen()
        return int(self._is_polled() and bool(self.rx.received))

    @loads("DATA")
    def _data(self, name: str, index: int) -> int:
        if not self._is_polled() or not self.rx.received:
            return 0
        byte = self.rx.received.pop(0)
        self._listen()
        return byte

    def _is_polled(self) -> bool:
        return bool(self.word("SETUP") & POLLING or self.word("INTERRUPTS") & BY_INTERRUPT)

    # Transmitter

    def _send(self) -> None:
        """Take the next byte, if the line is idle: its start bit begins in the next cycle."""
        if self.sending >= 0 or not self.tx.waiting or not self.word("SETUP") & TX_ON:
            return
        self.sending = self.tx.take()
        start = self.now + 1
        self.spans = [self.spans[-1], (start, start + self._frame() + 1)]
        later(self.env, self._frame() + 2, self._end_character, self.frame)
        if self.loopback:
            self._hear(self.sending & (1 << self.data_bits) - 1, start)

    def _end_character(self, frame: int) -> None:
        if frame == self.frame:
            self.frame += 1
            byte, self.sending = self.sending, -1
            self.sent(byte & (1 << self.data_bits) - 1)
            self._send()

    def _frame(self) -> int:
        """Cycles of a character, but for the start bit's one more."""
        return self.frame_bits * (self.divider + 1)

    # Receiver

    def _listen(self) -> None:
        """Let the next character of the source begin, if one is waited for and has room."""
        if self.is_listening or self.source is None or not self.word("SETUP") & RX_ON:
            return
        if len(self.rx.received) >= self.rx.room:
            return  # when one is taken, it goes on
        channel = self.rx
        if not self._is_polled() and channel.left <= len(self.rx.received) + self.heard:
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
        if not self.rx.put(byte):
            self.warn_once(f"a character is lost: {self.rx.room} wait, no transfer takes them")
            self.put("ERROR", 0, self.word("ERROR") | OVERFLOW)
