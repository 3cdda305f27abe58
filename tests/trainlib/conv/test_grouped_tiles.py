"""Groups of channels that are larger than L1: tiles have a part of a group's channels."""

import re

import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from trainlib.conv.grouped_tiles import GroupTiles
from trainlib.conv.ops import FAMILIES, FORWARD
from trainlib.launch import launch, program
from trainlib.registry import KERNELS

NAMES = [family.name for family in FAMILIES if family.phases]
WIDE = {"height": 7, "width": 6, "inputs": 34, "outputs": 22, "groups": 2, "kernel": (3, 3)}
WIDE |= {"stride": (2, 1), "padding": (1, 0, 0, 1), "batch": 2}
TIGHT = load_chip("pulp", {"l1.size": 0x3000})


def run(name, point, chip):
    point = point | {"bias": not name.endswith("ig_f32")}
    _, report = launch(name, point, chip, guard=64, max_cycles=10_000_000)
    assert report.is_correct
    assert report.stray_writes == []
    return report


@pytest.mark.parametrize(("layout", "accumulate"), [("chw", False), ("hwc", True)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled
def test_groups_larger_than_l1_are_cut(name, accumulate, layout):
    point = WIDE | {"accumulate": accumulate, "layout": layout}
    assert "dma_wait" in run(name, point, TIGHT).regions


@pytest.mark.parametrize(
    ("layout", "tile"),
    [("hwc", {"co": 3, "ci": 5}), ("chw", {"g": 2, "co": 4, "ci": 11, "n": 1, "y": 3})],
)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled
def test_any_part_of_groups_is_a_tile(name, tile, layout):
    run(name, WIDE | {"layout": layout, "tile": tile}, "pulp")


def test_groups_that_fit_are_not_cut():
    """Their tiles have all channels of a group: the copies of the whole take no more commands."""
    arguments = KERNELS["conv2d_fw_f32"].arguments.model_validate(WIDE)
    assert {dim.name for dim in FORWARD.tiling(arguments).dims} == {"n", "y", "x", "g"}
    dims = GroupTiles(FORWARD, arguments).tiling.dims
    assert {dim.name: dim.size for dim in dims} == {
        **{"n": 2, "y": 3, "x": 5, "g": 2},
        **{"co": 11, "ci": 17},
    }


def test_a_dimension_that_there_is_not_is_told_with_those_of_groups():
    message = "conv2d_fw_f32: tile.z = 3: no such dimension; there are n, y, x, g, co, ci"
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program("conv2d_fw_f32", WIDE | {"tile": {"z": 3}})
