"""Writes ELF files: the inverse of the reader in elf.py, with its layouts."""

from isa.elf.reader import (
    ABSOLUTE,
    ALLOC,
    ATTRIBUTES,
    EXECINSTR,
    EXECUTABLE,
    HEADER,
    IDENT,
    KINDS,
    LOAD,
    NOBITS,
    PROGBITS,
    PROGRAM_HEADER,
    RISCV,
    SECTION_HEADER,
    STRTAB,
    SYMBOL,
    SYMTAB,
    WRITE,
    Elf,
    R,
    Section,
    Symbol,
    W,
    X,
)

TYPES = {
    ".riscv.attributes": ATTRIBUTES,
    ".symtab": SYMTAB,
    ".strtab": STRTAB,
    ".shstrtab": STRTAB,
}


def write(elf: Elf) -> bytes:
    """Write an executable: segments, the sections that lie in them, symbols and notes.

    A section that has no bytes in a segment is written as one of zeros.
    """
    image = bytearray(HEADER.size + PROGRAM_HEADER.size * len(elf.segments))
    offsets = [_append(image, segment.data, segment.address) for segment in elf.segments]
    for index, (segment, offset) in enumerate(zip(elf.segments, offsets, strict=True)):
        _, data, size, readable, writable, executable, _ = segment
        flags = R * readable | W * writable | X * executable
        load = (LOAD, offset, segment.start, segment.address, len(data), size, flags, 4)
        PROGRAM_HEADER.pack_into(image, HEADER.size + index * PROGRAM_HEADER.size, *load)

    titles = _Strings()
    headers = [(0,) * 10]
    for section in elf.sections:
        headers.append(_section_header(titles.add(section.name), section, elf, offsets))
    symbols, names, first_global = _symbol_table(elf)
    tables = elf.notes | {".symtab": symbols, ".strtab": names}
    indices = {title: titles.add(title) for title in (*tables, ".shstrtab")}
    for title, data in (tables | {".shstrtab": bytes(titles.data)}).items():
        kind = TYPES.get(title, PROGBITS)
        offset = _append(image, data, 0)
        tail = (len(headers) + 1, first_global, 4, SYMBOL.size) if kind == SYMTAB else (0, 0, 1, 0)
        headers.append((indices[title], kind, 0, 0, offset, len(data), *tail))
    table = b"".join(SECTION_HEADER.pack(*header) for header in headers)
    shoff = _append(image, table, 0)
    sizes = (HEADER.size, PROGRAM_HEADER.size, len(elf.segments))
    row = (EXECUTABLE, RISCV, 1, elf.entry, HEADER.size, shoff, elf.flags, *sizes)
    HEADER.pack_into(image, 0, IDENT, *row, SECTION_HEADER.size, len(headers), len(headers) - 1)
    return bytes(image)


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self.offsets = {"": 0}

    def add(self, text: str) -> int:
        if text not in self.offsets:
            self.offsets[text] = len(self.data)
            self.data += text.encode("utf-8", "replace") + b"\0"
        return self.offsets[text]


def _append(image: bytearray, data: bytes, address: int) -> int:
    """Append data at an offset that is congruent to its address modulo 4; return the offset."""
    image += bytes((address - len(image)) % 4)
    image += data
    return len(image) - len(data)


def _section_header(name: int, section: Section, elf: Elf, offsets: list[int]) -> tuple:
    flags = ALLOC | WRITE * section.writable | EXECINSTR * section.executable
    kind, offset = NOBITS, 0
    for segment, start in zip(elf.segments, offsets, strict=True):
        distance = section.address - segment.start
        if not section.is_zero and 0 <= distance <= len(segment.data) - section.size:
            kind, offset = PROGBITS, start + distance
    return (name, kind, flags, section.address, offset, section.size, 0, 0, 4, 0)


def _symbol_table(elf: Elf) -> tuple[bytes, bytes, int]:
    """Return symbols, their names, and the index of the first global one: locals come first."""
    names = _Strings()
    ordered = sorted(elf.symbols, key=lambda symbol: symbol.is_global)
    rows = [SYMBOL.pack(0, 0, 0, 0, 0, 0)]
    for symbol in ordered:
        info = symbol.is_global << 4 | KINDS.index(symbol.kind)
        where = _section_of(symbol, elf.sections)
        rows.append(
            SYMBOL.pack(names.add(symbol.name), symbol.address, symbol.size, info, 0, where)
        )
    first_global = 1 + sum(not symbol.is_global for symbol in ordered)
    return b"".join(rows), bytes(names.data), first_global


def _section_of(symbol: Symbol, sections: tuple[Section, ...]) -> int:
    """Return the index of the section that contains a symbol or ends at it, else ABSOLUTE."""
    ends = ABSOLUTE
    for index, section in enumerate(sections, 1):
        distance = symbol.address - section.address
        if 0 <= distance < section.size:
            return index
        if distance == section.size:
            ends = index
    return ends
