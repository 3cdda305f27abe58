"""Zicsr: access to control and status registers.

`csr_value` is the register's old value. csrrs and csrrc with rs1 = x0, csrrsi and csrrci with
uimm = 0 do not write the register at all, and csrrw and csrrwi with rd = x0 do not read it: who
runs them sees the register numbers, decides, and traps where the register does not exist or must
not be written.

Source: RISC-V unprivileged manual, chapter "Zicsr, Control and Status Register Instructions".
"""

from isa.declare import Extension

ZICSR = Extension("zicsr")
insn = ZICSR.insn


@insn("csr rs1 001 rd 1110011", "csrrw rd, csr, rs1", "csr", writes="rd csr")
def csrrw(csr_value, rs1):
    """Read and write: rd = csr; csr = rs1."""
    return csr_value, rs1


@insn("csr rs1 010 rd 1110011", "csrrs rd, csr, rs1", "csr", writes="rd csr")
def csrrs(csr_value, rs1):
    """Read and set bits: rd = csr; csr |= rs1."""
    return csr_value, csr_value | rs1


@insn("csr rs1 011 rd 1110011", "csrrc rd, csr, rs1", "csr", writes="rd csr")
def csrrc(csr_value, rs1):
    """Read and clear bits: rd = csr; csr &= ~rs1."""
    return csr_value, csr_value & ~rs1


@insn("csr uimm[4:0] 101 rd 1110011", "csrrwi rd, csr, uimm", "csr", writes="rd csr")
def csrrwi(csr_value, uimm):
    """Read and write immediate: rd = csr; csr = uimm."""
    return csr_value, uimm


@insn("csr uimm[4:0] 110 rd 1110011", "csrrsi rd, csr, uimm", "csr", writes="rd csr")
def csrrsi(csr_value, uimm):
    """Read and set bits by immediate: rd = csr; csr |= uimm."""
    return csr_value, csr_value | uimm


@insn("csr uimm[4:0] 111 rd 1110011", "csrrci rd, csr, uimm", "csr", writes="rd csr")
def csrrci(csr_value, uimm):
    """Read and clear bits by immediate: rd = csr; csr &= ~uimm."""
    return csr_value, csr_value & ~uimm
