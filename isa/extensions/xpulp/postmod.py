"""Xpulp loads and stores: post-increment by an immediate or a register, and register offset.

    p.lw rd, imm(rs1!)    rd = M[rs1]; rs1 += imm
    p.lw rd, rs2(rs1!)    rd = M[rs1]; rs1 += rs2
    p.lw rd, rs2(rs1)     rd = M[rs1 + rs2]

Where a load's rd is its rs1, the loaded value stays.

Source: RI5CY user manual, chapter "PULP Instruction Extensions", section "Post-Increment Load &
Store Instructions".
"""

from isa.declare import Extension

XPULPPOSTMOD = Extension("xpulppostmod")
insn = XPULPPOSTMOD.insn

# mnemonic, access, funct3 of the immediate form, funct7 of the register forms, meaning
LOADS = (
    ("p.lb", "i8", "000", "0000000", "Load byte, sign-extended"),
    ("p.lh", "i16", "001", "0001000", "Load half-word, sign-extended"),
    ("p.lw", "i32", "010", "0010000", "Load word"),
    ("p.lbu", "u8", "100", "0100000", "Load byte, zero-extended"),
    ("p.lhu", "u16", "101", "0101000", "Load half-word, zero-extended"),
)
# mnemonic, access, funct3 of the immediate form, funct3 of the register forms, meaning
STORES = (
    ("p.sb", "i8", "000", "100", "Store byte"),
    ("p.sh", "i16", "001", "101", "Store half-word"),
    ("p.sw", "i32", "010", "110", "Store word"),
)


def post_increment(rs1, offset):
    return rs1, rs1 + offset


def indexed(rs1, offset):
    return rs1 + offset


for name, access, funct3, funct7, what in LOADS:
    key = name.replace(".", "_")
    insn(
        f"imm[11:0] rs1 {funct3} rd 0001011",
        f"{name} rd, imm(rs1!)",
        "load",
        access=access,
        reads="rs1 imm",
        writes="addr rs1",
        doc=f"{what}, then advance the pointer: rd = M[rs1]; rs1 += imm.",
    )(post_increment)
    insn(
        f"{funct7} rs2 rs1 111 rd 0001011",
        f"{name} rd, rs2(rs1!)",
        "load",
        access=access,
        reads="rs1 rs2",
        writes="addr rs1",
        key=f"{key}_rrpost",
        doc=f"{what}, then advance the pointer: rd = M[rs1]; rs1 += rs2.",
    )(post_increment)
    insn(
        f"{funct7} rs2 rs1 111 rd 0000011",
        f"{name} rd, rs2(rs1)",
        "load",
        access=access,
        reads="rs1 rs2",
        writes="addr",
        key=f"{key}_rr",
        doc=f"{what}: rd = M[rs1 + rs2].",
    )(indexed)

for name, access, funct3, register_funct3, what in STORES:
    key = name.replace(".", "_")
    insn(
        f"imm[11:5] rs2 rs1 {funct3} imm[4:0] 0101011",
        f"{name} rs2, imm(rs1!)",
        "store",
        access=access,
        reads="rs1 imm",
        writes="addr rs1",
        doc=f"{what}, then advance the pointer: M[rs1] = rs2; rs1 += imm.",
    )(post_increment)
    insn(
        f"0000000 rs2 rs1 {register_funct3} rs3 0101011",
        f"{name} rs2, rs3(rs1!)",
        "store",
        access=access,
        reads="rs1 rs3",
        writes="addr rs1",
        key=f"{key}_rrpost",
        doc=f"{what}, then advance the pointer: M[rs1] = rs2; rs1 += rs3.",
    )(post_increment)
    insn(
        f"0000000 rs2 rs1 {register_funct3} rs3 0100011",
        f"{name} rs2, rs3(rs1)",
        "store",
        access=access,
        reads="rs1 rs3",
        writes="addr",
        key=f"{key}_rr",
        doc=f"{what}: M[rs1 + rs3] = rs2.",
    )(indexed)
