"""XCVmem: loads and stores of CORE-V with post-increment and with register offset.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section
"Post-Increment Load & Store Instructions and Register-Register Load & Store Instructions".
"""

from isa.declare import Extension
from isa.extensions.xpulp.postmod import XPULPPOSTMOD

XCVMEM = Extension("xcvmem")
like = XCVMEM.like

# name, funct3 of the immediate form, bits 31:25 of post-increment and of register offset
LOADS = (
    ("lb", "000", "0000000", "0000100"),
    ("lbu", "100", "0001000", "0001100"),
    ("lh", "001", "0000001", "0000101"),
    ("lhu", "101", "0001001", "0001101"),
    ("lw", "010", "0000010", "0000110"),
)
STORES = (
    ("sb", "000", "0010000", "0010100"),
    ("sh", "001", "0010001", "0010101"),
    ("sw", "010", "0010010", "0010110"),
)

for name, funct3, post, indexed in LOADS:
    p_load, p_post = XPULPPOSTMOD[f"p_{name}"], XPULPPOSTMOD[f"p_{name}_rrpost"]
    p_indexed = XPULPPOSTMOD[f"p_{name}_rr"]
    like(f"imm[11:0] rs1 {funct3} rd 0001011", f"cv.{name} rd, (rs1), imm", p_load)
    row = f"{post} rs2 rs1 011 rd 0101011"
    like(row, f"cv.{name} rd, (rs1), rs2", p_post, key=f"cv_{name}_rrpost")
    row = f"{indexed} rs2 rs1 011 rd 0101011"
    like(row, f"cv.{name} rd, rs2(rs1)", p_indexed, key=f"cv_{name}_rr")

for name, funct3, post, indexed in STORES:
    p_store, p_post = XPULPPOSTMOD[f"p_{name}"], XPULPPOSTMOD[f"p_{name}_rrpost"]
    p_indexed = XPULPPOSTMOD[f"p_{name}_rr"]
    like(f"imm[11:5] rs2 rs1 {funct3} imm[4:0] 0101011", f"cv.{name} rs2, (rs1), imm", p_store)
    row = f"{post} rs2 rs1 011 rs3 0101011"
    like(row, f"cv.{name} rs2, (rs1), rs3", p_post, key=f"cv_{name}_rrpost")
    row = f"{indexed} rs2 rs1 011 rs3 0101011"
    like(row, f"cv.{name} rs2, rs3(rs1)", p_indexed, key=f"cv_{name}_rr")
