"""Which block of a gradient of weights is chosen: a bound of its cycles comes before these."""

from random import Random

import pytest

from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Images, Weights
from trainlib.conv.weight_gradient_schedule import (
    WeightGradient,
    by_cycles,
    cycles,
    least,
    tried_points,
)
from trainlib.primitive.element import BF16, F32

FREE = dict.fromkeys(("rows", "channels", "cols", "split", "is_turned"))


def drawn(random: Random) -> WeightGradient:
    """A gradient of any size, stride, dilation, padding, groups and element."""

    def axis(taps: int) -> Axis:
        stride, dilation = random.choice([(1, 1), (2, 1), (1, 2)])
        pad, reach = random.randrange(taps), (taps - 1) * dilation
        inputs = random.randrange(reach + 1, reach + 25)
        return Axis(
            (inputs + 2 * pad - reach - 1) // stride + 1, inputs, taps, stride, dilation, pad
        )

    ys, xs = (axis(random.randrange(1, 6)) for _ in "yx")
    element = random.choice([F32, F32, BF16])
    groups = random.choice([1, 1, random.randrange(2, 12)])
    rows, channels = (random.randrange(1, 40 if groups == 1 else 4) for _ in "rc")
    size, taps = element.size, ys.taps * xs.taps

    def images(axes: tuple[int, int], count: int) -> Images:
        lines, places = axes
        return Images(0, size * count * lines * places, size * lines * places, size * places, size)

    dw = Weights(0, 4 * rows * channels * taps, 4 * channels * taps, 4 * taps, 4 * xs.taps, 4)
    dy = images((ys.outputs, xs.outputs), rows)
    x = images((ys.inputs, xs.inputs), channels)
    return WeightGradient(groups, rows, channels, ys, xs, dy, x, dw, element=element)


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_of_a_point_is_no_more_than_its_cycles_and_the_order_is_theirs(seed):
    random = Random(seed)
    gradient, cores = drawn(random), random.choice([1, 3, 8])
    for view in {gradient, gradient.deep, gradient.pairs.deep}:
        points = list(tried_points(view, cores, FREE))
        exact = [cycles(view, point) for point in points]
        for bound, most in zip(least(view, points) if points else (), exact, strict=True):
            assert bound <= most * (1 + 1e-9)
        found = list(by_cycles(view, points))
        assert sorted(found, key=lambda each: each[0]) == found
        assert sorted(found) == sorted(zip(exact, points, strict=True))
