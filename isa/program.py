"""Program: what is loaded into memory and run, with the names and source lines to talk about it."""

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from isa.elf import attributes
from isa.elf import reader as elf
from isa.elf.call_frames import CallFrames
from isa.elf.dwarf import LineRange
from isa.elf.reader import LARGEST_FILE, ORIGIN, ElfError, Section, Segment, Symbol
from isa.elf.region_names import SECTION as REGION_NAMES
from isa.elf.region_names import read_region_names, write_region_names
from isa.elf.source_lines import LineTable
from isa.elf.writer import write

__all__ = ["ElfError", "LineRange", "LineTable", "Program", "Section", "Segment", "Symbol"]

ATTRIBUTES, FRAMES = ".riscv.attributes", ".debug_frame"


@dataclass(frozen=True, repr=False)
class Program:
    """An executable.

    segments        memory contents, in the order of the file
    entry           byte address of the first instruction
    sections        named parts of the segments
    architecture    "rv32i2p1_m2p0_zfinx1p0", None if unknown
    flags           e_flags: bit 0 RVC, bits 2:1 float ABI
    lines           source lines
    name            for messages; no part of the program's value
    frames          where functions keep their callers' registers; no part of it, either
    regions         names of what it measures, by number; nor are these
    origin          what it was made of, in words of what has made it; nor is this
    """

    segments: tuple[Segment, ...]
    entry: int
    symbols: tuple[Symbol, ...] = ()
    sections: tuple[Section, ...] = ()
    architecture: str | None = None
    flags: int = 0
    lines: LineTable = field(default_factory=LineTable)
    name: str = field(default="program", compare=False)
    frames: CallFrames = field(default_factory=CallFrames, compare=False)
    regions: Mapping[int, str] = field(default_factory=dict, compare=False)
    origin: bytes = field(default=b"", compare=False)

    @classmethod
    def from_elf(cls, source: str | os.PathLike | bytes, name: str | None = None) -> "Program":
        """Read an ELF file, given by path or contents.

        raises    ElfError if it is not an executable for 32-bit RISC-V, or is malformed
        """
        if name is None:
            name = "ELF" if isinstance(source, bytes) else os.fspath(source)
        try:
            contents = elf.read(source if isinstance(source, bytes) else _contents(Path(source)))
            regions = _region_names(contents.notes)
        except ElfError as error:
            raise ElfError(f"{name}: {error}") from None
        return cls(
            contents.segments,
            contents.entry,
            contents.symbols,
            contents.sections,
            attributes.read_architecture(contents.notes.get(ATTRIBUTES, b"")),
            contents.flags,
            LineTable(sections=contents.notes),
            name,
            CallFrames(contents.notes.get(FRAMES, b"")),
            regions,
            contents.notes.get(ORIGIN, b""),
        )

    def __repr__(self) -> str:
        size = sum(len(segment.data) for segment in self.segments)
        return f"<{type(self).__name__} {self.name}: {size:,} bytes, entry {self.entry:#010x}>"

    def to_elf(self) -> bytes:
        """Write the program as an ELF file."""
        notes = self.lines.sections() | ({FRAMES: self.frames.data} if self.frames.data else {})
        if self.regions:
            notes[REGION_NAMES] = write_region_names(self.regions)
        if self.origin:
            notes[ORIGIN] = self.origin
        if self.architecture is not None:
            notes[ATTRIBUTES] = attributes.write_architecture(self.architecture)
        sections = self.sections or tuple(_sections_of(self.segments))
        return write(elf.Elf(self.entry, self.flags, self.segments, sections, self.symbols, notes))

    @property
    def float_registers(self) -> str | None:
        """Registers that its float instructions use: "f", "x", or None if the file does not say."""
        return attributes.float_registers(self.architecture, self.flags)

    @property
    def code(self) -> tuple[Section, ...]:
        """Executable sections, or segments if it names no sections."""
        sections = self.sections or _sections_of(self.segments)
        return tuple(part for part in sections if part.executable and not part.is_zero)

    def bytes_at(self, address: int, count: int) -> bytes:
        """Up to count bytes from an address on; zeros after a segment's data, b"" outside."""
        for segment in self.segments:
            distance = address - segment.start
            if 0 <= distance < segment.size:
                count = min(count, segment.size - distance)
                return segment.data[distance : distance + count].ljust(count, b"\0")
        return b""

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name.

        raises    KeyError if there is none
        """
        return self._by_name[name]

    def symbol_at(self, address: int) -> Symbol | None:
        """The symbol that an address belongs to: the closest before it, unless it ends earlier."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        symbol = self._by_address[index]
        end = symbol.address + symbol.size if symbol.size else self._end_of_part(symbol.address)
        return symbol if address < end or address == symbol.address else None

    def place(self, address: int) -> str:
        """An address in words: "matmul+0x1c"; "0x1c008000" where there is no symbol."""
        symbol = self.symbol_at(address)
        if symbol is None:
            return f"0x{address:08x}"
        distance = address - symbol.address
        return f"{symbol.name}+0x{distance:x}" if distance else symbol.name

    def place_and_line(self, address: int) -> str:
        """The same with its source line, "matmul+0x1c at mm.c:12"; "" if neither is known."""
        line = self.lines.at(address)
        parts = [self.place(address)] if self.symbol_at(address) else []
        return " at ".join([*parts, f"{line[0]}:{line[1]}"] if line else parts)

    @cached_property
    def _by_name(self) -> dict[str, Symbol]:
        return {symbol.name: symbol for symbol in reversed(self.symbols)}

    @cached_property
    def _by_address(self) -> list[Symbol]:
        """The best symbol of each address: functions, then objects, then labels; global first."""
        ordered = sorted(
            (s for s in self.symbols if not s.name.startswith(("$", ".L"))),
            key=lambda s: (s.address, elf.KINDS.index(s.kind), s.is_global, s.size),
            reverse=True,
        )
        best: dict[int, Symbol] = {}
        for symbol in ordered:
            best.setdefault(symbol.address, symbol)
        return list(best.values())[::-1]

    @cached_property
    def _starts(self) -> list[int]:
        return [symbol.address for symbol in self._by_address]

    def _end_of_part(self, address: int) -> int:
        """Return the end of the section, or else the segment, that contains an address."""
        for part in self.sections:
            if 0 <= address - part.address < part.size:
                return part.address + part.size
        for segment in self.segments:
            if 0 <= address - segment.start < segment.size:
                return segment.start + segment.size
        return address


def _contents(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ElfError(f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise ElfError("cannot be read: no file can have this name") from None
    if len(data) > LARGEST_FILE:
        raise ElfError(f"more than {LARGEST_FILE} bytes, the most that a program may have")
    return data


def _sections_of(segments: tuple[Segment, ...]) -> Iterator[Section]:
    """Return sections for a program that names none, so that other tools find its code."""
    for segment in segments:
        name = ".text" if segment.executable else ".data" if segment.writable else ".rodata"
        kind = segment.writable, segment.executable
        filled = len(segment.data)
        if filled:
            yield Section(name, segment.start, filled, *kind)
        if segment.size > filled:
            yield Section(".bss", segment.start + filled, segment.size - filled, *kind, True)


def _region_names(notes: Mapping[str, bytes]) -> dict[int, str]:
    try:
        return read_region_names(notes.get(REGION_NAMES, b""))
    except ValueError as error:
        raise ElfError(f"{REGION_NAMES}: {error}") from None
