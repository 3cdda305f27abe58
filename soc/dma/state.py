"""The cluster DMA's fields and state: control ports, two channels, the queues between their stages.

The DMA is PULP's MCHAN 1.2.4. Each channel (L1 to L2, L2 to L1) is a row of small machines with
queues of two entries between them:

    port -> commands -> lines (2D) -> LINES -> bursts -> L2_BURSTS, L1_BURSTS, ALIGN_BURSTS
    L1 to L2:  L1_BURSTS -> beats -> LANE0/1 -> L1 reads -> DATA0/1 -> aligner -> BEATS -> W, B
    L2 to L1:  L2_BURSTS -> AR, R -> READ -> L1_BURSTS, ALIGN_BURSTS, BEATS -> aligner -> DATA0/1
               L1_BURSTS -> beats -> LANE0/1 with DATA0/1 -> L1 writes
    both:      SYNCH0/1 (last access of a burst, by lane) -> the counter's L1 side

Sources: MCHAN's RTL (github.com/pulp-platform/mchan) for the structure; every latency is confirmed
by the measured tests in tests/soc/data.
"""

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from soc.prelude.field import setting
from soc.prelude.step import inlined_step

L1_TO_L2 = 0
L2_TO_L1 = 1
CHANNELS = 2

L2_SIDE = 0
L1_SIDE = 1
SIDES = 2
"""The ends of a transfer; each can be 2D."""

NO_SLOT = -1

LANES = 4
"""Ports into L1: 0, 1 read for channel L1_TO_L2, 2, 3 write for channel L2_TO_L1."""

PORTS = 16
COUNTERS = 16
COMMAND_SLOTS = 32
LINE_SLOTS = 16
BURST_SLOTS = 16
"""Room in the state; DmaSpec says how much of it the chip has."""

# Queues of a channel, two entries each; its commands are apart (dma.queue, both channels together).
(
    LINES,  # counter, bytes, L1 address, L2 address, increment
    L2_BURSTS,  # counter, bytes, L1 address, L2 address, increment
    L1_BURSTS,  # counter, bytes, L1 address
    ALIGN_BURSTS,  # bytes, offset of the first byte pushed, of the first byte popped
    LANE0,  # counter, byte address, last of its burst
    LANE1,
    DATA0,  # word, byte enables
    DATA1,
    BEATS,  # low word, high word, byte enables
    READ,  # low word, high word, outstanding burst, last of its burst
    SYNCH0,  # counter
    SYNCH1,
) = range(12)
QUEUES = 12
ENTRY = 5
COUNT_BITS = 4
"""Bits of a queue's number of entries: those of all queues are one integer, as are their heads.

Stages look at several queues, and at the end of a cycle all of them are copied.
"""

LONGEST_STREAM = 64
"""Cycles of a stream at the most; see soc.dma.stream."""

COMMAND = np.dtype(
    [
        ("counter", "i8"),
        ("length", "i8"),  # bytes
        ("increment", "i8"),
        ("address", "i8", (SIDES,)),
        ("line", "i8", (SIDES,)),  # bytes of a line, the whole length where it is not 2D
        ("stride", "i8", (SIDES,)),
        ("slot", "i8", (SIDES,)),  # entry of the 2D queue, NO_SLOT where it is not 2D
    ]
)

PORT = np.dtype(
    [
        ("phase", "i8"),
        ("barrier", "i8"),  # a command is stored and not arbitrated yet
        ("write", "i8"),  # the access asked for
        ("offset", "i8"),
        ("value", "i8"),
        ("reply", "i8"),  # data of the last load, valid from the cycle after its grant
        ("channel", "i8"),
        ("events", "i8"),  # bits 22:20 of the command word: event, interrupt, broadcast
        ("command", COMMAND),
    ]
)

BURST = np.dtype(
    [
        ("counter", "i8"),
        ("length", "i8"),
        ("l1", "i8"),
        ("l2", "i8"),
        ("increment", "i8"),
        ("beats", "i8"),
        ("due", "i8"),  # cycle of the first beat, after the last write beat of the response
        ("gap", "i8"),  # of a read: cycles from a beat to the next
    ]
)

CHANNEL = np.dtype(
    [
        ("level", "i8"),  # entries of each queue
        ("seen", "i8"),  # entries at the start of this cycle: what the stages see
        ("head", "i8"),  # place of each queue's oldest entry, a bit each
        ("entry", "i8", (QUEUES, 2, ENTRY)),
        ("commands", "i8"),
        ("commands_seen", "i8"),  # at the start of this cycle
        ("first_command", "i8"),
        ("command", COMMAND, (COMMAND_SLOTS,)),
        # lines: the command being split
        ("splitting", "i8"),
        ("split", COMMAND),  # address: of the next line; length: bytes left
        ("line_left", "i8", (SIDES,)),
        ("line_start", "i8", (SIDES,)),
        # bursts: the line being split
        ("bursts", "i8"),  # bursts still to come
        ("burst_size", "i8"),  # bytes of the next one unless it is the last
        ("burst", BURST),
        ("outstanding", "i8"),  # bursts under way, counted once for L1 and once for L2
        # beats of L1: the burst being unpacked
        ("l1_beats", "i8"),
        ("l1_next", "i8"),
        ("l1_counter", "i8"),
        # replies of L1, by lane
        ("reply", "i8", (2,)),
        ("reply_word", "i8", (2,)),
        ("reply_counter", "i8", (2,)),
        ("reply_last", "i8", (2,)),
        # aligner
        ("pushes", "i8"),  # beats of the burst on the source side, 0: idle
        ("pops", "i8"),  # beats on the target side
        ("pushed", "i8"),
        ("popped", "i8"),
        ("push_offset", "i8"),
        ("pop_offset", "i8"),
        ("first_enables", "i8"),  # of the first target beat
        ("end_offset", "i8"),  # offset of the last byte in its target beat
        ("ring", "i8", (4,)),  # the two beats pushed last
        # L2 side
        ("sending", "i8"),  # write beats of the current burst still to come
        ("send_id", "i8"),
        ("ids", "i8"),  # in use, a bit each
        ("open", BURST, (BURST_SLOTS,)),  # outstanding bursts by id
        ("order", "i8", (BURST_SLOTS,)),  # ids of those that wait for R or B, in order
        ("first", "i8"),
        ("count", "i8"),
        ("received", "i8"),  # read beats of the first of them
        ("next_read", "i8"),  # earliest cycle of the next read beat
        ("moved", "i8"),  # beats on the L2 side, ever
        ("fresh", "i8"),  # the next beat taken from READ is the first of its burst
    ]
)

STREAM = np.dtype(
    [
        ("start", "i8"),  # its first cycle
        ("cycles", "i8"),  # that have passed
        ("word", "i8"),  # of L1: next of lane 0
        ("offset", "i8"),  # of the next beat in L2
        ("low", "i8"),  # the beat that the aligner has for the next cycle
        ("high", "i8"),
        ("low_before", "i8"),  # and had for the one before
        ("high_before", "i8"),
        ("shift", "i8"),  # bytes from a beat of the source to one of the target
        ("beats", "i8", (2 * (LONGEST_STREAM + 4),)),  # of the source: low word, high word
    ]
)
"""A stream of a channel, while it lasts: no state of the DMA."""

REPLACED = np.dtype(
    [
        ("offset", "i8"),  # in L2
        ("when", "i8"),  # the cycle of the write
        ("low", "i8"),
        ("high", "i8"),
    ]
)
"""A beat of L2 as it was before a write, which reads of two cycles still see."""

DMA_STATE = np.dtype(
    [
        ("channel", CHANNEL, (CHANNELS,)),
        ("port", PORT, (PORTS,)),
        ("clocked", "i8"),  # channels that did something in this cycle, a bit each
        ("asked", "i8"),  # ports with an access that is not granted yet
        ("waiting", "i8"),  # ports that ask, and wait for more than a cycle: see grant_ports
        ("granted", "i8"),  # ports that were granted an access in this cycle
        ("moving", "i8"),  # ports that change phase without an access
        ("offered", "i8"),  # ports whose command competes for the queue
        ("offered_next", "i8"),  # the same from the next cycle on
        ("registered", "i8"),  # counters whose line reached the burst splitter in this cycle
        ("rr_counter", "i8"),  # round robin of the counters' arbiter
        ("rr_command", "i8"),
        ("rr_lines", "i8", (SIDES,)),
        ("lines_taken", "i8", (SIDES,)),  # entries of the 2D queues in use, a bit each
        ("lost_entries", "i8"),  # of them, which no command has: they are never freed
        # counters
        ("allocated", "i8"),
        ("l1_pending", "i8", (COUNTERS,)),  # bursts
        ("l2_pending", "i8", (COUNTERS,)),
        ("running", "i8"),  # counters with bursts pending, in this cycle
        ("running_next", "i8"),  # in the next one
        ("running_before", "i8"),
        ("owner", "i8", (COUNTERS,)),  # port
        ("events", "i8", (COUNTERS,)),  # as PORT.events
        ("ended", "i8"),  # counters whose end is not signalled yet
        ("ended_owner", "i8", (COUNTERS,)),
        ("ended_events", "i8", (COUNTERS,)),
        # outputs
        ("event", "i8"),  # event line of each port in the next cycle
        ("interrupt", "i8"),
        ("lane_word", "i8", (LANES,)),  # word of L1 that each lane requests
        ("accesses", "i8"),  # granted to the lanes, ever
        ("conflicts", "i8"),  # refused
        ("l2_write", "i8"),  # offset in L2 of a beat that a tick writes, or -1
        ("l2_enables", "i8"),  # its bytes, a bit each
        ("l2_read", "i8"),  # of a beat that it reads, or -1
        ("l2_counter", "i8", (CHANNELS,)),  # of these two, by channel
        ("replaced", REPLACED, (2,)),  # by writes of even and of odd cycles beside reads
        ("streams", "i8"),  # channels with a stream, a bit each; 0 between calls of the engine
        ("stream", STREAM, (CHANNELS,)),
        ("error", "i8"),
        ("error_port", "i8"),
        ("error_value", "i8"),
        # fields of the chip
        ("ports", "i8"),
        ("rr_mask", "i8"),  # the arbiters of ports have a power of two of inputs
        ("counters", "i8"),
        ("queue", "i8"),
        ("line_queue", "i8"),
        ("burst", "i8"),
        ("outstanding", "i8"),
        ("l1_base", "i8"),
        ("l1_size", "i8"),
        ("l2_base", "i8"),
        ("l2_size", "i8"),
    ]
)

MCHAN = "pulp_cluster caaa973 (target mchan), MCHAN 1.2.4"


class DmaSpec(BaseModel):
    """MCHAN as the cluster configures it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ports: int = setting(10, "ports", f"{MCHAN}, NB_CTRLS: cores, cluster, SoC", ge=1, le=PORTS)
    counters: int = setting(16, "counters", f"{MCHAN}, NB_TRANSFERS", ge=1, le=COUNTERS)
    queue: int = setting(
        16, "commands", f"{MCHAN}, GLOBAL_TRANS_QUEUE_DEPTH", ge=1, le=COMMAND_SLOTS
    )
    line_queue: int = setting(4, "commands", f"{MCHAN}, TWD_QUEUE_DEPTH", ge=1, le=LINE_SLOTS)
    burst: int = setting(256, "bytes", f"{MCHAN}, MCHAN_BURST_LENGTH", ge=16, le=2048)
    outstanding: int = setting(
        8, "bursts", f"{MCHAN}, NB_OUTSND_BURSTS: per direction", ge=1, le=BURST_SLOTS
    )

    @model_validator(mode="after")
    def _burst_is_power_of_two(self) -> "DmaSpec":
        if self.burst & (self.burst - 1):
            raise ValueError(f"burst is {self.burst}; the bytes of a burst are a power of two")
        return self


def new_dma(
    spec: DmaSpec, *, l1_base: int = 0x10000000, l1_size: int, l2_base: int, l2_size: int
) -> np.ndarray:
    """An idle DMA: DMA_STATE[1].

    l1_base, l1_size    L1; commands may also count its addresses from 0
    l2_base, l2_size    the memory on the external side
    """
    dma = np.zeros(1, DMA_STATE)
    for name in DmaSpec.model_fields:
        dma[name] = getattr(spec, name)
    dma["rr_mask"] = (1 << (spec.ports - 1).bit_length()) - 1
    dma["l1_base"], dma["l1_size"] = l1_base, l1_size
    dma["l2_base"], dma["l2_size"] = l2_base, l2_size
    dma["channel"]["fresh"] = 1
    dma["replaced"]["offset"] = -1
    dma["port"]["command"]["slot"] = NO_SLOT
    return dma


@inlined_step
def entries(levels, queue):
    """Entries of a queue, of a channel's `level` or `seen`."""
    return levels >> COUNT_BITS * queue & 3


@inlined_step
def has(channel, queue):
    """An entry was there at the start of the cycle."""
    return entries(channel["seen"], queue) != 0


@inlined_step
def has_room(channel, queue):
    """At the start of the cycle: what leaves in this cycle makes no room yet."""
    return entries(channel["seen"], queue) < 2


@inlined_step
def push(channel, queue, *numbers):
    """Append an entry, of the numbers that this queue has; stages see it from the next cycle on."""
    tail = (channel["head"] >> queue ^ channel["level"] >> COUNT_BITS * queue) & 1
    entry = channel["entry"][queue][tail]
    for place in range(len(numbers)):
        entry[place] = numbers[place]
    channel["level"] += 1 << COUNT_BITS * queue


@inlined_step
def front(channel, queue):
    """The oldest entry; after the numbers that this queue has, any."""
    entry = channel["entry"][queue][channel["head"] >> queue & 1]
    return entry[0], entry[1], entry[2], entry[3], entry[4]


@inlined_step
def pop(channel, queue):
    """Remove the oldest entry; returns it as `front` does."""
    entry = front(channel, queue)
    channel["head"] ^= 1 << queue
    channel["level"] -= 1 << COUNT_BITS * queue
    return entry


@inlined_step
def is_active(channel):
    """Has a channel a command, or something of one?"""
    lines = entries(channel["level"], LINES)
    return (channel["commands"] | channel["splitting"] | lines | channel["outstanding"]) != 0


@inlined_step
def settle(dma, counter):
    """Note whether a counter has bursts pending at the end of this cycle."""
    if dma["l1_pending"][counter] != 0 or dma["l2_pending"][counter] != 0:
        dma["running_next"] |= 1 << counter
    else:
        dma["running_next"] &= ~(1 << counter)
