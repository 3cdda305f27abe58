"""Columns of text and messages of bytes that are made many at once, against one at a time."""

import numpy as np
import pytest

from pulpsim.trace.export import text
from pulpsim.trace.export.protobuf import Layout, field, varint

NUMBERS = [0, 9, 10, 255, 99_999, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]


@pytest.mark.parametrize("count", range(1, len(NUMBERS) + 1))
def test_numbers_are_written_as_python_writes_them(count: int) -> None:
    numbers = NUMBERS[:count]
    lines = text.joined(text.decimal(np.array(numbers)), "\n")
    assert text.written(lines).decode().split() == [str(number) for number in numbers]
    short = [number & 0xFFFFFFFF for number in numbers]
    lines = text.joined("0x", text.hexadecimal(np.array(short)), "\n")
    assert text.written(lines).decode().split() == [f"0x{number:08x}" for number in short]


def test_pieces_stand_in_their_lines_from_left_to_right() -> None:
    lines = text.Pieces(3)
    lines.put(np.array([2, 0]), text.labels(["ab", "c"]))
    lines.put(np.array([0, 1, 2]), text.labels(["1", "", "23"]))
    lines.put(np.zeros(0, int), text.labels([]))
    assert lines.written() == b"c1ab23"


def test_labels_are_chosen_by_number_and_made_harmless() -> None:
    table = text.labels(["", "a\nb", "\x1bé"])
    rows = text.joined(table[[1, 0, 2]], ";")
    assert text.written(rows).decode() == r"a\x0ab;;\x1bé;"


@pytest.mark.parametrize(
    ("number", "data"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")]
)
def test_varints_are_those_of_the_format_s_description(number: int, data: bytes) -> None:
    assert varint(number) == data


def test_messages_of_one_layout_differ_in_their_numbers() -> None:
    inner = Layout().constant(field(1, 5)).number(2, "x", 2)
    layout = Layout().number(3, "y", 1).nested(4, inner)
    rows = layout.messages({"x": np.array([1, 300]), "y": np.array([7, 0])})
    assert rows[0].tobytes() == b"\x18\x07\x22\x05\x08\x05\x10\x81\x00"
    assert rows[1].tobytes() == b"\x18\x00\x22\x05\x08\x05\x10\xac\x02"
