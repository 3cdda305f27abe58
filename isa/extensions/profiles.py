"""Instruction-set profiles: what the cores of PULP chips execute.

    ri5cy       RV32IMFC, Xpulpv2
    cv32e40p    RV32IMFC, XCV (CORE-V) as of version 1

Source: RI5CY user manual, chapter "Introduction"; CV32E40P user manual, chapter "Introduction".
"""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import NamedTuple

from isa.declare import Extension, Isa
from isa.extensions.flex_v import as_computed
from isa.extensions.rv32c import RV32C, RV32FC
from isa.extensions.rv32f import RV32F, RV32F_REGISTERS
from isa.extensions.rv32i import PRIVILEGED, RV32I, ZIFENCEI
from isa.extensions.rv32m import RV32M
from isa.extensions.xf_scalar import (
    XF8,
    XF8_REGISTERS,
    XF16,
    XF16_REGISTERS,
    XF16ALT,
    XF16ALT_REGISTERS,
)
from isa.extensions.xfaux import XFAUX, XFAUX_UNDECODED
from isa.extensions.xfvec import XFVEC, XFVEC_REGISTERS
from isa.extensions.zicsr import ZICSR

BASE = (RV32I, RV32M, RV32C, ZICSR, ZIFENCEI, PRIVILEGED)
SMALL_FLOATS = (XF16, XF16ALT, XF8, XFVEC, XFAUX)

# Loads, stores and moves of float registers.
FLOAT_REGISTERS = (RV32F_REGISTERS, RV32FC)
SMALL_FLOAT_REGISTERS = (XF16_REGISTERS, XF16ALT_REGISTERS, XF8_REGISTERS, XFVEC_REGISTERS)

COMPRESSED = {RV32C.name, RV32FC.name}
SMALL_FLOAT_NAMES = {extension.name for extension in SMALL_FLOATS}


class Core(NamedTuple):
    """The properties in which cores differ."""

    own: str  # module with its own extensions, which is imported for a chip that has such a core
    loop_end: str
    moves_floats_in_x: bool  # with floats in x registers: does it still execute flw, fmv.x.w, ...?

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """Its own, beside RISC-V's."""
        return import_module(self.own).EXTENSIONS


CORES = {
    # RTL of RI5CY with fregfile_disable_i = 1 runs flw, on x registers (measured).
    "ri5cy": Core("isa.extensions.xpulp.extensions", loop_end="last", moves_floats_in_x=True),
    "cv32e40p": Core("isa.extensions.xcv.extensions", loop_end="after", moves_floats_in_x=False),
}


@cache
def profile(
    core: str = "ri5cy",
    float_registers: str = "f",
    small_floats: bool = False,
    *,
    dot_products: bool = False,
    apu_wop: int | None = None,
) -> Isa:
    """Return the instruction set of a core.

    core               "ri5cy" or "cv32e40p"
    float_registers    "f": registers of their own; "x": floats live in x registers, as in Zfinx
    small_floats       with Xf16, Xf16alt, Xf8, Xfvec and Xfaux
    dot_products       with those of Xfaux, too, that no core decodes
    apu_wop            7 or 6: floats are what RI5CY's RTL computes, not what the ISA says, see
                       isa.extensions.flex_v

    raises    ValueError if there is no such core, register file or RTL
    """
    if core not in CORES:
        raise ValueError(f"profile: no core {core!r}; there are {', '.join(CORES)}")
    if float_registers not in ("f", "x"):
        raise ValueError(f"profile: float_registers is {float_registers!r}; it is 'f' or 'x'")
    if apu_wop not in (None, 6, 7) or apu_wop and core != "ri5cy":
        raise ValueError(f"profile: apu_wop is {apu_wop!r} of {core}; it is 6 or 7, of ri5cy alone")
    own = CORES[core]
    moves_floats = float_registers == "f" or own.moves_floats_in_x
    floats = (RV32F, *(FLOAT_REGISTERS if moves_floats else ()))
    name = f"{core}-{float_registers}"
    if small_floats:
        floats += (*SMALL_FLOATS, *(SMALL_FLOAT_REGISTERS if moves_floats else ()))
        name += "-small"
    if small_floats and dot_products:
        floats += (XFAUX_UNDECODED,)
        name += "-dot"
    if apu_wop:
        floats = tuple(as_computed(extension, apu_wop) for extension in floats)
        name += f"-wop{apu_wop}"
    return Isa(*BASE, *own.extensions, *floats, name=name, loop_end=own.loop_end)


def profile_named(name: str) -> Isa:
    """Return the instruction set of this name, as Isa.name has it: "ri5cy-x", "cv32e40p-f-small".

    raises    ValueError if there is none
    """
    core, _, rest = name.partition("-")
    registers, *more = rest.split("-")
    rtl = next((int(word.removeprefix("wop")) for word in more if word.startswith("wop")), None)
    return profile(core, registers, "small" in more, dot_products="dot" in more, apu_wop=rtl)


def executed_as(name: str, extensions: Iterable[str]) -> tuple[str, list[str]]:
    """Return whose instructions execute those of some extensions of a profile: a name, extensions.

    They are the same, under the same numbers, and some more, so one interpreter serves chips that
    differ in where floats live, in dot products, or in small floats that a program does not use.
    Compressed instructions are executed as what they expand to.
    """
    core, registers, *more = name.split("-")
    has_small_floats = not SMALL_FLOAT_NAMES.isdisjoint(extensions)
    if CORES[core].moves_floats_in_x or not has_small_floats:
        registers = "f"  # its loads, stores and moves come last
    words = ["small", "dot"] if has_small_floats else []
    for word in more:
        if word.startswith("wop") and not {RV32F.name, *SMALL_FLOAT_NAMES}.isdisjoint(extensions):
            words.append(word if has_small_floats else "wop7")  # they differ in vectors alone
    return "-".join([core, registers, *words]), sorted({*extensions} - COMPRESSED)


def without_small_floats(name: str) -> str:
    """Return the profile of the same core that has none: its instructions keep their numbers."""
    core, registers, *more = name.split("-")
    return "-".join([core, registers, *("wop7" for word in more if word.startswith("wop"))])
