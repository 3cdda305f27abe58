"""Interpolation: sizes up and down, layouts, splits and teams; torch's meaning."""

import re

import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.trainlib.primitives import check, check_in_registers, check_with_torch
from trainlib.interpolate.ops import FAMILIES
from trainlib.launch import launch, program

POINTS = (
    {"c": 1, "h": 1, "w": 1, "out": (1, 1)},
    {"b": 2, "c": 5, "h": 3, "w": 4, "out": (7, 6), "cores": 3},
    {"c": 9, "h": 4, "w": 3, "out": (8, 6), "layout": "hwc"},
    {"b": 2, "c": 3, "h": 7, "w": 5, "out": (3, 2), "layout": "hwc", "cores": 4},
    {"c": 2, "h": 5, "w": 1, "out": (1, 9), "cores": 1},
    {"c": 2, "h": 2, "w": 6, "out": (2, 6)},
)
NAMES = [family.name for family in FAMILIES if family.name.endswith("_f32")]
POINTS_OF_ALL = [
    (name, point | options)
    for name in NAMES
    for point in POINTS
    for options in (({"aligned": False}, {"aligned": True}) if "bilinear" in name else ({},))
]


@pytest.mark.parametrize(("name", "point"), POINTS_OF_ALL, ids=str)
@pytest.mark.sampled(3)
def test_every_size_and_layout_is_right(name, point):
    check(name, point)


@pytest.mark.parametrize("split", ["rows", "columns"])
@pytest.mark.parametrize("name", ["nearest_fw_f32", "bilinear_fw_f32"])
def test_every_split_is_right(name, split):
    check(name, POINTS[1] | {"split": split})


@pytest.mark.parametrize("name", NAMES)
def test_addresses_may_be_in_registers(name):
    check_in_registers(name, POINTS[1])


@pytest.mark.parametrize(("name", "point"), POINTS_OF_ALL, ids=str)
def test_the_references_are_torchs(name, point):
    order = (0, 3, 1, 2) if point.get("layout") == "hwc" else (0, 1, 2, 3)
    back = (0, 2, 3, 1) if point.get("layout") == "hwc" else (0, 1, 2, 3)
    shape = point.get("b", 1), point["c"], point["h"], point["w"]

    def resized(torch, x):
        if "nearest" in name:
            return torch.nn.functional.interpolate(x, point["out"])
        aligned = point["aligned"]
        return torch.nn.functional.interpolate(x, point["out"], None, "bilinear", aligned)

    def forward(torch, x):
        return resized(torch, x.permute(order)).permute(back)

    def backward(torch, dy):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        resized(torch, x).backward(dy.permute(order))
        return x.grad.permute(back)

    check_with_torch(name, point, forward if "_fw_" in name else backward)


def test_sizes_that_no_multiplication_finds_are_right():
    check("nearest_fw_f32", {"c": 1, "h": 1, "w": 1500, "out": (1, 1499)})


TIGHT = load_chip("pulp", {"l1.size": 0x3000})
LONG = (
    {"b": 2, "c": 3, "h": 3, "w": 900, "out": (5, 700)},
    {"c": 2, "h": 2, "w": 600, "out": (4, 1200), "layout": "hwc"},
    {"c": 1, "h": 1, "w": 1500, "out": (1, 400)},
    {"c": 1, "h": 2, "w": 1500, "out": (1, 1500), "layout": "hwc"},
)


@pytest.mark.parametrize("point", LONG, ids=str)
@pytest.mark.parametrize(
    ("name", "how"), [*((n, {}) for n in NAMES), *((n, {"aligned": True}) for n in NAMES[2:])]
)
@pytest.mark.sampled
def test_lines_larger_than_l1_are_cut(name, how, point):
    _, report = launch(name, point | how, TIGHT, guard=64, max_cycles=10_000_000)
    assert report.is_correct
    assert report.stray_writes == []
    one_way = point["h"] == point["out"][0]
    assert ("rows" in report.regions) == (not one_way)
    assert "columns" in report.regions


def test_one_element_for_more_than_l1_has_is_refused():
    message = (
        "nearest_bw_f32: the smallest tile of b = 1, c = 1, y = 2 needs 6864 bytes of L1 with "
        "buffers = 2, 4096 are free; none fits"
    )
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program("nearest_bw_f32", {"c": 1, "h": 1, "w": 2, "out": (1, 1701)}, TIGHT)
