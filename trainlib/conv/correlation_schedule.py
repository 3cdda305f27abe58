"""Correlation of images with kernels, without copies of the image: the body of most convolutions.

    Y[g, r, y, x] = sum over c, s, t of W[g, r, c, s, t] * X[g, c, ys.source(y, s), xs.source(x, t)]

A block of rows x cols sums stays in registers, cols along x. What the taps along x read is loaded
once and kept; channels and taps along y are two hardware loops. Blocks at the borders, where some
taps read nothing, have code of their own along x, and shorter loops along y.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import gcd, inf
from typing import Any

import numpy as np

from firmware.builder import KernelError
from trainlib.codegen.inner_loop import CACHED, REFETCH, Value, loop_cycles
from trainlib.codegen.work_split import heights
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Lane, Weights, reads_of
from trainlib.conv.depthwise_schedule import code_of_row, cycles_of_row, is_single
from trainlib.conv.paired_schedule import cycles_of_paired_row, is_paired
from trainlib.primitive.element import Element
from trainlib.primitive.tensor import BANKS, WORD
from trainlib.primitive.tile_spec import CodeCost

REGISTERS = 30  # that code can have
POOL = 3  # registers for what is loaded, at least
AROUND = 12  # instructions around a block's loops besides its loads and stores, nearly
SHARING = 40  # cycles to find out which lines of all panels a core has, about
PHASE = 60  # cycles to begin with another phase, about
CLASH = 1.17  # how much longer a convolution takes whose columns lie in one bank, about
WAITS = 1.25  # cycles of a bank for each load that cores wait for it to do, about
COLUMNS, HIGH = 8, 4  # blocks of fewer than half as many columns are as high as this at least
BLOCKS = (1, 2, 3, 4, 5, 6, 8)  # rows that are tried
WIDEST, NARROW = 22, 12  # registers for columns at most, see _widths


@dataclass(frozen=True)
class Point:
    """How it is computed.

    rows, cols    sums in registers
    split         parts of the rows (of the groups, if there are several) and of the lines
    is_turned     are lines and columns exchanged?
    is_even       have all cores as many lines, nearly, of whatever rows? Lines of all panels, which
                  have the rows of a block each, are counted through then, and cores have
                  neighbouring ones
    """

    rows: int
    cols: int
    split: tuple[int, int]
    is_turned: bool
    is_even: bool = False


def choose(
    name: str, x: Correlation, cores: int, given: dict, *, may_be_even: bool = False
) -> Point:
    """The point that is meant: what is None is chosen for the fewest cycles, nearly.

    given          rows, cols, split, is_turned, any of them None
    may_be_even    may cores have lines of any panels, if no split is given?

    raises    KernelError if it is not a point of this shape, or does not fit the registers
    """
    chosen: dict[Point, float] = {}
    ratios: dict[Point, float] = {}
    for least_cycles, point in _by_cycles(x, cores, given, may_be_even=may_be_even):
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


def fewest(x: Correlation, cores: int, *, may_be_even: bool) -> CodeCost:
    """The cost of the best point where its code is new, nearly; cheaper than to choose it.

    may_be_even    see choose

    NOTE: blocks are no higher than a core's part, nor narrow for no reason.
    """
    each = [_fewest_of(phase, cores, may_be_even) for phase in fastest_phases(x, cores)]
    cycles, code = (sum(of) for of in zip(*each, strict=True))
    return CodeCost(cycles + PHASE * (len(each) - 1), code)


def fastest_phases(x: Correlation, cores: int) -> list[Correlation]:
    """A correlation in the phases of its lines, if that is faster: all weights of a phase may fit
    registers where all of them do not.
    """
    phases = x.phases
    if len(phases) == 1 or x.channels > 1 or x.element.is_half:
        return [x]
    whole = _fewest_of(x, cores, may_be_even=True)
    each = [_fewest_of(phase, cores, may_be_even=True) for phase in phases]
    apart = sum(cost.cycles + PHASE for cost in each) - PHASE
    return phases if apart < whole.cycles else [x]


def _fewest_of(x: Correlation, cores: int, may_be_even: bool) -> CodeCost:
    return _fewest(_placeless(x) if x.channels == 1 else _typical(x), cores, may_be_even)


def _placeless(x: Correlation) -> Correlation:
    """The same at address 0, which takes as long."""
    bias = None if x.bias is None else 0
    images, y = (replace(of, address=0, offset=0) for of in (x.x, x.y))
    return replace(x, x=images, w=replace(x.w, address=0, offset=0), y=y, bias=bias)


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
def _fewest(x: Correlation, cores: int, may_be_even: bool) -> CodeCost:
    free = dict.fromkeys(("rows", "cols", "split", "is_turned"))
    best, fetch, code, shapes = inf, 0.0, 0.0, (_shape(x), _shape(x.turned))
    for least_cycles, point in _by_cycles(x, cores, free, are_few=True, may_be_even=may_be_even):
        if least_cycles >= best:
            break
        turned = x.turned if point.is_turned else x
        if is_single(turned, point.rows, point.cols, point.split[1]):
            times = x.rows * -(-x.groups // point.split[0]) if x.groups > 1 else 1
            code = code_of_row(turned, point.cols)
            best, fetch = least_cycles, times * REFETCH * code
        elif ratio := _ratio(shapes[point.is_turned], point.rows, point.cols):
            if least_cycles * ratio < best:
                best, fetch = least_cycles * ratio, 0
                code = _code_of(turned, point)
    return CodeCost(best + fetch, code)


def _code_of(x: Correlation, point: Point) -> float:
    """Instructions of blocks of a point's rows, and of one of what is left, nearly."""
    code = _runs(x.xs, point.cols, x.element, x.lanes, x.apart)[4]
    part = -(-x.rows // point.split[0]) if x.groups == 1 else x.rows
    heights = {min(point.rows, part), part % point.rows} - {0}
    return float(sum(code[height] for height in heights))


def _shape(x: Correlation) -> Correlation:
    """A correlation with such inner loops."""
    lines = x.ys if x.channels == 1 else Axis(1, 1, 1)
    return replace(x, groups=1, rows=1, channels=min(x.channels, 2), ys=lines)


@cache
def _ratio(x: Correlation, rows: int, cols: int) -> float:
    """Cycles of inner loops to their instructions; 0 if the block does not fit."""
    return _planned(x, Point(rows, cols, (1, 1), is_turned=False))


@dataclass(frozen=True)
class Tried:
    """Points that are tried: all combinations of these, in this order, that fit the registers.

    x          lines and columns exchanged, if is_turned says so
    are_few    only blocks that are no higher than a core's part, nor narrow for no reason
    is_even    see Point; the only split says how many cores there are
    """

    x: Correlation
    is_turned: bool
    are_few: bool
    rows: Sequence[int]
    cols: Sequence[int]
    splits: Sequence[tuple[int, int]]
    is_even: bool = False

    def point(self, index: int) -> Point:
        """The point at this place of all, counted through."""
        place = np.unravel_index(index, (len(self.rows), len(self.cols), len(self.splits)))
        row, col, split = map(int, place)
        of = self.rows[row], self.cols[col], self.splits[split]
        return Point(*of, self.is_turned, self.is_even)

    @property
    def cycles(self) -> np.ndarray:
        """Cycles of the slowest core, nearly, if inner loops load everything once: by rows,
        columns and splits; infinite of what is no point.
        """
        x, (parts, _) = self.x, self._splits
        part = -(-(x.rows if x.groups == 1 else x.groups) // parts)
        whole = np.ones_like(part)
        rows, groups = (part, whole) if x.groups == 1 else (x.rows * whole, part)
        if self.is_even:
            found = self._of_even()
            return np.where(self._fit & (self._few(rows) if self.are_few else True), found, inf)
        found = self._of_pairs(rows, groups) if x.is_paired else self._of_blocks(rows, groups)
        found = np.where(self._fit & (self._few(rows) if self.are_few else True), found, inf)
        if x.channels == 1 and 1 in self.rows:
            self._set_single(found[self.rows.index(1)], rows * groups)
        return found

    @property
    def _splits(self) -> tuple[np.ndarray, np.ndarray]:
        """Parts of rows or groups, and of lines."""
        parts, lines = np.array(self.splits).T
        return parts, lines

    @property
    def _fit(self) -> np.ndarray:
        """Is it a point? By rows and columns, for all splits: [rows, columns, 1]."""
        x, (rows, cols) = self.x, np.ix_(self.rows, self.cols)
        is_one = (rows <= x.rows) & (cols < x.xs.outputs + x.unit) & (cols % x.unit == 0)
        is_one &= rows * cols // x.lanes < REGISTERS - POOL
        if x.is_paired:
            is_one &= np.array([[is_paired(x, r, c) for c in self.cols] for r in self.rows])
        return is_one[:, :, np.newaxis]

    def _few(self, rows: np.ndarray) -> np.ndarray:
        """Is a block no higher than a core's part, nor narrow for no reason? As `cycles`.

        rows    of a core's part, by splits
        """
        high, wide = (of[:, :, np.newaxis] for of in np.ix_(self.rows, self.cols))
        is_narrow = 2 * wide < min(COLUMNS, self.x.xs.outputs)
        return (high <= rows) & ~(is_narrow & (high <= HIGH))

    def _of_pairs(self, rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
        row = [[cycles_of_paired_row(self.x, cols)] for cols in self.cols]
        return np.array([groups * rows * np.array(row)] * len(self.rows))

    def _of_blocks(self, rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Blocks of so many rows of a part, and one of what is left."""
        x, (parts, line_parts) = self.x, self._splits
        of = x.channels, x.element, x.lanes, x.apart
        once, each, loading = np.stack([_lines(x.xs, cols, *of) for cols in self.cols], axis=-1)
        high = np.array(self.rows)[:, np.newaxis, np.newaxis]
        times, left = np.divmod(rows, high)
        reads = np.array([_reads(x.ys, int(count)) for count in line_parts])
        across = np.arange(len(self.cols))[:, np.newaxis]
        total, most = 0.0, 0.0
        for height, panels in ((high, times), (left, left > 0)):
            height = np.minimum(height, REGISTERS)  # of higher ones there is no point
            total = total + panels * (once[height, across] + reads * each[height, across])
            most = np.maximum(most, (panels > 0) * loading[height, across])
        share = 0.0 if x.element.is_half else most
        lines = -(-x.ys.outputs // line_parts)
        return clash(x.x.place, (parts, line_parts), share) * groups * lines * total

    def _of_even(self) -> np.ndarray:
        """Lines of all panels, of which cores have as many: see Point."""
        x, ((_, cores),) = self.x, self.splits
        of = x.channels, x.element, x.lanes, x.apart
        once, each, loading = np.stack([_lines(x.xs, cols, *of) for cols in self.cols], axis=-1)
        found = np.zeros((len(self.rows), len(self.cols), 1))
        for at, high in enumerate(self.rows):
            total = np.zeros((cores, len(self.cols)))
            for index, (height, panels) in enumerate(heights(x.rows, high).items()):
                lines, reads = (np.array(n)[:, np.newaxis] for n in _shares(x.ys, panels, cores))
                split = min(panels, cores), 1
                own = lines * once[height] + reads * each[height] + SHARING
                own = clash(x.x.place, split, loading[height]) * own
                total += own[::-1] if index else own
            found[at, :, 0] = total.max(axis=0)
        return found

    def _set_single(self, alone: np.ndarray, times: np.ndarray) -> None:
        """Where a core computes lines one by one, by columns and splits: see is_single."""
        for col, split in np.argwhere(np.isfinite(alone)):
            cols, lines = self.cols[col], self.splits[split][1]
            if is_single(self.x, 1, cols, lines):
                alone[col, split] = times[split] * cycles_of_row(self.x, cols, lines)


def _by_cycles(
    x: Correlation, cores: int, given: dict, *, are_few: bool = False, may_be_even: bool = False
) -> Iterator[tuple[float, Point]]:
    """The points that are tried, and cycles of each if its inner loops load everything once: the
    fewest first.
    """
    tried = list(_tried(x, cores, given, are_few))
    if may_be_even and x.groups == 1 and x.channels > 1 and not x.element.is_half:
        splits = [(1, cores)]
        tried += [replace(of, splits=splits, is_even=True) for of in tried if not given["split"]]
    if not tried:
        return
    each = [of.cycles.ravel() for of in tried]
    firsts = list(accumulate(map(len, each[:-1]), initial=0))
    cycles = np.concatenate(each)
    for index in map(int, np.argsort(cycles, kind="stable")):
        if cycles[index] == inf:
            return
        which = bisect(firsts, index) - 1
        yield float(cycles[index]), tried[which].point(index - firsts[which])


def _tried(x: Correlation, cores: int, given: dict, are_few: bool) -> Iterator[Tried]:
    is_straight = x.element.is_half  # the order of their sums is fixed
    if is_straight and given["is_turned"]:
        return
    for is_turned in (False,) if is_straight else turns(given, x.ys.outputs == x.xs.outputs):
        turned = x.turned if is_turned else x
        blocks = _widths(turned.xs, turned.unit)
        rows = [given["rows"]] if given["rows"] else BLOCKS
        cols = [given["cols"]] if given["cols"] else blocks
        if splits := _splits(turned, cores, given["split"]):
            yield Tried(turned, is_turned, are_few, rows, cols, splits)


@cache
def _widths(xs: Axis, unit: int) -> list[int]:
    """Columns of blocks that are tried, multiples of those of a register. Left out are widths with
    which there are no fewer blocks than with a smaller one, and wide blocks of which a tap reads
    few columns.
    """
    most = NARROW if xs.is_transposed and xs.stride > 1 else WIDEST
    units = -(-xs.outputs // unit)
    return [unit * each for each in range(1, most + 1) if each == -(-units // -(-units // each))]


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


def least(reads: Sequence[Lane], place: int, rows: Any) -> Any:
    """Cycles of an inner loop, if everything is loaded once.

    place    bytes from an input to the next
    rows     of a block, or an array of them
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
def _shares(ys: Axis, panels: int, cores: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lines of so many panels that each core has, and what these read."""
    reads = [ys.line(y).reads for y in range(ys.outputs)] * panels
    counts = [len(range(core, len(reads), cores)) for core in range(cores)]
    ends = list(accumulate(counts))
    parts = (sum(reads[end - n : end]) for n, end in zip(counts, ends, strict=True))
    return tuple(counts), tuple(parts)


@cache
def _lines(
    xs: Axis, cols: int, channels: int, element: Element, lanes: int, apart: int
) -> np.ndarray:
    """Cycles of a line, nearly: those beside its taps along y, and for each of them; and the part
    of the latter in which inputs are loaded. Each of the three by the rows of a block, 0 and more.
    """
    times, around, rounds, loads, _ = _runs(xs, cols, element, lanes, apart)
    each = (times * (channels * rounds + 4)).sum(axis=0)
    return np.array([around, each, channels * loads / np.maximum(each, 1)])


@cache
def _runs(
    xs: Axis, cols: int, element: Element, lanes: int, apart: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:
    """Blocks of a line that read alike: how many there are, cycles around all their inner loops,
    by rows, of a round of theirs, by rows, too, and for the inputs that all of them load; and their
    instructions, by rows.
    """
    rows, runs = np.arange(REGISTERS + 1), xs.runs(cols)
    reads = [reads_of(run.first, element, lanes, apart) for run in runs]
    times, registers, loaded = np.array(
        [
            (run.times, -(-run.first.width // lanes), len({read.place for read in of}))
            for run, of in zip(runs, reads, strict=True)
        ]
    ).T[:, :, np.newaxis]
    inner = np.array([least(of, element.size, rows) for of in reads])
    around = AROUND + 2 * rows * registers
    code = AROUND + (inner + around).sum(axis=0)
    refetched = np.where(code > CACHED, REFETCH * code, 0)
    total = AROUND + (times * around).sum(axis=0) + refetched
    return times, total, loop_cycles(inner), float((times * loaded).sum()), code


def clash(place: int, split: tuple[Any, Any], part: Any = 0) -> Any:
    """How much longer cores take that read the same images along places in a few banks.

    place    bytes from one to the next
    split    see Point; or arrays of these
    part     of the time in which each core reads them
    """
    banks, (parts, _) = BANKS // gcd(max(place // WORD, 1), BANKS), split
    least = np.where((parts > 1) & (banks == 1), CLASH, 1.0)
    return np.maximum(least, WAITS * parts * part / banks)


def cycles(x: Correlation, point: Point) -> float:
    """Cycles of the slowest core, nearly, if inner loops load everything once; infinite if it is no
    point of this shape.
    """
    turned = x.turned if point.is_turned else x
    of = [point.rows], [point.cols], [point.split], point.is_even
    return float(Tried(turned, point.is_turned, False, *of).cycles.item())
