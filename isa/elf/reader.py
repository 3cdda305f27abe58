"""ELF files of bare-metal RISC-V programs: layouts of the container format, and its reader.

A hostile file costs no more than an honest one: sizes are checked before anything is allocated.
pyelftools 0.33, which tests hold this reader against, is not used here: every `pulpsim run` would
take 26 ms longer (24 ms to import it, 1.7 ms instead of 0.1 ms to read hello), and a symbol takes
22 us instead of 2: 5.8 s for MOST_SYMBOLS, where a refusal has 2 s (`python -m benchmarks elf`).

Sources: System V ABI, edition 4.1, chapters 4 and 5; RISC-V ELF psABI 1.0, chapters 3 and 8.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from isa.elf.region_names import SECTION as REGION_NAMES

HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
PROGRAM_HEADER = struct.Struct("<8I")  # type offset vaddr paddr filesz memsz flags align
SECTION_HEADER = struct.Struct("<10I")  # name type flags addr offset size link info align entsize
SYMBOL = struct.Struct("<IIIBBH")  # name value size info other shndx

IDENT = b"\x7fELF\x01\x01\x01" + bytes(9)  # 32 bits, little-endian, version 1
EXECUTABLE = 2
RISCV = 243
LOAD = 1
PROGBITS, SYMTAB, STRTAB, NOBITS, ATTRIBUTES = 1, 2, 3, 8, 0x70000003
WRITE, ALLOC, EXECINSTR, COMPRESSED = 1, 2, 4, 0x800  # section flags
X, W, R = 1, 2, 4  # segment flags
ABSOLUTE = 0xFFF1
KINDS = ("label", "object", "function")  # symbol types NOTYPE, OBJECT, FUNC

OTHER_TYPES = {
    1: "a relocatable object; link it first",
    3: "a shared object or position-independent executable; link it with -static -no-pie",
    4: "a core dump",
}
OTHER_MACHINES = {3: "x86", 8: "MIPS", 40: "Arm", 62: "x86-64", 94: "Xtensa", 183: "AArch64"}

LARGEST_FILE = 64 << 20  # bytes
LARGEST_MEMORY = 1 << 30  # bytes of all segments together; not allocated
MOST_SYMBOLS = 1 << 18
LONGEST_NAME = 1 << 10

# Sections that are read beside segments: what it was compiled for, source lines, call frames, ...
ORIGIN = ".pulpsim.origin"
NOTES = (
    ".riscv.attributes",
    ".debug_line",
    ".debug_line_str",
    ".debug_str",
    ".debug_frame",
    REGION_NAMES,
    ORIGIN,
)


class ElfError(Exception):
    """This file is not a program that can be loaded."""


class Segment(NamedTuple):
    """A piece of memory that loading fills: data, then zeros up to size."""

    address: int  # where the loader puts it
    data: bytes
    size: int  # bytes, at least len(data)
    readable: bool = True
    writable: bool = True
    executable: bool = False
    link_address: int | None = None  # where the program expects it, if it copies it there itself

    @property
    def start(self) -> int:
        """Address under which the program's symbols and jumps know it."""
        return self.address if self.link_address is None else self.link_address


class Section(NamedTuple):
    """A named part of a segment."""

    name: str
    address: int
    size: int
    writable: bool = False
    executable: bool = False
    is_zero: bool = False  # has no bytes in the file


class Symbol(NamedTuple):
    """A name for an address."""

    name: str
    address: int
    size: int = 0  # bytes; 0 if unknown
    kind: str = "label"  # "function", "object" or "label"
    is_global: bool = False


class Elf(NamedTuple):
    """What the container holds. The writer is the reader's inverse: read(write(elf)) == elf."""

    entry: int
    flags: int
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    notes: dict[str, bytes]  # sections of NOTES


def read(data: bytes) -> Elf:
    """Read an executable.

    raises    ElfError that says what is wrong with it
    """
    _, _, _, _, entry, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, names = (
        _read_header(data)
    )
    table = _table(data, PROGRAM_HEADER, phoff, phentsize, phnum, "program headers")
    segments = tuple(_read_segments(data, table))
    _check_segments(segments, entry, len(data))
    if not shoff or not shnum:
        return Elf(entry, flags, segments, (), (), {})
    headers = _table(data, SECTION_HEADER, shoff, shentsize, shnum, "section headers")
    for index, (_, kind, _, _, offset, size, *_) in enumerate(headers):
        if kind not in (0, NOBITS) and offset + size > len(data):
            raise ElfError(_truncated(f"section {index} ends", offset + size, data))
    titles = _read_names(data, headers, names)
    return Elf(
        entry,
        flags,
        segments,
        tuple(_read_sections(titles, headers)),
        tuple(_read_symbols(data, headers)),
        _read_notes(data, titles, headers),
    )


def _read_header(data: bytes) -> tuple:
    if not data:
        raise ElfError("the file is empty")
    if data[:4] != IDENT[:4]:
        raise ElfError(f"not an ELF file: it begins with {data[:4].hex(' ')}, not 7f 45 4c 46")
    if len(data) < HEADER.size:
        raise ElfError(_truncated("the ELF header ends", HEADER.size, data))
    if data[4] == 2:
        raise ElfError("a 64-bit ELF; compile it for rv32 (-march=rv32imfc -mabi=ilp32f)")
    if data[5] == 2:
        raise ElfError("a big-endian ELF; RISC-V programs are little-endian")
    if data[4:7] != IDENT[4:7]:
        raise ElfError(f"ELF class, byte order, version {data[4:7].hex(' ')} are not 01 01 01")
    header = HEADER.unpack_from(data)
    _, kind, machine, *_ = header
    if machine != RISCV:
        name = OTHER_MACHINES.get(machine, "an unknown machine")
        raise ElfError(f"made for {name} (machine {machine}), not for RISC-V ({RISCV})")
    if kind != EXECUTABLE:
        raise ElfError(f"ELF type {kind}, {OTHER_TYPES.get(kind, 'unknown')}; not an executable")
    return header


def _truncated(what: str, end: int, data: bytes) -> str:
    return f"truncated: {what} at byte {end}, the file at {len(data)}"


def _table(
    data: bytes, row: struct.Struct, offset: int, size: int, count: int, what: str
) -> list[tuple]:
    if size != row.size and count:
        raise ElfError(f"{what} of {size} bytes each; they have {row.size}")
    end = offset + row.size * count
    if end > len(data):
        raise ElfError(_truncated(f"the {what} end", end, data))
    return list(row.iter_unpack(data[offset:end]))


def _read_segments(data: bytes, headers: list[tuple]) -> Iterator[Segment]:
    for index, (kind, offset, link, load, filled, size, flags, _) in enumerate(headers):
        if kind != LOAD or not size and not filled:
            continue
        if filled > size:
            raise ElfError(f"segment {index} has {filled} bytes for {size} bytes of memory")
        if offset + filled > len(data):
            raise ElfError(_truncated(f"segment {index} ends", offset + filled, data))
        if max(link, load) + size > 1 << 32:
            raise ElfError(
                f"segment {index} (address 0x{max(link, load):08x}, {size} bytes) "
                "ends past the 32-bit address space"
            )
        if link != load:
            size = filled  # zeros are wanted at the link address, and made by the program itself
            if not filled:
                continue
        yield Segment(
            load,
            data[offset : offset + filled],
            size,
            bool(flags & R),
            bool(flags & W),
            bool(flags & X),
            link if link != load else None,
        )


def _check_segments(segments: tuple[Segment, ...], entry: int, file_size: int) -> None:
    if not segments:
        raise ElfError("no loadable segment")
    filled = sum(len(segment.data) for segment in segments)
    if filled > file_size:
        raise ElfError(f"its segments take {filled} bytes out of a file of {file_size}")
    size = sum(segment.size for segment in segments)
    if size > LARGEST_MEMORY:
        raise ElfError(f"its segments ask for {size} bytes of memory; the most is {LARGEST_MEMORY}")
    for a, b in pairwise(sorted(segments, key=lambda segment: segment.address)):
        if a.address + a.size > b.address:
            raise ElfError(
                f"segments overlap: 0x{a.address:08x}..0x{a.address + a.size - 1:08x} "
                f"and 0x{b.address:08x}..0x{b.address + b.size - 1:08x}"
            )
    if entry & 1:
        raise ElfError(f"entry 0x{entry:08x} is odd; instructions are at even addresses")
    if not any(s.executable and 0 <= entry - s.address < s.size for s in segments):
        raise ElfError(f"entry 0x{entry:08x} is not in an executable segment")


def _text(table: bytes, offset: int) -> str:
    """Return the string at an offset, unprintable characters escaped: terminals show names."""
    raw = table[offset : offset + LONGEST_NAME].split(b"\0", 1)[0]
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _read_names(data: bytes, headers: list[tuple], names: int) -> list[str]:
    if names >= len(headers):
        raise ElfError(f"section names in section {names}; there are {len(headers)} sections")
    table = _contents(data, headers[names])
    return [_text(table, header[0]) for header in headers]


def _contents(data: bytes, header: tuple) -> bytes:
    _, kind, _, _, offset, size, *_ = header
    return b"" if kind in (0, NOBITS) else data[offset : offset + size]


def _read_sections(titles: list[str], headers: list[tuple]) -> Iterator[Section]:
    for title, (_, kind, flags, address, _, size, *_) in zip(titles, headers, strict=True):
        if kind and flags & ALLOC and size:
            is_writable, is_executable = bool(flags & WRITE), bool(flags & EXECINSTR)
            yield Section(title, address, size, is_writable, is_executable, kind == NOBITS)


def _read_notes(data: bytes, titles: list[str], headers: list[tuple]) -> dict[str, bytes]:
    notes: dict[str, bytes] = {}
    for title, header in zip(titles, headers, strict=True):
        if title in NOTES and title not in notes and not header[2] & COMPRESSED:
            notes[title] = _contents(data, header)
    if sum(map(len, notes.values())) > len(data):
        raise ElfError(f"sections {', '.join(notes)} share bytes of the file")
    return notes


def _read_symbols(data: bytes, headers: list[tuple]) -> Iterator[Symbol]:
    """Read the symbols of addresses: not of files, of sections, nor undefined ones."""
    for _, kind, _, _, offset, size, link, _, _, entry_size in headers:
        if kind != SYMTAB:
            continue
        if entry_size != SYMBOL.size or size % SYMBOL.size:
            raise ElfError(f"a symbol table of {size} bytes with entries of {entry_size}, not 16")
        if link >= len(headers):
            raise ElfError(f"symbol names in section {link}; there are {len(headers)} sections")
        if size // SYMBOL.size > MOST_SYMBOLS:
            raise ElfError(f"{size // SYMBOL.size} symbols; the most is {MOST_SYMBOLS}")
        names = _contents(data, headers[link])
        for name, value, length, info, _, section in SYMBOL.iter_unpack(
            data[offset : offset + size]
        ):
            if name and section and info & 15 < len(KINDS):
                text = _text(names, name)
                if text:
                    yield Symbol(text, value, length, KINDS[info & 15], info >> 4 != 0)
        return
