"""Arbitration of L1's banks between the DMA's lanes and cores that ask for aligned words.

It derives from soc.cluster.phases, as soc.engine.aligned_words does from soc.cluster.l1_access.
"""

import numpy as np

from soc.core.sync_points import note_word_of_l1
from soc.engine.aligned_words import ask_again
from soc.interconnect.tcdm import DMA_PORTS, arbitrate_bank, serve_bank, serve_lone
from soc.prelude.bits import bit
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.trace_points import is_recorded, note_beat, note_conflicts
from soc.prelude.wheel import RING, SLOTS

INPUTS = 16
"""Of an arbiter at the most, where banks are shared in this way: `asking` has room for so many."""


@inlined_step
def serve_lanes(chip, lanes, now):
    """Serve lanes that ask for banks by themselves, else share_with_lanes; returns what it does."""
    words = chip.dma[0]["lane_word"]
    asking = chip.wheel[0]["asking"][np.uint64(now) % np.uint64(RING)]
    last_bank = chip.config[0]["banks"] - 1
    taken = np.uint64(0)
    is_shared = is_recorded(chip)
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            number = np.uint64(words[lane] & last_bank)
            is_shared |= asking[number] != 0 or taken >> number & np.uint64(1) != 0
            taken |= bit(number)
    if is_shared:
        return share_with_lanes(chip, lanes, now)
    serve_alone(chip, lanes)
    return lanes, np.uint64(0)


@inlined_step
def serve_alone(chip, lanes):
    """Serve lanes of which each is alone at its bank."""
    words = chip.dma[0]["lane_word"]
    last_bank = chip.config[0]["banks"] - 1
    first = chip.config[0]["inputs"] - DMA_PORTS
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            serve_lone(chip.banks[np.uint64(words[lane] & last_bank)], first + lane)


@cold_step
def share_with_lanes(chip, lanes, now):
    """Arbitrate the banks that lanes of the DMA ask for; returns lanes served, harts that lost.

    Both are a bit each. As in share_banks, where a hart wins the arbiter's next rr is left in the
    place of the requests, and losers ask again in the next cycle.
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
        winner, following, losers = arbitrate_bank(bank, requests)
        if winner >= first:
            served |= 1 << (winner - first)
            serve_bank(bank, following)
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
            note_word_of_l1(chip, lane, served >> lane & 1, now)
    return served, lost
