"""Barriers as a debugger sees them between two cycles."""

from soc.chip.state import Chip
from soc.prelude.counters import COUNT


def barrier_activity(chip: Chip) -> bytes:
    """Something that changes in every time in which a barrier is completed."""
    waits = chip.harts["counts"][:, COUNT.event].tobytes()
    return waits + chip.event_unit.tobytes() + chip.control["waiting"].tobytes()


def harts_at_barrier_of_bench(chip: Chip) -> int:
    """Who waits at the barrier that the control page of the RTL's benches has, a bit each."""
    return int(chip.control[0]["waiting"])


def is_barrier_complete(chip: Chip, waited: int) -> bool:
    """Has a barrier been completed in the cycle before this one?

    waited    who waited at the bench's barrier before that cycle
    """
    is_released = waited != 0 and harts_at_barrier_of_bench(chip) == 0
    return is_released or bool(chip.event_unit[0]["matched"].any())
