"""Hostile programs: what a guest can do to its host, in every way that the chip offers.

Each hart has code of its own, made of random pieces: accesses at and across the ends of memories,
jumps anywhere, code that changes itself and others', hardware loops from anywhere to anywhere,
transfers of any size, every CSR and every register with any value, traps in handlers. Most of what
a piece does is legal, if unusual, or its handler returns; what ends the run is rare, so that a run
comes to do much. The same seed gives the same program.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from isa.declare import Insn, Isa
from isa.extensions.profiles import profile
from isa.program import Program, Segment
from soc.address_map.memory_map import Kind, Master, Region, memory_map
from soc.chip.spec import SocSpec, load_chip
from soc.engine.interpreter import base_extensions

CHIPS = "pulp", "pulp-cv32e40p", "cv32e40p-rtl", "ri5cy-rtl"
"""Of seed 0, 1, 2, 3, 4, ..., in turn."""

VECTORS, START, HANDLER = 0x1C000000, 0x1C000080, 0x1C000200
LOOPS, LOOP_SIZE, LOOP_COUNT = 0x1C001000, 0x80, 24
"""Loops that all programs for a chip share: most of what is translated serves the next program."""
CODE, CODE_SIZE = 0x1C003000, 0x800
"""Code of hart 0, and from one hart's to the next one's."""

L1, ALIAS, L2 = 0x10000000, 0x10100000, 0x1C000000
EVENT_UNIT, DMA, CLUSTER, PAGE = 0x10204000, 0x10204400, 0x10200000, 0x1A100000
DMA_SHARED, DMA_FABRIC = 0x10201800, 0x10201C00
EXIT, LAST_STORE = 0x1A1040A0, 0x80000000
BENCH_CORES = 3
"""Of a test bench: always as many, since machine code is made for a chip."""
CONTROLLER = 8
"""The fabric controller's number among the harts."""

LINK, COUNT, SCRATCH, SPARE = 1, 9, 30, 31
"""Registers: of calls, of loops in LOOPS, and two that every piece may change."""
POINTERS = range(10, 14)
LONGEST = 2500  # cycles

CSRS = (
    *(0x001, 0x002, 0x003, 0x006, 0x300, 0x301, 0x304, 0x305, 0x306, 0x320, 0x340, 0x341, 0x342),
    *(0x343, 0x344, 0x323, 0x33F, 0x780, 0x79E, 0x79F, 0x7A0, 0x7A1, 0x7A4, 0x7B0, 0x7B1, 0x7D0),
    *(0x7D1, 0x7D2, 0x7E0, 0x7E1, 0xB00, 0xB02, 0xB03, 0xB1F, 0xB80, 0xB82, 0xC00, 0xC02, 0xC80),
    *(0xCC0, 0xCC1, 0xCD0, 0xCD1, 0xCD2, 0xF11, 0xF12, 0xF13, 0xF14, 0x014, 0xC10),
)
LOOP_CSRS = (*range(0x7C0, 0x7C7), *range(0xCC0, 0xCC7))


@dataclass
class Attack:
    """A program and how it runs.

    chip      its name, `fields` what is changed of it
    limit     cycles
    at_end    of its pages lie the arrays, see tests.soc.guard_pages; else at their start
    records   the run is recorded
    """

    program: Program
    chip: str
    fields: dict[str, Any]
    limit: int
    at_end: bool
    records: bool

    @property
    def spec(self) -> SocSpec:
        return load_chip(self.chip, self.fields)


@cache
def instructions(isa: Isa) -> dict[str, list[Insn]]:
    """By timing class, of the extensions that the interpreter has anyway.

    With others, which touch nothing but registers, each chip would need one more of them.
    """
    found: dict[str, list[Insn]] = {}
    for insn in isa.insns:
        if insn.extension in base_extensions(isa):
            found.setdefault(insn.timing, []).append(insn)
    return found


@cache
def peripherals(master: Master) -> list[Region]:
    """Regions with registers that a master sees."""
    regions = memory_map(0x10000, 0x200000)
    return [r for r in regions if r.block and r.block.registers and master in r.masters]


@dataclass
class Code:
    """The code of a hart under construction, from an address on."""

    random: Random
    isa: Isa
    base: int
    data: bytearray = field(default_factory=bytearray)

    @property
    def here(self) -> int:
        return self.base + len(self.data)

    def word(self, word: int) -> None:
        """An instruction word; the low bits say how long it is."""
        self.data += word.to_bytes(4 if word & 3 == 3 else 2, "little")

    def insn(self, key: str, **operands: int) -> None:
        self.word(self.isa.encode(self.isa[key], **operands))

    def li(self, register: int, value: int) -> None:
        low = (value & 0xFFF ^ 0x800) - 0x800
        high = (value - low & 0xFFFFF000 ^ 0x80000000) - 0x80000000
        self.insn("lui", rd=register, imm=high)
        self.insn("addi", rd=register, rs1=register, imm=low)

    def jump(self, target: int, link: int = 0) -> None:
        self.insn("jal", rd=link, imm=target - self.here)

    def store(self, address: int, value: int) -> None:
        self.li(SPARE, address)
        self.li(SCRATCH, value)
        self.insn("sw", rs1=SPARE, rs2=SCRATCH, imm=0)

    def load(self, address: int, rd: int = SCRATCH) -> None:
        self.li(SPARE, address)
        self.insn("lw", rd=rd, rs1=SPARE, imm=0)

    def csr(self, number: int, value: int, key: str = "csrrw", rd: int = 0) -> None:
        self.li(SCRATCH, value)
        self.insn(key, csr=number, rs1=SCRATCH, rd=rd)

    def any_operands(self, insn: Insn) -> dict[str, int]:
        """Random ones, none of them excluded; small immediates are likelier."""
        operands = {}
        for name, part in insn.encoding.fields.items():
            low, high = part.range
            if name == "imm" and self.random.random() < 0.7:
                low, high = max(low, -16 * part.step), min(high, 16 * part.step)
            value = low + part.step * self.random.randrange((high - low) // part.step + 1)
            operands[name] = value if value not in part.excluded else high
        return operands

    def some(self, *timings: str, **fixed: int) -> None:
        """An instruction of one of these timing classes."""
        insn = self.random.choice(instructions(self.isa)[self.random.choice(timings)])
        while insn.key == "mret":  # where it leads is the piece `traps`'s business
            insn = self.random.choice(instructions(self.isa)["alu"])
        operands = self.any_operands(insn)
        operands |= {name: value for name, value in fixed.items() if name in operands}
        try:
            self.word(self.isa.encode(insn, **operands))
        except ValueError:  # reserved
            self.insn("addi", rd=0, rs1=0, imm=0)


@dataclass
class HostileCode(Code):
    """Code of one hart, made of pieces.

    hart        0 to 7, or CONTROLLER
    is_bench    the chip is a test bench with a control page
    """

    hart: int = 0
    is_bench: bool = False
    is_fatal: bool = False  # it may do what ends the run

    def any_value(self) -> int:
        random = self.random
        return random.choice(
            (
                *(0, 1, 2, 0xFF, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 1 << random.randrange(32)),
                *(random.getrandbits(32), random.getrandbits(8), self.any_code()),
                self.any_address(),
            )
        )

    def any_code(self) -> int:
        """An address of code: this hart's, another's, a shared loop's, the handler's."""
        random = self.random
        return random.choice(
            (
                self.base + 2 * random.randrange(len(self.data) // 2 + 1),
                self.here + 2 * random.randrange(12),
                CODE + CODE_SIZE * random.randrange(9) + 2 * random.randrange(64),
                LOOPS + LOOP_SIZE * random.randrange(LOOP_COUNT) + 2 * random.randrange(8),
                HANDLER,
            )
        )

    def any_address(self) -> int:
        """Of data: inside a memory, near its ends, and now and then just past them."""
        random = self.random
        size = 0x40000 if self.is_bench else 0x200000
        starts = [(L1, 0x10000), (L1, 0x10000), (ALIAS, 0x10000), (L2 + 0x10000, size - 0x10000)]
        starts.append((0, 0x8000 if self.hart == CONTROLLER else 0x10000))
        base, size = random.choice(starts)
        if random.random() < 0.5:
            return base + random.randrange(size - 64)
        if self.is_fatal and random.random() < 0.1:
            return base + random.choice((size, -4, size - 1, size - 3, size + 1, -1)) & 0xFFFFFFFF
        return base + random.choice((0, 1, 2, 3, size - 4, size - 4, size - 8, size - 64))

    def access(self) -> None:
        """Loads and stores around such an address."""
        pointer = self.random.choice(POINTERS)
        address = self.any_address()
        self.li(pointer, address)
        self.insn("addi", rd=SCRATCH, rs1=0, imm=self.random.randrange(4))  # a step, an offset
        for _ in range(self.random.randrange(1, 5)):
            step = 0 if address & 0xFFFF >= 0xFFC0 else self.random.randrange(8)
            self.some("load", "store", rs1=pointer, rs2=SCRATCH, imm=step, rs3=0)

    def edge(self) -> None:
        """The last bytes of a memory, exactly, by each width; past them if the run may end."""
        random = self.random
        end = random.choice((L1 + 0x10000, ALIAS + 0x10000, L1 + 0x10000))
        if random.random() < 0.3:
            end = L2 + (0x40000 if self.is_bench else 0x200000)
        key, size = random.choice(
            (("lw", 4), ("lh", 2), ("lb", 1), ("sw", 4), ("sh", 2), ("sb", 1), ("lhu", 2))
        )
        over = random.randrange(1, 4) if self.is_fatal and random.random() < 0.15 else 0
        self.li(SPARE, end - size + over)
        named = {"rs2": 5} if key[0] == "s" else {"rd": 5}
        self.insn(key, rs1=SPARE, imm=0, **named)

    def words(self) -> None:
        """Any instructions with any operands, of what stays in the core; any compressed word."""
        for _ in range(self.random.randrange(1, 8)):
            kind = self.random.random()
            if kind < 0.1:
                word = self.random.getrandbits(16)
                if word & 3 != 3 and word >> 13 not in (5, 6, 7):  # jumps have a piece of their own
                    self.word(word)
            elif kind < 0.8:
                self.some("alu", "mul", "fpu", rd=self.random.choice((5, 6, 7, 14, 15)))
            else:
                self.some("mulh", "div", "divu", "fdiv", "fsqrt", rd=self.random.choice((5, 6)))

    def wild_jump(self) -> None:
        target = self.any_value() & ~1 if self.is_fatal else self.any_code()
        self.li(SPARE, target)
        self.insn("jalr", rd=self.random.choice((0, LINK)), rs1=SPARE, imm=0)

    def skip(self) -> None:
        """A branch or jump over something, or a little back."""
        key = self.random.choice(("beq", "bne", "blt", "bgeu"))
        back = self.random.random() < 0.15 and len(self.data) > 64
        offset = -2 * self.random.randrange(2, 16) if back else 2 * self.random.randrange(2, 9)
        self.insn(key, rs1=self.random.randrange(32), rs2=self.random.randrange(32), imm=offset)
        self.words()

    def change_code(self) -> None:
        """Write into somebody's code, or its own right ahead, and perhaps make that known."""
        random = self.random
        words = [0xFFFFFFFF, 0, 0x00000013, 0x00010001, 0x0000100F, 0x00000073, 0x00052503]
        target = self.any_code() if random.random() < 0.5 else self.here + 4 * random.randrange(16)
        self.store(target & ~3, random.choice(words))
        if random.random() < 0.7:
            self.insn("fence_i", imm=0, rs1=0, rd=0)

    def fences(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.some("fence", "fencei")

    def hardware_loop(self) -> None:
        """Set up loops by instructions and CSRs, with any start, end and count."""
        random = self.random
        for _ in range(random.randrange(1, 5)):
            if random.random() < 0.6:
                self.li(SPARE, random.choice((self.any_code(), self.any_value(), 3)))
                small = {"uimmL": 4 * random.randrange(8), "uimmS": random.randrange(8)}
                self.some("hwloop", rs1=SPARE, **(small if random.random() < 0.7 else {}))
            else:
                value = random.choice((self.any_code(), self.any_code(), self.any_value(), 2, 3))
                self.csr(random.choice(LOOP_CSRS), value)
        self.words()

    def transfer(self) -> None:
        """A command for the DMA, most often a sound one; the wait for its end."""
        random = self.random
        port = random.choice((DMA_FABRIC if self.hart == CONTROLLER else DMA, DMA_SHARED))
        size = random.choice((1, 3, 4, 8, 255, 256, 257, random.randrange(1, 2000)))
        lines = random.choice((0, 0, 1 << 19, 1 << 23, 1 << 19 | 1 << 23))
        word = size | random.getrandbits(1) << 17 | 1 << 18 | random.getrandbits(3) << 20 | lines
        l1 = L1 + random.choice((0, 0x10000 - size, random.randrange(0x8000)))
        top = 0x40000 if self.is_bench else 0x200000
        l2 = L2 + random.choice((top - size, 0x20000 + random.randrange(0x8000)))
        if self.is_fatal and random.random() < 0.3:
            word, l1, l2 = (
                value if random.random() < 0.6 else self.any_value() for value in (word, l1, l2)
            )
        operands = [word, l1, l2]
        for _ in range((word >> 19 & 1) + (word >> 23 & 1)):
            line = random.choice((size, 4, 8, random.randrange(1, 64)))
            operands += [line, random.choice((line, 0, 1, 4)) if not self.is_fatal else line + 3]
        self.load(port, SPARE)
        for operand in operands:
            self.store(port, operand)
        if random.random() < 0.4:
            self.load(port + 4)
            self.store(port + 4, random.choice((0, 1, 2, 0xFFFF)) if self.is_fatal else 0)

    def csrs(self) -> None:
        random = self.random
        for _ in range(random.randrange(1, 6)):
            number = random.choice(CSRS) if random.random() < 0.7 else random.randrange(4096)
            key = random.choice(("csrrw", "csrrs", "csrrc"))
            value = self.any_value()
            if number == 0x305:
                value = random.choice((HANDLER, HANDLER | 1, VECTORS | 1, self.any_code()))
            self.csr(number, value, key, rd=random.choice((0, 5, 6)))

    def register(self) -> None:
        """Any register of any peripheral, or what is between them, with any value and width."""
        random = self.random
        if self.is_bench:
            offsets = (0x04, 0x10, 0x14, 0x18, 0x30, 0x34, 4 * random.randrange(1, 1024))
            address = PAGE + random.choice(offsets)
        else:
            master = Master.FABRIC if self.hart == CONTROLLER else Master.CORE
            region = random.choice(peripherals(master))
            register = random.choice(region.block.registers)
            offset = register.offset + register.stride * random.randrange(register.count)
            address = region.base + (offset if random.random() < 0.9 else 4 * random.randrange(64))
            if not self.is_fatal and (
                address == EXIT or region.kind in (Kind.EVENT_UNIT, Kind.DMA)
            ):
                return
        size, width = random.choice((("w", 0), ("w", 0), ("h", 2), ("b", 1)))
        odd = random.randrange(4) if width and random.random() < 0.3 else 0
        self.li(SPARE, address + (odd if odd % max(width, 1) == 0 or self.is_fatal else 0))
        if random.random() < 0.6:
            self.li(SCRATCH, self.any_value() if not self.is_bench else random.randrange(300))
            self.insn(f"s{size}", rs1=SPARE, rs2=SCRATCH, imm=0)
        else:
            self.insn(f"l{size}", rs1=SPARE, rd=5, imm=0)

    def generator(self) -> None:
        """The test bench's traffic, from any address."""
        if self.is_bench:
            self.store(PAGE + 0x20, self.any_value())
            self.store(PAGE + 0x24, self.random.getrandbits(4) | self.random.getrandbits(1) << 8)
            self.store(PAGE + 0x28, self.random.choice((0, 1, 7, 64, self.any_value())))

    def events(self) -> None:
        """Masks, barriers, mutexes, the dispatcher: what others wait for, or nobody does."""
        if self.hart == CONTROLLER:
            return
        random = self.random
        offset = random.choice(
            (
                *(0x00, 0x04, 0x08, 0x0C, 0x14, 0x1C, 0x20, 0x28, 0x40, 0x80, 0x84, 0xC0, 0xC4),
                *(0x100, 0x104, 0x140, 0x180, 0x200, 0x204, 0x20C, 0x210, 0x220, 0x22C, 0x230),
                0x200 + 0x20 * random.randrange(9) + 4 * random.randrange(5),
            )
        )
        if random.random() < 0.7:
            self.store(EVENT_UNIT + offset, random.choice((0, 1, 3, 0xFF, self.any_value())))
        elif offset not in (0x80, 0x140, 0x180) and not 0xC0 <= offset < 0x100:
            self.load(EVENT_UNIT + offset)

    def wait(self) -> None:
        """For what has come already, or for ever."""
        if self.hart == CONTROLLER:
            return
        random = self.random
        if random.random() < 0.9:
            self.store(EVENT_UNIT + 0x08, 0xFFFFFFFF)
            self.store(EVENT_UNIT + 0x100, 1 << self.hart)
        offset = random.choice((0x38, 0x3C, 0x38, 0x3C, 0x80, 0xC0, 0x140, 0x180, 0x218, 0x21C))
        self.li(SPARE, EVENT_UNIT + offset)
        self.some("elw", "elw", "load", rs1=SPARE, imm=0)

    def traps(self) -> None:
        """An exception, a return from none, a sleep."""
        kind = self.random.random()
        if kind < 0.4:
            self.insn("ecall")
        elif kind < 0.6:
            self.word(0xFFFFFFFF)
        elif kind < 0.7:
            self.insn("ebreak")
        elif kind < 0.85:
            self.csr(0x341, self.any_code())
            self.insn("mret")
        else:
            self.csr(0x304, self.any_value())
            self.csr(0x300, self.random.choice((0x8, 0x1808, 0x6008)))
            if self.is_bench and self.random.random() < 0.7:
                self.store(PAGE + 0x30, self.random.randrange(1, 40))
            if self.random.random() < 0.2:
                self.insn("wfi")

    def region(self) -> None:
        self.insn("slti", rd=0, rs1=0, imm=self.random.randrange(2048))

    def loop(self) -> None:
        """One of the shared loops, with pointers of its own choice."""
        for pointer in POINTERS:
            self.li(pointer, self.any_address())
        self.insn("addi", rd=COUNT, rs1=0, imm=self.random.randrange(2, 24))
        slot = LOOPS + LOOP_SIZE * self.random.randrange(LOOP_COUNT)
        self.li(SPARE, slot)
        self.insn("jalr", rd=LINK, rs1=SPARE, imm=0)

    def piece(self) -> None:
        self.random.choices(list(PIECES), list(PIECES.values()))[0](self)


PIECES: dict[Callable[[HostileCode], None], int] = {
    HostileCode.access: 6,
    HostileCode.edge: 6,
    HostileCode.words: 5,
    HostileCode.wild_jump: 2,
    HostileCode.skip: 3,
    HostileCode.change_code: 4,
    HostileCode.fences: 1,
    HostileCode.hardware_loop: 4,
    HostileCode.transfer: 2,
    HostileCode.csrs: 4,
    HostileCode.register: 4,
    HostileCode.generator: 2,
    HostileCode.events: 3,
    HostileCode.wait: 2,
    HostileCode.traps: 3,
    HostileCode.region: 1,
    HostileCode.loop: 6,
}
"""Pieces and how often they come."""


@cache
def shared_loops(isa: Isa) -> Segment:
    """Loops over L1 by pointers and a count that the caller sets."""
    random = Random(isa.name)
    data = b""
    for number in range(LOOP_COUNT):
        code = Code(random, isa, LOOPS + LOOP_SIZE * number)
        if number == 0:  # to wait
            code.insn("addi", rd=COUNT, rs1=COUNT, imm=-1)
            code.insn("bne", rs1=COUNT, rs2=0, imm=-4)
        elif number % 4 == 3:
            setup = next(i for i in instructions(isa)["hwloop"] if i.key.endswith("_setup"))
            length = random.randrange(3, 7)
            # RI5CY names the last instruction of the body, CV32E40P what comes after it
            end = 4 * (length + (1 if isa.loop_end == "after" else 0))
            code.word(isa.encode(setup, uimmL=end, rs1=COUNT, L=random.getrandbits(1)))
            for _ in range(length):
                shared_instruction(code)
        else:
            start = code.here
            for _ in range(random.randrange(1, 7)):
                shared_instruction(code)
            code.insn("addi", rd=COUNT, rs1=COUNT, imm=-1)
            code.insn("bne", rs1=COUNT, rs2=0, imm=start - code.here)
        code.insn("jalr", rd=0, rs1=LINK, imm=0)
        data += bytes(code.data).ljust(LOOP_SIZE, b"\0")
    return Segment(LOOPS, data, len(data), executable=True)


def shared_instruction(code: Code) -> None:
    """One of a shared loop."""
    pointer = code.random.choice(POINTERS)
    if code.random.random() < 0.6:
        offset = 4 * code.random.randrange(8)
        key = code.random.choice(("lw", "lw", "sw", "lh", "sb"))
        named = {"rs2": 5} if key[0] == "s" else {"rd": code.random.randrange(5, 8)}
        code.insn(key, rs1=pointer, imm=offset, **named)
    elif code.random.random() < 0.3:
        code.insn("addi", rd=pointer, rs1=pointer, imm=code.random.choice((4, -4, 2, 1, 64)))
    else:
        code.some("alu", "mul", rd=code.random.randrange(5, 8), rs1=5, rs2=6)


def handler(random: Random, isa: Isa) -> Segment:
    """Goes on after the instruction that has trapped; some trap themselves before."""
    code = Code(random, isa, HANDLER)
    kind = random.random()
    if kind < 0.15:
        code.word(random.choice((0x00000073, 0xFFFFFFFF, 0x00100073)))
    code.insn("csrrs", csr=0x341, rs1=0, rd=SCRATCH)
    if kind < 0.85:
        code.insn("lhu", rs1=SCRATCH, rd=SPARE, imm=0)
        code.insn("andi", rd=SPARE, rs1=SPARE, imm=3)
        code.insn("addi", rd=SCRATCH, rs1=SCRATCH, imm=2)
        code.insn("sltiu", rd=SPARE, rs1=SPARE, imm=3)
        code.insn("bne", rs1=SPARE, rs2=0, imm=8)
    code.insn("addi", rd=SCRATCH, rs1=SCRATCH, imm=2)
    code.insn("csrrw", csr=0x341, rs1=SCRATCH, rd=0)
    code.insn("mret")
    return Segment(HANDLER, bytes(code.data), len(code.data), executable=True)


def vectors(isa: Isa, is_ri5cy: bool) -> Segment:
    """The table of exceptions and interrupts, and the start of all harts of a test bench."""
    code = Code(Random(0), isa, VECTORS)
    for number in range(32):
        code.jump(START if is_ri5cy and number == 0 else HANDLER)
    code.insn("csrrs", csr=0xF14, rs1=0, rd=5)
    code.insn("andi", rd=5, rs1=5, imm=15)
    code.insn("slli", rd=5, rs1=5, shamt=11)
    code.li(6, CODE)
    code.insn("add", rd=5, rs1=5, rs2=6)
    code.insn("jalr", rd=0, rs1=5, imm=0)
    return Segment(VECTORS, bytes(code.data), len(code.data), executable=True)


def hart_code(code: HostileCode, cores: int, has_handler: bool) -> Segment:
    """The code of one hart: registers, pieces, an end."""
    random = code.random
    if has_handler:
        code.csr(0x305, HANDLER | 1)
    code.li(LINK, code.base)
    code.csr(0x341, code.base)
    code.csr(0x300, random.choice((0x6000, 0x1800, 0)))
    for _ in range(random.randrange(6)):
        code.li(random.randrange(1, 32), code.any_value())
    if code.hart == CONTROLLER:
        if random.random() < 0.5:
            code.store(CLUSTER + 0x1400, 0xFFFFFFFF)
        for core in range(cores):
            code.store(CLUSTER + 0x40 + 4 * core, CODE + CODE_SIZE * core)
        code.store(CLUSTER + 8, (1 << cores) - 1)
    for _ in range(random.randrange(1, 14)):
        if len(code.data) < CODE_SIZE - 400:
            code.piece()
    _finish(code)
    return Segment(code.base, bytes(code.data), len(code.data), executable=True)


def _finish(code: HostileCode) -> None:
    kind = code.random.random()
    if code.is_bench and kind < 0.7:
        code.store(PAGE, code.random.choice((0, 0, 3)))
    elif code.hart == CONTROLLER and kind < 0.7:
        code.insn("addi", rd=COUNT, rs1=0, imm=code.random.randrange(1, 400))
        code.jump(LOOPS, LINK)
        code.store(EXIT, LAST_STORE | code.random.getrandbits(4))
    if kind > 0.9:
        code.jump(code.base)
    code.insn("wfi")
    code.jump(code.here - 4)


def attack(seed: int) -> Attack:
    """The program of a seed, and how it runs."""
    random = Random(seed)
    chip = CHIPS[seed % len(CHIPS)]
    is_bench, is_ri5cy = chip.endswith("-rtl"), "cv32e40p" not in chip
    registers = "x" if is_ri5cy else "f"
    isa = profile("ri5cy" if is_ri5cy else "cv32e40p", registers)
    cores = BENCH_CORES if is_bench else random.choice((1, 1, 2, 2, 3, 8))
    fields: dict[str, Any] = {"core.float_registers": registers}
    if is_bench:
        fields["cores"] = cores
    segments = [vectors(isa, is_ri5cy), handler(random, isa), shared_loops(isa)]
    is_fatal = random.random() < 0.3
    has_handler = random.random() < 0.9
    for hart in (*range(cores), *(() if is_bench else (CONTROLLER,))):
        base = CODE + CODE_SIZE * hart
        code = HostileCode(random, isa, base, hart=hart, is_bench=is_bench, is_fatal=is_fatal)
        segments.append(hart_code(code, cores, has_handler))
    entry = START if is_bench else CODE + CODE_SIZE * CONTROLLER
    program = Program(tuple(segments), entry, name=f"seed {seed}")
    limit = random.choice((400, 800, 1500, LONGEST))
    return Attack(program, chip, fields, limit, random.random() < 0.7, random.random() < 0.1)
