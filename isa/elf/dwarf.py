"""DWARF line tables: which source line an instruction comes from. Read and written.

Versions 2 to 5 are read, version 4 is written. A hostile table costs no more than an honest one:
loops eat bytes of the section, or are bounded. That is why pyelftools 0.33, an oracle of the tests,
is not used here: it takes 4.4 us for each opcode, ten times as long, so 9 s and 350 MB for a line
program of LARGEST_SECTION; and it counts to what a header says, for hours, where names have no
columns (`python -m benchmarks elf`).

Sources: DWARF 4 standard, sections 6.2 "Line Number Information" and 7.5; DWARF 5, section 6.2.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from isa.elf.reader import LONGEST_NAME, ElfError

LARGEST_SECTION = 1 << 21  # bytes
MOST_ROWS = 1 << 18
MOST_FILES = 1 << 14  # of one table
NO_FILE = "?"

COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2  # extended opcodes
OPERANDS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])  # numbers after standard opcodes 1..12

# DWARF 5: what a column of a name table holds, and in which form
PATH, DIRECTORY = 1, 2
STRING, STRP, LINE_STRP, UDATA, BLOCK = 0x08, 0x0E, 0x1F, 0x0F, 0x09
FIXED_FORMS = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}  # data1 data2 data4 data8 data16

# .debug_abbrev: 1 is a compile unit without children: stmt_list, name, producer, low_pc, high_pc
ABBREVIATIONS = bytes([1, 0x11, 0, 0x10, 0x17, 3, 8, 0x25, 8, 0x11, 1, 0x12, 1, 0, 0, 0])


class LineRange(NamedTuple):
    """Addresses start..end-1 come from one line."""

    start: int
    end: int
    file: str
    line: int


class _Reader:
    """A reader of numbers and texts from bytes, which never passes their end."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def take(self, count: int) -> bytes:
        start = self.position
        self.position += count
        if self.position > len(self.data):
            raise ElfError(f".debug_line: the entry at byte {start} ends past its table")
        return self.data[start : self.position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def leb128(self, signed: bool = False) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value - (1 << shift + 7) if signed and byte & 0x40 else value
        raise ElfError(f".debug_line: a number of more than 10 bytes at byte {self.position}")

    def text(self) -> str:
        end = self.data.find(b"\0", self.position)
        start = self.position
        self.take((end if end >= 0 else len(self.data)) + 1 - start)
        return _text(self.data, start)


def _text(table: bytes, offset: int) -> str:
    return table[offset : offset + LONGEST_NAME].split(b"\0", 1)[0].decode("utf-8", "replace")


class _Unit(NamedTuple):
    """The header of a line table."""

    step: int  # bytes, unit of address advances
    line_base: int
    line_range: int
    operands: bytes  # as OPERANDS
    files: list[str]  # by their numbers in the program
    program: int  # offset


def decode(sections: Mapping[str, bytes]) -> Iterator[LineRange]:
    """Read .debug_line, with .debug_line_str and .debug_str.

    raises    ElfError if it is malformed
    """
    data = sections.get(".debug_line", b"")
    if len(data) > LARGEST_SECTION:
        raise ElfError(f".debug_line: {len(data)} bytes; the most is {LARGEST_SECTION}")
    position = rows = 0
    while position < len(data):
        end = position + 4 + _Reader(data, position).number(4)
        reader = _Reader(data[:end], position + 4)
        for row in _run(_read_unit(reader, sections), reader):
            rows += 1
            if rows > MOST_ROWS:
                raise ElfError(f".debug_line: more than {MOST_ROWS} rows")
            yield row
        position = end


def _read_unit(reader: _Reader, sections: Mapping[str, bytes]) -> _Unit:
    version = reader.number(2)
    if not 2 <= version <= 5:
        raise ElfError(f".debug_line: version {version}; versions 2 to 5 are known")
    if version == 5:
        reader.take(2)  # sizes of addresses and of segment selectors
    length = reader.number(4)
    program = reader.position + length
    step = reader.number(1)
    reader.take(2 if version >= 4 else 1)  # operations per instruction, default of is_stmt
    line_base, line_range, opcode_base = reader.take(3)
    if not line_range or not opcode_base:
        raise ElfError(".debug_line: a line range or opcode base of 0")
    operands = reader.take(opcode_base - 1)
    files = _read_files_5(reader, sections) if version == 5 else _read_files_2(reader)
    return _Unit(step, (line_base ^ 128) - 128, line_range, operands, files, program)


def _read_files_2(reader: _Reader) -> list[str]:
    directories = [""]
    while directory := reader.text():
        directories.append(directory)
    files = [NO_FILE]
    while name := reader.text():
        files.append(_path(directories, reader.leb128(), name))
        reader.leb128(), reader.leb128()  # time of modification, size
        _check_count(len(files))
    return files


def _read_files_5(reader: _Reader, sections: Mapping[str, bytes]) -> list[str]:
    directories = [str(row.get(PATH, "")) for row in _read_table(reader, sections)]
    return [
        _path(directories, int(row.get(DIRECTORY, 0)), str(row.get(PATH, NO_FILE)))
        for row in _read_table(reader, sections)
    ]


def _read_table(reader: _Reader, sections: Mapping[str, bytes]) -> list[dict[int, int | str]]:
    columns = [(reader.leb128(), reader.leb128()) for _ in range(reader.number(1))]
    count = reader.leb128()
    _check_count(count)
    return [
        {content: _read_form(reader, form, sections) for content, form in columns}
        for _ in range(count)
    ]


def _read_form(reader: _Reader, form: int, sections: Mapping[str, bytes]) -> int | str:
    if form == STRING:
        return reader.text()
    if form in (STRP, LINE_STRP):
        table = sections.get(".debug_str" if form == STRP else ".debug_line_str", b"")
        return _text(table, reader.number(4))
    if form == UDATA:
        return reader.leb128()
    if form == BLOCK:
        reader.take(reader.leb128())
        return 0
    if form in FIXED_FORMS:
        return reader.number(FIXED_FORMS[form])
    raise ElfError(f".debug_line: a name in form 0x{form:x}, which is none of DWARF 5's")


def _check_count(count: int) -> None:
    if count > MOST_FILES:
        raise ElfError(f".debug_line: {count} names in a table; the most is {MOST_FILES}")


def _path(directories: Sequence[str], index: int, name: str) -> str:
    directory = directories[index] if index < len(directories) else ""
    return f"{directory}/{name}" if directory and not name.startswith("/") else name


def _run(unit: _Unit, reader: _Reader) -> Iterator[LineRange]:
    """Run a line program. A row holds up to the address of the next one; line 0 means none."""
    reader.position = unit.program
    opcode_base = len(unit.operands) + 1
    address, file, line = 0, 1, 1
    row: tuple[int, int, int] | None = None
    while reader.position < len(reader.data):
        opcode = reader.data[reader.position]
        reader.position += 1
        emits = ends = False
        if opcode >= opcode_base:
            advance, increment = divmod(opcode - opcode_base, unit.line_range)
            address += advance * unit.step
            line += unit.line_base + increment
            emits = True
        elif opcode == 0:
            operation = reader.take(reader.leb128())
            ends = operation[:1] == bytes([END_SEQUENCE])
            if operation[:1] == bytes([SET_ADDRESS]):
                address = int.from_bytes(operation[1:5], "little")
        elif opcode == COPY:
            emits = True
        elif opcode == ADVANCE_PC:
            address += reader.leb128() * unit.step
        elif opcode == ADVANCE_LINE:
            line += reader.leb128(signed=True)
        elif opcode == SET_FILE:
            file = reader.leb128()
        elif opcode == CONST_ADD_PC:
            address += (255 - opcode_base) // unit.line_range * unit.step
        elif opcode == FIXED_ADVANCE_PC:
            address += reader.number(2)
        else:
            for _ in range(unit.operands[opcode - 1]):
                reader.leb128()
        if row is not None and (emits or ends) and row[0] < address and row[2] > 0:
            yield LineRange(row[0], address, _file(unit.files, row[1]), row[2])
        if emits:
            row = address, file, line
        if ends:
            address, file, line = 0, 1, 1
            row = None


def _file(files: list[str], number: int) -> str:
    return files[number] if number < len(files) else NO_FILE


def encode(ranges: Sequence[LineRange]) -> dict[str, bytes]:
    """Write ranges, ordered by address, as one line table, and the unit that debuggers reach it by.

    Names are the files' paths as given, without directories.
    """
    numbers = {name: index for index, name in enumerate(dict.fromkeys(r.file for r in ranges), 1)}
    names = b"".join(
        name.encode("utf-8", "replace") + bytes(4) for name in numbers
    )  # directory, time, size: 0
    tail = bytes([1, 1, 1, 0, 1, len(OPERANDS) + 1]) + OPERANDS + b"\0" + names + b"\0"
    program = b"".join(_encode_rows(ranges, numbers))
    line = (4).to_bytes(2, "little") + len(tail).to_bytes(4, "little") + tail + program
    low, high = ranges[0].start, max(r.end for r in ranges)
    texts = next(iter(numbers)).encode("utf-8", "replace") + b"\0pulpsim\0"
    unit = bytes([4, 0, 0, 0, 0, 0, 4, 1]) + bytes(4) + texts + _word(low) + _word(high)
    return {
        ".debug_line": _word(len(line)) + line,
        ".debug_info": _word(len(unit)) + unit,
        ".debug_abbrev": ABBREVIATIONS,
    }


def _encode_rows(ranges: Sequence[LineRange], numbers: Mapping[str, int]) -> Iterator[bytes]:
    end, file, line = -1, 1, 1
    for row in ranges:
        if row.start != end:
            if end >= 0:
                yield bytes([0, 1, END_SEQUENCE])
            yield bytes([0, 5, SET_ADDRESS]) + _word(row.start)
            end, file, line = row.start, 1, 1
        if numbers[row.file] != file:
            file = numbers[row.file]
            yield bytes([SET_FILE]) + _leb128(file)
        yield bytes([ADVANCE_LINE]) + _leb128(row.line - line, signed=True) + bytes([COPY])
        line = row.line
        yield bytes([ADVANCE_PC]) + _leb128(row.end - row.start)
        end = row.end
    yield bytes([0, 1, END_SEQUENCE])


def _word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _leb128(value: int, signed: bool = False) -> bytes:
    encoded = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        done = value == -(byte >> 6) if signed else not value
        encoded.append(byte if done else byte | 0x80)
        if done:
            return bytes(encoded)
