"""Xpulp multiplication: multiply-accumulate, and 16-bit products with normalization and rounding.

The 16-bit instructions multiply half-words of rs1 and rs2, low ones or high ones (`hh`), signed
(`s`) or unsigned (`u`); add rd (`mac`); add half a unit of the result (`R`); and shift right by Is3
(`N`), arithmetically if signed. Sums are taken modulo 2^32 before the shift.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Multiply-Accumulate".
"""

from isa.declare import Extension
from isa.extensions.xpulp.alu import half_unit
from isa.words import i32, lane, u32, ulane

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


def products(half, element):
    """Meanings of the product of half-words, alone and added to rd."""

    def mul(rs1, rs2):
        return element(rs1, half, 16) * element(rs2, half, 16)

    def mac(rd, rs1, rs2):
        return rd + element(rs1, half, 16) * element(rs2, half, 16)

    return mul, mac


def normalized_products(half, element, wrap, rounding):
    """The same, rounded (1) or not (0) and shifted right by Is3."""

    def mul(rs1, rs2, Is3):
        product = element(rs1, half, 16) * element(rs2, half, 16)
        return wrap(product + rounding * half_unit(Is3)) >> Is3

    def mac(rd, rs1, rs2, Is3):
        product = element(rs1, half, 16) * element(rs2, half, 16)
        return wrap(rd + product + rounding * half_unit(Is3)) >> Is3

    return mul, mac


# suffix, f2, half, element, wrap, words for the reference page
KINDS = (
    ("s", "10", 0, lane, i32, "signed low half-words"),
    ("hhs", "11", 1, lane, i32, "signed high half-words"),
    ("u", "00", 0, ulane, u32, "unsigned low half-words"),
    ("hhu", "01", 1, ulane, u32, "unsigned high half-words"),
)
VERBS = (("mul", "00", "rd = product"), ("mac", "01", "rd = rd + product"))

for suffix, f2, half, element, wrap, of_what in KINDS:
    plain = products(half, element)
    normalized = normalized_products(half, element, wrap, 0)
    rounded = normalized_products(half, element, wrap, 1)
    for index, (verb, funct2, formula) in enumerate(VERBS):
        name = f"p.{verb}{suffix}"
        insn(
            f"{f2} 00000 rs2 rs1 0{funct2} rd 1011011",
            f"{name} rd, rs1, rs2",
            "mul",
            doc=f"{formula} of {of_what}.",
        )(plain[index])
        insn(
            f"{f2} Is3 rs2 rs1 0{funct2} rd 1011011",
            f"{name}N rd, rs1, rs2, Is3",
            "mul",
            doc=f"{formula} of {of_what}, shifted right by Is3.",
        )(normalized[index])
        insn(
            f"{f2} Is3 rs2 rs1 1{funct2} rd 1011011",
            f"{name}RN rd, rs1, rs2, Is3",
            "mul",
            doc=f"{formula} of {of_what}, rounded to nearest and shifted right by Is3.",
        )(rounded[index])
