"""Sums that start with a bias and with what is there: Y += A B + bias; the same in torch."""

import pytest

from soc.chip.spec import load_chip
from tests.trainlib.primitives import check, check_with_torch
from trainlib.launch import launch

BOTH = {"bias": True, "accumulate": True}
IMAGE = {"height": 9, "width": 7, "inputs": 6, "outputs": 4} | BOTH
SLIDES = IMAGE | {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0, 0, 1), "batch": 2}
MATRIX = {"n": 13, "k": 9, "m": 11, "accumulate": True}
LAYOUTS = ("chw", "hwc")
POINTS = (
    *(("matmul_f32", MATRIX | {"bias": side}) for side in ("row", "column")),
    ("matmul_f32", MATRIX | {"bias": "row", "trans_a": True, "trans_b": True, "cores": 3}),
    ("matmul_f32", MATRIX | {"bias": "column", "k": 1}),
    ("matmul_f32", MATRIX | {"bias": "column", "tile": {"n": 5, "m": 4, "k": 3}}),
    ("linear_fw_f32", {"inputs": 19, "outputs": 9, "batch": 5} | BOTH),
    ("linear_fw_f32", {"inputs": 300, "outputs": 7, "tile": {"ci": 60}} | BOTH),
    *(("pwconv2d_fw_f32", IMAGE | {"layout": layout, "batch": 2}) for layout in LAYOUTS),
    *(("conv2d_fw_f32", SLIDES | {"layout": layout}) for layout in LAYOUTS),
    *(
        ("conv2d_fw_f32", SLIDES | {"layout": layout, "method": method})
        for method in ("columns", "columns_by_dma")
        for layout in LAYOUTS
    ),
    ("conv2d_fw_f32", SLIDES | {"groups": 2, "tile": {"g": 1, "y": 2}}),
    ("conv2d_fw_f32", SLIDES | {"tile": {"ci": 2, "co": 3, "x": 4}}),
    ("dwconv2d_fw_f32", {"height": 12, "width": 9, "inputs": 24, "kernel": (3, 3)} | BOTH),
    *(("tconv2d_fw_f32", SLIDES | {"layout": layout}) for layout in LAYOUTS),
    ("tconv2d_fw_f32", SLIDES | {"tile": {"ci": 2, "co": 3}}),
)


@pytest.mark.parametrize(("kernel", "point"), POINTS, ids=str)
@pytest.mark.sampled(2)
def test_a_bias_is_added_to_what_is_there(kernel, point):
    check(kernel, point)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_depthwise_tiles_get_their_bias_once(layout):
    point = {"height": 24, "width": 20, "inputs": 64, "kernel": (3, 3), "layout": layout} | BOTH
    _, report = launch("dwconv2d_fw_f32", point, load_chip("pulp", {"l1.size": 0x8000}), guard=64)
    assert report.is_correct
    assert report.stray_writes == []
    assert report.regions["compute"].count == 1


def test_the_sums_are_torchs():
    def product(torch, A, B, C, bias):
        return C.add_(A @ B + bias)

    def layer(torch, X, W, Y, bias):
        return Y.add_(torch.nn.functional.linear(X, W, bias))

    def convolution(torch, X, W, Y, bias):
        padded = torch.nn.functional.pad(X, (0, 1, 1, 0))
        return Y.add_(torch.nn.functional.conv2d(padded, W, bias, (2, 1)))

    def transposed(torch, X, W, Y, bias):
        whole = torch.nn.functional.conv_transpose2d(X, W, bias, (2, 1))
        return Y.add_(whole[:, :, 1:, :-1])

    goldens = {"matmul_f32": product, "linear_fw_f32": layer}
    goldens |= {"conv2d_fw_f32": convolution, "tconv2d_fw_f32": transposed}
    for kernel, golden in goldens.items():
        point = next(p for name, p in POINTS[1:] if name == kernel)
        check_with_torch(kernel, point, golden)
