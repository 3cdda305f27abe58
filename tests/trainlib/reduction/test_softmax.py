"""Softmax: every shape, axis, split and team; special values; torch's meaning."""

import re

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import check, check_in_registers, check_with_torch
from trainlib.launch import program

BOTH = pytest.mark.parametrize("name", ["softmax_fw_f32", "softmax_bw_f32"])
POINTS = (
    {"shape": (1,)},
    {"shape": (5, 7), "cores": 3},
    {"shape": (1, 257)},
    {"shape": (33, 10)},
    {"shape": (3, 5, 7), "axis": 1, "split": "columns"},
    {"shape": (3, 5, 7), "axis": 0, "split": "rows", "cores": 4},
    {"shape": (2, 3, 600), "axis": -2, "split": "rows", "cores": 2},
    {"shape": (4, 9), "split": "columns", "cores": 8},
    {"shape": (17, 3), "cores": 1},
)


@pytest.mark.parametrize("point", POINTS, ids=str)
@BOTH
def test_every_shape_and_split_is_right(name, point):
    check(name, point)


@pytest.mark.parametrize("split", ["rows", "columns"])
def test_special_rows_are_torchs(split):
    inf, nan = np.inf, np.nan
    x = np.array(
        [
            *([1000.0, 1000.0, -1000.0], [-inf, 0.0, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0]),
            *([nan, 0.0, 1.0], [-nan, 0.0, inf], [0.0, -3e38, 3e38], [88.0, 0.0, -1e-30]),
        ],
        np.float32,
    )
    point = {"shape": x.shape, "split": split}
    check("softmax_fw_f32", point, {"x": x})
    check_with_torch("softmax_fw_f32", point, lambda torch, x: torch.softmax(x, -1), {"x": x})


@pytest.mark.parametrize("split", ["rows", "columns"])
@BOTH
def test_addresses_may_be_in_registers(name, split):
    check_in_registers(name, {"shape": (9, 13), "cores": 4, "split": split})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_references_are_torchs(axis):
    def backward(torch, y, dy):
        return torch.ops.aten._softmax_backward_data(dy, y, axis, torch.float64)

    point = {"shape": (4, 5, 6), "axis": axis}
    check_with_torch("softmax_fw_f32", point, lambda torch, x: torch.softmax(x, axis))
    check_with_torch("softmax_bw_f32", point, backward)


def test_an_axis_that_is_none_is_refused():
    with pytest.raises(KernelError, match=r"^softmax: axis 2; the shape has 2 dimensions$"):
        program("softmax_fw_f32", {"shape": (2, 3), "axis": 2})
    message = re.escape("softmax: axis -3; the shape has 2 dimensions")
    with pytest.raises(KernelError, match=f"^{message}$"):
        program("softmax_bw_f32", {"shape": (2, 3), "axis": -3})
