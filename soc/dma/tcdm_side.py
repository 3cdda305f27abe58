"""The L1 side of a DMA channel: a burst becomes beats, a beat one access of each of two lanes.

Source: MCHAN's tcdm_cmd_unpack, tcdm_tx_if, tcdm_rx_if, tcdm_synch.
"""

from soc.dma.state import (
    DATA0,
    L1_BURSTS,
    LANE0,
    LANE1,
    SYNCH0,
    SYNCH1,
    front,
    has,
    has_room,
    pop,
    push,
    settle,
)
from soc.dma.words import WORD, store
from soc.prelude.step import inlined_step, step

NONE, REPLIED, HELD = 0, 1, 2
"""What the lane of a read has: nothing, a reply of L1 in this cycle, one that waits for room."""


@inlined_step
def unpack_beats(channel):
    """Give both lanes the next beat of the burst, whole beats at the ends too."""
    if not has_room(channel, LANE0) or not has_room(channel, LANE1):
        return
    if channel["l1_beats"] == 0:
        if not has(channel, L1_BURSTS):
            return
        counter, length, address, _, _ = pop(channel, L1_BURSTS)
        channel["l1_counter"] = counter
        channel["l1_beats"] = ((address & 7) + length + 7) >> 3
        channel["l1_next"] = address & ~7
    channel["l1_beats"] -= 1
    last = 1 if channel["l1_beats"] == 0 else 0
    address = channel["l1_next"]
    push(channel, LANE0, channel["l1_counter"], address, last)
    push(channel, LANE1, channel["l1_counter"], address + 4, last)
    channel["l1_next"] = address + 8


@inlined_step
def read_is_wanted(channel, lane):
    """A read lane requests unless a reply finds no room."""
    if not has(channel, LANE0 + lane) or channel["reply"][lane] == HELD:
        return False
    return channel["reply"][lane] == NONE or has_room(channel, DATA0 + lane)


@inlined_step
def write_is_wanted(channel, lane):
    """A write lane requests where a beat's data are there and enable a byte of its word."""
    if not has(channel, LANE0 + lane) or not has(channel, DATA0 + lane):
        return False
    return front(channel, DATA0 + lane)[1] != 0


@inlined_step
def read_lane(channel, lane, granted, l1):
    """Pass on the reply of the last cycle; perform the access granted in this one."""
    if channel["reply"][lane] != NONE:
        if has_room(channel, DATA0 + lane):
            push(channel, DATA0 + lane, channel["reply_word"][lane])
            if channel["reply_last"][lane]:
                push(channel, SYNCH0 + lane, channel["reply_counter"][lane])
            channel["reply"][lane] = NONE
        else:
            channel["reply"][lane] = HELD
    if granted:
        counter, address, last, _, _ = pop(channel, LANE0 + lane)
        channel["reply"][lane] = REPLIED
        index = address >> 2
        channel["reply_word"][lane] = int(l1[index]) & WORD if index < l1.shape[0] else 0
        channel["reply_counter"][lane] = counter
        channel["reply_last"][lane] = last


@inlined_step
def write_lane(channel, lane, granted, l1):
    """Perform the access granted in this cycle; drop a word without enabled bytes."""
    if not granted:
        if not has(channel, LANE0 + lane) or not has(channel, DATA0 + lane):
            return
        if front(channel, DATA0 + lane)[1] != 0:
            return
    counter, address, last, _, _ = pop(channel, LANE0 + lane)
    word, enables, _, _, _ = pop(channel, DATA0 + lane)
    if granted and address >> 2 < l1.shape[0]:
        store(l1, address >> 2, word, enables)
    if last:
        push(channel, SYNCH0 + lane, counter)


@step
def end_bursts(dma, channel):
    """A burst has ended in L1 when both lanes say so."""
    if has(channel, SYNCH0) and has(channel, SYNCH1):
        counter = pop(channel, SYNCH0)[0]
        pop(channel, SYNCH1)
        dma["l1_pending"][counter] -= 1
        settle(dma, counter)
        channel["outstanding"] -= 1
