"""From fetch to decode: when a hart's next instruction enters the decode stage.

The prefetch buffer and the caches behind it: soc.icache.prefetch_buffer, whose sources are those of
this too.
"""

import numpy as np

from soc.core.decoded_index import is_split, row_index
from soc.core.hardware_loop import loop_start
from soc.core.int_div import division_cycles_of
from soc.icache.prefetch_buffer import (
    fetch_comes,
    fetch_in_time,
    fetch_jump,
    fetch_loop,
    fetch_next,
    fetch_steadily,
    is_jump_to_half,
)
from soc.icache.private_cache import IDEAL, STEADY
from soc.prelude.counters import COUNT
from soc.prelude.decoded import BEFORE_LOOP_END, BRANCH, DIVISION, JUMP, LOOP_END, UNDECODED
from soc.prelude.hart_state import add_stall
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.wheel import NEVER

FETCH_STALL, MULTICYCLE_STALL = COUNT.fetch, COUNT.multicycle


@inlined_step
def fetch_target(hart, fetch, target, cycle):
    """Ask for the target of a jump in this cycle; RI5CY's may end a hardware loop.

    (riscv_hwloop_controller.sv compares the address at the queue's output, however it got there.)
    """
    fetch_jump(fetch, target, loop_start(hart, target) if hart["ri5cy"] else -1, cycle)


@inlined_step
def fetch_after(chip, hart, fetch, row, pc, cycle):
    """Ask for what follows an instruction that entered the decode stage in this cycle.

    A jump asks for its target; what comes right before the end of a hardware loop for its start.
    """
    if row["kind"] == JUMP:
        fetch_target(hart, fetch, pc + row["imm"], cycle)
        return
    if row["flags"] & BEFORE_LOOP_END:
        end = pc + int(row["size"])
        start = loop_start(hart, end)
        if start >= 0:
            fetch_loop(fetch, end, is_split(chip, hart, end), start, cycle)


@inlined_step
def fetch_turns(hart, row, pc):
    """Does fetch_after ask for something else than what follows in memory?"""
    if row["flags"] & BEFORE_LOOP_END:
        return row["kind"] == JUMP or loop_start(hart, pc + int(row["size"])) >= 0
    return row["kind"] == JUMP


@inlined_step
def hand_over(chip, hart, fetch, row, pc):
    """Let the next instruction enter the decode stage, if it has certainly come.

    Returns False if not: see hand_over_in_time, await_hand_over.
    """
    mode = fetch["mode"]
    if mode != IDEAL:
        if mode != STEADY:
            return False
        turns = fetch_turns(hart, row, pc)
        may_end = row["flags"] & LOOP_END != 0
        fetch_steadily(fetch, pc, int(row["size"]), hart["in_id"] - 1, turns, may_end)
        fetch_after(chip, hart, fetch, row, pc, hart["in_id"])
    hart["id_valid"] = 1
    return True


@inlined_step
def hand_over_in_time(hart, fetch, row, pc):
    """The same around a miss, of an instruction that has come by the time it is wanted.

    Most have, and most ask for nothing then but for the next words. Returns False if not.
    """
    if hart["in_id"] > hart["issued"] + 1:
        return False
    if row["kind"] == JUMP or row["flags"] & BEFORE_LOOP_END:
        return False
    if not fetch_in_time(fetch, pc, int(row["size"]), hart["in_id"] - 1):
        return False
    hart["id_valid"] = 1
    return True


@step
def division_in_id(chip, hart):
    """Cycles of the division that RI5CY's decode stage still holds while it is empty; 0: none.

    It goes to EX again whenever that is ready, without a result, until something is handed over,
    in that cycle, too: nothing there depends on the instruction being valid (rule S).
    """
    row = chip.code[np.uint64(hart["last"])]
    if hart["left_in_id"] == 0 and row["flags"] & DIVISION:
        return division_cycles_of(hart, row)
    return hart["left_in_id"]


@cold_step
def await_hand_over(chip, hart, fetch, row, pc, ready):
    """Let the next instruction enter the decode stage when it comes; returns False if that is open.

    ready    first cycle in which EX can take it, or NEVER: see fetch_next
    """
    cycle = hart["in_id"] - 1
    comes = fetch_comes(fetch, pc, int(row["size"]))
    passes = follows_access = False
    if fetch["port"]:
        if hart["issued"] >= hart["memory_grant"]:  # what issued waits in EX for the access before
            passes = (
                cycle == hart["issued"] and chip.code[np.uint64(hart["last"])]["kind"] == BRANCH
            )
            hart["ex_ready"] = max(hart["ex_ready"], hart["answer"])
        else:  # nothing leaves ID after a granted access that left it empty
            follows_access = True
            if comes > hart["memory_grant"]:
                ready = max(ready, hart["answer"])
        if ready != NEVER:
            ready = max(ready, hart["ex_ready"])
        if cycle > hart["issued"] and ready > cycle:
            if ready == NEVER:
                return False
            cycle = ready + 1 if is_jump_to_half(fetch, pc, int(row["size"])) else ready
    again = division_in_id(chip, hart) if hart["ri5cy"] and ready != NEVER else 0
    if again and ready < comes < NEVER:
        ready += -((ready - comes) // again) * again
    given = fetch_next(fetch, pc, int(row["size"]), cycle, ready, False)
    if given == NEVER:
        return False
    if passes and given == cycle:  # a branch not taken lets what is in ID into EX
        hart["ex_ready"] = cycle + 1
        hart["late_load"] |= chip.code[np.uint64(hart["row"])]["late_load"]
    if follows_access and given == hart["memory_grant"]:
        hart["ex_ready"] = max(hart["ex_ready"], hart["answer"])
    given += 1
    late = given - max(hart["in_id"], hart["ex_ready"])
    if late > 0:
        add_stall(chip, hart, FETCH_STALL, late)
    hart["in_id"] = max(hart["in_id"], given)
    if again and given > hart["issued"] + 1:
        hart["ex_ready"] = given - 1 + again
        hart["left_in_id"] = 0
        add_stall(chip, hart, MULTICYCLE_STALL, again - 1)
    fetch_after(chip, hart, fetch, row, pc, given)
    hart["id_valid"] = 1
    return True


@inlined_step
def hand_over_after_access(chip, hart, fetch):
    """Let the instruction after a load or store enter the decode stage while that is in EX."""
    pc = hart["pc"]
    index = np.uint64(row_index(chip.config[0], pc))
    if index < np.uint64(chip.config[0]["rows"]):
        row = chip.code[index]
        if row["kind"] != UNDECODED and not hand_over(chip, hart, fetch, row, pc):
            if not hand_over_in_time(hart, fetch, row, pc):
                await_hand_over(chip, hart, fetch, row, pc, NEVER)
