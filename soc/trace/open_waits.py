"""Waits in a trace whose end is not known when they are written: of harts that sleep, above all.

Such a wait is written with 0 cycles, and its hart marked `open`. At its end, a trace point notes
it again, as a correction, which takes the place of what was written.
"""

from collections.abc import Iterator

import numpy as np

from soc.chip.state import Chip
from soc.cluster.demux import EVENT_UNIT_PORT
from soc.event_unit.offsets import BARRIER
from soc.prelude import hart_state
from soc.prelude.counters import COUNT
from soc.prelude.decoded import ELW, row_of_memory
from soc.prelude.trace_event import CORRECTION, EVENT, Kind
from soc.prelude.trace_points import FIRST_CAUSE
from soc.trace.reader import taken

PATIENCE = 100
"""Cycles for which the end of a wait is waited for."""

CAUSES_OF_STATES = {
    hart_state.SLEEP: COUNT.event,
    hart_state.WFI: COUNT.wfi,
    hart_state.OFF: COUNT.off,
    hart_state.L1_REQUEST: COUNT.l1_contention,
    hart_state.FETCHING: COUNT.fetch,
}
"""Most likely causes of the stalls that are open; in other states it is an access outside of L1."""
ACCESSING = {hart_state.REQUEST, hart_state.ACCESS, hart_state.SLEEP, hart_state.WAIT}
"""States of harts whose `row` is under way."""

Waits = dict[tuple[int, int], tuple[int, np.void]]
"""Waits in the file whose end is not known, by hart and kind: place and event."""


def horizon(chip: Chip, now: int) -> int:
    """The cycle before which no stall can be added any more, but for those that are open."""
    return max(min([now, *(cycle for _, cycle in _not_open(chip))]), now - PATIENCE)


def long_waits(chip: Chip, first: int, now: int) -> np.ndarray:
    """What harts have waited for longer than PATIENCE, as EVENT[n] of 0 cycles.

    first    cycle from which events count; what is before it is left out
    """
    events = []
    for h, cycle in _not_open(chip):
        if not first <= cycle < now - PATIENCE:
            continue
        hart = chip.harts[h]
        state, start = int(hart["state"]), cycle - first
        cause = CAUSES_OF_STATES.get(state, COUNT.load_external)
        pc = pc_of(chip, hart, cause)
        events.append((start, Kind.STALL, h, cause - FIRST_CAUSE, pc, 0))
        if state in ACCESSING and chip.code[int(hart["row"])]["kind"] == ELW:
            events.append((start, Kind.SLEEP, h, is_at_barrier(chip, hart), pc, 0))
    return np.array(events, EVENT)


def _not_open(chip: Chip) -> Iterator[tuple[int, int]]:
    """Harts that are not open, and the cycle from which the next stall of each counts."""
    cycles, is_open = chip.harts["accounted"].tolist(), chip.harts["open"].tolist()
    return ((h, cycle) for h, cycle in enumerate(cycles) if not is_open[h])


def pc_of(chip: Chip, hart: np.void, cause: int) -> int:
    """The instruction that pays for a wait of this cause, or 0."""
    if cause == COUNT.off:
        return 0
    return int(chip.config[0]["code_base"]) + 2 * row_of_memory.function(chip, int(hart["last"]))


def is_at_barrier(chip: Chip, hart: np.void) -> bool:
    """Does a hart that sleeps wait at a barrier of the event unit?"""
    address = int(hart["address"]) - int(chip.config[0]["cluster_base"])
    return address - EVENT_UNIT_PORT & 0x3FC >= BARRIER


def written_waits(events: np.ndarray, place: int) -> Waits:
    """Those of the events, written from a place on, whose end is not known."""
    is_wait = (events["kind"] == Kind.STALL) | (events["kind"] == Kind.SLEEP)
    return {
        (int(events["hart"][k]), int(events["kind"][k])): (place + k, events[k].copy())
        for k in np.flatnonzero(is_wait & (events["b"] == 0)).tolist()
    }


def ended(events: np.ndarray, waits: Waits) -> tuple[np.ndarray, Waits]:
    """The events without corrections; and of the waits, those that these say how they end.

    A correction of what is not in the file stands for itself.
    """
    is_correction = events["kind"] & CORRECTION != 0
    ends: Waits = {}
    for k in np.flatnonzero(is_correction).tolist():
        events["kind"][k] -= CORRECTION
        key = int(events["hart"][k]), int(events["kind"][k])
        if key in waits and key not in ends:
            ends[key] = waits[key][0], events[k].copy()
        else:
            is_correction[k] = False
    return taken(events, ~is_correction), ends
