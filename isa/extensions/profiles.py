"""Instruction-set profiles: what the cores of PULP chips execute.

    ri5cy       RV32IMFC, Xpulpv2
    cv32e40p    RV32IMFC, XCV (CORE-V) as of version 1

Source: RI5CY user manual, chapter "Introduction"; CV32E40P user manual, chapter "Introduction".
"""

from functools import cache
from typing import NamedTuple

from isa.declare import Extension, Isa
from isa.rv32c import RV32C, RV32FC
from isa.rv32f import RV32F, RV32F_REGISTERS
from isa.rv32i import PRIVILEGED, RV32I, ZIFENCEI
from isa.rv32m import RV32M
from isa.xcv_alu import XCVALU
from isa.xcv_bi import XCVBI
from isa.xcv_bitmanip import XCVBITMANIP
from isa.xcv_elw import XCVELW
from isa.xcv_hwlp import XCVHWLP
from isa.xcv_mac import XCVMAC
from isa.xcv_mem import XCVMEM
from isa.xcv_simd import XCVSIMD
from isa.xf_scalar import XF8, XF8_REGISTERS, XF16, XF16_REGISTERS, XF16ALT, XF16ALT_REGISTERS
from isa.xfaux import XFAUX
from isa.xfvec import XFVEC, XFVEC_REGISTERS
from isa.xpulp_alu import XPULPALU
from isa.xpulp_bitop import XPULPBITOP
from isa.xpulp_br import XPULPBR
from isa.xpulp_elw import XPULPELW
from isa.xpulp_hwloop import XPULPHWLOOP
from isa.xpulp_late import XPULPLATE
from isa.xpulp_mac import XPULPMAC
from isa.xpulp_postmod import XPULPPOSTMOD
from isa.xpulp_vect import XPULPVECT
from isa.zicsr import ZICSR

BASE = (RV32I, RV32M, RV32C, ZICSR, ZIFENCEI, PRIVILEGED)
XPULPV2 = (
    *(XPULPPOSTMOD, XPULPALU, XPULPBITOP, XPULPBR, XPULPMAC, XPULPHWLOOP, XPULPELW),
    *(XPULPVECT, XPULPLATE),
)
XCV = (XCVMEM, XCVALU, XCVBITMANIP, XCVBI, XCVMAC, XCVHWLP, XCVELW, XCVSIMD)
SMALL_FLOATS = (XF16, XF16ALT, XF8, XFVEC, XFAUX)

# Loads, stores and moves of float registers.
FLOAT_REGISTERS = (RV32F_REGISTERS, RV32FC)
SMALL_FLOAT_REGISTERS = (XF16_REGISTERS, XF16ALT_REGISTERS, XF8_REGISTERS, XFVEC_REGISTERS)


class Core(NamedTuple):
    """What distinguishes one core from another."""

    extensions: tuple[Extension, ...]
    loop_end: str
    moves_floats_in_x: bool  # with floats in x registers: does it still execute flw, fmv.x.w, ...?


CORES = {
    # RTL of RI5CY with fregfile_disable_i = 1 runs flw, on x registers (measured).
    "ri5cy": Core(XPULPV2, loop_end="last", moves_floats_in_x=True),
    "cv32e40p": Core(XCV, loop_end="after", moves_floats_in_x=False),
}


@cache
def profile(core: str = "ri5cy", float_registers: str = "f", small_floats: bool = False) -> Isa:
    """Return the instruction set of a core.

    core               "ri5cy" or "cv32e40p"
    float_registers    "f": registers of their own; "x": floats live in x registers, as in Zfinx
    small_floats       with Xf16, Xf16alt, Xf8, Xfvec and Xfaux

    raises    ValueError if there is no such core or register file
    """
    if core not in CORES:
        raise ValueError(f"profile: no core {core!r}; there are {', '.join(CORES)}")
    if float_registers not in ("f", "x"):
        raise ValueError(f"profile: float_registers is {float_registers!r}; it is 'f' or 'x'")
    own = CORES[core]
    moves_floats = float_registers == "f" or own.moves_floats_in_x
    extensions = (*BASE, *own.extensions, RV32F, *(FLOAT_REGISTERS if moves_floats else ()))
    name = f"{core}-{float_registers}"
    if small_floats:
        extensions += (*SMALL_FLOATS, *(SMALL_FLOAT_REGISTERS if moves_floats else ()))
        name += "-small"
    return Isa(*extensions, name=name, loop_end=own.loop_end)


def profile_named(name: str) -> Isa:
    """Return the instruction set of this name, as Isa.name has it: "ri5cy-x", "cv32e40p-f-small".

    raises    ValueError if there is none
    """
    core, _, rest = name.partition("-")
    registers, _, small = rest.partition("-")
    return profile(core, registers, bool(small))
