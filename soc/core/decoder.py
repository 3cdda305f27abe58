"""Decoded rows: what the pipeline needs to know of each instruction, prepared once.

Sources: the timing of RI5CY and CV32E40P as measured on RTL (rules A to U), each named below.
"""

from struct import Struct

from isa.compiled import IMMEDIATE_COLUMNS, SINK, immediates
from isa.declare import Decoded, Insn, Isa
from soc.csr_numbers import MODES, csr_cost
from soc.float_state import FLOATS_CLEAN, FLOATS_OFF, NO_ROUNDING
from soc.stack_check import MOVES_SP, SP
from soc.state import ROW

# Kinds of rows: what the pipeline does with an instruction.
UNDECODED = 0
ALU = 1
LOAD = 2
STORE = 3
FPU = 4
BRANCH = 5
JUMP = 6
HWLOOP = 7
MULTICYCLE = 8  # mulh*: a fixed number of cycles in EX
DIVIDE = 9  # signed
DIVIDE_UNSIGNED = 10
JALR = 11  # this and the following: more than the hazards decides when they issue
CSR = 12
FDIV = 13
FSQRT = 14
FENCE = 15
FENCE_I = 16
ELW = 17
SYSTEM = 18
ILLEGAL = 19
CUT_OFF = 20  # 32 bits long, of which the upper half lies past the end of code memory

KINDS = {
    "alu": ALU,
    "mul": ALU,
    "mulh": MULTICYCLE,
    "div": DIVIDE,
    "divu": DIVIDE_UNSIGNED,
    "load": LOAD,
    "store": STORE,
    "elw": ELW,
    "branch": BRANCH,
    "jump": JUMP,
    "jalr": JALR,
    "hwloop": HWLOOP,
    "csr": CSR,
    "fence": FENCE,
    "fencei": FENCE_I,
    "system": SYSTEM,
    "fpu": FPU,
    "fdiv": FDIV,
    "fsqrt": FSQRT,
}

# Flags of rows.
LOOP_END = 1  # some hart has set a hardware loop that ends here
MARKER = 2  # slti x0, x0, n: opens or closes a region
BEFORE_LOOP_END = 4  # the next instruction may be one
LOOP_HINTS = LOOP_END | BEFORE_LOOP_END  # they may be there without such a loop
WRITES_ALU = 8  # the result goes through the ALU's write port
POST_INCREMENT = 16
COUNTED = 32  # counts as an instruction retired
DIVISION = 64
TO_NEXT = 128  # branch to the next instruction: its offset is stored as NEXT_OFFSET

NEXT_OFFSET = 1 << 28
"""Stands for the offset of a branch to the next instruction, to tell taken from not taken."""

# Memory accesses: width in the low bits, then how the value is extended.
ACCESSES = {"i8": 1, "i16": 2, "i32": 4, "u8": 1 | 8, "u16": 2 | 8, "f8": 1 | 16, "f16": 2 | 16}
WIDTH = 7
ZERO_EXTEND = 8
BOX = 16

IMMEDIATE_OPERAND = 1  # of CSR instructions

SYSTEM_OPS = {"ecall": 1, "ebreak": 2, "mret": 3, "uret": 4, "dret": 5, "wfi": 6}

DYNAMIC = 7
"""The rounding mode of an instruction that asks for that in frm."""

MULH_CYCLES = 5
FENCE_CYCLES = 4

ALU_WRITERS = frozenset("alu mul mulh div divu jump jalr csr".split())
FIELDS = ROW.names or ()
FIELDS_AS_BYTES = Struct("=" + "".join(ROW[name].char for name in FIELDS).replace("L", "Q"))

Row = dict[str, int]
"""The fields of a row by name."""

X_FIELDS = ("rs1", "rs2", "rs3")
F_FIELDS = ("fs1", "fs2", "fs3")


class RowDecoder:
    """Turns decoded instructions into rows for one chip."""

    def __init__(self, isa: Isa, *, f_registers: bool, fpu_latency: int, ri5cy: bool):
        self.isa = isa
        self.f_base = 32 if f_registers else 0
        self.fpu_latency = fpu_latency
        self.ri5cy = ri5cy
        self.numbers = {insn.key: number for number, insn in enumerate(isa.insns, start=1)}

    def row(self, word: int) -> tuple[bytes, Decoded | None]:
        """Decode a word: the row as bytes of ROW; an illegal word becomes a row that traps."""
        row = dict.fromkeys(FIELDS, 0)
        row["word"] = word & 0xFFFF if word & 3 != 3 else word
        row["size"] = 4 if word & 3 == 3 else 2
        decoded = self.isa.decode(row["word"])
        if decoded is None:
            row["kind"] = ILLEGAL
        else:
            self._fill(row, decoded)
        return FIELDS_AS_BYTES.pack(*row.values()), decoded

    def _fill(self, row: Row, decoded: Decoded) -> None:
        insn, operands = decoded.insn, decoded.operands
        row["op"] = self.numbers[insn.key]
        row["kind"] = KINDS[insn.timing]
        self._registers(row, insn, operands)
        for column, name in zip(IMMEDIATE_COLUMNS, immediates(insn), strict=False):
            row[column] = operands[name]
            if insn.timing == "branch" and name == "imm" and operands[name] == row["size"]:
                row[column] = NEXT_OFFSET
                row["flags"] |= TO_NEXT
        row["loop"] = MODES[insn.key] if insn.timing == "csr" else operands.get("L", 0)
        row["rm"] = operands.get("rm", 0)
        row["checks"] = self._checks(insn, operands) | self._moves_sp(row, insn)
        row["access"] = self._access(insn)
        row["cost"] = self._cost(insn, operands)
        row["flags"] |= self._flags(insn, operands)
        self._hazards(row, insn, operands)

    def _moves_sp(self, row: Row, insn: Insn) -> int:
        reads = any(name in insn.reads for name in (*X_FIELDS, *F_FIELDS))
        return MOVES_SP if row["rp"] == SP or (row["wd"] == SP and reads) else 0

    def _checks(self, insn: Insn, operands: dict[str, int]) -> int:
        checks = NO_ROUNDING if operands.get("rm") == DYNAMIC else 0
        is_operation = insn.timing in ("fpu", "fdiv", "fsqrt")  # it may write flags
        if self.f_base and not self.ri5cy:
            if is_operation or any(name in operands for name in (*F_FIELDS, "fd")):
                checks |= FLOATS_OFF
            if is_operation or "fd" in operands:
                checks |= FLOATS_CLEAN
        return checks

    def _access(self, insn: Insn) -> int:
        if insn.timing == "csr":
            return IMMEDIATE_OPERAND if "uimm" in insn.encoding.fields else 0
        return ACCESSES[insn.access] if insn.access else 0

    def _entry(self, name: str, operands: dict[str, int]) -> int:
        number = operands[name]
        return number + self.f_base if name.startswith("f") else number

    def _registers(self, row: Row, insn: Insn, operands: dict[str, int]) -> None:
        row["rd"] = row["rp"] = row["wd"] = SINK
        for name in (*X_FIELDS, *F_FIELDS):
            if name in operands:
                row["r" + name[1:] if name[0] == "f" else name] = self._entry(name, operands)
        for name in ("rd", "fd"):
            if name in operands and (name in insn.writes or insn.timing in ("load", "elw")):
                row["rd"] = self._entry(name, operands) or SINK
                if insn.timing not in ("load", "elw", "csr"):
                    row["wd"] = row["rd"]
        if "rs1" in insn.writes:
            row["rp"] = operands["rs1"] or SINK

    def _cost(self, insn: Insn, operands: dict[str, int]) -> int:
        if insn.timing == "mulh":
            return MULH_CYCLES
        if insn.timing == "csr":
            return csr_cost(insn.key, operands, self.ri5cy)
        if insn.timing == "system":
            return SYSTEM_OPS[insn.key]
        return 1

    def _flags(self, insn: Insn, operands: dict[str, int]) -> int:
        flags = 0 if insn.timing in ("fence", "fencei") and self.ri5cy else COUNTED
        if insn.key == "slti" and operands["rd"] == 0 and operands["rs1"] == 0:
            flags |= MARKER if operands["imm"] >= 0 else 0
        if insn.timing in ALU_WRITERS:
            flags |= WRITES_ALU
        if "rs1" in insn.writes:
            flags |= POST_INCREMENT
        if insn.timing in ("div", "divu"):
            flags |= DIVISION
        return flags

    def _hazards(self, row: Row, insn: Insn, operands: dict[str, int]) -> None:
        """Which late results it waits for, and what it delivers late itself.

        Measured on RTL: an ALU instruction that overwrites a load's destination right behind it
        waits too, x0 included; behind an FPU operation, loads do as well. Rules B and G.
        """
        sources = {
            self._entry(name, operands)
            for name in (*X_FIELDS, *F_FIELDS)
            if name in operands and (name in insn.reads or name in ("rs2", "fs2"))
        }
        if "rd" in insn.reads or "fd" in insn.reads:
            sources.add(self._entry("rd" if "rd" in operands else "fd", operands))
        target = next((self._entry(n, operands) for n in ("rd", "fd") if n in operands), None)
        uses = sum(1 << entry for entry in sources if entry)
        uses_load = uses_fpu = uses
        if target is not None and insn.timing in ALU_WRITERS:
            uses_load |= 1 << target
            uses_fpu |= 1 << target
        if target is not None and insn.timing in ("load", "elw"):
            uses_fpu |= 1 << target
        uses_fpu |= self._matched_fields(row, insn)
        row["uses_load"], row["uses_fpu"] = uses_load, uses_fpu
        if insn.timing in ("load", "elw") and target is not None:
            row["late_load"] = 1 << target
        returns_late = insn.timing == "fpu" and self.fpu_latency or insn.timing in ("fdiv", "fsqrt")
        if returns_late and target is not None:
            row["late_fpu"] = 1 << target

    def _matched_fields(self, row: Row, insn: Insn) -> int:
        """Fields that are compared with the FPU's destination although they are no operands.

        Of unary operations (rule B), set-up instructions of hardware loops (rule G) and fences.
        """
        word = row["word"]
        if insn.timing in ("hwloop", "fence", "fencei"):
            return 1 << (word >> 15 & 31) | 1 << (word >> 20 & 31)
        if insn.key in ("fcvt_w_s", "fcvt_wu_s", "fcvt_s_w", "fcvt_s_wu", "fclass_s", "fsqrt_s"):
            return 1 << (word >> 20 & 31) + self.f_base
        return 0
