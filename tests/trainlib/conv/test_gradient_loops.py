"""Gradients of weights whose lines have more code than a core's own cache holds, by several loops
over lines, against PyTorch in float64.
"""

import re

import pytest

from soc.chip.spec import load_chip
from tests.trainlib.cluster import CHIPS
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Images, Weights
from trainlib.conv.weight_gradient_schedule import (
    Point,
    WeightGradient,
    choose,
    fitting,
    loops_of,
)
from trainlib.launch import launch, program

POINT = {"rows": 7, "channels": 1, "cols": 3, "split": (1, 8), "is_turned": False}
SHAPES = {
    "wide padding": {"padding": 2},
    "a stride": {"height": 17, "width": 29, "padding": 2, "stride": 2},
    "no padding": {"width": 17},
    "hwc": {"padding": 2, "layout": "hwc"},
    "added, of a batch": {"padding": 2, "accumulate": True, "batch": 2},
}
PADDED = {"inputs": 9, "outputs": 7, "height": 9, "width": 15, "kernel": 3}


@pytest.mark.parametrize(
    ("sizes", "loops"),
    [
        ([15, 23, 31, 23, 15], [[0, 1, 2, 3, 4]]),
        ([37, 87, 66], [[0], [1], [2]]),
        ([15, 23, 80, 31, 23], [[0, 1, 2], [3, 4]]),
        ([130, 8, 200], [[0], [1], [2]]),  # none holds the first and the last: each is alone
        ([130, 0], [[0, 1]]),  # what reads nothing is no loop
        ([8], [[0]]),
    ],
)
def test_runs_of_a_line_are_in_loops_that_a_cache_holds(sizes, loops):
    assert [list(runs) for runs in loops_of(sizes)] == loops


def gradient():
    """That of the first of SHAPES."""
    x, dy = Images(0, 0, 540, 60, 4), Images(0, 0, 748, 68, 4)
    ys, xs = Axis(11, 9, 3, pad=2), Axis(17, 15, 3, pad=2)
    return WeightGradient(1, 7, 9, ys, xs, dy, x, Weights(0, 0, 324, 36, 12, 4))


def test_pointers_go_from_run_to_run_and_from_line_to_line():
    nest = fitting(gradient(), Point(7, 1, 3, (1, 8), is_turned=False))
    assert nest is not None
    for runs in nest.loops:
        gone = dict.fromkeys("gx", 0)
        for index in runs:
            body, times = nest.bodies[index], nest.runs[index].times
            for pointer, step in zip(body.pointers, nest.further(index, runs), strict=True):
                if pointer is next(p for p in body.pointers if p.stream == pointer.stream):
                    gone[pointer.stream] += times * body.strides[pointer.stream] + step
        assert gone == {"g": 68, "x": 60}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", SHAPES)
def test_gradients_of_several_loops_over_lines_are_right(name, chip):
    _, report = launch("conv2d_wg_f32", PADDED | POINT | SHAPES[name], CHIPS[chip], guard=64)
    assert report.stray_writes == []
    assert report.is_correct


def test_pointers_that_need_no_step_have_no_instruction():
    listing = program("conv2d_wg_f32", PADDED | POINT | SHAPES["wide padding"], load_chip("pulp"))
    assert not re.findall(r"│ .*c\.addi \w+, 0$", listing.listing(), re.MULTILINE)


def test_a_point_that_stalls_is_not_preferred_to_one_of_more_instructions():
    """Blocks of 2 x 3 have fewer instructions; but registers for loads are few, which wait."""
    axes = Axis(5, 7, 3, 2, pad=2), Axis(47, 91, 3, 2, pad=2)
    x, dy = Images(0, 0, 2548, 364, 4), Images(0, 0, 940, 188, 4)
    g = WeightGradient(1, 8, 6, *axes, dy, x, Weights(0, 0, 216, 36, 12, 4))
    free = dict.fromkeys(("rows", "channels", "cols", "split", "is_turned"))
    point = choose("wg", g, 8, free)
    assert (point.rows, point.channels, point.split) == (2, 2, (4, 2))
