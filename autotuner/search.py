"""Policies: which points of a space are measured. Pure functions of `measure`.

found = guided(space, measure)
found[0].point, found[0].outcome.cycles

paper         the paper's algorithm: if the layer fits L1 that one tile, else the K_T largest,
              times all kernels; of these the one whose single tile takes the fewest cycles
              for each multiply-add
exhaustive    every point
guided        the most promising first; what a lower bound excludes is never measured
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotuner.bound import lower_bound
from autotuner.outcome import Outcome
from autotuner.space import PAPER_TILES, Point, Space

MeasurePoints = Callable[[Sequence[Point]], list[Outcome]]
SHARE = 5
"""guided simulates at most one point in so many, where there are more than FEW of them."""

FEW = 40
PATIENCE = 24  # tiles without a gain until guided turns to kernels
BATCH = 8  # points that are measured at the same time
TILES = 3  # of the best, for which guided tries all kernels


@dataclass(frozen=True)
class Found:
    """A point and its outcome."""

    point: Point
    outcome: Outcome


def exhaustive(space: Space, measure: MeasurePoints) -> list[Found]:
    """All points, fastest first; failed ones at the end. Ties keep the order of the space."""
    return ranked(_measured(list(space), measure))


def paper(
    space: Space, measure: MeasurePoints, single: MeasurePoints, most: int = PAPER_TILES
) -> list[Found]:
    """The paper's choice first, measured as a whole layer; then what else came to be measured.

    single    the latency of one tile
    """
    points = space.paper(most)
    latency = zip(points, single(points), strict=True)
    whole = space.layer.family.macs(space.layer.checked({}))
    order = sorted(latency, key=lambda pair: pair[1].rank / (pair[0].volume or whole))
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
    """The fastest point that a search from the most promising tiles finds; others behind it.

    First tiles with the primitive's own blocking, by trainlib's estimate; then all blockings of
    the best of these; then the best blocking on the tiles around, until nothing is gained.
    """
    search = Search(space, measure, limit(space, share))
    search.tiles(())
    if search.best is None:
        search.kernels(space.default())
    tried: set[Point] = set()
    while True:
        best = search.best
        for found in search.top(TILES):
            if found.point not in tried:
                tried.add(found.point)
                search.kernels(found.point)
        if search.best and search.best.point.kernel:
            search.tiles(search.best.point.kernel)
        if search.best == best:
            return ranked(search.found.values())


def limit(space: Space, share: int = SHARE) -> int:
    """Points that guided simulates at most."""
    return max(FEW, len(space) // share)


class Search:
    """What has been measured so far; no more than `budget` points are simulated."""

    def __init__(self, space: Space, measure: MeasurePoints, budget: int) -> None:
        self.space, self.measure, self.budget = space, measure, budget
        self.found: dict[Point, Found] = {}

    @property
    def best(self) -> Found | None:
        """The fastest yet."""
        return next(iter(self.top(1)), None)

    def top(self, count: int) -> list[Found]:
        """The fastest that have not failed."""
        return [f for f in ranked(self.found.values()) if f.outcome.cycles is not None][:count]

    def tiles(self, kernel: tuple) -> None:
        """Tiles with a blocking, the most promising first, until PATIENCE of them gain nothing."""
        without_gain = 0
        for points in _batches(promising(self.space, kernel)):
            before = self.best
            without_gain += len(self.try_points(points))
            if self.best != before:
                without_gain = 0
            if without_gain >= PATIENCE or self.is_spent:
                return

    def kernels(self, point: Point) -> None:
        """All blockings of a point."""
        method = dict(point.kernel).get("method", "direct")
        kernels = self.space.kernels_of(method)
        others = [Point(point.tile, k, point.buffers, point.cores) for k in kernels]
        for points in _batches(others):
            self.try_points(points)

    def try_points(self, points: Iterable[Point]) -> list[Point]:
        """Measure those that are new and may win, as far as the budget goes."""
        most = self.best.outcome.rank if self.best else float("inf")
        new = [p for p in points if p not in self.found and lower_bound(self.space, p) < most]
        new = new[: max(self.budget - self.simulated, 0)]
        for found in _measured(new, self.measure):
            self.found[found.point] = found
        return new

    @property
    def is_spent(self) -> bool:
        """May no more be measured?"""
        return self.simulated >= self.budget

    @property
    def simulated(self) -> int:
        """Points whose program could be built."""
        return sum(found.outcome.l1_bytes is not None for found in self.found.values())


def promising(space: Space, kernel: tuple) -> list[Point]:
    """Points of a blocking, by what trainlib expects; what the primitive does untold is first."""
    methods = [dict(kernel)["method"]] if "method" in dict(kernel) else ["direct"]
    if not kernel:
        methods = space.methods
    cores = sorted(space.cores, reverse=True)
    points: list[tuple[float, Point]] = []
    for method in methods:
        blocking = kernel or (() if method == "direct" else (("method", method),))
        if dict(blocking).get("method") == space.layer.given.get("method"):
            blocking = tuple(item for item in blocking if item[0] != "method")
        for count in cores:
            if space.is_resident_by(method):
                point = Point(None, blocking, 1, count)
                points.append((lower_bound(space, point), point))
            for buffers in (2, 1):
                points += [
                    (cycles * cores[0] / count, Point(tile, blocking, buffers, count))
                    for tile, cycles in space.estimates(buffers, method)
                ]
    ordered = [point for _, point in sorted(points, key=lambda pair: pair[0])]
    own = space.default()
    return [own, *(p for p in ordered if p != own)] if not kernel else ordered


def ranked(found: Iterable[Found]) -> list[Found]:
    """Fastest first; of equals, the one with fewer bytes of L1."""
    return sorted(found, key=lambda f: (f.outcome.rank, f.outcome.l1_bytes or 0))


def _measured(points: list[Point], measure: MeasurePoints) -> list[Found]:
    return [Found(p, o) for p, o in zip(points, measure(points), strict=True)] if points else []


def _batches(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    for at in range(0, len(points), BATCH):
        yield points[at : at + BATCH]
