"""Hostile programs leave the host alone, and the same on every way: see tests.soc.hostile."""

from pathlib import Path

import numpy as np
import pytest

from isa.asm import assemble
from isa.profiles import profile
from soc.chip_state import ARRAYS, OF_THIS_RUN
from soc.run import prepare
from soc.spec import load_chip
from tests.soc.guard_pages import ChildDied, guard_pages, in_child
from tests.soc.hostile import verdict
from tests.soc.hostile_programs import CHIPS, attack

REGULAR, FULL = 24, 2000
"""Seeds 0, 1, ...; 20,000 of them: python -m tests.soc.hostile"""

ONCE_FAILED: tuple[int, ...] = ()
"""Seeds of programs that have shown a mistake."""


def verdicts(seeds: list[int], folder: Path) -> dict[int, str]:
    found = {seed: verdict(seed, folder) for seed in seeds}
    return {seed: text for seed, text in found.items() if text}


def test_hostile_programs_leave_the_same_on_all_ways(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seeds = list(range(FULL if request.config.getoption("--full") else REGULAR))
    assert in_child(verdicts, seeds, tmp_path) == {}


def test_programs_that_have_shown_a_mistake_leave_the_same(tmp_path: Path) -> None:
    assert in_child(verdicts, list(ONCE_FAILED), tmp_path) == {}


def test_seeds_take_turns_on_all_chips_and_make_the_same_program_again() -> None:
    attacks = [attack(seed) for seed in range(8)]
    assert [each.chip for each in attacks] == [*CHIPS, *CHIPS]
    assert attacks == [attack(seed) for seed in range(8)]


def touch(name: str, at_end: bool, offset: int) -> int:
    """A byte of the memory around an array of a chip, from its first or its last byte on."""
    program = assemble("_start: nop\n", profile("ri5cy", "x"))
    with guard_pages(at_end):
        array = getattr(prepare(program, load_chip("pulp"), "compiled").chip, name)
    bytes_ = np.frombuffer(array, np.uint8)
    edge = bytes_.ctypes.data + (bytes_.size - 1 if at_end else 0)
    around = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 1).from_address(edge + offset))
    return int(around[0])


@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in OF_THIS_RUN])
@pytest.mark.parametrize(("at_end", "outside"), [(True, 1), (False, -1)])
def test_a_byte_outside_an_array_cannot_be_touched(name: str, at_end: bool, outside: int) -> None:
    in_child(touch, name, at_end, 0)
    with pytest.raises(ChildDied, match=r"^SIGSEGV$"):
        in_child(touch, name, at_end, outside)
