"""Xpulp hardware loops: two, L = 0 (inner) and 1; each has a start, an end and a count.

The end register holds the address of the last instruction of the body, and immediates are in units
of two bytes: bodies may contain compressed instructions.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Hardware Loops"; that the
last instruction is inclusive: RI5CY's RTL, riscv_hwloop_controller, and vendor tests.
"""

from isa.declare import Extension

XPULPHWLOOP = Extension("xpulphwloop")
insn = XPULPHWLOOP.insn


@insn("uimmL[12:1] ----- 000 0000 L 1111011", "lp.starti xL, pc+uimmL", "hwloop", writes="lp_start")
def lp_starti(pc, uimmL):
    """Set the start of a loop: lp_start = pc + uimmL."""
    return pc + uimmL


@insn("uimmL[12:1] ----- 001 0000 L 1111011", "lp.endi xL, pc+uimmL", "hwloop", writes="lp_end")
def lp_endi(pc, uimmL):
    """Set the end of a loop: lp_end = pc + uimmL, the address of its last instruction."""
    return pc + uimmL


@insn("------------ rs1 010 0000 L 1111011", "lp.count xL, rs1", "hwloop", writes="lp_count")
def lp_count(rs1):
    """Set the number of iterations: lp_count = rs1."""
    return rs1


@insn("uimmL[11:0] ----- 011 0000 L 1111011", "lp.counti xL, uimmL", "hwloop", writes="lp_count")
def lp_counti(uimmL):
    """Set the number of iterations: lp_count = uimmL."""
    return uimmL


@insn(
    "uimmL[12:1] rs1 100 0000 L 1111011",
    "lp.setup xL, rs1, pc+uimmL",
    "hwloop",
    writes="lp_start lp_end lp_count",
)
def lp_setup(pc, rs1, uimmL):
    """Run what follows rs1 times, up to the instruction at pc + uimmL."""
    return pc + 4, pc + uimmL, rs1


@insn(
    "uimmL[11:0] uimmS[5:1] 101 0000 L 1111011",
    "lp.setupi xL, uimmL, pc+uimmS",
    "hwloop",
    writes="lp_start lp_end lp_count",
)
def lp_setupi(pc, uimmL, uimmS):
    """Run what follows uimmL times, up to the instruction at pc + uimmS."""
    return pc + 4, pc + uimmS, uimmL
