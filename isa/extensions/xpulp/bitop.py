"""Xpulp bit manipulation: counting, rotation, bit fields.

A field is Is3 + 1 bits wide and starts at bit Is2; what would lie above bit 31 is left out. The
register forms take Is3 from rs2[9:5] and Is2 from rs2[4:0].

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Bit Manipulation
Operations".
"""

from isa.declare import Extension
from isa.words import bits, clz32, ctz32, jitable, ones, popcount, rotate_right, sext

XPULPBITOP = Extension("xpulpbitop")
insn = XPULPBITOP.insn


@insn("0000100 rs2 rs1 101 rd 0110011", "p.ror rd, rs1, rs2", "alu")
def p_ror(rs1, rs2):
    """Rotate right: rd = rs1 rotated by rs2[4:0]."""
    return rotate_right(rs1, rs2)


@insn("0001000 00000 rs1 000 rd 0110011", "p.ff1 rd, rs1", "alu")
def p_ff1(rs1):
    """Find first 1: rd = position of the lowest set bit of rs1; 32 if there is none."""
    return ctz32(rs1)


@insn("0001000 00000 rs1 001 rd 0110011", "p.fl1 rd, rs1", "alu")
def p_fl1(rs1):
    """Find last 1: rd = position of the highest set bit of rs1; 32 if there is none."""
    return 31 - clz32(rs1) if rs1 != 0 else 32


@insn("0001000 00000 rs1 010 rd 0110011", "p.clb rd, rs1", "alu")
def p_clb(rs1):
    """Count leading bits: rd = number of bits below bit 31 that repeat it; 0 if rs1 = 0."""
    return clz32(rs1 ^ rs1 >> 31) - 1 if rs1 != 0 else 0


@insn("0001000 00000 rs1 011 rd 0110011", "p.cnt rd, rs1", "alu")
def p_cnt(rs1):
    """Population count: rd = number of set bits of rs1."""
    return popcount(rs1)


@jitable
def top(Is3, Is2):
    """Highest bit of a field."""
    return min(Is3 + Is2, 31)


@insn("11 Is3 Is2 rs1 000 rd 0110011", "p.extract rd, rs1, Is3, Is2", "alu")
@jitable
def p_extract(rs1, Is3, Is2):
    """Extract bit field, sign-extended: rd = rs1[Is3+Is2:Is2]."""
    high = top(Is3, Is2)
    return sext(rs1 >> Is2, high - Is2 + 1)


@insn("11 Is3 Is2 rs1 001 rd 0110011", "p.extractu rd, rs1, Is3, Is2", "alu")
@jitable
def p_extractu(rs1, Is3, Is2):
    """Extract bit field, zero-extended: rd = rs1[Is3+Is2:Is2]."""
    return bits(rs1, top(Is3, Is2), Is2)


@insn("11 Is3 Is2 rs1 010 rd 0110011", "p.insert rd, rs1, Is3, Is2", "alu")
@jitable
def p_insert(rd, rs1, Is3, Is2):
    """Insert bit field: rd[Is3+Is2:Is2] = rs1[Is3:0]; the other bits of rd stay."""
    field = ones(top(Is3, Is2), Is2)
    return rd & ~field | rs1 << Is2 & field


@insn("11 Is3 Is2 rs1 011 rd 0110011", "p.bclr rd, rs1, Is3, Is2", "alu")
@jitable
def p_bclr(rs1, Is3, Is2):
    """Clear bit field: rd = rs1 with bits [Is3+Is2:Is2] cleared."""
    return rs1 & ~ones(top(Is3, Is2), Is2)


@insn("11 Is3 Is2 rs1 100 rd 0110011", "p.bset rd, rs1, Is3, Is2", "alu")
@jitable
def p_bset(rs1, Is3, Is2):
    """Set bit field: rd = rs1 with bits [Is3+Is2:Is2] set."""
    return rs1 | ones(top(Is3, Is2), Is2)


@insn("1000000 rs2 rs1 000 rd 0110011", "p.extractr rd, rs1, rs2", "alu")
def p_extractr(rs1, rs2):
    """Extract bit field, sign-extended: p.extract with Is3 = rs2[9:5], Is2 = rs2[4:0]."""
    return p_extract(rs1, bits(rs2, 9, 5), bits(rs2, 4, 0))


@insn("1000000 rs2 rs1 001 rd 0110011", "p.extractur rd, rs1, rs2", "alu")
def p_extractur(rs1, rs2):
    """Extract bit field, zero-extended: p.extractu with Is3 = rs2[9:5], Is2 = rs2[4:0]."""
    return p_extractu(rs1, bits(rs2, 9, 5), bits(rs2, 4, 0))


@insn("1000000 rs2 rs1 010 rd 0110011", "p.insertr rd, rs1, rs2", "alu")
def p_insertr(rd, rs1, rs2):
    """Insert bit field: p.insert with Is3 = rs2[9:5], Is2 = rs2[4:0]."""
    return p_insert(rd, rs1, bits(rs2, 9, 5), bits(rs2, 4, 0))


@insn("1000000 rs2 rs1 011 rd 0110011", "p.bclrr rd, rs1, rs2", "alu")
def p_bclrr(rs1, rs2):
    """Clear bit field: p.bclr with Is3 = rs2[9:5], Is2 = rs2[4:0]."""
    return p_bclr(rs1, bits(rs2, 9, 5), bits(rs2, 4, 0))


@insn("1000000 rs2 rs1 100 rd 0110011", "p.bsetr rd, rs1, rs2", "alu")
def p_bsetr(rs1, rs2):
    """Set bit field: p.bset with Is3 = rs2[9:5], Is2 = rs2[4:0]."""
    return p_bset(rs1, bits(rs2, 9, 5), bits(rs2, 4, 0))
