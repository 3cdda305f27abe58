"""RV32I and the instructions of the machine mode and of Zifencei.

Source: RISC-V unprivileged manual, chapter "RV32I Base Integer Instruction Set"; privileged
manual, "Machine-Mode Privileged Instructions".
"""

from isa.declare import Extension
from isa.words import u32

RV32I = Extension("rv32i")
PRIVILEGED = Extension("priv")
ZIFENCEI = Extension("zifencei")
insn = RV32I.insn


@insn("imm[31:12] rd 0110111", "lui rd, imm>>12", "alu")
def lui(imm):
    """Load upper immediate: rd = imm, whose low 12 bits are zero."""
    return imm


@insn("imm[31:12] rd 0010111", "auipc rd, imm>>12", "alu")
def auipc(pc, imm):
    """Add upper immediate to pc: rd = pc + imm."""
    return pc + imm


@insn("imm[20|10:1|11|19:12] rd 1101111", "jal rd, pc+imm", "jump", writes="rd pc")
def jal(pc, size, imm):
    """Jump and link: rd = address of the next instruction; pc += imm."""
    return pc + size, pc + imm


@insn("imm[11:0] rs1 000 rd 1100111", "jalr rd, imm(rs1)", "jalr", writes="rd pc")
def jalr(pc, size, rs1, imm):
    """Jump and link register: rd = address of the next instruction; pc = (rs1 + imm) & ~1."""
    return pc + size, rs1 + imm & ~1


@insn("imm[12|10:5] rs2 rs1 000 imm[4:1|11] 1100011", "beq rs1, rs2, pc+imm", "branch", writes="pc")
def beq(pc, size, rs1, rs2, imm):
    """Branch if equal."""
    return pc + imm if rs1 == rs2 else pc + size


@insn("imm[12|10:5] rs2 rs1 001 imm[4:1|11] 1100011", "bne rs1, rs2, pc+imm", "branch", writes="pc")
def bne(pc, size, rs1, rs2, imm):
    """Branch if not equal."""
    return pc + imm if rs1 != rs2 else pc + size


@insn("imm[12|10:5] rs2 rs1 100 imm[4:1|11] 1100011", "blt rs1, rs2, pc+imm", "branch", writes="pc")
def blt(pc, size, rs1, rs2, imm):
    """Branch if less than (signed)."""
    return pc + imm if rs1 < rs2 else pc + size


@insn("imm[12|10:5] rs2 rs1 101 imm[4:1|11] 1100011", "bge rs1, rs2, pc+imm", "branch", writes="pc")
def bge(pc, size, rs1, rs2, imm):
    """Branch if greater than or equal (signed)."""
    return pc + imm if rs1 >= rs2 else pc + size


@insn(
    "imm[12|10:5] rs2 rs1 110 imm[4:1|11] 1100011", "bltu rs1, rs2, pc+imm", "branch", writes="pc"
)
def bltu(pc, size, rs1, rs2, imm):
    """Branch if less than (unsigned)."""
    return pc + imm if u32(rs1) < u32(rs2) else pc + size


@insn(
    "imm[12|10:5] rs2 rs1 111 imm[4:1|11] 1100011", "bgeu rs1, rs2, pc+imm", "branch", writes="pc"
)
def bgeu(pc, size, rs1, rs2, imm):
    """Branch if greater than or equal (unsigned)."""
    return pc + imm if u32(rs1) >= u32(rs2) else pc + size


@insn("imm[11:0] rs1 000 rd 0000011", "lb rd, imm(rs1)", "load", access="i8", writes="addr")
def lb(rs1, imm):
    """Load byte, sign-extended: rd = M[rs1 + imm]."""
    return rs1 + imm


@insn("imm[11:0] rs1 001 rd 0000011", "lh rd, imm(rs1)", "load", access="i16", writes="addr")
def lh(rs1, imm):
    """Load half-word, sign-extended: rd = M[rs1 + imm]."""
    return rs1 + imm


@insn("imm[11:0] rs1 010 rd 0000011", "lw rd, imm(rs1)", "load", access="i32", writes="addr")
def lw(rs1, imm):
    """Load word: rd = M[rs1 + imm]."""
    return rs1 + imm


@insn("imm[11:0] rs1 100 rd 0000011", "lbu rd, imm(rs1)", "load", access="u8", writes="addr")
def lbu(rs1, imm):
    """Load byte, zero-extended: rd = M[rs1 + imm]."""
    return rs1 + imm


@insn("imm[11:0] rs1 101 rd 0000011", "lhu rd, imm(rs1)", "load", access="u16", writes="addr")
def lhu(rs1, imm):
    """Load half-word, zero-extended: rd = M[rs1 + imm]."""
    return rs1 + imm


@insn(
    "imm[11:5] rs2 rs1 000 imm[4:0] 0100011",
    "sb rs2, imm(rs1)",
    "store",
    access="i8",
    writes="addr",
)
def sb(rs1, imm):
    """Store byte: M[rs1 + imm] = rs2[7:0]."""
    return rs1 + imm


@insn(
    "imm[11:5] rs2 rs1 001 imm[4:0] 0100011",
    "sh rs2, imm(rs1)",
    "store",
    access="i16",
    writes="addr",
)
def sh(rs1, imm):
    """Store half-word: M[rs1 + imm] = rs2[15:0]."""
    return rs1 + imm


@insn(
    "imm[11:5] rs2 rs1 010 imm[4:0] 0100011",
    "sw rs2, imm(rs1)",
    "store",
    access="i32",
    writes="addr",
)
def sw(rs1, imm):
    """Store word: M[rs1 + imm] = rs2."""
    return rs1 + imm


@insn("imm[11:0] rs1 000 rd 0010011", "addi rd, rs1, imm", "alu")
def addi(rs1, imm):
    """Add immediate: rd = rs1 + imm."""
    return rs1 + imm


@insn("imm[11:0] rs1 010 rd 0010011", "slti rd, rs1, imm", "alu")
def slti(rs1, imm):
    """Set if less than immediate (signed): rd = 1 if rs1 < imm, else 0."""
    return int(rs1 < imm)


@insn("imm[11:0] rs1 011 rd 0010011", "sltiu rd, rs1, imm", "alu")
def sltiu(rs1, imm):
    """Set if less than immediate (unsigned, imm sign-extended): rd = 1 if rs1 < imm, else 0."""
    return int(u32(rs1) < u32(imm))


@insn("imm[11:0] rs1 100 rd 0010011", "xori rd, rs1, imm", "alu")
def xori(rs1, imm):
    """Exclusive or with immediate: rd = rs1 ^ imm."""
    return rs1 ^ imm


@insn("imm[11:0] rs1 110 rd 0010011", "ori rd, rs1, imm", "alu")
def ori(rs1, imm):
    """Or with immediate: rd = rs1 | imm."""
    return rs1 | imm


@insn("imm[11:0] rs1 111 rd 0010011", "andi rd, rs1, imm", "alu")
def andi(rs1, imm):
    """And with immediate: rd = rs1 & imm."""
    return rs1 & imm


@insn("0000000 shamt[4:0] rs1 001 rd 0010011", "slli rd, rs1, shamt", "alu")
def slli(rs1, shamt):
    """Shift left logical by immediate: rd = rs1 << shamt."""
    return rs1 << shamt


@insn("0000000 shamt[4:0] rs1 101 rd 0010011", "srli rd, rs1, shamt", "alu")
def srli(rs1, shamt):
    """Shift right logical by immediate: rd = rs1 >> shamt, zeros shifted in."""
    return u32(rs1) >> shamt


@insn("0100000 shamt[4:0] rs1 101 rd 0010011", "srai rd, rs1, shamt", "alu")
def srai(rs1, shamt):
    """Shift right arithmetic by immediate: rd = rs1 >> shamt, sign bits shifted in."""
    return rs1 >> shamt


@insn("0000000 rs2 rs1 000 rd 0110011", "add rd, rs1, rs2", "alu")
def add(rs1, rs2):
    """Add: rd = rs1 + rs2."""
    return rs1 + rs2


@insn("0100000 rs2 rs1 000 rd 0110011", "sub rd, rs1, rs2", "alu")
def sub(rs1, rs2):
    """Subtract: rd = rs1 - rs2."""
    return rs1 - rs2


@insn("0000000 rs2 rs1 001 rd 0110011", "sll rd, rs1, rs2", "alu")
def sll(rs1, rs2):
    """Shift left logical: rd = rs1 << rs2[4:0]."""
    return rs1 << (rs2 & 31)


@insn("0000000 rs2 rs1 010 rd 0110011", "slt rd, rs1, rs2", "alu")
def slt(rs1, rs2):
    """Set if less than (signed): rd = 1 if rs1 < rs2, else 0."""
    return int(rs1 < rs2)


@insn("0000000 rs2 rs1 011 rd 0110011", "sltu rd, rs1, rs2", "alu")
def sltu(rs1, rs2):
    """Set if less than (unsigned): rd = 1 if rs1 < rs2, else 0."""
    return int(u32(rs1) < u32(rs2))


@insn("0000000 rs2 rs1 100 rd 0110011", "xor rd, rs1, rs2", "alu")
def xor(rs1, rs2):
    """Exclusive or: rd = rs1 ^ rs2."""
    return rs1 ^ rs2


@insn("0000000 rs2 rs1 101 rd 0110011", "srl rd, rs1, rs2", "alu")
def srl(rs1, rs2):
    """Shift right logical: rd = rs1 >> rs2[4:0], zeros shifted in."""
    return u32(rs1) >> (rs2 & 31)


@insn("0100000 rs2 rs1 101 rd 0110011", "sra rd, rs1, rs2", "alu")
def sra(rs1, rs2):
    """Shift right arithmetic: rd = rs1 >> rs2[4:0], sign bits shifted in."""
    return rs1 >> (rs2 & 31)


@insn("0000000 rs2 rs1 110 rd 0110011", "or rd, rs1, rs2", "alu")
def or_(rs1, rs2):
    """Or: rd = rs1 | rs2."""
    return rs1 | rs2


@insn("0000000 rs2 rs1 111 rd 0110011", "and rd, rs1, rs2", "alu")
def and_(rs1, rs2):
    """And: rd = rs1 & rs2."""
    return rs1 & rs2


@insn("fm[3:0] pred[3:0] succ[3:0] rs1 000 rd 0001111", "fence pred, succ", "fence", writes="")
def fence():
    """Order memory accesses. fm, rs1 and rd are ignored; fence.tso is fm 8, pred rw, succ rw."""


@insn("0000000 00000 00000 000 00000 1110011", "ecall", "system", writes="")
def ecall():
    """Environment call: trap with mcause 11 from machine mode, 8 from user mode."""


@insn("0000000 00001 00000 000 00000 1110011", "ebreak", "system", writes="")
def ebreak():
    """Breakpoint: trap with mcause 3, or enter debug mode if dcsr.ebreakm is set."""


@PRIVILEGED.insn("0011000 00010 00000 000 00000 1110011", "mret", "system", writes="")
def mret():
    """Return from a trap: pc = mepc; mstatus.MIE = MPIE; MPIE = 1; privilege = MPP."""


@PRIVILEGED.insn("0001000 00101 00000 000 00000 1110011", "wfi", "system", writes="")
def wfi():
    """Wait for interrupt: sleep until (mie & mip) is not zero."""


@ZIFENCEI.insn("imm[11:0] rs1 001 rd 0001111", "fence.i", "fencei", writes="")
def fence_i():
    """Order stores before fetches: flush prefetch buffer and cache. Fields are ignored."""
