"""The points of a layer: which there are, what they take of L1, what is refused."""

from dataclasses import replace

import pytest

from autotuner.footprint import Footprint
from autotuner.space import BLOCKS, MOST_TILES, Layer, Point, Space, thinned
from firmware.builder import KernelError
from soc.spec import load_chip
from soc.toml_file import ConfigError
from trainlib.launch import program

CHIP = load_chip("pulp")
LINEAR = {"inputs": 640, "outputs": 128}
CONVOLUTION = {"inputs": 8, "outputs": 8, "height": 12, "width": 12, "kernel": 3, "padding": 1}


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ("linear_fw_f32", LINEAR),
        ("linear_wg_f32", {"inputs": 64, "outputs": 16}),
        ("pwconv2d_ig_f32", {"inputs": 16, "outputs": 8, "height": 5, "width": 5}),
        ("conv2d_fw_f32", CONVOLUTION),
        ("relu_fw_f32", {"shape": [100]}),
        ("pad_f32", {"shape": [4], "before": [1], "after": [1]}),
    ],
)
def test_points_are_counted_without_being_listed_and_are_all_different(kernel, arguments):
    space = Space.of(kernel, arguments, CHIP, sizes=3, cores=(8, 4))
    points = list(space)
    assert len(space) == len(points) == len(set(points)) > 0
    assert space.default() in points
    assert set(space.paper()) <= set(points)


def test_the_papers_space_is_one_tile_if_the_layer_fits_l1_else_the_largest():
    small = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 16}, CHIP)
    assert {point.tile for point in small.paper()} == {None}
    large = Space.of("linear_fw_f32", LINEAR, CHIP)
    tried = {point.tile: point.volume for point in large.paper(4)}
    others = [point.volume for point in large if point.tile not in tried and point.buffers == 1]
    assert (len(tried), min(tried.values()) >= max(others)) == (4, True)
    assert len(large.paper(4)) == 4 * len(large.kernels)


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "arguments", "method"),
    [
        ("linear_fw_f32", LINEAR, "direct"),
        ("conv2d_fw_f32", CONVOLUTION, "direct"),
        ("conv2d_fw_f32", CONVOLUTION, "columns"),
        ("conv2d_ig_f32", CONVOLUTION, "direct"),
    ],
)
def test_bytes_of_tiles_are_those_that_the_launcher_takes(kernel, arguments, method, buffers):
    space = Space.of(kernel, arguments, CHIP, sizes=3)
    choice = space.choice(buffers, method)
    for tile in space.tiles(buffers, method)[::7][:3]:
        more = {} if method == "direct" else {"method": method}
        built = program(kernel, arguments | more | {"tile": dict(tile), "buffers": buffers})
        taken = Footprint.of(built, CHIP)
        from trainlib.tile_choice import Grid

        wanted = int(Grid(choice, [[size] for _, size in tile]).bytes.item())
        entries = -(-taken.buffers["entries"] // 16) * 16
        rounded = sum(-(-size // 16) * 16 for size in taken.buffers.values())
        assert rounded == wanted + entries
        assert taken.l1_bytes <= rounded < taken.l1_bytes + 16


def test_no_point_has_more_tiles_than_are_worth_it_or_than_fit():
    space = Space.of("conv2d_fw_f32", CONVOLUTION, CHIP, sizes=9)
    sizes = {dim.name: dim.size for dim in space.tiling().dims}
    for tile in space.tiles(2):
        count = 1
        for name, size in tile:
            count *= -(-sizes[name] // size)
        assert count <= MOST_TILES


def test_what_the_layer_says_itself_is_not_varied():
    given = CONVOLUTION | {"rows": 2, "cols": 2, "tile": {"y": 4}, "buffers": 1, "cores": 2}
    space = Space.of("conv2d_fw_f32", given, CHIP)
    for point in space:
        assert "rows" not in dict(point.kernel)
        assert (dict(point.tile)["y"], point.buffers, point.cores) == (4, 1, 2)


def test_a_point_is_written_as_a_person_reads_it():
    point = Point((("co", 4), ("ci", 8)), (("rows", 2), ("split", (1, 8))), 2, 8)
    assert str(point) == "co=4 ci=8  rows=2 split=1x8  2 buf  8c"
    assert str(Point(None, (), 1, 4)) == "all in L1  own blocking  1 buf  4c"
    assert point.arguments == {
        "tile": {"co": 4, "ci": 8}, "rows": 2, "split": (1, 8), "buffers": 2, "cores": 8
    }  # fmt: skip


def test_layers_are_values():
    nested = Layer.of("linear_fw_f32", LINEAR | {"tile": {"co": 8}})
    assert nested == Layer.of("linear_fw_f32", {"tile": {"co": 8}} | LINEAR)
    assert hash(nested) == hash(nested)
    assert nested.given == LINEAR | {"tile": {"co": 8}}
    assert Layer.of("relu_fw_f32", {"shape": [2, 3]}).given == {"shape": (2, 3)}


def test_sizes_are_thinned_between_the_largest_and_the_smallest():
    assert thinned([9, 7, 5, 3, 1], 3) == [9, 5, 1]
    assert thinned([4, 1], 6) == [4, 1]
    assert len(BLOCKS) == len(set(BLOCKS))


def test_what_cannot_be_a_layer_is_refused():
    with pytest.raises(ConfigError, match=r"^kernel 'linear_f32': no such kernel; did you mean "):
        Space.of("linear_f32", LINEAR, CHIP)
    with pytest.raises(ConfigError, match=r"^tune: args.outputs: missing$"):
        Layer.of("linear_fw_f32", {"inputs": 1}, "tune")


def test_a_layer_that_fits_no_tile_says_what_the_smallest_needs():
    tiny = CHIP.model_copy(update={"l1": CHIP.l1.model_copy(update={"size": 8192 + 512})})
    wide = {"inputs": 1, "outputs": 1, "height": 1, "width": 200}
    with pytest.raises(
        KernelError,
        match=r"^pwconv2d_fw_f32: the smallest tile of n = 1, y = 1, co = 1, ci = 1 needs 1616 "
        r"bytes of L1 with buffers = 1, 512 are free; none fits$",
    ):
        Space.of("pwconv2d_fw_f32", wide, tiny)
    with pytest.raises(
        KernelError, match=r"^berhu_loss_f32: it has no tiles, and does not fit L1$"
    ):
        Space.of("berhu_loss_f32", {"shape": [99999]}, CHIP)
    one = replace(Space.of("linear_fw_f32", LINEAR, CHIP), sizes=1)
    with pytest.raises(
        KernelError, match=r"^linear_fw_f32: no tile of 1 sizes a dimension fits L1$"
    ):
        one.refuse()
