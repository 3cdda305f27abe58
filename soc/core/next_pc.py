"""A hart that a debugger sends elsewhere."""

import numpy as np

from soc.chip.state import Chip
from soc.core.if_stage import fetch_target
from soc.prelude.counters import COUNT
from soc.prelude.hart_state import FETCHING, RUN, add_stall
from soc.prelude.step import step
from soc.prelude.wheel import schedule

FETCH_CYCLES = 3
"""From here to the issue: the target is asked for in the next cycle, and comes as a jump's."""


@step
def set_next_pc(chip: Chip, h: int, pc: int, now: int) -> None:
    """Let a hart issue the instruction at pc next; an access under way is done before."""
    hart = chip.harts[np.uint64(h)]
    before = max(hart["ex_ready"], hart["in_id"])
    hart["pc"] = pc
    hart["id_valid"] = 0
    hart["code"] = np.uint64(0)
    hart["in_id"] = max(hart["in_id"], now + FETCH_CYCLES)
    fetch_target(hart, chip.fetch[np.uint64(h)], pc, now + 1)
    if hart["state"] == FETCHING:
        hart["state"] = RUN
    if hart["state"] == RUN:
        add_stall(chip, hart, COUNT.jump, max(hart["ex_ready"], hart["in_id"]) - before)
        schedule(chip, h, max(hart["when"], now))
