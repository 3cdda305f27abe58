"""Accesses of harts to L1: their banks, the grants, what is granted, the stalls of those that lose.

The compiled engine has a shorter way for aligned words: soc.engine.aligned_words.
"""

import numpy as np

from soc.cluster.demux import TEST_AND_SET
from soc.core.bounds import is_in_l1
from soc.core.lsu import (
    access_granted,
    end_access,
    transact,
    turn_to_second_half,
)
from soc.core.sync_points import note_atomic
from soc.interconnect.tcdm import grant_bank
from soc.prelude.bits import bit, lowest_index
from soc.prelude.counters import COUNT
from soc.prelude.decoded import LOAD, STORE
from soc.prelude.hart_state import L1_REQUEST, REQUEST, RUN, add_stall
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.trace_points import note_accessed, note_conflicts, note_lost, note_memory
from soc.prelude.wheel import enter_wheel, schedule

L1_CONTENTION, MISALIGNED = COUNT.l1_contention, COUNT.misaligned
L1_ACCESSES = COUNT.l1_accesses


@inlined_step
def bank_of(chip, word):
    """Return the bank of a word address."""
    return chip.banks[np.uint64(word) & np.uint64(chip.config[0]["banks"] - 1)]


@inlined_step
def l1_word(hart):
    """Return the word address of a hart's L1 transaction."""
    return hart["address"] >> 2


@inlined_step
def note_l1_grant(chip, h, row, index, half, now):
    """Count a transaction that is granted."""
    hart = chip.harts[np.uint64(h)]
    hart["counts"][L1_ACCESSES] += 1
    hart["l1_grant"] = now
    note_memory(chip, h, row, index, half, False, now)


@inlined_step
def add_contention(chip, h, lost):
    """Add the cycles to a core's stalls in which it has lost the arbitration of its bank.

    NOTE: no branch on whether it has lost any, since it would not be predicted. So `cause` is never
    contention, which is over when it is added.
    """
    chip.harts[np.uint64(h)]["counts"][L1_CONTENTION] += lost
    note_lost(chip, h, lost)


@inlined_step
def l1_access(chip, h, now):
    """Perform a granted L1 transaction; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    index = hart["row"]
    row = chip.code[np.uint64(index)]
    if hart["test_and_set"] and row["kind"] == LOAD:
        note_atomic(chip, h, now)
    note_l1_grant(chip, h, row, index, hart["second"], now)
    add_contention(chip, h, 0 if hart["external"] else now - hart["when"])
    offset = hart["address"] - chip.config[0]["l1_base"]
    is_due = transact(hart, row, chip.l1, offset)
    if hart["test_and_set"] and row["kind"] == LOAD:
        chip.l1[np.uint64(offset >> 2)] = -1
    if is_due:
        ask_for_second_half(chip, hart)
        schedule(chip, h, now + 1)
        return np.uint64(0)
    end_access(hart)
    note_accessed(chip, h, row, now)
    hart["test_and_set"] = 0
    access_granted(hart, row, now)
    if hart["external"]:
        return answer_controller(chip, h, now)
    return bit(h)


@step
def ask_for_second_half(chip, hart):
    """Ask for the second half of an access: in L1, or past its end of whoever answers there."""
    turn_to_second_half(hart)
    if hart["external"] == 0:
        add_stall(chip, hart, MISALIGNED, 1)
    if not is_in_l1(chip, hart["address"]):
        hart["address"] += TEST_AND_SET * hart["test_and_set"]
        hart["test_and_set"] = 0
        hart["state"] = REQUEST


@step
def answer_controller(chip, h, now):
    """Send the answer of L1 back to the fabric controller."""
    hart = chip.harts[np.uint64(h)]
    cycle = now + chip.config[0]["l1_to_controller"]
    row = chip.code[np.uint64(hart["row"])]
    hart["state"] = RUN
    access_granted(hart, row, cycle)
    cause = COUNT.store_external if row["kind"] == STORE else COUNT.load_external
    add_stall(chip, hart, cause, cycle - hart["issued"] - 1)
    schedule(chip, h, cycle)
    return np.uint64(0)


@cold_step
def access_l1(chip, due, now):
    """Arbitrate the banks and perform what was granted; returns the harts that go on."""
    going = np.uint64(0)
    rest = due
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        hart = chip.harts[np.uint64(h)]
        if hart["state"] == L1_REQUEST and hart["when"] <= now:
            bank = bank_of(chip, l1_word(hart))
            if grant_bank(bank, h):
                going |= l1_access(chip, h, now)
            else:
                enter_wheel(chip.wheel[0], bit(h), now + 1)
                note_conflicts(chip, bit(h), now)
    return going
