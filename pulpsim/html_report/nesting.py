"""Regions inside regions: layer, tile, kernel, and what each took."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pulpsim.html_report.recording import Recording, Spans
from pulpsim.html_report.stall_groups import PART, PARTS
from soc.trace.reader import Kind

Path = tuple[int, ...]


@dataclass(frozen=True)
class Nested:
    """A region inside others, over all harts and all times that it was passed.

    path       names, the outermost first
    harts      that passed it
    entries    how often, all harts together
    longest    cycles of the hart that spent most in it
    cycles     by part, all harts together, int64[PARTS]
    """

    path: tuple[str, ...]
    harts: int
    entries: int
    longest: int
    cycles: np.ndarray


def nested(recording: Recording) -> list[Nested]:
    """All regions by where they lie in others: each after the one around it, else by time."""
    spans = recording.regions
    spans = spans.chosen(np.lexsort((-spans.length, spans.start, spans.hart)))
    cycles, names = _cycles(recording, spans), recording.trace.regions
    return [
        Nested(
            tuple(names.get(number, f"region {number}") for number in path),
            np.unique(spans.hart[inside]).size,
            inside.size,
            int(np.bincount(spans.hart[inside], spans.length[inside]).max()),
            cycles[inside].sum(axis=0),
        )
        for path, inside in _ordered(spans)
    ]


def _ordered(spans: Spans) -> Iterator[tuple[Path, np.ndarray]]:
    """Each path and the spans that have it, a path after the one around it, else by time."""
    members: dict[Path, list[int]] = {}
    for index, path in enumerate(_paths(spans)):
        members.setdefault(path, []).append(index)
    start = {path: int(spans.start[inside].min()) for path, inside in members.items()}

    def place(path: Path) -> list[tuple[int, int]]:
        return [(start[path[: n + 1]], path[n]) for n in range(len(path))]

    for path in sorted(members, key=place):
        yield path, np.array(members[path])


def _paths(spans: Spans) -> Iterator[Path]:
    """The numbers of the regions around each span and its own.

    Around it is what began no later on its hart and ends no earlier. Spans come by hart and start,
    the longer first.
    """
    around: list[tuple[int, int, Path]] = []
    ends = spans.start + spans.length
    for hart, end, number in zip(
        spans.hart.tolist(), ends.tolist(), spans.number.tolist(), strict=True
    ):
        while around and (around[-1][0] != hart or around[-1][1] < end):
            around.pop()
        path = (*(around[-1][2] if around else ()), number)
        around.append((hart, end, path))
        yield path


def _cycles(recording: Recording, spans: Spans) -> np.ndarray:
    """Cycles of each span by part, int64[n, PARTS]."""
    issues, stalls = recording.of(Kind.ISSUE), recording.of(Kind.STALL)
    cycles = np.zeros((spans.size, len(PARTS)), np.int64)
    for hart in np.unique(spans.hart):
        mine = spans.hart == hart
        start, end = spans.start[mine], (spans.start + spans.length)[mine]
        issued = issues["cycle"][issues["hart"] == hart]
        cycles[mine, PART["work"]] = np.searchsorted(issued, end) - np.searchsorted(issued, start)
        here = stalls["hart"] == hart
        own, parts = stalls[here], recording.stall_parts[here]
        for part in np.unique(parts):
            of_part = own[parts == part]
            passed = [_passed(of_part["cycle"], of_part["b"], at) for at in (start, end)]
            cycles[mine, part] = passed[1] - passed[0]
    return cycles


def _passed(starts: np.ndarray, lengths: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Cycles of spans that do not overlap, by start, before each of some cycles."""
    starts, lengths = starts.astype(np.int64), lengths.astype(np.int64)
    total = np.concatenate(([0], np.cumsum(lengths)))
    begun = np.searchsorted(starts, at)
    ends = np.concatenate(([0], starts + lengths))
    return total[begun] - np.maximum(0, ends[begun] - at)
