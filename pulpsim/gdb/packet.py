"""Packets of GDB's remote serial protocol: found in a stream of bytes, and made.

    $DATA#CHECKSUM    `}` escapes a byte, `*` repeats one; + and - acknowledge

Whatever comes, it costs no more than its bytes: what is no packet, or is larger than one may be, is
dropped.

Source: GDB manual, appendix E.1 "Overview".
"""

from collections.abc import Iterator
from enum import Enum

LARGEST = 1 << 14
"""Bytes of a packet's data as it comes, at most: PacketSize."""

START, END, ESCAPE, REPEAT = b"$#}*"
FLIP = 0x20
REPEAT_BASE = 29  # less than the count's character


class Signal(Enum):
    """Bytes that come besides packets."""

    INTERRUPT = "interrupt"
    BAD_CHECKSUM = "bad checksum"
    REPEAT = "repeat"


class Framer:
    """Finds packets in what comes, however it is cut into pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes | Signal]:
        """The data of packets, unescaped, and signals, in the order in which they have come."""
        self._buffer += data
        while self._buffer:
            first = self._buffer[0]
            if first == START:
                found = self._packet()
                if found is None:
                    return
                yield found
            else:
                del self._buffer[0]
                if first == 3:
                    yield Signal.INTERRUPT
                elif first == ord("-"):
                    yield Signal.REPEAT

    def _packet(self) -> bytes | Signal | None:
        """Return the packet at the buffer's begin, None until its end has come."""
        end = self._buffer.find(END, 1)
        if end < 0 and len(self._buffer) > LARGEST + 1 or end > LARGEST + 1:
            del self._buffer[:1]
            return Signal.BAD_CHECKSUM
        if end < 0 or end + 3 > len(self._buffer):
            return None
        data, digits = bytes(self._buffer[1:end]), bytes(self._buffer[end + 1 : end + 3])
        del self._buffer[: end + 3]
        if digits.lower() != checksum(data):
            return Signal.BAD_CHECKSUM
        return unescaped(data)


def checksum(data: bytes) -> bytes:
    """Checksum of a packet's data as it is sent: two digits."""
    return b"%02x" % (sum(data) & 0xFF)


def packet(data: bytes) -> bytes:
    """A packet with this data."""
    sent = escaped(data)
    return b"$" + sent + b"#" + checksum(sent)


def escaped(data: bytes) -> bytes:
    """Data without bytes that mean something else."""
    special = {START, END, ESCAPE, REPEAT}
    if special.isdisjoint(data):
        return data
    return b"".join(
        bytes([ESCAPE, byte ^ FLIP]) if byte in special else bytes([byte]) for byte in data
    )


def unescaped(data: bytes) -> bytes:
    """The data that was meant; an escape at its end means nothing."""
    if ESCAPE not in data:
        return data
    parts = data.split(bytes([ESCAPE]))
    return parts[0] + b"".join(bytes([part[0] ^ FLIP]) + part[1:] for part in parts[1:] if part)
