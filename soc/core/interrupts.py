"""Interrupts of harts: raised by the event unit, peripherals or a test bench; how they are taken.

Source: the timing measured on RTL (rule T).
"""

import numpy as np

from soc.aot.units import eu_take_interrupt
from soc.core.csr_numbers import MSTATUS_MIE
from soc.core.if_stage import fetch_target
from soc.core.sync_points import note_interrupt
from soc.core.traps import WFI_CYCLES, enter_trap, wake_up
from soc.prelude.counters import COUNT
from soc.prelude.decoded import ELW
from soc.prelude.hart_state import RUN, WFI, add_stall
from soc.prelude.step import cold_step, step
from soc.prelude.trace_points import pc_of_row
from soc.prelude.wheel import schedule

INTERRUPT_SEEN = 2
INTERRUPT_FETCH = 2
WFI_WAKE = 3


@step
def interrupt_pending(hart):
    """Will the hart take an interrupt?"""
    return hart["mstatus"] & MSTATUS_MIE != 0 and hart["mip"] & hart["mie"] != 0


@cold_step
def take_interrupt(chip, h, start, now):
    """Enter the handler instead of the instruction that would have issued at start (rule T)."""
    hart = chip.harts[np.uint64(h)]
    pending = hart["mip"] & hart["mie"]
    line = 31
    while pending >> line & 1 == 0:
        line -= 1
    note_interrupt(chip, h, line, now)
    interrupted = pc_of_row(chip, hart["last"]) if _is_after_wait(chip, hart) else hart["pc"]
    hart["pc"] = enter_trap(hart, 0x80000000 | line, interrupted)
    hart["id_valid"] = 0
    taken = max(hart["irq_cycle"] + INTERRUPT_SEEN, hart["in_id"])
    handler = max(taken + INTERRUPT_FETCH, start + 1)
    add_stall(chip, hart, COUNT.trap, handler - max(hart["ex_ready"], hart["in_id"]))
    hart["in_id"] = hart["ex_ready"] = hart["when"] = handler
    fetch_target(hart, chip.fetch[np.uint64(h)], hart["pc"], handler - 2)
    config = chip.config[0]
    if config["control_page"] == 0 and hart["external"] == 0:
        eu_take_interrupt(chip.event_unit[0], h, line, now)
        hart["mip"] = 0


@step
def _is_after_wait(chip, hart):
    """Was the last instruction an event load, and the interrupt seen by the cycle after its grant?

    The core then does it again after the handler.

    Source: riscv_controller.sv (ELW_EXE, IRQ_FLUSH_ELW).
    """
    is_wait = chip.code[np.uint64(hart["last"])]["kind"] == ELW
    return is_wait and hart["irq_cycle"] <= hart["waited"] + 1


@step
def set_interrupt(chip, h, line, now):
    """Ask a hart to take an interrupt, by its number, or none any more (negative).

    A hart whose interrupts are enabled keeps the first that it is asked for until it takes it.

    Source: riscv_int_controller.sv (irq_id_q).
    """
    hart = chip.harts[np.uint64(h)]
    if hart["mip"] and hart["mstatus"] & MSTATUS_MIE:
        return
    if line < 0:
        hart["mip"] = 0
    elif hart["mip"] == 0:
        raise_interrupt(chip, h, line, now)
    else:
        hart["mip"] = 1 << line


@step
def raise_interrupt(chip, h, line, now):
    """Set an interrupt line of a hart; a hart in wfi wakes up."""
    hart = chip.harts[np.uint64(h)]
    hart["mip"] |= 1 << line
    hart["irq_cycle"] = now
    if hart["state"] == WFI and hart["mip"] & hart["mie"]:
        hart["state"] = RUN
        wake_up(chip, hart, max(now + WFI_WAKE, hart["issued"] + WFI_CYCLES))
        schedule(chip, h, hart["ex_ready"])
