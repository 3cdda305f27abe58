"""Spans of time: functions, stalls, regions, bursts and transfers of the DMA, as begins and ends.

A slice belongs to a track; on a track, slices nest. Tracks and names are numbers.
"""

from collections.abc import Callable, Iterable

import numpy as np

from pulpsim.trace.calls import CallStacks
from pulpsim.trace.code import Code
from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind, Trace, taken

EDGE = np.dtype(
    [
        ("cycle", "i8"),  # of the run
        ("track", "i4"),
        ("name", "i4"),
        ("is_begin", "?"),
        ("pc", "u4"),  # 0 where there is none
    ]
)
"""A slice begins or ends."""

FUNCTIONS, STALLS, REGIONS, BURSTS, TRANSFERS = range(5)
"""Kinds of tracks: the first three of each hart, then one for each lane, for each transfer."""

WRITE_L1 = 1  # of a DMA event's extra


class Slices:
    """Begins and ends of slices; events are given in order, part by part.

    names     of slices, by number
    tracks    (kind, hart, lane or transfer) of each track, by number
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.names: list[str] = []
        self.tracks: list[tuple[int, int]] = []
        self._name_numbers: dict[str, int] = {}
        self._track_numbers: dict[tuple[int, int], int] = {}
        self.code = Code(trace)
        self.stacks = CallStacks(self.code, len(trace.harts))
        self._function_names = np.zeros(0, np.int32)
        self._causes = np.array([self._name(cause) for cause in CAUSES], np.int32)
        self._regions: dict[int, list[int]] = {}
        self._bursts: dict[int, tuple[int, int, int]] = {}
        self._transfers: dict[int, list[int]] = {}

    def edges(self, part: np.ndarray) -> np.ndarray:
        """What begins and ends in EVENT[n]: EDGE[m]; on each track in the order of time."""
        kinds = part["kind"]
        makers: Iterable[tuple[int, Callable[[np.ndarray], np.ndarray]]] = (
            (Kind.STALL, self._stalls),
            (Kind.REGION, self._region_marks),
            (Kind.DMA, self._beats),
            (Kind.TRANSFER, self._transfer_marks),
        )
        found = [self._functions(self.stacks.changes(part))]
        for kind, make in makers:
            rows = taken(part, kinds == kind)
            if rows.size:
                found.append(make(rows))
        edges = np.concatenate(found)
        edges["cycle"] += self.trace.first_cycle
        return edges

    def close(self) -> np.ndarray:
        """The ends of what is still open at the end of the run: EDGE[m]."""
        end = max(self.trace.cycles - self.trace.first_cycle, 0)
        rows = [
            (end, self._track(REGIONS, hart), name, False, 0)
            for hart, open_regions in self._regions.items()
            for name in reversed(open_regions)
        ]
        rows += [
            (end, track, 0, False, 0) for tracks in self._transfers.values() for track in tracks
        ]
        bursts = [
            self._burst_edges(lane, *np.array(burst)[:, None])
            for lane, burst in self._bursts.items()
        ]
        found = [self._functions(self.stacks.close(end)), np.array(rows, EDGE), *bursts]
        edges = np.concatenate(found)
        edges["cycle"] += self.trace.first_cycle
        return edges

    def _name(self, name: str) -> int:
        number = self._name_numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def _track(self, kind: int, owner: int) -> int:
        number = self._track_numbers.setdefault((kind, owner), len(self.tracks))
        if number == len(self.tracks):
            self.tracks.append((kind, owner))
        return number

    def _functions(self, changes: np.ndarray) -> np.ndarray:
        more = self.code.functions[self._function_names.size :]
        fresh = [self._name(name or "(no symbol)") for name in more]
        self._function_names = np.concatenate([self._function_names, np.array(fresh, np.int32)])
        edges = np.zeros(changes.size, EDGE)
        for field in ("cycle", "is_begin", "pc"):
            edges[field] = changes[field]
        edges["track"] = self._tracks(FUNCTIONS, changes["hart"])
        edges["name"] = self._function_names[changes["function"]]
        return edges

    def _tracks(self, kind: int, owners: np.ndarray) -> np.ndarray:
        table = np.zeros(256, np.int32)
        for owner in np.unique(owners).tolist():
            table[owner] = self._track(kind, owner)
        return table[owners]

    def _stalls(self, rows: np.ndarray) -> np.ndarray:
        edges = np.zeros((rows.size, 2), EDGE)
        begins, ends = edges[:, 0], edges[:, 1]
        begins["cycle"] = rows["cycle"]
        ends["cycle"] = rows["cycle"].astype(np.int64) + rows["b"]
        edges["track"] = self._tracks(STALLS, rows["hart"])[:, None]
        edges["name"] = self._causes[rows["extra"]][:, None]
        edges["pc"] = rows["a"][:, None]
        begins["is_begin"] = True
        return edges.reshape(-1)

    def _region_marks(self, rows: np.ndarray) -> np.ndarray:
        """Regions may overlap; what began later than one that ends is interrupted there."""
        names = self.trace.regions
        edges = []
        for cycle, _, hart, number, begins, pc in rows.tolist():
            name = self._name(names.get(number, f"region {number}"))
            track = self._track(REGIONS, hart)
            open_regions = self._regions.setdefault(hart, [])
            if begins:
                open_regions.append(name)
                edges.append((cycle, track, name, True, pc))
            elif name in open_regions:
                place = len(open_regions) - 1 - open_regions[::-1].index(name)
                later = open_regions[place + 1 :]
                edges += [(cycle, track, other, False, pc) for other in reversed(later)]
                edges.append((cycle, track, name, False, pc))
                edges += [(cycle, track, other, True, pc) for other in later]
                del open_regions[place]
        return np.array(edges, EDGE)

    def _beats(self, rows: np.ndarray) -> np.ndarray:
        """Beats of a lane in neighbouring cycles and one direction are one burst."""
        found = [np.zeros(0, EDGE)]
        for lane in np.unique(rows["hart"]).tolist():
            own = rows[rows["hart"] == lane]
            cycles, ways = own["cycle"].astype(np.int64), own["extra"] & WRITE_L1
            is_first = np.append(True, (np.diff(cycles) > 1) | (np.diff(ways) != 0))
            begins, ways = cycles[is_first], ways[is_first]
            lasts = cycles[np.append(np.flatnonzero(is_first)[1:] - 1, own.size - 1)]
            if lane in self._bursts:
                begin, last, way = self._bursts.pop(lane)
                if begins[0] - last <= 1 and ways[0] == way:
                    begins[0] = begin
                else:
                    found.append(self._burst_edges(lane, *np.array([[begin], [last], [way]])))
            found.append(self._burst_edges(lane, begins[:-1], lasts[:-1], ways[:-1]))
            self._bursts[lane] = int(begins[-1]), int(lasts[-1]), int(ways[-1])
        return np.concatenate(found)

    def _burst_edges(
        self, lane: int, begins: np.ndarray, lasts: np.ndarray, ways: np.ndarray
    ) -> np.ndarray:
        edges = np.zeros((begins.size, 2), EDGE)
        edges["cycle"] = np.stack([begins, lasts + 1], axis=1)
        edges["track"] = self._track(BURSTS, lane)
        names = np.array([self._name("reads L1"), self._name("writes L1")])
        edges["name"] = names[ways][:, None]
        edges["is_begin"][:, 0] = True
        return edges.reshape(-1)

    def _transfer_marks(self, rows: np.ndarray) -> np.ndarray:
        """A transfer may consist of several commands; all are done with it."""
        edges = []
        for cycle, _, _, is_done, number, size in rows.tolist():
            if not is_done:
                track = self._track(TRANSFERS, len(self.tracks))
                self._transfers.setdefault(number, []).append(track)
                name = self._name(f"transfer {number}, {size} bytes")
                edges.append((cycle, track, name, True, 0))
            else:
                tracks = self._transfers.pop(number, [])
                edges += [(cycle, track, 0, False, 0) for track in tracks]
        return np.array(edges, EDGE)
