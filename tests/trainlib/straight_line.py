"""Runs code without jumps on arrays: each register holds a word for each of many inputs.

A sum of a product is rounded to float64 first, which changes the float32 after it hardly ever.
"""

import numpy as np

from firmware.code import Instruction
from firmware.registers import SP

Words = np.ndarray


def execute(instructions: list[Instruction], registers: dict[int, Words]) -> dict[int, Words]:
    """The registers at the end; memory is what is stored relative to the stack pointer."""
    memory: dict[int, Words] = {}
    registers = {0: np.zeros(1, np.uint32), **registers}
    for instruction in instructions:
        key, o = instruction.insn.key, instruction.operands
        if key == "sw":
            assert o["rs1"] == SP.number
            memory[o["imm"]] = registers[o["rs2"]]
        elif key == "lw":
            assert o["rs1"] == SP.number
            registers[o["rd"]] = memory[o["imm"]]
        else:
            target = o.get("rd", o.get("fd"))
            with np.errstate(all="ignore"):
                result = MEANINGS[key](Operands(o, registers))
            registers[target] = np.asarray(result).astype(np.uint32, copy=False)
            registers[0] = np.zeros(1, np.uint32)
    return registers


class Operands:
    """Operands as unsigned (u), signed (s) or float64 (f) arrays, and immediates."""

    def __init__(self, operands: dict, registers: dict[int, Words]) -> None:
        self.operands, self.registers = operands, registers

    def u(self, name: str) -> Words:
        return self.registers[self.operands[name]]

    def s(self, name: str) -> Words:
        return self.u(name).view(np.int32).astype(np.int64)

    def f(self, name: str) -> Words:
        return self.u(name).view(np.float32).astype(np.float64)

    def i(self, name: str) -> int:
        return self.operands[name]


def _float(value: Words) -> Words:
    """As float32 words; arithmetic gives one NaN."""
    words = value.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(value), np.uint32(0x7FC00000), words)


def _word(value: Words) -> Words:
    return (value & 0xFFFFFFFF).astype(np.uint32)


def _sign(o: Operands, sign: Words) -> Words:
    return o.u("fs1") & np.uint32(0x7FFFFFFF) | sign & np.uint32(1 << 31)


def _fused(sign_of_product: int, sign_of_addend: int):
    def meaning(o: Operands) -> Words:
        return _float(sign_of_product * o.f("fs1") * o.f("fs2") + sign_of_addend * o.f("fs3"))

    return meaning


MEANINGS = {
    "lui": lambda o: np.array([o.i("imm") << 12 & 0xFFFFFFFF], np.uint32),
    "addi": lambda o: _word(o.s("rs1") + o.i("imm")),
    "add": lambda o: _word(o.s("rs1") + o.s("rs2")),
    "sub": lambda o: _word(o.s("rs1") - o.s("rs2")),
    "mul": lambda o: _word(o.s("rs1") * o.s("rs2")),
    "and_": lambda o: o.u("rs1") & o.u("rs2"),
    "or_": lambda o: o.u("rs1") | o.u("rs2"),
    "xor": lambda o: o.u("rs1") ^ o.u("rs2"),
    "sltu": lambda o: (o.u("rs1") < o.u("rs2")).astype(np.uint32),
    "slli": lambda o: _word(o.u("rs1").astype(np.int64) << o.i("shamt")),
    "srai": lambda o: _word(o.s("rs1") >> o.i("shamt")),
    "p_min": lambda o: _word(np.minimum(o.s("rs1"), o.s("rs2"))),
    "p_max": lambda o: _word(np.maximum(o.s("rs1"), o.s("rs2"))),
    "p_minu": lambda o: np.minimum(o.u("rs1"), o.u("rs2")),
    "fadd_s": lambda o: _float(o.f("fs1") + o.f("fs2")),
    "fsub_s": lambda o: _float(o.f("fs1") - o.f("fs2")),
    "fmul_s": lambda o: _float(o.f("fs1") * o.f("fs2")),
    "fmadd_s": _fused(1, 1),
    "fmsub_s": _fused(1, -1),
    "fnmsub_s": _fused(-1, 1),
    "fmin_s": lambda o: _float(np.fmin(o.f("fs1"), o.f("fs2"))),
    "fmax_s": lambda o: _float(np.fmax(o.f("fs1"), o.f("fs2"))),
    "fsgnj_s": lambda o: _sign(o, o.u("fs2")),
    "fsgnjn_s": lambda o: _sign(o, ~o.u("fs2")),
    "fsgnjx_s": lambda o: _sign(o, o.u("fs1") ^ o.u("fs2")),
    "fdiv_s": lambda o: _float(o.f("fs1") / o.f("fs2")),
    "feq_s": lambda o: (o.f("fs1") == o.f("fs2")).astype(np.uint32),
    "flt_s": lambda o: (o.f("fs1") < o.f("fs2")).astype(np.uint32),
    "fcvt_s_w": lambda o: _float(o.s("rs1").astype(np.float64)),
}
"""By an instruction's key: its result as words."""
