"""Xpulp scalar arithmetic: comparison, minimum and maximum, extension, clipping, normalization.

p.avgu (0000010 rs2 rs1 001 rd 0110011) exists in the GVSoC simulator only: neither RI5CY's decoder
nor the GNU assembler has it, so it is not declared.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "General ALU Operations".
"""

from isa.declare import Extension
from isa.words import i32, jitable, sext, u32, zext

XPULPALU = Extension("xpulpalu")
insn = XPULPALU.insn


@insn("0000010 00000 rs1 000 rd 0110011", "p.abs rd, rs1", "alu")
def p_abs(rs1):
    """Absolute value: rd = |rs1|; that of -2^31 is -2^31."""
    return abs(rs1)


@insn("0000010 rs2 rs1 010 rd 0110011", "p.slet rd, rs1, rs2", "alu")
def p_slet(rs1, rs2):
    """Set if less than or equal (signed): rd = 1 if rs1 <= rs2, else 0."""
    return int(rs1 <= rs2)


@insn("0000010 rs2 rs1 011 rd 0110011", "p.sletu rd, rs1, rs2", "alu")
def p_sletu(rs1, rs2):
    """Set if less than or equal (unsigned): rd = 1 if rs1 <= rs2, else 0."""
    return int(u32(rs1) <= u32(rs2))


@insn("0000010 rs2 rs1 100 rd 0110011", "p.min rd, rs1, rs2", "alu")
def p_min(rs1, rs2):
    """Minimum (signed)."""
    return min(rs1, rs2)


@insn("0000010 rs2 rs1 101 rd 0110011", "p.minu rd, rs1, rs2", "alu")
def p_minu(rs1, rs2):
    """Minimum (unsigned)."""
    return min(u32(rs1), u32(rs2))


@insn("0000010 rs2 rs1 110 rd 0110011", "p.max rd, rs1, rs2", "alu")
def p_max(rs1, rs2):
    """Maximum (signed)."""
    return max(rs1, rs2)


@insn("0000010 rs2 rs1 111 rd 0110011", "p.maxu rd, rs1, rs2", "alu")
def p_maxu(rs1, rs2):
    """Maximum (unsigned)."""
    return max(u32(rs1), u32(rs2))


@insn("0001000 00000 rs1 100 rd 0110011", "p.exths rd, rs1", "alu")
def p_exths(rs1):
    """Sign-extend half-word: rd = rs1[15:0]."""
    return sext(rs1, 16)


@insn("0001000 00000 rs1 101 rd 0110011", "p.exthz rd, rs1", "alu")
def p_exthz(rs1):
    """Zero-extend half-word: rd = rs1[15:0]."""
    return zext(rs1, 16)


@insn("0001000 00000 rs1 110 rd 0110011", "p.extbs rd, rs1", "alu")
def p_extbs(rs1):
    """Sign-extend byte: rd = rs1[7:0]."""
    return sext(rs1, 8)


@insn("0001000 00000 rs1 111 rd 0110011", "p.extbz rd, rs1", "alu")
def p_extbz(rs1):
    """Zero-extend byte: rd = rs1[7:0]."""
    return zext(rs1, 8)


@jitable
def clip(value, low, high):
    """Clip to low .. high; low is tested first, and wins if the bounds are the wrong way round."""
    if value <= low:
        return low
    return min(value, high)


@jitable
def largest(width):
    """The largest signed number of so many bits; 0 if there are none."""
    return (1 << width >> 1) - 1 if width > 0 else 0


@insn("0001010 Is2 rs1 001 rd 0110011", "p.clip rd, rs1, Is2", "alu")
def p_clip(rs1, Is2):
    """Clip to Is2 bits, signed: rd = rs1 within -2^(Is2-1) .. 2^(Is2-1) - 1; -1 .. 0 if Is2 = 0."""
    high = largest(Is2)
    return clip(rs1, ~high, high)


@insn("0001010 Is2 rs1 010 rd 0110011", "p.clipu rd, rs1, Is2", "alu")
def p_clipu(rs1, Is2):
    """Clip to Is2 bits, not negative: rd = rs1 within 0 .. 2^(Is2-1) - 1; 0 if Is2 = 0."""
    return clip(rs1, 0, largest(Is2))


@insn("0001010 rs2 rs1 101 rd 0110011", "p.clipr rd, rs1, rs2", "alu")
def p_clipr(rs1, rs2):
    """Clip to a symmetric range: rd = rs1 within -rs2 - 1 .. rs2."""
    return clip(rs1, ~rs2, rs2)


@insn("0001010 rs2 rs1 110 rd 0110011", "p.clipur rd, rs1, rs2", "alu")
def p_clipur(rs1, rs2):
    """Clip to a positive range: rd = rs1 within 0 .. rs2."""
    return clip(rs1, 0, rs2)


@jitable
def half_unit(shift):
    """Half of what a right shift makes a unit: added before the shift, it rounds to nearest."""
    return 1 << shift >> 1


def normalization(sign, wrap, rounding):
    """Meanings of add (sign 1) or subtract (-1), round (1) or not (0), shift: by Is3, by rs2."""

    def by_immediate(rs1, rs2, Is3):
        return wrap(rs1 + sign * rs2 + rounding * half_unit(Is3)) >> Is3

    def by_register(rd, rs1, rs2):
        shift = rs2 & 31
        return wrap(rd + sign * rs1 + rounding * half_unit(shift)) >> shift

    return by_immediate, by_register


# suffix, f2 (immediate form), funct7 (register form), funct3 of add and of sub, wrap, rounding
NORMALIZATIONS = (
    ("N", "00", "0100000", "010", "011", i32, 0),
    ("uN", "10", "1100000", "010", "011", u32, 0),
    ("RN", "00", "0100000", "110", "111", i32, 1),
    ("uRN", "10", "1100000", "110", "111", u32, 1),
)

for suffix, f2, funct7, add_funct3, sub_funct3, wrap, rounding in NORMALIZATIONS:
    shifted = "arithmetic shift" if wrap is i32 else "logical shift"
    if rounding:
        shifted += ", rounded to nearest"
    for verb, symbol, sign, funct3 in (("add", "+", 1, add_funct3), ("sub", "-", -1, sub_funct3)):
        by_immediate, by_register = normalization(sign, wrap, rounding)
        insn(
            f"{f2} Is3 rs2 rs1 {funct3} rd 1011011",
            f"p.{verb}{suffix} rd, rs1, rs2, Is3",
            "alu",
            doc=f"Normalized {verb}: rd = (rs1 {symbol} rs2) >> Is3, {shifted}.",
        )(by_immediate)
        insn(
            f"{funct7} rs2 rs1 {funct3} rd 1011011",
            f"p.{verb}{suffix}r rd, rs1, rs2",
            "alu",
            doc=f"Normalized {verb}: rd = (rd {symbol} rs1) >> rs2[4:0], {shifted}.",
        )(by_register)
