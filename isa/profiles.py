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
from isa.zicsr import ZICSR

BASE = (RV32I, RV32M, RV32C, ZICSR, ZIFENCEI, PRIVILEGED)
LOOP_END = {"ri5cy": "last", "cv32e40p": "after"}


@cache
def profile(core: str = "ri5cy", float_registers: str = "f", small_floats: bool = False) -> Isa:
    """Return the instruction set of a core.

    core               "ri5cy" or "cv32e40p"
    float_registers    "f": registers of their own; "x": floats live in x registers, as in Zfinx
    small_floats       with Xf16, Xf16alt, Xf8, Xfvec and Xfaux

    raises    ValueError if there is no such core or register file
    """
    if core not in LOOP_END:
        raise ValueError(f"profile: no core {core!r}; there are {', '.join(sorted(LOOP_END))}")
    if float_registers not in ("f", "x"):
        raise ValueError(f"profile: float_registers is {float_registers!r}; it is 'f' or 'x'")
    return Isa(*BASE, name=core, loop_end=LOOP_END[core])
