"""Interrupts of harts: raised by the event unit, peripherals or a test bench; how they are taken.

Source: the timing measured on RTL (rule T).
"""

import numpy as np

from soc import control_page
from soc.fetch import fetch_jump
from soc.hart_status import RUN, WFI, charge
from soc.links import eu_take_interrupt
from soc.requests import schedule
from soc.state import COUNT, NEVER
from soc.step import cold_step, step
from soc.traps import WFI_CYCLES, enter_trap, wake_up

INTERRUPT_SEEN = 2
INTERRUPT_FETCH = 2
WFI_WAKE = 3


@step
def interrupt_pending(hart):
    """Will the hart take an interrupt?"""
    return hart["mstatus"] & 8 != 0 and hart["mip"] & hart["mie"] != 0


@cold_step
def take_interrupt(chip, h, start, now):
    """Enter the handler instead of the instruction that would have issued at start (rule T)."""
    hart = chip.harts[np.uint64(h)]
    pending = hart["mip"] & hart["mie"]
    line = 31
    while pending >> line & 1 == 0:
        line -= 1
    hart["pc"] = enter_trap(hart, 0x80000000 | line, hart["pc"])
    hart["handed"] = 0
    taken = max(hart["irq_cycle"] + INTERRUPT_SEEN, hart["seen"])
    handler = max(taken + INTERRUPT_FETCH, start + 1)
    charge(chip, hart, COUNT.trap, handler - max(hart["free"], hart["seen"]))
    hart["seen"] = hart["free"] = hart["when"] = handler
    fetch_jump(chip.fetch[np.uint64(h)], hart["pc"], handler - 2)
    config = chip.config[0]
    if config["control_page"] == 0 and hart["external"] == 0:
        eu_take_interrupt(chip.event_unit[0], h, line, now)
        hart["mip"] = 0


@step
def raise_interrupt(chip, h, line, now):
    """Set an interrupt line of a hart; a hart in wfi wakes up."""
    hart = chip.harts[np.uint64(h)]
    hart["mip"] |= 1 << line
    hart["irq_cycle"] = now
    if hart["state"] == WFI and hart["mip"] & hart["mie"]:
        hart["state"] = RUN
        wake_up(chip, hart, max(now + WFI_WAKE, hart["issued"] + WFI_CYCLES))
        schedule(chip, h, hart["free"])


@cold_step
def interrupt_from_control_page(chip, now):
    """Raise the test bench's interrupt in every core."""
    chip.control[0]["irq_cycle"] = NEVER
    for h in range(chip.config[0]["cores"]):
        raise_interrupt(chip, h, control_page.INTERRUPT_LINE, now)
