"""Registers and memory of the harts, as packets read and write them.

Source: GDB manual, appendix E.2: g, G, p, P, m, M, X, qCRC.
"""

from pulpsim.gdb import fields
from pulpsim.gdb.fields import BadPacket
from pulpsim.gdb.packet import LARGEST
from pulpsim.gdb.target import PC, registers
from soc.debug.cursor import Cursor
from soc.debug.edits import CsrEdit, Edit, MemoryEdit, PcEdit, RegisterEdit

OK, NO_MEMORY = b"OK", b"E0e"


class Contents:
    """Memory and registers of the chip where a cursor is.

    hart         whose registers are meant
    registers    by GDB's numbers
    """

    def __init__(self, cursor: Cursor, hart: int):
        self.cursor, self.session, self.hart = cursor, cursor.session, hart
        self.registers = registers(self.session.isa)

    def value(self, h: int, number: int) -> int:
        register = self.registers.get(number)
        if register is None:
            raise BadPacket(f"no register {number}")
        if number == PC:
            return self.cursor.pc(h)
        view = self.cursor.view
        if register.csr >= 0:
            return view.csr(h, register.csr)
        return view.register(h, register.entry)

    @property
    def _together(self) -> list[int]:
        """The registers of `g` and `G`: all but CSRs."""
        return [number for number, register in self.registers.items() if register.csr < 0]

    def read_all(self) -> bytes:
        words = (fields.word(self.value(self.hart, number)) for number in self._together)
        return "".join(words).encode()

    def read_one(self, rest: str) -> bytes:
        return fields.word(self.value(self.hart, fields.number(rest))).encode()

    def write_one(self, rest: str) -> bytes:
        number, _, value = rest.partition("=")
        self.write(fields.number(number), fields.from_word(value))
        return OK

    def write_all(self, rest: str) -> bytes:
        if len(rest) != 8 * len(self._together):
            raise BadPacket(f"{len(rest)} digits")
        for k, number in enumerate(self._together):
            self.write(number, fields.from_word(rest[8 * k : 8 * k + 8]))
        return OK

    def write(self, number: int, value: int) -> None:
        if self.value(self.hart, number) == value:
            return
        register, cycle = self.registers[number], self.session.cycle
        edit: Edit
        if number == PC:
            edit = PcEdit(cycle, self.hart, value)
        elif register.csr >= 0:
            edit = CsrEdit(cycle, self.hart, register.csr, value)
        else:
            cycle += self.cursor.view.is_loaded(self.hart, register.entry)
            edit = RegisterEdit(cycle, self.hart, register.entry, value)
        self._edit(edit)

    def _edit(self, edit: Edit) -> None:
        if self.session.end is not None:
            raise BadPacket("the program has ended")
        self.session.edit(edit)
        self.cursor.changed()

    def read_memory(self, rest: str) -> bytes:
        address, size = fields.numbers(rest, 2)
        data = self._memory(address, min(size, LARGEST // 2))
        return data.hex().encode() if data or not size else NO_MEMORY

    def _memory(self, address: int, size: int) -> bytes:
        """Read bytes from an address on, as many as one memory has."""
        for memory in (self.session.spec.l1, self.session.spec.l2):
            if memory.base <= address < memory.base + memory.size:
                size = min(size, memory.base + memory.size - address)
                return self.cursor.view.read(address, size)
        return b""

    def write_memory(self, rest: str) -> bytes:
        where, _, digits = rest.partition(":")
        return self._store(where, fields.data(digits))

    def write_binary(self, rest: bytes) -> bytes:
        where, _, data = rest.partition(b":")
        return self._store(where.decode("ascii", "replace"), data)

    def _store(self, where: str, data: bytes) -> bytes:
        address, size = fields.numbers(where, 2)
        if size != len(data):
            raise BadPacket(f"{len(data)} bytes instead of {size}")
        before = self._memory(address, size)
        if len(before) != size:
            return NO_MEMORY
        if before != data:
            self._edit(MemoryEdit(self.session.cycle + 1, address, data))
        return OK

    def checksum(self, arguments: str) -> bytes:
        """The CRC-32 of memory as GDB's compare-sections has it."""
        address, size = fields.numbers(arguments, 2)
        data = self._memory(address, size)
        if len(data) != size:
            return NO_MEMORY
        value = 0xFFFFFFFF
        for byte in data:
            value = (value << 8 & 0xFFFFFFFF) ^ CRC[value >> 24 ^ byte]
        return f"C{value:08x}".encode()


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)
        table.append(value & 0xFFFFFFFF)
    return table


CRC = _crc_table()
