"""What a hart's request to L1 implies of its state, so that superblocks need not write it down.

A hart waits for a word of L1. Unless something rare is under way, when its next instruction can
issue, and what that may have to wait for, follows from the request: from its row and its cycle.
So a superblock leaves this open; the next one, which begins with the access, knows it anyway. All
others that read the hart's record write it down first. `code` says whether that is due: it is the
address of the next superblock, or 0, of a hart that waits for L1; see soc.jit.superblock_steps.
"""

import numpy as np

from isa.compiled import SINK
from soc.prelude.bits import bit
from soc.prelude.step import inlined_step, step

FORGOTTEN = 0x6E6F7468696E6721
"""Not to be written: what is there remains. See soc.jit.compile_worker."""


@inlined_step
def write_implied(chip, h, row, index):
    """Write down what the request of this row implies."""
    hart = chip.harts[np.uint64(h)]
    when = hart["when"]
    hart["ex_ready"] = when
    hart["in_id"] = when
    hart["issued"] = when - 1
    hart["last"] = index
    hart["late_load"] = row["late_load"]
    hart["late_fpu"] = row["late_fpu"]
    hart["id_valid"] = 1


@inlined_step
def forget_implied(chip, h):
    """Leave it open; but whether the next instruction is handed over, the caches want to know.

    What is rare is as it was. A superblock writes none of it but that no result is pending.
    """
    hart = chip.harts[np.uint64(h)]
    hart["ex_ready"] = FORGOTTEN
    hart["in_id"] = FORGOTTEN
    hart["issued"] = FORGOTTEN
    hart["last"] = FORGOTTEN
    hart["late_load"] = np.uint64(FORGOTTEN)
    hart["late_fpu"] = np.uint64(FORGOTTEN)
    hart["pending"] = FORGOTTEN
    hart["regs"][SINK] = FORGOTTEN


@inlined_step
def is_implied(chip, h, row, index):
    """Does the request of this row imply the hart's state?"""
    hart = chip.harts[np.uint64(h)]
    when = hart["when"]
    if hart["ex_ready"] != when or hart["in_id"] != when or hart["issued"] != when - 1:
        return False
    if hart["late_load"] != row["late_load"] or hart["late_fpu"] != row["late_fpu"]:
        return False
    return hart["last"] == index and hart["id_valid"] == 1 and is_common(chip, h)


@inlined_step
def is_common(chip, h):
    """Is nothing rare under way?"""
    hart = chip.harts[np.uint64(h)]
    if hart["pending"] != 0 or hart["jump_waits"] != 0:
        return False
    if hart["frm"] != 0 or hart["checks"] != 0:  # two tests: from one LLVM learns of neither
        return False
    if hart["external"] != 0 or hart["ri5cy"] != chip.config[0]["ri5cy"]:
        return False
    return chip.fetch[np.uint64(h)]["sets"] == chip.config[0]["private_sets"]


@inlined_step
def write_open(chip, h):
    """Write down what a hart's request implies, if a superblock has left it open."""
    hart = chip.harts[np.uint64(h)]
    if hart["code"] and chip.wheel[0]["running"] & bit(h) == 0:
        index = hart["row"]
        write_implied(chip, h, chip.code[np.uint64(index)], index)


@step
def write_all_open(chip):
    """The same for all harts."""
    for h in range(chip.harts.size):
        write_open(chip, h)
