"""Where an instruction's row is, and how many fetches bring it."""

import numpy as np

from soc.decode import UNDECODED
from soc.step import inlined_step, step


@step
def row_index(config, pc):
    """Return the row of a code address; out of range if the address is not code memory."""
    return (pc - config["code_base"]) >> 1


@inlined_step
def is_split(chip, pc):
    """Is there a 32-bit instruction at 2 mod 4, which takes one more fetch to arrive?"""
    if pc & 2 == 0:
        return 0
    config = chip.config[0]
    index = row_index(config, pc)
    if index < 0 or index >= config["rows"]:
        return 0
    return 1 if chip.l2[np.uint64(index >> 1)] >> 16 & 3 == 3 else 0


@inlined_step
def is_target_split(chip, pc):
    """The same of the target of a branch, which is as it was decoded: so the caches have it."""
    config = chip.config[0]
    index = row_index(config, pc)
    if 0 <= index < config["rows"]:
        row = chip.code[np.uint64(index)]
        if row["kind"] != UNDECODED:
            return 1 if pc & 2 and row["size"] == 4 else 0
    return is_split(chip, pc)
