"""Instruction-set profiles: what the cores of PULP chips execute.

    ri5cy       RV32IMC, Xpulpv2
    cv32e40p    RV32IMC, XCV (CORE-V) as of version 1

Source: RI5CY user manual, chapter "Introduction"; CV32E40P user manual, chapter "Introduction".
"""

from functools import cache

from isa.declare import Isa
from isa.rv32c import RV32C
from isa.rv32i import PRIVILEGED, RV32I, ZIFENCEI
from isa.rv32m import RV32M
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

CORES = {  # extensions of the core, what its loop end registers hold
    "ri5cy": (XPULPV2, "last"),
    "cv32e40p": ((), "after"),
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
    extensions, loop_end = CORES[core]
    return Isa(*BASE, *extensions, name=core, loop_end=loop_end)
