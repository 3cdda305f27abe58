"""What a stream of the DMA does in each of its cycles: see soc.dma.stream.

Apart from that, so that whoever calls it, in every cycle, is not compiled with the DMA's stages.
"""

import numpy as np

from soc.dma.replaced import note_replaced
from soc.dma.state import (
    BEATS,
    CHANNELS,
    COUNT_BITS,
    DATA0,
    DATA1,
    L1_TO_L2,
    LANE0,
    LANE1,
    READ,
    SYNCH0,
    SYNCH1,
    is_active,
)
from soc.dma.words import ALL_BYTES, WORD, joined, store
from soc.prelude.step import inlined_step

_BOTH = (LANE0, LANE1, DATA0, DATA1, BEATS)
LEVELS = sum(15 << COUNT_BITS * queue for queue in (*_BOTH, READ, SYNCH0, SYNCH1))
TO_L2 = sum(1 << COUNT_BITS * queue for queue in _BOTH)
TO_L1 = sum(1 << COUNT_BITS * queue for queue in (*_BOTH, READ))
"""Levels in a stream: an entry in each queue that beats go through, none in the others."""

# Beats of the source that are under way when a stream begins, oldest first, in stream.beats:
RING = 0  # 0, 1: the aligner's ring
IN_QUEUE = 2  # pushed next
IN_STAGE = 3  # in the stage before that queue
FETCHED = 4  # from here on: by the stream itself


BOTH = 3
"""Streams in both channels."""

SHORTEST = 3
"""Cycles of a stream that is worth its beginning and end."""


@inlined_step
def beats_left(channel):
    """Cycles in which aligner and unpacker do not come to the last beat of their burst."""
    left = min(channel["pushes"] - channel["pushed"], channel["pops"] - 1 - channel["popped"])
    return min(left, channel["l1_beats"] - 1)


@inlined_step
def may_begin(dma):
    """Has each active channel the queues of a stream, and beats? If not, `begin_streams` fails."""
    found = False
    for direction in range(CHANNELS):
        channel = dma["channel"][direction]
        levels = TO_L2 if direction == L1_TO_L2 else TO_L1
        if channel["level"] & LEVELS == levels and beats_left(channel) >= SHORTEST:
            found = True
        elif is_active(channel):
            return False
    return found


@inlined_step
def set_beat(stream, number, low, high):
    place = np.uint64(2 * number)
    stream["beats"][place] = low
    stream["beats"][place + np.uint64(1)] = high


@inlined_step
def beat_at(stream, number):
    place = np.uint64(2 * number)
    return stream["beats"][place], stream["beats"][place + np.uint64(1)]


@inlined_step
def stream_lanes(dma):
    """The lanes that request L1, as request_lanes has them."""
    lanes = 0
    for direction in range(CHANNELS):
        if dma["streams"] >> direction & 1:
            lanes |= 3 << 2 * direction
            word = dma["stream"][direction]["word"]
            dma["lane_word"][2 * direction] = word
            dma["lane_word"][2 * direction + 1] = word + 1
    return lanes


@inlined_step
def pass_beats(dma, l1, l2):
    """A cycle in which all of them are granted."""
    dma["l2_write"] = dma["l2_read"] = -1
    for direction in range(CHANNELS):
        if dma["streams"] >> direction & 1:
            _pass_beat(dma, direction, l1, l2)


@inlined_step
def _pass_beat(dma, direction, l1, l2):
    stream = dma["stream"][direction]
    word, offset = stream["word"], stream["offset"] >> 2
    low, high, cycles = stream["low"], stream["high"], stream["cycles"]
    if direction == L1_TO_L2:
        dma["l2_write"] = stream["offset"]
        if dma["streams"] == BOTH:
            note_replaced(dma, l2, stream["offset"], stream["start"] + stream["cycles"])
        source, at, target, to = l1, np.uint64(word), l2, np.uint64(offset)
    else:
        source, at, target, to = l2, np.uint64(offset), l1, np.uint64(word)
    set_beat(
        stream, FETCHED + cycles, int(source[at]) & WORD, int(source[at + np.uint64(1)]) & WORD
    )
    store(target, to, low, ALL_BYTES)
    store(target, to + np.uint64(1), high, ALL_BYTES)
    stream["low_before"], stream["high_before"] = low, high
    stream["low"], stream["high"] = _aligned(stream, RING + cycles)
    stream["word"] = word + 2
    stream["offset"] += 8
    stream["cycles"] = cycles + 1


@inlined_step
def _aligned(stream, number):
    """The beat of the target that begins in this one of the source."""
    shift = stream["shift"]
    place = np.uint64(2 * number + (shift >> 2))
    beats, bits = stream["beats"], 8 * (shift & 3)
    middle = beats[place + np.uint64(1)]
    return joined(beats[place], middle, bits), joined(middle, beats[place + np.uint64(2)], bits)
