"""Sums, means and maxima: every axis, split and team; NaN; torch's meaning; refusals."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import check, check_in_registers, check_with_torch
from trainlib.launch import launch, program

WHAT = pytest.mark.parametrize("what", ["sum", "mean", "max"])
SPLITS = pytest.mark.parametrize("split", ["rows", "columns"])
POINTS = (
    {"shape": (1,), "axes": (0,)},
    {"shape": (7,), "axes": (0,), "cores": 3},
    {"shape": (4, 5, 6), "axes": (0, 2), "cores": 4},
    {"shape": (3, 130), "axes": (0,)},
    {"shape": (2, 3, 4, 5), "axes": (3, 1), "cores": 2},
    {"shape": (19, 3), "axes": (1,), "cores": 1},
)


@pytest.mark.parametrize("point", POINTS, ids=str)
@SPLITS
@WHAT
def test_every_axis_and_split_is_right(what, split, point):
    check("reduce_f32", point | {"what": what, "split": split})


@SPLITS
@WHAT
def test_nan_and_infinity_are_torchs(what, split):
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, 3], [-nan, inf, 2], [inf, -inf, 0], [-inf, -inf, -inf]], np.float32)
    point = {"shape": (4, 3), "axes": (1,), "what": what, "split": split}
    check("reduce_f32", point, {"x": x})
    check_with_torch("reduce_f32", point, golden(what, (1,)), {"x": x})


@WHAT
def test_addresses_may_be_in_registers(what):
    check_in_registers("reduce_f32", POINTS[2] | {"what": what})


@pytest.mark.parametrize("point", POINTS[2:5], ids=str)
@WHAT
def test_the_reference_is_torchs(what, point):
    check_with_torch("reduce_f32", point | {"what": what}, golden(what, point["axes"]))


def golden(what, axes):
    def function(torch, x):
        return {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[what](x, axes)

    return function


@pytest.mark.parametrize("axes", [(0, 0), (2,)])
def test_axes_that_are_none_are_refused(axes):
    message = f"reduce: axes {axes} are not different ones of 2 dimensions"
    with pytest.raises(KernelError) as caught:
        program("reduce_f32", {"shape": (2, 3), "axes": axes})
    assert str(caught.value) == message


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("shape", [(12, 1000), (4000, 2)], ids=str)
def test_a_mean_of_many_equal_elements_is_right(shape, cores):
    """They are rounded alike: parts of 500 have 60 times the error of one rounding."""
    axis = int(np.argmax(shape))
    point = {"shape": shape, "axes": (axis,), "what": "mean", "cores": cores}
    found, _ = launch("reduce_f32", point, inputs={"x": np.full(shape, 0.1, np.float32)})
    assert np.abs(found["y"] / np.float64(np.float32(0.1)) - 1).max() < 10 * 2.0**-24
