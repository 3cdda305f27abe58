"""A hart's private instruction cache: what it holds, and the state of the fetches through it.

Set = line % sets. A miss replaces the invalid way with the highest index, else the way that the
low bits of an 8-bit LFSR say, which steps at each such eviction.

Sources: pri_icache_controller.sv, lfsr_8bit of hier-icache v1.3.0; replayed fetches of the RTL.
"""

import numpy as np

from soc.prelude.step import cold_step, inlined_step, step

IDEAL, STEADY, EXACT = range(3)
"""Modes."""

THROUGH_CACHES, RI5CY_PORT, CV32E40P_PORT = range(3)
"""Where a prefetch buffer asks: a private cache, or a port of L2, and whose buffer it is there."""

LINE_BYTES = 16  # FETCH_DATA_WIDTH = 128: fixed in hier-icache
PRIVATE_LINES = 256  # lines that a record can hold
SEEN = 64  # lines that are remembered to be in it; a power of two
PLACES = 8  # of the rings: positions head - 4 .. head + 3
START = 4  # position of the first word after a jump

FETCH = np.dtype(
    [
        # STEADY: one cache line.
        ("mode", "i8"),
        ("arrival", "i8"),  # STEADY: of the word three after the last one that left
        ("left", "i8"),  # STEADY: the cycle in which that word left
        ("loop_pc", "i8"),  # a loop goes back after the instruction here, or -1
        ("late", "i8"),  # STEADY: one that leaves from this cycle on has waited in a full queue
        ("fresh", "i8"),  # `miss` is not noted yet
        ("sets", "i8"),
        ("ways", "i8"),
        # The rest.
        ("head", "i8"),  # EXACT: position of the next word to leave
        ("next", "i8"),  # EXACT: position of the next word to ask for
        ("word", "i8"),  # EXACT: its address / 4
        ("arrivals", "i8", (PLACES,)),  # EXACT: by position % PLACES
        ("leaves", "i8", (PLACES,)),
        ("turn", "i8"),  # EXACT: position of what is asked for next out of order, or -1
        ("turn_target", "i8"),
        ("turn_cycle", "i8"),
        ("end_words", "i8"),  # EXACT: in which the end of a loop lies that this goes back after
        ("held", "i8"),  # EXACT: position of a word asked for later if the end still waits, or -1
        ("jump_target", "i8"),  # EXACT: of a jump whose turn comes after that, or -1
        ("jump_cycle", "i8"),
        ("back", "i8"),  # EXACT: where the jump's target goes back to, as the end of a loop, or -1
        ("free", "i8"),  # EXACT: first cycle in which the cache grants a fetch
        ("miss", "i8"),  # cycle of the fetch that misses, or NEVER
        ("sent", "i8"),  # the shared cache knows of it
        ("fill", "i8"),  # and the line will be kept
        ("victim", "i8"),  # in the place of this one
        ("enabled", "i8"),  # 0: every fetch goes past the caches to L2
        ("lfsr", "i8"),
        ("misses", "i8"),
        ("port", "i8"),  # THROUGH_CACHES, or a port of L2 and whose buffer
        ("half", "i8"),  # CV32E40P: the upper half of the last word that left is still to come
        ("seen", "i8", (SEEN,)),  # by line % SEEN: one that is in it, or -1
        ("lines", "i8", (PRIVATE_LINES,)),  # address / 16, or -1; by set * ways + way
    ],
    align=True,
)


@step
def next_lfsr(state):
    """Step lfsr_8bit of hier-icache: shift left, NOT(q7 ^ q3 ^ q2 ^ q1) comes in."""
    return state << 1 & 0xFF | (state >> 7 ^ state >> 3 ^ state >> 2 ^ state >> 1 ^ 1) & 1


@step
def forget_lines(fetch):
    """Invalidate all sets."""
    for k in range(SEEN):
        fetch["seen"][k] = -1
    for k in range(PRIVATE_LINES):
        fetch["lines"][k] = -1


@inlined_step
def is_seen(fetch, line):
    """Is this line certainly in the cache?"""
    return fetch["seen"][np.uint64(line & (SEEN - 1))] == line


@inlined_step
def is_cached(fetch, line):
    """Look a line up."""
    return is_seen(fetch, line) or _is_found(fetch, line)


@cold_step
def _is_found(fetch, line):
    first = (line & (fetch["sets"] - 1)) * fetch["ways"]
    for way in range(fetch["ways"]):
        if fetch["lines"][first + way] == line:
            fetch["seen"][line & (SEEN - 1)] = line
            return True
    return False


@inlined_step
def lines_are_seen(fetch, target):
    """Are the four words from target on, which are asked for in any case, certainly cached?"""
    line = target >> 4
    return is_seen(fetch, line) and (target & 12 == 0 or is_seen(fetch, line + 1))


@inlined_step
def has_lines(fetch, target):
    """Are they cached?"""
    line = target >> 4
    return is_cached(fetch, line) and (target & 12 == 0 or is_cached(fetch, line + 1))


@step
def missing_line(fetch):
    """Return the line (address / 16) of the fetch that misses."""
    return fetch["word"] >> 2


@step
def choose_victim(fetch):
    """Choose the place of the missing line."""
    first = (missing_line(fetch) & (fetch["sets"] - 1)) * fetch["ways"]
    for way in range(fetch["ways"] - 1, -1, -1):
        if fetch["lines"][first + way] < 0:
            fetch["victim"] = first + way
            return
    fetch["victim"] = first + (fetch["lfsr"] & (fetch["ways"] - 1))
    fetch["lfsr"] = next_lfsr(fetch["lfsr"])


@step
def keep_line(fetch):
    """Write the missing line in its place."""
    line, victim = missing_line(fetch), fetch["lines"][fetch["victim"]]
    if is_seen(fetch, victim):
        fetch["seen"][victim & (SEEN - 1)] = -1
    fetch["lines"][fetch["victim"]] = line
    fetch["seen"][line & (SEEN - 1)] = line
