"""The one file that GDB may read from here: the program, so that it need not be named twice.

Source: GDB manual, appendix E.11 "Host I/O Packets", E.14.9 "struct stat".
"""

import struct

from pulpsim.gdb import fields
from pulpsim.gdb.fields import BadPacket
from pulpsim.gdb.packet import LARGEST

HANDLE = 3
NO_ENTRY, BAD_HANDLE = 2, 9
STAT = struct.Struct(">7I3Q3I")
REGULAR_FILE = 0o100444


class Files:
    """The program's file, which has some name here."""

    def __init__(self, name: str, content: bytes):
        self.name, self.content = name, content

    def answer(self, packet: bytes) -> bytes:
        """vFile."""
        operation, _, arguments = packet.decode("ascii", "replace").partition(":")
        parts = arguments.split(",")
        if operation == "setfs":
            return b"F0"
        if operation == "open":
            name = fields.data(parts[0]).decode("utf-8", "replace")
            return f"F{HANDLE:x}".encode() if name == self.name else _error(NO_ENTRY)
        if operation not in ("close", "pread", "fstat"):
            return b""
        if fields.number(parts[0]) != HANDLE:
            return _error(BAD_HANDLE)
        if operation == "pread":
            return self._read(parts[1:])
        return b"F0" if operation == "close" else self._status()

    def _read(self, parts: list[str]) -> bytes:
        if len(parts) != 2:
            raise BadPacket("pread takes a count and an offset")
        count, offset = (fields.number(part) for part in parts)
        return _attached(self.content[offset : offset + min(count, LARGEST // 2)])

    def _status(self) -> bytes:
        size = len(self.content)
        return _attached(STAT.pack(0, 0, REGULAR_FILE, 1, 0, 0, 0, size, 512, size // 512, 0, 0, 0))


def _attached(data: bytes) -> bytes:
    return f"F{len(data):x};".encode() + data


def _error(number: int) -> bytes:
    return f"F-1,{number:x}".encode()
