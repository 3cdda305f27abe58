"""Hotness: how often what begins with a row is interpreted; what happens when code changes.

See soc.jit.superblock_steps.
"""

import numpy as np

from soc.core.deferred_state import write_open
from soc.prelude.step import inlined_step, step

ACCESS, ISSUE = 0, 1
"""With what a superblock begins."""


@inlined_step
def note_hotness(chip, row, part):
    """Count that what begins with this row is interpreted; returns True to poll the translator.

    That is whenever the count doubles, from a threshold on.
    """
    hotness = chip.superblocks[np.uint64(row)]["hotness"]
    hotness[part] += 1
    is_doubled = hotness[part] & hotness[part] - 1 == 0
    return is_doubled and hotness[part] >= chip.hot_code[0]["poll_threshold"]


@step
def drop_superblocks(chip):
    """Interpret everything: decoded rows have changed."""
    hot = chip.hot_code[0]
    for k in range(hot["translations"]):
        superblock = chip.superblocks[np.uint64(hot["translated"][k])]
        for part in range(2):
            superblock["code"][part] = np.uint64(0)
            superblock["hotness"][part] = 0
    for h in range(chip.harts.size):
        write_open(chip, h)
        chip.harts[np.uint64(h)]["code"] = np.uint64(0)
    hot["translations"] = 0
    hot["changes"] += 1


@step
def note_change(chip, first, end):
    """Note that these decoded rows have changed: no superblock may go on with what they were."""
    chip.hot_code[0]["changes"] += 1
    for row in range(first, end):
        if chip.superblocks[np.uint64(row)]["is_part"]:
            drop_superblocks(chip)
            return
