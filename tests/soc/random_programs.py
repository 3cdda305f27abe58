"""Random programs for the whole chip: eight cores at shared memory, DMA and event unit.

The fabric controller starts the cores, as PULP's runtime does, waits for a word of each in L2, and
exits. Every core has code of its own: rounds of random pieces, a barrier of all after each round.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program

ISA = profile("ri5cy", "x")
CORES = 8
ENTRY = 0x1C010000
DATA = [*(f"a{number}" for number in range(8)), *(f"t{number}" for number in range(7))]
"""Registers that pieces work on. s0 to s11 have fixed tasks, see PROLOGUE."""

CONTROLLER = """
_start:
    li s0, 0x1A108800
    li t0, -1
    sw t0, 0(s0)
    li s0, 0x10201400
    sw t0, 0(s0)
    li s0, 0x10200000
    {boot}
    li t0, 0xff
    sw t0, 8(s0)
    li s1, 0x1C0F0000
    li t1, 8
wait:
    lw t0, 0(s1)
    beqz t0, wait
    addi s1, s1, 4
    addi t1, t1, -1
    bnez t1, wait
    li t0, 0x80000000
    li s1, 0x1A1040A0
    sw t0, 0(s1)
stay:
    j stay
"""
PROLOGUE = """
    .balign 4
core{core}:
    li s0, 0x10000000           # L1 of all
    li s1, {private:#x}         # L1 of this core
    li s2, 0x10204000           # event unit
    li s3, 0x10204400           # DMA
    li s4, {l2:#x}              # L2 of this core
    li s5, 0x10200400           # cluster timer
    li s11, 0x1A10F000          # console
    li t0, 0x70000
    sw t0, 8(s2)
    li t0, 0xff
    sw t0, 0x200(s2)
    sw t0, 0x20c(s2)
    p.elw t0, 0x21c(s2)
"""
EPILOGUE = """
    li s0, {done:#x}
    li t0, 1
    sw t0, 0(s0)
end{core}:
    wfi
    j end{core}
"""

ALU = ("add", "sub", "xor", "sltu", "sra", "p.max", "p.minu", "p.ror", "p.mac", "mul")
SLOW = ("mulh", "mulhsu", "div", "divu", "rem", "remu")
COMPRESSED = ("c.add", "c.mv")
FLOATS = ("fadd.s", "fsub.s", "fmul.s", "fmin.s", "fsgnjx.s", "feq.s", "fle.s")
FLOATS_OF_ONE = ("fcvt.s.w", "fcvt.w.s", "fclass.s")
CSRS = ("mhartid", "mcycle", "pccr1", "pccr2", "pccr5", "pccr9", "pccr16", "mstatus", "fcsr")


@dataclass
class CoreSource:
    """The assembly source of one core under construction.

    kinds    of pieces that it draws from, by weight
    """

    random: Random
    core: int
    kinds: "Kinds"
    lines: list[str] = field(default_factory=list)
    labels: int = 0

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"l{self.core}_{self.labels}"

    def register(self) -> str:
        return self.random.choice(DATA)

    def offset(self, size: int, limit: int) -> int:
        """In a memory: now and then misaligned, often in the first bank."""
        kind = self.random.random()
        if kind < 0.25:
            return 64 * self.random.randrange(limit // 64)
        if kind < 0.4:
            return self.random.randrange(limit - 4)
        return size * self.random.randrange(limit // size)

    def alu(self) -> None:
        name = self.random.choice(ALU if self.random.random() < 0.8 else SLOW)
        self.emit(f"{name} {self.register()}, {self.register()}, {self.register()}")

    def immediate(self) -> None:
        name = self.random.choice(("addi", "xori", "andi", "slti"))
        self.emit(
            f"{name} {self.register()}, {self.register()}, {self.random.randrange(-2048, 2048)}"
        )

    def compressed(self) -> None:
        self.emit(f"{self.random.choice(COMPRESSED)} {self.register()}, {self.register()}")

    def float(self) -> None:
        kind, (d, a, b, c) = self.random.random(), (self.register() for _ in range(4))
        if kind < 0.6:
            self.emit(f"{self.random.choice(FLOATS)} {d}, {a}, {b}")
        elif kind < 0.75:
            self.emit(f"fmadd.s {d}, {a}, {b}, {c}")
        elif kind < 0.95:
            self.emit(f"{self.random.choice(FLOATS_OF_ONE)} {d}, {a}")
        else:
            self.emit(self.random.choice((f"fdiv.s {d}, {a}, {b}", f"fsqrt.s {d}, {a}")))

    def memory(self) -> None:
        name, size = self.random.choice(
            (("lw", 4), ("lw", 4), ("sw", 4), ("lhu", 2), ("lb", 1), ("sh", 2), ("sb", 1))
        )
        base = self.random.choice(("s0", "s0", "s0", "s1", "s1"))
        limit = 2048 if base == "s0" else 1024
        self.emit(f"{name} {self.register()}, {self.offset(size, limit)}({base})")

    def external(self) -> None:
        """L2, registers of the event unit, of a timer."""
        where = self.random.choice(
            (
                *[f"{self.offset(4, 1024)}(s4)"] * 5,
                *("0x1c(s2)", "0x1c(s2)", "0x204(s2)", "4(s3)", "8(s5)"),
            )
        )
        name = "sw" if "s4" in where and self.random.random() < 0.4 else "lw"
        self.emit(f"{name} {self.register()}, {where}")

    def post_increment(self) -> None:
        base, rest = self.random.choice(("s0", "s1")), self.random.randrange(1, 6)
        self.emit(f"addi s6, {base}, {self.offset(4, 512)}")
        for _ in range(rest):
            name, step = self.random.choice((("p.lw", 4), ("p.sw", 4), ("p.lh", 2), ("p.sb", 1)))
            self.emit(f"{name} {self.register()}, {step * self.random.randrange(8)}(s6!)")

    def csr(self) -> None:
        self.emit(f"csrr {self.register()}, {self.random.choice(CSRS)}")

    def body(self) -> None:
        """One instruction that may stand anywhere, 32 bits long."""
        self.random.choice(
            (self.alu, self.alu, self.immediate, self.float, self.memory, self.memory)
        )()

    def straight(self) -> None:
        for _ in range(self.random.randrange(1, 10)):
            self.random.choice((self.body, self.body, self.body, self.compressed))()

    def branch_loop(self) -> None:
        start = self.label()
        self.emit(f"li s7, {self.random.randrange(1, 6)}", f"{start}:")
        self.straight()
        if self.random.random() < 0.5:
            self.skip()
        self.emit("addi s7, s7, -1", f"bnez s7, {start}")

    def hardware_loop(self) -> None:
        end = self.label()
        count = self.random.randrange(1, 7)
        self.emit(".balign 4")
        if self.random.random() < 0.5:
            self.emit(f"lp.setupi x0, {count}, {end}")
        else:
            self.emit(f"li s8, {count}", f"lp.setup x0, s8, {end}")
        for _ in range(self.random.randrange(1, 6)):
            self.body()
        self.emit(f"{end}:")
        self.body()

    def skip(self) -> None:
        target = self.label()
        branch = self.random.choice(
            (
                f"beq {self.register()}, {self.register()}, {target}",
                f"bltu {self.register()}, {self.register()}, {target}",
                f"p.bneimm {self.register()}, {self.random.randrange(-16, 16)}, {target}",
                f"j {target}",
            )
        )
        self.emit(branch)
        self.straight()
        self.emit(f"{target}:")

    def call(self) -> None:
        function, after = self.label(), self.label()
        self.emit(f"jal ra, {function}", f"j {after}", f"{function}:")
        self.straight()
        self.emit("ret", f"{after}:")

    def mutex(self) -> None:
        """Add to a word of all under a mutex."""
        offset = 4 * self.random.randrange(8)
        self.emit(f"p.elw {self.register()}, 0xc0(s2)", f"lw t0, {offset}(s0)", "addi t0, t0, 1")
        self.straight()
        self.emit(f"sw t0, {offset}(s0)", "sw zero, 0xc0(s2)")

    def event(self) -> None:
        """A software event for this core itself."""
        self.emit(
            *("li t0, 1", "sw t0, 8(s2)", f"li t0, {1 << self.core}", "sw t0, 0x100(s2)"),
            *("p.elw t0, 0x3c(s2)", "li t1, 1", "sw t1, 4(s2)"),
        )

    def transfer(self) -> None:
        """A transfer, something meanwhile, the wait for its end: asleep or polling."""
        random = self.random
        size = random.choice((4, 8, 32, 64, 256, random.randrange(1, 300)))
        odd = random.randrange(4) if random.random() < 0.2 else 0
        to_l1 = random.getrandbits(1)
        command = size | to_l1 << 17 | 1 << 18 | 1 << 20
        self.emit(
            *("lw s9, 0(s3)", f"li t0, {command}", "sw t0, 0(s3)"),
            *(f"addi t0, s1, {512 + odd}", "sw t0, 0(s3)", f"addi t0, s4, {1024 + odd}"),
            *("sw t0, 0(s3)", "li t0, 1", "sll s9, t0, s9"),
        )
        self.straight()
        again, done = self.label(), self.label()
        if random.getrandbits(1):
            self.emit(
                *("li t0, 0x100", "sw t0, 8(s2)", f"{again}:", "lw t0, 4(s3)", "and t0, t0, s9"),
                *(f"beqz t0, {done}", "p.elw t0, 0x3c(s2)", f"j {again}", f"{done}:"),
                *("li t0, 0x100", "sw t0, 4(s2)"),
            )
        else:
            self.emit(f"{again}:", "lw t0, 4(s3)", "and t0, t0, s9", f"bnez t0, {again}")
        self.emit("sw s9, 4(s3)")

    def region(self) -> None:
        number = self.random.randrange(8)
        self.emit(f"slti x0, x0, {2 * number}")
        self.straight()
        self.emit(f"slti x0, x0, {2 * number + 1}")

    def print(self) -> None:
        self.emit(f"li t0, {ord('0') + self.core}", "sb t0, 0(s11)")

    def piece(self) -> None:
        """Some lines of code, by weight."""
        (chosen,) = self.random.choices(list(self.kinds), list(self.kinds.values()))
        chosen(self)

    def text(self, rounds: int, pieces: int) -> str:
        """The whole source: as many rounds, each of up to that many pieces."""
        self.emit(
            PROLOGUE.format(
                core=self.core,
                private=0x10002000 + 0x400 * self.core,
                l2=0x1C0C0000 + 0x1000 * self.core,
            )
        )
        for register in DATA:
            self.emit(f"li {register}, {self.random.getrandbits(self.random.choice((4, 32)))}")
        for _ in range(rounds):
            for _ in range(self.random.randrange(pieces + 1)):
                self.piece()
            self.emit(f"p.elw {self.register()}, 0x21c(s2)")
        self.emit(EPILOGUE.format(core=self.core, done=0x1C0F0000 + 4 * self.core))
        return "\n".join(self.lines)


Kinds = dict[Callable[[CoreSource], None], int]

PIECES: Kinds = {
    CoreSource.straight: 5,
    CoreSource.branch_loop: 4,
    CoreSource.hardware_loop: 5,
    CoreSource.skip: 3,
    CoreSource.call: 2,
    CoreSource.post_increment: 4,
    CoreSource.external: 5,
    CoreSource.csr: 2,
    CoreSource.mutex: 2,
    CoreSource.event: 1,
    CoreSource.transfer: 3,
    CoreSource.region: 2,
    CoreSource.print: 1,
}
"""Kinds of pieces and how often they come."""


def random_source(seed: int, rounds: int = 3, pieces: int = 12, kinds: Kinds = PIECES) -> str:
    """The source of a program; the same one for the same seed."""
    random = Random(seed)
    boot = "\n".join(f"la t0, core{core}\nsw t0, {0x40 + 4 * core}(s0)" for core in range(CORES))
    cores = [CoreSource(random, core, kinds).text(rounds, pieces) for core in range(CORES)]
    return "\n".join([CONTROLLER.format(boot=boot), *cores])


def random_program(seed: int, rounds: int = 3, pieces: int = 12, kinds: Kinds = PIECES) -> Program:
    """The program of that source."""
    return assemble(random_source(seed, rounds, pieces, kinds), ISA, text_base=ENTRY)
