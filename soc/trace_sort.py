"""Sorts the events of the trace's buffer by cycle: a counting sort, for cycles near each other."""

import numpy as np

from soc.chip_state import Chip
from soc.step import step
from soc.trace_format import SORTED_CYCLES

LOW_WORD = np.uint64(0xFFFFFFFF)
KIND = np.uint64(32), np.uint64(0xFF)
"""Where an event's first word has its kind: the bits below, and a mask."""

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
    if count == 0 or last - first >= np.uint64(SORTED_CYCLES):
        return TOO_FAR
    behind = last - first + one
    for cycle in range(behind + one):
        places[cycle] = 0
    for k in range(count):
        places[(trace[two * k] & LOW_WORD) - first + one] += 1
    for cycle in range(behind):
        places[cycle + one] += places[cycle]
    for k in range(count):
        word = trace[two * k]
        cycle = (word & LOW_WORD) - first
        place = two * np.uint64(places[cycle])
        places[cycle] += 1
        target[place] = word
        target[place + one] = trace[two * k + one]
    return int(words >> KIND[0] & KIND[1])
