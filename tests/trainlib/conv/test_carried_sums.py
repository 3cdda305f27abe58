"""Depthwise convolutions that load each line of the input once: sums go on from line to line."""

import random

import pytest

from autotuner.measure import layer_cycles
from tests.trainlib.cluster import CHIPS
from tests.trainlib.primitives import check
from trainlib.conv import depthwise_code, depthwise_per_core
from trainlib.launch import launch

PLANE = {"inputs": 8, "height": 24, "width": 24, "kernel": 3, "padding": 1}
SHAPES = (
    PLANE,
    PLANE | {"padding": 0},
    PLANE | {"padding": (1, 0, 0, 2)},
    PLANE | {"padding": (0, 1, 1, 0), "bias": True},
    PLANE | {"kernel": 2},
    PLANE | {"kernel": 2, "padding": 0, "bias": True},
    PLANE | {"kernel": (2, 3)},
    PLANE | {"kernel": (3, 1), "padding": (1, 1, 0, 0)},
    PLANE | {"kernel": (4, 2), "padding": (2, 1, 1, 0)},
    PLANE | {"kernel": (1, 3), "padding": (0, 0, 1, 1)},
    PLANE | {"padding": 2, "bias": True},
    PLANE | {"padding": (2, 0, 1, 1)},
    PLANE | {"padding": (1, 2, 0, 2), "bias": True},
    PLANE | {"kernel": 2, "padding": 1, "bias": True},
    PLANE | {"inputs": 3, "height": 17, "padding": 2},
    PLANE | {"inputs": 4, "height": 33, "width": 30, "padding": 2},
    PLANE | {"inputs": 2, "height": 40, "width": 9, "padding": 2, "multiplier": 2},
    PLANE | {"inputs": 3, "height": 17, "padding": 2, "tile": {"y": 6}},
    PLANE | {"inputs": 16, "height": 13, "width": 12, "padding": 2, "tile": {}, "bias": True},
    PLANE | {"inputs": 13, "height": 13, "width": 12, "padding": 2, "tile": {}, "bias": True},
    PLANE | {"inputs": 25, "height": 24, "width": 14, "padding": (2, 1, 0, 2), "tile": {}},
    PLANE | {"height": 31, "width": 17, "dilation": (1, 2)},
    PLANE | {"width": 25, "inputs": 16, "tile": {}},
    PLANE | {"width": 23, "inputs": 16, "tile": {}, "bias": True},
    PLANE | {"inputs": 1},
    PLANE | {"inputs": 3, "height": 40},
    PLANE | {"inputs": 3, "height": 17, "tile": {"y": 6}},
    PLANE | {"inputs": 16, "height": 13, "width": 12, "tile": {}},
    PLANE | {"inputs": 16, "height": 13, "width": 12, "padding": (0, 1, 1, 1), "tile": {}},
    PLANE | {"inputs": 8, "height": 25, "width": 5, "tile": {}},
    PLANE | {"inputs": 16, "height": 25, "width": 5, "tile": {}, "bias": True},
    PLANE | {"inputs": 39, "height": 4, "width": 40, "padding": 0, "tile": {}},
    PLANE | {"inputs": 4, "batch": 3, "height": 12, "multiplier": 2},
    PLANE | {"layout": "hwc", "height": 12, "width": 12},
    PLANE | {"accumulate": True, "height": 12},
)


@pytest.fixture
def rows(monkeypatch):
    """The rows of blocks that are carried."""
    seen = []
    for module in (depthwise_code, depthwise_per_core):
        whole = module.carried_row

        def spy(*arguments, whole=whole):
            row = whole(*arguments)
            seen.extend(row)
            return row

        monkeypatch.setattr(module, "carried_row", spy)
    return seen


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("step", ["fw", "ig"])
def test_sums_of_every_shape_are_right(step, shape):
    if step == "ig":
        shape = {name: value for name, value in shape.items() if name != "bias"}
    check(f"dwconv2d_{step}_f32", shape)


@pytest.mark.parametrize("tile", [{}, {"tile": {}}], ids=str)
def test_they_are_carried_where_that_is_faster(tile, rows):
    check("dwconv2d_fw_f32", PLANE | tile)
    assert {row.missing for row in rows} == {(1, 1)}
    rows.clear()
    check("dwconv2d_fw_f32", PLANE | tile | {"stride": 2})
    check("dwconv2d_fw_f32", PLANE | tile | {"height": 4, "width": 4})
    check("dwconv2d_fw_f32", PLANE | tile | {"accumulate": True})
    assert rows == []


@pytest.mark.parametrize("padding", [(2, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("tile", [{}, {"tile": {}}], ids=str)
def test_they_are_carried_where_lines_have_one_tap_alone(tile, padding, rows):
    check("dwconv2d_fw_f32", PLANE | tile | {"padding": (*padding, 2, 2)})
    assert padding in {row.missing for row in rows}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_they_are_right_on_every_cluster(chip, cores):
    whole = PLANE | {"cores": cores}
    biased = whole | {"tile": {}, "bias": True}
    for shape in (whole, biased, whole | {"padding": 2}, biased | {"padding": 2}):
        _, report = launch("dwconv2d_fw_f32", shape, CHIPS[chip], guard=64)
        assert report.is_correct
        assert report.stray_writes == []


def test_shapes_drawn_at_random_are_right(request):
    numbers = random.Random(3)
    for _ in range(200 if request.config.getoption("--full") else 12):
        kernel = numbers.randint(2, 3), numbers.randint(1, 3)
        shape = {
            "inputs": numbers.randint(1, 20),
            "height": numbers.randint(5, 40),
            "width": numbers.randint(4, 24),
            "kernel": kernel,
            "padding": tuple(numbers.randint(0, n - 1) for n in kernel for _ in range(2)),
            "cores": numbers.randint(1, 8),
        }
        check(
            f"dwconv2d_{numbers.choice(['fw', 'ig'])}_f32",
            shape | numbers.choice([{}, {"tile": {}}]),
        )


@pytest.mark.parametrize("step", ["fw", "ig"])
def test_a_multiply_add_takes_fewer_cycles(step):
    """40,185 and 41,290 if each line is loaded again for each line of taps."""
    _, report = launch(f"dwconv2d_{step}_f32", PLANE | {"inputs": 32, "tile": {}})
    assert report.is_correct
    assert layer_cycles(report.result) <= 36_000


def test_lines_with_one_tap_have_no_code_of_their_own():
    """33,487 cycles if first and last lines have code of their own, which no cache holds."""
    plane = {"inputs": 25, "height": 24, "width": 14, "kernel": 3, "padding": 2, "tile": {}}
    _, report = launch("dwconv2d_fw_f32", plane)
    assert report.is_correct
    assert layer_cycles(report.result) <= 18_500
