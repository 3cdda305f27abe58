"""The few forms whose instructions depend on the chip: floats, post-increment, long constants."""

from firmware.emitter import Argument, Emitter
from firmware.registers import ZERO, Register
from isa.words import sext

WORD = 4
LOAD, LOAD_BY_REGISTER = ("p_lw", "cv_lw"), ("p_lw_rrpost", "cv_lw_rrpost")
STORE, STORE_BY_REGISTER = ("p_sw", "cv_sw"), ("p_sw_rrpost", "cv_sw_rrpost")
SMALL = range(-2048, 2048)  # what addi adds
SUM_OF_TWO = range(-4096, 4095)  # what two of them add


class Forms(Emitter):
    """Loads and stores of words and floats, and constants of any size.

    Where floats live in x registers they are words, with post-increment in one instruction; f
    registers have no post-increment, and an addition follows. A step is a number or an x register.
    """

    def li(self, rd: Register, value: int) -> None:
        """Load a constant, -2^31 .. 2^32-1: one instruction or two."""
        high, low = (value + 0x800 & 0xFFFFFFFF) >> 12, sext(value & 0xFFF, 12)
        if not high:
            self.addi(rd, ZERO, low)
            return
        self.lui(rd, high)
        if low:
            self.addi(rd, rd, low)

    def set(self, rd: Register, value: Register | int, offset: int = 0) -> None:
        """Load a number or what a register holds, and an offset: rd = value + offset.

        rd may be the register itself if the offset is one that add_constant needs no scratch for.
        """
        if isinstance(value, int):
            self.li(rd, value + offset)
        else:
            self.add_constant(rd, value, offset, rd)

    def add_constant(self, rd: Register, rs1: Register, value: int, scratch: Register) -> None:
        """Add a constant of any size: rd = rs1 + value; scratch may change, may be rd, not rs1."""
        if value in SMALL:
            if value or rd != rs1:
                self.addi(rd, rs1, value)
        elif value in SUM_OF_TWO:
            first = 2047 if value > 0 else -2048
            self.addi(rd, rs1, first)
            self.addi(rd, rd, value - first)
        else:
            self.li(scratch, value)
            self.add(rd, rs1, scratch)

    def load_post(self, rd: Register, step: Argument, rs1: Register) -> None:
        """Load a word, then advance the pointer: rd = M[rs1]; rs1 += step."""
        if isinstance(step, Register):
            self.by_field(LOAD_BY_REGISTER, rd=rd, rs2=step, rs1=rs1)
        else:
            self.by_field(LOAD, rd=rd, imm=step, rs1=rs1)

    def store_post(self, rs2: Register, step: Argument, rs1: Register) -> None:
        """Store a word, then advance the pointer: M[rs1] = rs2; rs1 += step."""
        if isinstance(step, Register):
            self.by_field(STORE_BY_REGISTER, rs2=rs2, rs3=step, rs1=rs1)
        else:
            self.by_field(STORE, rs2=rs2, imm=step, rs1=rs1)

    def fload(self, fd: Register, offset: int, rs1: Register) -> None:
        """Load a float: fd = M[rs1 + offset]."""
        (self.flw if self.has_float_registers else self.lw)(fd, offset, rs1)

    def fstore(self, fs2: Register, offset: int, rs1: Register) -> None:
        """Store a float: M[rs1 + offset] = fs2."""
        (self.fsw if self.has_float_registers else self.sw)(fs2, offset, rs1)

    def fload_post(self, fd: Register, step: Argument, rs1: Register) -> None:
        """Load a float, then advance the pointer: fd = M[rs1]; rs1 += step."""
        if self.has_float_registers:
            self.flw(fd, 0, rs1)
            self._advance(rs1, step)
        else:
            self.load_post(fd, step, rs1)

    def fstore_post(self, fs2: Register, step: Argument, rs1: Register) -> None:
        """Store a float, then advance the pointer: M[rs1] = fs2; rs1 += step."""
        if self.has_float_registers:
            self.fsw(fs2, 0, rs1)
            self._advance(rs1, step)
        else:
            self.store_post(fs2, step, rs1)

    def fzero(self, fd: Register) -> None:
        """Clear a float: fd = +0."""
        if self.has_float_registers:
            self.fmv_w_x(fd, ZERO)
        else:
            self.mv(fd, ZERO)

    def _advance(self, rs1: Register, step: Argument) -> None:
        (self.add if isinstance(step, Register) else self.addi)(rs1, rs1, step)
