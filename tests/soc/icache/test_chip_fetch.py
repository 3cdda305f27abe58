"""Harts behind the instruction cache: loops and whole programs as the RTL ran them."""

import pytest

from pulpsim.fidelity.comparison import Measurement
from pulpsim.fidelity.icache import measurements

MEASURED = list(measurements())
SHORT = 3000
"""Cycles up to which the event engine runs a program regularly."""


def test_42_loops_and_8_products_were_measured() -> None:
    assert len(MEASURED) == 42 + 8


@pytest.mark.parametrize("measurement", MEASURED, ids=lambda measurement: measurement.title)
def test_a_program_takes_the_cycles_of_the_rtl_on_every_core(measurement: Measurement) -> None:
    assert measurement.repeat("compiled").differences == []


def test_the_event_engine_takes_them_in_every_iteration(request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    chosen = [measurement for measurement in MEASURED if is_full or measurement.cycles < SHORT]
    assert len(chosen) > 12
    for measurement in chosen:
        assert measurement.repeat("event").differences == [], measurement.title
