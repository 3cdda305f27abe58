"""Lines of a correlation that cores have as many of, whatever rows of the result these are of."""

import pytest

from tests.trainlib.cluster import CHIPS
from trainlib.conv import correlation_code
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.conv.correlation_schedule import choose, cycles
from trainlib.launch import launch

FREE = dict.fromkeys(("rows", "cols", "split", "is_turned"))
SHAPES = {
    "rows of two heights": {"inputs": 10, "outputs": 9, "height": 14, "width": 5, "kernel": 3}
    | {"padding": 1},
    "fewer lines than cores": {"inputs": 9, "outputs": 7, "height": 3, "width": 9, "kernel": 2}
    | {"rows": 4},
    "one panel": {"inputs": 3, "outputs": 3, "height": 11, "width": 6, "kernel": 3, "rows": 3},
    "stride": {"inputs": 11, "outputs": 13, "height": 12, "width": 9, "kernel": 3, "stride": 2}
    | {"padding": 2},
    "a table of lines": {"inputs": 7, "outputs": 11, "height": 13, "width": 8, "kernel": 3}
    | {"dilation": (2, 1), "padding": (3, 1, 0, 1), "stride": (3, 1)},
    "lines that read nothing": {"inputs": 5, "outputs": 9, "height": 5, "width": 6, "kernel": 1}
    | {"padding": (4, 3, 0, 0), "stride": (2, 1)},
    "batch": {"inputs": 5, "outputs": 7, "height": 9, "width": 5, "kernel": 3, "batch": 2},
}


@pytest.fixture
def always_even(monkeypatch):
    """Let cores have as many lines wherever they may, and count how often that is."""
    found = []

    def even(name, x, cores, given, *, may_be_even=False):
        point = choose(name, x, cores, given)
        turned = x.turned if point.is_turned else x
        if not may_be_even or x.groups > 1 or turned.channels == 1:
            return point
        found.append(point)
        return point.__class__(point.rows, point.cols, (1, cores), point.is_turned, True)

    monkeypatch.setattr(correlation_code, "choose", even)
    return found


@pytest.mark.parametrize("kernel", ["conv2d_fw_f32", "conv2d_ig_f32", "tconv2d_fw_f32"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.sampled(3)
def test_lines_of_any_rows_are_right(always_even, kernel, shape, chip):
    has_bias = kernel != "conv2d_ig_f32"
    for more in ({}, {"bias": has_bias, "layout": "hwc", "is_turned": True}, {"accumulate": True}):
        of = SHAPES[shape] | more
        _, report = launch(kernel, of, CHIPS[chip], guard=64, max_cycles=5_000_000)
        assert (report.result.exit.message, report.result.warnings) == ("", ())
        assert report.stray_writes == []
        assert report.is_correct
    assert always_even


def test_cores_have_as_many_lines_where_that_takes_fewer_cycles():
    ys, xs = Axis(14, 14, 3, pad=1), Axis(5, 5, 3, pad=1)
    of = Images(0, 0, 280, 20, 4), Weights(0, 0, 360, 36, 12, 4), Images(0, 0, 280, 20, 4)
    x = Correlation(1, 9, 10, ys, xs, *of)
    even = choose("f", x, 8, FREE, may_be_even=True)
    assert even.is_even
    assert cycles(x, even) < 0.95 * cycles(x, choose("f", x, 8, FREE))


@pytest.mark.parametrize(
    ("kernel", "shape", "most"),
    [
        ("conv2d_fw_f32", {"inputs": 10, "outputs": 9, "height": 14, "width": 5, "kernel": 3}
         | {"padding": 1}, 9_900),
        ("conv2d_fw_f32", {"inputs": 8, "outputs": 9, "height": 4, "width": 7, "kernel": 5}
         | {"padding": 4}, 10_200),
    ],
)  # fmt: skip
def test_a_convolution_whose_rows_and_lines_cores_cannot_share_otherwise_is_fast(
    kernel, shape, most
):
    _, report = launch(kernel, shape | {"warm": True})
    assert report.is_correct
    assert report.cycles <= most


def test_cores_that_read_the_same_columns_in_one_bank_have_no_even_lines():
    """Columns that lie two banks apart are read through these by all cores at once."""
    shape = {"inputs": 43, "outputs": 8, "height": 15, "width": 8, "kernel": 5, "padding": 1}
    _, report = launch("conv2d_fw_f32", shape | {"stride": 2, "warm": True})
    assert report.cycles <= 37_300
