"""Machine code of units, called from Python."""

import subprocess
import sys

import numpy as np
import pytest

from soc.aot import units
from soc.aot.unit import Unit
from soc.core.csr import csr_exists
from soc.event_unit.state import EventUnitSpec, event_unit_state
from soc.prelude.records import HART


@pytest.mark.parametrize("is_ri5cy", [0, 1])
def test_machine_code_does_what_the_step_function_does_in_python(is_ri5cy):
    hart = np.zeros(1, HART)[0]
    hart["ri5cy"] = is_ri5cy
    for number in range(4096):
        assert units.csr_exists(hart, number) == csr_exists.function(hart, number)


def test_machine_code_works_on_the_record_itself():
    eu = event_unit_state(EventUnitSpec(), cores=8)
    assert units.eu_push_soc_event(eu[0], 42, 100)
    assert eu["soc_arriving"] == 42
    assert not units.eu_push_soc_event(eu[0], 43, 100)
    assert eu["soc_arriving"] == 42


def test_a_record_of_another_part_is_refused():
    other = np.zeros(1, [("a", "i8"), ("b", "i8")])
    message = r"^a record of \('a', 'b'\) is no record of \('cores', 'barriers', .*\)$"
    with pytest.raises(TypeError, match=message):
        units.eu_push_soc_event(other[0], 42, 100)


def test_a_unit_calls_only_the_units_that_it_uses(monkeypatch):
    from soc.aot import numba_steps

    monkeypatch.setattr(numba_steps, "building", Unit("timer", uses=(units.DMA,)))
    numba_steps._typeof_link(units.ask, None)
    message = (
        "^unit timer calls eu_clock of unit event_unit, which is not one of those that it uses; "
        "name it where the unit is declared$"
    )
    with pytest.raises(TypeError, match=message):
        numba_steps._typeof_link(units.eu_clock, None)


def test_a_simulation_needs_no_compiler_once_it_is_compiled():
    script = (
        "import sys; from soc.aot import units; import numpy as np; "
        "from soc.prelude.records import HART; "
        "import soc.simulation; units.csr_exists(np.zeros(1, HART)[0], 1); "
        "print('numba' in sys.modules)"
    )
    units.csr_exists(np.zeros(1, HART)[0], 1)  # compiles it
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
