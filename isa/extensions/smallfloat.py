"""Small floats: the formats of Xf16, Xf16alt and Xf8, and how registers hold them.

The bits above a scalar result are ones (a NaN box), in x registers too: the FPU extends what it
returns. The bits above an operand are ignored in x registers; where floats have registers of their
own, an operand without ones there is read as the canonical NaN. Vectors fill the register: their
elements are read and written as they are.

Sources: RISC-V unprivileged manual, "NaN Boxing of Narrower Values"; cvfpu, extension_bit_o of
every operation group, measured on RTL with floats in x registers; smallFloat extensions, encodings
of the PULP toolchain.
"""

from typing import NamedTuple

from isa.floats.format import BF16, F8, F16, F32, Format
from isa.words import jitable


class Small(NamedTuple):
    """One of the formats, and the fields that select it.

    Alternative formats (bfloat16) have no rounding-mode field: its value 101 selects them, and they
    round by frm.
    """

    letter: str  # end of the mnemonics
    format: Format
    fmt: str  # of scalar instructions: their field fmt,
    alternative: str  # and the highest bit of funct3, where that is no rounding mode
    vector: str  # of vector instructions: the low bits of funct3

    @property
    def rm(self) -> str:
        """The rounding mode of scalar instructions, as their encoding has it."""
        return "101" if self.alternative == "1" else "rm"

    @property
    def rm_operand(self) -> str:
        """The same as their syntax has it."""
        return "" if self.alternative == "1" else ", rm"

    @property
    def source(self) -> str:
        """Field rs2 of scalar conversions from this format."""
        return f"00{self.alternative}{self.fmt}"


S = Small("s", F32, "00", "0", "00")
H = Small("h", F16, "10", "0", "10")
AH = Small("ah", BF16, "10", "1", "01")
B = Small("b", F8, "11", "0", "11")


@jitable
def unbox(f, word, boxed):
    """The pattern of a scalar operand in a register."""
    if boxed and f.width < 32 and word >> f.width != -1:
        return f.nan
    return word & (1 << f.width) - 1


@jitable
def box(f, pattern):
    """The register with a scalar result."""
    return pattern | -1 << f.width
