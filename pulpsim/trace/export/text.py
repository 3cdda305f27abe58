"""Many lines of text at once: columns of bytes side by side, in which zeros take no room."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pulpsim.console import one_line

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


def hexadecimal(values: np.ndarray, digits: int = 8) -> Column:
    """Numbers in hexadecimal with all their digits."""
    shifts = np.arange(4 * (digits - 1), -4, -4)
    return DIGITS[(values.astype(np.int64)[:, None] >> shifts) & 15]


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
    parts = [
        np.tile(_table([column]), (count, 1)) if isinstance(column, str) else column
        for column in columns
    ]
    return np.concatenate(parts, axis=1)


def written(rows: Column) -> bytes:
    """The text of all rows, one after the other."""
    flat = rows.reshape(-1)
    return flat[flat != 0].tobytes()
