"""Lines of a gradient of weights as parts of cores, if rows and channels are too few for them.

Cores with the same rows and channels have some of the lines each, and sums of their own; what all
parts have is added up in the end.
"""

from functools import cache
from itertools import product

from trainlib.conv.axis import Axis
from trainlib.conv.busy_cores import busy_part
from trainlib.primitive.tensor import WORD

PARTS = (2, 4, 8)
INSTRUCTIONS = 1.5  # for a multiply-add, with loads, about
ADDED = 1.5  # cycles for a sum of a part that is added up, about
AROUND = 250  # cycles of barriers and code that is new
WORTH = 0.95  # of the cycles without parts, at most
MOST = 8192  # bytes of all sums


@cache
def line_parts(cores: int, groups: int, rows: int, channels: int, ys: Axis, xs: Axis) -> int:
    """Parts of the lines with which it should take the fewest cycles; 1 if they gain little.

    rows, channels    of each group
    """
    found = _cycles(cores, groups, rows, channels, ys, xs)
    best = min(found, key=found.__getitem__)
    return best if found[best] < WORTH * found[1] else 1


@cache
def busy_by_lines(cores: int, groups: int, ys: Axis, xs: Axis) -> float:
    """The part of the time in which cores have work that share groups of a row and a channel each,
    or their lines.
    """
    least = INSTRUCTIONS * groups * ys.reads * xs.reads / cores
    return least / max(min(_cycles(cores, groups, 1, 1, ys, xs).values()), 1e-9)


@cache
def _cycles(
    cores: int, groups: int, rows: int, channels: int, ys: Axis, xs: Axis
) -> dict[int, float]:
    """Cycles by the parts of the lines, nearly."""
    sums = groups * rows * channels * ys.taps * xs.taps
    macs = groups * rows * channels * ys.reads * xs.reads
    found = {1: INSTRUCTIONS * macs / cores / max(_busy(cores, groups, rows, channels, xs), 1e-9)}
    for parts in PARTS:
        if 2 * parts > ys.outputs or parts > cores or parts * sums * WORD > MOST:
            break
        each, slowest = cores // parts, -(-ys.outputs // parts) / ys.outputs
        own = INSTRUCTIONS * macs * slowest / each / _busy(each, groups, rows, channels, xs)
        found[parts] = own + AROUND + ADDED * (parts + 2) * sums / cores
    return found


def _busy(cores: int, groups: int, rows: int, channels: int, xs: Axis) -> float:
    """The part of the time in which cores have work that share groups, or rows and channels."""
    if groups > 1:
        return groups / (cores * -(-groups // cores))
    return busy_part(cores, None, xs, rows, channels)


@cache
def sums_of_parts(
    cores: int,
    groups: tuple[int, int],
    rows: tuple[int, int],
    channels: tuple[int, int],
    ys: Axis,
    xs: Axis,
) -> int:
    """Bytes of the sums of all parts in the tile that has most; none if there are no parts.

    groups, rows, channels    of a tile, and of all: tiles at the ends are smaller
    """
    sizes = [{tile, whole % tile or tile} for tile, whole in (groups, rows, channels)]
    taps, most = ys.taps * xs.taps, 0
    for size in product(*sizes):
        parts = line_parts(cores, *size, ys, xs)
        most = max(most, parts * size[0] * size[1] * size[2] * taps * WORD * (parts > 1))
    return most
