"""Turns instructions into decoded rows: what the pipeline needs to know of each, prepared once.

Sources: the timing of RI5CY and CV32E40P as measured on RTL (rules A to Y), each named below.
"""

from struct import Struct

from isa.compiled import IMMEDIATE_COLUMNS, SINK, immediates
from isa.declare import Decoded, Insn, Isa
from isa.extensions.flex_v import ALWAYS_WRONG
from soc.core.csr_numbers import MODES, csr_cost
from soc.core.float_state import FLOATS_CLEAN, FLOATS_OFF, FRM_LATE, NO_ROUNDING
from soc.core.stack_check import MOVES_SP, SP
from soc.prelude.decoded import (
    ALU,
    BRANCH,
    COUNTED,
    CSR,
    DIVIDE,
    DIVIDE_UNSIGNED,
    DIVISION,
    ELW,
    FDIV,
    FENCE,
    FENCE_I,
    FLOAT_FORMATS,
    FPU,
    FSQRT,
    HWLOOP,
    ILLEGAL,
    JALR,
    JUMP,
    LOAD,
    MARKER,
    MULTICYCLE,
    NEXT_OFFSET,
    POST_INCREMENT,
    REPLICATED,
    STORE,
    SYSTEM,
    TO_NEXT,
    VECTOR,
    WRITES_ALU,
)
from soc.prelude.records import ROW

WRONG_ON_RTL = 32
"""In `checks`, but no check of a hart's: RI5CY's RTL computes something else than the ISA says."""

DIVISIONS = ("fdiv", "fsqrt")
OPERATIONS = ("fpu", *DIVISIONS)
"""Timing classes of what the FPU does."""

SUMS = ("fadd", "fsub", "vfadd", "vfsub")
"""Mnemonics, but for the format, of what has rs2 as operand C."""

C_IS_NOT_X0 = ("store", "branch", "div", "divu", "csr", "fence", "fencei", "system")
"""Timing classes of instructions whose operand C is not x0 by default: see rule V."""

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


# Memory accesses: width in the low bits, then how the value is extended.
ACCESSES = {"i8": 1, "i16": 2, "i32": 4, "u8": 1 | 8, "u16": 2 | 8, "f8": 1 | 16, "f16": 2 | 16}

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

    def __init__(
        self,
        isa: Isa,
        *,
        f_registers: bool,
        fpu_latency: int,
        ri5cy: bool,
        divides: bool = True,
        apu_wop: int | None = None,
    ):
        """See CoreSpec for the fields; apu_wop is None where floats are as the ISA says."""
        self.isa = isa
        self.f_base = 32 if f_registers else 0
        self.fpu_latency = fpu_latency
        self.ri5cy = ri5cy
        self.divides, self.apu_wop = divides, apu_wop
        self.knows_wrong = ri5cy and apu_wop is None
        self.numbers = {insn.key: number for number, insn in enumerate(isa.insns, start=1)}

    def row(self, word: int) -> tuple[bytes, Decoded | None]:
        """Decode a word: the row as bytes of ROW; an illegal word becomes a row that traps."""
        row = dict.fromkeys(FIELDS, 0)
        row["word"] = word & 0xFFFF if word & 3 != 3 else word
        row["size"] = 4 if word & 3 == 3 else 2
        decoded = self.isa.decode(row["word"])
        if decoded and decoded.insn.timing in DIVISIONS and not self.divides:
            decoded = None
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
        is_operation = insn.timing in OPERATIONS  # it may write flags
        asks_frm = operands.get("rm") == DYNAMIC or "frm" in insn.reads
        checks = NO_ROUNDING | FRM_LATE if asks_frm else 0
        if self.knows_wrong and insn.name in ALWAYS_WRONG:
            checks |= WRONG_ON_RTL
        if self.f_base and not self.ri5cy:
            if is_operation or any(name in operands for name in (*F_FIELDS, "fd")):
                checks |= FLOATS_OFF
            if is_operation or "fd" in operands:
                checks |= FLOATS_CLEAN
        return checks

    def _access(self, insn: Insn) -> int:
        if insn.timing == "csr":
            return IMMEDIATE_OPERAND if "uimm" in insn.encoding.fields else 0
        if insn.timing in DIVISIONS:
            return self._division_operands(insn.name)
        return ACCESSES[insn.access] if insn.access else 0

    def _division_operands(self, name: str) -> int:
        operands = FLOAT_FORMATS[name.rpartition(".")[2]]
        if name.startswith("v") and self.apu_wop != 6:
            operands |= VECTOR | (REPLICATED if ".r." in name else 0)
        return operands

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

        Measured on RTL: an ALU instruction that overwrites a load's destination right after it
        waits too, x0 included; after an FPU operation, loads do as well. Rules B and G.
        """
        sources = {
            self._entry(name, operands)
            for name in (*X_FIELDS, *F_FIELDS)
            if name in operands and (name in insn.reads or name in ("rs2", "fs2"))
        }
        if "rd" in insn.reads or "fd" in insn.reads:
            sources.add(self._entry("rd" if "rd" in operands else "fd", operands))
        target = next((self._entry(n, operands) for n in ("rd", "fd") if n in operands), None)
        uses_load = sum(1 << entry for entry in sources if entry)
        uses_fpu = uses_load | self._uses_of_x0(insn, operands, sources)
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

        Of unary operations (rule B), set-up instructions of hardware loops (rule G) and CV32E40P's
        fences; RI5CY's are not held up (rule X).
        """
        word = row["word"]
        if insn.timing == "hwloop" or insn.timing in ("fence", "fencei") and not self.ri5cy:
            return 1 << (word >> 15 & 31) | 1 << (word >> 20 & 31)
        is_move = insn.name.startswith(("fmv.", "vfmv."))
        if insn.timing in OPERATIONS and "fs2" not in insn.encoding.fields and not is_move:
            return 1 << (word >> 20 & 31) + self.f_base
        return 0

    def _uses_of_x0(self, insn: Insn, operands: dict[str, int], sources: set[int]) -> int:
        """Bit of x0, if a result of the FPU that is thrown away there holds the instruction up.

        RI5CY compares register numbers, x0 included, and reads x0 where it needs no operand C
        (rule V).
        """
        if not self.ri5cy or insn.timing in ("fence", "fencei"):
            return 0
        has_c = {"rd", "fd", "rs3", "fs3"} & {*insn.reads} or insn.name.split(".")[0] in SUMS
        by_default = insn.timing not in C_IS_NOT_X0 and not has_c
        return 1 if by_default or 0 in sources else 0
