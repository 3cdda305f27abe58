"""Trace points: what step functions note for a trace, and where. They change no cycle.

The events lie in the chip's `trace`, a buffer, in the order in which they are noted;
soc.trace.recorder sorts them by cycle and writes them away. One unit is compiled without trace
points, see RECORDING. In the others `recorder` says what is wanted: nothing unless a run
is recorded.

The cycles of a hart are noted without gaps: `accounted` is the cycle from which its next stall
counts. A wait that is under way when the buffer is written away is written too, with 0 cycles; the
hart is `open` then, and the wait at its end replaces what was written.
"""

import numpy as np

from isa.compiled import SINK
from soc.prelude.bits import lowest_index
from soc.prelude.counters import COUNT
from soc.prelude.decoded import STORE, WIDTH, row_of_memory
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.trace_event import (
    AT_GRANT,
    CORRECTION,
    OUTSIDE_L1,
    SECOND_HALF,
    SIZE_SHIFT,
    STORED,
    Kind,
)
from soc.prelude.trace_event import STORE as WRITES

RECORDING = True
"""False where the loop of a run without a trace is compiled: then nothing of this is left there."""

ISSUE, STALL, MEMORY, CONFLICT, DMA, TRANSFER, SLEEP, REGION, VALUE = (int(kind) for kind in Kind)

PAID_BY_NEXT = (
    1 << COUNT.load_use | 1 << COUNT.jump_register | 1 << COUNT.fetch | 1 << COUNT.fpu_dependency
)
"""Causes that keep the next instruction from issuing; others are the last one's."""
FIRST_CAUSE = COUNT.load_use


@inlined_step
def record(chip, kind, hart, cycle, extra, a, b):
    """Note an event, if it is wanted."""
    record_if(chip, True, kind, hart, cycle, extra, a, b)


@inlined_step
def record_if(chip, is_there, kind, hart, cycle, extra, a, b):
    """Note an event, if it is wanted and there; there is no branch on the latter."""
    recorder = chip.recorder[0]
    number = np.uint64(hart)
    since = np.uint64(cycle - recorder["first"])
    wanted = recorder["kinds"] >> np.uint64(kind) & recorder["harts"] >> number & np.uint64(1)
    if wanted and since < recorder["cycles"]:
        place = np.uint64(2 * recorder["count"])
        what = np.uint64(kind) | number << np.uint64(8) | np.uint64(extra) << np.uint64(16)
        chip.trace[place] = since | what << np.uint64(32)
        low = np.uint64(a) & np.uint64(0xFFFFFFFF)
        chip.trace[place + np.uint64(1)] = low | np.uint64(b) << np.uint64(32)
        recorder["count"] += 1 if is_there else 0


@inlined_step
def is_wanted(chip, kind):
    """Are events of this kind recorded?"""
    if RECORDING:
        return chip.recorder[0]["kinds"] >> np.uint64(kind) & np.uint64(1) != 0
    return False


@inlined_step
def is_recorded(chip):
    """Is anything at all recorded?"""
    if RECORDING:
        return chip.recorder[0]["kinds"] != 0
    return False


@inlined_step
def is_full(chip):
    """Has the buffer to be written away before the next cycle?"""
    if RECORDING:
        return chip.recorder[0]["count"] >= chip.recorder[0]["limit"] > 0
    return False


@inlined_step
def pc_of_row(chip, row):
    """Return the address of the instruction of a row."""
    return chip.config[0]["code_base"] + 2 * row_of_memory(chip, row)


@inlined_step
def note_issue(chip, h, row, pc, cycle):
    """An instruction leaves the decode stage."""
    if RECORDING:
        chip.harts[np.uint64(h)]["accounted"] = cycle + 1
        recorder = chip.recorder[0]
        if np.uint64(pc) - recorder["first_pc"] < recorder["pcs"]:
            record(chip, ISSUE, h, cycle, 0, pc, row["word"])


@inlined_step
def note_uncounted(hart):
    """The instruction that issued is none to the counters: its cycle is a stall's."""
    if RECORDING:
        hart["accounted"] -= 1


@inlined_step
def note_stall(chip, hart, cause, cycles):
    """A hart has stalled for so many cycles."""
    if RECORDING:
        if cycles:
            start = hart["accounted"]
            hart["accounted"] = start + cycles
            last = pc_of_row(chip, hart["last"])
            pc = hart["pc"] if PAID_BY_NEXT >> cause & 1 else last
            if cause == COUNT.off:
                pc = 0
            extra = cause - FIRST_CAUSE
            record_apart(chip, STALL, hart["open"], hart["number"], start, extra, pc, cycles)
            hart["open"] = 0


@inlined_step
def note_lost(chip, h, cycles):
    """A hart has waited for the bank that is its own now.

    NOTE: no branch on whether it has lost anything, since it would not be predicted.
    """
    if RECORDING:
        hart = chip.harts[np.uint64(h)]
        start = hart["accounted"]
        hart["accounted"] = start + cycles
        has_lost = cycles != 0
        kind = STALL + (CORRECTION if hart["open"] else 0)
        hart["open"] = 0 if has_lost else hart["open"]
        pc = pc_of_row(chip, hart["last"])
        record_if(chip, has_lost, kind, h, start, COUNT.l1_contention - FIRST_CAUSE, pc, cycles)


@inlined_step
def note_sleep(chip, hart, is_barrier, cycles):
    """A hart goes on after an event load, whose stall is about to be added."""
    if RECORDING:
        if cycles:
            pc = pc_of_row(chip, hart["last"])
            start = hart["accounted"]
            record_apart(chip, SLEEP, hart["open"], hart["number"], start, is_barrier, pc, cycles)


@cold_step
def record_apart(chip, kind, is_open, hart, start, extra, pc, cycles):
    """Note an event that corrects one if the hart's wait is open.

    NOTE: soc.jit.edit_llvm tells LLVM that this touches no array but `recorder` and `trace`.
    """
    record(chip, kind + (CORRECTION if is_open else 0), hart, start, extra, pc, cycles)


@inlined_step
def note_written(chip, h, number, value, pc, cycle):
    """An instruction writes an entry of the register file as it issues; none past the file."""
    if RECORDING:
        if chip.recorder[0]["kinds"] >> np.uint64(VALUE) & np.uint64(1) and number < SINK:
            record_apart(chip, VALUE, False, h, cycle, number, value, pc)


@inlined_step
def note_accessed(chip, h, row, now):
    """A load or store, of this row, is done: what it has loaded, or stored."""
    if RECORDING:
        if chip.recorder[0]["kinds"] >> np.uint64(VALUE) & np.uint64(1):
            hart = chip.harts[np.uint64(h)]
            is_store = row["kind"] == STORE
            number = row["rs2"] if is_store else row["rd"]
            pc = pc_of_row(chip, hart["row"])
            what = int(number) | AT_GRANT | (STORED if is_store else 0)
            record_apart(chip, VALUE, False, h, now, what, hart["regs"][number], pc)


@inlined_step
def note_memory(chip, h, row, index, half, outside, now):
    """A transaction of a load or store, the row of this index, is granted.

    half       not 0: the second one of the access
    outside    of L1: in L2, or by a peripheral
    """
    if RECORDING:
        address = chip.harts[np.uint64(h)]["address"]
        recorder = chip.recorder[0]
        if np.uint64(address) - recorder["first_address"] < recorder["addresses"]:
            extra = (int(row["access"] & WIDTH) >> 1) << SIZE_SHIFT
            if row["kind"] == STORE:
                extra |= WRITES
            if outside:
                extra |= OUTSIDE_L1
            if half:
                extra |= SECOND_HALF
            record(chip, MEMORY, h, now, extra, address, pc_of_row(chip, index))


@inlined_step
def note_conflicts(chip, harts, now):
    """These harts have lost the arbitration of their banks."""
    if RECORDING:
        while harts:
            h = lowest_index(harts)
            harts &= harts - np.uint64(1)
            hart = chip.harts[np.uint64(h)]
            _record_conflict(chip, h, hart["address"], pc_of_row(chip, hart["row"]), now)


@cold_step
def _record_conflict(chip, initiator, address, pc, now):
    bank = address >> 2 & chip.config[0]["banks"] - 1
    winner = chip.banks[np.uint64(bank)]["winner"]
    record(chip, CONFLICT, initiator, now, bank | winner << 8, pc, address)


@inlined_step
def note_beat(chip, initiator, address, granted, write, now):
    """A lane of the DMA, or of the test benches' generator, has been granted a word, or not."""
    if RECORDING:
        if granted:
            record(chip, DMA, initiator, now, write, address, 0)
        else:
            _record_conflict(chip, initiator, address, 0, now)


@inlined_step
def note_transfers_done(chip, now):
    """Transfers whose end the DMA is about to note."""
    if RECORDING:
        dma = chip.dma[0]
        ended = dma["running_before"] & ~dma["running"]
        while ended:
            counter = lowest_index(np.uint64(ended))
            ended &= ended - 1
            _record_transfer(chip, dma["owner"][counter], 1, counter, 0, now)


@inlined_step
def note_transfers_started(chip, ports, now):
    """Commands of these ports, a bit each, have entered the DMA's queue."""
    if RECORDING:
        while ports:
            port = lowest_index(np.uint64(ports))
            ports &= ports - 1
            command = chip.dma[0]["port"][port]["command"]
            _record_transfer(chip, port, 0, command["counter"], command["length"], now)


@cold_step
def _record_transfer(chip, port, is_done, counter, size, now):
    record(chip, TRANSFER, min(port, chip.config[0]["cores"]), now, is_done, counter, size)


@inlined_step
def note_region(chip, hart, number, cycle):
    """A marker of a region issues: an even number opens it, an odd one closes it."""
    if RECORDING:
        record(chip, REGION, hart["number"], cycle, number >> 1, 1 - (number & 1), hart["pc"])
