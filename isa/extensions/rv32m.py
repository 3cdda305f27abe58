"""RV32M: multiplication and division. Nothing traps: a division by zero has a defined result.

Source: RISC-V unprivileged manual, chapter "M Standard Extension for Integer Multiplication and
Division".
"""

from isa.declare import Extension
from isa.words import u32

RV32M = Extension("rv32m")
insn = RV32M.insn


@insn("0000001 rs2 rs1 000 rd 0110011", "mul rd, rs1, rs2", "mul")
def mul(rs1, rs2):
    """Multiply: rd = low word of rs1 * rs2."""
    return rs1 * rs2


@insn("0000001 rs2 rs1 001 rd 0110011", "mulh rd, rs1, rs2", "mulh")
def mulh(rs1, rs2):
    """Multiply high (signed * signed): rd = high word of rs1 * rs2."""
    return rs1 * rs2 >> 32


@insn("0000001 rs2 rs1 010 rd 0110011", "mulhsu rd, rs1, rs2", "mulh")
def mulhsu(rs1, rs2):
    """Multiply high (signed * unsigned): rd = high word of rs1 * rs2."""
    return rs1 * u32(rs2) >> 32


@insn("0000001 rs2 rs1 011 rd 0110011", "mulhu rd, rs1, rs2", "mulh")
def mulhu(rs1, rs2):
    """Multiply high (unsigned * unsigned): rd = high word of rs1 * rs2."""
    high = u32(rs1) * (
        u32(rs2) >> 16
    )  # 48 bits each: the product itself does not fit 64 signed bits
    low = u32(rs1) * (rs2 & 0xFFFF)
    return high + (low >> 16) >> 16


@insn("0000001 rs2 rs1 100 rd 0110011", "div rd, rs1, rs2", "div")
def div(rs1, rs2):
    """Divide (signed), rounding towards zero. x / 0 = -1; -2^31 / -1 = -2^31."""
    if rs2 == 0:
        return -1
    quotient = abs(rs1) // abs(rs2)
    return quotient if (rs1 < 0) == (rs2 < 0) else -quotient


@insn("0000001 rs2 rs1 101 rd 0110011", "divu rd, rs1, rs2", "divu")
def divu(rs1, rs2):
    """Divide (unsigned), rounding towards zero. x / 0 = 2^32 - 1."""
    return u32(rs1) // u32(rs2) if rs2 != 0 else -1


@insn("0000001 rs2 rs1 110 rd 0110011", "rem rd, rs1, rs2", "div")
def rem(rs1, rs2):
    """Remainder of div: has the dividend's sign. x rem 0 = x; -2^31 rem -1 = 0."""
    if rs2 == 0:
        return rs1
    remainder = abs(rs1) % abs(rs2)
    return remainder if rs1 >= 0 else -remainder


@insn("0000001 rs2 rs1 111 rd 0110011", "remu rd, rs1, rs2", "divu")
def remu(rs1, rs2):
    """Remainder of divu. x rem 0 = x."""
    return u32(rs1) % u32(rs2) if rs2 != 0 else rs1
