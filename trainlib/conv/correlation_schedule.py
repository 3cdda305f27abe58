"""Correlation of images with kernels, without copies of the image: the body of most convolutions.

    Y[g, r, y, x] = sum over c, s, t of W[g, r, c, s, t] * X[g, c, ys.source(y, s), xs.source(x, t)]

A block of rows x cols sums stays in registers, cols along x. What the taps along x read is loaded
once and kept; channels and taps along y are two hardware loops. Blocks at the borders, where some
taps read nothing, have code of their own along x, and shorter loops along y.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from math import gcd, inf

from firmware.builder import KernelError
from trainlib.codegen.inner_loop import CACHED, REFETCH, Value, loop_cycles
from trainlib.codegen.work_split import heights
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Lane, Weights, reads_of
from trainlib.conv.depthwise_schedule import cycles_of_row, fetch_of_row, is_single
from trainlib.conv.paired_schedule import cycles_of_paired_row, is_paired
from trainlib.primitive.element import Element
from trainlib.primitive.tensor import BANKS, WORD

REGISTERS = 30  # that code can have
POOL = 3  # registers for what is loaded, at least
AROUND = 12  # instructions around a block's loops besides its loads and stores, nearly
CLASH = 1.17  # how much longer a convolution takes whose columns lie in one bank, about
WAITS = 1.25  # cycles of a bank for each load that cores wait for it to do, about
COLUMNS, HIGH = 8, 4  # blocks of fewer than half as many columns are as high as this at least
BLOCKS = (1, 2, 3, 4, 5, 6, 8)  # rows, and of halves registers for columns, that are tried
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)  # columns that are tried, of floats


@dataclass(frozen=True)
class Point:
    """How it is computed.

    rows, cols    sums in registers
    split         parts of the rows (of the groups, if there are several) and of the lines
    is_turned     are lines and columns exchanged?
    """

    rows: int
    cols: int
    split: tuple[int, int]
    is_turned: bool


def choose(name: str, x: Correlation, cores: int, given: dict) -> Point:
    """The point that is meant: what is None is chosen for the fewest cycles, nearly.

    given     rows, cols, split, is_turned, any of them None

    raises    KernelError if it is not a point of this shape, or does not fit the registers
    """
    estimates = Estimates(x)
    chosen: dict[Point, float] = {}
    ratios: dict[Point, float] = {}
    for point in sorted(_points(x, cores, given), key=estimates.cycles):
        least_cycles = estimates.cycles(point)
        if least_cycles >= min(chosen.values(), default=inf):
            break
        shape = replace(point, split=(1, min(point.split[1], 2)))  # all lines, or a part of them
        if shape not in ratios:
            ratios[shape] = _planned(x, shape)
        if ratios[shape]:
            chosen[point] = least_cycles * ratios[shape]
    if not chosen:
        height = 2 if x.has_row_pairs else 1
        shown = given | {"rows": given["rows"] and given["rows"] * height}
        wanted = ", ".join(f"{key} {value}" for key, value in shown.items() if value is not None)
        rows = x.rows * height
        raise KernelError(
            f"{name}: {wanted}: no such point for {x.groups} x {rows} rows of {x.ys.outputs} x "
            f"{x.xs.outputs} outputs on {cores} cores, {REGISTERS} registers each"
        )
    return min(chosen, key=chosen.__getitem__)


def fewest(x: Correlation, cores: int) -> float:
    """Cycles of the best point where its code is new, nearly; cheaper than to choose it.

    NOTE: blocks are no higher than a core's part, nor narrow for no reason.
    """
    return _fewest(x if x.channels == 1 else _typical(x), cores)


def _typical(x: Correlation) -> Correlation:
    """A correlation that takes as long, nearly: the same for many that lie elsewhere."""
    place = WORD if x.x.place % (WORD * BANKS) else WORD * BANKS
    row, channel = (1 << (step - 1).bit_length() for step in (x.w.row, x.w.channel))
    apart = 1 << (x.x.channel - 1).bit_length()
    return replace(
        x,
        x=Images(0, 0, apart, WORD, place),
        w=Weights(0, 0, row, channel, WORD, WORD),
        y=Images(0, 0, 0, WORD, place),
    )


@cache
def _fewest(x: Correlation, cores: int) -> float:
    estimates, free = Estimates(x), dict.fromkeys(("rows", "cols", "split", "is_turned"))
    found = []
    for point in _points(x, cores, free):
        rows = -(-x.rows // point.split[0]) if x.groups == 1 else x.rows
        width = (x.ys if point.is_turned else x.xs).outputs
        is_narrow = 2 * point.cols < min(COLUMNS, width) and point.rows <= HIGH
        if point.rows <= rows and not is_narrow:
            found.append((estimates.cycles(point), point))
    best, fetch, shapes = float("inf"), 0.0, (_shape(x), _shape(x.turned))
    for least_cycles, point in sorted(found, key=lambda each: each[0]):
        if least_cycles >= best:
            break
        turned = x.turned if point.is_turned else x
        if is_single(turned, point.rows, point.cols, point.split[1]):
            times = x.rows * -(-x.groups // point.split[0]) if x.groups > 1 else 1
            best, fetch = least_cycles, times * fetch_of_row(turned, point.cols)
        elif ratio := _ratio(shapes[point.is_turned], point.rows, point.cols):
            if least_cycles * ratio < best:
                best, fetch = least_cycles * ratio, 0
    return best + fetch


def _shape(x: Correlation) -> Correlation:
    """A correlation with such inner loops."""
    lines = x.ys if x.channels == 1 else Axis(1, 1, 1)
    return replace(x, groups=1, rows=1, channels=min(x.channels, 2), ys=lines)


@cache
def _ratio(x: Correlation, rows: int, cols: int) -> float:
    """Cycles of inner loops to their instructions; 0 if the block does not fit."""
    return _planned(x, Point(rows, cols, (1, 1), is_turned=False))


def _points(x: Correlation, cores: int, given: dict) -> Iterator[Point]:
    is_straight = x.element.is_half  # the order of their sums is fixed
    if is_straight and given["is_turned"]:
        return
    heights = (given["rows"],) if given["rows"] else BLOCKS
    for is_turned in (False,) if is_straight else turns(given, x.ys.outputs == x.xs.outputs):
        turned = x.turned if is_turned else x
        lanes, unit = turned.lanes, turned.unit
        blocks = BLOCKS if x.element.is_half else WIDTHS
        widths = (given["cols"],) if given["cols"] else tuple(unit * block for block in blocks)
        for rows, cols in product(heights, widths):
            is_one = rows <= turned.rows and cols < turned.xs.outputs + unit
            if x.is_paired and not is_paired(x, rows, cols):
                continue
            if is_one and cols % unit == 0 and rows * cols // lanes < REGISTERS - POOL:
                for split in _splits(turned, cores, given["split"]):
                    yield Point(rows, cols, split, is_turned)


def _planned(x: Correlation, point: Point) -> float:
    """Cycles of a point's inner loops to their instructions; 0 if it does not fit."""
    x = x.turned if point.is_turned else x
    if x.is_paired or is_single(x, point.rows, point.cols, point.split[1]):
        return 1
    pool = pool_of(x, point.rows, point.cols)
    if not pool:
        return 0
    runs = x.xs.runs(point.cols)
    cycles = sum(run.times * x.body(point.rows, run.first, pool).cycles for run in runs)
    fewest = sum(run.times * least(x.reads(run.first), x.x.place, point.rows) for run in runs)
    return max(cycles, 1) / max(fewest, 1)


def turns(given: dict, is_square: bool) -> tuple[bool, ...]:
    """Whether lines and columns are exchanged: what is tried."""
    if given["is_turned"] is None:
        return (False,) if is_square else (False, True)
    return (given["is_turned"],)


def _splits(x: Correlation, cores: int, given: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Grids of at most so many cores."""
    partitioned = x.rows if x.groups == 1 else x.groups
    lines = 1 if x.is_paired else x.ys.outputs
    if given is None:
        return useful_splits(partitioned, lines, cores)
    is_one = 1 <= given[0] <= partitioned and 1 <= given[1] <= (1 if x.is_paired else x.ys.outputs)
    return [given] if is_one and given[0] * given[1] <= cores else []


@cache
def useful_splits(rows: int, others: int, cores: int) -> list[tuple[int, int]]:
    """Grids of at most so many cores: parts of the rows and of the others. Left out are those of
    fewer rows and no more others than another has.
    """
    splits: list[tuple[int, int]] = []
    for r in range(min(cores, rows), 0, -1):
        split = r, min(cores // r, others)
        if not splits or split[1] > splits[-1][1]:
            splits.append(split)
    return splits


def pool_of(x: Correlation, rows: int, cols: int) -> int:
    """Registers for what is loaded: as many as are of use; 0 if there are too few."""
    runs = x.xs.runs(cols)
    bodies = [x.body(rows, run.first, POOL) for run in runs]
    addresses = max(len(b.reaches) for b in bodies) + max(len(b.constants) for b in bodies)
    left = REGISTERS - rows * x.sums(cols) - addresses
    is_apart = x.apart > 1 or x.has_row_pairs
    fewest = POOL + (x.accumulates and is_apart)  # one to load the upper half of a start
    wanted = 2 + max(len({read[2:] for read in x.reads(run.first)}) for run in runs)
    return 0 if left < fewest else max(fewest, min(left, wanted))


def least(reads: Sequence[Lane], place: int, rows: int) -> int:
    """Cycles of an inner loop, if everything is loaded once.

    place    bytes from an input to the next
    """
    places = {Value("x", read.place * place, read.kind) for read in reads}
    return rows * (len({read.tap for read in reads}) + len(reads)) + sum(p.cycles for p in places)


@cache
def _reads(ys: Axis, parts: int) -> float:
    """What a line reads, on the average of the part of the lines that reads most.

    Lines at the borders read less, and neighbouring lines of a gradient with a stride differ.
    """
    reads = [ys.line(y).reads for y in range(ys.outputs)]
    least, extra = divmod(ys.outputs, parts)
    counts = [least + 1] * extra + [least] * (parts - extra)
    ends = list(accumulate(counts))
    most = max(sum(reads[end - count : end]) for count, end in zip(counts, ends, strict=True))
    return most / max(counts)


@cache
def _line(
    xs: Axis, channels: int, rows: int, cols: int, element: Element, lanes: int, apart: int
) -> tuple[float, float, float]:
    """Cycles of a line, nearly: those beside its taps along y, and for each of them; and the part
    of the latter in which inputs are loaded.
    """
    total = code = float(AROUND)
    each = loads = 0.0
    for run in xs.runs(cols):
        reads = reads_of(run.first, element, lanes, apart)
        inner = least(reads, element.size, rows)
        around = AROUND + 2 * rows * -(-run.first.width // lanes)
        each += run.times * (channels * loop_cycles(inner) + 4)
        loads += run.times * channels * len({read.place for read in reads})
        total += run.times * around
        code += inner + around
    return total + (REFETCH * code if code > CACHED else 0), each, loads / max(each, 1)


def clash(place: int, split: tuple[int, int], part: float = 0) -> float:
    """How much longer cores take that read the same images along places in a few banks.

    place    bytes from one to the next
    part     of the time in which each core reads them
    """
    banks = BANKS // gcd(max(place // WORD, 1), BANKS)
    return max(CLASH if split[0] > 1 and banks == 1 else 1.0, WAITS * split[0] * part / banks)


def cycles(x: Correlation, point: Point) -> float:
    """Cycles of the slowest core, nearly, if inner loops load everything once."""
    return Estimates(x).cycles(point)


class Estimates:
    """Cycles of points of a correlation, nearly: what several have in common is found once."""

    def __init__(self, x: Correlation) -> None:
        self.x = x
        self._lines: dict[tuple[bool, int, int], tuple[float, float, float]] = {}
        self._reads: dict[tuple[bool, int], float] = {}

    def cycles(self, point: Point) -> float:
        """Cycles of the slowest core, if inner loops load everything once."""
        x = self.x.turned if point.is_turned else self.x
        part = -(-(x.rows if x.groups == 1 else x.groups) // point.split[0])
        rows, groups = (part, 1) if x.groups == 1 else (x.rows, part)
        if is_single(x, point.rows, point.cols, point.split[1]):
            return groups * rows * cycles_of_row(x, point.cols, point.split[1])
        if x.is_paired:
            return groups * rows * cycles_of_paired_row(x, point.cols)
        key = point.is_turned, point.split[1]
        if key not in self._reads:
            self._reads[key] = _reads(x.ys, point.split[1])
        reads, total, most = self._reads[key], 0.0, 0.0
        for height, panels in heights(rows, point.rows).items():
            once, each, loading = self._line(x, height, point)
            total += panels * (once + reads * each)
            most = max(most, loading)
        lines = -(-x.ys.outputs // point.split[1])
        meeting = clash(x.x.place, point.split, 0.0 if x.element.is_half else most)
        return meeting * groups * lines * total

    def _line(self, x: Correlation, height: int, point: Point) -> tuple[float, float, float]:
        key = point.is_turned, height, point.cols
        if key not in self._lines:
            how = x.channels, height, point.cols, x.element, x.lanes, x.apart
            self._lines[key] = _line(x.xs, *how)
        return self._lines[key]
