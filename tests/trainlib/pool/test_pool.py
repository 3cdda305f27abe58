"""Pooling: windows, strides, borders, layouts and teams; NaN; torch's meaning; refusals."""

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.trainlib.primitives import WARM, check, check_in_registers, check_with_torch
from trainlib.launch import launch, program
from trainlib.pool.ops import FAMILIES
from trainlib.primitive.element import ELEMENTS

NAMES = [family.name for family in FAMILIES if family.name.endswith("_f32")]
POINTS = (
    {"c": 1, "h": 1, "w": 1, "kernel": (1, 1)},
    {"c": 3, "h": 7, "w": 6, "kernel": (3, 2), "stride": (2, 1), "pad": (1, 1)},
    {"b": 2, "c": 3, "h": 7, "w": 5, "kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "cores": 4},
    {"b": 2, "c": 5, "h": 4, "w": 7, "kernel": (2, 2), "stride": (1, 3), "cores": 3},
    {"c": 2, "h": 6, "w": 7, "kernel": (6, 7)},
    {"c": 1, "h": 3, "w": 3, "kernel": (3, 3), "pad": (1, 1)},
    {"c": 19, "h": 5, "w": 2, "kernel": (5, 1), "stride": (1, 1), "pad": (2, 0)},
    {"b": 1, "c": 4, "h": 2, "w": 9, "kernel": (1, 3), "stride": (1, 1), "pad": (0, 1), "cores": 1},
)
WIDE = (
    {"c": 3, "h": 16, "w": 16, "kernel": 16},
    {"c": 2, "h": 20, "w": 13, "kernel": (20, 9), "stride": (1, 2), "pad": (9, 4)},
    {"b": 2, "c": 9, "h": 13, "w": 14, "kernel": (12, 11), "stride": (13, 12), "pad": (3, 0)},
    {"c": 5, "h": 9, "w": 10, "kernel": 7, "stride": 1, "pad": 3, "cores": 3},
    {"c": 2, "h": 300, "w": 1, "kernel": (299, 1), "stride": 1, "cores": 1},
    {"c": 3, "h": 12, "w": 15, "kernel": (5, 7), "stride": (2, 4), "pad": (2, 0)},
    {"c": 3, "h": 37, "w": 3, "kernel": (12, 3), "stride": (12, 3), "cores": 2},
    {"c": 2, "h": 10, "w": 22, "kernel": (4, 10), "stride": (4, 10), "pad": (1, 0)},
)
LAYOUTS = pytest.mark.parametrize("layout", ["chw", "hwc"])
EACH = pytest.mark.parametrize("name", NAMES)


@pytest.mark.parametrize("point", POINTS, ids=str)
@LAYOUTS
@EACH
@pytest.mark.sampled
def test_every_window_and_layout_is_right(name, layout, point):
    check(name, point | {"layout": layout})


@pytest.mark.parametrize("point", WIDE, ids=str)
@LAYOUTS
@EACH
@pytest.mark.sampled
def test_windows_of_any_size_are_right(name, layout, point):
    check(name, point | {"layout": layout})


@pytest.mark.parametrize("name", [name for name in NAMES if "avg" in name])
@pytest.mark.parametrize("point", WIDE[1:4], ids=str)
def test_elements_outside_may_not_count_in_wide_windows(name, point):
    check(name, point | {"counts_pad": False})


@EACH
def test_wide_windows_are_right_where_floats_have_registers_of_their_own(name):
    _, report = launch(name, WIDE[2], "pulp-cv32e40p", guard=64)
    assert report.is_correct
    assert report.stray_writes == []


@EACH
def test_addresses_of_wide_windows_may_be_in_registers(name):
    check_in_registers(name, WIDE[3])


@LAYOUTS
@pytest.mark.parametrize("tile", [{}, {"c": 1, "y": 2}])
@EACH
@pytest.mark.sampled
def test_wide_windows_are_cut_into_tiles(name, tile, layout):
    point = {"c": 3, "h": 17, "w": 13, "kernel": (12, 11), "stride": (2, 1), "pad": (5, 5)}
    check(name, point | {"tile": tile, "layout": layout})


@pytest.mark.parametrize("place", [(0, 0), (5, 9), (15, 15)])
def test_the_last_nan_of_a_wide_window_counts_and_the_first_of_equals(place):
    point = {"c": 3, "h": 16, "w": 16, "kernel": 16}
    x = np.full((1, 3, 16, 16), -np.inf, np.float32)
    x[0, 1, 2, 3] = x[0, 1, 5, 1] = 4
    x[0, 2, :4] = np.inf
    x[0, 2, 0, 0] = x[0, 2][place] = np.nan
    results = check("maxpool2d_fw_f32", point, {"x": x})
    numbers = [0, 2 * 16 + 3, place[0] * 16 + place[1]]
    assert results["index"].ravel().tolist() == numbers
    check_with_torch("maxpool2d_fw_f32", point, golden_max(point), {"x": x})


@pytest.mark.parametrize(
    "more", [{}, {"tile": {}}, {"tile": {"c": 1, "y": 2}}, {"cores": 3}], ids=str
)
@pytest.mark.parametrize(
    "shape",
    [
        {"kernel": 2},
        {"kernel": 3, "stride": 2, "pad": 1},
        {"kernel": (2, 3), "stride": 1, "pad": (1, 0)},
        {"kernel": (1, 4)},
        {"kernel": (9, 7), "stride": (3, 2), "pad": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
@LAYOUTS
@pytest.mark.sampled
def test_nan_and_infinities_anywhere_are_found(layout, element, shape, more):
    point = {"b": 2, "c": 3, "h": 12, "w": 13, "layout": layout} | shape
    rng = np.random.default_rng(0)
    values = [*range(-3, 4), -0.0, np.nan, -np.nan, np.inf, -np.inf]
    x = rng.choice(values, (2, 3, 12, 13), p=[*[0.115] * 8, *[0.02] * 4]).astype(element.dtype)
    if layout == "hwc":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    check(f"maxpool2d_fw_{element.name}", point | more, {"x": x})


def test_what_overflows_where_elements_are_added_is_no_nan():
    large = np.full((1, 2, 8, 8), 3e38, np.float32)
    large[0, 1, 4] = -np.inf
    results = check("maxpool2d_fw_f32", {"c": 2, "h": 8, "w": 8, "kernel": 2}, {"x": large})
    assert np.isfinite(results["y"]).all()


@pytest.mark.parametrize(("name", "each"), [("avgpool2d_fw_f32", 2), ("avgpool2d_bw_f32", 1)])
def test_an_element_of_a_wide_window_takes_a_load_and_an_addition_or_a_store(name, each):
    """Each core has one of eight means of 16 x 16."""
    point = {"c": 8, "h": 16, "w": 16, "kernel": 16}
    _, report = launch(name, point, WARM)
    assert each * 256 < report.cycles < (each + 0.5) * 256 + 150


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
@pytest.mark.parametrize("tile", [None, {}, {"c": 1, "y": 3}], ids=str)
@pytest.mark.parametrize("shape", [{"kernel": 3, "pad": 1}, {"kernel": 2, "pad": 1}], ids=str)
@LAYOUTS
@pytest.mark.sampled
def test_gradients_of_overlapping_means_are_right(layout, shape, tile, element):
    point = {"b": 2, "c": 3, "h": 10, "w": 7, "stride": 1, "layout": layout} | shape
    check(f"avgpool2d_bw_{element.name}", point | ({} if tile is None else {"tile": tile}))


def test_gradients_of_overlapping_means_take_as_long_as_means():
    point = {"c": 8, "h": 16, "w": 16, "kernel": 3, "stride": 1, "pad": 1}
    cycles = [launch(f"avgpool2d_{way}_f32", point, WARM)[1].cycles for way in ("fw", "bw")]
    assert cycles[1] < 1.1 * cycles[0]


@EACH
def test_columns_of_wide_windows_may_be_far_from_each_other(name):
    point = {"c": 520, "h": 2, "w": 71, "kernel": (2, 70), "stride": 1, "layout": "hwc"}
    _, report = launch(name, point, load_chip("pulp", {"l1.size": 0x100000}), guard=64)
    assert report.is_correct
    assert report.stray_writes == []
    assert report.dma_overlap is not None


@LAYOUTS
@pytest.mark.parametrize("name", [name for name in NAMES if "avg" in name])
def test_elements_outside_may_not_count(name, layout):
    check(name, POINTS[2] | {"layout": layout, "counts_pad": False})


@pytest.mark.parametrize("name", [name for name in NAMES if "bw" in name])
def test_planes_of_all_regions_are_the_same_cores(name):
    """Windows that overlap add to the same elements; 130 planes of one window a region."""
    point = {"c": 130, "h": 2, "w": 2, "kernel": (2, 2), "stride": (1, 1), "pad": (1, 1)}
    check(name, point)


@LAYOUTS
@EACH
def test_addresses_may_be_in_registers(name, layout):
    check_in_registers(name, POINTS[2] | {"layout": layout})


def test_channels_far_from_each_other_are_reached():
    point = {"c": 520, "h": 3, "w": 3, "kernel": (2, 2), "stride": (1, 1), "layout": "hwc"}
    for name in NAMES:
        check(name, point)


def test_nan_infinity_and_equals_are_torchs():
    nan, inf = np.nan, np.inf
    x = np.array(
        [
            *([nan, 1, 5, nan], [2, nan, nan, 9], [-inf, -inf, inf, inf], [-inf, -inf, -nan, inf]),
            *([3, 3, -0.0, 0.0], [3, 3, 0.0, -0.0]),
        ],
        np.float32,
    ).reshape(1, 1, 6, 4)
    point = {"c": 1, "h": 6, "w": 4, "kernel": (2, 2)}
    check("maxpool2d_fw_f32", point, {"x": x})
    check_with_torch("maxpool2d_fw_f32", point, golden_max(point), {"x": x})
    large = {"c": 1, "h": 6, "w": 4, "kernel": (6, 4)}
    for place in ((0, 0), (0, 5), (0, 3)):
        x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 1, 6, 4)
        x[0, 0, place[1], place[0]] = nan
        check("maxpool2d_fw_f32", large, {"x": x})


@pytest.mark.parametrize("point", [p for p in (*POINTS, *WIDE[:4]) if p["c"] < 10], ids=str)
def test_the_references_are_torchs(point):
    def golden_average(counts_pad):
        def golden(torch, x):
            stride = point.get("stride", point["kernel"])
            return torch.nn.functional.avg_pool2d(
                x, point["kernel"], stride, point.get("pad", 0), count_include_pad=counts_pad
            )

        return golden

    def backward(forward):
        def golden(torch, dy):
            x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
            forward(torch, x).backward(dy)
            return x.grad

        return golden

    check_with_torch("maxpool2d_fw_f32", point, golden_max(point))
    shape = point.get("b", 1), point["c"], point["h"], point["w"]
    check_with_torch("maxpool2d_bw_f32", point, backward_of_indices(shape))
    for counts in (True, False):
        chosen = point | {"counts_pad": counts}
        check_with_torch("avgpool2d_fw_f32", chosen, golden_average(counts))
        check_with_torch("avgpool2d_bw_f32", chosen, backward(golden_average(counts)))


def backward_of_indices(shape):
    def golden(torch, dy, index):
        planes = torch.zeros(*shape[:2], shape[2] * shape[3], dtype=torch.float64)
        planes.scatter_add_(2, index.long().flatten(2), dy.flatten(2))
        return planes.reshape(shape)

    return golden


def golden_max(point):
    def golden(torch, x):
        stride = point.get("stride", point["kernel"])
        return torch.nn.functional.max_pool2d(
            x, point["kernel"], stride, point.get("pad", 0), return_indices=True
        )

    return golden


@pytest.mark.parametrize("number", [-1, 42])
def test_a_saved_index_out_of_its_plane_is_refused(number):
    point = {"c": 2, "h": 6, "w": 7, "kernel": (2, 2)}
    index = np.zeros((1, 2, 3, 3), np.int32)
    index[0, 1, 2, 0] = number
    inputs = {"dy": np.zeros((1, 2, 3, 3), np.float32), "index": index}
    message = (
        r"^maxpool2d_bw_f32: index\[0, 1, 2, 0\] is "
        rf"{number}; it takes 0 to 41$"
    )
    with pytest.raises(ValueError, match=message):
        program("maxpool2d_bw_f32", point, inputs=inputs)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (
            {"kernel": (3, 3), "pad": (1, 2)},
            r"^pool: pad \(1, 2\) is more than half of kernel \(3, 3\)$",
        ),
        (
            {"kernel": (2, 8)},
            r"^pool: kernel \(2, 8\) is larger than x, \(6, 7\) with pad \(0, 0\)$",
        ),
    ],
)
def test_impossible_windows_are_refused(point, message):
    with pytest.raises(KernelError, match=message):
        program("maxpool2d_fw_f32", {"c": 2, "h": 6, "w": 7} | point)


def test_one_number_is_for_both_directions():
    shape = {"c": 2, "h": 6, "w": 7}
    for one, both in (
        ({"kernel": 3, "stride": 2, "pad": 1}, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
        ({"kernel": 2}, {"kernel": (2, 2)}),
    ):
        built = program("avgpool2d_bw_f32", shape | one)
        assert built.program == program("avgpool2d_bw_f32", shape | both).program
