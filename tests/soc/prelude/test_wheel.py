"""The timing wheel: when harts are due."""

from types import SimpleNamespace

import numpy as np

from soc.prelude.bits import bit, set_of
from soc.prelude.records import HART
from soc.prelude.wheel import NEVER, PORTS, SLOTS, WHEEL, enter_wheel, schedule, wake_ports


def wheel_at(cycle: int) -> np.ndarray:
    wheel = np.zeros(1, WHEEL)
    wheel["now"], wheel["ports"] = cycle, NEVER
    return wheel


def due(wheel: np.ndarray) -> dict[int, int]:
    """Harts by their slots."""
    return {slot: int(harts) for slot, harts in enumerate(wheel[0]["slots"]) if harts}


def test_harts_of_one_cycle_share_a_slot() -> None:
    wheel = wheel_at(1000)
    enter_wheel(wheel[0], bit(2), 1003)
    enter_wheel(wheel[0], bit(7), 1003)
    enter_wheel(wheel[0], bit(1), 1000)
    assert due(wheel) == {1003 % SLOTS: set_of([2, 7]), 1000 % SLOTS: set_of([1])}
    assert wheel[0]["due"] == set_of([1, 2, 7])


def test_a_cycle_beyond_the_wheel_comes_to_its_last_slot() -> None:
    wheel = wheel_at(1000)
    enter_wheel(wheel[0], bit(3), 1000 + 5 * SLOTS)
    assert due(wheel) == {(1000 + SLOTS - 1) % SLOTS: set_of([3])}


def test_a_hart_that_is_scheduled_keeps_its_cycle() -> None:
    chip = SimpleNamespace(harts=np.zeros(4, HART), wheel=wheel_at(10))
    schedule.function(chip, 3, 10 + 2 * SLOTS)
    assert chip.harts["when"].tolist() == [0, 0, 0, 10 + 2 * SLOTS]
    assert due(chip.wheel) == {(10 + SLOTS - 1) % SLOTS: set_of([3])}


def test_masters_of_ports_wake_in_the_earliest_cycle_they_ask_for() -> None:
    wheel = wheel_at(0)
    for cycle in (9, 12, 5):
        wake_ports(wheel[0], cycle)
    assert wheel[0]["ports"] == 5
    assert due(wheel) == {5: set_of([PORTS]), 9: set_of([PORTS])}
