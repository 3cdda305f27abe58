"""Convolutions of FP16 and bfloat16: bit for bit the reference's, at every shape and tile."""

from itertools import product

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.conv.test_conv2d import DEPTHWISE, SHAPES, SQUARE, TRANSPOSED, cases
from tests.trainlib.gemm.test_halves import check
from tests.trainlib.primitives import WARM
from trainlib.launch import launch, program
from trainlib.primitive.element import HALVES

ALL = [
    *((kernel, SHAPES[shape]) for kernel, shape in cases("conv2d", SHAPES)),
    *((kernel, DEPTHWISE[shape]) for kernel, shape in cases("dwconv2d", DEPTHWISE)),
    *((kernel, TRANSPOSED[shape]) for kernel, shape in cases("tconv2d", TRANSPOSED)),
]
STARTS = ({}, {"bias": True}, {"accumulate": True}, {"bias": True, "accumulate": True})


def halves(kernel: str, element) -> str:
    return f"{kernel.removesuffix('f32')}{element.name}"


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize(("kernel", "shape"), ALL, ids=str)
@pytest.mark.sampled(8)
def test_a_convolution_is_the_references(kernel, shape, element):
    check(halves(kernel, element), shape)
    check(halves(kernel, element), shape | {"layout": "hwc"})


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
@pytest.mark.sampled(6)
def test_what_sums_start_with_is_the_first_of_them(step, start, element):
    if step == "ig" and "bias" in start or step == "fw" and len(start) > 1:
        return
    for kind, shapes in (("conv2d", SHAPES["odd"]), ("dwconv2d", DEPTHWISE["odd"])):
        check(f"{kind}_{step}_{element.name}", shapes | start)
    check(f"tconv2d_{step}_{element.name}", TRANSPOSED["stride 1"] | start)


TILED = (
    SQUARE | {"padding": 1, "batch": 2, "tile": {"y": 3, "n": 1}},
    SQUARE | {"height": 9, "width": 7, "padding": 1, "tile": {"y": 2, "co": 2}, "accumulate": True},
    SQUARE | {"inputs": 4, "outputs": 6, "groups": 2, "tile": {"g": 1, "y": 4}},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", TILED, ids=lambda shape: str(shape["tile"]))
@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
@pytest.mark.sampled(6)
def test_tiles_change_no_bit(step, shape, element):
    tile = {n: size for n, size in shape["tile"].items() if (step, n) != ("ig", "co")}
    check(f"conv2d_{step}_{element.name}", shape | {"tile": tile})


@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
def test_every_block_of_sums_is_the_references(step):
    shape = {"inputs": 5, "outputs": 6, "height": 5, "width": 11, "kernel": 3, "padding": 1}
    for rows, cols in ((1, 2), (3, 4), (2, 12), (5, 6)):
        check(f"conv2d_{step}_bf16", shape | {"rows": rows, "cols": cols})


APART = (
    {"stride": 2, "padding": 1},
    {"stride": 2, "padding": 1, "width": 8, "rows": 2, "cols": 8},
    {"stride": 2, "kernel": 1, "width": 9},
    {"stride": (1, 3), "padding": (0, 0, 2, 0), "width": 14},
    {"stride": 2, "dilation": 2, "padding": 2, "width": 13, "batch": 2},
    {"stride": (2, 4), "width": 3, "tile": {"y": 3}},
    {"stride": 2, "padding": 1, "accumulate": True},
    {"stride": (2, 3), "kernel": (3, 2), "width": 14, "accumulate": True},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", APART, ids=str)
@pytest.mark.sampled(4)
def test_outputs_that_are_a_stride_apart_are_the_references(shape, element):
    whole = {"inputs": 5, "outputs": 6, "height": 5, "width": 11, "kernel": 3} | shape
    check(f"conv2d_ig_{element.name}", whole)
    if "tile" not in shape:
        check(f"tconv2d_fw_{element.name}", whole | {"height": 3, "width": 4, "cols": None})


ROW_PAIRS = (
    {"padding": 1},
    {"padding": (0, 1, 2, 0), "width": 3, "batch": 2},
    {"stride": 2, "padding": 1, "kernel": (4, 2)},
    {"stride": (1, 3), "dilation": 2, "padding": 2, "width": 14},
    {"padding": 1, "rows": 4, "cols": 5, "split": (2, 3)},
    {"padding": 1, "outputs": 14, "inputs": 10, "tile": {"y": 2, "co": 4}},
    {"padding": 1, "tile": {"y": 4, "co": 3}},
    {"kernel": (1, 5), "padding": (0, 0, 2, 2)},
    {"padding": 1, "accumulate": True},
    {"stride": 2, "padding": 1, "accumulate": True, "batch": 2},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", ROW_PAIRS, ids=str)
@pytest.mark.sampled(5)
def test_two_rows_at_once_are_the_references(shape, element):
    whole = {"inputs": 4, "outputs": 6, "height": 5, "width": 11, "kernel": 3} | shape
    check(f"conv2d_fw_{element.name}", whole | {"bias": "accumulate" not in shape})
    turned = {"co": "ci"}
    tile = {turned.get(name, name): size for name, size in whole.get("tile", {}).items()}
    check(f"conv2d_ig_{element.name}", whole | {"tile": tile or None})
    check(f"tconv2d_fw_{element.name}", whole | {"tile": None, "split": None})


GRADIENTS_BY_PAIRS = (
    *ROW_PAIRS,
    {"padding": 1, "bias": True, "accumulate": True, "batch": 2},
    {"padding": 1, "rows": 2, "channels": 3, "cols": 4},
    {"padding": 1, "outputs": 12, "tile": {"y": 2, "co": 4, "ci": 3}, "accumulate": True},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", GRADIENTS_BY_PAIRS, ids=str)
@pytest.mark.sampled(5)
def test_two_rows_of_a_gradient_of_weights_at_once_are_the_references(shape, element):
    whole = {"inputs": 4, "outputs": 6, "height": 5, "width": 11, "kernel": 3} | shape
    check(f"conv2d_wg_{element.name}", whole)
    if "channels" not in shape:
        check(f"tconv2d_wg_{element.name}", whole | {"tile": None, "split": None})


def test_tiles_of_an_odd_number_of_rows_change_no_bit_of_gradients():
    shape = {"inputs": 4, "outputs": 6, "height": 5, "width": 11, "kernel": 3, "padding": 1}
    whole, cut = (launch("conv2d_wg_bf16", shape | {"tile": t})[0] for t in ({}, {"co": 3}))
    assert np.array_equal(whole["dW"], cut["dW"])


def test_gradients_of_two_rows_take_fewer_cycles():
    shape = {"inputs": 16, "outputs": 16, "height": 16, "width": 16, "kernel": 3, "padding": 1}
    _, report = launch("conv2d_wg_bf16", shape)
    assert report.macs / report.cycles > 9


@pytest.mark.parametrize("tile", [None, {"y": 16, "co": 8}], ids=str)
def test_blocks_of_two_rows_take_the_registers_that_there_are(tile):
    shape = {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3, "padding": 1}
    for stride in (1, 2):
        program("conv2d_fw_f16", shape | {"stride": stride, "tile": tile})


def test_of_two_rows_padding_is_left_out():
    shape = {"inputs": 2, "outputs": 4, "height": 4, "width": 4, "kernel": 3, "padding": 1}
    weights = np.full((4, 2, 3, 3), np.inf, HALVES[1].dtype)
    weights[:, :, :, 1:] = 1
    inputs = {"X": np.ones((1, 2, 4, 4), HALVES[1].dtype), "W": weights}
    outputs, report = launch("conv2d_fw_bf16", shape, inputs=inputs)
    assert report.is_correct
    assert not np.isnan(outputs["Y"].astype(np.float32)).any()


METHODS = ("columns", "columns_by_dma")
BY_COLUMNS = (
    *(shape for name, shape in SHAPES.items() if name != "groups"),
    SHAPES["odd"] | {"accumulate": True},
    SHAPES["odd"] | {"bias": True},
    SQUARE | {"padding": 1, "batch": 2, "tile": {"y": 3, "n": 1}},
    SQUARE | {"height": 9, "padding": 1, "tile": {"y": 2, "co": 2}},
    SQUARE | {"rows": 2, "cols": 2},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", BY_COLUMNS, ids=str)
@pytest.mark.sampled(12)
def test_products_with_columns_are_the_references(shape, method, element):
    for step, layout in product(("fw", "wg", "ig"), ("chw", "hwc")):
        how = shape | {"layout": layout, "method": method}
        if layout == "hwc" and "tile" in shape:
            how["tile"] = {name: size for name, size in shape["tile"].items() if name != "co"}
        if not (step == "ig" and "bias" in shape):
            check(f"conv2d_{step}_{element.name}", how)


def test_images_of_odd_lines_are_not_cut_where_their_places_are_summed_up_in_pairs():
    shape = SQUARE | {"width": 7, "method": "columns", "padding": 1}
    with pytest.raises(KernelError, match=r"^conv2d_wg_f16: tile.y = 2: no such dimension; "):
        program("conv2d_wg_f16", shape | {"tile": {"y": 2}})


CHANNELS = {"inputs": 5, "height": 9, "width": 7, "kernel": 3}
PAIRED = (
    *({"width": width, "padding": 1} for width in (1, 2, 5, 6, 12, 13, 14, 20)),
    *({"height": height, "padding": 1} for height in (1, 2, 3, 4, 5, 6, 7, 8)),
    {"padding": (0, 1, 1, 0)},
    {"padding": (2, 2, 2, 2)},
    {"padding": (0, 2, 2, 1), "accumulate": True},
    {"padding": 1, "bias": True, "batch": 2},
    {"kernel": (1, 3), "padding": (0, 0, 1, 1)},
    {"kernel": (3, 1), "padding": (1, 1, 0, 0)},
    {"kernel": (2, 4), "padding": (1, 0, 1, 2)},
    {"kernel": (5, 1), "padding": (2, 3, 0, 0)},
    {"dilation": (1, 2), "padding": (1, 1, 2, 2), "width": 11},
    {"dilation": (1, 3), "padding": (1, 1, 3, 3), "width": 11},
    {"multiplier": 2, "padding": 1, "bias": True},
    {"padding": 1, "cols": 2, "cores": 3},
    {"padding": 1, "inputs": 20, "tile": {"g": 8, "y": 4}},
    {"padding": 1, "height": 20, "width": 16, "bias": True, "cols": 6},
    {"padding": (1, 2, 1, 1), "height": 17, "width": 14, "accumulate": True, "cols": 6},
    {"padding": 1, "height": 26, "width": 14, "tile": {"g": 3, "y": 13}},
    {"padding": 0, "height": 12, "width": 18, "cores": 2},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", PAIRED, ids=str)
@pytest.mark.sampled(6)
def test_channels_whose_lines_are_loaded_once_are_the_references(shape, element):
    check(f"dwconv2d_fw_{element.name}", CHANNELS | shape)
    if "bias" not in shape and "tile" not in shape:
        check(f"dwconv2d_ig_{element.name}", CHANNELS | shape)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [300, 512])
def test_lines_that_are_wider_than_loads_reach_are_the_references(stride, width):
    shape = {"inputs": 8, "height": 5, "width": width, "kernel": 3, "padding": 1, "stride": stride}
    check("dwconv2d_fw_bf16", shape | {"tile": {}})
    check("dwconv2d_ig_bf16", shape | {"tile": {"g": 1, "y": 3}})


STRIDED = (
    *({"width": width, "padding": 1} for width in (2, 5, 8, 21, 22)),
    {"padding": (0, 1, 2, 0), "height": 2, "width": 9, "bias": True},
    {"padding": (2, 2, 0, 1), "width": 12, "accumulate": True, "batch": 2},
    {"kernel": (3, 4), "padding": 1, "width": 13, "multiplier": 2},
    {"kernel": (1, 5), "padding": (0, 0, 2, 2), "stride": (3, 2), "width": 16},
    {"kernel": (2, 1), "dilation": (2, 1), "stride": (1, 2), "padding": (1, 1, 0, 0)},
    {"padding": 1, "inputs": 20, "width": 16, "tile": {"g": 8, "y": 2}},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", STRIDED, ids=str)
@pytest.mark.sampled(4)
def test_channels_of_which_every_second_place_is_read_are_the_references(shape, element):
    check(f"dwconv2d_fw_{element.name}", CHANNELS | {"stride": 2} | shape)


GRADIENTS = (
    *({"width": width} for width in (2, 4, 5, 6)),
    {"height": 1, "kernel": (1, 3), "padding": (0, 0, 1, 1)},
    {"height": 2, "width": 3},
    {"height": 25, "width": 5, "inputs": 20, "tile": {"g": 8}},
    {"height": 12, "width": 5, "inputs": 40, "tile": {"g": 16}},
    {"height": 7, "width": 16, "inputs": 24, "tile": {"g": 12}, "cores": 4, "accumulate": True},
    {"batch": 2, "width": 5, "tile": {"n": 1, "g": 3}},
    {"width": 5, "tile": {"y": 4, "g": 2}, "accumulate": True},
    {"kernel": (3, 2), "padding": (1, 1, 0, 1), "width": 5, "bias": True},
    {"kernel": (2, 3), "padding": (1, 0, 1, 1), "width": 5},
    *({"width": width, "bias": width == 20} for width in (20, 21, 33)),
    {"width": 14, "padding": 0, "batch": 2, "accumulate": True},
    {"width": 31, "kernel": (3, 2), "dilation": (2, 1), "tile": {"y": 3, "g": 2}},
    {"width": 12, "kernel": (2, 4), "padding": (0, 1, 1, 2)},
    {"width": 9, "kernel": (1, 7), "padding": (2, 0, 3, 0)},
    {"width": 17, "kernel": (3, 3), "padding": (2, 1, 2, 0), "inputs": 17},
)


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", GRADIENTS, ids=str)
@pytest.mark.sampled(4)
def test_gradients_of_channels_whose_lines_are_loaded_once_are_the_references(shape, element):
    check(f"dwconv2d_wg_{element.name}", CHANNELS | {"padding": 1} | shape)


@pytest.mark.parametrize("width", [9, 10, 21, 22])
def test_what_is_outside_of_lines_makes_nothing_of_what_is_not_finite(width):
    shape = {"inputs": 3, "height": 6, "width": width, "kernel": 3, "padding": 1}
    inputs = dict(program("dwconv2d_wg_bf16", shape).inputs)
    for name, places in (("X", (0, width - 1)), ("dY", (width - 1, 1))):
        inputs[name] = inputs[name].copy()
        inputs[name][0, 0, [1, 2], places] = np.inf
    outputs, report = launch("dwconv2d_wg_bf16", shape, inputs=inputs)
    assert report.is_correct
    assert np.isinf(outputs["dW"][0].astype(np.float32)).any()
    assert np.isfinite(outputs["dW"][1:].astype(np.float32)).all()


def test_channels_whose_lines_are_loaded_once_are_not_dealt_out_by_lines():
    with pytest.raises(KernelError, match=r"^conv2d_fw_f16: split \(2, 2\): no such point for "):
        program("dwconv2d_fw_f16", CHANNELS | {"split": (2, 2)})
    with pytest.raises(KernelError, match=r"^conv2d_fw_f16: cols 16: no such point for "):
        program("dwconv2d_fw_f16", CHANNELS | {"width": 40, "cols": 16})


@pytest.mark.parametrize("step", ["fw", "wg", "ig"])
def test_points_that_would_reorder_sums_are_refused(step):
    for point in ({"is_turned": True}, {"cols": 3}):
        with pytest.raises(KernelError, match=rf"^conv2d_{step}_f16: .*: no such point for "):
            program(f"conv2d_{step}_f16", SQUARE | point)


def test_a_start_and_a_bias_at_a_time_are_refused():
    wanted = r"^conv2d_fw_f16: .* in f16: accumulate with a bias; use one of them"
    with pytest.raises(KernelError, match=wanted):
        program("conv2d_fw_f16", SQUARE | {"accumulate": True, "bias": True})


def test_they_are_as_far_from_exact_sums_as_their_types_are():
    shape = SQUARE | {"inputs": 8, "padding": 1, "seed": 4}
    distances = {}
    for name in ("f32", "f16", "bf16"):
        outputs, _ = launch(f"conv2d_fw_{name}", shape, WARM)
        inputs = program(f"conv2d_fw_{name}", shape, WARM).inputs
        x, w = (inputs[operand].astype(np.float64) for operand in "XW")
        x = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        exact = np.einsum("ncyxst,ocst->noyx", windows, w)
        distances[name] = float(abs(outputs["Y"].astype(np.float64) - exact).max())
    assert distances["f32"] < 1e-4 < distances["f16"] < 0.1 < distances["bf16"] < 0.8
