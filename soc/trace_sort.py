"""Sorts the events of the trace's buffer by cycle: a counting sort, for cycles near each other."""

import numpy as np

from soc.chip_state import Chip
from soc.step import step
from soc.trace_format import SORTED_CYCLES

LOW_WORD = np.uint64(0xFFFFFFFF)
KIND = np.uint64(32), np.uint64(0xFF)
"""Where an event's first word has its kind: the bits below, and a mask."""

AROUND = np.uint64(SORTED_CYCLES - 1)
"""Places are those of cycles modulo SORTED_CYCLES, a power of two; all 0 between two calls."""

TOO_FAR = 0
"""Returned by sort_events: nothing is done, some are too many cycles behind others."""


@step
def sort_events(chip: Chip, events: int) -> int:
    """Put the first events of `trace` in the order of their cycles into `trace_sorted`.

    Those of one cycle keep their order. Returns the bits of all their kinds together, or TOO_FAR.
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
    for cycle in range(behind):
        places[(first + cycle) & AROUND] = 0
    return int(words >> KIND[0] & KIND[1])
