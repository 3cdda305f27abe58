"""Hardware loops: where the instruction at a loop's end goes on.

Source: user manuals of RI5CY and CV32E40P, chapter on hardware loops.
"""

import numpy as np

from soc.core.decoded_index import row_index
from soc.core.hotness import note_change
from soc.prelude.decoded import BEFORE_LOOP_END, LOOP_END
from soc.prelude.step import cold_step, inlined_step, step


@inlined_step
def loop_next(hart, pc, size):
    """Return the address after the instruction at pc, which may end a hardware loop.

    Loop 0 goes first; if both end here and it is done, loop 1 is tested in the same step.
    """
    for loop in range(2):
        if pc == hart["lp_last"][loop]:
            if hart["lp_count"][loop] > 1:
                hart["lp_count"][loop] -= 1
                return hart["lp_start"][loop]
            if hart["ri5cy"] == 0 and hart["lp_count"][loop] == 1:
                hart["lp_count"][loop] = 0
    return pc + size


@step
def loop_start(hart, pc):
    """Return where the instruction at pc goes back to, or -1."""
    for loop in range(2):
        if pc == hart["lp_last"][loop] and hart["lp_count"][loop] > 1:
            return hart["lp_start"][loop]
    return -1


@inlined_step
def find_loop_end(chip, hart, loop):
    """Note at which instruction a loop ends; returns the number of its row if that is to be marked.

    Else, as nearly always, -1.
    """
    config = chip.config[0]
    last = hart["lp_end"][loop] - hart["loop_end_offset"]
    hart["lp_last"][loop] = last
    index = row_index(config, last)
    if 0 <= index < config["rows"] and chip.code[np.uint64(index)]["flags"] & LOOP_END == 0:
        return index
    return -1


@cold_step
def mark_row(chip, index):
    """Hint in the decoded program that the instruction of this row may end a hardware loop.

    So do the rows before it, where an instruction of two or of four bytes may be.
    """
    first = max(index - 2, 0)
    for before in range(first, index):
        chip.code[np.uint64(before)]["flags"] |= BEFORE_LOOP_END
    chip.code[np.uint64(index)]["flags"] |= LOOP_END
    note_change(chip, first, index + 1)


@step
def mark_loop_end(chip, hart, loop):
    """Note at which instruction a loop ends, there too."""
    index = find_loop_end(chip, hart, loop)
    if index >= 0:
        mark_row(chip, index)
