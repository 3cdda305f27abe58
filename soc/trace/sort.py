"""Sorts the events of the trace's buffer: a counting sort, for cycles near each other.

Their order does not depend on the order in which they were noted, so equal runs have equal traces:
by cycle, hart, rank of their kind, then by their other fields as numbers (extra, a, b). The ranks
are those of a hart's cycle: what it is granted, what it marks, then what it issues; no two events
of a hart in one cycle are of the same kind with the same fields.
"""

import numpy as np

from soc.chip.state import Chip
from soc.prelude.step import inlined_step, step
from soc.prelude.trace_event import SORTED_CYCLES, Kind

LOW_WORD = np.uint64(0xFFFFFFFF)
KIND = np.uint64(32), np.uint64(0xFF)
"""Where an event's first word has its kind: the bits below, and a mask."""

AROUND = np.uint64(SORTED_CYCLES - 1)
"""Places are those of cycles modulo SORTED_CYCLES, a power of two; all 0 between two calls."""

FIRST_KIND = int(Kind.MEMORY)
"""The kind of rank 0; those after it follow, around to the one before it."""

TOO_FAR = 0
"""Returned by sort_events: nothing is done, some are too many cycles behind others."""


@inlined_step
def rank(what):
    """Return where an event is among those of its cycle, by the upper half of its first word.

    Hart, kind, extra: of the kinds, ISSUE and STALL come last; a correction has its kind's place.
    """
    hart = what >> np.uint64(8) & np.uint64(0xFF)
    kind = what - np.uint64(FIRST_KIND) & np.uint64(7)
    return hart << np.uint64(24) | kind << np.uint64(16) | what >> np.uint64(16)


@inlined_step
def _sort_cycle(target, start, end):
    """Put the events of one cycle, numbers start to end - 1, in order: few, and nearly so."""
    one, two, half = np.uint64(1), np.uint64(2), np.uint64(32)
    for k in range(start + 1, end):
        at = two * np.uint64(k)
        word, fields = target[at], target[at + one]
        mine, in_turn = rank(word >> half), fields << half | fields >> half
        while at > two * np.uint64(start):
            before, others = target[at - two], target[at - one]
            its = rank(before >> half)
            if its < mine or its == mine and (others << half | others >> half) <= in_turn:
                break
            target[at], target[at + one] = before, others
            at -= two
        target[at], target[at + one] = word, fields


def in_order(events: np.ndarray) -> np.ndarray:
    """EVENT[n] in that order, whatever their cycles are."""
    kinds = (events["kind"] - np.uint8(FIRST_KIND)) & 7
    keys = (events["b"], events["a"], events["extra"], kinds, events["hart"], events["cycle"])
    ordered: np.ndarray = events[np.lexsort(keys)]
    return ordered


@step
def sort_events(chip: Chip, events: int) -> int:
    """Put the first events of `trace` in the order of their cycles into `trace_sorted`.

    Returns the bits of all their kinds together, or TOO_FAR.
    """
    trace, places, target = chip.trace, chip.trace_places, chip.trace_sorted
    count = np.uint64(events)
    one, two = np.uint64(1), np.uint64(2)
    first = LOW_WORD
    last = np.uint64(0)
    words = np.uint64(0)
    for k in range(count):
        word = trace[two * k]
        words |= word
        cycle = word & LOW_WORD
        first = min(first, cycle)
        last = max(last, cycle)
        places[cycle & AROUND] += 1
    if count == 0 or last - first >= np.uint64(SORTED_CYCLES):
        places[:] = 0
        return TOO_FAR
    behind = last - first + one
    place = 0
    for cycle in range(behind):
        here = (first + cycle) & AROUND
        found = places[here]
        places[here] = place
        place += found
    for k in range(count):
        word = trace[two * k]
        here = word & LOW_WORD & AROUND
        at = two * np.uint64(places[here])
        places[here] += 1
        target[at] = word
        target[at + one] = trace[two * k + one]
    start = 0
    for cycle in range(behind):
        here = (first + cycle) & AROUND
        end = places[here]
        places[here] = 0
        _sort_cycle(target, start, end)
        start = end
    return int(words >> KIND[0] & KIND[1])
