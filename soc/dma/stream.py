"""Steady streams of the DMA's channels: their stages for many cycles at a time, made for speed.

In the midst of a burst every stage of a channel does in each cycle what it did in the one before,
with the next beat: each queue between them gets an entry and loses one. `begin_streams` finds for
how many cycles that goes on if L1 serves both lanes. In each of these `pass_beats` moves the words
that the stages would; all else of the state is written once, by `end_streams`, which may come
earlier.

    left = begin_streams(dma, now)
    lanes = stream_lanes(dma)       in place of request_lanes
    pass_beats(dma, l1, l2)         in place of tick, if L1 has granted all of these
    end_streams(dma)                before anything else looks at the DMA

It derives from the stages, whose rules it calls: a channel is steady where none of them has
anything else to do. A test compares the whole state with that of soc.dma.mchan.tick.
"""

from soc.dma.aligner import lead_of
from soc.dma.axi_side import beat_offset, end_writes, opens_burst
from soc.dma.burst_splitter import splits_bursts, splits_lines
from soc.dma.command_arbiter import ports_wait
from soc.dma.state import (
    BEATS,
    CHANNELS,
    COUNT_BITS,
    DATA0,
    DATA1,
    L1_TO_L2,
    L2_TO_L1,
    LANE0,
    LANE1,
    LONGEST_STREAM,
    READ,
    front,
    is_active,
)
from soc.dma.stream_beats import (
    BOTH,
    IN_QUEUE,
    IN_STAGE,
    LEVELS,
    RING,
    SHORTEST,
    TO_L1,
    TO_L2,
    beat_at,
    beats_left,
    set_beat,
)
from soc.dma.tcdm_side import REPLIED
from soc.dma.words import ALL_BYTES, BEAT_BYTES
from soc.prelude.step import inlined_step, step


@step
def begin_streams(dma, now):
    """Begin streams in all channels that are active; returns for how many cycles, or 0: in none.

    What ports and counters do must not change meanwhile, unless a core asks.
    """
    if (
        dma["asked"] & ~dma["waiting"]
        | dma["granted"]
        | dma["event"]
        | dma["interrupt"]
        | dma["ended"]
        | dma["error"]
    ):
        return 0
    if dma["offered"] | dma["offered_next"] or not ports_wait(dma) or dma["allocated"] == 0:
        return 0
    if dma["running"] != dma["running_before"] or dma["running"] != dma["running_next"]:
        return 0
    cycles, streams = LONGEST_STREAM, 0
    for direction in range(CHANNELS):
        channel = dma["channel"][direction]
        if is_active(channel):
            streams |= 1 << direction
            if direction == L1_TO_L2:
                cycles = min(cycles, _steady_to_l2(dma, channel, now))
            else:
                cycles = min(cycles, _steady_to_l1(dma, channel, now))
            if cycles < SHORTEST:
                return 0
    if streams == 0 or streams == BOTH and _meet_in_l2(dma):
        return 0
    for direction in range(CHANNELS):
        if streams >> direction & 1:
            _fill(dma, direction, now)
    dma["streams"] = streams
    return cycles


@inlined_step
def _meet_in_l2(dma):
    """Would reads come to beats that are written in the same cycle or one before?"""
    write, read = dma["channel"][L1_TO_L2], dma["channel"][L2_TO_L1]
    burst = write["open"][write["send_id"]]
    written = beat_offset(dma, burst, burst["beats"] - write["sending"])
    burst = read["open"][read["order"][read["first"]]]
    ahead = written - beat_offset(dma, burst, read["received"])
    return ahead == 0 or ahead == 8


@inlined_step
def _is_midst(channel, direction):
    """Are the stages that both directions have in the midst of a burst, and none before it acts?"""
    if splits_lines(channel) or splits_bursts(channel, direction):
        return False
    if front(channel, LANE0)[2] | front(channel, LANE1)[2]:
        return False
    return channel["popped"] > 0 and channel["popped"] == channel["pushed"] - lead_of(channel)


@inlined_step
def _within(dma, channel, burst, beat, cycles):
    """So many cycles, or fewer: those whose words lie in both memories."""
    offset = beat_offset(dma, burst, beat)
    if burst["increment"] == 0 or offset < 0:
        return 0
    cycles = min(cycles, (dma["l2_size"] - offset) >> 3)
    return min(cycles, (dma["l1_size"] - front(channel, LANE0)[1]) >> 3)


@step
def _steady_to_l1(dma, channel, now):
    if channel["level"] & LEVELS != TO_L1 or not _is_midst(channel, L2_TO_L1):
        return 0
    if opens_burst(dma, channel) or channel["fresh"] or channel["count"] == 0:
        return 0
    burst = channel["open"][channel["order"][channel["first"]]]
    received = channel["received"]
    if now < channel["next_read"] or now < burst["due"] or received != channel["pushed"] + 2:
        return 0
    if burst["gap"] != 1:
        return 0
    if front(channel, DATA0)[1] & front(channel, DATA1)[1] != ALL_BYTES:
        return 0
    cycles = min(beats_left(channel), burst["beats"] - 1 - received)
    return _within(dma, channel, burst, received, cycles)


@step
def _steady_to_l2(dma, channel, now):
    if channel["level"] & LEVELS != TO_L2 or not _is_midst(channel, L1_TO_L2):
        return 0
    for lane in range(2):
        if channel["reply"][lane] != REPLIED or channel["reply_last"][lane]:
            return 0
    sending = channel["sending"]
    burst = channel["open"][channel["send_id"]]
    if sending != channel["pops"] - channel["popped"] + 1 or now + 1 < burst["due"]:
        return 0
    if channel["pushes"] - channel["pushed"] != channel["l1_beats"] + 3:
        return 0
    if front(channel, BEATS)[2] != BEAT_BYTES:
        return 0
    cycles = min(beats_left(channel), sending - 1)
    if channel["count"] > 0:
        before = channel["open"][channel["order"][channel["first"]]]
        if channel["count"] > 1 or before["counter"] != burst["counter"]:
            cycles = min(cycles, before["due"] - now)
    return _within(dma, channel, burst, burst["beats"] - sending, cycles)


@step
def _fill(dma, direction, now):
    """Take the beats that are under way out of their queues."""
    channel, stream = dma["channel"][direction], dma["stream"][direction]
    ring, newer = channel["ring"], channel["pushed"] - 1 & 1
    older = 1 - newer
    set_beat(stream, RING, ring[2 * older], ring[2 * older + 1])
    set_beat(stream, RING + 1, ring[2 * newer], ring[2 * newer + 1])
    if direction == L1_TO_L2:
        burst = channel["open"][channel["send_id"]]
        beat = burst["beats"] - channel["sending"]
        set_beat(stream, IN_QUEUE, front(channel, DATA0)[0], front(channel, DATA1)[0])
        set_beat(stream, IN_STAGE, channel["reply_word"][0], channel["reply_word"][1])
        low, high, _, _, _ = front(channel, BEATS)
    else:
        burst = channel["open"][channel["order"][channel["first"]]]
        beat = channel["received"]
        low, high, _, _, _ = front(channel, BEATS)
        set_beat(stream, IN_QUEUE, low, high)
        low, high, _, _, _ = front(channel, READ)
        set_beat(stream, IN_STAGE, low, high)
        low, high = front(channel, DATA0)[0], front(channel, DATA1)[0]
    stream["low"], stream["high"] = low, high
    stream["word"] = front(channel, LANE0)[1] >> 2
    stream["offset"] = beat_offset(dma, burst, beat)
    stream["shift"] = channel["push_offset"] - channel["pop_offset"] & 7
    stream["start"] = now
    stream["cycles"] = 0


@step
def end_streams(dma):
    """End the streams after the cycles that have passed: write what the stages would have left."""
    for direction in range(CHANNELS):
        if dma["streams"] >> direction & 1 and dma["stream"][direction]["cycles"]:
            _settle(dma, direction)
    dma["streams"] = 0


@step
def _settle(dma, direction):
    channel, stream = dma["channel"][direction], dma["stream"][direction]
    cycles = stream["cycles"]
    dma["accesses"] += 2 * cycles
    dma["registered"] = 0
    channel["moved"] += cycles
    newer = channel["pushed"] + cycles - 1 & 1
    for older in range(2):
        low, high = beat_at(stream, RING + cycles + 1 - older)
        channel["ring"][2 * (newer ^ older)] = low
        channel["ring"][2 * (newer ^ older) + 1] = high
    channel["pushed"] += cycles
    channel["popped"] += cycles
    channel["l1_beats"] -= cycles
    channel["l1_next"] += 8 * cycles
    _settle_queues(channel, stream, direction, cycles)
    if direction == L1_TO_L2:
        burst = channel["open"][channel["send_id"]]
        low, high = beat_at(stream, IN_STAGE + cycles)
        channel["reply_word"][0], channel["reply_word"][1] = low, high
        channel["sending"] -= cycles
        end_writes(dma, channel, stream["start"] + cycles - 1)  # of the counter that goes on
        dma["l2_write"], dma["l2_enables"] = stream["offset"] - 8, BEAT_BYTES
    else:
        burst = channel["open"][channel["order"][channel["first"]]]
        channel["received"] += cycles
        channel["next_read"] = stream["start"] + cycles
        dma["l2_read"] = stream["offset"] - 8
    dma["l2_counter"][direction] = burst["counter"]


@inlined_step
def _settle_queues(channel, stream, direction, cycles):
    """Each queue has its next entry, and in the other place the one that it lost last."""
    queues = TO_L2 if direction == L1_TO_L2 else TO_L1
    for queue in range(LANE0, READ + 1):
        if queues >> COUNT_BITS * queue & 1:
            channel["head"] ^= (cycles & 1) << queue
    for lost in range(2):
        number = IN_QUEUE + cycles - lost
        out_low = stream["low_before"] if lost else stream["low"]
        out_high = stream["high_before"] if lost else stream["high"]
        low, high = beat_at(stream, number)
        for lane in range(2):
            address = 4 * (stream["word"] - 2 * lost + lane)
            place = channel["head"] >> LANE0 + lane & 1 ^ lost
            entry = channel["entry"][LANE0 + lane][place]
            entry[0], entry[1], entry[2] = channel["l1_counter"], address, 0
            entry = channel["entry"][DATA0 + lane][channel["head"] >> DATA0 + lane & 1 ^ lost]
            if direction == L1_TO_L2:
                entry[0] = high if lane else low
            else:
                entry[0], entry[1] = out_high if lane else out_low, ALL_BYTES
        entry = channel["entry"][BEATS][channel["head"] >> BEATS & 1 ^ lost]
        if direction == L1_TO_L2:
            entry[0], entry[1], entry[2] = out_low, out_high, BEAT_BYTES
        else:
            entry[0], entry[1] = low, high
            entry = channel["entry"][READ][channel["head"] >> READ & 1 ^ lost]
            low, high = beat_at(stream, number + 1)
            entry[0], entry[1] = low, high
            entry[2], entry[3] = channel["order"][channel["first"]], 0
