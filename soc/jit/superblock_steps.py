"""The step functions of superblocks: what a hart does from a grant of L1 up to its next request.

The hottest superblocks are translated into machine code of their own (soc.jit.translator). It
consists of the step functions below, and those are made of the interpreter's own: with decoded rows
as constants, LLVM decides at once what depends on the row alone, such as the operation, its
registers and the hazards within the superblock. So nothing is written twice, and a superblock takes
the same cycles. Where the program goes another way there is a side exit: the interpreter takes over
between two instructions. From the end of a superblock the next hart's is jumped to, if L1 serves
several in a cycle: this costs less than to return, and the host predicts better which one it is. It
does so from the branches taken before: so what is likely lies straight ahead, and nothing depends
on which hart has lost a bank.

The idea: Y. Futamura, Partial Evaluation of Computation Process (1971), first projection.
"""

from collections.abc import Callable

import numpy as np

from soc.core.deferred_state import (
    forget_implied,
    is_common,
    is_implied,
    write_implied,
)
from soc.core.hotness import ACCESS, ISSUE
from soc.core.if_stage import hand_over, hand_over_after_access
from soc.core.lsu import asks_for_word
from soc.engine.aligned_words import enter_request, l1_word_access, take_bank
from soc.icache.private_cache import IDEAL, has_lines, is_cached, is_seen, lines_are_seen
from soc.prelude.bits import bit, lowest_index
from soc.prelude.decoded import JUMP, LOOP_HINTS
from soc.prelude.hart_state import ENTERED, GO_ON, L1_REQUEST, REQUEST, RUN
from soc.prelude.step import cold_step, step
from soc.prelude.wheel import NEVER, SLOTS


@step
def is_expected(chip, h, pc):
    """Does the instruction at pc come after the access, and is fetching as usual?"""
    is_steady = chip.fetch[np.uint64(h)]["mode"] == chip.config[0]["steady_fetch"]
    return is_steady and chip.harts[np.uint64(h)]["pc"] == pc


@step
def is_row(chip, h, index, row):
    """Is this in the row of that index, as far as branches before it, or to it, look at it?"""
    there = chip.code[np.uint64(index)]
    if there["kind"] != row["kind"] or there["flags"] != row["flags"]:
        return False
    return there["size"] == row["size"]


@step
def begin_superblock(chip, h, row, index, now):
    """Perform the access, which is granted in this cycle."""
    hart = chip.harts[np.uint64(h)]
    write_implied(chip, h, row, np.int64(index))
    hart["in_id"] = min(hart["in_id"], now)  # nothing new, but now LLVM knows too
    take_bank(chip, h, now)
    l1_word_access(chip, h, row, np.int64(index), now)


@step
def is_usual(chip, h, now):
    """Is nothing rare under way, and can the next instruction issue now but for its operands?

    What is tested here need not be tested after each instruction: LLVM knows.
    """
    hart = chip.harts[np.uint64(h)]
    config = chip.config[0]
    fetch = chip.fetch[np.uint64(h)]
    if fetch["mode"] != config["steady_fetch"] or not is_common(chip, h):
        return False
    return hart["ex_ready"] <= now and hart["in_id"] <= now


@step
def is_ready(chip, h, row, now):
    """Does this instruction, the next one, not wait for what the last one delivers late?"""
    hart = chip.harts[np.uint64(h)]
    if row["uses_load"] & hart["late_load"] | row["uses_fpu"] & hart["late_fpu"]:
        return hart["forwarded"] <= now
    return True


@step
def expect_request(chip, h):
    """Take the request that ends the superblock for a plain one, until it turns out otherwise."""
    chip.wheel[0]["words"] |= bit(h)
    chip.harts[np.uint64(h)]["state"] = L1_REQUEST


@step
def find_next_line(chip, h, pc):
    """Look up the line after that of pc, if it is not remembered to be there."""
    fetch = chip.fetch[np.uint64(h)]
    is_core = fetch["sets"] == chip.config[0]["private_sets"]  # others have no cache
    if chip.config[0]["steady_fetch"] != IDEAL and is_core and not has_next_line(chip, h, pc):
        is_cached(fetch, (pc >> 4) + 1)


@step
def has_next_line(chip, h, pc):
    """Does the private cache certainly have the line after that of pc?"""
    if chip.config[0]["steady_fetch"] == IDEAL:
        return True
    return is_seen(chip.fetch[np.uint64(h)], (pc >> 4) + 1)


@step
def loops_back(chip, h, loop, pc, target):
    """Does the instruction at pc end this hardware loop, which goes back there?"""
    hart = chip.harts[np.uint64(h)]
    if loop == 1 and hart["lp_last"][0] == pc:
        return False
    if hart["lp_last"][loop] != pc or hart["lp_start"][loop] != target:
        return False
    return hart["lp_count"][loop] > 1


@step
def runs_out(chip, h, loop, pc):
    """Does the instruction at pc end this hardware loop, and no other, for the last time?"""
    hart = chip.harts[np.uint64(h)]
    is_end = hart["lp_last"][loop] == pc and hart["lp_last"][1 - loop] != pc
    return is_end and hart["lp_count"][loop] == 1


@step
def find_target(chip, h, target):
    """Look up the lines that a jump asks for, if they are not remembered to be there."""
    fetch = chip.fetch[np.uint64(h)]
    is_core = fetch["sets"] == chip.config[0]["private_sets"]  # others have no cache
    if chip.config[0]["steady_fetch"] != IDEAL and is_core and not has_target(chip, h, target):
        has_lines(fetch, target)


@step
def has_target(chip, h, target):
    """Does the private cache certainly have the lines that a jump there asks for?"""
    if chip.config[0]["steady_fetch"] == IDEAL:
        return True
    return lines_are_seen(chip.fetch[np.uint64(h)], target)


@step
def next_code(chip, h, others):
    """Return the machine code of the next of these harts that L1 serves, or 0."""
    return chip.harts[np.uint64(lowest_index(others))]["code"]


@step
def next_row(chip, h, others):
    """Return the row with which that begins."""
    return chip.harts[np.uint64(lowest_index(others))]["row"]


@step
def end_turns(chip, h, others):
    """Leave it to the interpreter to go on with this hart; others come after it."""
    wheel = chip.wheel[0]
    wheel["turn"] = h
    wheel["others"] = others


def make_follow(issue: Callable) -> Callable:
    """Return the step function for each further instruction, around this `issue`."""

    @step
    def follow_superblock(chip, h, row, index, pc):
        """Let the next instruction enter the decode stage and issue, if it is this one.

        Returns the hart's state; GO_ON if it is another, or has not certainly come.
        """
        hart = chip.harts[np.uint64(h)]
        fetch = chip.fetch[np.uint64(h)]
        if hart["pc"] != pc:
            return GO_ON
        if hart["id_valid"] == 0 and not hand_over(chip, hart, fetch, row, pc):
            return GO_ON
        return issue(chip, h, hart, fetch, row, np.uint64(index), pc, NEVER)

    return follow_superblock


@cold_step
def hand_over_another(chip, hart, fetch):
    """Let the instruction after an access enter the decode stage, whichever it is."""
    hand_over_after_access(chip, hart, fetch)


@step
def end_superblock(chip, h, row, index, following, pc, state):
    """End the superblock after this row's instruction; `following`, at pc, likely comes next."""
    if state == GO_ON or state == RUN:
        return GO_ON
    hart = chip.harts[np.uint64(h)]
    fetch = chip.fetch[np.uint64(h)]
    asks_ahead = following["kind"] == JUMP or following["flags"] & LOOP_HINTS
    if state == L1_REQUEST or state == REQUEST:
        if hart["pc"] != pc or not hand_over(chip, hart, fetch, following, pc):
            hand_over_another(chip, hart, fetch)
        elif asks_ahead and fetch["fresh"]:
            pass  # what it asks for is missing: the caches have to know
        elif is_implied(chip, h, row, np.int64(index)):
            forget_implied(chip, h)
            hart["code"] = chip.superblocks[np.uint64(index)]["code"][ACCESS]
            if asks_for_word(chip, hart, row) and hart["code"]:
                enter_request(chip, h, True)  # `state` says already that it asks
                return ENTERED
            write_implied(chip, h, row, np.int64(index))
        if not asks_for_word(chip, hart, row):
            chip.wheel[0]["words"] &= ~bit(h)
    hart["state"] = state
    return state


@step
def pause_superblock(chip, h, row):
    """Stop before this row, where the hart has run ahead as far as it may."""
    hart = chip.harts[np.uint64(h)]
    wheel = chip.wheel[0]
    when = max(hart["ex_ready"], hart["in_id"])
    hart["state"] = RUN
    hart["when"] = when
    if chip.fetch[np.uint64(h)]["fresh"]:
        return RUN
    hart["code"] = chip.superblocks[np.uint64(row)]["code"][ISSUE]
    wheel["running"] |= bit(h)
    wheel["words"] &= ~bit(h)
    wheel["slots"][np.uint64(when) % np.uint64(SLOTS)] |= bit(h)
    return ENTERED
