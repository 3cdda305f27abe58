"""The code of a program line by line: functions, instructions, and the source beside them."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from isa.assembler.disasm import disassemble
from isa.declare import Isa
from isa.program import Program
from pulpsim.trace.code import TARGET, Code
from soc.trace.reader import Trace

ROOT = Path(__file__).parents[2]
"""From where the names of kernels' own source files count."""

LARGEST = 1 << 22
"""Bytes of a source file that is read."""


class Row(NamedTuple):
    """A line of a listing: an instruction, or the name of what begins at its address."""

    address: int
    label: str = ""


class Listing:
    """The instructions of some parts of memory.

    parts      address and contents of each, by address
    labels     name by address
    line_of    source line of an address, "mm.c:12", or ""
    place      an address in words: "main+0x1c"
    """

    def __init__(
        self,
        parts: list[tuple[int, bytes]],
        labels: dict[int, str],
        line_of: Callable[[int], str],
        place: Callable[[int], str],
        isa: Isa,
    ):
        self.parts, self.labels, self.isa = parts, labels, isa
        self.line_of, self.place = line_of, place
        self.sources = SourceFiles()
        self._texts: dict[tuple[int, int], str] = {}

    @cached_property
    def rows(self) -> list[Row]:
        """All lines, by address; a label comes before its instruction."""
        found = []
        for start, data in self.parts:
            place = 0
            while place + 2 <= len(data):
                address = start + place
                if address in self.labels:
                    found.append(Row(address, self.labels[address]))
                found.append(Row(address))
                place += 4 if data[place] & 3 == 3 else 2
        return found

    @cached_property
    def _addresses(self) -> list[int]:
        return [row.address for row in self.rows]

    def row_of(self, address: int) -> int | None:
        """The line of an instruction, None where there is none."""
        index = bisect_left(self._addresses, address)
        if index < len(self.rows) and self.rows[index].label:
            index += 1
        is_there = index < len(self.rows) and self.rows[index].address == address
        return index if is_there else None

    def word(self, address: int) -> int:
        """The instruction at an address as the program's file has it; 0 outside of it."""
        for start, data in self.parts:
            if start <= address < start + len(data):
                return first_word(data[address - start :][:4])
        return 0

    def text(self, address: int, word: int) -> str:
        """An instruction in assembly, a jump's target by name; "" of nothing."""
        key = address, word
        if key not in self._texts:
            text = disassemble(word, self.isa, address, self.place) if word else ""
            self._texts[key] = TARGET.sub(r"\1", text)
        return self._texts[key]

    def source(self, address: int) -> tuple[str, str]:
        """Source line, "mm.c:12", and its text; "" where they are not known."""
        line = self.line_of(address)
        return line, self.sources.text(line) if line else ""

    def find(self, text: str, after: int, by: int) -> int | None:
        """The next line, by 1 or -1, with a text in label, instruction or source; None if none."""
        wanted, count = text.lower(), len(self.rows)
        for distance in range(1, count + 1):
            index = (after + by * distance) % count
            if wanted in self._whole(self.rows[index]).lower():
                return index
        return None

    def _whole(self, row: Row) -> str:
        if row.label:
            return row.label
        instruction = self.text(row.address, self.word(row.address))
        return " ".join([f"{row.address:08x}", instruction, *self.source(row.address)])


def first_word(data: bytes) -> int:
    """The instruction that some bytes begin with, of two bytes or four."""
    size = 4 if data[:1] and data[0] & 3 == 3 else 2
    return int.from_bytes(data[:size], "little")


class SourceFiles:
    """The text of source lines, where their files are at hand."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def text(self, line: str) -> str:
        """The text of "mm.c:12", "" where it is not at hand."""
        name, _, number = line.rpartition(":")
        if name not in self._lines:
            self._lines[name] = _lines_of(name)
        lines = self._lines[name]
        index = int(number) - 1 if number.isdecimal() else -1
        return lines[index].strip() if 0 <= index < len(lines) else ""


def _lines_of(name: str) -> list[str]:
    """The lines of a file of modest size, looked for from here and from where kernels lie."""
    for file in (Path(name), ROOT / name):
        try:
            if file.is_file() and file.stat().st_size <= LARGEST:
                return file.read_text("utf-8", "replace").split("\n")
        except (OSError, ValueError):
            continue
    return []


def listing_of(program: Program, isa: Isa) -> Listing:
    """The code of a program."""

    def line_of(address: int) -> str:
        line = program.lines.at(address)
        return f"{line[0]}:{line[1]}" if line else ""

    parts = sorted((p.address, program.bytes_at(p.address, p.size)) for p in program.code)
    named = [s for s in program.symbols if not s.name.startswith(("$", ".L"))]
    starts = {s.address for s in named}
    labels = {a: symbol.name for a in starts if (symbol := program.symbol_at(a))}
    return Listing(parts, labels, line_of, program.place, isa)


def recorded_listing(trace: Trace) -> Listing:
    """The code that a recording knows."""
    parts = sorted((start, bytes.fromhex(digits)) for start, digits in trace.header["code"])
    labels = {start: name for start, _, name in trace.symbols}
    told = Code(trace)
    return Listing(parts, labels, told.line_name, told.place, told.isa)
