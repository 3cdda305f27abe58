"""What the table of steps takes: no point of a space is too large when it is built."""

from itertools import product
from random import Random

import pytest

from autotuner.schedule_size import Tables, most_steps
from autotuner.space import Space
from autotuner.tile_candidates import MOST_TILES, count_of
from firmware.runtime import DATA_OFFSET, Team
from soc.chip.spec import load_chip
from trainlib.launch import program
from trainlib.tiling.plan import RING, Plan
from trainlib.tiling.tile_size import Grid

CHIP = load_chip("pulp")
STACKS = 8192
CONVOLUTION = {"inputs": 8, "outputs": 8, "height": 24, "width": 24, "kernel": 3, "padding": 1}
STRIDED = {"inputs": 4, "outputs": 4, "height": 33, "width": 31, "kernel": 7, "stride": 3,
           "padding": 3}  # fmt: skip
LAYERS = [
    ("conv2d_fw_f32", CONVOLUTION),
    ("conv2d_wg_f32", CONVOLUTION | {"bias": True}),
    ("conv2d_ig_f32", CONVOLUTION | {"stride": 2}),
    ("conv2d_ig_f32", STRIDED),
    ("conv2d_wg_f32", STRIDED | {"layout": "hwc"}),
    ("dwconv2d_ig_f32", {"inputs": 32, "height": 24, "width": 24, "kernel": 5, "padding": 2}),
    ("pwconv2d_wg_f32", {"inputs": 32, "outputs": 32, "height": 24, "width": 24}),
    ("linear_fw_f32", {"inputs": 640, "outputs": 128, "accumulate": True}),
    ("adam_f32", {"shape": [40, 1000]}),
    ("transpose_f32", {"shape": [100, 300], "axes": [1, 0]}),
]

QUICK = 0, 6, 9
"""Layers whose tiles are planned regularly."""
BUILT = 5
"""Points of a space that are built regularly."""


def chip_with(l1=65536 - STACKS, l2=None):
    """So many bytes for buffers."""
    sizes = {"l1": CHIP.l1.model_copy(update={"size": STACKS + l1})}
    if l2:
        sizes["l2"] = CHIP.l2.model_copy(update={"size": l2})
    return CHIP.model_copy(update=sizes)


def drawn(moments, space, method, buffers, cores, most):
    """At most so many of the tiles in the space that leave the fewest bytes."""
    choice = space.choice(buffers, method)
    tiles = list(space.estimates(buffers, method, cores))
    grids = [Grid(choice, [[size] for _, size in tile]) for tile in tiles]
    left = [choice.free - grid.bytes.item() for grid in grids]
    close = [tile for _, tile in sorted(zip(left, tiles, strict=True))[:40]]
    return moments.sample(close, min(len(close), most))


@pytest.mark.parametrize("free", [57344, 16384])
@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_every_tile_near_the_limit_of_l1_has_room_for_its_entries(request, number, free):
    is_quick = number in QUICK and free < 20_000
    if not is_quick and not request.config.getoption("--full"):
        pytest.skip("plans thousands of tiles; --full does")
    kernel, arguments = LAYERS[number]
    moments, seen = Random(number), 0
    is_full = request.config.getoption("--full")
    most, teams = (3, [*product((1, 2), (8, 4))]) if is_full else (1, [(2, 8), (1, 4)])
    space = Space.of(kernel, arguments, chip_with(free), sizes=9)
    for method in space.methods:
        for buffers, cores in teams:
            choice = space.choice(buffers, method)
            for tile in drawn(moments, space, method, buffers, cores, most):
                sizes = dict(tile)
                k = space.kernel()
                how = choice.tiling, space.tensors, sizes, buffers
                plan = Plan.of(k, Team(k, cores), *how)
                grid = Grid(choice, [[size] for size in sizes.values()])
                is_longer = any(each.copy.burst for step in plan.steps for each in step.transfers)
                assert is_longer or plan.entry_size <= Tables(grid).most_entry(0, cores)
                assert len(plan.steps) <= most_steps(grid).item()
                assert grid.bytes.item() + RING * plan.entry_size <= choice.free
                seen += 1
    assert seen


@pytest.mark.parametrize(
    ("kernel", "arguments", "free"),
    [
        ("relu_fw_f32", {"shape": [40, 1000], "unroll": 1}, 8_000),
        ("conv2d_fw_f32", {"inputs": 2, "outputs": 3, "height": 20, "width": 20, "kernel": 3,
                           "method": "columns_by_dma", "rows": 1, "cols": 1, "split": [8, 1],
                           "buffers": 2, "cores": 8,
                           "tile": {"x": 18}}, 12_000),
        ("softmax_fw_f32", {"shape": [2, 800], "split": "rows", "unroll": 1}, 3_000),
        ("rnn_bw_f32", {"steps": 2, "inputs": 20, "hidden": 20, "buffers": 2, "cores": 8,
                        "tile": {"sums": 7}}, 6_000),
    ],
)  # fmt: skip
def test_every_point_of_a_space_can_be_built(request, kernel, arguments, free):
    chip = chip_with(free)
    points = list(Space.of(kernel, arguments, chip, sizes=3))
    assert len(points) > 5
    every = 1 if request.config.getoption("--full") else -(-len(points) // BUILT)
    for point in points[::every]:
        program(kernel, arguments | point.arguments, chip)


def test_tiles_whose_table_does_not_fit_l2_are_no_points():
    shape, most = {"shape": [100, 1000], "buffers": 2}, []
    narrow = chip_with(l2=DATA_OFFSET + 2 * 400_000 + 14_000)
    for chip in (CHIP, narrow):
        space = Space.of("relu_fw_f32", shape, chip)
        most.append(max(count_of(space.tiling().dims, dict(tile)) for tile in space.tiles(2)))
    for point in list(space)[::3]:
        program("relu_fw_f32", shape | point.arguments, narrow)
    assert MOST_TILES >= most[0] > most[1] > 40
