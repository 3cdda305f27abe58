"""Memory: bytes that are read before they are written, or accessed where nothing is.

Every byte has a state (soc.chip.shadow); those of a word are tested together. From the command of a
copy until a hart has waited for it, what it writes is not to be touched, and what it reads is not
to be written.
"""

import numpy as np

from soc.check.findings import (
    CONSTANT,
    IN_FLIGHT,
    OUTSIDE,
    UNWRITTEN,
    found,
    found_alone,
    stamp_of,
)
from soc.chip.shadow import (
    DRAINING,
    FILLING,
    GIVEN,
    MOST_COPIES,
    PADDED,
    READ_ONLY,
    WRITTEN,
)
from soc.prelude.step import cold_step, inlined_step, step

EACH = 0x01010101
"""A bit of the state of each of a word's bytes."""

FIT_TO_READ = (WRITTEN | GIVEN) * EACH
SEEN_BY_READS = (WRITTEN | GIVEN | FILLING) * EACH
FIT_TO_WRITE = GIVEN * EACH
SEEN_BY_WRITES = (GIVEN | READ_ONLY | FILLING | DRAINING) * EACH


@inlined_step
def bytes_of(lanes):
    """The bits of a word's state that are those of some of its bytes: 0xff for each."""
    low = (lanes & 1) * 0xFF | (lanes >> 1 & 1) * 0xFF00
    return low | (lanes >> 2 & 1) * 0xFF0000 | (lanes >> 3 & 1) * 0xFF000000


@inlined_step
def misread(state, mask):
    """The bytes' states, if they are not fit to be read; else 0."""
    return (state & SEEN_BY_READS ^ FIT_TO_READ) & mask


@inlined_step
def miswritten(state, mask):
    """The bytes' states, if they are not fit to be written; else 0."""
    return (state & SEEN_BY_WRITES ^ FIT_TO_WRITE) & mask


@cold_step
def blame(chip, word, wrong, thread, stamp, pc, is_write):
    """Note what is wrong with an access, by the bytes' states."""
    for lane in range(4):
        if wrong >> 8 * lane & 0xFF:
            state = int(chip.bytes[np.uint64(word)]) >> 8 * lane & 0xFF
            if is_write or not _is_padding(chip, word, lane, state):
                _blame_byte(chip, 4 * word + lane, state, thread, stamp, pc, is_write)
                return


@step
def _is_padding(chip, word, lane, state):
    """Has a byte that is read nothing wrong but that it is padding after an element written?"""
    if state & (GIVEN | FILLING | PADDED) != GIVEN | PADDED:
        return False
    own = int(chip.bytes[np.uint64(word)])
    if own & PADDED == 0:  # halves: the lower one of the same word
        return own >> 8 * (lane - 2) & WRITTEN != 0
    return int(chip.bytes[np.uint64(word - 1)]) >> 8 * lane & WRITTEN != 0


@step
def _blame_byte(chip, byte, state, thread, stamp, pc, is_write):
    if state & GIVEN == 0:
        found_alone(chip, OUTSIDE, byte, 1, thread, stamp, pc, is_write)
    elif state & FILLING or (is_write and state & DRAINING):
        _blame_copy(chip, byte, thread, stamp, pc, is_write)
    elif is_write and state & READ_ONLY:
        found_alone(chip, CONSTANT, byte, 1, thread, stamp, pc, is_write)
    else:
        found_alone(chip, UNWRITTEN, byte, 1, thread, stamp, pc, is_write)


@step
def _blame_copy(chip, byte, thread, stamp, pc, is_write):
    """An access to what a copy is about to write, or to read: find the copy."""
    config = chip.config[0]
    for number in range(MOST_COPIES):
        copy = chip.check[0]["copy"][number]
        if copy["is_open"] and uses(chip, copy, byte, is_write):
            fills = copy["to_l1"] == (byte < config["l1_size"])
            then = stamp_of(copy["cycle"], copy["hart"])
            other = config["harts"] + copy["counter"]
            found(
                chip,
                IN_FLIGHT,
                byte,
                1,
                thread,
                stamp,
                pc,
                is_write,
                other,
                then,
                copy["pc"],
                fills,
            )
            return


@step
def uses(chip, copy, byte, with_reads):
    """Does a copy write a byte, or, if that matters, read it?"""
    l1_size = chip.config[0]["l1_size"]
    in_l1 = byte < l1_size
    if not with_reads and copy["to_l1"] != in_l1:
        return False
    if in_l1:
        return _is_on_line(byte - copy["l1"], copy["length"], copy["l1_line"], copy["l1_stride"])
    first = copy["l2"] - chip.config[0]["l2_base"]
    length = copy["length"] if copy["increment"] else 8
    return _is_on_line(byte - l1_size - first, length, copy["l2_line"], copy["l2_stride"])


@step
def _is_on_line(distance, length, line, stride):
    """Is a byte at this distance from the first line's start on one of the lines?"""
    left = length
    while left > 0:
        size = min(line, left)
        if 0 <= distance < size:
            return True
        distance -= stride
        left -= size
    return False
