"""Traps: the ways into handlers and back, and the system instructions.

Sources: RISC-V privileged architecture; timing as measured on RTL (rules O and T).
"""

from soc.core.csr_numbers import MSTATUS_MIE
from soc.core.decoded_index import is_split
from soc.core.decoder import SYSTEM_OPS
from soc.prelude.counters import COUNT
from soc.prelude.hart_state import FAULT_BREAKPOINT, RUN, WFI, add_stall, stop_at
from soc.prelude.step import step

CAUSE_ILLEGAL, CAUSE_BREAKPOINT, CAUSE_ECALL = 2, 3, 11

ECALL, MRET, WFI_OP = SYSTEM_OPS["ecall"], SYSTEM_OPS["mret"], SYSTEM_OPS["wfi"]

ECALL_CYCLES = 4
MRET_CYCLES = 5
WFI_CYCLES = 6

TRAP_STALL, WFI_STALL = COUNT.trap, COUNT.wfi


@step
def enter_trap(hart, cause, pc):
    """Go to the trap handler: base for exceptions, one vector for each interrupt."""
    hart["mepc"] = pc
    if hart["rtl_defects"] == 0:  # a clock gate opens for CSR instructions alone
        hart["mcause"] = cause
    mstatus = hart["mstatus"]
    hart["mstatus"] = mstatus & ~0x88 | (mstatus & 8) << 4
    base = hart["mtvec"] & 0xFFFFFF00
    if cause & 0x80000000 and hart["mtvec"] & 1:
        return base + 4 * (cause & 31)
    return base


@step
def leave_trap(hart):
    """mret: back to where the trap came from."""
    mstatus = hart["mstatus"]
    hart["mstatus"] = mstatus & ~8 | mstatus >> 4 & 8 | 0x80
    return hart["mepc"]


@step
def interrupts_enabled(hart):
    """Would the hart take an interrupt if one came?"""
    return hart["mstatus"] & MSTATUS_MIE != 0 and hart["mie"] != 0


@step
def exception(chip, hart, pc, start, cause, fault, value):
    """Go to the program's handler if it has one; else the simulation stops here."""
    if hart["handler"] == 0 and chip.config[0]["trap_vectors"] == 0:
        hart["pc"] = pc
        return stop_at(hart, fault, value)
    hart["pc"] = enter_trap(hart, cause, pc)
    hart["ex_ready"] = start + 1
    hart["in_id"] = start + ECALL_CYCLES
    add_stall(chip, hart, TRAP_STALL, ECALL_CYCLES - 1)
    return RUN


@step
def wait_for_interrupt(chip, hart, start):
    """wfi: sleep, but not if an interrupt is already pending, enabled in mstatus or not."""
    if hart["mip"] & hart["mie"] == 0:
        return WFI
    wake_up(chip, hart, start + WFI_CYCLES)
    return RUN


@step
def wake_up(chip, hart, cycle):
    """Let a hart in wfi issue its next instruction in this cycle, if no interrupt comes first."""
    hart["in_id"] = cycle - 1
    hart["ex_ready"] = cycle
    add_stall(chip, hart, WFI_STALL, cycle - hart["issued"] - 1)


@step
def system_instruction(chip, hart, row, pc, start):
    """ecall, ebreak, mret, wfi: sets the next pc and its cycle; returns the hart's state."""
    operation = int(row["cost"])
    hart["ex_ready"] = start + 1
    hart["in_id"] = start + 1
    hart["pc"] = pc + row["size"]
    if operation == MRET:
        hart["pc"] = leave_trap(hart)
        hart["in_id"] = start + MRET_CYCLES + is_split(chip, hart, hart["pc"])
        add_stall(chip, hart, TRAP_STALL, hart["in_id"] - start - 1)
        return RUN
    if operation == WFI_OP and chip.config[0]["wfi_sleeps"]:
        return wait_for_interrupt(chip, hart, start)
    if operation == WFI_OP:
        return RUN
    if operation == ECALL:
        hart["pc"] = enter_trap(hart, CAUSE_ECALL, pc)
        hart["in_id"] = start + ECALL_CYCLES
        add_stall(chip, hart, TRAP_STALL, ECALL_CYCLES - 1)
        return RUN
    return exception(chip, hart, pc, start, CAUSE_BREAKPOINT, FAULT_BREAKPOINT, int(row["word"]))
