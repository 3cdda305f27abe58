"""The checks' loop: goes through what was noted, in the order in which it happened."""

import numpy as np

from soc.check.conflicts import note_access, note_conflict
from soc.check.copies import end_copies, take_part
from soc.check.findings import stamp_of
from soc.check.memory import EACH, WRITTEN, blame, bytes_of, misread, miswritten
from soc.check.order import (
    CLUSTER_BASE,
    DMA,
    DMA_END,
    SHARED_DMA,
    SHARED_DMA_END,
    access_sync_word,
    answered,
    asked,
    barrier_complete,
    copies_signalled,
    interrupted,
    started,
    waits,
)
from soc.check.races import ALL, check_read, check_write
from soc.chip.shadow import GIVEN, SYNC
from soc.core.sync_points import (
    ANSWER,
    ATOMIC,
    BARRIER,
    COMMAND,
    INTERRUPT,
    KEPT,
    REQUEST,
    SIGNAL,
    START,
    WAIT,
)
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.trace_event import SECOND_HALF, SIZE_SHIFT, STORE, Kind

MEMORY, CONFLICT, TRANSFER = int(Kind.MEMORY), int(Kind.CONFLICT), int(Kind.TRANSFER)


@step
def check_events(chip, first, end):
    """Check the events in these places of the trace's buffer."""
    since = chip.recorder[0]["first"]
    for number in range(first, end):
        head = int(chip.trace[np.uint64(2 * number)])
        tail = int(chip.trace[np.uint64(2 * number + 1)])
        kind, hart, extra = head >> 32 & 0xFF, head >> 40 & 0xFF, head >> 48 & 0xFFFF
        cycle = since + (head & 0xFFFFFFFF)
        a, b = tail & 0xFFFFFFFF, tail >> 32 & 0xFFFFFFFF
        if kind == MEMORY:
            check_access(chip, hart, cycle, extra, a, b)
        else:
            check_other(chip, kind, hart, cycle, extra, a, b)


@inlined_step
def byte_of(chip, address):
    """The number of a byte of L1 or L2; -1 of another one."""
    config = chip.config[0]
    offset = address - config["l1_base"]
    if 0 <= offset < config["l1_size"]:
        return offset
    offset = address - config["l2_base"]
    if 0 <= offset < config["l2_size"]:
        return config["l1_size"] + offset
    return -1


@inlined_step
def check_access(chip, hart, cycle, extra, address, pc):
    """A hart accesses bytes of one word."""
    check = chip.check[0]
    byte = byte_of(chip, address)
    if byte < 0:
        note_site(check, hart, cycle, address, pc)
        return
    size, place = 1 << (extra >> SIZE_SHIFT & 3), byte & 3
    if extra & SECOND_HALF:
        size = check["rest"][hart]
    elif place + size > 4:
        check["rest"][hart] = place + size - 4
    lanes = (1 << size) - 1 << place & ALL
    is_write = extra & STORE != 0
    word = byte >> 2
    state = int(chip.bytes[np.uint64(word)])
    stamp = stamp_of(cycle, hart)
    if check["memory"]:
        check_bytes(chip, word, lanes, state, is_write, hart, stamp, pc)
    if check["races"]:
        if state & SYNC * EACH:
            access_sync_word(chip, word, is_write, hart)
        elif is_write:
            check_write(chip, word, lanes, state, hart, stamp, pc)
        else:
            check_read(chip, word, lanes, hart, stamp, pc)
    if check["performance"]:
        note_access(chip, hart, address, pc)


@inlined_step
def check_bytes(chip, word, lanes, state, is_write, hart, stamp, pc):
    """A hart accesses bytes: are they fit for that?"""
    mask = bytes_of(lanes)
    if is_write:
        wrong = miswritten(state, mask)
        chip.bytes[np.uint64(word)] = state | mask & WRITTEN * EACH
    else:
        wrong = misread(state, mask)
    if wrong:
        blame(chip, word, wrong, hart, stamp, pc, is_write)


@inlined_step
def note_site(check, hart, cycle, address, pc):
    """Where a program was when it last accessed the DMA."""
    offset = address - CLUSTER_BASE
    if DMA <= offset < DMA_END or SHARED_DMA <= offset < SHARED_DMA_END:
        check["site_cycle"][hart] = cycle
        check["site_pc"][hart] = pc


@cold_step
def check_other(chip, kind, hart, cycle, extra, a, b):
    """Whatever is no access to memory."""
    if kind == ANSWER:
        answered(chip, hart, extra & 1, extra >> 8, a, b)
    elif kind == WAIT:
        waits(chip, hart, a, b)
    elif kind == REQUEST:
        note_site(chip.check[0], hart, cycle, a, b)
        asked(chip, hart, extra & 1, a)
    elif kind == ATOMIC:
        mark_sync(chip, a)
    elif kind == BARRIER:
        barrier_complete(chip, a, b)
    elif kind == SIGNAL:
        copies_signalled(chip, a, extra, b)
    elif kind == COMMAND:
        take_part(chip, hart, cycle, extra, a, b)
    elif kind == TRANSFER:
        if extra:
            end_copies(chip, a)
    elif kind == START:
        started(chip, hart)
    elif kind == INTERRUPT:
        interrupted(chip, hart, a)
    elif kind == CONFLICT:
        note_conflict(chip, hart, extra >> 8, a, b)
    elif kind == KEPT:
        give(chip, a, b)


@step
def mark_sync(chip, address):
    """Harts synchronise by the word at an address."""
    byte = byte_of(chip, address)
    if byte >= 0:
        chip.bytes[np.uint64(byte >> 2)] |= SYNC * EACH


@step
def give(chip, cell, end):
    """An allocator stores how far its memory is given away: what lies before that is the program's.

    It is that of L1, or that of L2: the address tells.
    """
    last = byte_of(chip, end - 1)
    if last < 0:
        return
    byte = last
    while byte >= 0 and int(chip.bytes[np.uint64(byte >> 2)]) >> 8 * (byte & 3) & GIVEN == 0:
        chip.bytes[np.uint64(byte >> 2)] |= GIVEN << 8 * (byte & 3)
        byte -= 1
