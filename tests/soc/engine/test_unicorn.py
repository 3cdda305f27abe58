"""RV32IMFC against QEMU, by way of unicorn: random programs leave the same registers and memory.

Unicorn is QEMU 5, which is older than version 2.2 of the F extension in one point and wrong in
another; `Qemu` corrects these two, as the manual has them, and only where they occur.

Ten million instructions, in about ten minutes on two processors:

    pytest tests/soc/engine/test_unicorn.py --full -s
"""

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from multiprocessing import Pool
from struct import unpack

import pytest
from unicorn import UC_ARCH_RISCV, UC_HOOK_CODE, UC_MODE_RISCV32, Uc
from unicorn.riscv_const import UC_RISCV_REG_F0, UC_RISCV_REG_FFLAGS, UC_RISCV_REG_X0

from isa.program import Program, Segment
from soc.chip.spec import SocSpec, load_chip
from soc.result import RunResult
from soc.run import run_program
from tests.soc.random_words import ENTRY, INSNS, SCRATCH, SIZE, Words, random_words

L2, L2_SIZE = 0x1C000000, 0x200000
FC = 8
MIN_MAX = ("fmin_s", "fmax_s")
MULTIPLY_ADD = ("fmadd_s", "fmsub_s", "fnmadd_s", "fnmsub_s")
FENCES = ("fence", "fence_i")
MAGNITUDE, INFINITY, QUIET = 0x7FFFFFFF, 0x7F800000, 0x00400000
INVALID = 16
LENGTH = 1000
REGULAR, FULL = 45, 9950
"""Seeds 0, 1, ... of the programs, each of about a thousand instructions."""


class Qemu:
    """A run of a program in QEMU's RISC-V.

    executed    how often, by the key of the instruction
    """

    def __init__(self, words: Words):
        self.words = words
        self.executed: Counter[str] = Counter()
        self.correction: Callable[[], None] | None = None
        self.uc = Uc(UC_ARCH_RISCV, UC_MODE_RISCV32)
        self.uc.mem_map(L2, L2_SIZE)
        self.uc.mem_write(ENTRY, words.code)
        self.uc.hook_add(UC_HOOK_CODE, self.step)
        self.uc.emu_start(ENTRY, words.exit)

    def step(self, uc: Uc, address: int, size: int, data: object) -> None:
        """Before each instruction: correct what the one before it left."""
        if self.correction:
            self.correction()
            self.correction = None
        key = self.words.keys[address]
        self.executed[key] += 1
        if key in MIN_MAX:
            self.correct_minimum(address)
        elif key in MULTIPLY_ADD:
            self.correct_multiply_add(address)

    def floats(self, address: int) -> tuple[int, int, int, int]:
        """Number of fd; fs1, fs2, fs3 of the instruction there."""
        at = address - ENTRY
        word = int.from_bytes(self.words.code[at : at + 4], "little")
        fs1, fs2, fs3 = (self.f[word >> shift & 31] for shift in (15, 20, 27))
        return word >> 7 & 31, fs1, fs2, fs3

    def correct_minimum(self, address: int) -> None:
        """QEMU 5: minNum of IEEE 754-2008, a signaling NaN gives a NaN.

        Manual, F extension 2.2, "Single-Precision Floating-Point Computational Instructions": "If
        only one operand is a NaN, the result is the non-NaN operand"; minimumNumber of IEEE
        754-2019.
        """
        fd, fs1, fs2, _ = self.floats(address)
        for nan, number in ((fs1, fs2), (fs2, fs1)):
            if is_signaling(nan) and not is_nan(number):
                self.correction = partial(self.uc.reg_write, UC_RISCV_REG_F0 + fd, number)

    def correct_multiply_add(self, address: int) -> None:
        """QEMU 5: infinity times zero plus a quiet NaN raises nothing.

        Manual, the same section: "The fused multiply-add instructions must set the invalid
        operation exception flag when the multiplicands are infinity and zero, even when the addend
        is a quiet NaN."
        """
        _, fs1, fs2, fs3 = self.floats(address)
        if {fs1 & MAGNITUDE, fs2 & MAGNITUDE} == {0, INFINITY} and is_nan(fs3):
            self.correction = self.set_invalid

    def set_invalid(self) -> None:
        self.uc.reg_write(UC_RISCV_REG_FFLAGS, self.uc.reg_read(UC_RISCV_REG_FFLAGS) | INVALID)

    @property
    def x(self) -> list[int]:
        return [self.uc.reg_read(UC_RISCV_REG_X0 + r) & 0xFFFFFFFF for r in range(32)]

    @property
    def f(self) -> list[int]:
        return [self.uc.reg_read(UC_RISCV_REG_F0 + r) & 0xFFFFFFFF for r in range(32)]

    @property
    def memory(self) -> bytes:
        return bytes(self.uc.mem_read(SCRATCH, SIZE))


def is_nan(pattern: int) -> bool:
    return pattern & MAGNITUDE > INFINITY


def is_signaling(pattern: int) -> bool:
    return is_nan(pattern) and not pattern & QUIET


@cache
def chip() -> SocSpec:
    return load_chip("pulp", {"core.float_registers": "f"})


def run(words: Words, chip: SocSpec) -> RunResult:
    segment = Segment(ENTRY, words.code, len(words.code), executable=True)
    return run_program(Program((segment,), ENTRY), chip, max_cycles=100_000)


def different(words: Words, result: RunResult, qemu: Qemu) -> list[str]:
    """What is not the same at the end; x31 holds fcsr."""
    registers = result.chip.harts[FC]["regs"].view("u4").tolist()
    lines = [
        f"{name}{r}: {ours:#010x}, QEMU {theirs:#010x}"
        for name, all_ours, all_theirs in (
            ("x", registers[:32], qemu.x),
            ("f", registers[32:64], qemu.f),
        )
        for r, (ours, theirs) in enumerate(zip(all_ours, all_theirs, strict=True))
        if ours != theirs
    ]
    ours, theirs = (unpack(f"<{SIZE // 4}I", m) for m in (result.read(SCRATCH, SIZE), qemu.memory))
    lines += [
        f"{SCRATCH + 4 * i:#010x}: {ours[i]:#010x}, QEMU {theirs[i]:#010x}"
        for i in range(SIZE // 4)
        if ours[i] != theirs[i]
    ]
    return lines


def compare(seed: int) -> Counter[str]:
    """Run a program here and in QEMU; how often it executes each instruction."""
    words = random_words(seed, LENGTH)
    result, qemu = run(words, chip()), Qemu(words)
    assert result.exit.reason == "exit", (seed, result.exit.message)
    assert not different(words, result, qemu), (seed, different(words, result, qemu))
    # With the store that exits; RI5CY does not count fences
    counted = qemu.executed.total() + 1 - sum(qemu.executed[key] for key in FENCES)
    assert result.instructions == counted, seed
    return qemu.executed


def test_random_programs_end_as_in_qemu(request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    executed = compare(0)  # compiles the interpreter
    if is_full:
        with Pool() as pool:
            for counts in pool.imap_unordered(compare, range(1, FULL), chunksize=50):
                executed.update(counts)
    else:
        for seed in range(1, REGULAR):
            executed.update(compare(seed))

    print(f"{executed.total():,} instructions")
    assert executed.total() >= (10_000_000 if is_full else 40_000)
    assert executed.keys() == {insn.key for insn in INSNS}
