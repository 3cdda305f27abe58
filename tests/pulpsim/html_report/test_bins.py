import numpy as np
import pytest

from pulpsim.html_report.bins import Bins


def test_bins_are_the_narrowest_of_which_there_are_few_enough() -> None:
    assert Bins.of(0, 1000, most=600) == Bins(0, 1000, 2)
    assert Bins.of(0, 1000, most=600).count == 500
    assert Bins.of(7, 3, most=600) == Bins(7, 3, 1)
    assert Bins.of(0, 1001, most=10).widths.tolist() == [101] * 9 + [92]


def test_a_trace_without_cycles_has_one_empty_bin() -> None:
    assert Bins.of(0, 0).count == 1


@pytest.mark.parametrize("seed", range(20))
def test_spans_and_points_add_up_to_what_counting_cycle_by_cycle_gives(seed: int) -> None:
    random = np.random.default_rng(seed)
    cycles = int(random.integers(1, 200))
    bins = Bins.of(0, cycles, most=int(random.integers(1, 20)))
    starts = random.integers(0, cycles, 30)
    lengths, groups = random.integers(0, 60, 30), random.integers(0, 3, 30)
    by_cycle = np.zeros((3, cycles), int)
    points = np.zeros((3, cycles), int)
    for start, length, group in zip(starts, lengths, groups, strict=True):
        by_cycle[group, start : start + length] += 1
        points[group, start] += 1
    edges = np.arange(bins.count) * bins.width
    np.testing.assert_array_equal(
        bins.spans(starts, lengths, groups, 3), np.add.reduceat(by_cycle, edges, axis=1)
    )
    np.testing.assert_array_equal(
        bins.points(starts, groups, 3), np.add.reduceat(points, edges, axis=1)
    )


def test_sums_stay_exact_over_the_longest_trace() -> None:
    bins = Bins.of(0, (1 << 32) - 1, most=600)
    starts = np.full(1000, 1, np.uint32)
    covered = bins.spans(starts, np.full(1000, (1 << 32) - 2, np.uint32))
    assert covered.sum() == 1000 * ((1 << 32) - 2)


def test_what_lies_after_the_last_cycle_does_not_count() -> None:
    bins = Bins.of(0, 10, most=5)
    assert bins.spans(np.array([8, 12]), np.array([5, 3])).tolist() == [[0, 0, 0, 0, 2]]
