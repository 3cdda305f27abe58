"""Random programs of RV32IMFC: straight code with short jumps and branches forward.

Instructions are drawn from the declarations, operands at random. What must not be random is set up
by the code itself: base registers of loads and stores, targets of jumps, rounding modes.
"""

from dataclasses import dataclass, field
from random import Random

from isa.declare import Insn, Isa
from isa.encoding import Field
from isa.extensions.profiles import profile

ENTRY = 0x1C010000
SCRATCH = 0x1C100000
SIZE = 0x2000
"""Bytes of scratch memory; pointers start in its middle half."""

ISA: Isa = profile("ri5cy", "f")
EXTENSIONS = ("rv32i", "rv32m", "rv32c", "rv32f", "rv32fc", "zicsr", "zifencei")
LEAVE = ("ecall", "ebreak", "c_ebreak")
"""Instructions that leave the program."""

INSNS = tuple(
    insn
    for extension in ISA.extensions
    if extension.name in EXTENSIONS
    for insn in extension.insns
    if insn.key not in LEAVE
)
BY_REGISTER = ("jalr", "c_jr", "c_jalr")
JUMPS = ("jal", "c_j", "c_jal", *BY_REGISTER)
LINKS = {"c_jal": 1, "c_jalr": 1, "c_addi16sp": 2}
"""Registers that are written without being a field."""

INTEGERS = (0, 1, 2, 31, 32, -1, -2, 0x7FFFFFFF, -0x80000000, 0x8000, 0xFFFF, 0x55555555)
FLOATS = (
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40000000, 0x3F000000, 0x3FC00000),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0xFFA00000),
    *(0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00FFFFFF),
    *(0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4B800001, 0x4F000000, 0xCF000000, 0x4F7FFFFF),
    *(0x4EFFFFFF, 0x4F800000, 0xBF000000, 0x34000000, 0x1F800000, 0x5F800000),
)
"""Zeros, ones, infinities, NaNs, subnormals, largest, limits of integers and halves."""

FFLAGS, FRM, FCSR = 1, 2, 3
MSTATUS, FS = 0x300, 0x6000
EXIT = 0x1A1040A0


@dataclass
class RandomWords:
    """A program under construction.

    code        its bytes so far
    pointers    registers that hold an address in scratch memory, and which
    keys        of its instructions, by address
    """

    random: Random
    code: bytearray = field(default_factory=bytearray)
    pointers: dict[int, int] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)

    def emit(self, key: str, **operands: int) -> int:
        """Add an instruction; returns where it is."""
        insn, where = ISA[key], len(self.code)
        word = ISA.encode(insn, **operands)
        self.code += word.to_bytes(insn.encoding.size, "little")
        self.keys[ENTRY + where] = key
        for register in (operands.get("rd"), LINKS.get(key)):
            self.pointers.pop(register or 0, None)
        return where

    def load_immediate(self, register: int, value: int) -> None:
        """lui and addi: register = value."""
        low = (value & 0xFFF ^ 0x800) - 0x800
        high = (value - low & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
        self.emit("lui", rd=register, imm=high)
        self.emit("addi", rd=register, rs1=register, imm=low)

    def integer(self) -> int:
        random = self.random
        return random.choice(INTEGERS) if random.random() < 0.5 else random.getrandbits(32)

    def float(self) -> int:
        """A special pattern, any, or an ordinary number: these meet each other most fruitfully."""
        random = self.random
        kind = random.random()
        if kind < 0.45:
            return random.choice(FLOATS)
        if kind < 0.6:
            return random.getrandbits(32)
        fraction = random.getrandbits(23)
        return random.getrandbits(1) << 31 | random.randrange(110, 145) << 23 | fraction

    def any_value(self, part: Field) -> int:
        """An operand's value: registers evenly, immediates often at the limits."""
        random = self.random
        low, high = part.range
        if part.kind == "int" and random.random() < 0.2:
            return random.choice((low, high, low + part.step, high - part.step))
        return low + part.step * random.randrange((high - low) // part.step + 1)

    def operands(self, insn: Insn) -> dict[str, int]:
        """Random operands that are not reserved."""
        while True:
            operands = {name: self.any_value(part) for name, part in insn.encoding.fields.items()}
            try:
                ISA.encode(insn, **operands)
            except ValueError:
                continue
            return operands

    def refresh(self) -> None:
        """New values in registers: arithmetic alone ends in zeros and NaNs."""
        register = self.random.randrange(1, 32)
        if self.random.random() < 0.4:
            self.load_immediate(register, self.integer())
            return
        self.load_immediate(register, self.float())
        self.emit("fmv_w_x", fd=self.random.randrange(32), rs1=register)

    def point(self, register: int) -> int:
        """Let a register point into scratch memory."""
        if register not in self.pointers or self.random.random() < 0.1:
            address = SCRATCH + SIZE // 4 + self.random.randrange(SIZE // 2)
            self.load_immediate(register, address)
            self.pointers[register] = address
        return self.pointers[register]

    def access(self, insn: Insn) -> None:
        """A load or store in scratch memory."""
        operands = self.operands(insn)
        if "rs1" in operands:
            part = insn.encoding.fields["rs1"]
            known = [r for r in self.pointers if part.range[0] <= r <= part.range[1]]
            fresh = self.random.randrange(max(part.range[0], 1), part.range[1] + 1)
            operands["rs1"] = (
                self.random.choice(known) if known and self.random.random() < 0.8 else fresh
            )
        self.point(operands.get("rs1", 2))
        self.emit(insn.key, **operands)

    def csr(self, insn: Insn) -> None:
        """Access fflags, frm or fcsr; frm stays a rounding mode."""
        random = self.random
        operands = self.operands(insn) | {"csr": random.choice((FFLAGS, FRM, FCSR))}
        source = "uimm" if "uimm" in operands else "rs1"
        if operands["csr"] != FFLAGS and insn.key.startswith("csrrw"):
            mode, flags = random.randrange(5), random.getrandbits(5)
            value = mode if operands["csr"] == FRM else mode << 5 | flags
            if source == "uimm":
                operands["uimm"] = mode if operands["csr"] == FRM else flags
            else:
                operands["rs1"] = random.randrange(1, 32)
                self.load_immediate(operands["rs1"], value)
        elif operands["csr"] != FFLAGS and insn.key.startswith("csrrs"):
            operands[source] = 0
        self.emit(insn.key, **operands)

    def some(self, limit: int) -> None:
        """Up to that many instructions in a row, whose pointers may or may not have been set."""
        before = dict(self.pointers)
        for _ in range(self.random.randrange(limit + 1)):
            self.plain(self.random.choice(PLAIN))
        self.pointers = {r: a for r, a in self.pointers.items() if before.get(r) == a}

    def jump(self, insn: Insn) -> None:
        """A branch or jump forward, perhaps over some instructions."""
        operands = self.operands(insn)
        start = len(self.code)
        if insn.key in BY_REGISTER:
            register = operands["rs1"] = operands["rs1"] or 5
            self.emit("auipc", rd=register, imm=0)
            if insn.key != "jalr":
                self.emit("addi", rd=register, rs1=register, imm=0)
        name = "uimm" if "uimm" in operands else "imm"
        where = self.emit(insn.key, **(operands | ({name: 0} if name in operands else {})))
        self.some(2 if insn.key in JUMPS else 4)
        distance = len(self.code) - (start if insn.key in BY_REGISTER else where)
        distance += insn.key in BY_REGISTER and self.random.getrandbits(1)
        if insn.key in ("c_jr", "c_jalr"):
            self.patch(start + 4, "addi", rd=operands["rs1"], rs1=operands["rs1"], imm=distance)
        else:
            self.patch(where, insn.key, **(operands | {name: distance}))

    def patch(self, where: int, key: str, **operands: int) -> None:
        insn = ISA[key]
        size = insn.encoding.size
        self.code[where : where + size] = ISA.encode(insn, **operands).to_bytes(size, "little")

    def plain(self, insn: Insn) -> None:
        """One instruction that does not jump, with what it needs."""
        if insn in ACCESSES:
            self.access(insn)
        elif insn.timing == "csr":
            self.csr(insn)
        else:
            self.emit(insn.key, **self.operands(insn))

    def item(self) -> None:
        insn = self.random.choice(INSNS)
        if self.random.random() < 0.12:
            self.refresh()
        elif insn in BRANCHES:
            self.jump(insn)
        else:
            self.plain(insn)

    def start(self) -> None:
        """Switch the FPU on; random values everywhere."""
        self.load_immediate(5, FS)
        self.emit("csrrs", rd=0, rs1=5, csr=MSTATUS)
        for register in range(32):
            self.load_immediate(5, self.float())
            self.emit("fmv_w_x", fd=register, rs1=5)
        for register in range(1, 32):
            self.load_immediate(register, self.integer())

    def end(self) -> int:
        """Store what the end needs registers for, and fcsr; exit. Returns the exit's address."""
        self.load_immediate(2, SCRATCH)
        for register in (29, 30, 31):
            self.emit("sw", rs1=2, rs2=register, imm=4 * register)
        self.emit("csrrs", rd=31, rs1=0, csr=FCSR)
        self.load_immediate(29, -0x80000000)
        self.load_immediate(30, EXIT)
        where = self.emit("sw", rs1=30, rs2=29, imm=0)
        self.emit("jal", rd=0, imm=0)
        return ENTRY + where


ACCESSES = tuple(
    insn
    for insn in INSNS
    if insn.timing in ("load", "store") or insn.name.startswith(("c.lw", "c.sw", "c.flw", "c.fsw"))
)
BRANCHES = tuple(
    insn for insn in INSNS if insn.timing == "branch" or insn.key in (*JUMPS, "c_beqz", "c_bnez")
)
PLAIN = tuple(insn for insn in INSNS if insn not in BRANCHES)


@dataclass(frozen=True)
class Words:
    """A program: code for ENTRY, the address of its last store, what is at which address."""

    code: bytes
    exit: int
    keys: dict[int, str]


def random_words(seed: int, count: int) -> Words:
    """A program of about that many instructions; the same one for the same seed."""
    words = RandomWords(Random(seed))
    words.start()
    while len(words.code) < 4 * count:
        words.item()
    end = words.end()
    return Words(bytes(words.code), end, words.keys)
