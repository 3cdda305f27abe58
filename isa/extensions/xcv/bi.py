"""XCVbi: branches of CORE-V on a comparison with an immediate.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section "Immediate
Branching Operations".
"""

from isa.declare import Extension
from isa.extensions.xpulp.br import XPULPBR as P

XCVBI = Extension("xcvbi")
like = XCVBI.like

like(
    "imm[12|10:5] imm5[4:0] rs1 110 imm[4:1|11] 0001011",
    "cv.beqimm rs1, imm5, pc+imm",
    P["p_beqimm"],
)
like(
    "imm[12|10:5] imm5[4:0] rs1 111 imm[4:1|11] 0001011",
    "cv.bneimm rs1, imm5, pc+imm",
    P["p_bneimm"],
)
