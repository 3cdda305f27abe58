"""Programs from a real compiler: C, with GNU's compiler and picolibc, for the fabric controller.

What they must print is what the same C prints when compiled for the machine that runs the tests.
"""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program

SOURCES = Path(__file__).parent / "c"
PROGRAMS = ("sort", "crc", "floats", "print")
LEVELS = ("-O0", "-O2", "-O3", "-Os")
GCC, HOST_GCC = "riscv64-unknown-elf-gcc", "gcc"
LD, NM = "riscv64-unknown-elf-ld", "riscv64-unknown-elf-nm"
EXACT = ("-std=gnu11", "-ffp-contract=off", "-fno-math-errno")
# No multilib has both F and C: code is compiled with C, and linked with the library that has none.
COMPILED = ("-march=rv32imfc_zicsr", "-mabi=ilp32f", "--specs=picolibc.specs", "-g")
LINKED = ("-march=rv32imf", "-mabi=ilp32f", "--specs=picolibc.specs", "-nostartfiles")

CONSOLE, STATUS = 0x1A10F000, 0x1A1040A0

needs_compiler = pytest.mark.skipif(
    not shutil.which(GCC) or not shutil.which(HOST_GCC),
    reason="gcc-riscv64-unknown-elf and gcc are not both installed",
)


def run(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build(name: str, level: str, folder: Path) -> Path:
    """Compile and link one of the programs."""
    objects = []
    for source in ("crt0.S", "console.c", f"{name}.c"):
        target = folder / f"{name}{level}-{source}.o"
        run(GCC, *COMPILED, *EXACT, level, "-c", SOURCES / source, "-o", target)
        objects.append(target)
    path = folder / f"{name}{level}.elf"
    script = ("-T", SOURCES / "link.ld", "-Wl,--no-warn-rwx-segments")
    run(GCC, *LINKED, *script, *objects, "-lm", "-o", path)
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, str]:
    """What the programs print on this machine."""
    folder = tmp_path_factory.mktemp("host")
    outputs = {}
    for name in PROGRAMS:
        run(HOST_GCC, *EXACT, "-O2", SOURCES / f"{name}.c", "-lm", "-o", folder / name)
        outputs[name] = run(folder / name)
    return outputs


def emulate(program: Program) -> tuple[str, int]:
    """Run a program in Unicorn; return its console and exit code."""
    import unicorn
    from unicorn import riscv_const

    hart = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
    hart.mem_map(0x1C000000, 0x200000)
    hart.mem_map(0x1A100000, 0x10000)
    for segment in program.segments:
        hart.mem_write(segment.address, segment.data)
    console, status = bytearray(), []

    def store(uc, access, address, size, value, data) -> None:
        if address == CONSOLE:
            console.append(value & 0xFF)
        elif address == STATUS:
            status.append(value & 0x7FFFFFFF)
            uc.emu_stop()

    hart.hook_add(unicorn.UC_HOOK_MEM_WRITE, store, begin=0x1A100000, end=0x1A10FFFF)
    hart.reg_write(riscv_const.UC_RISCV_REG_MSTATUS, 0x6000)
    hart.emu_start(program.entry, 0, timeout=120_000_000)
    return console.decode(), status[0]


@needs_compiler
@pytest.mark.skipif(not find_spec("unicorn"), reason="unicorn is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_program_prints_in_unicorn_what_it_prints_on_the_host(name, expected, tmp_path):
    program = Program.from_elf(build(name, "-O2", tmp_path))
    assert program.float_registers == "f"
    assert emulate(program) == (expected[name], 0)


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled
def test_a_compiled_program_prints_what_it_prints_on_the_host(name, level, expected, tmp_path):
    soc = pytest.importorskip("soc.run", reason="soc cannot run programs yet")
    program = Program.from_elf(build(name, level, tmp_path))
    result = soc.run_program(program, chip="pulp")
    assert (result.console, result.exit.code) == (expected[name], 0)


# gcc's assembly output, by this assembler and by GNU's

SECTIONS = """SECTIONS
{
%s
    /DISCARD/ : { *(*) }
}
"""


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled
def test_the_assembly_output_of_gcc_gives_the_bytes_that_gnu_as_and_ld_give(name, level, tmp_path):
    """Linked where this assembler puts the sections; library functions at an address far away."""
    path = tmp_path / "a.s"
    flat = ("-march=rv32imf_zicsr", "-mabi=ilp32f", "-mno-relax", "-fno-merge-constants", "-g")
    run(
        GCC, *flat, "--specs=picolibc.specs", *EXACT, level, "-S", SOURCES / f"{name}.c", "-o", path
    )
    run(GCC, *flat, "-c", path, "-o", tmp_path / "a.o")
    undefined = run(NM, "-u", "-j", tmp_path / "a.o").split()
    path.write_text(
        path.read_text()
        + "".join(f"{symbol} = 0x{0x1C100000 + 16 * n:x}\n" for n, symbol in enumerate(undefined))
    )
    program = assemble(path.read_text(), profile("ri5cy"), text_base=0x1C010000)
    script = "\n".join(
        f"    {part.name} 0x{part.address:x} : {{ *({part.name}) }}" for part in program.sections
    )
    (tmp_path / "a.ld").write_text(SECTIONS % script)
    run(GCC, *flat, "-c", path, "-o", tmp_path / "a.o")
    link = ("-m", "elf32lriscv", "--no-relax", "--no-warn-rwx-segments", "-e", "main")
    run(LD, *link, "-T", tmp_path / "a.ld", tmp_path / "a.o", "-o", tmp_path / "a.elf")
    theirs = Program.from_elf(tmp_path / "a.elf")
    assert len(theirs.sections) >= 2
    assert program.lines.at(program.symbol("main").address)[0].endswith(f"{name}.c")
    for part in theirs.sections:
        assert program.bytes_at(part.address, part.size) == theirs.bytes_at(
            part.address, part.size
        ), part.name
    for symbol in theirs.symbols:
        if symbol.kind == "function":
            ours = program.symbol(symbol.name)
            assert (ours.address, ours.size, ours.kind) == symbol[1:4]
