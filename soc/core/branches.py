"""Jumps and branches: when their targets reach the decode stage.

Sources: the timing measured on RTL (table, rules Q and S).
"""

import numpy as np

from soc.code_rows import is_split, is_target_split
from soc.decode import DIVIDE, DIVISION, JALR, JUMP, TO_NEXT, WRITES_ALU
from soc.division import division_cycles
from soc.fetch import fetch_jump
from soc.fpu import wrong_path_cycles
from soc.hart_status import RUN, charge
from soc.state import COUNT
from soc.step import cold_step, inlined_step, step

JUMPS, TAKEN = COUNT.jumps, COUNT.taken
BRANCH_STALL, JUMP_STALL = COUNT.branch, COUNT.jump


@step
def jump_register_ready(chip, hart, entry, free):
    """Return the first cycle in which jalr can use a register: one later than EX could."""
    last = chip.code[np.uint64(hart["last"])]
    ready = 0
    if entry and last["flags"] & WRITES_ALU and last["rd"] == entry:
        ready = free + 1
    if entry and last["rp"] == entry:
        ready = free + 1
    if entry and hart["load_register"] == entry:
        ready = max(ready, hart["load_grant"] + 2)
    if entry and hart["fpu_register"] == entry:
        ready = max(ready, hart["fpu_return"] + 1)
    if entry and hart["earlier_register"] == entry:
        ready = max(ready, hart["earlier_return"] + 1)
    return ready


@step
def jump(chip, hart, row, target):
    """jal, jalr: go to the target, which was asked for when the jump was in ID."""
    hart["counts"][JUMPS] += 1
    free = hart["free"]
    asked = hart["seen"] if row["kind"] == JUMP else max(hart["seen"], hart["jump_ready"])
    split = is_split(chip, target)
    if split and hart["ri5cy"]:
        seen = max(asked + 3, free)
    else:
        seen = max(asked + 2, free) + split
        if row["kind"] == JALR and row["rd"] == row["rs1"] and seen > free:
            seen += 1
    charge(chip, hart, JUMP_STALL, seen - free)
    hart["seen"] = seen
    hart["pc"] = target
    return RUN


@cold_step
def divided_behind_branch(hart, row, split):
    """Cycles more that RI5CY's branch takes for a division right behind it (rule S).

    It is executed although the branch is taken, and again if the target's fetch takes two cycles.
    """
    cycles = division_cycles(int(hart["regs"][row["rs2"]]), row["kind"] == DIVIDE)
    return 2 * cycles - 2 if split else cycles - 1


@inlined_step
def shadow_cycles(chip, hart, behind, target, cycle):
    """Cycles that a branch taken waits for the instruction right behind it (rules Q and S)."""
    index = np.uint64(behind - chip.config[0]["code_base"]) >> np.uint64(1)
    if index >= np.uint64(chip.config[0]["rows"]):
        return 0
    row = chip.code[index]
    if hart["ri5cy"] == 0:
        return wrong_path_cycles(chip, hart, row, target, cycle)
    if row["flags"] & DIVISION:
        return divided_behind_branch(hart, row, is_target_split(chip, target))
    return 0


@inlined_step
def taken_branch(chip, hart, fetch, row, pc, start, target):
    """Go to the target of a branch, which is asked for when the branch is in EX."""
    size = int(row["size"])
    if row["flags"] & TO_NEXT:
        target = pc + size
    split = is_target_split(chip, target)
    wait = 2 + split
    if hart["ri5cy"] or hart["pending"]:
        wait += shadow_cycles(chip, hart, pc + size, target, start)
    seen = start + 1 + wait
    hart["counts"][TAKEN] += 1
    charge(chip, hart, BRANCH_STALL, wait)
    hart["seen"] = seen
    hart["pc"] = target
    fetch_jump(fetch, target, seen - 2 - split)
