"""Element types: single precision, FP16 and bfloat16, as kernels compute with them.

Halves use the small floats of RI5CY: scalars in the low half of an x register, or two neighbours as
a vector. What its public RTL computes wrong is not among what they use, see isa.extensions.flex_v.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from firmware.builder import Kernel, KernelError, Register
from trainlib.primitive.tensor import WORD

LOADS = {  # by bytes and whether what is above a half is zero: at an offset, post-increment
    (4, False): ("lw", "p_lw", "p_lw_rrpost"),
    (2, False): ("lh", "p_lh", "p_lh_rrpost"),
    (2, True): ("lhu", "p_lhu", "p_lhu_rrpost"),
}


@dataclass(frozen=True)
class Element:
    """A type of elements in memory.

    name      "f32", "f16" or "bf16", as kernels' names end
    letter    of its instructions; none: halves as they are, which nothing computes with
    dtype     of arrays
    """

    name: str
    letter: str
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes."""
        return self.dtype.itemsize

    @property
    def is_half(self) -> bool:
        """Do two of them make a word?"""
        return self.size < WORD

    @property
    def lanes(self) -> int:
        """In a word, and so multiply-adds of an instruction."""
        return WORD // self.size

    @property
    def moved(self) -> "Element":
        """What elements are for code that computes nothing with them."""
        return BITS if self.is_half else self

    def check(self, k: Kernel, kernel: str) -> None:
        """See that the chip computes with them.

        raises    KernelError if it does not, or not in x registers
        """
        if not self.is_half:
            return
        if "fadd_h" not in k.isa:
            raise KernelError(
                f"{kernel}: the chip's cores have no small floats; set core.isa = 'ri5cy' and "
                "core.small_floats = true, or use f32"
            )
        if k.has_float_registers:
            raise KernelError(
                f"{kernel}: halves are for floats in x registers; set core.float_registers = 'x'"
            )

    @property
    def is_rounded(self) -> bool:
        """Are they single precision in registers, and rounded before they are stored?"""
        return self.is_half and bool(self.letter)

    def widen(self, k: Kernel, values: Sequence[Register]) -> None:
        """Make single precision of what was loaded: of halves that have instructions."""
        if self.is_rounded:
            for value in values:
                getattr(k, f"fcvt_s_{self.letter}")(value, value)

    def narrow(self, k: Kernel, rd: Register, rs1: Register) -> Register:
        """Make an element of single precision in rd; where that is one, what is to store is rs1."""
        if not self.is_rounded:
            return rs1
        getattr(k, f"fcvt_{self.letter}_s")(rd, rs1)
        return rd

    def twice(self, k: Kernel, value: float) -> Register:
        """A register that holds the nearest half twice."""
        register = k.x()
        k.li(register, self.pattern(value) * 0x10001)
        return register

    def pattern(self, value: float) -> int:
        """The bits of the nearest element."""
        with np.errstate(over="ignore"):
            return int.from_bytes(
                np.array(value, np.float32).astype(self.dtype).tobytes(), "little"
            )

    def scalar(self, k: Kernel, operation: str) -> Callable[..., None]:
        """The instruction on scalars: "fmadd" stands for fmadd.s, fmadd.h or fmadd.ah."""
        return getattr(k, f"{operation}_{self.letter}")

    def pairs(self, k: Kernel, operation: str) -> Callable[..., None]:
        """The instruction on two halves: "vfmac"; "vfmac_r" takes the second's low one twice."""
        return getattr(k, f"{operation}_{self.letter}")


F32 = Element("f32", "s", np.dtype("<f4"))
F16 = Element("f16", "h", np.dtype("<f2"))
BF16 = Element("bf16", "ah", np.dtype(ml_dtypes.bfloat16))
BITS = Element("bits", "", np.dtype("<i2"))
"""Halves of any type that are only moved."""
ELEMENTS = (F32, F16, BF16)
HALVES = (F16, BF16)


def element_of(kernel: str) -> Element:
    """That a kernel computes with, by the end of its name."""
    return next((half for half in HALVES if kernel.endswith(f"_{half.name}")), F32)


def load(
    k: Kernel, size: int, rd: Register, offset: int, rs1: Register, *, is_unsigned: bool = False
) -> None:
    """Load an element of so many bytes: rd = M[rs1 + offset]."""
    if size == WORD:
        k.fload(rd, offset, rs1)
    else:
        getattr(k, LOADS[size, is_unsigned][0])(rd, offset, rs1)


def load_post(
    k: Kernel,
    size: int,
    rd: Register,
    step: Register | int,
    rs1: Register,
    *,
    is_unsigned: bool = False,
) -> None:
    """Load an element, then advance the pointer: rd = M[rs1]; rs1 += step."""
    if size == WORD:
        k.fload_post(rd, step, rs1)
        return
    _, by_number, by_register = LOADS[size, is_unsigned]
    if isinstance(step, Register):
        k.by_field((by_register,), rd=rd, rs2=step, rs1=rs1)
    else:
        k.by_field((by_number,), rd=rd, imm=step, rs1=rs1)


def store(k: Kernel, size: int, rs2: Register, offset: int, rs1: Register) -> None:
    """Store an element: M[rs1 + offset] = rs2."""
    if size == WORD:
        (k.fsw if rs2.file == "f" else k.sw)(rs2, offset, rs1)
    else:
        k.sh(rs2, offset, rs1)


def store_rounded(k: Kernel, element: Element, value: Register, offset: int, rs1: Register) -> None:
    """Store single precision as an element, which leaves the register as it is."""
    with k.scope():
        rounded = k.x() if element.is_rounded else value
        store(k, element.size, element.narrow(k, rounded, value), offset, rs1)


def store_post(k: Kernel, size: int, rs2: Register, step: Register | int, rs1: Register) -> None:
    """Store an element, then advance the pointer: M[rs1] = rs2; rs1 += step."""
    if size == WORD:
        (k.fstore_post if rs2.file == "f" else k.store_post)(rs2, step, rs1)
    elif isinstance(step, Register):
        k.by_field(("p_sh_rrpost",), rs2=rs2, rs3=step, rs1=rs1)
    else:
        k.by_field(("p_sh",), rs2=rs2, imm=step, rs1=rs1)
