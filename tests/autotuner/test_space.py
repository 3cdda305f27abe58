"""The points of a layer: which there are, what they take of L1, what is refused."""

from dataclasses import replace

import pytest

from autotuner.blockings import BLOCKS, PAPER_KERNELS, PaperKernel, extents
from autotuner.footprint import Footprint
from autotuner.point import Layer, Point
from autotuner.space import Space
from autotuner.tile_candidates import MOST_TILES, thinned
from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from trainlib.launch import program
from trainlib.tiling.plan import Plan
from trainlib.tiling.tile_size import Grid

CHIP = load_chip("pulp")
LINEAR = {"inputs": 640, "outputs": 128}
DEPTHWISE = {"inputs": 8, "height": 12, "width": 12, "kernel": 3, "padding": 1}
CHANNELS = {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1}
CONVOLUTION = {"inputs": 8, "outputs": 8, "height": 12, "width": 12, "kernel": 3, "padding": 1}


def with_l1(free):
    """The chip with so many bytes in L1 that stacks do not take."""
    return CHIP.model_copy(update={"l1": CHIP.l1.model_copy(update={"size": 8192 + free})})


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ("linear_fw_f32", LINEAR),
        ("linear_wg_f32", {"inputs": 64, "outputs": 16}),
        ("pwconv2d_ig_f32", {"inputs": 16, "outputs": 8, "height": 5, "width": 5}),
        ("conv2d_fw_f32", CONVOLUTION),
        ("dwconv2d_fw_f32", CHANNELS),
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


def test_a_space_opens_before_its_fastest_tile_is_looked_for(monkeypatch):
    with monkeypatch.context() as unplanned:
        unplanned.setattr(Plan, "of", None)
        space = Space.of("conv2d_wg_f32", CHANNELS | {"outputs": 64}, CHIP)
        assert space.fits(1, "direct", 8)
    assert not space.is_resident
    assert len(space) == len(list(space)) > 0


def test_the_papers_space_is_one_tile_if_the_layer_fits_l1_else_the_largest():
    small = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 16}, CHIP)
    assert {point.tile for point in small.paper()} == {None}
    large = Space.of("linear_fw_f32", LINEAR, CHIP)
    tried = {point.tile: point.volume for point in large.paper(4)}
    others = [point.volume for point in large if point.tile not in tried and point.buffers == 1]
    assert (len(tried), min(tried.values()) >= max(others)) == (4, True)
    assert len(large.paper(4)) == 4 * len(large.paper_kernels("direct"))


def test_channels_that_belong_to_a_core_are_points_without_tiles_and_the_default():
    space = Space.of("dwconv2d_fw_f32", CHANNELS, CHIP)
    alone = [point for point in space if point.tile is None]
    assert {replace(point, kernel=()) for point in alone} == {
        Point(None, (), 2, cores, True) for cores in (8, 4)
    }
    widths = [dict(point.kernel).get("cols") for point in alone]
    assert widths == [None, 4, 2, 1] * 2
    assert space.default() == alone[0] == Point(None, (), 2, 8, True)
    assert alone[0].tile_shown == "own tiles"
    words = [
        program("dwconv2d_fw_f32", CHANNELS | how, CHIP).program.segments
        for how in ({}, alone[0].arguments)
    ]
    assert words[0] == words[1]


def test_so_are_lines_of_channels_that_cores_share_out():
    space = Space.of("dwconv2d_fw_f32", CHANNELS | {"inputs": 61}, CHIP)
    assert space.default() == Point(None, (), 2, 8, True)


@pytest.mark.parametrize("given", [{"buffers": 1}, {"tile": {"g": 8}}, {"layout": "hwc"}])
def test_where_cores_do_not_compute_by_themselves_there_is_no_such_point(given):
    space = Space.of("dwconv2d_fw_f32", CHANNELS | given, CHIP)
    assert all(point.tile is not None for point in space)
    assert space.default().tile is not None


def blockings(kernel, arguments, method="direct", cores=8):
    space = Space.of(kernel, arguments, CHIP)
    return [dict(items) for items in space.blockings(method, cores)]


def test_blockings_are_all_that_a_layer_can_have_and_each_once():
    product = {"inputs": 16, "outputs": 16, "height": 4, "width": 4}
    found = blockings("pwconv2d_fw_f32", product)
    assert len(found) == len({tuple(sorted(kernel.items())) for kernel in found})
    assert found[0] == {}
    assert {k.get("split") for k in found} == {None, (8, 1), (4, 2), (2, 4), (1, 8)}
    assert {(k["rows"], k["cols"]) for k in found if "rows" in k} == set(BLOCKS)
    assert {k.get("unroll", 1) for k in found} == {1, 2, 4}
    assert {"rows": 4, "cols": 4, "split": (4, 2), "unroll": 2} in found
    assert {"rows": 4, "cols": 4, "split": (8, 1)} not in found  # 2 rows are a core's part
    assert {k.get("split") for k in blockings("pwconv2d_fw_f32", product, cores=4)} == {
        None, (4, 1), (2, 2), (1, 4)
    }  # fmt: skip


def test_convolutions_have_turns_and_channels_and_im2col_is_a_product():
    gradient = blockings("conv2d_wg_f32", CONVOLUTION)
    assert {k.get("is_turned") for k in gradient} == {None, False, True}
    assert {k.get("channels") for k in gradient} == {None, 1, 2, 4}
    columns = blockings("conv2d_wg_f32", CONVOLUTION, "columns")
    assert {tuple(k) for k in columns if len(k) == 2} == {("method", "split")}
    assert all(k["method"] == "columns" for k in columns)
    deep = extents(Layer.of("conv2d_fw_f32", CONVOLUTION | {"layout": "hwc"}), "columns")
    assert deep[:2] == (144, 8)
    assert extents(Layer.of("conv2d_wg_f32", CONVOLUTION), "columns")[:2] == (8, 72)
    assert {k["method"] for k in blockings("conv2d_fw_f32", CONVOLUTION, "columns_by_dma")} == {
        "columns_by_dma"
    }
    back = Layer.of("conv2d_ig_f32", CONVOLUTION | {"inputs": 5, "stride": 2})
    assert extents(back, "columns_by_dma")[:2] == (5, 144)
    rows = Layer.of("conv2d_ig_f32", CONVOLUTION | {"inputs": 5, "layout": "hwc"})
    assert extents(rows, "columns")[:2] == (144, 5)
    assert extents(rows, "columns").depth == 72


def test_what_would_be_anothers_code_is_no_point():
    vector = blockings("linear_fw_f32", LINEAR)  # one row
    assert {k.get("rows", 1) for k in vector} == {1}
    assert {k.get("split") for k in vector} == {None, (1, 8), (1, 1)}
    outer = blockings("linear_wg_f32", LINEAR)  # one step
    assert {k.get("unroll") for k in outer} == {None}
    assert {k.get("rows", 1) for k in blockings("dwconv2d_fw_f32", DEPTHWISE)} == {1}
    transposed = CONVOLUTION | {"outputs": 3}
    assert max(k.get("rows", 1) for k in blockings("tconv2d_fw_f32", transposed)) == 2
    norm = blockings("layernorm_fw_f32", {"rows": 4, "columns": 8})
    assert {k.get("split") for k in norm} >= {None, "rows", "columns"}


def test_the_paper_has_24_kernels_and_they_fall_back_to_the_largest_that_a_layer_has():
    assert len(set(PAPER_KERNELS)) == 24
    assert len(BLOCKS) == len(set(BLOCKS)) == 11
    linear = Layer.of("linear_fw_f32", LINEAR)
    large = PaperKernel(4, 4, "columns")
    assert dict(large.on(linear, "direct", 8)) == {"rows": 1, "cols": 4, "split": (1, 8)}
    by_rows = PaperKernel(8, 1, "rows", 2)
    assert dict(by_rows.on(linear, "direct", 8)) == {
        "rows": 1, "cols": 1, "split": (1, 1), "unroll": 2
    }  # fmt: skip
    pointwise = {"inputs": 16, "outputs": 16, "height": 4, "width": 4}
    layer = Layer.of("pwconv2d_fw_f32", pointwise | {"unroll": 1})
    assert dict(by_rows.on(layer, "direct", 8)) == {"rows": 2, "cols": 1, "split": (8, 1)}
    convolution = Layer.of("conv2d_fw_f32", CONVOLUTION)
    assert dict(large.on(convolution, "columns", 8)) == {
        "method": "columns", "rows": 4, "cols": 4, "split": (1, 8)
    }  # fmt: skip
    assert large.on(Layer.of("relu_fw_f32", {"shape": [4]}), "direct", 8) == ()
    norm = Layer.of("layernorm_fw_f32", {"rows": 4, "columns": 8})
    assert large.on(norm, "direct", 8) == (("split", "columns"),)
    assert str(large) == "4 x 4 sums, columns partitioned"
    assert str(PaperKernel(1, 1, "rows", 2)) == "1 x 1 sums, rows partitioned, 2 steps a round"


def test_the_papers_policy_is_given_as_many_points_as_another_had():
    space = Space.of("linear_fw_f32", LINEAR, CHIP)
    kernels = len(space.paper_kernels("direct"))
    for budget in (1, kernels, 5 * kernels - 1, 5 * kernels):
        most = space.paper_tiles(budget)
        assert len(space.paper(most)) <= max(budget, kernels) < len(space.paper(most + 1))


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "arguments", "method"),
    [
        ("linear_fw_f32", LINEAR, "direct"),
        ("conv2d_fw_f32", CONVOLUTION, "direct"),
        ("conv2d_fw_f32", CONVOLUTION, "columns"),
        ("conv2d_fw_f32", CONVOLUTION | {"layout": "hwc", "stride": 2}, "columns_by_dma"),
        ("conv2d_wg_f32", CONVOLUTION | {"bias": True}, "columns_by_dma"),
        ("conv2d_ig_f32", CONVOLUTION, "direct"),
        ("conv2d_ig_f32", CONVOLUTION | {"stride": 2}, "columns"),
        ("conv2d_ig_f32", CONVOLUTION, "columns_by_dma"),
    ],
)
@pytest.mark.sampled
def test_bytes_of_tiles_are_those_that_the_launcher_takes(kernel, arguments, method, buffers):
    space = Space.of(kernel, arguments, CHIP, sizes=3)
    choice = space.choice(buffers, method)
    for tile in space.tiles(buffers, method)[::7][:3]:
        said = {} if method == "direct" else {"method": method}
        built = program(kernel, arguments | said | {"tile": dict(tile), "buffers": buffers})
        taken = Footprint.of(built, CHIP)
        grid = Grid(choice, [[size] for _, size in tile])
        entries = -(-taken.buffers["entries"] // 16) * 16
        more = grid.more_slots(choice.free - taken.buffers["entries"])
        wanted = grid.bytes.item() + sum(n * grid.buffer_bytes[name] for name, n in more.items())
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


def test_where_only_more_tiles_fit_all_that_fit_are_points():
    tiny = with_l1(1024)
    space = Space.of("relu_fw_f32", {"shape": [100_000]}, tiny)
    counts = [-(-100_000 // dict(tile)["d0"]) for tile in space.tiles(1)]
    assert min(counts) > MOST_TILES
    assert space.default().tile in space.tiles(space.default().buffers)


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


def test_a_layer_may_say_its_tile_and_its_buffers():
    given = LINEAR | {"tile": {"n": 1, "co": 8, "ci": 64}, "buffers": 2}
    space = Space.of("linear_fw_f32", given, CHIP, cores=(8,))
    assert {(point.tile, point.buffers) for point in space} == {
        ((("n", 1), ("co", 8), ("ci", 64)), 2)
    }
    with pytest.raises(
        KernelError,
        match=r"^linear_fw_f32: the smallest tile of n = 1, co = 128, ci = 640 needs 331904 bytes "
        r"of L1 with buffers = 2, 57344 are free; the largest that fits is n = 1, co = 26, "
        r"ci = 256$",
    ):
        Space.of("linear_fw_f32", LINEAR | {"tile": {"co": 128, "ci": 640}, "buffers": 2}, CHIP)


def test_all_cores_and_half_of_them_are_tried():
    assert Space.of("linear_fw_f32", LINEAR, CHIP).cores == (8, 4)
    assert Space.of("linear_fw_f32", LINEAR | {"cores": 3}, CHIP).cores == (3,)
    assert Space.of("linear_fw_f32", LINEAR, CHIP, cores=(2, 8)).cores == (2, 8)


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        ("pwconv2d_fw_f32", {"inputs": 64, "outputs": 64, "height": 50, "width": 20}),
        ("matmul_f32", {"n": 8, "k": 66, "m": 121, "tile": {}}),  # the rest comes first
    ],
)
def test_the_tile_that_the_primitive_takes_untold_is_in_the_space_and_can_be_built(kernel, shape):
    space = Space.of(kernel, shape, CHIP)
    default = space.default()
    assert default.tile in space.tiles(default.buffers)
    built, told = (program(kernel, shape | more) for more in ({}, default.arguments | {"cores": 8}))
    assert built.program.segments == told.program.segments


def test_what_cannot_be_a_layer_is_refused():
    with pytest.raises(ConfigError, match=r"^kernel 'linear_f32': no such kernel; did you mean "):
        Space.of("linear_f32", LINEAR, CHIP)
    with pytest.raises(ConfigError, match=r"^tune: args.outputs: missing$"):
        Layer.of("linear_fw_f32", {"inputs": 1}, "tune")


def test_a_layer_that_fits_no_tile_says_what_the_smallest_needs():
    tiny = with_l1(512)
    wide = {"inputs": 1, "outputs": 1, "height": 1, "width": 200}
    with pytest.raises(
        KernelError,
        match=r"^pwconv2d_fw_f32: the smallest tile of n = 1, y = 1, co = 1, ci = 1 needs 1616 "
        r"bytes of L1 with buffers = 1, 512 are free; none fits$",
    ):
        Space.of("pwconv2d_fw_f32", wide, tiny)
    with pytest.raises(
        KernelError,
        match=r"^berhu_loss_f32: the smallest tile of d0 = 4 needs 432 bytes of L1 with "
        r"buffers = 1, 256 are free; none fits$",
    ):
        Space.of("berhu_loss_f32", {"shape": [99999]}, with_l1(256))
    with pytest.raises(
        KernelError,
        match=r"^adam_corrections_f32: it has no tiles, and all of it needs 8 bytes of L1, "
        r"4 are free$",
    ):
        Space.of("adam_corrections_f32", {}, with_l1(4))
    one = replace(Space.of("linear_fw_f32", LINEAR, CHIP), sizes=1)
    with pytest.raises(
        KernelError, match=r"^linear_fw_f32: no tile of 1 sizes a dimension fits; try more sizes$"
    ):
        one.refuse()
    with pytest.raises(
        KernelError,
        match=r"^relu_fw_f32: 200000 tiles need 5600000 bytes of L2 for their schedule at least, "
        r"366080 are left; make them larger$",
    ):
        Space.of("relu_fw_f32", {"shape": [200_000], "tile": {"d0": 1}}, CHIP)
    with pytest.raises(
        KernelError,
        match=r"^linear_fw_f32: its tensors need 64032000 bytes of L2, 1966080 are free; take "
        r"smaller ones$",
    ):
        Space.of("linear_fw_f32", {"inputs": 4000, "outputs": 4000}, CHIP)
    with pytest.raises(KernelError, match=r"^linear_fw_f32: cores 9: the chip pulp has 8$"):
        Space.of("linear_fw_f32", LINEAR | {"cores": 9}, CHIP)
    with pytest.raises(
        KernelError,
        match=r"^softmax_fw_f32: the smallest tile of d0 = 1, d1 = 20000 needs 80400 bytes of L1 "
        r"with buffers = 1, 57344 are free; the largest that fits is d0 = 2, d1 = 6667$",
    ):
        Space.of("softmax_fw_f32", {"shape": [2, 20_000], "tile": {"d1": 20_000}}, CHIP)
