"""Programs: ELF files in and out, symbols, source lines."""

import io
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from isa.elf.attributes import extensions, float_registers
from isa.elf.dwarf import LineRange
from isa.elf.reader import LARGEST_FILE, MOST_SYMBOLS
from isa.program import ElfError, LineTable, Program, Section, Segment, Symbol

READELF = "riscv64-unknown-elf-readelf"
OBJDUMP = "riscv64-unknown-elf-objdump"
needs_binutils = pytest.mark.skipif(
    not shutil.which(READELF), reason="binutils-riscv64-unknown-elf is not installed"
)

# Offsets in an ELF32 file: the ELF header, then the program headers of hello.elf (attributes, load)
CLASS, ORDER, TYPE, MACHINE, ENTRY, PHOFF, SHOFF = 4, 5, 16, 18, 24, 28, 32
PHENTSIZE, PHNUM, SHENTSIZE, SHNUM, SHSTRNDX = 42, 44, 46, 48, 50
LOAD = 52 + 32
OFFSET, VADDR, PADDR, FILESZ, MEMSZ = LOAD + 4, LOAD + 8, LOAD + 12, LOAD + 16, LOAD + 20


def patched(data: bytes, offset: int, value: int, size: int = 4) -> bytes:
    return data[:offset] + value.to_bytes(size, "little") + data[offset + size :]


def section_header(data: bytes, index: int) -> int:
    """Offset of a section header."""
    return struct.unpack_from("<I", data, SHOFF)[0] + 40 * index


def symtab(data: bytes) -> int:
    """Offset of the symbol table's section header."""
    count = struct.unpack_from("<H", data, SHNUM)[0]
    headers = [section_header(data, index) for index in range(count)]
    return next(h for h in headers if struct.unpack_from("<I", data, h + 4)[0] == 2)


def refused(data: bytes, message: str) -> None:
    with pytest.raises(ElfError, match=f"^{re.escape(message)}$"):
        Program.from_elf(data, "a.elf")


def test_a_program_has_the_segments_symbols_and_entry_that_pyelftools_reads(elfs):
    for name, data in elfs.items():
        program, oracle = Program.from_elf(data), ELFFile(io.BytesIO(data))
        assert program.entry == oracle["e_entry"], name
        loads = [s for s in oracle.iter_segments("PT_LOAD") if s["p_memsz"]]
        assert [(s.address, s.data, s.size) for s in program.segments] == [
            (s["p_paddr"], s.data(), s["p_memsz"]) for s in loads
        ], name
        assert [4 * s.readable + 2 * s.writable + s.executable for s in program.segments] == [
            s["p_flags"] for s in loads
        ], name
        assert [(s.name, s.address, s.size) for s in program.symbols] == [
            (s.name, s["st_value"], s["st_size"])
            for s in oracle.get_section_by_name(".symtab").iter_symbols()
            if s.name and s["st_info"]["type"] in ("STT_NOTYPE", "STT_OBJECT", "STT_FUNC")
        ], name
        assert [(s.name, s.address, s.size, s.is_zero) for s in program.sections] == [
            (s.name, s["sh_addr"], s["sh_size"], s["sh_type"] == "SHT_NOBITS")
            for s in oracle.iter_sections()
            if s["sh_flags"] & 2 and s["sh_size"]
        ], name


def test_a_program_has_the_architecture_that_pyelftools_reads(elfs):
    for name, data in elfs.items():
        section = ELFFile(io.BytesIO(data)).get_section_by_name(".riscv.attributes")
        vendors = section.iter_subsections() if section else ()
        files = [file for vendor in vendors for file in vendor.iter_subsubsections()]
        found = [a.value for file in files for a in file.iter_attributes("TAG_ARCH")]
        assert [Program.from_elf(data).architecture] == (found or [None]), name


def test_lines_of_a_dwarf_5_program_are_those_that_pyelftools_reads():
    data = (Path(__file__).parent / "data" / "dwarf5.elf").read_bytes()
    info, program = ELFFile(io.BytesIO(data)).get_dwarf_info(), Program.from_elf(data)
    (unit,) = info.iter_CUs()
    states = [e.state for e in info.line_program_for_CU(unit).get_entries() if e.state]
    rows = {state.address: state.line for state in states}
    assert len(rows) > 5
    for address, line in rows.items():
        ended = max(state.end_sequence for state in states if state.address == address)
        assert program.lines.at(address) == (None if ended else ("/tmp/a.c", line))


def test_a_program_from_a_file_is_the_program_from_its_bytes(tmp_path, hello):
    path = tmp_path / "hello.elf"
    path.write_bytes(hello)
    program = Program.from_elf(path)
    assert program == Program.from_elf(hello)
    assert program.name == str(path)


def test_attributes_and_flags_tell_where_floats_live(hello):
    program = Program.from_elf(hello)
    assert program.architecture == "rv32i2p1_m2p0_c2p0_zicsr2p0_zmmul1p0_zfinx1p0"
    assert program.float_registers == "x"


@pytest.mark.parametrize(
    ("architecture", "flags", "registers"),
    [
        ("rv32i2p1_m2p0_f2p2_c2p0_zicsr2p0", 0x3, "f"),
        ("rv32imfc", 0, "f"),
        ("rv32imc_zfinx", 1, "x"),
        ("rv32imc_zfinx_xpulpv3", 1, "x"),
        ("rv32imcxgap9", 1, "x"),
        ("rv32imcxpulpv2", 1, "x"),
        ("rv32imfcxpulpv2", 1, "f"),
        ("rv32imc", 1, None),
        (None, 0x0, None),
        (None, 0x2, "f"),
        (None, 0x5, "f"),
    ],
)
def test_float_registers_follow_the_architecture_then_the_float_abi(architecture, flags, registers):
    assert float_registers(architecture, flags) == registers


def test_extensions_of_an_architecture_are_named_without_versions():
    assert extensions("rv32i2p1_m2p0_zfinx1p0") == {"i", "m", "zfinx"}
    assert extensions("rv32imcxpulpv2_zicsr") == {"i", "m", "c", "xpulpv2", "zicsr"}


def test_an_address_is_named_by_the_symbol_that_holds_it(hello):
    program = Program.from_elf(hello)
    main = program.symbol("main")
    assert program.place(main.address) == "main"
    assert program.place(main.address + 0x1C) == "main+0x1c"
    assert program.place(0x10) == "0x00000010"


def test_a_sized_symbol_ends_and_a_label_reaches_to_the_end_of_its_section():
    program = Program(
        (Segment(0x1000, bytes(64), 64, executable=True),),
        0x1000,
        (
            Symbol("f", 0x1000, 8, "function"),
            Symbol("g", 0x1010),
            Symbol("$x", 0x1020),
            Symbol("g_local", 0x1010),
        ),
        (Section(".text", 0x1000, 48, executable=True),),
    )
    places = {0x1004: "f+0x4", 0x1008: "0x00001008", 0x102C: "g+0x1c", 0x1030: "0x00001030"}
    assert {address: program.place(address) for address in places} == places
    with pytest.raises(KeyError, match=r"^'h'$"):
        program.symbol("h")


def test_bytes_after_the_data_of_a_segment_are_zero_and_outside_there_are_none():
    program = Program((Segment(0x1000, b"\x01\x02", 6, executable=True),), 0x1000)
    assert program.bytes_at(0x1001, 4) == b"\x02\0\0\0"
    assert program.bytes_at(0x1004, 4) == b"\0\0"
    assert program.bytes_at(0x1006, 4) == b""


def test_data_that_the_program_copies_itself_is_loaded_at_its_load_address(hello):
    data = patched(patched(hello, PADDR, 0x1C010000), VADDR, 0x10000000)
    (segment,) = Program.from_elf(data).segments
    assert (segment.address, segment.start) == (0x1C010000, 0x10000000)
    assert segment.size == len(segment.data) == 976
    assert Program.from_elf(Program.from_elf(data).to_elf()).segments == (segment,)


def test_a_program_without_section_headers_is_loaded(hello):
    program = Program.from_elf(patched(hello, SHNUM, 0, 2))
    assert program.segments == Program.from_elf(hello).segments
    assert (program.symbols, program.sections, program.architecture) == ((), (), None)


def test_unprintable_characters_of_names_are_escaped(hello):
    program = Program.from_elf(hello.replace(b"\0putch\0", b"\0\x1b[2Jx\0"))
    assert program.symbol(r"\x1b[2Jx").address == Program.from_elf(hello).symbol("putch").address


def test_reading_what_was_written_gives_the_same_program(elfs):
    for name, data in elfs.items():
        program = Program.from_elf(data)
        assert Program.from_elf(program.to_elf()) == program, name


PROGRAM = Program(
    segments=(
        Segment(0x1C008000, bytes.fromhex("13051000 6f004000 0145 8280"), 12, True, False, True),
        Segment(0x10000003, b"abc", 16),
    ),
    entry=0x1C008000,
    symbols=(
        Symbol("_start", 0x1C008000, 8, "function", True),
        Symbol("f", 0x1C008008, 4, "function"),
        Symbol("text", 0x10000003, 3, "object", True),
        Symbol("end", 0x10000013),
        Symbol("stack", 0x10008000),
    ),
    sections=(
        Section(".text", 0x1C008000, 12, executable=True),
        Section(".data", 0x10000003, 3, writable=True),
        Section(".bss", 0x10000006, 13, writable=True, is_zero=True),
    ),
    architecture="rv32imc_zfinx",
    flags=1,
    lines=LineTable(
        [
            LineRange(0x1C008000, 0x1C008004, "/src/a.py", 300),
            LineRange(0x1C008004, 0x1C008008, "/src/a.py", 7),
            LineRange(0x1C008008, 0x1C00800A, "b.s", 1),
            LineRange(0x1C00800A, 0x1C00800C, "b.s", 70000),
        ]
    ),
)


def test_a_made_program_survives_the_way_through_a_file():
    program = Program.from_elf(PROGRAM.to_elf())
    ordered = sorted(PROGRAM.symbols, key=lambda symbol: symbol.is_global)
    assert program.symbols == tuple(ordered)
    for part in ("segments", "entry", "sections", "architecture", "flags", "lines"):
        assert getattr(program, part) == getattr(PROGRAM, part), part
    assert program.float_registers == "x"


def test_pyelftools_reads_a_made_program():
    elf = ELFFile(io.BytesIO(PROGRAM.to_elf()))
    assert (elf["e_machine"], elf["e_type"], elf["e_flags"]) == ("EM_RISCV", "ET_EXEC", 1)
    text = elf.get_section_by_name(".text")
    assert text.data() == PROGRAM.segments[0].data
    symbols = elf.get_section_by_name(".symtab")
    assert {s.name: s["st_value"] for s in symbols.iter_symbols() if s.name} == {
        symbol.name: symbol.address for symbol in PROGRAM.symbols
    }
    assert symbols["sh_info"] == 4
    (unit,) = elf.get_dwarf_info().iter_CUs()
    program = elf.get_dwarf_info().line_program_for_CU(unit)
    files = [entry.name.decode() for entry in program["file_entry"]]
    states = [entry.state for entry in program.get_entries() if entry.state]
    assert [
        (state.address, files[state.file - 1], state.line)
        for state in states
        if not state.end_sequence
    ] == [(row.start, row.file, row.line) for row in PROGRAM.lines.ranges]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@needs_binutils
def test_gnu_readelf_and_objdump_read_a_made_program(tmp_path):
    path = tmp_path / "a.elf"
    path.write_bytes(PROGRAM.to_elf())
    report = subprocess.run([READELF, "-aW", path], capture_output=True, text=True, check=True)
    assert report.stderr == ""
    assert 'Tag_RISCV_arch: "rv32imc_zfinx"' in report.stdout
    assert re.search(r"Flags: +0x1, RVC, soft-float ABI", report.stdout)
    assert re.search(r"\.bss +NOBITS +10000006 \w+ 00000d", report.stdout)
    assert re.search(r"1c008008 +4 FUNC +LOCAL +DEFAULT +1 f\n", report.stdout)
    assert re.search(r"10008000 +0 NOTYPE +LOCAL +DEFAULT +ABS stack\n", report.stdout)
    listing = output(OBJDUMP, "-dl", str(path))
    assert re.search(
        r"<_start>:\n_start\(\):\n/src/a.py:300\n1c008000:\s+00100513\s+li\s+a0,1\n", listing
    )
    assert re.search(r"<f>:\nf\(\):\nb.s:1\n1c008008:\s+4501", listing)
    assert re.search(r"b.s:70000\n1c00800a:\s+8082\s+ret\n", listing)


@needs_binutils
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_source_lines_of_compiled_code_are_those_that_readelf_shows(tmp_path, version):
    gcc = shutil.which("riscv64-unknown-elf-gcc")
    if not gcc:
        pytest.skip("gcc-riscv64-unknown-elf is not installed")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.h").write_text("static int twice(int a)\n{\n  return 2 * a;\n}\n")
    (tmp_path / "a.c").write_text(
        '#include "sub/b.h"\nint f(int a, int b)\n{\n  int c = twice(a);\n'
        "  for (int i = 0; i < b; i++)\n    c += i * c;\n\n\n  return c;\n}\n"
        "int _start(void) { return f(1, 2); }\n"
    )
    command = [gcc, f"-gdwarf-{version}", "-O2", "-march=rv32imc", "-mabi=ilp32", "-nostdlib"]
    subprocess.run([*command, "-Wl,-e,_start", "a.c", "-o", "a.elf"], cwd=tmp_path, check=True)
    dump = output(READELF, "--debug-dump=decodedline", "-W", str(tmp_path / "a.elf"))
    rows = re.findall(r"^(\S+) +(\d+|-) +0x(\w+)", dump, re.M)
    expected = {int(address, 16): (file, int(line)) for file, line, address in rows if line != "-"}
    assert len(expected) > 5
    program = Program.from_elf(tmp_path / "a.elf")
    for address, (file, line) in expected.items():
        found = program.lines.at(address)
        assert found is not None
        assert (found[0].split("/")[-1], found[1]) == (file, line), hex(address)
    end = max(row.end for row in program.lines.ranges)
    assert program.lines.at(end) is None


# Bad files: one sentence each


def test_a_missing_file_is_refused(tmp_path):
    path = tmp_path / "none.elf"
    message = f"{path}: cannot be read: No such file or directory"
    with pytest.raises(ElfError, match=f"^{re.escape(message)}$"):
        Program.from_elf(path)


def test_a_directory_is_refused(tmp_path):
    message = f"{tmp_path}: cannot be read: Is a directory"
    with pytest.raises(ElfError, match=f"^{re.escape(message)}$"):
        Program.from_elf(tmp_path)


def test_an_impossible_file_name_is_refused():
    with pytest.raises(ElfError, match=r"^a\x00b: cannot be read: no file can have this name$"):
        Program.from_elf("a\0b")


def test_a_huge_file_is_refused_without_reading_it_whole(tmp_path):
    path = tmp_path / "huge.elf"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    message = f"{path}: more than 67108864 bytes, the most that a program may have"
    with pytest.raises(ElfError, match=f"^{re.escape(message)}$"):
        Program.from_elf(path)


def test_an_empty_file_is_refused():
    refused(b"", "a.elf: the file is empty")


def test_bytes_without_a_name_are_called_elf():
    with pytest.raises(ElfError, match=r"^ELF: the file is empty$"):
        Program.from_elf(b"")


def test_what_is_not_elf_is_refused():
    refused(b"#!/bin/sh", "a.elf: not an ELF file: it begins with 23 21 2f 62, not 7f 45 4c 46")


def test_a_file_that_ends_in_the_elf_header_is_refused(hello):
    refused(hello[:51], "a.elf: truncated: the ELF header ends at byte 52, the file at 51")


def test_a_file_that_ends_in_a_segment_is_refused(hello):
    refused(hello[:5000], "a.elf: truncated: segment 1 ends at byte 5072, the file at 5000")


def test_a_file_that_ends_in_its_sections_is_refused(hello):
    refused(
        hello[:6400], "a.elf: truncated: the section headers end at byte 6568, the file at 6400"
    )


def test_a_section_past_the_end_is_refused(hello):
    data = patched(hello, section_header(hello, 6) + 20, 9999)
    refused(data, "a.elf: truncated: section 6 ends at byte 15140, the file at 6568")


@pytest.mark.parametrize(
    ("offset", "value", "size", "message"),
    [
        (CLASS, 2, 1, "a 64-bit ELF; compile it for rv32 (-march=rv32imfc -mabi=ilp32f)"),
        (ORDER, 2, 1, "a big-endian ELF; RISC-V programs are little-endian"),
        (CLASS, 9, 1, "ELF class, byte order, version 09 01 01 are not 01 01 01"),
        (MACHINE, 62, 2, "made for x86-64 (machine 62), not for RISC-V (243)"),
        (MACHINE, 9999, 2, "made for an unknown machine (machine 9999), not for RISC-V (243)"),
        (TYPE, 1, 2, "ELF type 1, a relocatable object; link it first; not an executable"),
        (
            TYPE,
            3,
            2,
            "ELF type 3, a shared object or position-independent executable; "
            "link it with -static -no-pie; not an executable",
        ),
        (TYPE, 77, 2, "ELF type 77, unknown; not an executable"),
        (PHNUM, 0, 2, "no loadable segment"),
        (PHENTSIZE, 31, 2, "program headers of 31 bytes each; they have 32"),
        (PHNUM, 999, 2, "truncated: the program headers end at byte 32020, the file at 6568"),
        (SHENTSIZE, 0, 2, "section headers of 0 bytes each; they have 40"),
        (SHSTRNDX, 10, 2, "section names in section 10; there are 10 sections"),
        (ENTRY, 0x1C010001, 4, "entry 0x1c010001 is odd; instructions are at even addresses"),
        (ENTRY, 0x10, 4, "entry 0x00000010 is not in an executable segment"),
        (LOAD + 24, 6, 4, "entry 0x1c010000 is not in an executable segment"),
        (FILESZ, 2000, 4, "segment 1 has 2000 bytes for 1072 bytes of memory"),
        (
            MEMSZ,
            0xE4000000,
            4,
            "segment 1 (address 0x1c010000, 3825205248 bytes) ends past the 32-bit address space",
        ),
        (
            MEMSZ,
            0xE0000000,
            4,
            "its segments ask for 3758096384 bytes of memory; the most is 1073741824",
        ),
    ],
)
def test_a_bad_header_is_refused(hello, offset, value, size, message):
    refused(patched(hello, offset, value, size), f"a.elf: {message}")


def two_segments(hello: bytes) -> bytes:
    """hello with its attributes' program header made a copy of the one that loads."""
    return hello[:52] + hello[LOAD : LOAD + 32] + hello[LOAD:]


def test_overlapping_segments_are_refused(hello):
    data = patched(patched(two_segments(hello), 52 + 8, 0x1C010100), 52 + 12, 0x1C010100)
    refused(
        data,
        "a.elf: segments overlap: 0x1c010000..0x1c01042f and 0x1c010100..0x1c01052f",
    )


def test_segments_that_share_bytes_beyond_the_size_of_the_file_are_refused(hello):
    data = patched(two_segments(hello), 52 + 8, 0x10000000)
    data = patched(patched(data, 52 + 12, 0x10000000), 52 + 4, 0)
    for header in (52, LOAD):
        data = patched(patched(data, header + 16, 5000), header + 20, 5000)
    data = patched(data, LOAD + 4, 0)
    refused(data, "a.elf: its segments take 10000 bytes out of a file of 6568")


def test_notes_that_share_bytes_beyond_the_size_of_the_file_are_refused(hello):
    names = struct.unpack_from("<I", hello, section_header(hello, 9) + 16)[0]
    data = hello[:names] + hello[names:].replace(b".rodata\0.data", b".debug_line\0\0")
    header = section_header(hello, 2)
    data = patched(patched(data, header + 16, 0), header + 20, 6560)
    refused(data, "a.elf: sections .debug_line, .riscv.attributes share bytes of the file")


def test_a_malformed_symbol_table_is_refused(hello):
    header = symtab(hello)
    refused(
        patched(hello, header + 36, 0),
        "a.elf: a symbol table of 640 bytes with entries of 0, not 16",
    )
    refused(
        patched(hello, header + 24, 10), "a.elf: symbol names in section 10; there are 10 sections"
    )


def test_too_many_symbols_are_refused(hello):
    count = MOST_SYMBOLS + 1
    data = patched(patched(hello, symtab(hello) + 16, len(hello)), symtab(hello) + 20, 16 * count)
    refused(data + bytes(16 * count), "a.elf: 262145 symbols; the most is 262144")
