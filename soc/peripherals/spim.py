"""The uDMA's SPI master: a stream of commands moves bits between L2 and devices on SPI.

Its states are those of udma_qspi's RTL (udma_spim_ctrl.sv, udma_spim_txrx.sv, read; no program was
measured): a bit takes a clock, and each command so many besides as its states do. A clock is one
cycle where the divider d is 0, else 2 d. What is before the controller, and after it, is that of
soc.peripherals.udma_channel. Not established: the cycles in which a change of the divider stops the
clock, and those from the controller's END to its event, taken as EVENT_DELAY.

As in the RTL, a receiver does not stop: words that neither its FIFO nor L2 takes are lost. A word
keeps the bits of its predecessor in places that its own do not reach. In quad mode the number of
bits is a multiple of 4, or the controller never ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from soc.address_map.spim import SPIM, Command
from soc.peripherals.bus import later
from soc.peripherals.udma import UdmaPorts
from soc.peripherals.udma_channel import Channel, CommandBlock

END = 3
"""Its event besides those of its channels."""
DEPTH = 8
"""Words that each udma_dc_fifo holds."""
REPEATED = 6
"""Commands that the buffer of a repetition holds."""
EVENT_DELAY = 3
MATCHED, ENDED = 1, 2
STEPS = (1, 2, 4, 4)
"""Bytes of an element, by bits 2:1 of CONFIG."""
FLOATING = 0b1101
"""Lines 3, 2 and 0 in quad mode, where no device drives them."""

TRANSFERS = (1, 2, 4, 1)
"""Words of a transfer, by bits 22:21 of a command."""
MOVES = (
    Command.SEND,
    Command.DUMMY,
    Command.TX_DATA,
    Command.RX_DATA,
    Command.CHECK,
    Command.FULL_DUPLEX,
)


class SpiDevice(Protocol):
    """What is on the lines of SPI."""

    def select(self) -> None: ...

    def deselect(self) -> None: ...

    def clock(self, bit: int) -> int:
        """One clock with the master's bit: the bit that the device drives."""
        ...


@dataclass(frozen=True)
class Move:
    """Words on the lines.

    command     which one asks for them
    words       so many
    bits        of a word
    transfer    words of a 32-bit transfer
    """

    command: Command
    words: int
    bits: int
    transfer: int
    is_lsb_first: bool
    is_quad: bool

    @property
    def clocks(self) -> int:
        """Of a word."""
        return self.bits // 4 if self.is_quad else self.bits

    @property
    def sends(self) -> bool:
        return self.command in (Command.SEND, Command.TX_DATA, Command.FULL_DUPLEX)

    @property
    def receives(self) -> bool:
        return not self.sends or self.command == Command.FULL_DUPLEX


@cache
def move_of(word: int) -> Move:
    """The move that a command asks for."""
    command, bits, is_quad = Command(word >> 28), (word >> 16 & 31) + 1, bool(word >> 27 & 1)
    if command in (Command.SEND, Command.DUMMY):
        return Move(command, 1, bits, 1, False, is_quad)
    is_lsb_first = bool(word >> 26 & 1)
    if command == Command.CHECK:
        return Move(command, 1, (bits - 1 & 15) + 1, 1, is_lsb_first, is_quad)
    is_quad = is_quad and command != Command.FULL_DUPLEX
    transfer = TRANSFERS[word >> 21 & 3]
    return Move(command, (word & 0xFFFF) + 1, bits, transfer, is_lsb_first, is_quad)


@cache
def places(move: Move, first: int, clock: int, is_sent: bool) -> list[int | None]:
    """Where the bits of lines 0 to 3, or the one line's, of a clock are in the shift register.

    first    place of the word's lowest bit
    """
    if not move.is_quad:
        place = clock if move.is_lsb_first else move.bits - 1 - clock
        return [first + place & 31]
    lowest = 4 * clock + (0 if is_sent else 3) if move.is_lsb_first else move.bits - 4 * clock - 4
    lowest = first + lowest & 31
    return [lowest + line if lowest + line < 32 else None for line in range(4)]


class Spim(CommandBlock[SpiDevice], read_only=("STATUS",)):
    """Carries out commands one by one.

    devices    by their chip selects; those past the end have none

    Ports
        ports    see UdmaPorts

    State: `period`, cycles of a clock; `sent`, `got`, the shift registers; `word_of_transfer`, how
    far the current transfer is; `buffer`, commands that are repeated, `rounds` times more.
    """

    def __init__(self, ports: UdmaPorts, devices: Sequence[SpiDevice] = ()):
        setup = Command.SET_ADDRESS, Command.SET_SIZE
        super().__init__(ports, SPIM, devices, setup, DEPTH, 4)
        self.sizes = {"RX": 2, "TX": 2}
        self.period = 1
        self.is_busy = False
        self.selected: list[int] = []
        self.sent = self.got = self.word_of_transfer = 0
        self.moving = -1  # the command whose words move
        self.left = self.place = 0  # words that are left of it; place of the current one
        self.is_waiting = False  # for a word of TX
        self.awaited = -1  # trigger
        self.is_gathering = self.is_repeating = self.is_matched = False
        self.buffer: list[tuple[int, bool]] = []
        self.rounds = self.status = 0

    def loading(self, offset: int) -> Callable[[], int]:
        """As in RegisterBlock."""
        if offset == SPIM.offset("STATUS"):
            return lambda: self.status
        return super().loading(offset)

    def size_bits(self, name: str) -> int:
        """As in ChannelBlock: of TX, none are seen; elements of CMD are words."""
        return {"RX": self.sizes["RX"], "TX": 0, "CMD": 2}[name.partition("_")[0]] << 1

    def set_size(self, channel: Channel, config: int) -> None:
        """As in ChannelBlock."""
        if channel.prefix in self.sizes:
            self.sizes[channel.prefix] = config >> 1 & 3
            channel.step = STEPS[config >> 1 & 3]

    def triggered(self, number: int) -> None:
        """A trigger of the uDMA's core, 0 to 3, in this cycle."""
        if number == self.awaited:
            self.awaited = -1
            self._end_in(1)

    # Commands

    def go_on(self) -> None:
        """Take the next command, if none is under way and there is one."""
        if self.is_busy:
            return
        if self.is_repeating:
            if not self.buffer:
                self.warn_once("a repetition of no commands never ends")
                return
            word = self._repeat()
        elif self.cmd.waiting:
            word = self.cmd.take()
        else:
            return
        self.is_busy = True
        if self.is_gathering:
            self._gather(word)
        else:
            self._execute(word)

    def _end_in(self, clocks: int) -> None:
        later(self.env, clocks * self.period, self._ended)

    def _ended(self) -> None:
        self.is_busy = False
        self.go_on()

    def _gather(self, word: int) -> None:
        if word >> 28 == Command.REPEAT_END:
            self.is_gathering, self.is_repeating = False, True
        elif len(self.buffer) == REPEATED:
            self.warn_once(f"a repetition of more than {REPEATED} commands loses those that follow")
        else:
            self.buffer.append((word, not self.buffer))
        self._end_in(1)

    def _repeat(self) -> int:
        """The next command of a repetition. After its end the first one comes once more."""
        word, is_first = self.buffer.pop(0)
        self.buffer.append((word, is_first))
        if self.is_matched or (is_first and self.rounds == 0):
            self.status = MATCHED if self.is_matched else ENDED
            self.is_matched = self.is_repeating = False
        elif is_first:
            self.rounds -= 1
        return word

    def _execute(self, word: int) -> None:
        command = word >> 28
        if command in MOVES:
            self._begin(word)
        elif command == Command.CONFIG:
            self._end_in(3)
            self.period = 2 * (word & 0xFF) or 1
            self.cmd.period = self.tx.period = self.period
        elif command == Command.START:
            self._select(word & 3)
            self._end_in(2 + (word & 0xFF))
        elif command == Command.WAIT and word >> 8 & 3 == 0:
            self.awaited = word & 3
        elif command == Command.WAIT and word >> 8 & 3 == 1:
            self._end_in(2 + (word & 0xFF))
        elif command == Command.REPEAT:
            self.buffer, self.rounds = [], word & 0xFFFF
            self.is_gathering, self.status = True, 0
            self._end_in(1)
        elif command == Command.END:
            self._stop(word)
        else:
            self._end_in(1)

    def _select(self, number: int) -> None:
        if number not in self.selected:
            self.selected.append(number)
        if number < len(self.devices):
            self.devices[number].select()
        else:
            self.warn_once(f"no device has chip select {number}: what it would drive is 1")

    def _stop(self, word: int) -> None:
        """The end of a transfer: it is told, the devices are no longer selected."""
        if word & 1:
            later(self.env, EVENT_DELAY, self.event, END)
        if not word & 2:
            later(self.env, 2 * self.period, self._deselect)
        self._end_in(1 if word & 2 else 2)

    def _deselect(self) -> None:
        for number in self.selected:
            if number < len(self.devices):
                self.devices[number].deselect()
        self.selected = []

    # Moves

    def _begin(self, word: int) -> None:
        move = move_of(word)
        if move.is_quad and move.bits % 4:
            what = f"{move.bits} bits in quad mode"
            self.warn_once(f"{what}: the controller never ends, as in the RTL")
            return
        self.moving, self.left, self.place = word, move.words, 0
        if move.command in (Command.TX_DATA, Command.FULL_DUPLEX):
            later(self.env, self.period, self._load)
            return
        if move.command == Command.SEND:
            self.sent = word & 0xFFFF
        extra = move.clocks == 1 and not move.sends  # its first bit is not looked at
        if extra:
            self._clock(move, 1)
        later(self.env, (1 + extra + move.clocks) * self.period, self._word_done)

    def tx_arrived(self) -> None:
        if self.is_waiting:
            self._load()

    def _load(self) -> None:
        """Take a word of TX in the clock before its first bit, once it is there."""
        self.is_waiting = not self.tx.waiting
        if self.tx.waiting:
            self.sent = self.tx.take()
            later(self.env, (1 + move_of(self.moving).clocks) * self.period, self._word_done)

    def _word_done(self) -> None:
        """A word's last clock is over: its bits have moved."""
        move = move_of(self.moving)
        self._clock(move, move.clocks)
        is_whole = self.word_of_transfer == move.transfer - 1
        self.word_of_transfer = 0 if is_whole else self.word_of_transfer + 1 & 3
        self.place += 32 // move.transfer if move.transfer > 1 else 0
        if move.command == Command.CHECK and is_whole:
            self._check(self.moving)
        elif move.receives and move.command != Command.DUMMY and is_whole:
            later(self.env, 4, self._received, self.got)
        self.left -= 1
        if self.left == 0:
            self.moving = -1
            self._ended()
        elif not move.sends or not is_whole:
            later(self.env, move.clocks * self.period, self._word_done)
        elif self.tx.waiting:
            self.sent = self.tx.take()
            later(self.env, move.clocks * self.period, self._word_done)
        else:
            self.is_waiting = True

    def _clock(self, move: Move, clocks: int) -> None:
        """So many clocks of a word; `place` is that of its lowest bit."""
        for clock in range(clocks):
            bits = 0
            if move.sends:
                for line, at in enumerate(places(move, self.place, clock, True)):
                    bits |= (self.sent >> at & 1) << line if at is not None else 0
            driven = self._exchange(bits & 1)
            if move.receives:
                lines = FLOATING | driven << 1 if move.is_quad else driven
                for line, at in enumerate(places(move, self.place, clock, False)):
                    if at is not None:
                        self.got = self.got & ~(1 << at) | (lines >> line & 1) << at

    def _exchange(self, bit: int) -> int:
        """A clock: line 0 has a bit, the selected devices drive line 1."""
        driven = 1
        for number in self.selected:
            if number < len(self.devices):
                driven &= self.devices[number].clock(bit)
        return driven

    def _received(self, word: int) -> None:
        if not self.rx.put(word):
            self.warn_once(f"a word is lost: {self.rx.room} wait, no transfer takes them")

    def _check(self, word: int) -> None:
        got, value, how = self.got & 0xFFFF, word & 0xFFFF, word >> 24 & 3
        self.is_matched = (
            got == value,
            got & value == value,
            ~got & ~value & 0xFFFF == ~value & 0xFFFF,
            got & value != value,
        )[how]
