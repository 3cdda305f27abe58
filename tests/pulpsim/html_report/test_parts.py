import numpy as np
import pytest

from pulpsim.html_report.stall_groups import MEANINGS, PARTS, hundredths, parts_of
from soc.prelude.counters import CAUSES


def test_every_cause_of_stalls_belongs_to_one_part_and_has_a_meaning() -> None:
    assert sorted(cause for part in PARTS for cause in part.causes) == sorted(CAUSES)
    assert sorted(MEANINGS) == sorted(CAUSES)


def test_parts_add_up_to_instructions_and_stalls() -> None:
    parts = parts_of(10, {"event": 5, "fetch": 3, "load_use": 2, "fpu_dependency": 1}, 4)
    by_key = {part.key: cycles for part, cycles in zip(PARTS, parts, strict=True) if cycles}
    assert by_key == {"work": 10, "fetch": 3, "wait": 3, "barrier": 4, "asleep": 1}


@pytest.mark.parametrize("seed", range(50))
def test_shown_percentages_add_up_to_100_exactly_and_are_off_by_less_than_a_hundredth(
    seed: int,
) -> None:
    cycles = np.random.default_rng(seed).integers(0, 10 ** (seed % 9 + 1), 11).tolist()
    shares = hundredths(cycles)
    assert sum(shares) == (10_000 if sum(cycles) else 0)
    for share, number in zip(shares, cycles, strict=True):
        assert abs(share - 10_000 * number / max(1, sum(cycles))) < 1


def test_a_hart_without_cycles_has_no_percentages() -> None:
    assert hundredths([0, 0]) == [0, 0]
