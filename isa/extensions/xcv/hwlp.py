"""XCVhwlp: hardware loops of CORE-V: two, L = 0 (inner) and 1; each has start, end and count.

The end register holds the address of the first instruction after the body, and immediates are in
units of four bytes: bodies are made of 32-bit instructions at 4-byte boundaries.

Source: CV32E40P user manual, chapters "CORE-V Instruction Set Custom Extensions", section "Hardware
Loops", and "CORE-V Hardware Loop feature".
"""

from isa.declare import Extension

XCVHWLP = Extension("xcvhwlp")
insn = XCVHWLP.insn


@insn(
    "uimmL[11:0] 00000 100 0000 L 0101011",
    "cv.starti L, pc+uimmL<<2",
    "hwloop",
    writes="lp_start",
)
def cv_starti(pc, uimmL):
    """Set the start of a loop: lp_start = pc + 4 * uimmL."""
    return pc + 4 * uimmL


@insn("000000000000 rs1 100 0001 L 0101011", "cv.start L, rs1", "hwloop", writes="lp_start")
def cv_start(rs1):
    """Set the start of a loop: lp_start = rs1, bits 1 and 0 cleared."""
    return rs1 & ~3


@insn("uimmL[11:0] 00000 100 0010 L 0101011", "cv.endi L, pc+uimmL<<2", "hwloop", writes="lp_end")
def cv_endi(pc, uimmL):
    """Set the end of a loop: lp_end = pc + 4 * uimmL, the address after its body."""
    return pc + 4 * uimmL


@insn("000000000000 rs1 100 0011 L 0101011", "cv.end L, rs1", "hwloop", writes="lp_end")
def cv_end(rs1):
    """Set the end of a loop: lp_end = rs1, bits 1 and 0 cleared."""
    return rs1 & ~3


@insn("uimmL[11:0] 00000 100 0100 L 0101011", "cv.counti L, uimmL", "hwloop", writes="lp_count")
def cv_counti(uimmL):
    """Set the number of iterations: lp_count = uimmL."""
    return uimmL


@insn("000000000000 rs1 100 0101 L 0101011", "cv.count L, rs1", "hwloop", writes="lp_count")
def cv_count(rs1):
    """Set the number of iterations: lp_count = rs1."""
    return rs1


@insn(
    "uimmL[11:0] uimmS[4:0] 100 0110 L 0101011",
    "cv.setupi L, uimmL, pc+uimmS<<2",
    "hwloop",
    writes="lp_start lp_end lp_count",
)
def cv_setupi(pc, uimmL, uimmS):
    """Run what follows uimmL times, up to but not including the instruction at pc + 4 * uimmS."""
    return pc + 4, pc + 4 * uimmS, uimmL


@insn(
    "uimmL[11:0] rs1 100 0111 L 0101011",
    "cv.setup L, rs1, pc+uimmL<<2",
    "hwloop",
    writes="lp_start lp_end lp_count",
)
def cv_setup(pc, rs1, uimmL):
    """Run what follows rs1 times, up to but not including the instruction at pc + 4 * uimmL."""
    return pc + 4, pc + 4 * uimmL, rs1
