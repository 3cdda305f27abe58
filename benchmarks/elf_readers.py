"""Our reader of ELF and DWARF beside pyelftools: at start-up, and with the largest files allowed.

pyelftools 0.33 is one of the tests' oracles. What it would take decides who reads for users: a
start of `pulpsim run` may cost 30 ms more, a hostile file 2 s.
"""

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time
from typing import Any

from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from benchmarks.figure import Figure
from benchmarks.workload import elf
from isa.elf import dwarf, reader
from isa.program import LineRange, LineTable, Program, Segment, Symbol

IMPORT = """
import time, soc.run, pulpsim.commands.run.command
start = time.process_time()
import elftools.elf.elffile
print(time.process_time() - start)
"""


def elf_readers(rounds: int) -> Iterator[Figure]:
    """Processor time of ours, with that of pyelftools as the limit."""
    hello = elf("hello").to_elf()
    imports = median(_import_of_pyelftools() for _ in range(rounds)) * 1e3
    yield Figure("import, beside what a run imports", 0.0, "ms", limit=imports)
    yield _beside("read hello", 1e3, "ms", rounds, (reader.read, hello), (_parse, hello))
    full = Program(
        (Segment(0x1C008000, bytes(4), 4, executable=True),),
        0x1C008000,
        tuple(Symbol(f"s{number}", 0x1C008000) for number in range(reader.MOST_SYMBOLS - 2)),
    ).to_elf()
    yield _beside("read the most symbols", 1, "s", 1, (reader.read, full), (_parse, full))
    lines = _line_table(dwarf.LARGEST_SECTION)
    ours, theirs = (_rows, lines), (_run_line_program, lines)
    yield _beside("run the largest line program", 1, "s", 1, ours, theirs)


def _import_of_pyelftools() -> float:
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True).stdout)


def _beside(
    name: str,
    scale: float,
    unit: str,
    rounds: int,
    ours: tuple[Callable[[Any], object], Any],
    theirs: tuple[Callable[[Any], object], Any],
) -> Figure:
    one, other = (
        median(_seconds(read, given) for _ in range(rounds)) * scale
        for read, given in (ours, theirs)
    )
    return Figure(name, one, unit, limit=other, ratio=one / other)


def _seconds(read: Callable[[Any], object], given: Any) -> float:
    start = process_time()
    read(given)
    return process_time() - start


def _parse(data: bytes) -> list[object]:
    """What our reader reads of a file: segments, sections, symbols."""
    file = ELFFile(io.BytesIO(data))
    found: list[object] = [segment.data() for segment in file.iter_segments("PT_LOAD")]
    found += [(section.name, section["sh_flags"]) for section in file.iter_sections()]
    table = file.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return found + [(symbol.name, symbol["st_value"]) for symbol in table.iter_symbols()]


def _line_table(size: int) -> bytes:
    """A line table of so many bytes that has the most opcodes, and next to no rows."""
    end = LineTable([LineRange(0, 4, "a.c", 1)]).sections()[".debug_line"]
    body = end[4:] + bytes([dwarf.CONST_ADD_PC]) * (size - len(end))
    return len(body).to_bytes(4, "little") + body


def _rows(section: bytes) -> int:
    return sum(1 for _ in dwarf.decode({".debug_line": section}))


def _run_line_program(section: bytes) -> int:
    stream = io.BytesIO(section)
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=4, dwarf_version=4)
    header = structs.Dwarf_lineprog_header.parse_stream(stream)
    program = LineProgram(header, stream, structs, stream.tell(), len(section))
    return len(program.get_entries())
