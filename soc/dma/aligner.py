"""The aligner of a DMA channel: beats of 8 bytes as the source has them to beats of the target.

Source: MCHAN's trans_aligner. It holds the two beats pushed last; a target beat needs two source
beats where the target's offset is not above the source's, else one to start with.

A first beat that is ready while the target has no room and the source no further beat loses its
byte enables: all of it is written, the bytes before the burst's first one as the ring has them.
"""

from soc.dma.state import (
    ALIGN_BURSTS,
    BEATS,
    DATA0,
    DATA1,
    L1_TO_L2,
    has,
    has_room,
    pop,
    push,
)
from soc.dma.words import BEAT_BYTES, joined
from soc.prelude.step import inlined_step, step


@inlined_step
def align(channel, direction):
    """Push a beat in, pop one out, or both."""
    if channel["pushes"] == 0:
        if has(channel, ALIGN_BURSTS):
            _start(channel)
        return
    offered = _source_has(channel, direction)
    pushed = channel["pushed"]
    lead = lead_of(channel)
    if pushed == channel["pushes"]:
        if _target_has_room(channel, direction):
            _pop(channel, direction)
            if channel["popped"] == channel["pops"]:
                channel["pushes"] = 0
                if has(channel, ALIGN_BURSTS):
                    _start(channel)
    elif pushed < lead or channel["popped"] > pushed - lead:
        if offered:
            _push(channel, direction)
    elif _target_has_room(channel, direction):
        _pop(channel, direction)
        if offered:
            _push(channel, direction)
    elif channel["popped"] == 0 and not offered:
        channel["first_enables"] = BEAT_BYTES


@inlined_step
def lead_of(channel):
    """Beats to start with, before one can be popped."""
    return 1 if channel["pop_offset"] > channel["push_offset"] else 2


@step
def _start(channel):
    length, push_offset, pop_offset, _, _ = pop(channel, ALIGN_BURSTS)
    channel["push_offset"] = push_offset
    channel["pop_offset"] = pop_offset
    channel["first_enables"] = (BEAT_BYTES << pop_offset) & BEAT_BYTES
    channel["end_offset"] = (pop_offset + length - 1) & 7
    channel["pushes"] = (push_offset + length + 7) >> 3
    channel["pops"] = (pop_offset + length + 7) >> 3
    channel["pushed"] = 0
    channel["popped"] = 0


@inlined_step
def _source_has(channel, direction):
    if direction == L1_TO_L2:
        return has(channel, DATA0) and has(channel, DATA1)
    return has(channel, BEATS)


@inlined_step
def _target_has_room(channel, direction):
    if direction == L1_TO_L2:
        return has_room(channel, BEATS)
    return has_room(channel, DATA0) and has_room(channel, DATA1)


@inlined_step
def _push(channel, direction):
    if direction == L1_TO_L2:
        low = pop(channel, DATA0)[0]
        high = pop(channel, DATA1)[0]
    else:
        low, high, _, _, _ = pop(channel, BEATS)
    place = 2 * (channel["pushed"] & 1)
    channel["ring"][place] = low
    channel["ring"][place + 1] = high
    channel["pushed"] += 1


@inlined_step
def _ring_word(ring, byte):
    """The word at a byte of the two beats pushed last."""
    word = (byte >> 2) & 3
    shift = 8 * (byte & 3)
    return joined(ring[word], ring[(word + 1) & 3], shift)


@inlined_step
def _pop(channel, direction):
    popped = channel["popped"]
    byte = 8 * (popped & 1) + channel["push_offset"] - channel["pop_offset"]
    low = _ring_word(channel["ring"], byte & 15)
    high = _ring_word(channel["ring"], (byte + 4) & 15)
    enables = BEAT_BYTES
    if popped == 0:
        enables = channel["first_enables"]
    if popped == channel["pops"] - 1:
        enables &= BEAT_BYTES >> (7 - channel["end_offset"])
    if direction == L1_TO_L2:
        push(channel, BEATS, low, high, enables)
    else:
        push(channel, DATA0, low, enables & 15)
        push(channel, DATA1, high, enables >> 4)
    channel["popped"] = popped + 1
