"""Fields of packets: numbers, threads, bytes in hexadecimal. What is none is refused.

Source: GDB manual, appendix E.2 "Packets".
"""

MOST_DIGITS = 16


class BadPacket(ValueError):
    """A packet that does not have the form of its command; the answer is an error."""


def number(digits: str) -> int:
    """A hexadecimal number without a sign."""
    if not 0 < len(digits) <= MOST_DIGITS or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise BadPacket(f"{digits!r} is no number")
    return int(digits, 16)


def numbers(text: str, count: int, separator: str = ",") -> list[int]:
    """So many numbers."""
    parts = text.split(separator)
    if len(parts) != count:
        raise BadPacket(f"{len(parts)} fields instead of {count}")
    return [number(part) for part in parts]


def data(digits: str) -> bytes:
    """Bytes, two digits each."""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise BadPacket(f"{digits[:20]!r}: two digits for each byte") from None


def thread(text: str, count: int) -> int | None:
    """The hart of a thread's number, from 1 on; None for any or all (0, -1).

    A process may be named as well: there is one.
    """
    if text.startswith("p"):
        process, point, text = text[1:].partition(".")
        if process != "-1":
            number(process)
        text = text if point else "-1"
    if text in ("0", "-1"):
        return None
    hart = number(text) - 1
    if not 0 <= hart < count:
        raise BadPacket(f"thread {text}: there are {count}")
    return hart


def word(value: int) -> str:
    """A register as packets have it: little-endian."""
    return (value & 0xFFFFFFFF).to_bytes(4, "little").hex()


def from_word(digits: str) -> int:
    """The value of a register."""
    value = data(digits)
    if len(value) != 4:
        raise BadPacket(f"{len(value)} bytes; a register has 4")
    return int.from_bytes(value, "little")
