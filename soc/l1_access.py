"""Accesses of harts to L1: requests to the banks, their grants, what is granted.

An aligned word of a core is plain. Of plain requests is noted who asks for which bank in which
cycle, so that most need no arbitration (share_banks); beside others they are put to the banks like
those (request_plain, grant_plain). Everything else goes by way of access_l1.
"""

import numpy as np

from soc.bits import bit, lowest_index, members
from soc.decode import LOAD, STORE
from soc.hart_status import L1_REQUEST, REQUEST, RUN, charge
from soc.l1 import ask_bank, choose, grant_bank, nearest_of_several, next_rr
from soc.memory import WORD, end_access, transact, transact_word, turn_to_second_half
from soc.requests import TEST_AND_SET, access_granted, enter_wheel, is_in_l1, schedule
from soc.state import COUNT, RING, SLOTS
from soc.step import cold_step, inlined_step, step
from soc.trace_points import note_conflicts, note_lost, note_memory, note_stall

CORE_LEVELS = 4
MOST_CORES = 1 << CORE_LEVELS
"""Of a chip; above their levels, the arbiters' trees have nothing to choose among cores."""

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
def l1_access(chip, h, now):
    """Perform a granted L1 transaction; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    index = hart["row"]
    row = chip.code[np.uint64(index)]
    note_l1_grant(chip, h, row, index, hart["second"], now)
    lost = now - hart["when"]
    if lost and hart["external"] == 0:
        hart["counts"][L1_CONTENTION] += lost
        note_stall(chip, hart, L1_CONTENTION, lost)
    offset = hart["address"] - chip.config[0]["l1_base"]
    is_due = transact(hart, row, chip.l1, offset)
    if hart["test_and_set"] and row["kind"] == LOAD:
        chip.l1[np.uint64(offset >> 2)] = -1
    if is_due:
        ask_for_second_half(chip, hart)
        schedule(chip, h, now + 1)
        return np.uint64(0)
    end_access(hart)
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
        charge(chip, hart, MISALIGNED, 1)
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
def plain_number(chip, h):
    """Return the number of the bank of the plain word that a hart asks for."""
    return (chip.harts[np.uint64(h)]["address"] >> 2) & (chip.config[0]["banks"] - 1)


@inlined_step
def enter_request(chip, h, is_plain):
    """Enter a hart's request to L1 into the wheel; of plain ones is noted who shares a bank."""
    cycle = chip.harts[np.uint64(h)]["when"]
    if is_plain:
        note_plain(chip, h, cycle)
    chip.wheel[0]["slots"][np.uint64(cycle) % np.uint64(SLOTS)] |= bit(h)


@inlined_step
def asks_l1(chip, hart):
    """Does a hart ask for something of its own L1?"""
    return is_in_l1(chip, hart["address"]) and hart["external"] == 0


@inlined_step
def is_plain_request(chip, hart, row):
    """Does a hart ask for an aligned word of L1?"""
    return asks_l1(chip, hart) and row["access"] == WORD and hart["address"] & 3 == 0


@inlined_step
def note_plain(chip, h, cycle):
    """Note for which bank a hart asks in a cycle."""
    wheel = chip.wheel[0]
    place = np.uint64(cycle) % np.uint64(RING)
    number = np.uint64(plain_number(chip, h))
    others = np.uint64(wheel["asking"][place][number])
    wheel["asking"][place][number] = others | bit(h)
    wheel["shared"][place] |= np.uint64(others != 0) << number


@inlined_step
def take_bank(chip, h, now):
    """Let a hart have its bank; if others asked for it too, share_banks has been there before."""
    number = np.uint64(plain_number(chip, h))
    bank = chip.banks[number]
    asking = chip.wheel[0]["asking"][np.uint64(now) % np.uint64(RING)]
    bank["rr"] = lowest_index(np.uint64(asking[number]))
    bank["accesses"] += 1
    asking[number] = np.uint16(0)


@inlined_step
def ask_again(asking, number, losers):
    """Let harts ask for a bank in another cycle; returns its bit if it has to be shared then.

    asking    requests of that cycle by bank
    """
    others = np.uint64(asking[number])
    asking[number] = others | losers
    return np.uint64((others != 0) | (losers & losers - np.uint64(1) != 0)) << number


@inlined_step
def share_banks(chip, now):
    """Arbitrate banks that several plain requests are for; returns the harts that have lost.

    In the place of the requests is noted how the arbiter goes on: see take_bank.
    """
    wheel = chip.wheel[0]
    place = np.uint64(now) % np.uint64(RING)
    after = np.uint64(now + 1) % np.uint64(RING)
    shared = wheel["shared"][place]
    wheel["shared"][place] = np.uint64(0)
    lost = again = np.uint64(0)
    while shared:
        number = np.uint64(lowest_index(shared))
        shared &= shared - np.uint64(1)
        requests = np.uint64(wheel["asking"][place][number])
        bank = chip.banks[number]
        bank["winner"] = nearest_of_several(requests, bank["rr"] & MOST_CORES - 1, CORE_LEVELS)
        losers = requests & ~bit(bank["winner"])
        wheel["asking"][place][number] = bit(next_rr(requests, bank["rr"]))
        bank["conflicts"] += members(losers)
        lost |= losers
        again |= ask_again(wheel["asking"][after], number, losers)
    wheel["shared"][after] |= again
    wheel["slots"][np.uint64(now + 1) % np.uint64(SLOTS)] |= lost
    note_conflicts(chip, lost, now)
    return lost


@cold_step
def request_plain(chip, harts, now):
    """Put the requests of harts for plain words to the banks, where others ask too."""
    wheel = chip.wheel[0]
    place = np.uint64(now) % np.uint64(RING)
    wheel["shared"][place] = np.uint64(0)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        number = np.uint64(plain_number(chip, h))
        wheel["asking"][place][number] = np.uint16(0)
        ask_bank(chip.banks[number], h, now)


@cold_step
def grant_plain(chip, harts, now):
    """Choose among requests for plain words; returns the harts served, the others ask again."""
    granted = np.uint64(0)
    place = np.uint64(now) % np.uint64(RING)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        number = np.uint64(plain_number(chip, h))
        bank = chip.banks[number]
        if choose(bank, h):
            granted |= bit(h)
            chip.wheel[0]["asking"][place][number] = bit(bank["rr"])
        else:
            note_plain(chip, h, now + 1)
    enter_wheel(chip.wheel[0], harts & ~granted, now + 1)
    note_conflicts(chip, harts & ~granted, now)
    return granted


@inlined_step
def l1_word_access(chip, h, row, index, now):
    """Perform a granted access of a core to an aligned word of L1, by the row of this index.

    NOTE: no branch on whether it has lost arbitration, since nobody can predict it. So `cause` is
    never contention, which is over when it is charged.
    """
    hart = chip.harts[np.uint64(h)]
    note_l1_grant(chip, h, row, index, 0, now)
    lost = now - hart["when"]
    hart["counts"][L1_CONTENTION] += lost
    note_lost(chip, h, lost)
    transact_word(hart, row, chip.l1, hart["address"] - chip.config[0]["l1_base"] >> 2)
    access_granted(hart, row, now)
