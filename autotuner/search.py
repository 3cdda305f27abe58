"""Policies: which points of a space are measured. Pure functions of `measure`.

found = guided(space, measure)
found[0].point, found[0].outcome.cycles

paper         the paper's algorithm: if the layer fits L1 that one tile, else the K_T largest,
              times all kernels; of these the one whose single tile takes the fewest cycles
              for each multiply-add
exhaustive    every point
guided        the most promising first; what a lower bound excludes is never measured

Where a layer is computed in phases, a simulation tells the cycles of each: so a point tries tiles
of all of them, and the best of each phase are put together: see autotuner.phase_combination.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from autotuner.lower_bound import lower_bound
from autotuner.measurement import Outcome
from autotuner.phase_combination import combined
from autotuner.point import Items, Point
from autotuner.result import Found
from autotuner.space import PAPER_TILES, Space

MeasurePoints = Callable[[Sequence[Point]], list[Outcome]]
SHARE = 7
"""guided tries at most one point in so many: simulates it, or finds that it can't be built."""

LEAST_OF_PHASES = 40
"""Points that it may simulate of phases, however few there are: one stands for many others."""

TYPICAL = 150
"""Points that guided simulates of large spaces, nearly: to tell how long it will take."""

PATIENCE = 24  # tiles without a gain until guided turns to blockings
BATCH = 8  # points that are measured at the same time
TOP = 3  # of the best, around which guided tries everything
GROUPS = (("rows", "cols"), ("split",), ("is_turned",), ("unroll",), ("channels",))
"""What of a blocking is changed at a time."""


def exhaustive(space: Space, measure: MeasurePoints) -> list[Found]:
    """All points, fastest first; failed ones at the end. Ties keep the order of the space.

    Of phases, what is best of each is measured together, too.
    """
    found = _measured(list(space), measure)
    while more := combined(space, found):
        found += _measured(more, measure)
    return ranked(found)


def paper(
    space: Space, measure: MeasurePoints, single: MeasurePoints, most: int = PAPER_TILES
) -> list[Found]:
    """The paper's choice first, measured as a whole layer; then what else came to be measured.

    single    the latency of one tile
    most      K_T
    """
    points = space.paper(most)
    if any(point.is_phased for point in points):
        return ranked(_measured(points, measure))  # phases have no single tile
    latency = zip(points, single(points), strict=True)
    order = sorted(latency, key=lambda pair: pair[1].rank / (pair[0].volume or space.layer.macs))
    tried: list[Found] = []
    for point, outcome in order:
        if outcome.cycles is None:
            tried.append(Found(point, outcome))
            continue
        tried += _measured([point], measure)
        if tried[-1].outcome.cycles is not None:
            break
    return ranked(tried)


def guided(space: Space, measure: MeasurePoints, share: int = SHARE) -> list[Found]:
    """The fastest point that a search from the most promising tiles finds; others after it.

    First tiles with the primitive's own blocking, by trainlib's estimate; then everything around
    the best of these; then the best blocking on other tiles, until nothing is gained.
    """
    search = Search(space, measure, limit(space, share))
    search.tiles(())
    while True:
        best = search.best
        search.around_the_best()
        if search.best:
            search.tiles(search.best.point.kernel)
        if search.best == best or search.is_spent:
            return ranked(search.found.values())


def confirmed(found: Sequence[Found], measure: MeasurePoints) -> list[Found]:
    """What was found by estimates, the best measured: as long as the best is an estimate."""
    every = {f.point: replace(f, is_estimated=f.outcome.cycles is not None) for f in found}
    while every:
        best = ranked(every.values())[0]
        if not best.is_estimated:
            break
        [every[best.point]] = _measured([best.point], measure)
    return ranked(every.values())


def limit(space: Space, share: int = SHARE) -> int:
    """Points that guided tries at most."""
    is_phased = space.is_phased(space.own_buffers)
    least = min(len(space), LEAST_OF_PHASES if is_phased else 2)
    return max(len(space) // share, least)


class Search:
    """The measurements so far; no more than `budget` points are tried."""

    def __init__(self, space: Space, measure: MeasurePoints, budget: int) -> None:
        self.space, self.measure, self.budget = space, measure, budget
        self.patience = max(min(PATIENCE, budget // SHARE), 1)
        self.found: dict[Point, Found] = {}
        self.expanded: set[Point] = set()

    @property
    def best(self) -> Found | None:
        """The fastest yet."""
        return next(iter(self.top(1)), None)

    def top(self, count: int, like: Callable[[Point], bool] | None = None) -> list[Found]:
        """The fastest that have not failed; of equals the first, since they are the same program.

        like    is asked of each point whether it counts
        """
        seen: dict[tuple[float, int | None], Found] = {}
        for found in ranked(self.found.values()):
            if found.outcome.cycles is not None and (like is None or like(found.point)):
                seen.setdefault((found.outcome.rank, found.outcome.l1_bytes), found)
        return list(seen.values())[:count]

    def tiles(self, kernel: Items) -> None:
        """Tiles with a blocking, the most promising first, until some in a row gain nothing."""
        without_gain = 0
        for points in _batches(promising(self.space, kernel)):
            before = self.best
            without_gain += len(self.try_points(points))
            self.try_points(combined(self.space, self.found.values()))
            if self.best != before:
                without_gain = 0
            if without_gain >= self.patience or self.is_spent:
                return

    def around_the_best(self) -> None:
        """What differs in one respect from the best points, as long as there are better ones.

        Then from the best of each method: its own blocking may be a poor one of a good method.
        """
        while not self.is_spent:
            starts = [found.point for found in self.top(TOP)] or [self.space.default()]
            for method in self.space.methods:
                starts += [found.point for found in self.top(1, partial(self.is_of, method))]
            new = [point for point in starts if point not in self.expanded]
            if not new:
                return
            self.expand(new[0])

    def expand(self, point: Point) -> None:
        """What differs from a point in one respect, and from the best of these in another."""
        self.expanded.add(point)
        starts = [point]
        for fields in GROUPS:
            for start in starts:
                self.try_points(siblings(self.space, start, fields))
            of_tile = self.top(TOP, lambda other: other.tile == point.tile)
            starts = [found.point for found in of_tile] or [point]
        cores = (replace(starts[0], cores=count) for count in self.space.cores)
        others = [other for other in cores if "split" not in dict(other.kernel)]
        self.try_points([other for other in others if self.space.has(other)])

    def try_points(self, points: Iterable[Point]) -> list[Point]:
        """Measure those that are new and may win, as far as the budget goes."""
        most = self.best.outcome.rank if self.best else float("inf")
        new = [p for p in points if p not in self.found and lower_bound(self.space, p) < most]
        new = new[: max(self.budget - len(self.found), 0)]
        for found in _measured(new, self.measure):
            self.found[found.point] = found
        return new

    def is_of(self, method: str, point: Point) -> bool:
        """Is a point computed by a method?"""
        return self.space.method_of(point.kernel) == method

    @property
    def is_spent(self) -> bool:
        """May no more be measured?"""
        return len(self.found) >= self.budget


def siblings(space: Space, point: Point, fields: Sequence[str]) -> list[Point]:
    """Points whose blocking differs in some fields at most."""

    def others(kernel: Items) -> Items:
        return tuple(item for item in kernel if item[0] not in fields)

    method = space.method_of(point.kernel)
    kernels = space.blockings(method, point.cores)
    return [replace(point, kernel=k) for k in kernels if others(k) == others(point.kernel)]


def promising(space: Space, kernel: Items) -> list[Point]:
    """Points of a blocking, by what trainlib expects; first what the primitive does by default,
    alone and in a deployed network.

    kernel    (): the primitive's own, by each of its methods
    """
    points: list[tuple[float, Point]] = []
    most = max(space.cores)
    for method in space.methods if not kernel else [space.method_of(kernel)]:
        for cores in space.cores:
            blockings = space.blockings(method, cores)
            blocking = kernel or blockings[0]
            if blocking not in blockings:
                continue
            for point, cycles in space.promises(method, blocking, cores):
                least = lower_bound(space, point) if cycles is None else cycles * most / cores
                points.append((least, point))
    ordered = [point for _, point in sorted(points, key=lambda pair: pair[0])]
    if kernel:
        return ordered
    own = [point for point in (space.default(), space.deployed()) if point]
    return [*own, *(p for p in ordered if p not in own)]


def ranked(found: Iterable[Found]) -> list[Found]:
    """Fastest first; of equals, the one with fewer bytes of L1, then the one that says less."""
    return sorted(
        found, key=lambda f: (f.outcome.rank, f.outcome.l1_bytes or 0, len(f.point.kernel))
    )


def _measured(points: list[Point], measure: MeasurePoints) -> list[Found]:
    return [Found(p, o) for p, o in zip(points, measure(points), strict=True)] if points else []


def _batches(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    for at in range(0, len(points), BATCH):
        yield points[at : at + BATCH]
