"""A NOR flash on SPI: S25FS256S's commands, as they come bit by bit.

Of its commands those are here that read and write in single-bit mode: read ID (0x9F), status and
configuration (0x05, 0x07, 0x35), read (0x03, 0x13; 0x0B, 0x0C with 8 dummy clocks), write enable
and disable (0x06, 0x04), page program (0x02, 0x12), erase of 4 kB (0x20, 0x21), of 64 kB (0xD8,
0xDC), of all (0x60, 0xC7), clear status (0x30), reset (0x66, 0x99). Programming clears bits; past
the end of a page of 256 bytes it goes on at its start. An erase or a program begins when the device
is no longer selected, and takes effect at once; while it lasts, STATUS alone is answered.
"""

from collections.abc import Callable, Iterator

from soc.board.memory import BoardMemory
from soc.prelude.warns_once import WarnsOnce

PAGE, SECTOR, BLOCK = 0x100, 0x1000, 0x10000
COMMAND = 5
"""Bytes of a command with its address, at most."""
ID = bytes.fromhex("01 02 19 4D 01 81")
"""Manufacturer, device, length of what follows, sectors, family."""

BUSY, WRITE_ENABLED = 1 << 0, 1 << 1

READ_ID, STATUS_1, STATUS_2, CONFIGURATION = 0x9F, 0x05, 0x07, 0x35
WRITE_ENABLE, WRITE_DISABLE, CLEAR_STATUS = 0x06, 0x04, 0x30
RESET_ENABLE, RESET = 0x66, 0x99
READS = {0x03: (3, 0), 0x13: (4, 0), 0x0B: (3, 1), 0x0C: (4, 1)}
"""Bytes of the address, and those that pass before the first one is read."""
PROGRAMS = {0x02: 3, 0x12: 4}
ERASES = {0x20: (3, SECTOR), 0x21: (4, SECTOR), 0xD8: (3, BLOCK), 0xDC: (4, BLOCK)}
ERASES_ALL = (0x60, 0xC7)
IGNORED = -1
PLAIN = (WRITE_ENABLE, WRITE_DISABLE, CLEAR_STATUS, RESET_ENABLE, RESET, *ERASES_ALL)


class SpiFlash(WarnsOnce):
    """A flash, of which bytes are clocked in and out.

    program_time, erase_time    cycles of a page; of a sector, a block or all

    Ports
        now     in    the cycle
        warn    out   a sentence

    State: `taken`, the first bytes since it was selected, at most of a command and its address;
    `count`, all of them; `page`, by their places in it, the bytes that a program has last;
    `byte` and `bits`, what comes of the next one; `busy_until`, the cycle from which it takes
    commands again.
    """

    def __init__(
        self,
        memory: BoardMemory,
        program_time: int,
        erase_time: int,
        now: Callable[[], int],
        warn: Callable[[str], None],
    ):
        super().__init__("flash", warn)
        self.memory, self.now = memory, now
        self.program_time, self.erase_time = program_time, erase_time
        self.taken: list[int] = []
        self.page: dict[int, int] = {}
        self.count = self.byte = self.bits = self.out = 0
        self.is_selected = self.is_write_enabled = self.is_reset_enabled = False
        self.busy_until = 0

    def parts(self) -> Iterator[object]:
        """What has state besides."""
        yield self.memory

    def select(self) -> None:
        """Its chip select falls: a command begins."""
        if not self.is_selected:
            self.is_selected = True
            self.taken = []
            self.page.clear()
            self.count = self.bits = self.byte = 0

    def deselect(self) -> None:
        """Its chip select rises: what was commanded begins."""
        if self.is_selected:
            self.is_selected = False
            if self.taken and self.bits == 0:
                self._execute(self.taken[0])

    def clock(self, bit: int) -> int:
        """One clock: takes a bit, and returns the bit that it drives then."""
        if self.bits == 0:
            self.out = self._next()
        driven = self.out >> 7 - self.bits & 1
        self.byte = self.byte << 1 & 0xFF | bit
        self.bits += 1
        if self.bits == 8:
            self.bits = 0
            self._take(self.byte)
        return driven

    def _take(self, byte: int) -> None:
        self.count += 1
        width = PROGRAMS.get(self.taken[0]) if self.taken else None
        if width is not None and self.count > 1 + width:
            self.page[(self._address(width) + self.count - 2 - width) % PAGE] = byte
        elif len(self.taken) < COMMAND:
            self.taken.append(byte)
        if self.count == 1 and not self._is_known(byte):
            self.warn_once(f"command {byte:#04x} is not modelled: it is ignored")
        elif self.count == 1 and self.is_busy() and byte not in (STATUS_1, STATUS_2):
            self.warn_once(f"command {byte:#04x} comes while it is busy: it is ignored")
            self.taken = [IGNORED]

    def _is_known(self, byte: int) -> bool:
        reads = READ_ID, STATUS_1, STATUS_2, CONFIGURATION, *READS
        return byte in (*reads, *PROGRAMS, *ERASES, *PLAIN)

    def is_busy(self) -> bool:
        """Is a program or an erase under way?"""
        return self.now() < self.busy_until

    def _status(self) -> int:
        busy = self.is_busy()
        return busy * BUSY | (self.is_write_enabled or busy) * WRITE_ENABLED

    def _next(self) -> int:
        """The byte that it drives next."""
        command = self.taken[0] if self.taken else 0
        if command == READ_ID:
            return ID[self.count - 1] if self.count <= len(ID) else 0xFF
        if command == STATUS_1:
            return self._status()
        if command in (STATUS_2, CONFIGURATION):
            return 0
        if command in READS:
            width, dummies = READS[command]
            place = self.count - 1 - width - dummies
            if place >= 0:
                return self.memory.read((self._address(width) + place) % self.memory.size, 1)[0]
        return 0xFF

    def _address(self, width: int) -> int:
        return int.from_bytes(bytes(self.taken[1 : 1 + width]), "big") % self.memory.size

    def _execute(self, command: int) -> None:
        """Carry out a command that takes effect when the device is no longer selected."""
        is_reset, self.is_reset_enabled = self.is_reset_enabled, command == RESET_ENABLE
        if command == WRITE_ENABLE:
            self.is_write_enabled = True
        elif command == WRITE_DISABLE or (command == RESET and is_reset):
            self.is_write_enabled = False
        elif command in PROGRAMS or command in ERASES or command in ERASES_ALL:
            if self.is_write_enabled:
                self._write(command)
            else:
                self.warn_once(f"command {command:#04x} without write enable (0x06) is ignored")

    def _write(self, command: int) -> None:
        """Program or erase, if the command is whole."""
        time = self.erase_time
        if command in PROGRAMS:
            time, width = self.program_time, PROGRAMS[command]
            if not self.page:
                return
            self._program(self._address(width) & -PAGE)
        elif command in ERASES:
            width, size = ERASES[command]
            if self.count != 1 + width:
                return
            self.memory.write(self._address(width) & -size, b"\xff" * size)
        else:
            self.memory.pages.clear()
        self.is_write_enabled = False
        self.busy_until = self.now() + time

    def _program(self, start: int) -> None:
        """Clear bits of the page that begins there."""
        old = self.memory.read(start, PAGE)
        new = bytes(byte & self.page.get(place, 0xFF) for place, byte in enumerate(old))
        self.memory.write(start, new)
