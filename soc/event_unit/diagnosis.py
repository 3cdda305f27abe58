"""What the cores asleep at the event unit wait for, in words: the text of a deadlock."""

from collections.abc import Sequence

import numpy as np

from soc.address_map.events import CLUSTER_EVENTS
from soc.event_unit import offsets as at
from soc.event_unit.state import NONE

MOST_NAMES = 3
"""Of cores that a barrier waits for; of more, how many they are."""


def waits(eu: np.void, names: Sequence[str]) -> list[str]:
    """One sentence for each core whose load waits, with the reason if nothing can end it.

    eu       record of EU_STATE
    names    of the cores, such as "hart 3"
    """
    cores = [core for core in range(int(eu["cores"])) if int(eu["waiting"]) >> core & 1]
    return [f"{names[core]} waits {awaited(eu, core, names)}" for core in cores]


def event_names(mask: int) -> str:
    """The event lines of a mask by name: "software 0, barrier"."""
    return ", ".join(
        f"{event.name} {index}" if event.count > 1 else event.name
        for event in CLUSTER_EVENTS
        for index in range(event.count)
        if mask >> event.line + index & 1
    )


def awaited(eu: np.void, core: int, names: Sequence[str]) -> str:
    """What the load of one of these cores waits for: "at barrier 0 for core3"."""
    offset = int(eu["offset"][core])
    if offset >= at.BARRIER:
        return _barrier(eu, core, (offset - at.BARRIER) >> 5, names)
    if at.MUTEX <= offset < at.SW_EVENT:
        return _mutex(eu, core, (offset - at.MUTEX) >> 2, names)
    if offset == at.DISPATCH:
        return f"for a value in the dispatch FIFO{_unheard(eu, core, at.DISPATCH_EVENT)}"
    mask = int(eu["mask"][core])
    if mask == 0:
        return "for an event, but its event mask is 0: nothing wakes it"
    return f"for an event of its mask {mask:#010x} ({event_names(mask)})"


def _barrier(eu: np.void, core: int, barrier: int, names: Sequence[str]) -> str:
    status, mask = int(eu["status"][barrier]), int(eu["trigger_mask"][barrier])
    width = int(eu["cores"]) + 2
    text = f"at barrier {barrier} (arrived {status:#0{width}b} of {mask:#0{width}b})"
    strangers = [names[i] for i in range(width - 2) if (status & ~mask) >> i & 1]
    if mask == 0:
        return f"{text}: its trigger mask is 0, so it is never complete"
    if strangers:
        return f"{text}: {', '.join(strangers)} not in the trigger mask, so it is never complete"
    target = int(eu["target_mask"][barrier])
    if not target >> core & 1:
        return f"{text}: its target mask {target:#0{width}b} leaves this core out"
    missing = [names[i] for i in range(width - 2) if (mask & ~status) >> i & 1]
    whom = ", ".join(missing) if len(missing) <= MOST_NAMES else f"{len(missing)} more cores"
    return f"at barrier {barrier} for {whom}{_unheard(eu, core, at.BARRIER_EVENT)}"


def _mutex(eu: np.void, core: int, mutex: int, names: Sequence[str]) -> str:
    owner = int(eu["owner"][mutex])
    holder = "free" if owner == NONE else f"held by {names[owner]}"
    return f"for mutex {mutex}, {holder}{_unheard(eu, core, at.MUTEX_EVENT)}"


def _unheard(eu: np.void, core: int, event: int) -> str:
    mask = int(eu["mask"][core])
    if mask & event:
        return ""
    line = event.bit_length() - 1
    return f": its event mask {mask:#010x} lacks bit {line} ({event_names(event)}), so it sleeps on"
