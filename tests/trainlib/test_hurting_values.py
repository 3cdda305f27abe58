"""Every kernel of single precision on shapes and values that hurt: see tests.trainlib.hurting."""

import numpy as np
import pytest

from tests.trainlib.hurting import KINDS, NAMES, draws, wrong
from trainlib.reference.error_analysis import Near
from trainlib.reference.tolerances import OVERFLOW, summed

pytest.importorskip("torch")


@pytest.mark.parametrize("kernel", NAMES)
def test_what_is_drawn_is_right_by_the_check_and_beside_pytorch(kernel, request):
    """One draw, of kernels in turn one of each kind; with --full six of each."""
    if request.config.getoption("--full"):
        some = [draw for kind in KINDS for draw in draws([kernel], 6, 11, [kind])]
    else:
        some = list(draws([kernel], 1, 11, [list(KINDS)[NAMES.index(kernel) % len(KINDS)]]))
    assert some
    for draw in some:
        assert wrong(draw) == [], draw


def test_sums_that_may_overflow_on_the_way_have_no_bound():
    exact, bound = summed(np.array([1.0, 2e38, 4e38]), 2, np.array([3.0, OVERFLOW, 5e38]))
    assert exact.tolist() == [1.0, 2e38, np.inf]
    assert bound[0] < 1e-6
    assert bound[1:].tolist() == [np.inf, np.inf]


def test_what_is_made_of_a_number_that_overflows_has_no_bound():
    with np.errstate(invalid="ignore"):
        huge = Near.of(np.array([[1e39, 1.0]])).matmul(Near.of(np.array([[0.0], [1.0]])))
    assert huge.error == np.inf
    assert huge.softmax().error == np.inf
