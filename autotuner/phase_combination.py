"""The best of each phase, together: from measurements of points that say something of all."""

from collections.abc import Iterable

from autotuner.point import Items, Point
from autotuner.result import Found
from autotuner.space import Space

Way = tuple[Items, int, int]
"""Blocking, buffers and cores."""


def combined(space: Space, found: Iterable[Found]) -> list[Point]:
    """For each way that phases were measured in, the point with the best tiles of each phase.

    Those that were measured are left out.
    """
    known: set[Point] = set()
    best: dict[Way, dict[str, tuple[int, int, Items]]] = {}
    for one in found:
        point, way = one.point, (one.point.kernel, one.point.buffers, one.point.cores)
        known.add(point)
        phases = space.phases(point.buffers, point.cores) if one.outcome.phases else None
        if phases is None or not point.is_phased:
            continue
        said, least = phases.parts(point.tile or ()), best.setdefault(way, {})
        for name, cycles in one.outcome.phases:
            this = cycles, len(said[name]), said[name]
            least[name] = min(this, least.get(name, this))
    points = [_point(space, way, least) for way, least in best.items()]
    return [point for point in points if point not in known]


def _point(space: Space, way: Way, least: dict[str, tuple[int, int, Items]]) -> Point:
    kernel, buffers, cores = way
    phases = space.phases(buffers, cores)
    assert phases is not None
    tile = phases.joined({name: part for name, (*_, part) in least.items()})
    return Point(tile, kernel, buffers, cores, True)
