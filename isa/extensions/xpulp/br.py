"""Xpulp branches on a comparison with an immediate.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Immediate Branching
Operations".
"""

from isa.declare import Extension

XPULPBR = Extension("xpulpbr")
insn = XPULPBR.insn


@insn(
    "imm[12|10:5] imm5[4:0] rs1 010 imm[4:1|11] 1100011",
    "p.beqimm rs1, imm5, pc+imm",
    "branch",
    writes="pc",
)
def p_beqimm(pc, size, rs1, imm5, imm):
    """Branch if equal to immediate."""
    return pc + imm if rs1 == imm5 else pc + size


@insn(
    "imm[12|10:5] imm5[4:0] rs1 011 imm[4:1|11] 1100011",
    "p.bneimm rs1, imm5, pc+imm",
    "branch",
    writes="pc",
)
def p_bneimm(pc, size, rs1, imm5, imm):
    """Branch if not equal to immediate."""
    return pc + imm if rs1 != imm5 else pc + size
