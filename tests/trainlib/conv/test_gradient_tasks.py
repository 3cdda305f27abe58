"""Blocks of gradients of weights that cores share one by one, against PyTorch in float64."""

import pytest

from tests.trainlib.cluster import CHIPS
from trainlib.conv import weight_gradient_schedule
from trainlib.launch import launch

SHAPES = {
    "blocks of four sizes": {"inputs": 9, "outputs": 7, "height": 9, "width": 8, "kernel": 3}
    | {"padding": 2},
    "fewer tasks than cores": {"inputs": 2, "outputs": 3, "height": 9, "width": 7, "kernel": 2},
    "stride": {"inputs": 5, "outputs": 11, "height": 12, "width": 9, "kernel": 3, "stride": 2}
    | {"padding": 1},
    "dilated": {"inputs": 5, "outputs": 6, "height": 13, "width": 8, "kernel": 3}
    | {"dilation": (2, 1), "padding": (3, 1, 0, 1), "stride": (3, 1)},
    "taps that no line reads through": {"inputs": 3, "outputs": 5, "height": 2, "width": 7}
    | {"kernel": (5, 2), "padding": (2, 2, 0, 0)},
    "batch": {"inputs": 5, "outputs": 7, "height": 9, "width": 5, "kernel": 3, "batch": 2},
}
MORE = ({}, {"bias": True, "layout": "hwc", "is_turned": True}, {"accumulate": True})


def right(kernel, shape, chip):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(kernel, shape, chip, guard=64, max_cycles=5_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.stray_writes == []
    assert report.is_correct
    return report


@pytest.mark.parametrize("kernel", ["conv2d_wg_f32", "tconv2d_wg_f32"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.sampled(3)
def test_blocks_that_cores_share_are_right(monkeypatch, kernel, shape, chip):
    found = []
    shares = weight_gradient_schedule.shares
    monkeypatch.setattr(weight_gradient_schedule, "WORTH", float("inf"))
    monkeypatch.setattr(
        "trainlib.conv.weight_gradient_code.shares",
        lambda *of: found.append(shares(*of)) or found[-1],
    )
    monkeypatch.setattr("trainlib.conv.conv2d.line_parts", lambda *_: 1)
    for more in MORE:
        right(kernel, SHAPES[shape] | more, CHIPS[chip])
    assert found


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ({"inputs": 9, "outputs": 7, "height": 9, "width": 15, "kernel": 3, "padding": 2}, 16_200),
        ({"inputs": 5, "outputs": 25, "height": 31, "width": 5, "kernel": 3, "padding": 1}, 28_700),
    ],
)
def test_cores_that_share_blocks_one_by_one_are_fast(shape, most):
    assert right("conv2d_wg_f32", shape | {"warm": True}, "pulp").cycles <= most
