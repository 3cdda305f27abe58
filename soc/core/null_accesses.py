"""Loads and stores through a null pointer: they find L1, or L2, whose alias begins at address 0.

The alias is PULP's (cluster_bus_wrap.sv, soc_interconnect_wrap.sv) and legal; its first bytes are
hardly meant. Each place in the program is noted once.
"""

import numpy as np

from soc.prelude.decoded import row_of_memory
from soc.prelude.step import cold_step
from soc.prelude.stop_reasons import END, POLL, WARNING
from soc.prelude.wheel import NULL_PLACES

NULL_SIZE = 0x100
"""Bytes from address 0 that a null pointer, with the offset of a field, leads to."""


@cold_step
def note_null_access(chip, h):
    """Note a hart's access, unless its place is noted, or there are many already."""
    hart = chip.harts[np.uint64(h)]
    wheel = chip.wheel[0]
    count, row = wheel["nulls"], row_of_memory(chip, hart["row"])
    for place in range(count):
        if wheel["null_row"][place] == row:
            return
    if count == NULL_PLACES:
        return
    wheel["null_row"][count] = row
    wheel["null_hart"][count] = h
    wheel["null_address"][count] = hart["address"]
    wheel["nulls"] = count + 1
    if wheel["stop"] == END or wheel["stop"] == POLL:
        wheel["stop"] = WARNING
