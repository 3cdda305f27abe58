"""DWARF line tables: malformed and hostile ones."""

import re
import struct

import pytest

from isa.elf.dwarf import LARGEST_SECTION, MOST_ROWS, LineRange
from isa.program import ElfError, LineTable

STANDARD = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
V4 = bytes([1, 1, 1, 0xFB, 14, 13]) + STANDARD  # step, operations, is_stmt, line base, range, base


def unit(version: int, header: bytes, program: bytes) -> bytes:
    """One line table: lengths and version in front of a header and a program."""
    sizes = b"\4\0" if version == 5 else b""
    body = struct.pack("<H", version) + sizes + struct.pack("<I", len(header)) + header + program
    return struct.pack("<I", len(body)) + body


def lines(section: bytes, **others: bytes) -> tuple[LineRange, ...]:
    named = {f".debug_{name}": data for name, data in others.items()}
    return LineTable(sections={".debug_line": section, **named}).ranges


def refused(section: bytes, message: str) -> None:
    with pytest.raises(ElfError, match=rf"^\.debug_line: {re.escape(message)}$"):
        lines(section)
    assert LineTable(sections={".debug_line": section}).at(0) is None


# address 0x100; row at line 1; special opcode 0x4b = 4 bytes and 1 line on; 6 bytes on; end
PROGRAM = bytes.fromhex("0005020001000001 4b 0206 000101")
FILES_2 = b"lib\0\0" + b"a.c\0\1\0\0" + b"\0"
FILES_5 = (
    bytes([1, 1, 0x08, 2]) + b"/home\0lib\0" + bytes([3, 1, 0x1F, 2, 0x0B, 5, 0x1E, 2])
    + bytes([0, 0, 0, 0, 0]) + bytes(16) + bytes([4, 0, 0, 0, 1]) + bytes(16)
)  # fmt: skip


def test_a_table_of_version_4_says_which_line_each_address_comes_from():
    first = LineRange(0x100, 0x104, "lib/a.c", 1)
    assert lines(unit(4, V4 + FILES_2, PROGRAM)) == (first, LineRange(0x104, 0x10A, "lib/a.c", 2))


def test_a_table_of_version_5_has_its_names_elsewhere():
    section = unit(5, V4 + FILES_5, PROGRAM)
    first, second = lines(section, line_str=b"a.s\0b.s\0")
    assert (first.file, second.file) == ("lib/b.s", "lib/b.s")
    assert lines(section)[0].file == "lib/"


def test_a_file_without_a_name_is_a_question_mark():
    assert lines(unit(4, V4 + b"\0\0", PROGRAM))[0].file == "?"


def test_neighbours_of_one_line_are_joined():
    table = LineTable([LineRange(4, 8, "a.c", 2), LineRange(0, 4, "a.c", 2)])
    assert table.ranges == (LineRange(0, 8, "a.c", 2),)
    assert LineTable(sections=table.sections()) == table
    assert [table.at(address) for address in (0, 7, 8)] == [("a.c", 2), ("a.c", 2), None]


def test_a_table_that_ends_early_is_refused():
    section = unit(4, V4 + FILES_2, PROGRAM)
    refused(section[:3], "the entry at byte 0 ends past its table")
    refused(section[:20], "the entry at byte 16 ends past its table")
    refused(unit(4, V4 + FILES_2, b"\2"), "the entry at byte 42 ends past its table")


def test_an_unknown_version_is_refused():
    refused(unit(6, V4, b""), "version 6; versions 2 to 5 are known")


@pytest.mark.parametrize("position", [4, 5])
def test_a_line_range_or_opcode_base_of_zero_is_refused(position):
    header = V4[:position] + b"\0" + V4[position + 1 :]
    refused(unit(4, header + FILES_2, PROGRAM), "a line range or opcode base of 0")


def test_an_endless_number_is_refused():
    refused(
        unit(4, V4 + FILES_2, b"\2" + b"\x80" * 99), "a number of more than 10 bytes at byte 52"
    )


def test_an_unknown_form_of_a_name_is_refused():
    refused(
        unit(5, V4 + bytes([1, 1, 0x99, 1, 1]), b""),
        "a name in form 0x99, which is none of DWARF 5's",
    )


def test_a_count_of_names_that_nothing_backs_is_refused_at_once():
    """pyelftools 0.33 counts to it."""
    header = V4 + bytes([0]) + b"\xff\xff\xff\xff\x7f"
    refused(unit(5, header, b""), "34359738367 names in a table; the most is 16384")


def test_a_section_without_rows_is_read():
    """In a second or two: what works in proportion to its square takes hours."""
    program = bytes([4, 1]) * (LARGEST_SECTION // 2 - 50)
    assert lines(unit(4, V4 + FILES_2, program)) == ()


def test_too_large_a_section_is_refused():
    refused(bytes(LARGEST_SECTION + 1), "2097153 bytes; the most is 2097152")


def test_too_many_rows_are_refused():
    refused(unit(4, V4 + FILES_2, b"\x4b" * (MOST_ROWS + 2)), "more than 262144 rows")
