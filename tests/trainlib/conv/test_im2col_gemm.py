"""Convolutions by columns: which elements go where, the DMA's commands for them, and results."""

import re
from itertools import product

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.drivers import LONGEST
from firmware.runtime import Team, new_kernel
from tests.trainlib.cluster import CHIPS, PULP, is_right_without_time
from tests.trainlib.conv.test_conv2d import ODD, SHAPES, SQUARE, STEPS, right
from trainlib.conv.axis import Axis
from trainlib.conv.conv2d import Strides
from trainlib.conv.im2col_gemm import clipped
from trainlib.conv.im2col_layout import Unfolding
from trainlib.launch import launch
from trainlib.primitive.l1_layout import Level, Patch
from trainlib.registry import family_of
from trainlib.tiling.dma_commands import copies
from trainlib.tiling.resident import Resident

METHODS = ("columns", "columns_by_dma")
LAYOUTS = ("chw", "hwc")

# Which elements go where

AXES = [
    (Axis((n + sum(pads) - d * (k - 1) - 1) // s + 1, n, k, s, d, pads[0]), pads)
    for n, k, s, d, pads in (
        (6, 3, 1, 1, (1, 1)), (7, 3, 2, 1, (0, 2)), (5, 2, 3, 2, (4, 0)), (4, 1, 3, 1, (0, 0)),
        (3, 3, 1, 2, (2, 3)), (1, 1, 1, 1, (2, 2)), (3, 3, 1, 1, (0, 0)),
    )
]  # fmt: skip


def places(patches, side):
    """The words of all patches on a side, in the order of their copies."""
    for patch in patches:
        counts = [range(level.times) for level in patch.levels]
        for at in product(*counts):
            steps = (i * level[1 + side] for i, level in zip(at, patch.levels, strict=True))
            yield (patch[side] + sum(steps)) // 4


@pytest.mark.parametrize("is_gradient", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ys", AXES, ids=str)
def test_patches_are_what_taps_read_and_zeros_all_else(ys, layout, is_gradient):
    channels = 3
    for xs in (axis for axis, _ in AXES):
        axes = [axis.inverse if is_gradient else axis for axis in (ys[0], xs)]
        image = np.arange(1, 1 + channels * axes[0].inputs * axes[1].inputs)
        image = image.reshape(channels, axes[0].inputs, axes[1].inputs)
        wanted = np.zeros((channels, ys[0].taps, xs.taps, axes[0].outputs, axes[1].outputs), int)
        for c, s, t, y, x in np.ndindex(wanted.shape):
            line, place = (
                read(axis, output, tap, is_gradient)
                for axis, output, tap in zip(axes, (y, x), (s, t), strict=True)
            )
            if line is not None and place is not None:
                wanted[c, s, t, y, x] = image[c, line, place]
        if layout == "hwc":
            image, wanted = image.transpose(1, 2, 0), wanted.transpose(3, 4, 1, 2, 0)
        unfolding = Unfolding(channels, *axes, layout)
        columns = np.full(unfolding.size // 4, -1)
        assert columns.size == wanted.size == unfolding.words * unfolding.places
        flat = image.ravel()
        strides = tuple(4 * int(np.prod(image.shape[axis + 1 :])) for axis in range(3))
        patches = list(unfolding.patches(Strides.of((0, *strides), layout)))
        near = list(places(patches, 1))
        assert len(near) == len(set(near)) == sum(patch.bytes for patch in patches) // 4
        columns[near] = flat[list(places(patches, 0))]
        columns[list(places(unfolding.zeros, 1))] = 0
        assert columns.tolist() == wanted.ravel().tolist()


def read(axis, output, tap, is_gradient):
    """The element that an output reads through a tap, found by trying all of them."""
    for element in range(axis.inputs):
        inner, outer = (element, output) if is_gradient else (output, element)
        if inner * axis.stride - axis.pad + tap * axis.dilation == outer:
            return element
    return None


def test_elements_that_lie_together_on_both_sides_are_one_run():
    whole = Patch(0, 0, (Level(3, 60, 60), Level(5, 12, 12), Level(3, 4, 4)))
    assert whole.runs == (180, [])
    rows = Patch(0, 0, (Level(3, 4, 4), Level(2, 100, 24), Level(2, 12, 12), Level(1, 7, 9)))
    assert rows.runs == (24, [Level(2, 100, 24)])
    pieces = Patch(0, 0, (Level(4, 8, 4), Level(3, 32, 16), Level(2, 100, 50)))
    assert pieces.runs == (4, [Level(12, 8, 4), Level(2, 100, 50)])
    assert Patch(0, 0, (Level(0, 4, 4), Level(3, 8, 4))).runs == (0, [])


# Commands

LAYER = {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3, "padding": 1}


def commands(step, tile, **more):
    """The sizes of the commands for the columns of the second tile, and the bytes of its form."""
    family = family_of(f"conv2d_{step}_f32")
    arguments = family.arguments(**LAYER | {"method": "columns_by_dma"} | more)
    tensors, tiling = family.tensors(arguments), family.tiling(arguments)
    second = list(tiling.tiles({d.name: tile.get(d.name, d.size) for d in tiling.dims}, tensors))[1]
    name = "dY" if step == "ig" else "X"
    found = copies(tensors[name], second.boxes[name])
    assert sum(copy.size for copy in found) == second.boxes[name].part.form.bytes
    assert all(copy.size <= LONGEST for copy in found)
    return [copy.size for copy in found]


def test_commands_are_a_few_for_each_tap_the_shortest_first():
    assert commands("fw", {"y": 1}) == [16 * 31 * 4] * 6 + [16 * 32 * 4] * 3
    by_line = [16 * 31 * 4] * 6 * 8  # of 16 channels, more than there are lines
    assert commands("fw", {"y": 8}) == by_line + [16 * 8 * 32 * 4] * 3  # lines without gaps
    rows = {"layout": "hwc"}
    assert commands("fw", {"y": 1}, **rows) == [2 * 64] * 6 + [30 * 3 * 64] * 3
    assert commands("fw", {"y": 2}, **rows) == [2 * 2 * 64] * 6 + [30 * 3 * 64] * 6
    apart = commands("fw", {"y": 2}, **rows, dilation=2, padding=2)
    assert apart == [30 * 64] * 6 * 2 + [2 * 32 * 64] * 3
    assert commands("ig", {"y": 1}, **rows) == [31 * 128] * 6 + [32 * 128] * 3


def test_places_of_channels_apart_by_a_stride_are_pieces_of_one_word():
    strided = {"stride": 2, "padding": 0}
    assert commands("fw", {"y": 1}, **strided) == [16 * 4] * 15 * 9
    assert commands("fw", {"y": 1}, **strided, layout="hwc") == [15 * 3 * 64] * 3


# Results

HARD = ("only padding", "dilated stride", "one")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "groups"])
@pytest.mark.sampled
def test_columns_of_any_shape_are_right(request, name, layout):
    if name not in HARD and not request.config.getoption("--full"):
        pytest.skip("many shapes; --full runs them")
    for step in STEPS:
        right(f"conv2d_{step}_f32", SHAPES[name] | {"method": "columns_by_dma", "layout": layout})
    right("conv2d_ig_f32", SHAPES[name] | {"method": "columns", "layout": layout})


COLUMNS = (
    ODD | {"bias": True, "cores": 1},
    ODD | {"accumulate": True, "cores": 3},
    ODD | {"tile": {"y": 2, "ci": 2}, "bias": True},
    ODD | {"tile": {"n": 1, "x": 4}, "stride": 1, "accumulate": True, "buffers": 1},
    ODD | {"rows": 2, "cols": 2, "split": (1, 2)},
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", COLUMNS, ids=lambda shape: str(shape)[92:])
@pytest.mark.sampled
def test_columns_are_right_however_they_are_cut_and_dealt_out(shape, layout):
    for step in STEPS:
        own = shape | {"bias": shape.get("bias", False) and step != "ig", "layout": layout}
        right(f"conv2d_{step}_f32", own | {"method": "columns_by_dma"})
        if step == "ig":
            right(f"conv2d_{step}_f32", own | {"method": "columns"})


def test_the_block_of_a_smaller_tile_is_no_larger_than_its_product():
    given = {"rows": 4, "cols": 8, "split": (8, 1)}
    assert clipped(given, 32, 16, 8) == given
    assert clipped(given, 16, 4, 8) == {"rows": 2, "cols": 4, "split": (8, 1)}
    assert clipped(given, 3, 16, 8) == {"rows": 1, "cols": 8, "split": (3, 1)}
    assert clipped(given | {"split": (2, 4)}, 5, 3, 8) == {"rows": 3, "cols": 1, "split": (2, 3)}
    assert clipped(given | {"split": None}, 16, 16, 8) == {"rows": 4, "cols": 8, "split": None}
    assert clipped(given | {"split": None}, 3, 16, 8) == {"rows": 3, "cols": 2, "split": None}
    assert clipped({"rows": None, "cols": 9, "split": None}, 8, 4, 1)["cols"] == 4


@pytest.mark.parametrize("method", METHODS)
def test_tiles_have_the_block_that_is_said(method):
    shape = SQUARE | {"outputs": 8, "padding": 1, "tile": {"y": 4}, "method": method}
    for step in STEPS:
        for point in ({"rows": 1, "cols": 1, "split": (8, 1)}, {"rows": 2, "cols": 7}):
            right(f"conv2d_{step}_f32", shape | point)
    small, large = (
        right("conv2d_fw_f32", shape | {"rows": size, "cols": size}).cycles for size in (1, 4)
    )
    assert large < small


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["direct", *METHODS])
def test_tiles_that_see_nothing_of_an_image_are_right(method):
    border = {"inputs": 2, "outputs": 3, "height": 2, "width": 1, "kernel": 2, "tile": {"y": 2}}
    right("conv2d_fw_f32", border | {"padding": (6, 6, 3, 3), "method": method})


@pytest.mark.parametrize("method", METHODS)
def test_values_that_are_no_numbers_are_copied_as_they_are(method):
    x = np.zeros((1, 3, 8, 8), np.float32)
    x[0, 1, 2, 3], x[0, 2, 5, 7] = np.nan, np.inf
    w = np.ones((5, 3, 3, 3), np.float32)
    outputs, report = launch(
        "conv2d_fw_f32", SQUARE | {"padding": 1, "method": method}, inputs={"X": x, "W": w}
    )
    assert report.is_correct
    assert (np.isnan(outputs["Y"]).sum(), np.isinf(outputs["Y"]).sum()) == (5 * 9, 5 * 6)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.sampled(3)
def test_every_kind_of_chip_has_columns_by_dma(chip):
    few = {"height": 5, "width": 4, "padding": 1, "cores": 3, "method": "columns_by_dma"}
    for step in STEPS:
        assert is_right_without_time(f"conv2d_{step}_f32", ODD | few, CHIPS[chip])


def test_columns_of_images_of_any_size_come_while_others_are_multiplied():
    shape = LAYER | {"inputs": 8, "outputs": 16, "height": 31, "width": 27, "layout": "hwc"}
    for step in ("fw", "wg"):
        point = shape | {"method": "columns_by_dma", "tile": {}}
        assert right(f"conv2d_{step}_f32", point, PULP).dma_overlap > 0.8


@pytest.mark.parametrize(("step", "part"), [("fw", 0.94), ("wg", 0.95)])
def test_rows_that_come_by_dma_take_less_time_than_rows_that_cores_make(step, part):
    shape = LAYER | {"stride": 2, "layout": "hwc"}
    by_cores, by_dma = (
        right(f"conv2d_{step}_f32", shape | {"method": method}, PULP) for method in METHODS
    )
    assert by_dma.cycles <= part * by_cores.cycles


# Refusals

SHARED = "net: others share {} in L1, where the method needs another layout; take the direct one"


def test_a_layout_in_l1_that_only_the_method_needs_is_not_shared_with_others():
    for step, method, names in (
        ("fw", "columns_by_dma", "X"), ("ig", "columns", "W"), ("ig", "columns_by_dma", "dY, W")
    ):  # fmt: skip
        family = family_of(f"conv2d_{step}_f32")
        arguments = family.arguments(**SQUARE, method=method)
        tensors, k = family.tensors(arguments), new_kernel(PULP, "net")
        shared = Resident.of(family, arguments, tensors, keeps_all=True)
        with pytest.raises(KernelError, match=f"^{re.escape(SHARED.format(names))}$"):
            shared.compute(k, Team(k, 8), dict.fromkeys(tensors, 0x1000_0000))


def test_columns_that_do_not_fit_say_what_would():
    message = (
        "conv2d_fw_f32: a tile of n = 1, y = 8, x = 32, co = 32, ci = 16 needs 378880 bytes of L1 "
        "with buffers = 2, 57344 are free; the largest that fits is "
    )
    tile = {"n": 1, "y": 8, "x": 32, "co": 32, "ci": 16}
    with pytest.raises(KernelError, match=f"^{re.escape(message)}.*$"):
        launch("conv2d_fw_f32", LAYER | {"method": "columns_by_dma", "tile": tile})
