"""Many lines of text at once: columns of bytes side by side, in which zeros take no room."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pulpsim.cli.terminal import one_line

Column = np.ndarray
"""uint8[n, width]: the text of each row, with zeros where it is shorter."""

DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def decimal(values: np.ndarray) -> Column:
    """Numbers from 0 on in decimal."""
    top = int(values.max()) if values.size else 0
    kind: Any = np.uint32 if top < 1 << 32 else np.uint64
    rest: Any = values.astype(kind)
    ten = kind(10)
    width = len(str(top))
    text = np.zeros((values.size, width), np.uint8)
    for place in range(width - 1, -1, -1):
        higher = rest // ten
        digit = (rest - higher * ten).astype(np.uint8) + DIGITS[0]
        text[:, place] = digit if place == width - 1 else np.where(rest > 0, digit, 0)
        rest = higher
    return text


def hexadecimal(values: np.ndarray) -> Column:
    """Numbers of 32 bits in hexadecimal with all their digits."""
    octets = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    text = np.empty((values.size, 8), np.uint8)
    text[:, 0::2] = DIGITS[octets >> 4]
    text[:, 1::2] = DIGITS[octets & 15]
    return text


def labels(texts: Sequence[str]) -> Column:
    """Texts as a table, whose rows a number chooses: labels(texts)[numbers]."""
    return _table([one_line(text) for text in texts])


def _table(texts: Sequence[str]) -> Column:
    data = [text.encode() for text in texts]
    table = np.zeros((len(data), max(map(len, data), default=0)), np.uint8)
    for row, text in zip(table, data, strict=True):
        row[: len(text)] = np.frombuffer(text, np.uint8)
    return table


def joined(*columns: Column | str) -> Column:
    """Columns side by side; a text stands in each row."""
    count = next(len(column) for column in columns if not isinstance(column, str))
    parts = [_table([column]) if isinstance(column, str) else column for column in columns]
    ends = np.cumsum([part.shape[1] for part in parts]).tolist()
    rows = np.empty((count, ends[-1]), np.uint8)
    for part, end in zip(parts, ends, strict=True):
        rows[:, end - part.shape[1] : end] = part
    return rows


def written(rows: Column) -> bytes:
    """The text of all rows, one after the other."""
    flat = rows.reshape(-1)
    return flat[flat != 0].tobytes()


class Pieces:
    """A text of n lines, parts of which are put in their place many at once, from left to right."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.places: list[np.ndarray] = []
        self.sizes: list[np.ndarray] = []
        self.data: list[np.ndarray] = []

    def put(self, places: np.ndarray, rows: Column) -> None:
        """Continue the lines at these places, each of them once."""
        is_text = rows != 0
        self.places.append(places)
        self.sizes.append(is_text.view(np.uint8).sum(axis=1, dtype=np.uint16))
        self.data.append(rows[is_text])

    def written(self) -> bytes:
        """The text of all lines."""
        places, sizes = np.concatenate(self.places), np.concatenate(self.sizes)
        data = np.concatenate(self.data)
        begins = np.cumsum(sizes, dtype=np.int32) - sizes
        order = np.argsort(places, kind="stable")
        sizes, begins = sizes[order], begins[order]
        shifts = begins - (np.cumsum(sizes, dtype=np.int32) - sizes)
        places = np.repeat(shifts, sizes) + np.arange(data.size, dtype=np.int32)
        return data.take(places, mode="clip").tobytes()
