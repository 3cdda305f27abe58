"""Requests of cores for aligned words of L1: the way of most loads and stores, made for speed.

It derives from soc.cluster.l1_access. Of these requests is noted who asks for which bank in which
cycle. Where one core asks alone, it wins, and is the arbiter's next rr: nothing is left to choose.
Other banks are arbitrated before any of their harts goes on (share_banks). Beside requests of other
kinds, these are put to the banks like those (request_words, grant_words).
"""

import numpy as np

from soc.cluster.l1_access import add_contention, note_l1_grant
from soc.core.lsu import access_granted, transact_word
from soc.interconnect.tcdm import arbitrate_bank, ask_bank, serve_bank, wins_bank
from soc.prelude.bits import bit, lowest_index
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.trace_points import note_accessed, note_conflicts
from soc.prelude.wheel import RING, SLOTS, enter_wheel


@inlined_step
def bank_number(chip, h):
    """Return the number of the bank that a hart asks for."""
    return (chip.harts[np.uint64(h)]["address"] >> 2) & (chip.config[0]["banks"] - 1)


@inlined_step
def enter_request(chip, h, is_word):
    """Enter a hart's request to L1 into the wheel; of aligned words is noted who shares a bank."""
    cycle = chip.harts[np.uint64(h)]["when"]
    if is_word:
        note_word(chip, h, cycle)
    chip.wheel[0]["slots"][np.uint64(cycle) % np.uint64(SLOTS)] |= bit(h)


@inlined_step
def note_word(chip, h, cycle):
    """Note for which bank a hart asks in a cycle."""
    wheel = chip.wheel[0]
    place = np.uint64(cycle) % np.uint64(RING)
    number = np.uint64(bank_number(chip, h))
    others = np.uint64(wheel["asking"][place][number])
    wheel["asking"][place][number] = others | bit(h)
    wheel["shared"][place] |= np.uint64(others != 0) << number


@inlined_step
def take_bank(chip, h, now):
    """Let a bank serve a hart that has won it.

    The next rr is what share_banks has left of the requests, or the hart, which was alone then.
    """
    number = np.uint64(bank_number(chip, h))
    asking = chip.wheel[0]["asking"][np.uint64(now) % np.uint64(RING)]
    serve_bank(chip.banks[number], lowest_index(np.uint64(asking[number])))
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
    """Arbitrate banks that several of them ask for; returns the harts that have lost.

    In the place of the requests the arbiter's next rr is left, for take_bank.
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
        _, following, losers = arbitrate_bank(chip.banks[number], requests)
        wheel["asking"][place][number] = bit(following)
        lost |= losers
        again |= ask_again(wheel["asking"][after], number, losers)
    wheel["shared"][after] |= again
    wheel["slots"][np.uint64(now + 1) % np.uint64(SLOTS)] |= lost
    note_conflicts(chip, lost, now)
    return lost


@cold_step
def request_words(chip, harts, now):
    """Put the requests of harts for aligned words to the banks, where others ask too."""
    wheel = chip.wheel[0]
    place = np.uint64(now) % np.uint64(RING)
    wheel["shared"][place] = np.uint64(0)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        number = np.uint64(bank_number(chip, h))
        wheel["asking"][place][number] = np.uint16(0)
        ask_bank(chip.banks[number], h)


@cold_step
def grant_words(chip, harts, now):
    """Choose among these; returns the harts that are served, the others ask again."""
    granted = np.uint64(0)
    place = np.uint64(now) % np.uint64(RING)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        number = np.uint64(bank_number(chip, h))
        bank = chip.banks[number]
        if wins_bank(bank, h):
            granted |= bit(h)
            chip.wheel[0]["asking"][place][number] = bit(bank["following"])
        else:
            note_word(chip, h, now + 1)
    enter_wheel(chip.wheel[0], harts & ~granted, now + 1)
    note_conflicts(chip, harts & ~granted, now)
    return granted


@inlined_step
def l1_word_access(chip, h, row, index, now):
    """Perform a granted access of a core to an aligned word of L1, by the row of this index.

    So soc.cluster.l1_access.l1_access does, of which this is the part that concerns such a word.
    """
    hart = chip.harts[np.uint64(h)]
    note_l1_grant(chip, h, row, index, 0, now)
    add_contention(chip, h, now - hart["when"])
    transact_word(hart, row, chip.l1, hart["address"] - chip.config[0]["l1_base"] >> 2)
    note_accessed(chip, h, row, now)
    access_granted(hart, row, now)
