"""Jumps and branches: when their targets reach the decode stage.

Sources: the timing measured on RTL (table, rules Q, S and W).
"""

import numpy as np

from soc.core.decoded_index import is_split, row_index
from soc.core.fpu import wrong_path_cycles
from soc.core.if_stage import fetch_target
from soc.core.int_div import division_cycles_of
from soc.prelude.counters import COUNT
from soc.prelude.decoded import DIVISION, FPU, JALR, JUMP, TO_NEXT, WRITES_ALU
from soc.prelude.hart_state import RUN, add_stall
from soc.prelude.step import cold_step, inlined_step, step

JUMPS, TAKEN = COUNT.jumps, COUNT.taken
BRANCH_STALL, JUMP_STALL = COUNT.branch, COUNT.jump


@step
def jump_register_ready(chip, hart, entry, ex_ready):
    """Return the first cycle in which jalr can use a register: one later than EX could."""
    last = chip.code[np.uint64(hart["last"])]
    ready = 0
    if entry and last["flags"] & WRITES_ALU and last["rd"] == entry:
        ready = ex_ready + 1
    if entry and last["rp"] == entry:
        ready = ex_ready + 1
    if entry and hart["load_register"] == entry:
        ready = max(ready, hart["load_grant"] + 2)
    if entry and hart["fpu_register"] == entry:
        forwarded = hart["ri5cy"] != 0 and last["kind"] == FPU and last["rd"] == entry  # rule W
        ready = max(ready, hart["fpu_return"] + (0 if forwarded else 1))
    if entry and hart["earlier_register"] == entry:
        ready = max(ready, hart["earlier_return"] + 1)
    return ready


@step
def jump(chip, hart, row, target):
    """jal, jalr: go to the target, which was asked for when the jump was in ID."""
    hart["counts"][JUMPS] += 1
    ex_ready = hart["ex_ready"]
    asked = hart["in_id"] if row["kind"] == JUMP else max(hart["in_id"], hart["jump_ready"])
    split = is_split(chip, hart, target)
    if split and hart["ri5cy"]:
        in_id = max(asked + 3, ex_ready)
    else:
        in_id = max(asked + 2, ex_ready) + split
        if row["kind"] == JALR and row["rd"] == row["rs1"] and in_id > ex_ready:
            in_id += 1
    add_stall(chip, hart, JUMP_STALL, in_id - ex_ready)
    hart["in_id"] = in_id
    hart["pc"] = target
    return RUN


@cold_step
def division_after_branch(hart, fetch, row, split, cycle):
    """Cycles more that RI5CY's branch takes for a division right after it (rule S).

    It is executed although the branch is taken, and again if the target's fetch takes two cycles.
    Where words of the target wait for grants, ID keeps it until they come.
    """
    cycles = division_cycles_of(hart, row)
    if fetch["port"]:
        hart["left_in_id"] = cycles
        hart["ex_ready"] = cycle + 2
        return -split
    return 2 * cycles - 2 if split else cycles - 1


@inlined_step
def shadow_cycles(chip, hart, fetch, after, target, cycle):
    """Cycles that a branch taken waits for the instruction right after it (rules Q and S)."""
    index = np.uint64(row_index(chip.config[0], after))
    if index >= np.uint64(chip.config[0]["rows"]):
        return 0
    row = chip.code[index]
    if hart["ri5cy"] == 0:
        return wrong_path_cycles(chip, hart, row, target, cycle)
    if row["flags"] & DIVISION:
        return division_after_branch(hart, fetch, row, is_split(chip, hart, target), cycle)
    return 0


@inlined_step
def taken_branch(chip, hart, fetch, row, pc, start, target):
    """Go to the target of a branch, which is asked for when the branch is in EX."""
    size = int(row["size"])
    if row["flags"] & TO_NEXT:
        target = pc + size
    split = is_split(chip, hart, target)
    wait = 2 + split
    if hart["ri5cy"] or hart["pending"]:
        wait += shadow_cycles(chip, hart, fetch, pc + size, target, start)
    in_id = start + 1 + wait
    hart["counts"][TAKEN] += 1
    add_stall(chip, hart, BRANCH_STALL, wait)
    hart["in_id"] = in_id
    hart["pc"] = target
    fetch_target(hart, fetch, target, max(start + 1, in_id - 2 - split))
