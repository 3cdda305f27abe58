"""Hostile programs leave the host alone, and the same on every way: see tests.soc.hostile."""

import ctypes
from pathlib import Path

import pytest

from soc.chip.spec import load_chip
from soc.chip.state import ARRAYS
from soc.reset import new_chip
from tests.soc.guard_pages import ChildDied, guarded_chip, in_child
from tests.soc.hostile import verdict
from tests.soc.hostile_programs import CHIPS, attack

FAILED = (576, 1091, 4615, 9140, 11299, 12878, 15811)
"""Seeds that once did not."""

REGULAR, FULL = 4, 2000
"""Seeds 0, 1, ...; 20,000 of them: python -m tests.soc.hostile"""


def verdicts(seeds: list[int], folder: Path) -> dict[int, str]:
    found = {seed: verdict(seed, folder) for seed in seeds}
    return {seed: text for seed, text in found.items() if text}


def test_hostile_programs_leave_the_same_on_all_ways(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_full = request.config.getoption("--full")
    seeds = range(FULL if is_full else REGULAR)
    chosen = [seed for seed in seeds if is_full or not attack(seed).records]  # one interpreter less
    chosen += [seed for seed in FAILED if seed not in chosen]
    assert in_child(verdicts, chosen, tmp_path) == {}


def test_seeds_take_turns_on_all_chips_and_make_the_same_program_again() -> None:
    attacks = [attack(seed) for seed in range(8)]
    assert [each.chip for each in attacks] == [*CHIPS, *CHIPS]
    assert attacks == [attack(seed) for seed in range(8)]


def touch(names: tuple[str, ...], at_end: bool, offset: int) -> int:
    """The sum of bytes at arrays of a chip, this far from the first or the last byte of each."""
    chip = new_chip(load_chip("pulp"), "x", is_checked=True)  # else some arrays have no byte
    guarded = guarded_chip(chip, at_end)
    arrays = [getattr(guarded, name) for name in names]
    edges = (array.ctypes.data + (array.nbytes - 1 if at_end else 0) for array in arrays)
    return sum(ctypes.c_uint8.from_address(edge + offset).value for edge in edges)


@pytest.mark.parametrize("at_end", [True, False])
def test_the_bytes_at_the_edges_of_arrays_can_be_touched(at_end: bool) -> None:
    in_child(touch, ARRAYS, at_end, 0)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(("at_end", "outside"), [(True, 1), (False, -1)])
def test_a_byte_outside_an_array_cannot_be_touched(name: str, at_end: bool, outside: int) -> None:
    with pytest.raises(ChildDied, match=r"^SIGSEGV$"):
        in_child(touch, (name,), at_end, outside)
