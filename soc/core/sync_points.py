"""Sync points: what step functions note for checks and debuggers, and where. They change no cycle.

The events lie in the trace's buffer, in the order in which things happen; no trace file has them.

    kind       hart         extra                   a             b
    ANSWER     hart         1: a store; slot << 8   address       value loaded or stored
    WAIT       core         0                       offset        cores that it signals
    REQUEST    hart         1: a store              address       pc
    ATOMIC     hart         0                       address       0
    BARRIER    0            0                       number        cores that it lets go on
    SIGNAL     0            line                    ports         counter of the DMA
    COMMAND    port         part                    of COMMAND_PARTS
    START      hart         0                       pc            0
    INTERRUPT  hart         0                       line          0
    KEPT       hart         0                       address       value stored
    COPIED     hart         1: written; bytes << 4  address       counter of the DMA

An ANSWER is that to an access of a register; `slot` is the place in the event unit's dispatch FIFO
that is written or read. A WAIT is a load at the event unit that may wait, with what it triggers. A
REQUEST is a hart's to a peripheral, which acts before it answers. An ATOMIC precedes the access to
L1 by way of test-and-set. KEPT is the store to a word that the recorder watches. COPIED, which the
checks do without, is a word that the DMA reads or writes for this hart, in the cycle in which it
does so; it reads words as a whole.
"""

from enum import IntEnum

import numpy as np

from soc.dma.state import DATA0, L1_SIDE, L1_TO_L2, L2_SIDE, L2_TO_L1, LANE0, front
from soc.event_unit.offsets import DISPATCH
from soc.prelude.bits import lowest_index
from soc.prelude.decoded import STORE
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.trace_points import is_wanted, pc_of_row, record

EVENT_UNIT_PORT = 0x4000  # bytes from the cluster's base


class Sync(IntEnum):
    """What an event for the checks tells; beyond soc.prelude.trace_event.Kind."""

    ANSWER = 10
    WAIT = 11
    REQUEST = 12
    ATOMIC = 13
    BARRIER = 14
    SIGNAL = 15
    COMMAND = 16
    START = 17
    INTERRUPT = 18
    KEPT = 19


ANSWER, WAIT, REQUEST, ATOMIC, BARRIER, SIGNAL, COMMAND, START, INTERRUPT, KEPT = map(int, Sync)

COPIED = 20
WHOLE_WORD = 15
COPIED_BYTES = 4
"""Where a COPIED event's `extra` has the bytes, a bit each."""

COMMAND_PARTS = (
    ("l1", "l2"),  # addresses, of L1 as an offset
    ("length", "flags"),  # flags: to L1, increment << 1, counter << 8
    ("l2_line", "l2_stride"),
    ("l1_line", "l1_stride"),
)
"""What the events of one command of the DMA hold in a and b, by their `extra`."""
LAST_PART = len(COMMAND_PARTS) - 1


@inlined_step
def note_answer(chip, h, row, value, now):
    """A register has been loaded or stored; `value` is what a load delivers."""
    if is_wanted(chip, ANSWER):
        _record_answer(chip, h, row, value, now)


@cold_step
def _record_answer(chip, h, row, value, now):
    hart = chip.harts[np.uint64(h)]
    unit = chip.event_unit[0]
    is_store = 1 if row["kind"] == STORE else 0
    slot = 0
    if hart["address"] == chip.config[0]["cluster_base"] + EVENT_UNIT_PORT + DISPATCH:
        slot = int(unit["write"]) if is_store else int(unit["read"][h])
    what = int(hart["regs"][row["rs2"]]) if is_store else int(value)
    record(chip, ANSWER, h, now, is_store | slot << 8, hart["address"], what)


@inlined_step
def note_wait(chip, h, offset, now):
    """A core loads from its port of the event unit; of a wait that goes on, nothing is noted."""
    if is_wanted(chip, WAIT):
        unit = chip.event_unit[0]
        if unit["replay"] >> h & 1 == 0:
            record(chip, WAIT, h, now, 0, offset, unit["targets"][h])


@inlined_step
def note_request(chip, h, row, now):
    """A hart asks for a register of a peripheral."""
    if is_wanted(chip, REQUEST):
        hart = chip.harts[np.uint64(h)]
        is_store = 1 if row["kind"] == STORE else 0
        record(chip, REQUEST, h, now, is_store, hart["address"], pc_of_row(chip, hart["row"]))


@inlined_step
def note_atomic(chip, h, now):
    """A load by way of the alias of L1 that leaves -1 behind is granted."""
    if is_wanted(chip, ATOMIC):
        record(chip, ATOMIC, h, now, 0, chip.harts[np.uint64(h)]["address"], 0)


@inlined_step
def note_barriers(chip, now):
    """The event unit has been clocked: the barriers still active are complete."""
    if is_wanted(chip, BARRIER):
        unit = chip.event_unit[0]
        complete = np.uint64(unit["barrier_active"])
        while complete:
            barrier = lowest_index(complete)
            complete &= complete - np.uint64(1)
            record(chip, BARRIER, 0, now, 0, barrier, unit["target_mask"][barrier])


@inlined_step
def note_signal(chip, ports, line, now):
    """An event line of the DMA is high for these ports: a counter has ended."""
    if is_wanted(chip, SIGNAL):
        record(chip, SIGNAL, 0, now, line, ports, _highest(chip.dma[0]["ended"]))


@cold_step
def _highest(bits):
    number = 0
    while bits >> 1:
        bits >>= 1
        number += 1
    return number


@inlined_step
def note_commands(chip, ports, now):
    """Commands of these ports, a bit each, have entered the DMA's queue."""
    if is_wanted(chip, COMMAND):
        while ports:
            _record_command(chip, lowest_index(np.uint64(ports)), now)
            ports &= ports - 1


@cold_step
def _record_command(chip, port, now):
    state = chip.dma[0]["port"][port]
    command = state["command"]
    flags = state["channel"] | command["increment"] << 1 | command["counter"] << 8
    address, line, stride = command["address"], command["line"], command["stride"]
    record(chip, COMMAND, port, now, 0, address[L1_SIDE], address[L2_SIDE])
    record(chip, COMMAND, port, now, 1, command["length"], flags)
    record(chip, COMMAND, port, now, 2, line[L2_SIDE], stride[L2_SIDE])
    record(chip, COMMAND, port, now, LAST_PART, line[L1_SIDE], stride[L1_SIDE])


@inlined_step
def note_start(chip, h, pc, cycle):
    """A hart starts."""
    if is_wanted(chip, START):
        record(chip, START, h, cycle, 0, pc, 0)


@inlined_step
def note_interrupt(chip, h, line, now):
    """A hart takes an interrupt."""
    if is_wanted(chip, INTERRUPT):
        record(chip, INTERRUPT, h, now, 0, line, 0)


@inlined_step
def note_kept(chip, h, row, now):
    """A store to L2 is granted: tell its value, if the word is one of those watched."""
    if is_wanted(chip, KEPT):
        recorder = chip.recorder[0]
        hart = chip.harts[np.uint64(h)]
        address = hart["address"]
        if row["kind"] == STORE and recorder["watched"] <= address < recorder["watched_end"]:
            record(chip, KEPT, h, now, 0, address, int(hart["regs"][row["rs2"]]))


@inlined_step
def note_word_of_l1(chip, lane, granted, now):
    """A lane of the DMA is granted the word of L1 that it asks for, or not; it takes it later."""
    if is_wanted(chip, COPIED):
        if granted:
            _record_lane(chip, lane, now)


@cold_step
def _record_lane(chip, lane, now):
    dma = chip.dma[0]
    channel, side = dma["channel"][lane >> 1], lane & 1
    bytes_ = front(channel, DATA0 + side)[1] if lane >> 1 == L2_TO_L1 else WHOLE_WORD
    address = chip.config[0]["l1_base"] + 4 * dma["lane_word"][lane]
    _record_word(chip, front(channel, LANE0 + side)[0], lane >> 1, address, bytes_, now)


@inlined_step
def note_words_of_l2(chip, now):
    """The DMA has advanced: it may have read a beat of L2, and written one."""
    if is_wanted(chip, COPIED):
        dma = chip.dma[0]
        if dma["l2_read"] >= 0:
            _record_beat(chip, L2_TO_L1, dma["l2_read"], 0xFF, now)
        if dma["l2_write"] >= 0:
            _record_beat(chip, L1_TO_L2, dma["l2_write"], dma["l2_enables"], now)


@cold_step
def _record_beat(chip, channel, offset, bytes_, now):
    counter = chip.dma[0]["l2_counter"][channel]
    is_write = 1 if channel == L1_TO_L2 else 0
    for word in range(2):
        address = chip.config[0]["l2_base"] + offset + 4 * word
        _record_word(chip, counter, is_write, address, bytes_ >> 4 * word & WHOLE_WORD, now)


@inlined_step
def _record_word(chip, counter, is_write, address, bytes_, now):
    recorder = chip.recorder[0]
    if np.uint64(address) - recorder["first_address"] < recorder["addresses"]:
        hart = min(chip.dma[0]["owner"][counter], chip.config[0]["cores"])
        record(chip, COPIED, hart, now, is_write | bytes_ << COPIED_BYTES, address, counter)
