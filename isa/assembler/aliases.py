"""Pseudo-instructions that stand for one instruction: other ways to write it.

Left: what is written, with fields of the instruction on the right. The disassembler prints the
first row that fits a word; rows of SPELLINGS are only read.

Sources: RISC-V assembly programmer's manual, "Pseudoinstructions"; GNU binutils, riscv-opc.c.
"""

ALIASES = {
    "nop": "addi zero, zero, 0",
    "li rd, imm": "addi rd, zero, imm",
    "mv rd, rs1": "addi rd, rs1, 0",
    "not rd, rs1": "xori rd, rs1, -1",
    "zext.b rd, rs1": "andi rd, rs1, 255",
    "neg rd, rs2": "sub rd, zero, rs2",
    "seqz rd, rs1": "sltiu rd, rs1, 1",
    "snez rd, rs2": "sltu rd, zero, rs2",
    "sltz rd, rs1": "slt rd, rs1, zero",
    "sgtz rd, rs2": "slt rd, zero, rs2",
    "beqz rs1, pc+imm": "beq rs1, zero, pc+imm",
    "bnez rs1, pc+imm": "bne rs1, zero, pc+imm",
    "blez rs2, pc+imm": "bge zero, rs2, pc+imm",
    "bgez rs1, pc+imm": "bge rs1, zero, pc+imm",
    "bltz rs1, pc+imm": "blt rs1, zero, pc+imm",
    "bgtz rs2, pc+imm": "blt zero, rs2, pc+imm",
    "j pc+imm": "jal zero, pc+imm",
    "ret": "jalr zero, 0(ra)",
    "jr rs1": "jalr zero, 0(rs1)",
    "jalr rs1": "jalr ra, 0(rs1)",
    "fence": "fence 15, 15",
    "unimp": "csrrw zero, cycle, zero",
    "rdcycle rd": "csrrs rd, cycle, zero",
    "rdcycleh rd": "csrrs rd, cycleh, zero",
    "rdtime rd": "csrrs rd, time, zero",
    "rdtimeh rd": "csrrs rd, timeh, zero",
    "rdinstret rd": "csrrs rd, instret, zero",
    "rdinstreth rd": "csrrs rd, instreth, zero",
    "frflags rd": "csrrs rd, fflags, zero",
    "frrm rd": "csrrs rd, frm, zero",
    "frcsr rd": "csrrs rd, fcsr, zero",
    "fsflags rs1": "csrrw zero, fflags, rs1",
    "fsrm rs1": "csrrw zero, frm, rs1",
    "fscsr rs1": "csrrw zero, fcsr, rs1",
    "fsflagsi uimm": "csrrwi zero, fflags, uimm",
    "fsrmi uimm": "csrrwi zero, frm, uimm",
    "fsflags rd, rs1": "csrrw rd, fflags, rs1",
    "fsrm rd, rs1": "csrrw rd, frm, rs1",
    "fscsr rd, rs1": "csrrw rd, fcsr, rs1",
    "fsflagsi rd, uimm": "csrrwi rd, fflags, uimm",
    "fsrmi rd, uimm": "csrrwi rd, frm, uimm",
    "csrr rd, csr": "csrrs rd, csr, zero",
    "csrw csr, rs1": "csrrw zero, csr, rs1",
    "csrs csr, rs1": "csrrs zero, csr, rs1",
    "csrc csr, rs1": "csrrc zero, csr, rs1",
    "csrwi csr, uimm": "csrrwi zero, csr, uimm",
    "csrsi csr, uimm": "csrrsi zero, csr, uimm",
    "csrci csr, uimm": "csrrci zero, csr, uimm",
}
for _format in ("s", "h", "ah", "b"):
    ALIASES |= {
        f"fmv.{_format} fd, fs1": f"fsgnj.{_format} fd, fs1, fs1",
        f"fneg.{_format} fd, fs1": f"fsgnjn.{_format} fd, fs1, fs1",
        f"fabs.{_format} fd, fs1": f"fsgnjx.{_format} fd, fs1, fs1",
    }

SPELLINGS = {
    "bgt rs2, rs1, pc+imm": "blt rs1, rs2, pc+imm",
    "ble rs2, rs1, pc+imm": "bge rs1, rs2, pc+imm",
    "bgtu rs2, rs1, pc+imm": "bltu rs1, rs2, pc+imm",
    "bleu rs2, rs1, pc+imm": "bgeu rs1, rs2, pc+imm",
    "sgt rd, rs2, rs1": "slt rd, rs1, rs2",
    "sgtu rd, rs2, rs1": "sltu rd, rs1, rs2",
    "jal pc+imm": "jal ra, pc+imm",
    "jr imm(rs1)": "jalr zero, imm(rs1)",
    "jalr imm(rs1)": "jalr ra, imm(rs1)",
    "jalr rd, rs1": "jalr rd, 0(rs1)",
    "jalr rd, rs1, imm": "jalr rd, imm(rs1)",
    "csrw csr, uimm": "csrrwi zero, csr, uimm",
    "csrs csr, uimm": "csrrsi zero, csr, uimm",
    "csrc csr, uimm": "csrrci zero, csr, uimm",
    "csrrw rd, csr, uimm": "csrrwi rd, csr, uimm",
    "csrrs rd, csr, uimm": "csrrsi rd, csr, uimm",
    "csrrc rd, csr, uimm": "csrrci rd, csr, uimm",
    "fmv.x.s rd, fs1": "fmv.x.w rd, fs1",
    "fmv.s.x fd, rs1": "fmv.w.x fd, rs1",
    "fgt.s rd, fs2, fs1": "flt.s rd, fs1, fs2",
    "fge.s rd, fs2, fs1": "fle.s rd, fs1, fs2",
}
for _name in ("add", "and", "or", "xor", "slt"):
    SPELLINGS[f"{_name} rd, rs1, imm"] = f"{_name}i rd, rs1, imm"
SPELLINGS["sltu rd, rs1, imm"] = "sltiu rd, rs1, imm"
for _name in ("sll", "srl", "sra"):
    SPELLINGS[f"{_name} rd, rs1, shamt"] = f"{_name}i rd, rs1, shamt"

# GNU's assembler for Xpulp takes base instructions with their names prefixed, too.
for _name in ("lb", "lbu", "lh", "lhu", "lw"):
    SPELLINGS[f"p.{_name} rd, imm(rs1)"] = f"{_name} rd, imm(rs1)"
for _name in ("sb", "sh", "sw"):
    SPELLINGS[f"p.{_name} rs2, imm(rs1)"] = f"{_name} rs2, imm(rs1)"
for _name in ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"):
    SPELLINGS[f"p.{_name} rd, rs1, rs2"] = f"{_name} rd, rs1, rs2"
for _name in ("extract", "extractu", "insert", "bclr", "bset"):
    SPELLINGS[f"p.{_name}i rd, rs1, Is3, Is2"] = f"p.{_name} rd, rs1, Is3, Is2"
for _name in ("clip", "clipu"):
    SPELLINGS[f"p.{_name}i rd, rs1, Is2"] = f"p.{_name} rd, rs1, Is2"
for _name in ("addN", "adduN", "addRN", "adduRN", "subN", "subuN", "subRN", "subuRN"):
    SPELLINGS[f"p.{_name}i rd, rs1, rs2, Is3"] = f"p.{_name} rd, rs1, rs2, Is3"
