"""Xpulp event load: a load that sleeps until the event unit answers.

Source: RI5CY user manual, chapter "PULP Instruction Extensions"; encoding: RI5CY's RTL decoder.
"""

from isa.declare import Extension

XPULPELW = Extension("xpulpelw")
insn = XPULPELW.insn


@insn("imm[11:0] rs1 110 rd 0000011", "p.elw rd, imm(rs1)", "elw", access="i32", writes="addr")
def p_elw(rs1, imm):
    """Event load word: rd = M[rs1 + imm]; the core sleeps until the event unit answers."""
    return rs1 + imm
