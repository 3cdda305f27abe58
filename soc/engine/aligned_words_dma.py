"""Arbitration of L1's banks between the DMA's lanes and harts that ask for plain words."""

import numpy as np

from soc.bits import bit, members
from soc.l1 import DMA_PORTS, nearest_of_several, next_rr
from soc.l1_access import ask_again
from soc.state import RING, SLOTS
from soc.step import cold_step
from soc.trace_points import note_beat, note_conflicts

INPUTS = 16
"""Of an arbiter at the most, where banks are shared in this way: `asking` has room for so many."""


@cold_step
def share_with_lanes(chip, lanes, now):
    """Arbitrate the banks that lanes of the DMA ask for; returns lanes served, harts that lost.

    Both are a bit each. As in soc.l1_access.share_banks, it is noted in the place of the requests
    how the arbiter goes on if a hart is served, and losers ask again in the next cycle.
    """
    wheel = chip.wheel[0]
    words = chip.dma[0]["lane_word"]
    place = np.uint64(now) % np.uint64(RING)
    after = np.uint64(now + 1) % np.uint64(RING)
    asking, again = wheel["asking"][place], wheel["asking"][after]
    last_bank = chip.config[0]["banks"] - 1
    first = chip.config[0]["inputs"] - DMA_PORTS
    lost = np.uint64(0)
    served = 0
    rest = lanes
    for lane in range(DMA_PORTS):
        if rest >> lane & 1 == 0:
            continue
        number = np.uint64(words[lane] & last_bank)
        requests = np.uint64(asking[number])
        for other in range(lane, DMA_PORTS):
            if rest >> other & 1 and np.uint64(words[other] & last_bank) == number:
                requests |= bit(first + other)
                rest &= ~(1 << other)
        bank = chip.banks[number]
        if requests & (requests - np.uint64(1)) == 0:
            bank["accesses"] += 1
            bank["rr"] = first + lane
            served |= 1 << lane
            continue
        winner = nearest_of_several(requests, bank["rr"], 4)
        following = next_rr(requests, bank["rr"])
        losers = requests & ~bit(winner)
        bank["winner"] = winner
        bank["conflicts"] += members(losers)
        if winner >= first:
            served |= 1 << (winner - first)
            bank["accesses"] += 1
            bank["rr"] = following
            asking[number] = np.uint16(0)
        else:
            asking[number] = bit(following)
        wheel["shared"][place] &= ~bit(number)
        harts = losers & (bit(first) - np.uint64(1))
        if harts:
            wheel["shared"][after] |= ask_again(again, number, harts)
            lost |= harts
    wheel["slots"][np.uint64(now + 1) % np.uint64(SLOTS)] |= lost
    note_conflicts(chip, lost, now)
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            address = chip.config[0]["l1_base"] + 4 * words[lane]
            note_beat(chip, first + lane, address, served >> lane & 1, lane >> 1, now)
    return served, lost
