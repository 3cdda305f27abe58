"""The program of the traffic study: each core runs its own straight line of loads and idle slots.

Slot by slot a load with probability `rate`, else a nop; the address of a load is a constant of the
instruction, so nothing but these loads touches L1. The instruction caches are ideal, since code
without loops would measure them instead. Lines are put into memory as words, since there are many.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from firmware.builder import Register
from firmware.registers import RA, ZERO
from firmware.runtime import new_kernel, team_of
from isa.declare import Isa
from isa.program import Segment
from pulpsim.commands.study.study import Measured
from soc.chip.spec import SocSpec

TRAFFIC = "traffic"  # the region
AROUND = 2  # instructions of the region that are no slots: its marker, and a nop at the end
WINDOW = 1024  # words that a load's offset reaches from one register: -512 .. 511
CODE_OFFSET = 0x40000  # in L2, after code and data
UNIFORM, HOT, STRIDED = "uniform", "hot spot", "stride"


@dataclass(frozen=True)
class TrafficProgram:
    """Traffic of a pattern.

    pattern    UNIFORM; HOT: with probability `hot` the first bank; STRIDED: `stride` words apart
    rate       loads in a slot, 0 .. 1
    slots      of each core
    """

    chip: SocSpec
    cores: int
    pattern: str
    rate: float
    slots: int
    seed: int
    hot: float = 0.0
    stride: int = 0

    def __call__(self) -> Measured:
        k = new_kernel(self.chip, "traffic")
        window = k.buffer(k.l1, "window", 4 * WINDOW, 4 * WINDOW)
        at, size = self.chip.l2.base + CODE_OFFSET, 4 * (self.slots + AROUND + 2)
        with team_of(k, self.chip, self.cores) as team, k.scope():
            k.registers.hold(RA)
            place, base, value = k.x(3)
            team.core(place)
            k.li(base, size)
            k.mul(place, place, base)
            k.li(base, at)
            k.add(place, place, base)
            k.li(base, window + 2 * WINDOW)
            team.barrier()
            k.jalr(RA, 0, place)
            team.barrier()
        number = k.region_number(TRAFFIC)
        lines = [line(k.isa, self.words(core), number, base, value) for core in range(self.cores)]
        return with_lines(Measured.of(k), at, lines)

    def words(self, core: int) -> Iterator[int | None]:
        """The word of the window that each slot loads; None: it is idle."""
        how = self.pattern, self.rate, self.slots, self.seed, core, self.hot, self.stride
        return words_of(*how)

    @property
    def busiest(self) -> int:
        """Loads of the bank that has the most."""
        loads = (word for core in range(self.cores) for word in self.words(core))
        banks = Counter(word % self.chip.l1.banks for word in loads if word is not None)
        return max(banks.values(), default=0)


def line(
    isa: Isa, words: Iterable[int | None], number: int, base: Register, value: Register
) -> bytes:
    """A function: the region's marker, a load or a nop for each slot, nop, marker, return.

    words    of the window that are loaded; None: idle
    base     holds the address of the window's middle
    """

    def marker(immediate: int) -> int:
        return isa["slti"].encoding.encode(rd=0, rs1=0, imm=immediate)

    nop = isa["addi"].encoding.encode(rd=ZERO.number, rs1=ZERO.number, imm=0)
    back = isa["jalr"].encoding.encode(rd=ZERO.number, rs1=RA.number, imm=0)
    slots = [nop if word is None else _load(isa, base, value, word) for word in words]
    code = [marker(2 * number), *slots, nop, marker(2 * number + 1), back]
    return np.array(code, "<u4").tobytes()


def with_lines(program: Measured, at: int, lines: Iterable[bytes]) -> Measured:
    """A program with lines in its memory, one after the other from an address on."""
    data = b"".join(lines)
    code = Segment(at, data, len(data), executable=True, writable=False)
    return replace(program, segments=(*program.segments, code))


def words_of(
    pattern: str, rate: float, slots: int, seed: int, core: int, hot: float = 0, stride: int = 0
) -> Iterator[int | None]:
    """The word of the window that each slot of a core loads; None: it is idle."""
    numbers = np.random.default_rng([seed, core])
    loads = numbers.random(slots) < rate
    random = numbers.integers(0, WINDOW, slots)
    to_hot = numbers.random(slots) < hot
    at = 0
    for is_load, word, is_hot in zip(loads, random, to_hot, strict=True):
        if not is_load:
            yield None
        elif pattern == STRIDED:
            yield at
            at = (at + stride) % WINDOW
        else:
            yield 0 if pattern == HOT and is_hot else int(word)


@cache
def _load(isa: Isa, base: Register, value: Register, word: int) -> int:
    """Return the load of a word of the window."""
    fields = {"rd": value.number, "rs1": base.number, "imm": 4 * word - 2 * WINDOW}
    return isa["lw"].encoding.encode(**fields)
