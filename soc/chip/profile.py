"""What a chip is for one program: its instructions and where floats live."""

from isa.declare import Isa
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.prelude.wheel import RING

ENDING = 8


class UnfitProgramError(ValueError):
    """A program that the chip cannot run."""


def float_registers(spec: SocSpec, program: Program | None) -> str:
    """Where floats live on this chip with this program: "f" or "x".

    raises    UnfitProgramError if the program needs the other kind
    """
    wanted = program.float_registers if program else None
    has = spec.core.float_registers
    if has == "auto":
        return wanted or "x"
    if wanted and wanted != has:
        raise UnfitProgramError(
            f"the program keeps floats in {wanted} registers "
            f"({program.architecture if program else ''}), the chip {spec.name} in {has}; "
            f"core.float_registers = {wanted!r} (or 'auto') would fit"
        )
    return has


def start_of(spec: SocSpec, program: Program) -> int:
    """The address of a program's first instruction: the chip's reset pc, else the program's entry.

    raises    UnfitProgramError if the chip starts where the program has nothing
    """
    pc = spec.core.reset_pc
    if not pc:
        return program.entry
    if any(segment.address <= pc < segment.address + segment.size for segment in program.segments):
        return pc
    raise UnfitProgramError(
        f"the program's entry is {program.entry:#010x}, but the chip {spec.name} starts at "
        f"{pc:#010x}, where the program has nothing; link it to start there, or set "
        "core.reset_pc = 0 to start at the entry"
    )


def isa_of(spec: SocSpec, registers: str) -> Isa:
    """The instructions of the chip's harts."""
    return spec.core.instructions(registers)


def ending_cycles(spec: SocSpec) -> int:
    """Cycles that the fabric controller's store to CORE_STATUS takes, which ends a run.

    A test bench of the RTL polls that register, so no cycle of the end is the RTL's. With ENDING
    cycles at least, other harts can run ahead that far.
    """
    return max(spec.access.controller_register, ENDING)


def lookahead(spec: SocSpec) -> int:
    """Cycles that a hart may run ahead: no other can end the run by then.

    What ends it is a store to CORE_STATUS, which takes this long at least.
    """
    if spec.control_page:
        return RING - 1
    return min(spec.access.soc_register, ending_cycles(spec), RING - 1)
