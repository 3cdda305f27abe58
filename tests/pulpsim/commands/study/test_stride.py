"""The study of strides: conflicts that can be worked out by hand, and the closed form."""

import pytest

from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.stride_model import Conflicts, conflicts
from pulpsim.commands.study.stride_program import READ, StrideProgram
from soc.chip.spec import load_chip
from soc.run import run_program

PULP = load_chip("pulp")


def measured(cores: int, banks: int, stride: int, offset: int, reads: int = 64) -> list[dict]:
    """The region of each core: they begin together, and each does all its reads."""
    chip = chip_with(PULP, {"cores": cores, "l1.banks": banks})
    program = StrideProgram(chip, cores, stride, offset, reads)()
    harts = program.result(run_program(program, chip))["harts"]
    found = [region for hart in harts for region in hart["regions"] if region["name"] == READ]
    assert len(found) == cores
    assert {region["l1_accesses"] for region in found} == {reads}
    assert len({region["first_start"] for region in found}) == 1
    assert {region["instructions"] for region in found} == {reads + 3}
    assert all(set(region["stalls"]) <= {"l1_contention"} for region in found)
    return found


def waits(cores: int, banks: int, stride: int, offset: int, reads: int = 64) -> list[int]:
    """Lost arbitrations of each core."""
    found = measured(cores, banks, stride, offset, reads)
    assert [r["cycles"] - r["instructions"] for r in found] == [
        r["stalls"].get("l1_contention", 0) for r in found
    ]
    return [region["stalls"].get("l1_contention", 0) for region in found]


@pytest.mark.parametrize("cores", [2, 3, 8, 16])
def test_all_cores_on_one_bank_wait_for_all_others_at_each_read_but_their_first(cores: int) -> None:
    reads = 64
    expected = [(reads - 1) * (cores - 1) + place for place in range(cores)]
    assert sorted(waits(cores, 16, 16, 0, reads)) == expected
    assert conflicts(cores, 16, 16, 0, reads) == Conflicts(sum(expected), True)


def test_rows_that_are_padded_by_one_word_have_no_conflicts() -> None:
    assert waits(8, 16, 16, 1) == [0] * 8
    assert conflicts(8, 16, 16, 1, 64) == Conflicts(0, True)


def test_cores_that_walk_together_from_one_bank_wait_once_and_are_apart_from_then_on() -> None:
    assert sorted(waits(8, 16, 1, 0)) == list(range(8))
    assert sorted(waits(8, 16, 17, 0)) == list(range(8))
    assert conflicts(8, 16, 1, 0, 64) == conflicts(8, 16, 17, 0, 64) == Conflicts(28, True)


def test_a_stride_of_half_the_banks_leaves_two_banks_of_which_one_is_always_busy() -> None:
    # Eight cores, 64 reads: 32 visits to the first bank, eight cycles apart; then one cycle more.
    expected = [8 * 31 + place + 2 - 64 for place in range(8)]
    assert sorted(waits(8, 16, 8, 0)) == expected
    assert conflicts(8, 16, 8, 0, 64) == Conflicts(sum(expected), True)


def test_cores_whose_banks_differ_do_not_meet_and_are_added_up() -> None:
    # Offsets 0 and 8, stride 16: four cores on bank 0, four on bank 8.
    assert conflicts(8, 16, 16, 8, 64) == Conflicts(2 * conflicts(4, 16, 16, 0, 64).count, True)


@pytest.mark.parametrize(
    ("cores", "offset", "steps"),
    [
        (4, 0, 0 + 1 + 2 + 3),
        (4, 8, 2 * (0 + 1)),  # two begin in bank 0, two in bank 8
        (6, 4, 1 + 1),  # four places, the first two of them taken twice
        (16, 0, 120),
    ],
)
def test_steps_back_do_not_depend_on_who_wins(cores: int, offset: int, steps: int) -> None:
    assert conflicts(cores, 16, 1, offset, 64) == Conflicts(steps, True)
    assert sum(waits(cores, 16, 1, offset)) == steps


def test_where_the_order_of_winners_matters_it_is_an_estimate() -> None:
    # Six cores begin at four places of a ring of four banks: four are served, two are refused.
    assert conflicts(6, 16, 4, 4, 64) == Conflicts(64 * 6 * (6 - 4) // 4, False)


def test_a_core_that_ends_before_the_others_are_apart_makes_it_an_estimate() -> None:
    assert conflicts(8, 16, 1, 0, 15) == Conflicts(28, False)
    assert conflicts(8, 16, 1, 0, 16) == Conflicts(28, True)


def test_the_closed_form_is_what_is_measured_wherever_it_is_exact(
    request: pytest.FixtureRequest,
) -> None:
    is_full = request.config.getoption("--full")
    points = [
        (cores, banks, stride, offset)
        for cores in ((1, 2, 3, 5, 7, 8, 11, 16) if is_full else (3, 16))
        for banks in ((1, 2, 4, 16, 32, 64) if is_full else (4, 16))
        for stride in ((*range(18), 24, 31, 32, 64) if is_full else (0, 2, 3, 8))
        for offset in ((*range(6), 8, 16) if is_full else (0, 1, 8))
    ]
    exact = 0
    for point in points:
        expected = conflicts(*point, 64)
        if expected.is_exact:
            assert (sum(waits(*point)), point) == (expected.count, point)
            exact += 1
        else:
            assert sum(waits(*point)) == pytest.approx(expected.count, rel=0.1)
    assert exact > 0.8 * len(points)
