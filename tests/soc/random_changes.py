"""Random programs whose cores change code that all of them run, with fence.i and without.

The functions that they call are made of single instructions that may stand anywhere; what a core
puts there is one of these, or two of 16 bits. When which hart sees it depends on all of them.
"""

from random import Random

from isa.assembler.asm import assemble
from isa.program import Program
from tests.soc.random_programs import (
    CONTROLLER,
    CORES,
    ENTRY,
    ISA,
    PIECES,
    CoreSource,
    Kinds,
)

FUNCTIONS, LENGTH = 4, 8
"""Functions of all, and the instructions of each."""

WORKED_ON = (10, 11, 12, 13, 14, 15)
"""Numbers of the registers that the functions work on, a0 to a5; s0 and s1 point into L1."""

ALU = ("add", "sub", "mul", "p_max", "mulh", "div", "fadd_s")


def word(random: Random) -> int:
    """A word of code: an instruction that may stand anywhere, or two compressed ones."""
    rd, rs1, rs2 = (random.choice(WORKED_ON) for _ in range(3))
    kind = random.random()
    if kind < 0.35:
        insn = ISA[random.choice(ALU)]
        registers = {name: random.choice(WORKED_ON) for name in insn.encoding.fields}
        return ISA.encode(insn, **registers | ({"rm": 0} if "rm" in registers else {}))
    if kind < 0.5:
        return ISA.encode(ISA["addi"], rd=rd, rs1=rs1, imm=random.randrange(-9, 9))
    if kind < 0.65:
        base, offset = random.choice((8, 9)), 4 * random.randrange(64)
        return ISA.encode(ISA["lw"], rd=rd, rs1=base, imm=offset)
    if kind < 0.75:
        return ISA.encode(ISA["sw"], rs1=9, rs2=rs2, imm=4 * random.randrange(64))
    if kind < 0.85:
        return ISA.encode(ISA["bne"], rs1=rs1, rs2=rs2, imm=8)
    halves = [ISA.encode(ISA["c_addi"], rd=random.choice(WORKED_ON), imm=3) for _ in range(2)]
    return halves[0] | halves[1] << 16


class ChangingSource(CoreSource):
    """A core that calls the functions of all and changes them."""

    def call_function(self) -> None:
        """Once, or in a hardware loop's turns."""
        self.emit(f"jal ra, shared{self.random.randrange(FUNCTIONS)}")

    def change(self) -> None:
        """Store an instruction into a function; mostly it is to be seen soon."""
        place = 4 * self.random.randrange(LENGTH - 2)
        self.emit(f"la t0, shared{self.random.randrange(FUNCTIONS)}")
        self.emit(f"li t1, {word(self.random)}", f"sw t1, {place}(t0)")
        if self.random.random() < 0.3:
            self.straight()
        if self.random.random() < 0.8:
            self.emit("fence.i")

    def fence(self) -> None:
        self.emit("fence.i")


CHANGES: Kinds = {
    **PIECES,
    ChangingSource.call_function: 12,
    ChangingSource.change: 10,
    ChangingSource.fence: 3,
}


def changing_program(seed: int, rounds: int = 3, pieces: int = 12) -> Program:
    """The program of a seed."""
    random = Random(seed)
    boot = "\n".join(f"la t0, core{core}\nsw t0, {0x40 + 4 * core}(s0)" for core in range(CORES))
    cores = [ChangingSource(random, core, CHANGES).text(rounds, pieces) for core in range(CORES)]
    functions = [
        "\n".join([".balign 4", f"shared{number}:"])
        + "".join(f"\n.word {word(random):#x}" for _ in range(LENGTH - 1))
        + "\naddi a0, a0, 1\nret"
        for number in range(FUNCTIONS)
    ]
    text = "\n".join([CONTROLLER.format(boot=boot), *cores, *functions])
    return assemble(text, ISA, text_base=ENTRY)
