"""Convolutions of every kind, their gradients, in L1 and by tiles, against PyTorch in float64."""

import re

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.registers import RA
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from tests.trainlib.cluster import CHIPS, PULP, WARM, is_right_without_time
from trainlib.conv.axis import Axis
from trainlib.conv.busy_cores import busy_part
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.conv.correlation_schedule import clash
from trainlib.conv.depthwise_schedule import round_of
from trainlib.conv.weight_gradient_code import weight_gradient
from trainlib.conv.weight_gradient_schedule import WeightGradient, filling
from trainlib.launch import launch, program
from trainlib.registry import family_of

STEPS = ("fw", "wg", "ig")
SQUARE = {"inputs": 3, "outputs": 5, "height": 8, "width": 8, "kernel": 3}
ODD = {
    "inputs": 3, "outputs": 5, "height": 7, "width": 6, "kernel": (3, 2), "stride": (2, 1),
    "padding": (1, 0, 2, 1), "dilation": (1, 2), "batch": 2,
}  # fmt: skip
SHAPES = {
    "square": SQUARE,
    "padded": SQUARE | {"padding": 1},
    "odd": ODD,
    "one": {"inputs": 1, "outputs": 1, "height": 1, "width": 1, "kernel": 1},
    "one place": {"inputs": 2, "outputs": 3, "height": 3, "width": 3, "kernel": 3},
    "wide padding": SQUARE | {"padding": (4, 3, 5, 2)},
    "only padding": {"inputs": 1, "outputs": 2, "height": 1, "width": 2, "kernel": 1, "padding": 2},
    "wide stride": SQUARE | {"stride": (3, 4), "padding": (1, 1, 0, 2)},
    "stride beyond the kernel": SQUARE | {"kernel": 1, "stride": 3},
    "dilated": SQUARE | {"dilation": (2, 3), "padding": (2, 2, 3, 3)},
    "dilated stride": SQUARE | {"dilation": 2, "stride": 3, "padding": 2},
    "long lines": {"inputs": 1, "outputs": 2, "height": 2, "width": 530, "kernel": (1, 3)},
    "high": {"inputs": 2, "outputs": 3, "height": 29, "width": 2, "kernel": (5, 2)},
    "many taps": {"inputs": 1, "outputs": 1, "height": 12, "width": 27, "kernel": (2, 25)},
    "groups": SQUARE | {"inputs": 6, "outputs": 4, "groups": 2, "padding": 1},
    "batch": SQUARE | {"batch": 3, "padding": (0, 1, 1, 0)},
}
DEPTHWISE = {
    "25 x 5": {"inputs": 9, "height": 25, "width": 5, "kernel": 3, "padding": 1},
    "odd": {"inputs": 5, "height": 7, "width": 6, "kernel": (3, 2), "stride": (1, 2), "batch": 2},
    "multiplied": {"inputs": 3, "height": 6, "width": 7, "kernel": 3, "multiplier": 3},
}
TRANSPOSED = {
    "stride 1": {"inputs": 4, "outputs": 3, "height": 5, "width": 4, "kernel": 3, "padding": 1},
    "stride 2": {"inputs": 3, "outputs": 4, "height": 3, "width": 5, "kernel": 3, "padding": 1,
                 "stride": 2, "output_padding": 1, "batch": 2},
    "odd": {"inputs": 4, "outputs": 6, "height": 4, "width": 3, "kernel": (2, 4), "groups": 2,
            "stride": (3, 2), "padding": (0, 1, 2, 1), "dilation": (2, 1),
            "output_padding": (2, 0)},
}  # fmt: skip


def right(kernel, point, chip=WARM):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(kernel, point, chip, guard=64, max_cycles=5_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.stray_writes == []
    assert report.is_correct
    return report


def cases(kind, shapes):
    return [(f"{kind}_{step}_f32", name) for name in shapes for step in STEPS]


@pytest.mark.parametrize(("kernel", "shape"), cases("conv2d", SHAPES))
@pytest.mark.sampled(3)
def test_a_convolution_is_right(kernel, shape):
    right(kernel, SHAPES[shape])
    right(kernel, SHAPES[shape] | {"layout": "hwc"})


@pytest.mark.parametrize(("kernel", "shape"), cases("dwconv2d", DEPTHWISE))
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.sampled
def test_a_depthwise_convolution_is_right(kernel, shape, layout):
    right(kernel, DEPTHWISE[shape] | {"layout": layout})


@pytest.mark.parametrize(("kernel", "shape"), cases("tconv2d", TRANSPOSED))
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.sampled
def test_a_transposed_convolution_is_right(kernel, shape, layout):
    right(kernel, TRANSPOSED[shape] | {"layout": layout})


POINTWISE = {"inputs": 7, "outputs": 13, "height": 9, "width": 11}
VARIANTS = (
    {},
    {"layout": "hwc", "bias": True},
    {"bias": True, "accumulate": True, "batch": 3},
    {"layout": "hwc", "accumulate": True, "batch": 2},
    {"tile": {"co": 5, "ci": 4, "y": 4}, "bias": True},
    {"layout": "hwc", "tile": {"co": 7, "ci": 3, "x": 5}, "batch": 2},
)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_kernel_of_1_is_right_as_a_product(variant):
    for kernel in ("conv2d_fw_f32", "conv2d_wg_f32", "conv2d_ig_f32", "tconv2d_fw_f32"):
        own = {n: v for n, v in variant.items() if n != "bias" or "ig" not in kernel}
        right(kernel, POINTWISE | {"kernel": 1} | own)


@pytest.mark.parametrize("step", STEPS)
def test_a_kernel_of_1_takes_as_long_as_a_pointwise_convolution(step):
    product = right(f"pwconv2d_{step}_f32", POINTWISE)
    assert right(f"conv2d_{step}_f32", POINTWISE | {"kernel": 1}).cycles == product.cycles


def cycles_of_few_weights(**sizes):
    """Of a gradient of weights of 1 x 1, and of that as a pointwise convolution."""
    return [
        launch(kernel, sizes | more | {"warm": True}, "pulp")[1].cycles
        for kernel, more in (("conv2d_wg_f32", {"kernel": 1}), ("pwconv2d_wg_f32", {}))
    ]


def test_too_few_weights_for_all_cores_are_a_product_where_cores_share_its_places():
    direct, product = cycles_of_few_weights(inputs=2, outputs=2, height=50, width=50)
    assert direct == product


def test_too_few_weights_for_all_cores_are_else_summed_up_as_those_of_other_kernels():
    direct, product = cycles_of_few_weights(inputs=1, outputs=7, height=31, width=13)
    assert direct < product


SHARED = (
    {"padding": 1},
    {"padding": (2, 0, 1, 1), "layout": "hwc", "multiplier": 2, "bias": True},
    {"stride": (2, 1), "kernel": (3, 2), "padding": (1, 0, 2, 1)},
    {"dilation": 2, "padding": (3, 2, 0, 0), "batch": 2, "cores": 3},
)


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize("shape", SHARED, ids=lambda value: str(value)[:40])
def test_depthwise_tiles_with_too_few_channels_for_all_cores_are_right(step, shape):
    whole = {"inputs": 20, "height": 14, "width": 6, "kernel": 3} | shape
    if step == "ig":
        whole.pop("bias", None)
    right(f"dwconv2d_{step}_f32", whole | {"tile": {"g": 8, "n": 1}})


CUT = (
    {"inputs": 48, "padding": 1},
    {"inputs": 40, "padding": (2, 0, 1, 1), "multiplier": 2, "cores": 4},
    {"inputs": 24, "padding": 1, "cores": 1, "accumulate": True},
    {"inputs": 64, "stride": 2, "padding": (1, 0, 1, 1)},
)


@pytest.mark.parametrize("shape", CUT, ids=lambda value: str(value)[:40])
def test_depthwise_tiles_add_up_bit_for_bit_what_one_piece_does(shape):
    whole = {"height": 13, "width": 5, "kernel": 3} | shape
    sizes = {"n": 1, "g": 16}
    cut = right("dwconv2d_fw_f32", whole | {"tile": sizes})
    uncut = right("dwconv2d_fw_f32", whole)
    assert cut.outputs["Y"].tobytes() == uncut.outputs["Y"].tobytes()


def test_depthwise_tiles_are_right_where_weights_are_loaded_again():
    shape = {"inputs": 40, "height": 13, "width": 5, "kernel": 5, "padding": 1}
    right("dwconv2d_fw_f32", shape | {"tile": {"n": 1, "g": 16}, "bias": True})


ROUNDS = (
    ({}, (1, 1)),
    ({"stride": 2}, (1, 1)),
    ({"stride": 2, "height": 8}, (1, 0)),
    ({"padding": (0, 1, 1, 1)}, (0, 1)),
    ({"padding": (1, 0, 1, 1)}, (1, 0)),
    ({"padding": (0, 0, 1, 1)}, None),  # all lines are alike
    ({"padding": (2, 1, 1, 1)}, None),  # two lines lack their first taps
    ({"padding": (1, 1, 3, 1)}, None),  # there is a sum that nothing is added to
    ({"kernel": (2, 3), "padding": (1, 1, 1, 1)}, None),  # both ends have all of their own
    ({"kernel": (4, 3), "padding": (1, 1, 1, 1)}, (1, 1)),
    ({"dilation": (2, 1), "padding": (2, 2, 1, 1)}, None),
)


@pytest.mark.parametrize(("shape", "missing"), ROUNDS, ids=lambda value: str(value)[:40])
def test_lines_share_the_code_of_one_where_at_most_the_first_and_the_last_are_shorter(
    shape, missing
):
    whole = {"inputs": 9, "height": 9, "width": 5, "kernel": 3, "padding": 1} | shape
    a = family_of("dwconv2d_fw_f32").arguments.model_validate(whole)
    images = Images(0, 0, 0, 4 * a.width, 4)
    weights = Weights(0, 36, 36, 36, 4 * a.shape.xs.taps, 4)
    x = Correlation(9, 1, 1, a.shape.ys, a.shape.xs, images, weights, images)
    [block] = x.xs.runs(x.xs.outputs)
    found = round_of(x, block)
    assert (found and found.missing) == missing
    right("dwconv2d_fw_f32", whole)
    right("dwconv2d_fw_f32", whole | {"bias": True, "split": (2, 4)})


ALONE = (
    {"inputs": 3, "height": 5, "width": 23, "kernel": 3, "padding": 1, "accumulate": True},
    {"inputs": 9, "height": 9, "width": 7, "kernel": 3, "padding": (4, 3, 5, 4), "bias": True},
    {"inputs": 2, "height": 11, "width": 9, "kernel": (3, 2), "stride": (2, 3), "bias": True},
    {"inputs": 5, "height": 12, "width": 8, "kernel": (2, 3), "dilation": (3, 2), "padding": 3},
    {"inputs": 2, "height": 9, "width": 6, "kernel": 3, "cols": 2, "split": (2, 4)},
    {"inputs": 4, "height": 6, "width": 13, "kernel": 3, "is_turned": True, "layout": "hwc"},
)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.sampled(3)
def test_channels_alone_are_right_on_every_kind_of_chip(chip):
    for shape in ALONE:
        assert is_right_without_time("dwconv2d_fw_f32", shape, CHIPS[chip]), shape
    whole = ALONE[0] | {"kernel": 2, "stride": 1}
    assert is_right_without_time("dwconv2d_ig_f32", whole, CHIPS[chip])


def test_a_weight_that_is_infinite_does_not_spread_from_outside():
    shape = {"inputs": 1, "height": 4, "width": 4, "kernel": 3, "padding": 1}
    weights = np.ones((1, 1, 3, 3), np.float32)
    weights[0, 0, 0, 0] = np.inf
    values = {"X": np.ones((1, 1, 4, 4), np.float32), "W": weights}
    outputs, _ = launch("dwconv2d_fw_f32", shape, inputs=values)
    assert np.isfinite(outputs["Y"][0, 0, 0]).all()
    assert np.isfinite(outputs["Y"][0, 0, :, 0]).all()
    assert np.isinf(outputs["Y"][0, 0, 1:, 1:]).all()


BIASED = (("conv2d", ODD), ("dwconv2d", DEPTHWISE["odd"]), ("tconv2d", TRANSPOSED["stride 2"]))


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize(("kind", "shape"), BIASED, ids=lambda value: str(value)[:12])
@pytest.mark.sampled
def test_a_bias_is_added_once_and_its_gradient_is_a_sum_over_all_images(kind, shape, layout):
    for step in ("fw", "wg"):
        right(f"{kind}_{step}_f32", shape | {"bias": True, "layout": layout})


@pytest.mark.parametrize("chip", ["pulp", "pulp-cv32e40p"])
def test_the_gradient_of_a_bias_takes_no_register_from_that_of_the_weights(chip):
    shape = {"inputs": 40, "outputs": 400, "height": 2, "width": 2, "kernel": 2, "bias": True}
    right("conv2d_wg_f32", shape, load_chip(chip))


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.sampled
def test_images_of_a_transposed_convolution_are_cut_for_the_gradient_of_a_bias_too(groups, layout):
    shape = TRANSPOSED["stride 2"] | {"inputs": 4, "groups": groups, "bias": True}
    for tile in ({"y": 2, "n": 1}, {"x": 3}):
        for accumulate in (False, True):
            how = {"layout": layout, "tile": tile, "accumulate": accumulate}
            report = right("tconv2d_wg_f32", shape | how)
            assert [*report.regions] == ["compute", "weights", "dma_wait", "bias"]


def test_a_line_of_a_transposed_convolution_may_be_larger_than_l1():
    shape = {"inputs": 1, "outputs": 1, "height": 1, "width": 15000, "kernel": 1, "bias": True}
    right("tconv2d_wg_f32", shape)


@pytest.mark.parametrize(("kind", "shape"), BIASED, ids=lambda value: str(value)[:12])
def test_results_add_to_what_is_there(kind, shape):
    for step in STEPS:
        right(f"{kind}_{step}_f32", shape | {"accumulate": True, "bias": step == "wg"})


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_any_number_of_cores_computes_it(step, cores):
    right(f"conv2d_{step}_f32", ODD | {"cores": cores})
    right(f"conv2d_{step}_f32", SQUARE | {"cores": cores, "outputs": 1, "padding": 1})


TILES = (
    {"y": 2, "x": 3},
    {"y": 1, "x": 1, "co": 2, "ci": 1},
    {"n": 1, "co": 3, "y": 3},
    {"n": 2, "ci": 2, "x": 4},
    {},
)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_tiles_of_a_convolution_are_right_wherever_they_are_cut(step, tile):
    right(f"conv2d_{step}_f32", ODD | {"tile": tile, "bias": step != "ig"})
    other = {"layout": "hwc", "stride": 2, "accumulate": True, "bias": False}
    right(f"conv2d_{step}_f32", ODD | {"tile": tile} | other)


@pytest.mark.parametrize("tile", [{"y": 2, "x": 3, "g": 2}, {"y": 1, "x": 1, "g": 1}, {}], ids=str)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_tiles_of_channels_with_kernels_of_their_own_are_right(step, tile):
    shape = {"inputs": 5, "height": 7, "width": 6, "kernel": 3, "padding": 1, "tile": tile}
    right(f"dwconv2d_{step}_f32", shape | {"multiplier": 2, "bias": step != "ig"})
    right(f"dwconv2d_{step}_f32", shape | {"layout": "hwc", "batch": 2})


@pytest.mark.parametrize("tile", [{"co": 2, "ci": 1}, {"ci": 2}, {"y": 1, "x": 2}], ids=str)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_tiles_of_a_transposed_convolution_are_right(step, tile):
    shape = {"inputs": 5, "outputs": 4, "height": 5, "width": 6, "kernel": 3, "padding": 1}
    biased = step == "fw" or step == "wg" and "y" not in tile
    stride = {"stride": 2, "output_padding": 1, "batch": 2}
    right(f"tconv2d_{step}_f32", shape | stride | {"tile": tile, "bias": biased})
    right(f"tconv2d_{step}_f32", shape | {"tile": tile, "stride": 3, "dilation": 2})


@pytest.mark.parametrize("step", STEPS)
def test_tiles_add_up_bit_for_bit_what_one_piece_does(step):
    """Where the order of a sum is the same: images and channels that are summed are not cut."""
    tile = {"fw": {"y": 2, "co": 3}, "wg": {"co": 2, "ci": 1}, "ig": {"y": 2, "ci": 2}}[step]
    blocks = {"rows": 1, "cols": 1, "is_turned": False}
    outputs = [
        launch(f"conv2d_{step}_f32", SQUARE | blocks | {"tile": t}, WARM)[0] for t in (None, tile)
    ]
    assert [v.tobytes() for v in outputs[0].values()] == [v.tobytes() for v in outputs[1].values()]


COLUMNS = (
    SQUARE | {"padding": 1, "bias": True},
    ODD | {"bias": True},
    ODD | {"accumulate": True, "cores": 3},
    SHAPES["only padding"],
    SHAPES["long lines"],
    ODD | {"tile": {"y": 1, "x": 3, "co": 2, "ci": 2}, "bias": True},
    ODD | {"rows": 2, "cols": 3},
)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("shape", COLUMNS, ids=lambda shape: str(shape)[:70])
@pytest.mark.sampled
def test_a_product_with_columns_is_a_convolution(shape, layout):
    for step in ("fw", "wg"):
        right(f"conv2d_{step}_f32", shape | {"method": "columns", "layout": layout})


POINTS = (
    ("fw", {"rows": 1, "cols": 1, "split": (1, 1)}),
    ("fw", {"rows": 4, "cols": 5, "is_turned": True}),
    ("fw", {"rows": 3, "cols": 6, "split": (2, 3)}),
    ("ig", {"rows": 2, "cols": 8, "split": (3, 2)}),
    ("ig", {"rows": 3, "cols": 1, "is_turned": True}),
    ("wg", {"rows": 5, "channels": 1, "cols": 2}),
    ("wg", {"rows": 1, "channels": 3, "cols": 1, "is_turned": True}),
    ("wg", {"rows": 2, "channels": 2, "cols": 6, "split": (2, 3)}),
)


@pytest.mark.parametrize(("step", "point"), POINTS, ids=str)
def test_every_point_is_right(step, point):
    right(f"conv2d_{step}_f32", SQUARE | {"padding": 1} | point)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_every_kind_of_chip_computes_it(step, chip):
    few = {"height": 5, "width": 4, "padding": 1, "cores": 3}
    assert is_right_without_time(f"conv2d_{step}_f32", ODD | few, CHIPS[chip])
    assert is_right_without_time(f"tconv2d_{step}_f32", TRANSPOSED["odd"] | few, CHIPS[chip])


# Against PyTorch

ALL = [
    *(("conv2d", shape) for shape in SHAPES.values()),
    *(("dwconv2d", shape) for shape in DEPTHWISE.values()),
    *(("tconv2d", shape) for shape in TRANSPOSED.values()),
]


@pytest.mark.parametrize(("kind", "shape"), ALL, ids=lambda value: str(value)[:60])
def test_the_reference_means_what_pytorch_means(kind, shape):
    torch = pytest.importorskip("torch")
    expected, given = {}, {}
    for step in STEPS:
        family = family_of(f"{kind}_{step}_f32")
        arguments = family.arguments(**shape, bias=step != "ig")
        given = family.random(arguments) | given
        own = {name: given[name] for name in family.random(arguments)}
        expected |= family.reference(arguments, own)
    x, w, bias, dy = (
        torch.tensor(array, dtype=torch.float64, requires_grad=True)
        for array in (given["X"], given["W"], given["bias"], given["dY"])
    )
    y = torch_convolution(torch, kind, arguments, x, w, bias)
    y.backward(dy)
    for name, exact in (("Y", y), ("dX", x.grad), ("dW", w.grad), ("dbias", bias.grad)):
        np.testing.assert_allclose(expected[name][0], exact.detach().numpy(), 1e-12, 1e-12)


def torch_convolution(torch, kind, a, x, w, bias):
    top, bottom, left, right_ = a.padding
    if kind != "tconv2d":
        groups = a.inputs if kind == "dwconv2d" else a.groups
        padded = torch.nn.functional.pad(x, (left, right_, top, bottom))
        return torch.nn.functional.conv2d(
            padded, w, bias, stride=a.stride, dilation=a.dilation, groups=groups
        )
    y = torch.nn.functional.conv_transpose2d(
        x, w, bias, stride=a.stride, dilation=a.dilation, groups=a.groups,
        output_padding=a.output_padding,
    )  # fmt: skip
    return y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right_]


# Performance

FAST = (
    ("conv2d_fw_f32", {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3,
                       "padding": 1}, 5.3),
    ("conv2d_wg_f32", {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3,
                       "padding": 1}, 4.8),
    ("conv2d_ig_f32", {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3,
                       "padding": 1}, 5.3),
    ("dwconv2d_fw_f32", {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1}, 4.0),
    ("dwconv2d_wg_f32", {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1}, 2.8),
    ("dwconv2d_ig_f32", {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1}, 4.0),
)  # fmt: skip


@pytest.mark.parametrize(("kernel", "shape", "least"), FAST, ids=lambda value: str(value)[:16])
def test_macs_per_cycle_from_l2_do_not_fall_below_what_was_reached(kernel, shape, least):
    assert right(kernel, shape, PULP).macs_per_cycle >= least


def test_cores_share_lines_by_those_that_read_most():
    shape = {"inputs": 16, "outputs": 16, "height": 4, "width": 16, "kernel": 3}
    of = shape | {"padding": (1, 0, 1, 1)}
    chosen = right("conv2d_fw_f32", of, PULP).cycles
    assert chosen <= right("conv2d_fw_f32", of | {"split": (4, 2)}, PULP).cycles


def test_a_line_is_one_block_if_registers_have_it():
    shape = {"inputs": 8, "outputs": 37, "height": 7, "width": 4, "kernel": 5, "padding": 1}
    eights = right("tconv2d_fw_f32", shape | {"cols": 8}, PULP).cycles
    assert right("tconv2d_fw_f32", shape, PULP).cycles < 0.95 * eights


def test_columns_in_few_banks_make_cores_wait_that_read_the_same():
    assert clash(32, (8, 1), 0.27) == pytest.approx(1.35)  # of 43->8, 15 x 8: measured 1.37
    assert clash(32, (1, 8), 0.27) == clash(4, (8, 1), 0.27) == 1
    assert clash(64, (8, 1)) > clash(32, (8, 1)) == 1


def test_a_gradient_of_weights_chooses_blocks_whose_code_a_core_keeps():
    shape = {"inputs": 16, "outputs": 16, "height": 8, "width": 8, "kernel": 3, "padding": 1}
    assert right("conv2d_wg_f32", shape | {"stride": 2}, PULP).cycles <= 8_500


def test_blocks_are_no_higher_than_what_holds_a_cores_part():
    tried = (1, 2, 3, 4, 6)
    assert filling(3, tried) == [1, 2, 3]
    assert filling(5, tried) == [1, 2, 3, 4, 6]
    assert filling(3, (6,)) == [6], "what is asked for"


@pytest.mark.parametrize("step", STEPS)
def test_eight_cores_are_nearly_eight_times_as_fast(step):
    shape = {"inputs": 8, "outputs": 16, "height": 16, "width": 16, "kernel": 3, "padding": 1}
    one, eight = (right(f"conv2d_{step}_f32", shape | {"cores": n}).cycles for n in (1, 8))
    assert one / eight >= 0.93 * 8


# Refusals

REFUSED = (
    ("conv2d_fw_f32", SQUARE | {"kernel": 9},
     "conv2d: a kernel that reaches over 9 lines does not fit into 8 of them with a padding of 0 "
     "and 0"),
    ("conv2d_fw_f32", SQUARE | {"kernel": (1, 5), "dilation": (1, 2)},
     "conv2d: a kernel that reaches over 9 places does not fit into 8 of them with a padding of 0 "
     "and 0"),
    ("conv2d_ig_f32", SQUARE | {"groups": 2},
     "conv2d: 3 and 5 channels in 2 groups; both are multiples of the groups"),
    ("tconv2d_fw_f32", TRANSPOSED["stride 2"] | {"output_padding": (0, 2)},
     "tconv2d: output_padding 2 with a stride of 2; it is less"),
    ("tconv2d_fw_f32", {"inputs": 2, "outputs": 2, "height": 3, "width": 2, "kernel": 1,
                        "padding": (0, 0, 2, 2)},
     "tconv2d: 2 places give 2, of which a padding of 2 and 2 leaves none; both together are less "
     "than 2"),
    ("conv2d_fw_f32", SQUARE | {"inputs": 4, "outputs": 4, "groups": 2, "method": "columns"},
     "conv2d: columns with groups = 2, is_turned = None; they are for one group and have no turn, "
     "the direct method has"),
    ("conv2d_fw_f32", SQUARE | {"rows": 6},
     "conv2d_fw_f32: rows 6: no such point for 1 x 5 rows of 6 x 6 outputs on 8 cores, 30 "
     "registers each"),
    ("conv2d_ig_f32", SQUARE | {"split": (4, 2), "cores": 7},
     "conv2d_ig_f32: split (4, 2): no such point for 1 x 3 rows of 8 x 8 outputs on 7 cores, 30 "
     "registers each"),
    ("conv2d_wg_f32", SQUARE | {"rows": 1, "cols": 7},
     "conv2d_wg_f32: rows 1, cols 7: no such point for 1 x 5 rows and 3 channels of 6 x 6 "
     "outputs on 8 cores, 30 registers each"),
)  # fmt: skip


@pytest.mark.parametrize(("kernel", "point", "message"), REFUSED, ids=lambda v: str(v)[:20])
def test_what_is_no_convolution_or_no_point_is_refused(kernel, point, message):
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program(kernel, point)


def test_a_gradient_of_weights_whose_caller_needs_ra_is_refused():
    k, axis = new_kernel(PULP), Axis(6, 8, 3)
    x, dy, dw = (
        Images(0, 512, 256, 32, 4),
        Images(0, 288, 144, 24, 4),
        Weights(0, 144, 72, 36, 12, 4),
    )
    message = "wg: ra is live, and would be lost; free some registers"
    with team_of(k, PULP, 8) as team:
        k.registers.hold(RA)
        with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
            weight_gradient("wg", k, team, WeightGradient(1, 2, 2, axis, axis, dy, x, dw))
        k.registers.release(RA)
        weight_gradient("wg", k, team, WeightGradient(1, 2, 2, axis, axis, dy, x, dw))
        assert RA in k.registers.used


def test_columns_of_a_large_image_are_made_tile_by_tile():
    point = {"inputs": 16, "outputs": 8, "height": 31, "width": 29, "kernel": 3, "padding": 1}
    for step in ("fw", "wg"):
        right(f"conv2d_{step}_f32", point | {"method": "columns", "tile": {}}, PULP)


@pytest.mark.parametrize("kernel", ["conv2d_fw_f32", "conv2d_wg_f32", "conv2d_ig_f32"])
def test_multiply_adds_with_padding_are_not_counted(kernel):
    """A kernel of ones over an image of ones sums as many inputs as it has multiply-adds."""
    torch = pytest.importorskip("torch")
    shape = {"height": 9, "width": 7, "kernel": 3, "stride": 2, "padding": [1, 2, 0, 1]}
    family = family_of(kernel)
    point = family.arguments.model_validate({"inputs": 4, "outputs": 6, "groups": 2, **shape})
    padded = torch.nn.functional.pad(torch.ones(1, 4, 9, 7), (0, 1, 1, 2))
    sums = torch.nn.functional.conv2d(padded, torch.ones(6, 2, 3, 3), stride=2, groups=2)
    assert family.macs(point) == sums.sum()


IMAGE = Axis(8, 8, 3, pad=1)


@pytest.mark.parametrize(
    ("rows", "others", "axis", "part"),
    [
        (24, 2, None, 1),  # a block of 3 x 2 each, with 6 x 24 multiply-adds, 44 loads
        (4, 3, None, 12 / 8 * 188 / 6 / 74),  # of 2 x 1 at most, 48 and 26: not twelve of eight
        (16, 8, IMAGE, 1),  # two rows each, all of their lines
        (4, 8, IMAGE, 22 / 24),  # two rows of two lines each: those in the middle read more
    ],
)
def test_cores_have_work_for_a_part_of_the_time(rows, others, axis, part):
    assert busy_part(8, axis, IMAGE, rows, others) == pytest.approx(part)
