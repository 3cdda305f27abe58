"""The wire format of protocol buffers: single messages, and many equal ones at once.

Source: protobuf.dev, "Encoding". A varint may be longer than it must be, so that all messages of
one kind have the same layout and are written as columns.
"""

import numpy as np

VARINT, BYTES = 0, 2


def varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a message; a message as a value is its bytes."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


class Layout:
    """Messages of one kind, whose numbers differ: a template, and where each number goes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._columns: list[tuple[str, int, int]] = []

    def constant(self, data: bytes) -> "Layout":
        """Bytes that all have."""
        self._data += data
        return self

    def number(self, number: int, name: str, width: int) -> "Layout":
        """A field with its value among those given under this name, below 2**(7 * width)."""
        self._data += varint(number << 3 | VARINT)
        self._columns.append((name, len(self._data), width))
        self._data += bytes(width)
        return self

    def then(self, other: "Layout") -> "Layout":
        """The fields of another one."""
        self._columns += [(name, self.size + at, width) for name, at, width in other._columns]
        self._data += other._data
        return self

    def nested(self, number: int, inner: "Layout") -> "Layout":
        """A message in this one."""
        self._data += varint(number << 3 | BYTES) + varint(inner.size)
        return self.then(inner)

    @property
    def size(self) -> int:
        """Bytes of a message."""
        return len(self._data)

    def messages(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """One message for each element of the columns: uint8[n, size]."""
        count = len(next(iter(values.values())))
        rows = np.tile(np.frombuffer(self._data, np.uint8), (count, 1))
        for name, place, width in self._columns:
            rest = values[name].astype(np.int64)
            for k in range(width):
                rows[:, place + k] = rest & 0x7F | (0x80 if k < width - 1 else 0)
                rest = rest >> 7
        return rows
