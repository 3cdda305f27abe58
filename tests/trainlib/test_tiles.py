"""Primitives by tiles: on the chip, whatever the sizes, the buffers, the cores."""

import pytest

from tests.trainlib.tile_families import FAMILIES
from trainlib.launch import launch
from trainlib.registry import KERNELS

SHAPE = {"n": 13, "k": 11, "m": 7}
POINTS = (
    ("product", SHAPE | {"tile": {}}),
    ("product", SHAPE | {"tile": {"n": 13, "k": 11, "m": 7}}),
    ("product", SHAPE | {"tile": {"n": 8, "k": 5, "m": 4}}),
    ("product", SHAPE | {"tile": {"n": 3, "k": 11, "m": 7}, "cores": 3}),
    ("product", SHAPE | {"tile": {"n": 13, "k": 2, "m": 7}, "cores": 1}),
    ("product", SHAPE | {"tile": {"n": 5, "k": 11, "m": 1}}),
    ("product", {"n": 1, "k": 1, "m": 1, "tile": {}}),
    ("vector", {"count": 100, "tile": {"i": 16}}),
    ("vector", {"count": 100, "tile": {"i": 99}, "cores": 3}),
    ("vector", {"count": 7, "tile": {"i": 1}}),
    ("vector", {"count": 100, "tile": {"i": 40}, "cores": 1}),
    ("windows", {"height": 7, "width": 9, "before": 1, "after": 1, "tile": {"y": 3, "x": 4}}),
    ("windows", {"height": 6, "width": 4, "before": 2, "after": 2, "tile": {"y": 1, "x": 5}}),
    ("windows", {"height": 5, "width": 5, "kernel": 1, "channels": 5, "tile": {"x": 2, "c": 2}}),
    ("spread", {"height": 7, "width": 9, "before": 1, "after": 1, "tile": {"y": 3, "x": 4}}),
    ("spread", {"height": 7, "width": 9, "kernel": 2, "stride": 3, "tile": {"y": 2, "x": 2}}),
)
ODD = {"height": 7, "width": 9, "before": 1, "stride": 2, "dilation": 2}


@pytest.fixture(autouse=True)
def families(monkeypatch):
    for family in FAMILIES:
        monkeypatch.setitem(KERNELS, family.name, family)


def run(kernel, point, chip="pulp"):
    outputs, report = launch(kernel, point, chip, guard=64, max_cycles=1_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.is_correct
    assert report.stray_writes == []
    return outputs, report


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(("kernel", "point"), POINTS, ids=lambda value: str(value))
def test_every_tiling_computes_the_same_and_writes_nothing_else(kernel, point, buffers):
    run(kernel, point | {"buffers": buffers})


@pytest.mark.parametrize("kernel", ["windows", "spread"])
@pytest.mark.parametrize("tile", [{"y": 2, "x": 2}, {"y": 2, "x": 1, "c": 1}, {"y": 1, "x": 3}])
def test_windows_with_strides_and_gaps_are_cut_anywhere(kernel, tile):
    run(kernel, ODD | {"tile": tile})
