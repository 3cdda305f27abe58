"""Convolutions whose blocks are short: values on the stack are loaded before they are needed."""

import pytest

from tests.trainlib.cluster import WARM
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.launch import launch

UPSAMPLED = {"inputs": 7, "outputs": 4, "height": 12, "width": 34, "kernel": 2, "stride": 2}
PADDED = {"inputs": 3, "outputs": 12, "height": 9, "width": 31, "kernel": 3, "padding": 1}


def right(kernel, shape):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(f"{kernel}_f32", shape, WARM, guard=64, max_cycles=1_000_000)
    assert report.is_correct
    assert report.stray_writes == []
    return report


@pytest.mark.parametrize(
    ("kernel", "shape"), [("tconv2d_fw", UPSAMPLED), ("conv2d_fw", PADDED)], ids=["one tap", "all"]
)
def test_few_loads_are_waited_for(kernel, shape):
    report = right(kernel, shape)
    assert report.stalls["load_use"] < 0.02 * 8 * report.cycles


def test_taps_that_read_the_same_inputs_follow_each_other():
    outputs = Axis(6, 13, 3, stride=2)
    images, weights = Images(0, 0, 676, 52, 4), Weights(0, 0, 108, 36, 12, 4)
    x = Correlation(1, 9, 3, outputs, outputs, images, weights, images)
    body = x.body(3, outputs.runs(6)[0].first, 9)
    order = [mac.u.offset // 4 for mac in body.macs if mac.acc == 0]
    assert order == [0, 2, 1]
    assert body.cycles == len(body.steps)


@pytest.mark.parametrize("kernel", ["conv2d_fw", "conv2d_ig", "tconv2d_fw", "tconv2d_ig"])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_few_lines_that_read_through_as_many_taps_are_right(kernel, stride, padding):
    size = {"inputs": 5, "outputs": 4, "height": 3, "width": 9, "kernel": 3}
    right(kernel, size | {"stride": stride, "padding": padding})
