"""Xpulp multiplication: multiply-accumulate, and 16-bit products with normalization and rounding.

The 16-bit instructions multiply half-words of rs1 and rs2, low ones or high ones (`hh`), signed
(`s`) or unsigned (`u`); add rd (`mac`); add half a unit of the result (`R`); and shift right by Is3
(`N`), arithmetically if signed. Sums are taken modulo 2^32 before the shift.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Multiply-Accumulate".
"""

from isa.declare import Extension
from isa.words import i32, lane, u32, ulane
from isa.xpulp_alu import half_unit

XPULPMAC = Extension("xpulpmac")
insn = XPULPMAC.insn


@insn("0100001 rs2 rs1 000 rd 0110011", "p.mac rd, rs1, rs2", "mul")
def p_mac(rd, rs1, rs2):
    """Multiply-accumulate: rd += rs1 * rs2."""
    return rd + rs1 * rs2


@insn("0100001 rs2 rs1 001 rd 0110011", "p.msu rd, rs1, rs2", "mul")
def p_msu(rd, rs1, rs2):
    """Multiply-subtract: rd -= rs1 * rs2."""
    return rd - rs1 * rs2


def products(half, element, wrap):
    """Meanings of product and of product plus rd: plain, shifted, rounded and shifted."""

    def mul(rs1, rs2):
        return element(rs1, half, 16) * element(rs2, half, 16)

    def mul_n(rs1, rs2, Is3):
        return wrap(element(rs1, half, 16) * element(rs2, half, 16)) >> Is3

    def mul_rn(rs1, rs2, Is3):
        return wrap(element(rs1, half, 16) * element(rs2, half, 16) + half_unit(Is3)) >> Is3

    def mac(rd, rs1, rs2):
        return rd + element(rs1, half, 16) * element(rs2, half, 16)

    def mac_n(rd, rs1, rs2, Is3):
        return wrap(rd + element(rs1, half, 16) * element(rs2, half, 16)) >> Is3

    def mac_rn(rd, rs1, rs2, Is3):
        return wrap(rd + element(rs1, half, 16) * element(rs2, half, 16) + half_unit(Is3)) >> Is3

    return (("mul", "00", (mul, mul_n, mul_rn)), ("mac", "01", (mac, mac_n, mac_rn)))


# suffix, f2, half, element, wrap, words for the reference page
KINDS = (
    ("s", "10", 0, lane, i32, "signed low half-words"),
    ("hhs", "11", 1, lane, i32, "signed high half-words"),
    ("u", "00", 0, ulane, u32, "unsigned low half-words"),
    ("hhu", "01", 1, ulane, u32, "unsigned high half-words"),
)

for suffix, f2, half, element, wrap, of_what in KINDS:
    for verb, funct2, (plain, normalized, rounded) in products(half, element, wrap):
        name = f"p.{verb}{suffix}"
        sums = "rd = rd + product" if verb == "mac" else "rd = product"
        insn(
            f"{f2} 00000 rs2 rs1 0{funct2} rd 1011011",
            f"{name} rd, rs1, rs2",
            "mul",
            doc=f"{sums} of {of_what}.",
        )(plain)
        insn(
            f"{f2} Is3 rs2 rs1 0{funct2} rd 1011011",
            f"{name}N rd, rs1, rs2, Is3",
            "mul",
            doc=f"{sums} of {of_what}, shifted right by Is3.",
        )(normalized)
        insn(
            f"{f2} Is3 rs2 rs1 1{funct2} rd 1011011",
            f"{name}RN rd, rs1, rs2, Is3",
            "mul",
            doc=f"{sums} of {of_what}, shifted right by Is3 and rounded to nearest.",
        )(rounded)
