"""Races: two accesses to a byte, one of them a write, of which neither happened before the other.

Every byte has the time of its last write, and of the reads since: of one that happened after the
others if there is one, else of each thread (FastTrack's epochs). A cell stands for its whole word
until one of its bytes is accessed alone.
"""

import numpy as np

from soc.check.clocks import is_before, time_of
from soc.check.findings import RACE, found
from soc.chip.shadow import SHARED, SPLIT, THREAD, TIME_SHIFT
from soc.prelude.step import cold_step, inlined_step, step

ALL = 15
"""The four bytes of a word, a bit each."""

SEEN_SHIFT = 4
"""Of what `seen` has for a word and a hart: the clock above the bytes that it has read since."""
SEEN_CLOCK = (1 << 32 - SEEN_SHIFT) - 1


@inlined_step
def cell_of(chip, byte):
    """The cell of a byte."""
    return chip.cells[np.uint64(byte)]


@inlined_step
def check_read(chip, word, lanes, hart, stamp, pc):
    """A hart reads bytes of a word: nothing to do if it has since its last release."""
    check = chip.check[0]
    seen = chip.seen[np.uint64(word * chip.config[0]["harts"] + hart)]
    clock = check["clock"][hart][hart] & SEEN_CLOCK
    if seen >> SEEN_SHIFT != clock or seen & lanes != lanes:
        read(chip, word, lanes, hart, stamp, pc)
        kept = seen & ALL if seen >> SEEN_SHIFT == clock else 0
        place = np.uint64(word * chip.config[0]["harts"] + hart)
        chip.seen[place] = clock << SEEN_SHIFT | kept | lanes


@inlined_step
def check_write(chip, word, lanes, state, hart, stamp, pc):
    """A hart writes bytes of a word: nothing to do if it has since its last release.

    state    of the word's bytes
    """
    own = time_of(chip.check[0], hart)
    if lanes != ALL or state & SPLIT or cell_of(chip, 4 * word)["write"] != own:
        write(chip, word, lanes, hart, stamp, pc)


@cold_step
def read(chip, word, lanes, thread, stamp, pc):
    """A thread reads bytes of a word."""
    if _is_split(chip, word, lanes):
        for lane in range(4):
            if lanes >> lane & 1:
                _read_cell(chip, 4 * word + lane, 1, thread, stamp, pc)
    else:
        _read_cell(chip, 4 * word, 4, thread, stamp, pc)


@cold_step
def write(chip, word, lanes, thread, stamp, pc):
    """A thread writes bytes of a word."""
    if not _is_split(chip, word, lanes):
        _write_cell(chip, 4 * word, 4, thread, stamp, pc)
        return
    for lane in range(4):
        if lanes >> lane & 1:
            _write_cell(chip, 4 * word + lane, 1, thread, stamp, pc)
    if lanes == ALL:
        chip.bytes[np.uint64(word)] &= ~SPLIT & 0xFFFFFFFF


@step
def _is_split(chip, word, lanes):
    """Have a word's bytes cells of their own? They get them where not all are accessed."""
    state = int(chip.bytes[np.uint64(word)])
    if state & SPLIT:
        return True
    if lanes == ALL:
        return False
    first = cell_of(chip, 4 * word)
    for lane in range(1, 4):
        _copy_cell(chip, first, cell_of(chip, 4 * word + lane))
    chip.bytes[np.uint64(word)] = state | SPLIT
    return True


@step
def _copy_cell(chip, first, other):
    other["write"], other["read"] = first["write"], first["read"]
    other["write_cycle"], other["read_cycle"] = first["write_cycle"], first["read_cycle"]
    other["write_pc"], other["read_pc"] = first["write_pc"], first["read_pc"]
    if first["read"] & SHARED:
        place = _take_place(chip)
        if place < 0:
            other["read"] = 0
            return
        other["read"] = SHARED | place
        threads = chip.check[0]["threads"]
        for thread in range(threads):
            known = chip.readers[np.uint64((first["read"] & ~SHARED) * threads + thread)]
            _note_reader(chip, place, thread, known["clock"], known["cycle"], known["pc"])


@step
def _read_cell(chip, byte, size, thread, stamp, pc):
    check = chip.check[0]
    cell = cell_of(chip, byte)
    if cell["write"] and not is_before(check, cell["write"], thread):
        _race_with_write(chip, cell, byte, size, thread, stamp, pc, 0)
    last = cell["read"]
    if last & SHARED:
        clock = check["clock"][thread][thread]
        _note_reader(chip, last & ~SHARED, thread, clock, stamp, pc)
    elif last == 0 or is_before(check, last, thread):
        cell["read"], cell["read_cycle"] = time_of(check, thread), stamp
        cell["read_pc"] = pc
    else:
        _share(chip, cell, thread, stamp, pc)


@step
def _share(chip, cell, thread, stamp, pc):
    """Keep the read of a thread besides another one's."""
    check = chip.check[0]
    place = _take_place(chip)
    if place < 0:
        return
    for other in range(check["threads"]):
        _note_reader(chip, place, other, 0, 0, 0)
    last = cell["read"]
    _note_reader(
        chip, place, last & THREAD, last >> TIME_SHIFT, cell["read_cycle"], cell["read_pc"]
    )
    _note_reader(chip, place, thread, check["clock"][thread][thread], stamp, pc)
    cell["read"] = SHARED | place


@inlined_step
def _note_reader(chip, place, thread, clock, stamp, pc):
    reader = chip.readers[np.uint64(place * chip.check[0]["threads"] + thread)]
    reader["clock"], reader["cycle"], reader["pc"] = clock, stamp, pc


@step
def _take_place(chip):
    """A place for the reads of all threads; -1 if there is none."""
    check = chip.check[0]
    if check["free"]:
        place = check["free"] - 1
        check["free"] = chip.readers[np.uint64(place * check["threads"])]["clock"]
        return place
    if check["used"] == check["places"]:
        check["lost"] += 1
        return -1
    check["used"] += 1
    return check["used"] - 1


@step
def _give_back(chip, place):
    check = chip.check[0]
    chip.readers[np.uint64(place * check["threads"])]["clock"] = check["free"]
    check["free"] = place + 1


@step
def _write_cell(chip, byte, size, thread, stamp, pc):
    check = chip.check[0]
    cell = cell_of(chip, byte)
    last = cell["read"]
    if last & SHARED:
        _race_with_readers(chip, last & ~SHARED, byte, size, thread, stamp, pc)
        _give_back(chip, last & ~SHARED)
    elif last and not is_before(check, last, thread):
        earlier = last & THREAD
        pc_then, then = int(cell["read_pc"]), cell["read_cycle"]
        found(chip, RACE, byte, size, thread, stamp, pc, 1, earlier, then, pc_then, 0)
    if cell["write"] and not is_before(check, cell["write"], thread):
        _race_with_write(chip, cell, byte, size, thread, stamp, pc, 1)
    cell["read"] = 0
    cell["write"], cell["write_cycle"], cell["write_pc"] = time_of(check, thread), stamp, pc


@step
def _race_with_write(chip, cell, byte, size, thread, stamp, pc, is_write):
    earlier = cell["write"] & THREAD
    pc_then, then = int(cell["write_pc"]), cell["write_cycle"]
    found(chip, RACE, byte, size, thread, stamp, pc, is_write, earlier, then, pc_then, 1)


@step
def _race_with_readers(chip, place, byte, size, thread, stamp, pc):
    check = chip.check[0]
    for other in range(check["threads"]):
        reader = chip.readers[np.uint64(place * check["threads"] + other)]
        if reader["clock"] > check["clock"][thread][other]:
            pc_then, then = int(reader["pc"]), reader["cycle"]
            found(chip, RACE, byte, size, thread, stamp, pc, 1, other, then, pc_then, 0)
