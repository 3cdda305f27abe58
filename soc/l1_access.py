"""Accesses of harts to L1: requests to the banks, their grants, what is granted.

An aligned word of a core is plain; plain requests are put, and granted, in two short loops.
Everything else, and what else takes part in arbitration, goes by way of access_l1.
"""

import numpy as np

from soc.bits import bit, lowest_index
from soc.decode import STORE
from soc.hart_status import L1_REQUEST, RUN, charge
from soc.l1 import ask_bank, grant_bank
from soc.memory import transact, transact_word
from soc.requests import access_granted, enter_wheel, schedule
from soc.state import COUNT
from soc.step import cold_step, inlined_step, step
from soc.trace_points import note_conflicts, note_memory

L1_CONTENTION, MISALIGNED = COUNT.l1_contention, COUNT.misaligned
L1_ACCESSES = COUNT.l1_accesses


@inlined_step
def bank_of(chip, word):
    """Return the bank of a word address."""
    return chip.banks[np.uint64(word) & np.uint64(chip.config[0]["banks"] - 1)]


@inlined_step
def l1_word(hart):
    """Return the word address of a hart's L1 transaction."""
    return (hart["address"] >> 2) + hart["second"]


@inlined_step
def note_l1_grant(chip, hart, row, now):
    """Count a transaction that is granted, and the cycles for which a core has lost arbitration."""
    hart["counts"][L1_ACCESSES] += 1
    hart["l1_grant"] = now
    note_memory(chip, hart, row, False, now)
    lost = now - hart["when"]
    if lost and hart["external"] == 0:
        charge(chip, hart, L1_CONTENTION, lost)


@inlined_step
def l1_access(chip, h, now):
    """Perform a granted L1 transaction; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    note_l1_grant(chip, hart, row, now)
    offset = hart["address"] - chip.config[0]["l1_base"]
    if transact(hart, row, chip.l1, offset):
        hart["second"] = 1
        if hart["external"] == 0:
            charge(chip, hart, MISALIGNED, 1)
        schedule(chip, h, now + 1)
        return np.uint64(0)
    hart["second"] = 0
    access_granted(hart, row, now)
    if hart["test_and_set"]:
        hart["test_and_set"] = 0
        chip.l1[np.uint64(offset >> 2)] = -1
    if hart["external"]:
        return answer_controller(chip, h, now)
    return bit(h)


@step
def answer_controller(chip, h, now):
    """Send the answer of L1 back to the fabric controller."""
    hart = chip.harts[np.uint64(h)]
    cycle = now + chip.config[0]["l1_to_controller"]
    row = chip.code[np.uint64(hart["row"])]
    hart["state"] = RUN
    access_granted(hart, row, cycle)
    cause = COUNT.store_external if row["kind"] == STORE else COUNT.load_external
    charge(chip, hart, cause, cycle - hart["issued"] - 1)
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


@inlined_step
def plain_bank(chip, h):
    """Return the bank of the plain word that a hart asks for."""
    return bank_of(chip, chip.harts[np.uint64(h)]["address"] >> 2)


@inlined_step
def request_plain(chip, harts, now):
    """Put the requests of harts for plain words to the banks."""
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        ask_bank(plain_bank(chip, h), h, now)


@inlined_step
def grant_plain(chip, harts, now):
    """Grant requests for plain words; returns the harts that are served, the others ask again."""
    wheel = chip.wheel[0]
    granted = np.uint64(0)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        granted |= np.uint64(grant_bank(plain_bank(chip, h), h)) << np.uint64(h)
    enter_wheel(wheel, harts & ~granted, now + 1)
    note_conflicts(chip, harts & ~granted, now)
    wheel["plain"] &= ~granted
    return granted


@inlined_step
def l1_word_access(chip, h, now):
    """Perform a granted access to an aligned word of L1."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    note_l1_grant(chip, hart, row, now)
    transact_word(hart, row, chip.l1, hart["address"] - chip.config[0]["l1_base"] >> 2)
    access_granted(hart, row, now)
