"""Copies of the DMA as the checks see them: from the command to where a hart has waited for it.

Each is taken as a whole when its command enters the queue: what it reads and writes is marked, and
carries the clock of who has started it. Where bytes are copied that nothing has written, the copies
are not written either.
"""

import numpy as np

from soc.check.clocks import acquire, assign, forget, join
from soc.check.findings import stamp_of
from soc.check.memory import EACH, blame, bytes_of, misread, miswritten
from soc.check.races import ALL, read, write
from soc.chip.shadow import DRAINING, FILLING, MOST_COPIES, SYNC, WRITTEN
from soc.prelude.step import cold_step, inlined_step, step

L1_PART, LENGTH_PART, L2_LINES_PART, L1_LINES_PART = range(4)
BEGIN, MARK, CLEAR = range(3)
"""What is done to a copy's bytes: check them and mark them; mark them; let them go."""


@cold_step
def take_part(chip, port, cycle, part, a, b):
    """Keep a part of a command; with the last one the copy begins."""
    check = chip.check[0]
    check["command"][2 * part], check["command"][2 * part + 1] = a, b
    if part == L1_LINES_PART:
        number = _free_copy(check)
        _fill_in(check["copy"][number], check["command"])
        _begin(chip, number, min(port, chip.config[0]["cores"]), cycle)


@step
def _free_copy(check):
    """A copy that is not open; the last one, if all are."""
    number = 0
    while number < MOST_COPIES - 1 and check["copy"][number]["is_open"]:
        number += 1
    return number


@inlined_step
def _signed(word):
    return (word ^ 0x80000000) - 0x80000000


@step
def _fill_in(copy, command):
    copy["l1"], copy["l2"] = command[0], command[1]
    copy["length"] = command[2]
    copy["to_l1"], copy["increment"] = command[3] & 1, command[3] >> 1 & 1
    copy["counter"] = command[3] >> 8
    copy["l2_line"], copy["l2_stride"] = command[4], _signed(command[5])
    copy["l1_line"], copy["l1_stride"] = command[6], _signed(command[7])


@step
def _begin(chip, number, hart, cycle):
    """A copy begins: it knows what its hart knew when it stored the command."""
    check = chip.check[0]
    copy = check["copy"][number]
    copy["is_open"], copy["is_done"] = 1, 0
    copy["hart"], copy["cycle"], copy["pc"] = hart, cycle, check["site_pc"][hart]
    counter = copy["counter"]
    thread = chip.config[0]["harts"] + counter
    own = check["clock"][thread][thread]
    assign(check, check["clock"][thread], check["port"][hart])
    check["clock"][thread][thread] = own + 1
    join(check, check["begun"][counter], check["clock"][thread])
    _pass(chip, copy, thread, BEGIN)


@step
def _pass(chip, copy, thread, what):
    """Go through a copy's bytes, piece by piece of what lies together on both sides."""
    left = copy["length"]
    l1, l2 = copy["l1"], copy["l2"] - chip.config[0]["l2_base"] + chip.config[0]["l1_size"]
    l1_start, l2_start = l1, l2
    l1_left, l2_left = min(copy["l1_line"], left), min(copy["l2_line"], left)
    while left > 0:
        size = min(left, l1_left, l2_left)
        if size <= 0:
            return
        _pass_piece(chip, copy, l1, l2, size, thread, what)
        left -= size
        l1, l2, l1_left, l2_left = l1 + size, l2 + size, l1_left - size, l2_left - size
        if l1_left == 0:
            l1_left, l1_start = copy["l1_line"], l1_start + copy["l1_stride"]
            l1 = l1_start
        if l2_left == 0:
            l2_left, l2_start = copy["l2_line"], l2_start + copy["l2_stride"]
            l2 = l2_start


@step
def _pass_piece(chip, copy, l1, l2, size, thread, what):
    """A piece of a copy at these bytes; without increment it stays within 8 bytes of L2."""
    outside = size if copy["increment"] else min(size, 8 - (l2 & 7))
    source, target = (l2, l1) if copy["to_l1"] else (l1, l2)
    read_size, written_size = (outside, size) if copy["to_l1"] else (size, outside)
    config = chip.config[0]
    end = config["l1_size"] + config["l2_size"]
    if min(source, target) < 0 or max(source + read_size, target + written_size) > end:
        return  # the DMA tells of that itself
    if what == BEGIN:
        if chip.check[0]["memory"]:
            _hand_on(chip, source, target, min(read_size, written_size))
        stamp = stamp_of(copy["cycle"], copy["hart"])
        _touch(chip, source, read_size, thread, stamp, copy["pc"], False)
        _touch(chip, target, written_size, thread, stamp, copy["pc"], True)
    if chip.check[0]["memory"]:
        _mark(chip, source, read_size, DRAINING, what != CLEAR)
        _mark(chip, target, written_size, FILLING, what != CLEAR)


@step
def _lanes(byte, end):
    """The bytes of the word of a byte, from there on, before an end."""
    lanes = ALL << (byte & 3) & ALL
    left = end - (byte & -4)
    return lanes & (1 << left) - 1 if left < 4 else lanes


@step
def _touch(chip, first, size, thread, stamp, pc, is_write):
    """Check the accesses of a copy to some bytes."""
    check = chip.check[0]
    byte, end = first, first + size
    while byte < end:
        lanes, word = _lanes(byte, end), byte >> 2
        state, mask = int(chip.bytes[np.uint64(word)]), bytes_of(lanes)
        if check["memory"]:
            if is_write:
                wrong = miswritten(state, mask)
            else:
                wrong = misread(state | WRITTEN * EACH, mask)
            if wrong:
                blame(chip, word, wrong, thread, stamp, pc, is_write)
        if check["races"] and state & SYNC * EACH == 0:
            if is_write:
                write(chip, word, lanes, thread, stamp, pc)
            else:
                read(chip, word, lanes, thread, stamp, pc)
        byte = (word + 1) << 2


@step
def _hand_on(chip, source, target, size):
    """Copy whether bytes are written."""
    if (source | target | size) & 3 == 0:
        for word in range(size >> 2):
            state = int(chip.bytes[np.uint64((source >> 2) + word)]) & WRITTEN * EACH
            place = np.uint64((target >> 2) + word)
            chip.bytes[place] = int(chip.bytes[place]) & ~(WRITTEN * EACH) | state
        return
    for byte in range(size):
        is_written = _state_of(chip, source + byte) & WRITTEN
        _change(chip, target + byte, WRITTEN, is_written != 0)


@inlined_step
def _state_of(chip, byte):
    return int(chip.bytes[np.uint64(byte >> 2)]) >> 8 * (byte & 3) & 0xFF


@inlined_step
def _change(chip, byte, bits, is_set):
    place, bits = np.uint64(byte >> 2), bits << 8 * (byte & 3)
    state = int(chip.bytes[place])
    chip.bytes[place] = state | bits if is_set else state & ~bits


@step
def _mark(chip, first, size, bits, is_set):
    byte, end = first, first + size
    while byte < end:
        mask = bytes_of(_lanes(byte, end)) & bits * EACH
        place = np.uint64(byte >> 2)
        state = int(chip.bytes[place])
        chip.bytes[place] = state | mask if is_set else state & ~mask
        byte = ((byte >> 2) + 1) << 2


@cold_step
def end_copies(chip, counter):
    """All copies of a counter are done, though no hart may have waited for them."""
    check = chip.check[0]
    join(check, check["ended"][counter], check["begun"][counter])
    forget(check, check["begun"][counter])
    for number in range(MOST_COPIES):
        copy = check["copy"][number]
        if copy["is_open"] and copy["counter"] == counter:
            copy["is_done"] = 1


@cold_step
def see_end(chip, hart, counter):
    """A hart sees that nothing of a counter is under way: what is done may be used."""
    check = chip.check[0]
    acquire(check, hart, check["ended"][counter])
    for number in range(MOST_COPIES):
        copy = check["copy"][number]
        if copy["is_open"] and copy["is_done"] and copy["counter"] == counter:
            copy["is_open"] = 0
            if check["memory"]:
                _pass(chip, copy, 0, CLEAR)
                _mark_others(chip, copy)


@step
def _mark_others(chip, ended):
    """Mark anew what other copies use, as far as it may be the same."""
    check = chip.check[0]
    for number in range(MOST_COPIES):
        copy = check["copy"][number]
        if copy["is_open"] and may_overlap(copy, ended):
            _pass(chip, copy, 0, MARK)


@step
def may_overlap(one, other):
    """May two copies use the same bytes?"""
    first, end = _extent(one["l1"], one["length"], one["l1_line"], one["l1_stride"])
    others, other_end = _extent(other["l1"], other["length"], other["l1_line"], other["l1_stride"])
    if first < other_end and others < end:
        return True
    first, end = _extent(one["l2"], one["length"], one["l2_line"], one["l2_stride"])
    others, other_end = _extent(other["l2"], other["length"], other["l2_line"], other["l2_stride"])
    return first < other_end and others < end


@inlined_step
def _extent(start, length, line, stride):
    """First byte of some lines, and the end of the last one, whichever way they go."""
    lines = (length + line - 1) // max(line, 1)
    far = (lines - 1) * stride
    return start + min(far, 0), start + max(far, 0) + max(line, 8)
