"""A 24xx EEPROM on I2C, as a 24FC1025 has its commands: bytes written by pages, read one by one.

A control byte (1010, block or A2, A1, A0, read) chooses it; two bytes of address follow a write's.
Of a page's end a write goes on at its start; a stop begins it, and while it lasts, nothing is
acknowledged. Reads go on to the end of a block of 64 kB, then at its start.
"""

from collections.abc import Iterator
from enum import IntEnum

from soc.board.memory import BoardMemory

CODE = 0b1010
BLOCK = 1 << 16


class Mode(IntEnum):
    """What the next byte is."""

    IGNORED = 0
    CONTROL = 1
    HIGH = 2
    LOW = 3
    DATA = 4
    READ = 5


class Eeprom:
    """An EEPROM that sees the lines change.

    select        what A2, A1 and A0 are wired to
    page          bytes that are written at once, at most
    write_time    cycles of a write

    State: `bit` of the byte under way, 8 its acknowledgement; `byte`, what came or goes of it;
    `buffer`, bytes of a page to write; `busy_until`, the cycle from which it answers again.
    """

    def __init__(self, memory: BoardMemory, select: int, page: int, write_time: int):
        self.memory, self.select, self.page, self.write_time = memory, select, page, write_time
        self.mode = int(Mode.IGNORED)
        self.scl = self.sda = self.driven = 1
        self.bit = self.byte = self.address = 0
        self.is_acknowledged = False
        self.buffer: dict[int, int] = {}
        self.busy_until = 0

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield self.memory

    def answers(self, control: int) -> bool:
        """Is a control byte its own?"""
        bits = control >> 1 & 7
        if self.memory.size > BLOCK:  # bit 2 is the address's
            bits, select = bits & 3, self.select & 3
        else:
            select = self.select
        return control >> 4 == CODE and bits == select

    def lines(self, scl: int, sda: int, cycle: int) -> int:
        """The lines are so from this cycle on: what it lets SDA be."""
        was_high, was_sda = self.scl, self.sda
        self.scl, self.sda = scl, sda
        if scl and was_high and sda != was_sda:
            if sda:
                self._stop(cycle)
            else:
                self._start()
        elif scl and not was_high:
            self._rise(sda)
        elif was_high and not scl:
            self._fall(cycle)
        return self.driven

    def _start(self) -> None:
        self.mode, self.bit, self.byte, self.driven = int(Mode.CONTROL), -1, 0, 1
        self.buffer.clear()

    def _stop(self, cycle: int) -> None:
        if self.mode == Mode.DATA and self.buffer and self.bit == 0:
            start = self.address % self.memory.size & -self.page
            for place, byte in self.buffer.items():
                self.memory.write(start + place, bytes([byte]))
            self.busy_until = cycle + self.write_time
        self.buffer.clear()
        self.mode, self.driven = int(Mode.IGNORED), 1

    def _rise(self, sda: int) -> None:
        if self.mode == Mode.READ:
            self.is_acknowledged = not sda
        elif 0 <= self.bit < 8:
            self.byte = self.byte << 1 & 0xFF | sda

    def _fall(self, cycle: int) -> None:
        if self.mode == Mode.IGNORED:
            return
        self.bit += 1
        if self.bit == 8:
            self.driven = 1 if self.mode == Mode.READ or not self._take(cycle) else 0
        elif self.bit == 9:
            self._next()
        elif self.mode == Mode.READ:
            self.driven = self.byte >> 7 - self.bit & 1

    def _take(self, cycle: int) -> bool:
        """A byte has come. Is it acknowledged?"""
        byte, mode = self.byte, self.mode
        if mode == Mode.CONTROL:
            if cycle < self.busy_until or not self.answers(byte):
                self.mode = int(Mode.IGNORED)
                return False
            if byte & 1:
                self.is_acknowledged = True
            if self.memory.size > BLOCK:
                self.address = self.address & BLOCK - 1 | (byte >> 3 & 1) * BLOCK
        elif mode == Mode.HIGH:
            self.address = self.address & ~0xFF00 | byte << 8
        elif mode == Mode.LOW:
            self.address = self.address & ~0xFF | byte
        else:
            self.buffer[self.address & self.page - 1] = byte
            last = self.page - 1
            self.address = self.address & ~last | self.address + 1 & last
        return True

    def _next(self) -> None:
        """The acknowledgement is over."""
        self.bit = 0
        self.driven = 1
        if self.mode == Mode.CONTROL:
            self.mode = int(Mode.READ if self.byte & 1 else Mode.HIGH)
        elif self.mode in (Mode.HIGH, Mode.LOW):
            self.mode += 1
        if self.mode == Mode.READ:
            if not self.is_acknowledged:
                self.mode = int(Mode.IGNORED)
                return
            self.byte = self.memory.read(self.address % self.memory.size, 1)[0]
            self.address = self.address & ~(BLOCK - 1) | self.address + 1 & BLOCK - 1
            self.driven = self.byte >> 7
