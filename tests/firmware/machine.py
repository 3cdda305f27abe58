"""The platform without time: programs run by the meanings of isa/, cores in turn up to a barrier.

Knows the registers that the runtime and the drivers use; anything else is an error. Memory that
nothing has written holds PATTERN.
"""

from isa.assembler.names import CSRS, RI5CY_CSRS, has_float_registers
from isa.declare import Decoded, Isa
from isa.program import Program

PATTERN = 0xA5
CONTROLLER = 31 << 5
L1, L1_SIZE = 0x10000000, 1 << 16
L2, L2_SIZE = 0x1C000000, 1 << 21
BARRIER_WAIT, EVENT_WAIT, DMA_EVENT = 0x1020421C, 0x1020403C, 1 << 8
DMA_COMMAND, DMA_STATUS = 0x10204400, 0x10204404
BOOT, FETCH_ENABLE, EXIT, STDOUT = 0x10200040, 0x10200008, 0x1A1040A0, 0x1A10F000
SILENT = (0x1A108800, 0x10201400, 0x10204000, 0x10204200, 0x1020420C)  # stores that only set up
LOOP_START = RI5CY_CSRS["lpstart0"]
STACK_CHECKER = [RI5CY_CSRS[name] for name in ("stack_conf", "stack_start", "stack_end")]
WIDTHS = {"i8": (1, True), "u8": (1, False), "i16": (2, True), "u16": (2, False), "i32": (4, True)}
MSTATUS_FS = 0x6000
DYNAMIC = 7  # rounding mode: the one in frm
TURN = 500  # instructions of a hart before others go on: it may wait for what they store
SENTINEL = 0x00BADBAD  # what registers hold at reset: nothing may rely on zeros


def signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Hart:
    def __init__(self, number: int, pc: int) -> None:
        self.number, self.pc = number, pc
        self.x, self.f = [0] + [SENTINEL] * 31, [SENTINEL] * 32
        self.loops = [[0, 0, 0], [0, 0, 0]]  # start, end, count
        self.is_asleep = self.is_at_barrier = self.has_floats = False
        self.command: list[int] = []  # of the DMA, as far as it is stored

    @property
    def waits(self) -> bool:
        return self.is_asleep or self.is_at_barrier


class Machine:
    """Runs a program to its exit; cores that did not ask for it go on until they sleep.

    code       exit code
    printed    bytes
    retired    instructions, by hart number
    """

    def __init__(self, program: Program, isa: Isa) -> None:
        self.isa = isa
        self.memories = {L1: bytearray([PATTERN]) * L1_SIZE, L2: bytearray([PATTERN]) * L2_SIZE}
        for segment in program.segments:
            self.write(segment.address, segment.data)
        self.f_registers = has_float_registers(isa)
        self.has_float_state = self.f_registers and isa.name.startswith("cv32e40p")
        self.harts = [Hart(CONTROLLER, program.entry)]
        self.boot: dict[int, int] = {}
        self.code: int | None = None
        self.printed = bytearray()
        self.retired: dict[int, int] = {}

    def read(self, address: int, size: int) -> bytes:
        memory, start = self._place(address, size)
        return bytes(memory[start : start + size])

    def write(self, address: int, data: bytes) -> None:
        memory, start = self._place(address, len(data))
        memory[start : start + len(data)] = data

    def _place(self, address: int, size: int) -> tuple[bytearray, int]:
        for base, memory in self.memories.items():
            if base <= address and address + size <= base + len(memory):
                return memory, address - base
        raise AssertionError(f"access of {size} bytes at {address:#010x}")

    def run(self) -> "Machine":
        while self.code is None:
            while any(not hart.waits for hart in self.harts):
                for hart in self.harts:
                    for _ in range(TURN):
                        if hart.waits:
                            break
                        self._step(hart)
            cores = self.harts[1:]
            assert self.code is not None or all(h.is_at_barrier for h in cores), "deadlock"
            for hart in cores:
                hart.is_at_barrier = False
        return self

    def _step(self, hart: Hart) -> None:
        word = int.from_bytes(self.read(hart.pc, 4), "little")
        decoded = self.isa.decode(word if word & 3 == 3 else word & 0xFFFF)
        assert decoded is not None, f"illegal {word:#010x} at {hart.pc:#010x}"
        self.retired[hart.number] = self.retired.get(hart.number, 0) + 1
        here, hart.pc = hart.pc, hart.pc + decoded.size
        self._execute(hart, decoded, here)
        for loop in hart.loops:
            end = here if self.isa.loop_end == "last" else here + decoded.size
            if loop[2] and end == loop[1]:
                loop[2] -= 1
                if loop[2]:
                    hart.pc = loop[0]
                    break

    def _execute(self, hart: Hart, decoded: Decoded, here: int) -> None:
        insn, operands = decoded.insn, decoded.operands
        if insn.timing == "system":
            assert insn.key == "wfi"
            hart.is_asleep = True
            return
        if insn.timing == "csr":
            if operands["csr"] == CSRS["mstatus"]:
                hart.has_floats = hart.x[operands["rs1"]] & MSTATUS_FS != 0
            elif operands["csr"] == LOOP_START:
                hart.loops[0][0] = hart.x[operands["rs1"]] & 0xFFFFFFFF
            elif operands["csr"] not in STACK_CHECKER:
                assert (operands["csr"], operands["rs1"]) == (CSRS["mhartid"], 0)
                self._set(hart, "rd", operands, hart.number)
            return
        uses_floats = any(name in operands for name in ("fs1", "fs2", "fs3", "fd"))
        assert hart.has_floats or not (uses_floats and self.has_float_state), "mstatus.FS is off"
        floats = hart.f if self.f_registers else hart.x
        values = {"pc": here, "size": decoded.size, "rm": 0, "frm": 0, "boxed": self.f_registers}
        values |= {n: v for n, v in operands.items() if n != "rm" or v != DYNAMIC}
        values |= {n: hart.x[operands[n]] for n in ("rs1", "rs2", "rs3", "rd") if n in operands}
        values |= {n: floats[operands[n]] for n in ("fs1", "fs2", "fs3", "fd") if n in operands}
        results = insn.function(*(values[name] for name in insn.reads))
        results = results if isinstance(results, tuple) else (results,)
        written = dict(zip(insn.writes, results, strict=True))
        for token in ("rs1", "rd", "fd"):
            if token in written:
                self._set(hart, token, operands, written[token])
        if "pc" in written:
            hart.pc = written["pc"] & 0xFFFFFFFF
        for index, token in enumerate(("lp_start", "lp_end", "lp_count")):
            if token in written:
                hart.loops[operands["L"]][index] = written[token] & 0xFFFFFFFF
        if insn.timing == "store":
            data = values["rs2"] if "rs2" in operands and "fs2" not in operands else values["fs2"]
            self._store(written["addr"] & 0xFFFFFFFF, data, WIDTHS[insn.access][0], hart)
        elif insn.timing in ("load", "elw"):
            value = self._load(written["addr"] & 0xFFFFFFFF, *WIDTHS[insn.access], hart)
            self._set(hart, "fd" if "fd" in operands else "rd", operands, value)

    def _set(self, hart: Hart, token: str, operands: dict[str, int], value: int) -> None:
        if token == "fd" and self.f_registers:
            hart.f[operands["fd"]] = signed(value)
        elif operands[token]:
            hart.x[operands[token]] = signed(value)

    def _load(self, address: int, size: int, is_signed: bool, hart: Hart) -> int:
        if address == BARRIER_WAIT:
            hart.is_at_barrier = True
            return 0
        if address == DMA_COMMAND:
            return 3
        if address == DMA_STATUS:
            return 0
        assert address != EVENT_WAIT, "waits for an event that has come"
        return int.from_bytes(self.read(address, size), "little", signed=is_signed)

    def _store(self, address: int, value: int, size: int, hart: Hart) -> None:
        value &= 0xFFFFFFFF
        if address == EXIT:
            assert value >> 31
            self.code = value & 0x7FFFFFFF
            hart.is_asleep = True
        elif address == STDOUT + 8 * hart.number:
            self.printed.append(value & 0xFF)
        elif BOOT <= address < BOOT + 64:
            self.boot[(address - BOOT) // 4] = value
        elif address == FETCH_ENABLE:
            self.harts += [Hart(core, self.boot[core]) for core in range(16) if value >> core & 1]
        elif address == DMA_STATUS:
            assert value in (0, 1 << 3)
        elif address == DMA_COMMAND:
            self._command(value, hart)
        elif address not in SILENT:
            self.write(address, value.to_bytes(4, "little")[:size])

    def _command(self, value: int, hart: Hart) -> None:
        """Copy when all words of a command have come."""
        hart.command.append(value)
        lines = hart.command[0] >> 19 & 1, hart.command[0] >> 23 & 1
        if len(hart.command) < 3 + 2 * sum(lines):
            return
        command, *starts = hart.command[:3]
        size, operands = command & 0x1FFFF, hart.command[3:]
        sides = []
        for start, has_lines in zip(starts[::-1], lines, strict=True):
            line, stride = operands[:2] if has_lines else (size, 0)
            operands = operands[2 * has_lines :]
            places = (start + n // line * stride + n % line for n in range(size))
            sides.append([place & 0xFFFFFFFF for place in places])
        sources, targets = sides if command >> 17 & 1 else sides[::-1]
        for source, target in zip(sources, targets, strict=True):
            self.write(target, self.read(source, 1))
        hart.command = []
