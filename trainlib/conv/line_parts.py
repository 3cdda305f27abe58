"""What is summed up, as parts of cores, if there is too little else for them to share.

Lines of a gradient of weights, channels of a correlation: cores with the same sums add up some of
them each; what all parts have is added up in the end.
"""

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from trainlib.conv.axis import Axis
from trainlib.conv.busy_cores import SUMS, busy_part
from trainlib.primitive.tensor import WORD

PARTS = (2, 4, 8)
INSTRUCTIONS = 1.5  # for a multiply-add, with loads, about
PAIRED = 1.1  # cycles for an instruction of a pair of a row and a channel by itself, about
ADDED = 1.5  # cycles for a sum of a part that is added up, about
AROUND = 250  # cycles of barriers and code that is new
WORTH = 0.95  # of the cycles without parts, at most
MOST = 8192  # bytes of all sums
FEWEST = 4  # channels of a part
ALONE = 1.25  # rows that take as long as one, whose weights are loaded for it alone
AROUND_CHANNELS, WORTH_CHANNELS = 500, 0.9  # likewise of channels, with which code is longer


@cache
def line_parts(cores: int, groups: int, rows: int, channels: int, ys: Axis, xs: Axis) -> int:
    """Parts of the lines with which it should take the fewest cycles; 1 if they gain little.

    rows, channels    of each group
    """
    if not _may_be(cores, groups * rows * channels * ys.taps * xs.taps, ys.outputs):
        return 1
    found = _cycles(cores, groups, rows, channels, ys, xs)
    best = min(found, key=found.__getitem__)
    return best if found[best] < WORTH * found[1] else 1


@cache
def busy_by_lines(cores: int, groups: int, ys: Axis, xs: Axis) -> float:
    """The part of the time in which cores have work that share groups of a row and a channel each,
    or their lines. All of it if padding alone is read.
    """
    if not ys.reads * xs.reads:
        return 1.0
    least = INSTRUCTIONS * groups * ys.reads * xs.reads / cores
    return least / min(_cycles(cores, groups, 1, 1, ys, xs).values())


@cache
def _cycles(
    cores: int, groups: int, rows: int, channels: int, ys: Axis, xs: Axis
) -> dict[int, float]:
    """Cycles by the parts of the lines, nearly."""
    sums = groups * rows * channels * ys.taps * xs.taps
    macs = groups * rows * channels * ys.reads * xs.reads
    found = {1: INSTRUCTIONS * macs / cores / max(_busy(cores, groups, rows, channels, xs), 1e-9)}
    if groups == 1:
        found[1] = min(found[1], -(-rows * channels // cores) * _pair(ys, xs))
    for parts in _may_be(cores, sums, ys.outputs):
        each, slowest = cores // parts, -(-ys.outputs // parts) / ys.outputs
        own = INSTRUCTIONS * macs * slowest / each / _busy(each, groups, rows, channels, xs)
        found[parts] = own + added_by_lines(cores, sums, parts)
    return found


def added_by_lines(cores: int, sums: int, parts: int) -> float:
    """Cycles for so many sums of so many parts of the lines besides those of a part."""
    return AROUND + ADDED * (parts + 2) * sums / cores


def _pair(ys: Axis, xs: Axis) -> float:
    """Cycles of a pair of a row and a channel by itself, nearly, with all taps at once; infinite if
    registers do not hold its sums, or lines at the borders read less. See WeightGradient.pairs.
    """
    found, taps = np.inf, ys.taps * xs.taps
    for lines, places in ((ys, xs), (xs, ys)):
        if taps <= SUMS and lines.taps > 1 and len(lines.middle) == lines.outputs > 1:
            loads = (1 + lines.taps * places.stride) / taps
            found = min(found, PAIRED * ys.reads * xs.reads * (1 + loads))
    return float(found)


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
    lines: int | None = None,
) -> int:
    """Bytes of the sums of all parts in the tile that has most; none if there are no parts.

    groups, rows, channels    of a tile, and of all: tiles at the ends are smaller
    lines                     of tiles that have some of all lines or places: room for as many parts
                              as these may have, which depends on the tile; None: they have all
    """
    sizes = [{tile, whole % tile or tile} for tile, whole in (groups, rows, channels)]
    most = 0
    for size in product(*sizes):
        sums = size[0] * size[1] * size[2] * ys.taps * xs.taps
        parts = line_parts(cores, *size, ys, xs)
        if lines is not None:
            parts = max([1, *_may_be(cores, sums, lines)])
        most = max(most, parts * sums * WORD * (parts > 1))
    return most


def have_room(sums: Any, parts: int = PARTS[0]) -> Any:
    """Is there room for so many sums of these parts, or of as few as there may be?"""
    return parts * sums * WORD <= MOST


def _may_be(cores: int, sums: int, lines: int) -> list[int]:
    """How many parts of so many lines there may be, if several: their sums have room."""
    return [p for p in PARTS if 2 * p <= lines and p <= cores and have_room(sums, p)]


class Sized(NamedTuple):
    """A correlation by its sizes, or arrays of them: what it has of each.

    taps    that a result is read through, in a line and along lines
    """

    rows: Any
    channels: Any
    lines: Any
    places: Any
    taps: float

    @property
    def sums(self) -> Any:
        """Results."""
        return self.rows * self.lines * self.places

    def bytes(self, cores: int) -> Any:
        """What the sums of all parts of the channels take; nothing if there are no parts."""
        parts = channel_parts(cores, self)
        return parts * self.sums * WORD * (parts > 1)


def channel_parts(cores: int, x: Sized) -> Any:
    """Parts of the channels with which it should take the fewest cycles; 1 if they gain little."""
    best = WORTH_CHANNELS * x.channels * _slowest(cores, x)
    found: Any = np.ones((), int)
    for parts in (parts for parts in PARTS if parts <= cores):
        own = np.ceil(x.channels / parts) * _slowest(cores // parts, x)
        own = own + added_by_channels(cores, x, parts)
        may_be = (FEWEST * parts <= x.channels) & have_room(x.sums, parts)
        gains = may_be & (own < best)
        best, found = np.where(gains, own, best), np.where(gains, parts, found)
    return found


def added_by_channels(cores: int, x: Sized, parts: Any) -> Any:
    """Cycles for the sums of so many parts of the channels besides those of a part."""
    return AROUND_CHANNELS + ADDED * (parts + 2) * x.sums / cores


def _slowest(cores: int, x: Sized) -> Any:
    """Cycles for a channel of the core that has most, nearly: of some rows and lines, or, if those
    are exchanged, columns. A row alone takes longer.
    """
    found: Any = np.inf
    for split in range(1, cores + 1):
        rows = np.maximum(np.ceil(x.rows / split), ALONE)
        for lines, places in ((x.lines, x.places), (x.places, x.lines)):
            found = np.minimum(found, rows * np.ceil(lines / (cores // split)) * places)
    return INSTRUCTIONS * x.taps * found


def taps_of(axis: Axis) -> float:
    """Taps that a result is read through along an axis."""
    return axis.taps / (axis.stride if axis.is_transposed else 1)
