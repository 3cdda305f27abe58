"""The part of the time in which cores that share a convolution have work, to choose tiles by."""

from functools import cache
from itertools import product

from trainlib.conv.axis import Axis

COLS = 8  # sums of a line that a core computes at once, usually
SUMS = 20  # of a gradient of weights that a core computes at once, most


@cache
def busy_part(
    cores: int, axis: Axis | None, places: Axis, rows: int, others: int, *, is_even: bool = False
) -> float:
    """The part of the time in which cores multiply that share rows, and others of each: as much as
    with blocks that their registers are best used with. All of it if padding alone is read.

    axis      of the others, if those are lines: what is read for each is not equal where all of
              the axis is in a tile; None: they are channels, of a gradient of weights
    is_even   is what is read for each counted as equal in any case? Tiles of some lines are
    places    the axis of a line, of which a core has several sums at once
    """
    reads = [1] * others
    if axis and others == axis.outputs and not is_even:
        reads = [axis.line(line).reads for line in range(others)]
    if not any(reads):
        return 1.0
    best = 0.0
    for parts in range(1, min(rows, cores) + 1):
        each, height = -(-others // min(cores // parts, others)), -(-rows // parts)
        most = max(sum(reads[at : at + each]) for at in range(0, others, each))
        if axis:
            slowest = height * most * _slowness(places, min(height, 2)) / _slowness(places, 2)
        else:
            slowest = _of_blocks(places, height, each)
        best = max(best, rows * sum(reads) / (cores * max(slowest, 1)))
    return best


def _slowness(places: Axis, rows: int) -> float:
    """Cycles for a multiply-add of a block of sums: weights and inputs are loaded once for it."""
    return 1 + 1 / COLS + _inputs(places) / (places.taps * COLS * rows)


def _inputs(places: Axis) -> int:
    """Inputs that neighbouring outputs read."""
    return (COLS - 1) * places.stride + places.taps


@cache
def _of_blocks(places: Axis, rows: int, channels: int) -> float:
    """How many pairs of rows and channels of a gradient of weights take as long, in the best
    blocks, as these do: of neighbouring outputs, both images are loaded once for a block.
    """
    taps, inputs = min(places.taps, SUMS), _inputs(places)
    totals, ones = [], []
    for height, depth in product(range(1, SUMS + 1), repeat=2):
        if height * depth * taps <= SUMS:
            down, across = -(-rows // height), -(-channels // depth)
            loads = rows * across * COLS + channels * down * inputs
            totals.append(rows * channels * taps * COLS + loads)
            ones.append(taps * COLS + COLS / depth + inputs / height)
    return min(totals) / min(ones)
