"""Inner loops that read inputs one after the other: wide blocks load everything once."""

from itertools import product

import pytest

from tests.trainlib.cluster import WARM
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.launch import launch
from trainlib.primitive.element import F16, F32

WIDTHS = (3, 8, 17)


def correlation(xs, element=F32):
    item = element.size
    images = Images(0, 0, 400 * item, 40 * item, item)
    weights = Weights(0, 0, 50 * item, 25 * item, 5 * item, item)
    ys = Axis(4, 4, 1)
    return Correlation(1, 2, 2, ys, xs, images, weights, images, element=element)


@pytest.mark.parametrize("element", [F32, F16], ids=["f32", "f16"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_sums_are_added_in_the_same_order(is_transposed, element):
    for taps, stride, dilation, pad in product((1, 3, 5), (1, 2, 3), (1, 2), (0, 2)):
        inside = 12 if is_transposed else 40
        xs = Axis(17, inside, taps, stride, dilation, pad, is_transposed=is_transposed)
        x = correlation(xs, element)
        for width in WIDTHS:
            for run in xs.runs(width, lanes=x.lanes):
                body = x.body(2, run.first, 6)
                assert sorted(body.macs) == sorted(body.other)
                for acc in {mac.acc for mac in body.macs}:
                    first, second = (
                        [mac for mac in order if mac.acc == acc]
                        for order in (body.macs, body.other)
                    )
                    assert first == second, xs


def test_a_wide_block_loads_everything_once():
    xs = Axis(20, 24, 5)
    body = correlation(xs).body(1, xs.runs(20)[0].first, 7)
    assert body.cycles == 5 * 20 + 5 + 24


SHAPES = {
    "dwconv2d_fw": {"inputs": 8, "height": 24, "width": 24, "kernel": 5, "padding": 2},
    "conv2d_ig": {"inputs": 3, "outputs": 9, "height": 6, "width": 22, "kernel": 3, "padding": 1},
}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kernel", SHAPES)
def test_wide_blocks_are_right(kernel, element, stride):
    shape = SHAPES[kernel] | {"stride": stride}
    _, report = launch(f"{kernel}_{element}", shape, WARM, guard=64, max_cycles=1_000_000)
    assert report.is_correct
    assert report.stray_writes == []
