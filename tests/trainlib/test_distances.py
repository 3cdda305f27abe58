"""The report of how far halves are from float64 has all kernels, and numbers that are known."""

import pytest

from tests.trainlib.distances import EVERY, distances, rows
from trainlib.primitive.element import element_of
from trainlib.registry import KERNELS

FEW = ("add_bf16", "exp_f16", "maxpool2d_fw_bf16", "linear_wg_f16", "cast_f32_bf16")
SUMS = ("conv2d", "dwconv2d", "tconv2d", "pwconv2d", "linear", "matmul")
"""Those of kernels whose terms are added up in halves are rounded at each."""


def test_every_kernel_that_ends_in_a_type_of_halves_is_reported():
    assert set(EVERY) == {name for name in KERNELS if element_of(name).is_half}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kernel", EVERY)
def test_results_are_within_a_rounding_and_sums_within_eight(kernel):
    most = 8 if kernel.startswith(SUMS) else 2
    found = list(distances(kernel))
    assert found
    assert all(each.mean <= each.largest <= most for each in found)


def test_what_is_rounded_once_is_off_by_a_unit_at_most():
    found = [each for kernel in FEW for each in distances(kernel)]
    of = {each.kernel: each for each in found}
    assert of["maxpool2d_fw_bf16"].largest == 0
    assert all(0 < of[name].largest <= 1 for name in ("add_bf16", "exp_f16", "cast_f32_bf16"))


def test_a_row_has_the_numbers_of_a_result():
    head, row = rows(["add_f16"])
    assert head.split() == ["kernel", "result", "elements", "largest", "mean"]
    assert row.split()[:2] == ["add_f16", "y"]
