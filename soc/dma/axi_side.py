"""The L2 side of a DMA channel: AXI bursts, up to `outstanding` of them under way at a time.

Addresses and write beats are on the bus one cycle after the stage that sends them, a response one
cycle before the stage that takes it: register slices. The way to L2, which cores and refills share,
says when a burst's first beat passes and when its response comes; responses are in order.

A beat that is read has the bytes of all writes that were on the bus in earlier cycles.

Source: MCHAN's ext_tx_if, ext_rx_if, ext_tid_gen, ext_opc_buf and register slices.
"""

import numpy as np

from soc.dma.replaced import note_replaced, words_read
from soc.dma.state import (
    ALIGN_BURSTS,
    BEATS,
    BURST_SLOTS,
    L1_BURSTS,
    L1_TO_L2,
    L2_BURSTS,
    L2_TO_L1,
    READ,
    has,
    has_room,
    is_active,
    pop,
    push,
    settle,
)
from soc.dma.words import store
from soc.interconnect.axi_l2 import READ as READ_BURST
from soc.interconnect.axi_l2 import WRITE, l2_burst, l2_read_gap, l2_write_response
from soc.prelude.bits import lowest_index
from soc.prelude.step import inlined_step, step


@inlined_step
def _free_id(dma, channel):
    """The lowest id that is free, or `outstanding`: none."""
    free = (2 << dma["outstanding"]) - 1 & ~channel["ids"]
    return int(lowest_index(np.uint64(free)))


@inlined_step
def opens_burst(dma, channel):
    """Is there a burst, and an id for it?"""
    return has(channel, L2_BURSTS) and _free_id(dma, channel) != dma["outstanding"]


@step
def _open_burst(dma, channel):
    """Give the next burst an id; the id, or -1 if there is no burst or no id."""
    if not opens_burst(dma, channel):
        return -1
    number = _free_id(dma, channel)
    counter, length, l1, l2, increment = pop(channel, L2_BURSTS)
    burst = channel["open"][number]
    burst["counter"] = counter
    burst["length"] = length
    burst["l1"] = l1
    burst["l2"] = l2
    burst["increment"] = increment
    burst["beats"] = ((l2 & 7) + length + 7) >> 3
    channel["ids"] |= 1 << number
    return number


@inlined_step
def _await_response(channel, number):
    channel["order"][(channel["first"] + channel["count"]) % BURST_SLOTS] = number
    channel["count"] += 1


@inlined_step
def _advance(channel):
    channel["first"] = (channel["first"] + 1) % BURST_SLOTS
    channel["count"] -= 1


@step
def _close_burst(dma, channel, number):
    counter = channel["open"][number]["counter"]
    channel["ids"] &= ~(1 << number)
    channel["outstanding"] -= 1
    dma["l2_pending"][counter] -= 1
    settle(dma, counter)


@inlined_step
def beat_offset(dma, burst, beat):
    """Bytes from the start of L2; without increment every beat has the burst's address."""
    address = burst["l2"] & ~7
    if burst["increment"]:
        address += 8 * beat
    return address - dma["l2_base"]


@inlined_step
def write_beats(dma, channel, l2, path, now):
    """Start a burst (AW) when the one before has sent its last beat; send a beat (W)."""
    if channel["sending"] == 0:
        number = _open_burst(dma, channel)
        if number < 0:
            return
        burst = channel["open"][number]
        burst["due"] = l2_burst(path, now + 1, burst["l2"], burst["beats"], WRITE)
        channel["send_id"] = number
        channel["sending"] = burst["beats"]
    number = channel["send_id"]
    burst = channel["open"][number]
    if now + 1 < burst["due"] or not has(channel, BEATS):
        return
    low, high, enables, _, _ = pop(channel, BEATS)
    offset = beat_offset(dma, burst, burst["beats"] - channel["sending"])
    if 0 <= offset < dma["l2_size"]:
        dma["l2_write"], dma["l2_enables"] = offset, enables
        dma["l2_counter"][L1_TO_L2] = burst["counter"]
        if is_active(dma["channel"][L2_TO_L1]):
            note_replaced(dma, l2, offset, now)
        store(l2, offset >> 2, low, enables & 15)
        store(l2, (offset >> 2) + 1, high, enables >> 4)
    channel["sending"] -= 1
    channel["moved"] += 1
    if channel["sending"] == 0:
        burst["due"] = l2_write_response(path, now + 1) + 1
        _await_response(channel, number)


@step
def end_writes(dma, channel, now):
    """The write response (B), behind its register slice, ends the burst on the L2 side."""
    if channel["count"] > 0:
        number = channel["order"][channel["first"]]
        if channel["open"][number]["due"] <= now:
            _advance(channel)
            _close_burst(dma, channel, number)


@step
def start_reads(dma, channel, path, now):
    """Ask for a burst (AR)."""
    number = _open_burst(dma, channel)
    if number >= 0:
        burst = channel["open"][number]
        burst["due"] = l2_burst(path, now + 1, burst["l2"], burst["beats"], READ_BURST)
        burst["gap"] = l2_read_gap(path, burst["l2"])
        _await_response(channel, number)


@inlined_step
def deliver_reads(dma, channel, l2, now):
    """Take the next beat (R) off the bus, if it is there and there is room for it."""
    if channel["count"] == 0 or now < channel["next_read"] or not has_room(channel, READ):
        return
    number = channel["order"][channel["first"]]
    burst = channel["open"][number]
    if now < burst["due"] + burst["gap"] * channel["received"]:
        return
    offset = beat_offset(dma, burst, channel["received"])
    low = 0
    high = 0
    if 0 <= offset < dma["l2_size"]:
        dma["l2_read"], dma["l2_counter"][L2_TO_L1] = offset, burst["counter"]
        low, high = words_read(dma, l2, offset, now)
    channel["received"] += 1
    channel["moved"] += 1
    channel["next_read"] = now + 1
    last = 0
    if channel["received"] == burst["beats"]:
        channel["received"] = 0
        last = 1
        _advance(channel)
    push(channel, READ, low, high, number, last)


@inlined_step
def take_reads(dma, channel):
    """Pass a beat on; with the first of a burst tell the aligner and the L1 side of the burst."""
    if not has(channel, READ) or not has_room(channel, BEATS):
        return
    if not has_room(channel, L1_BURSTS) or not has_room(channel, ALIGN_BURSTS):
        return
    low, high, number, last, _ = pop(channel, READ)
    if channel["fresh"]:
        burst = channel["open"][number]
        push(channel, L1_BURSTS, burst["counter"], burst["length"], burst["l1"])
        push(channel, ALIGN_BURSTS, burst["length"], burst["l2"] & 7, burst["l1"] & 7)
    push(channel, BEATS, low, high)
    channel["fresh"] = last
    if last:
        _close_burst(dma, channel, number)
