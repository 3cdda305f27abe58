"""The gradient of a convolution's weights, without copies of the image.

    dW[g, r, c, s, t] = sum over y, x of  dY[g, r, y, x] * X[g, c, ys.source(y, s), xs.source(x, t)]

A block of sums stays in registers for all of the image: rows x channels x taps along x. Some
neighbouring outputs along x are one body; outputs at the borders have bodies of their own. Of one
channel, taps along y are channels if all lines are read through each of them. Few rows and channels
are pairs that cores share one by one. Or they share blocks and taps along y as tasks, see
trainlib.codegen.tasks.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise, product
from math import inf
from typing import NamedTuple

import numpy as np

from firmware.builder import KernelError, Register
from trainlib.codegen.inner_loop import (
    CACHED,
    REFETCH,
    Body,
    Kind,
    Mac,
    Value,
    loop_cycles,
    pairs,
    reaches_of,
    window_of,
)
from trainlib.codegen.tasks import HALF, Block, Shares, Task, tasks_of
from trainlib.codegen.work_split import heights
from trainlib.conv.axis import Axis, BlockRun
from trainlib.conv.correlation import Images, Weights, arithmetic, lanes_of, reads_of, swapped
from trainlib.conv.correlation_schedule import POOL, REGISTERS, clash, turns, useful_splits
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tile_spec import CodeCost

ROWS, CHANNELS, WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 6), (1, 2, 3, 4, 8)
GROUP_WIDTHS = (1, 2, 3, 4, 5, 6, 8)  # of several groups, whose blocks are small
AROUND = 40  # instructions around all lines of a block besides its stores, nearly
AROUND_LOOP = 12  # of each loop over lines but one, nearly
LOOPED = 3  # around the rounds of a line that read alike
# Fetches of a block from the shared cache, fitted to those of 303 points of 40 gradients in L1.
HELD = 130  # instructions of all blocks that a core's own cache still has for the next block, about
LOST = 0.9  # cycles of each of the others
FILLED = 0.0037  # of a loop over lines, for its instructions squared: its lines replace each other
PAIRS = 8  # of a row and a channel for each core, at most, to look at them one by one
PLANNED = 24  # blocks whose inner loops are planned to choose among them
BORDERS = 4  # lines that are read through some taps along y alone, each with code of its own
AROUND_BORDER = 40  # instructions around the code of such a line, nearly
TASKS = 20  # of a core, at most
AROUND_TASK = 60  # cycles of a task besides its block, about: two words come from L2
WORTH = 0.97  # of the cycles without tasks, at most
NEW = 1  # cycles for each instruction of it, the first time


class Border(NamedTuple):
    """A line of dY that is read through some taps along y alone."""

    line: int
    taps: range


@dataclass(frozen=True)
class WeightGradient:
    """What is computed.

    accumulates    is it added to what dW holds?
    element        of images; of halves that lie together, dW is words: sums of even places, and of
                   odd ones
    closes         is dW halves in that case, too? For groups of one channel each alone
    has_one_chain  of halves, is a sum of places one after the other? Else even and odd ones are
                   apart where they lie together
    has_row_pairs  of such, has a register two rows of a place? Rows are then pairs of them, dY is
                   words of both, see row_pairs; dW is halves, its second row half a pair after it
    of_row         channels of each row, if groups are pairs of these, see pairs, and there are
                   several of both. Groups' steps are those of rows of dY, of channels of X and dW
                   then
    each           a register that says how many groups each core has, `groups` of all cores at
                   most; the code sets it free. None: they are partitioned here
    first, above   if taps along y are channels, see deep: the first line of dY that is read through
                   all of them, and the line of X that it reads through the first
    borders        likewise, the other lines
    """

    groups: int
    rows: int
    channels: int
    ys: Axis
    xs: Axis
    dy: Images
    x: Images
    dw: Weights
    accumulates: bool = False
    element: Element = F32
    has_one_chain: bool = False
    has_row_pairs: bool = False
    closes: bool = False
    each: Register | None = None
    of_row: int = 0
    first: int = 0
    above: int = 0
    borders: tuple[Border, ...] = ()

    @property
    def lines(self) -> int:
        """Lines of dY up to the last that is read; the first ones may be of padding alone."""
        last = self.first + self.ys.outputs
        return max([last, *(border.line + 1 for border in self.borders)])

    @cached_property
    def lanes(self) -> int:
        """Neighbouring outputs along x in a register: two halves, where they read neighbours."""
        if self.has_one_chain:
            return 1
        return lanes_of(self.element, self.xs, self.x.place, self.dy.place)

    @cached_property
    def turned(self) -> "WeightGradient":
        """The same with lines for columns."""
        return replace(
            self, ys=self.xs, xs=self.ys, dy=self.dy.turned, x=self.x.turned, dw=self.dw.turned
        )

    @cached_property
    def pairs(self) -> "WeightGradient":
        """Of one group: the same with a group for each pair of a row and a channel, of which all
        cores have as many. Else, and of halves, as it is.
        """
        if self.groups > 1 or self.element.is_half or self.rows * self.channels == 1:
            return self
        rows, channels = self.rows > 1, self.channels > 1
        return replace(
            self,
            groups=self.rows * self.channels,
            rows=1,
            channels=1,
            dy=replace(self.dy, group=self.dy.channel * rows),
            x=replace(self.x, group=self.x.channel * channels),
            dw=replace(self.dw, group=self.dw.channel if channels else self.dw.row),
            of_row=self.channels * (rows and channels),
        )

    @cached_property
    def deep(self) -> "WeightGradient":
        """Of one channel: the same with taps along y for channels, each of which begins some lines
        after the one before. A block has several then, for which dY is loaded once. If lines at the
        borders are read through some of them alone, these must be few, and a block has all taps.
        Else as it is.
        """
        ys = self.ys
        is_one = self.rows == self.channels == 1 and not self.element.is_half
        if not is_one or ys.taps == 1 or ys.is_transposed:
            return self
        middle, borders = ys.middle, []
        for line in (*range(middle.start), *range(middle.stop, ys.outputs)):
            if read := [tap for tap in range(ys.taps) if ys.source(line, tap) is not None]:
                borders.append(Border(line, range(read[0], read[-1] + 1)))
        is_one_block = len(tap_blocks(self.xs.taps, ys.taps)) == 1
        if len(middle) < 2 or borders and (len(borders) > BORDERS or not is_one_block):
            return self
        return replace(
            self,
            channels=ys.taps,
            ys=Axis(len(middle), (len(middle) - 1) * ys.stride + 1, 1, ys.stride),
            x=replace(self.x, channel=ys.dilation * self.x.line),
            dw=replace(self.dw, channel=self.dw.line),
            first=middle.start,
            above=middle.start * ys.stride - ys.pad,
            borders=tuple(borders),
        )


class Point(NamedTuple):
    """How it is computed.

    rows, channels    of the block of sums
    cols              outputs along x in a body
    split             parts of the rows (of the groups, if there are several) and of the channels
    is_turned         are lines and columns exchanged?
    has_tasks         do cores share blocks one by one, see trainlib.codegen.tasks? Then split says
                      how many cores there are
    """

    rows: int
    channels: int
    cols: int
    split: tuple[int, int]
    is_turned: bool
    has_tasks: bool = False


class Nest:
    """The inner loops of a block of sums: bodies of the runs along x, in every line.

    shape    rows, channels of the block
    taps     along x
    """

    def __init__(
        self, g: WeightGradient, rows: int, channels: int, taps: range, cols: int, pool: int
    ) -> None:
        self.g, self.rows, self.channels, self.taps, self.pool = g, rows, channels, taps, pool
        self.runs = _runs(g.xs, cols, g.element, g.lanes)
        macs = [self._macs(run) for run in self.runs]
        reaches = reaches_of([mac for some in macs for mac in some], ("g", "x"))
        bases = [run.first.base for run in self.runs]
        self.bodies = []
        for index, run in enumerate(self.runs):
            step = run.step
            if run.times == 1:
                step = bases[index + 1] - bases[index] if index + 1 < len(bases) else 0
            strides = {"g": run.first.width * g.dy.place, "x": step * g.x.place}
            multiply = arithmetic(g.element, g.lanes, is_one=False)
            if g.has_row_pairs:
                multiply = swapped(pairs(g.element, is_one=True))
            self.bodies.append(Body(macs[index], pool, strides, reaches, multiply, run.times))

    def with_pool(self, pool: int) -> "Nest":
        """The same with so many registers for what is loaded."""
        other = copy(self)
        other.pool, other.bodies = pool, [body.with_pool(pool) for body in self.bodies]
        return other

    def _macs(self, run: BlockRun) -> list[Mac]:
        g, count, width = self.g, len(self.taps), run.first.width
        reads = [read for read in reads_of(run.first, g.element, g.lanes) if read.tap in self.taps]
        macs = []
        for q in range(-(-width // g.lanes)):
            place, kind = q * g.lanes * g.dy.place, self._kind(q, width)
            dys = [Value("g", r * g.dy.channel + place, kind) for r in range(self.rows)]
            xs = [
                (c * count + read.tap - self.taps.start,
                 Value("x", c * g.x.channel + read.place * g.x.place, read.kind))
                for c in range(self.channels) for read in reads if read.sum == q
            ]  # fmt: skip
            row = self.channels * count
            macs += [Mac(r * row + acc, dy, x) for r, dy in enumerate(dys) for acc, x in xs]
        return macs

    def _kind(self, q: int, width: int) -> Kind:
        """Of the gradients of the outputs that a register has, of so many."""
        if self.g.lanes == 1 and not self.g.has_row_pairs:
            return "half" if self.g.element.is_half else "word"
        return "word" if (q + 1) * self.g.lanes <= width else "low"

    @property
    def sums(self) -> int:
        """Registers for the sums."""
        return self.rows * self.channels * len(self.taps)

    @property
    def pointers(self) -> int:
        """Registers for pointers."""
        return len(self.bodies[0].reaches)

    @property
    def constants(self) -> list[int]:
        """Steps of pointers that must be in registers."""
        return sorted({value for body in self.bodies for value in body.constants})

    @property
    def slowness(self) -> float:
        """Cycles of the bodies to their instructions if everything were loaded once."""
        cycles = least = 1
        for run, body in zip(self.runs, self.bodies, strict=True):
            values = {value for mac in body.macs for value in mac[1:]}
            window = window_of(values, body.strides) if run.times > 1 else ()
            loads = sum(value.cycles for value in values)
            kept = sum(value.cycles for value, _ in window)
            least += run.times * (len(body.macs) + loads - kept) + kept
            cycles += run.times * body.cycles + body.entry_cycles
        return cycles / least

    @property
    def loops(self) -> list[range]:
        """Runs that are loops over all lines together: those whose code a core's own cache holds.

        Of halves, the order of sums is fixed.
        """
        sizes = [len(body.steps) for body in self.bodies]
        return [range(len(sizes))] if self.g.element.is_half else loops_of(sizes)

    def ahead(self, index: int) -> dict[str, int]:
        """Bytes from the start of a line to that of a run, of each stream."""
        g, first = self.g, self.runs[index].first
        return {"g": first.start * g.dy.place, "x": first.base * g.x.place}

    def further(self, index: int, runs: range) -> list[int]:
        """Bytes that pointers go on after a run: to the next of these, from the last one to the
        first of the next line.
        """
        g, is_last = self.g, index == runs[-1]
        following = runs.start if is_last else index + 1
        here, there = self.ahead(index), self.ahead(following)
        line = {"g": g.dy.line, "x": g.ys.stride * g.x.line} if is_last else {"g": 0, "x": 0}
        body, times = self.bodies[index], self.runs[index].times
        return [
            there[old.stream] + line[old.stream] + new.bias
            - here[old.stream] - times * body.strides[old.stream] - old.bias
            for old, new in zip(body.pointers, self.bodies[following].pointers, strict=True)
        ]  # fmt: skip


def choose_view(
    name: str, g: WeightGradient, cores: int, given: dict, *, has_pairs: bool = True
) -> tuple[WeightGradient, Point]:
    """What is computed, as it is looked at, and how: lines may be columns, taps channels, and pairs
    of a row and a channel groups.

    given        see choose
    has_pairs    may they be?

    raises    KernelError likewise
    """
    is_square = g.ys.outputs == g.xs.outputs
    seen = [g.turned if is_turned else g for is_turned in turns(given, is_square)]
    views = [view for way in seen for view in (way.deep, way)]
    is_free = not any(given[name] for name in ("rows", "channels", "cols", "split"))
    if has_pairs and is_free and g.rows * g.channels <= PAIRS * cores:
        views += [way.pairs.deep for way in seen if way.pairs.deep is not way.pairs]
    views = list(dict.fromkeys(views))
    by_tasks = has_pairs and is_free and _may_have_tasks(g)
    if views == seen and not by_tasks:
        point = choose(name, g, cores, given)
        return g.turned if point.is_turned else g, point
    fewest, best = inf, None
    for view in views:
        planned, found = _chosen(view, cores, given | {"is_turned": False}, fewest)
        if found:
            fewest, best = planned, (view, found)
    if best is None:
        raise _refusal(name, g, cores, given)
    most = WORTH * fewest
    for way in seen if by_tasks else ():
        for planned, point in _by_tasks(way, cores, most):
            most, best = planned, (way, point)
    return best


def _planned(g: WeightGradient, point: Point) -> float:
    """Cycles of the slowest core, nearly, as inner loops are planned; infinite without room."""
    nest = fitting(g, point)
    return cycles(g, point) * nest.slowness if nest else inf


def _may_have_tasks(g: WeightGradient) -> bool:
    """May blocks be tasks? Of one group, if anything is read, and what says where they lie fits the
    table.
    """
    lines = max(g.ys.outputs * g.dy.line, g.ys.inputs * g.x.line)
    far = max(g.rows * g.dy.channel + lines, g.channels * g.x.channel + lines, g.rows * g.dw.row)
    is_read = g.ys.reads * g.xs.reads > 0
    return g.groups == 1 and not g.element.is_half and is_read and far < 1 << HALF


def _by_tasks(g: WeightGradient, cores: int, most: float) -> Iterator[tuple[float, Point]]:
    """Points with tasks, each of fewer cycles than that before, the first of fewer than so many."""
    free = dict.fromkeys(("rows", "channels", "cols", "split")) | {"is_turned": False}
    wholes = list(tried_points(g, 1, free))
    for whole, bound in zip(wholes, least(g, wholes), strict=True):
        count = -(-g.rows // whole.rows) * -(-g.channels // whole.channels) * g.ys.taps
        if count > TASKS * cores or bound + count * AROUND_TASK >= most * cores:
            continue
        point = whole._replace(split=(1, cores), has_tasks=True)
        if _of_all_tasks(g, point) < most * cores:
            planned = _planned(g, point)
            if planned < most:
                most = planned
                yield planned, point


def shares(g: WeightGradient, point: Point) -> Shares:
    """The tasks of each core."""
    return Shares.of(_with_cycles(g, point), point.split[1])


def _with_cycles(g: WeightGradient, point: Point) -> list[tuple[float, Task]]:
    """All tasks of a point, with the cycles of each, nearly."""
    costs = _task_cycles(g, point)
    tasks = tasks_of((g.rows, g.channels), Block(point.rows, point.channels), g.ys.taps)
    return [(costs[task.block][task.tap], task) for task in tasks]


def _of_all_tasks(g: WeightGradient, point: Point) -> float:
    """Cycles of all of them."""
    rows, channels = heights(g.rows, point.rows), heights(g.channels, point.channels)
    of = _task_cycles(g, point).items()
    return sum(rows[block.rows] * channels[block.channels] * sum(taps) for block, taps in of)


def _task_cycles(g: WeightGradient, point: Point) -> dict[Block, list[float]]:
    """Cycles of a block of each size for each tap along lines, nearly."""
    sums, of = point.rows * point.channels, (point.cols, g.element, g.lanes)
    sizes = product(heights(g.rows, point.rows), heights(g.channels, point.channels))
    costs = {Block(*size): _block(g.xs, *size, sums, *of) for size in sizes}
    code = sum(own for *_, own, _ in costs.values())
    lost = LOST * (1 - HELD / code) if code > HELD else 0.0
    meeting, found = _meeting(g.x.place, point.split[::-1]), {}
    for block, (line, ends, own, filling) in costs.items():
        once = ends + AROUND_TASK + (lost * own + filling if lost else 0)
        found[block] = [meeting * (count * line + once) for count in g.ys.reads_through]
    return found


@cache
def fewest(g: WeightGradient, cores: int, *, has_pairs: bool) -> CodeCost:
    """The cost of what is chosen, nearly; see choose_view.

    raises    KernelError if nothing fits the registers
    """
    free = dict.fromkeys(("rows", "channels", "cols", "split", "is_turned"))
    seen, point = choose_view("weight_gradient", g, cores, free, has_pairs=has_pairs)
    sums, of = point.rows * point.channels, (point.cols, g.element, g.lanes)
    rows = seen.rows if seen.groups > 1 or point.has_tasks else -(-seen.rows // point.split[0])
    channels = seen.channels if point.has_tasks else -(-seen.channels // point.split[1])
    sizes = product(heights(rows, point.rows), heights(channels, point.channels))
    code = sum(_block(seen.xs, *size, sums, *of)[2] for size in sizes)
    return CodeCost(_planned(seen, point), code)


def choose(name: str, g: WeightGradient, cores: int, given: dict) -> Point:
    """The point that is meant: what is None is chosen for the fewest cycles, nearly.

    given     rows, channels, cols, split, is_turned, any of them None

    raises    KernelError if it is not a point of this shape, or does not fit the registers
    """
    _, chosen = _chosen(g, cores, given, inf)
    if chosen is None:
        raise _refusal(name, g, cores, given)
    return chosen


def _chosen(g: WeightGradient, cores: int, given: dict, most: float) -> tuple[float, Point | None]:
    """The point of the fewest cycles, nearly, and these, if they are fewer than so many."""
    chosen, fewest = None, most
    nests: dict[Point, Nest | None] = {}
    for least_cycles, point in by_cycles(g, list(tried_points(g, cores, given))):
        shape = point._replace(split=(1, 1))
        if least_cycles >= fewest:
            break
        if shape not in nests:
            if sum(nest is not None for nest in nests.values()) == PLANNED:
                break
            nests[shape] = fitting(g, shape)
        nest = nests[shape]
        if nest and least_cycles * nest.slowness < fewest:
            chosen, fewest = point, least_cycles * nest.slowness
    return fewest, chosen


def by_cycles(g: WeightGradient, points: Sequence[Point]) -> Iterator[tuple[float, Point]]:
    """Points, and their cycles, from the fewest on: only of those asked for, and of some others
    that might come before them, the cycles are found.
    """
    if not points:
        return
    waiting = [(bound, False, index) for index, bound in enumerate(least(g, points).tolist())]
    heapify(waiting)
    while waiting:
        found, is_exact, index = heappop(waiting)
        if is_exact:
            yield found, points[index]
        else:
            heappush(waiting, (cycles(g, points[index]), True, index))


def _refusal(name: str, g: WeightGradient, cores: int, given: dict) -> KernelError:
    wanted = ", ".join(f"{key} {value}" for key, value in given.items() if value is not None)
    return KernelError(
        f"{name}: {wanted}: no such point for {g.groups} x {g.rows} rows and {g.channels} "
        f"channels of {g.ys.outputs} x {g.xs.outputs} outputs on {cores} cores, {REGISTERS} "
        f"registers each"
    )


def tried_points(g: WeightGradient, cores: int, given: dict) -> Iterator[Point]:
    widths = GROUP_WIDTHS if g.groups > 1 else WIDTHS
    tried = {"rows": ROWS, "channels": CHANNELS}
    tried["cols"] = tuple(g.lanes * width for width in widths)
    sizes = [(given[name],) if given[name] else values for name, values in tried.items()]
    is_straight = g.element.is_half  # the order of their sums is fixed
    if is_straight and given["is_turned"]:
        return
    for is_turned in (False,) if is_straight else turns(given, g.ys.outputs == g.xs.outputs):
        outputs, taps = (g.ys if is_turned else g.xs).outputs, (g.ys if is_turned else g.xs).taps
        cols_tried = [cols for cols in sizes[2] if cols < outputs + g.lanes and not cols % g.lanes]
        splits = []
        for split in _splits(g, cores, given["split"]):
            part = -(-g.rows // split[0]) if g.groups == 1 else g.rows
            parts = part, -(-g.channels // split[1])
            splits.append((split, *map(filling, parts, sizes)))
        for rows, channels in product(*sizes[:2]):
            if rows > g.rows or channels > g.channels or g.borders and channels < g.channels:
                continue
            if rows * channels * len(tap_blocks(taps, rows * channels)[0]) >= REGISTERS - POOL:
                continue
            filled = [split for split, *of in splits if rows in of[0] and channels in of[1]]
            for cols, split in product(cols_tried, filled):
                yield Point(rows, channels, cols, split, is_turned)


def filling(part: int, tried: Sequence[int]) -> list[int]:
    """Sizes of blocks that a core's part fills, or of which no smaller one holds it."""
    return [size for size in tried if not any(part <= other < size for other in tried)]


def _splits(g: WeightGradient, cores: int, given: tuple[int, int] | None) -> list[tuple[int, int]]:
    partitioned = g.rows if g.groups == 1 else g.groups
    others = 1 if g.borders else g.channels
    if given is None:
        return useful_splits(partitioned, others, cores)
    is_one = 1 <= given[0] <= partitioned and 1 <= given[1] <= others
    return [given] if is_one and given[0] * given[1] <= cores else []


@cache
def tap_blocks(taps: int, sums: int) -> list[range]:
    """Taps in blocks of which `sums` blocks fit the registers."""
    most = max(1, (REGISTERS - POOL - 4) // sums)
    return [range(start, min(start + most, taps)) for start in range(0, taps, most)]


def addresses(g: WeightGradient, point: Point) -> tuple[int, int]:
    """Registers for pointers, and for constants of their steps: the most that a block of taps
    needs. The first ones may read nothing.
    """
    return _addresses(_nests(g, point))


def _addresses(nests: Sequence[Nest]) -> tuple[int, int]:
    return max(nest.pointers for nest in nests), max(len(nest.constants) for nest in nests)


def _nests(g: WeightGradient, point: Point) -> list[Nest]:
    """Of each block of taps, with the fewest registers for what is loaded."""
    blocks = tap_blocks(g.xs.taps, point.rows * point.channels)
    return [Nest(g, point.rows, point.channels, taps, point.cols, POOL) for taps in blocks]


def fitting(g: WeightGradient, point: Point) -> Nest | None:
    """A point's nest with as many registers for what is loaded as are of use, if it fits."""
    g = g.turned if point.is_turned else g
    nests = _nests(g, point)
    nest = nests[0]
    left = REGISTERS - nest.sums - sum(_addresses(nests))
    fewest = POOL + (g.accumulates and g.has_row_pairs)  # one to load the upper half of a sum
    pool = max(fewest, min(left, point.channels * len(nest.taps) + 4))
    return nest.with_pool(pool) if left >= fewest else None


def loops_of(sizes: Sequence[int]) -> list[range]:
    """Runs of a line, given the instructions of each, in loops that a core's own cache holds."""
    cuts, size = [0], 0
    for index, own in enumerate(sizes):
        if size and own and size + own > CACHED:
            cuts.append(index)
            size = 0
        size += own
    return [range(*ends) for ends in pairwise((*cuts, len(sizes)))]


class Rounds(NamedTuple):
    """Rounds of a line for a row and a channel that read alike.

    times        how many there are
    registers    that hold dY
    loads        cycles to load all that it reads of X
    kept         cycles of those loads that a round before has made
    reads        multiply-adds
    """

    times: int
    registers: int
    loads: int
    kept: int
    reads: int


def _bodies(
    xs: Axis, cols: int, rows: int, channels: int, taps: range, element: Element, lanes: int
) -> tuple[list[tuple[int, int]], int]:
    """Of a line, how often each body is run and its instructions, and those before all rounds:
    if a body loads everything once that no round before has.
    """
    bodies, entry = [], 0
    for each in _rounds(xs, cols, taps, element, lanes):
        loads = rows * each.registers + channels * (each.loads - each.kept)
        bodies.append((each.times, loads + rows * channels * each.reads))
        entry += channels * each.kept
    return bodies, entry


def _runs(xs: Axis, cols: int, element: Element, lanes: int) -> list[BlockRun]:
    """The bodies of a line: those at the borders are as short as can be, but of floats all of a
    line is one if it is no longer than a body, which loads each input once.
    """
    is_trimmed = element.is_half or cols < xs.outputs
    return xs.runs(cols, is_trimmed=is_trimmed, lanes=lanes)


@cache
def _rounds(xs: Axis, cols: int, taps: range, element: Element, lanes: int) -> tuple[Rounds, ...]:
    """Those of a line, through some of its taps."""
    found = []
    for run in _runs(xs, cols, element, lanes):
        reads = [read for read in reads_of(run.first, element, lanes) if read.tap in taps]
        values = {Value("x", read.place * element.size, read.kind) for read in reads}
        window = window_of(values, {"x": run.step * element.size}) if run.times > 1 else ()
        loads, kept = (sum(value.cycles for value in of) for of in (values, dict(window)))
        found.append(Rounds(run.times, -(-run.first.width // lanes), loads, kept, len(reads)))
    return tuple(found)


def _line(bodies: list[tuple[int, int]], entry: int, is_cut: bool) -> tuple[float, list[int]]:
    """Cycles of a line of these bodies, nearly, and instructions of the loops over lines that have
    some of them each.

    is_cut    may there be several?
    """
    sizes = [body for _, body in bodies]
    loops = loops_of(sizes) if is_cut else [range(len(sizes))]
    total = entry + sum(count * loop_cycles(body) + LOOPED * (count > 1) for count, body in bodies)
    if not is_cut and sum(sizes) > CACHED:
        total += REFETCH * sum(body for body in sizes if body <= CACHED)
    return total, [sum(sizes[runs.start : runs.stop]) for runs in loops]


def _part(g: WeightGradient, split: tuple[int, int]) -> tuple[int, int, int]:
    """Of the slowest core: groups, and rows and channels of each."""
    part = -(-(g.rows if g.groups == 1 else g.groups) // split[0])
    groups, rows = (1, part) if g.groups == 1 else (part, g.rows)
    return groups, rows, -(-g.channels // split[1])


def least(g: WeightGradient, points: Sequence[Point]) -> np.ndarray:
    """What `cycles` is at least, of points without tasks: without jumps, and from a cache that
    holds all code.
    """
    of = {is_turned: g.turned if is_turned else g for is_turned in {p.is_turned for p in points}}
    each = [(p.is_turned, p.cols, p.rows * p.channels) for p in points]
    lines = {key: _of_line(of[key[0]], *key[1:]) for key in set(each)}
    parts = {p.split: _part(g, p.split) for p in points}
    ways = {(p.is_turned, p.split) for p in points}
    meeting = {way: _meeting(of[way[0]].x.place, way[1]) for way in ways}
    of_row, of_channel, of_both, of_block, of_sum = np.array([lines[key] for key in each]).T
    groups, rows, channels = np.array([parts[p.split] for p in points]).T
    factor = np.array([meeting[p.is_turned, p.split] for p in points])
    panels = -(-channels // np.array([p.channels for p in points]))
    blocks = -(-rows // np.array([p.rows for p in points]))
    pairs = rows * channels * (of_both + of_sum) + panels * blocks * of_block
    return factor * groups * (pairs + rows * panels * of_row + channels * blocks * of_channel)


def _of_line(g: WeightGradient, cols: int, sums: int) -> tuple[int, int, int, int, int]:
    """Instructions of all lines for each row of a block, for each channel, and for each pair; of
    each block besides, and of each sum.

    sums    of a tap, of the largest block
    """
    of_row, of_channel, of_both = _loads_and_macs(g.xs, cols, sums, g.element, g.lanes)
    reads, taps, parts = g.ys.reads, g.ys.taps, len(tap_blocks(g.xs.taps, sums))
    return (
        *(reads * of_row, reads * of_channel, reads * of_both),
        *(taps * AROUND * parts, taps * 2 * g.xs.taps),
    )


@cache
def _loads_and_macs(
    xs: Axis, cols: int, sums: int, element: Element, lanes: int
) -> tuple[int, int, int]:
    """Cycles of a line to load what one row reads and what one channel does; multiply-adds."""
    rounds = [
        each
        for taps in tap_blocks(xs.taps, sums)
        for each in _rounds(xs, cols, taps, element, lanes)
    ]
    return (
        sum(each.times * each.registers for each in rounds),
        sum(each.times * (each.loads - each.kept) + each.kept for each in rounds),
        sum(each.times * each.reads for each in rounds),
    )


def cycles(g: WeightGradient, point: Point) -> float:
    """Cycles of the slowest core, nearly, if bodies load everything once."""
    if point.has_tasks:
        return shares(g, point).cycles
    groups, rows, channels = _part(g, point.split)
    g = g.turned if point.is_turned else g
    sizes = (rows, channels), (point.rows, point.channels)
    meeting = _meeting(g.x.place, point.split)
    at_borders = sum(len(border.taps) for border in g.borders) / g.channels
    lines = g.ys.reads + at_borders, g.ys.taps, 1 + at_borders
    of_halves = g.element, g.lanes
    blocks = _blocks(lines, g.xs, *sizes, point.cols, *of_halves)
    total = meeting * groups * (blocks + AROUND_BORDER * len(g.borders))
    if g.borders:
        sums = point.rows * point.channels
        _, _, code, _ = _block(g.xs, point.rows, point.channels, sums, point.cols, *of_halves)
        total += NEW * at_borders * code
    return total


@cache
def _meeting(place: int, split: tuple[int, int]) -> float:
    """How much longer cores take that read the same images: see clash."""
    return float(clash(place, split))


@cache
def _blocks(
    lines: tuple[float, int, float],
    xs: Axis,
    size: tuple[int, int],
    block: tuple[int, int],
    cols: int,
    element: Element,
    lanes: int,
) -> float:
    """Cycles of all blocks of a core's rows and channels, nearly.

    lines    what those of dY read of X, taps along them, and how often there is code for a line
    """
    sums, (reads, taps, copies) = block[0] * block[1], lines
    blocks = []
    for height, panels in heights(size[0], block[0]).items():
        for depth, times in heights(size[1], block[1]).items():
            line, ends, code, filling = _block(xs, height, depth, sums, cols, element, lanes)
            of = reads * line + taps * ends, copies * code, filling
            blocks.append((panels * times, *of))
    total = sum(times * cycles for times, cycles, *_ in blocks)
    code = sum(code for *_, code, _ in blocks)
    if code > HELD:
        lost = LOST * (1 - HELD / code)
        total += taps * sum(times * (lost * code + fill) for times, _, code, fill in blocks)
    return total


@cache
def _block(
    xs: Axis,
    height: int,
    depth: int,
    sums: int,
    cols: int,
    element: Element,
    lanes: int,
) -> tuple[float, float, float, float]:
    """Cycles of a block of so many rows and channels for a line, and of each tap along lines; its
    instructions, and cycles until a cache has its loops over lines, nearly.

    sums    of a tap, of the largest block
    """
    line = ends = code = filling = 0.0
    for taps in tap_blocks(xs.taps, sums):
        bodies, entry = _bodies(xs, cols, height, depth, taps, element, lanes)
        around = AROUND + 2 * height * depth * len(taps)
        lines, loops = _line(bodies, entry, not element.is_half)
        line += lines
        ends += around + AROUND_LOOP * (len(loops) - 1)
        filling += FILLED * sum(size**2 for size in loops)
        code += sum(body for _, body in bodies) + around
    return line, ends, code, filling
