"""Mutated ELF files and assembler sources: run by test_fuzz.py in a process of bounded memory.

    python tests/isa/fuzz.py elf|asm COUNT SEED

Each must load, or raise the one exception that says what is wrong. Prints a summary, or exits with
the first other exception, or the number of the input that took longer than SLOWEST.
"""

import random
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from isa.assembler.asm import AsmError, assemble, listing
from isa.extensions.profiles import profile
from isa.program import ElfError, Program
from pulpsim.fidelity.programs import PROGRAMS

HERE = Path(__file__).parent
SLOWEST = 2.0  # seconds of processor time
EXTREMES = (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def elf_seeds() -> list[bytes]:
    """Programs to mutate: small ones, with all that the reader looks at."""
    seeds = []
    for file, member in (
        (HERE.parent / "oracles" / "elfs.tar.xz", "pulp_open/hello.elf"),
        (PROGRAMS, "cv32e40p/c_crc32_O3_c1.elf"),
    ):
        with tarfile.open(file) as archive:
            seeds.append(archive.extractfile(member).read())
    own = assemble((HERE / "asm" / "gnu.s").read_text(), profile("ri5cy"), data_base=0x10000000)
    return [*seeds, (HERE / "data" / "dwarf5.elf").read_bytes(), own.to_elf()]


def mutate_elf(data: bytes, rng: random.Random) -> bytes:
    """Change bytes and words, mostly of headers and tables; cut, double, or move a piece."""
    image = bytearray(data)
    tables = int.from_bytes(data[32:36], "little")
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        places = (rng.randrange(52), 52 + rng.randrange(96), tables + rng.randrange(600))
        position = rng.choice((*places, rng.randrange(len(data))))
        position %= max(len(image), 1)
        kind = rng.randrange(8)
        if kind < 2:
            image[position : position + 1] = bytes([rng.randrange(256)])
        elif kind < 5:
            size = rng.choice((1, 2, 4))
            value = rng.choice((*EXTREMES, rng.getrandbits(32), len(data) + rng.randrange(-9, 9)))
            position -= position % size
            image[position : position + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        elif kind == 5:
            del image[position : position + rng.choice((1, 4, 100, len(image)))]
        elif kind == 6:
            image[position:position] = image[position : position + rng.randrange(200)]
        else:
            start = rng.randrange(len(data))
            image[position : position + 64] = data[start : start + 64]
    return bytes(image)


def load(data: bytes, number: int) -> str:
    """Read a file and everything that can be asked of it."""
    try:
        program = Program.from_elf(data)
    except ElfError as error:
        return str(error).split(":")[1][:24]
    place = program.place(program.entry)
    program.lines.at(program.entry)
    program.float_registers, program.bytes_at(program.entry, 4)
    try:
        lines = len(program.lines.ranges)
    except ElfError:
        lines = -1
    if number % 500 == 0:
        assert place in listing(program, profile("ri5cy"))
        assert Program.from_elf(program.to_elf()).segments == program.segments
    return "loaded, bad lines" if lines < 0 else "loaded"


HOSTILE = """
.rept 99999999|.endr|.rept 3|.macro m a|m \\\\a\\\\a|.endm|m 1|m m|.zero 1 << 60|.zero 99999999
.org 0x7fffffff|.align 31|.balign 1 << 24|.bss|.data|.text|.section .x,"aw",@nobits|.section "
.set x, x + 1|x = . - x|x:|1:|j 1f|j 1b|j x|la a0, x - 1|li a0, x - x|li a0, 1 << 31|call .|tail 0
lui a0, %hi(x)|addi a0, a0, %pcrel_lo(1b)|.word x / (x - x)|.word 1 << 63|.word -1 >> 63|.byte x
.float 1e999999999|.float 1e-999999999|.float nan|.float -|.ascii "\\x41\\777\\"|.string ""
.size x, . - x|.type x, @object|.comm y, 1 << 62, 8|.globl x, y|.option rvc|/*|*/|//|"|'|((((((((
))))|a0|%hi(|%pcrel_hi(.)|!!!!|~|\\|;;;;|::::|,,,,|\0|\u2028|\ud800|é:|+|0x|0b2|09|1f
lp.setup x0, a0, x|lp.setupi x1, 4095, .+62|p.lw a0, 4(a1!)|p.lw a0, a2(a1!)
pv.add.sci.h a0, a0, -32|c.lwsp a0, 4(sp)|fadd.s fa0, fa1, fa2, rtz|csrrw a0, 0xfff, a1
fence rw, rw|c.lui a0, 0xfffe0|beq a0, a1, .+4094|jal .-1048576
""".replace("\n", "|").split("|")


def asm_seeds() -> list[bytes]:
    """Pieces of a source with all there is, and lines that only an attacker writes."""
    lines = (HERE / "asm" / "gnu.s").read_text().split("\n")
    begin, end = "SIZE = 100; LIMIT = 127; MASK = 6\n", "\n_start: table: buffer: far: end: x: nop"
    pieces = ["\n".join(lines[start : start + 12]) for start in range(0, len(lines), 6)]
    return [f"{begin}{piece}{end}".encode() for piece in pieces]


def mutate_asm(data: bytes, rng: random.Random) -> bytes:
    """Swap, double, drop, garble lines and words; put hostile lines between them."""
    lines = data.decode().split("\n")
    for _ in range(rng.choice((1, 2, 3, 6))):
        index = rng.randrange(len(lines)) if lines else 0
        kind = rng.randrange(8)
        if kind < 3:
            lines.insert(index, rng.choice(HOSTILE))
        elif kind == 3 and lines:
            lines[index] += rng.choice((" ", ", ", "; ", "\n")) + rng.choice(HOSTILE)
        elif kind == 4 and lines:
            words = lines[index].split(" ")
            words[rng.randrange(len(words))] = rng.choice(HOSTILE)
            lines[index] = " ".join(words)
        elif kind == 5 and lines:
            position = rng.randrange(len(lines[index]) + 1)
            character = chr(rng.choice((rng.randrange(128), rng.randrange(0x3000))))
            lines[index] = lines[index][:position] + character + lines[index][position + 1 :]
        elif kind == 6 and lines:
            del lines[index]
        else:
            lines[index:index] = lines[index : index + rng.randrange(6)] * rng.choice((1, 2, 50))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def translate(data: bytes, number: int) -> str:
    """Assemble a source; what comes out must load again."""
    isa = profile("ri5cy" if number % 2 else "cv32e40p")
    try:
        program = assemble(data.decode("utf-8", "surrogatepass"), isa, source="a.s")
    except AsmError as error:
        if not str(error).startswith("a.s:"):
            raise
        return str(error).split(": ")[-1][:24]
    if number % 20 == 0:
        assert Program.from_elf(program.to_elf()).segments == program.segments
        listing(program, isa)
    return "assembled"


def run(
    seeds: list[bytes],
    mutate: Callable[[bytes, random.Random], bytes],
    check: Callable[[bytes, int], str],
    count: int,
    seed: int,
) -> None:
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        data = mutate(rng.choice(seeds), rng)
        started = time.process_time()
        try:
            outcomes[check(data, number)] += 1
        except Exception:
            print(f"number {number}, seed {seed}: {data[:4000]!r}", file=sys.stderr)
            raise
        elapsed = time.process_time() - started
        if elapsed > SLOWEST:
            sys.exit(f"number {number}, seed {seed}: {elapsed:.1f} s")
        slowest = max(slowest, elapsed)
    print(f"{count} inputs, slowest {slowest:.2f} s, {len(outcomes)} outcomes")
    for outcome, times in outcomes.most_common(12):
        print(f"{times:7} {outcome}")


if __name__ == "__main__":
    what, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if what == "elf":
        run(elf_seeds(), mutate_elf, load, count, seed)
    else:
        run(asm_seeds(), mutate_asm, translate, count, seed)
