"""RV32C: 16-bit abbreviations of common instructions. RV32FC: those of float loads and stores.

Source: RISC-V unprivileged manual, chapter "C Extension for Compressed Instructions", section
"RVC Instruction Set Listings".
"""

from isa.declare import Extension

RV32C = Extension("rv32c")
RV32FC = Extension("rv32fc")
c = RV32C.compressed
fc = RV32FC.compressed

# Quadrant 0
c("000 nzuimm[5:4|9:6|2|3] rd' 00", "c.addi4spn rd, sp, nzuimm", expands="addi rd, sp, nzuimm")
c("010 uimm[5:3] rs1' uimm[2|6] rd' 00", "c.lw rd, uimm(rs1)", expands="lw rd, uimm(rs1)")
c("110 uimm[5:3] rs1' uimm[2|6] rs2' 00", "c.sw rs2, uimm(rs1)", expands="sw rs2, uimm(rs1)")
fc("011 uimm[5:3] rs1' uimm[2|6] fd' 00", "c.flw fd, uimm(rs1)", expands="flw fd, uimm(rs1)")
fc("111 uimm[5:3] rs1' uimm[2|6] fs2' 00", "c.fsw fs2, uimm(rs1)", expands="fsw fs2, uimm(rs1)")

# Quadrant 1. c.nop with an immediate, c.addi by 0, c.li and c.lui to x0 are hints: they do nothing.
c("000 imm[5] 00000 imm[4:0] 01", "c.nop", expands="addi zero, zero, imm")
c("000 imm[5] rd!=0 imm[4:0] 01", "c.addi rd, imm", expands="addi rd, rd, imm")
c("001 imm[11|4|9:8|10|6|7|3:1|5] 01", "c.jal pc+imm", expands="jal ra, pc+imm")
c("010 imm[5] rd imm[4:0] 01", "c.li rd, imm", expands="addi rd, zero, imm")
c("011 nzimm[9] 00010 nzimm[4|6|8:7|5] 01", "c.addi16sp sp, nzimm", expands="addi sp, sp, nzimm")
c("011 nzimm[17] rd!=2 nzimm[16:12] 01", "c.lui rd, nzimm>>12", expands="lui rd, nzimm>>12")
c("100 0 00 rd' shamt[4:0] 01", "c.srli rd, shamt", expands="srli rd, rd, shamt")
c("100 0 01 rd' shamt[4:0] 01", "c.srai rd, shamt", expands="srai rd, rd, shamt")
c("100 imm[5] 10 rd' imm[4:0] 01", "c.andi rd, imm", expands="andi rd, rd, imm")
c("100 0 11 rd' 00 rs2' 01", "c.sub rd, rs2", expands="sub rd, rd, rs2")
c("100 0 11 rd' 01 rs2' 01", "c.xor rd, rs2", expands="xor rd, rd, rs2")
c("100 0 11 rd' 10 rs2' 01", "c.or rd, rs2", expands="or rd, rd, rs2")
c("100 0 11 rd' 11 rs2' 01", "c.and rd, rs2", expands="and rd, rd, rs2")
c("101 imm[11|4|9:8|10|6|7|3:1|5] 01", "c.j pc+imm", expands="jal zero, pc+imm")
c("110 imm[8|4:3] rs1' imm[7:6|2:1|5] 01", "c.beqz rs1, pc+imm", expands="beq rs1, zero, pc+imm")
c("111 imm[8|4:3] rs1' imm[7:6|2:1|5] 01", "c.bnez rs1, pc+imm", expands="bne rs1, zero, pc+imm")

# Quadrant 2. A shift by 0 and c.slli, c.mv, c.add to x0 are hints.
c("000 0 rd shamt[4:0] 10", "c.slli rd, shamt", expands="slli rd, rd, shamt")
c("010 uimm[5] rd!=0 uimm[4:2|7:6] 10", "c.lwsp rd, uimm(sp)", expands="lw rd, uimm(sp)")
c("100 0 rs1!=0 00000 10", "c.jr rs1", expands="jalr zero, 0(rs1)")
c("100 0 rd rs2!=0 10", "c.mv rd, rs2", expands="add rd, zero, rs2")
c("100 1 00000 00000 10", "c.ebreak", expands="ebreak")
c("100 1 rs1!=0 00000 10", "c.jalr rs1", expands="jalr ra, 0(rs1)")
c("100 1 rd rs2!=0 10", "c.add rd, rs2", expands="add rd, rd, rs2")
c("110 uimm[5:2|7:6] rs2 10", "c.swsp rs2, uimm(sp)", expands="sw rs2, uimm(sp)")
fc("011 uimm[5] fd uimm[4:2|7:6] 10", "c.flwsp fd, uimm(sp)", expands="flw fd, uimm(sp)")
fc("111 uimm[5:2|7:6] fs2 10", "c.fswsp fs2, uimm(sp)", expands="fsw fs2, uimm(sp)")
