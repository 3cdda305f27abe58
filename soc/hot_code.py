"""How hot segments are, and the way into the machine code of those that are translated.

See soc.segments.
"""

import numpy as np

from soc.chip_state import Chip
from soc.implied_state import write_open
from soc.step import inlined_step, step

ACCESS, ISSUE = 0, 1
"""With what a segment begins."""

CONVENTION = "preserve_nonecc"
"""How segments are called: they save no registers, the loop around them does, for all in a row."""


def call_segment(code: int, chip: Chip, h: int, now: int, others: int) -> int:
    """Call the machine code of a segment, and of those of other harts that L1 serves.

    Returns ENTERED if they have all entered their next requests; else the state of wheel.turn, and
    wheel.others are left to be served. Step functions in plain Python never get here: nothing is
    translated for them.
    """
    raise NotImplementedError


@inlined_step
def note_heat(chip, row, part):
    """Count that what begins with this row is interpreted; returns True if one should look at it.

    That is whenever the count doubles.
    """
    heat = chip.segments[np.uint64(row)]["heat"]
    heat[part] += 1
    return heat[part] & heat[part] - 1 == 0 and heat[part] >= chip.hot_code[0]["warm"]


@step
def drop_segments(chip):
    """Interpret everything: decoded rows have changed."""
    hot = chip.hot_code[0]
    for k in range(hot["translations"]):
        segment = chip.segments[np.uint64(hot["translated"][k])]
        for part in range(2):
            segment["code"][part] = np.uint64(0)
            segment["heat"][part] = 0
    for h in range(chip.harts.size):
        write_open(chip, h)
        chip.harts[np.uint64(h)]["code"] = np.uint64(0)
    hot["translations"] = 0
    hot["changes"] += 1


@step
def note_change(chip, first, end):
    """Note that these decoded rows have changed: no segment may go on with what they were."""
    chip.hot_code[0]["changes"] += 1
    for row in range(first, end):
        if chip.segments[np.uint64(row)]["is_part"]:
            drop_segments(chip)
            return
