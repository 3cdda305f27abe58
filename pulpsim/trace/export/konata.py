"""Pipelines for Konata: each instruction in decode, execution and memory, stalls on lane 1.

    D    in the decode stage: from after the issue of the one before, at most SPAN cycles back
    X    it has issued
    M    its load or store waits for its grant

Source: Konata, docs/kanata-log-format.md, version 4. A hart is a thread.
"""

from typing import BinaryIO, NamedTuple

import numpy as np

from pulpsim.trace.export.konata_format import (
    EXECUTES,
    FETCHED,
    MOST_STALLS,
    RETIRED,
    STALLS,
    WAITS,
    Items,
    Lines,
    items,
)
from pulpsim.trace.selection import Selection
from soc.trace.reader import Kind, Trace, taken

SPAN = 64
"""Cycles in which lines wait for earlier ones; longer waits are shown from there on."""
OPEN = 2
"""The last instructions of a hart whose grant may still come."""
WANTED = [Kind.ISSUE, Kind.STALL, Kind.MEMORY]


class _Rows(NamedTuple):
    """Events, those of each hart one after another, by cycle.

    events     EVENT[n]
    numbers    of instructions, in the order of their issues
    is_old     of instructions: they issued in an earlier part
    is_done    of instructions: their grant has come
    """

    events: np.ndarray
    numbers: np.ndarray
    is_old: np.ndarray
    is_done: np.ndarray

    def chosen(self, which: np.ndarray) -> "_Rows":
        """Those at these places, or where a mask holds."""
        return _Rows(taken(self.events, which), *(column[which] for column in self[1:]))

    @property
    def is_issue(self) -> np.ndarray:
        return self.events["kind"] == Kind.ISSUE

    @property
    def cycles(self) -> np.ndarray:
        return self.events["cycle"].astype(np.int64)


def konata(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the instructions among the selected events."""
    lines = Lines(trace)
    issued, last = 0, 0
    carried: _Rows | None = None
    stream.write(b"Kanata\t0004\n")
    for part in selection.parts(trace):
        events = taken(part, np.isin(part["kind"], WANTED))
        if events.size:
            rows = _rows(events, issued, carried)
            issued += int(np.count_nonzero(events["kind"] == Kind.ISSUE))
            last = int(events["cycle"][-1])
            found, carried = _told(rows)
            stream.writelines(lines.written(found, last - SPAN))
    stream.writelines(lines.written(_ends(carried, last), None))


def _rows(events: np.ndarray, issued: int, carried: _Rows | None) -> _Rows:
    """New events after those that are carried, by hart."""
    numbers = np.cumsum(events["kind"] == Kind.ISSUE) + (issued - 1)
    nothing = np.zeros(events.size, bool)
    rows = _Rows(events, numbers, nothing, nothing)
    if carried:
        rows = _Rows(*(np.concatenate(pair) for pair in zip(carried, rows, strict=True)))
    return rows.chosen(np.argsort(rows.events["hart"], kind="stable"))


def _told(rows: _Rows) -> tuple[list[Items], _Rows]:
    """What is to be said of these events, and those of them that later ones depend on.

    What is noted at an event is written from SPAN cycles before it on.
    """
    is_issue = rows.is_issue
    issues = rows.chosen(is_issue)
    harts, cycles, numbers = issues.events["hart"], issues.cycles, issues.numbers
    starts = _starts(harts, cycles)
    before = np.cumsum(is_issue) - 1  # of each row: the last issue up to it
    grants = _grants(rows, issues, before)
    is_granted = grants >= 0
    is_done = issues.is_done | is_granted
    is_last = np.ones(harts.size, bool)  # of its hart
    is_last[:-OPEN] = harts[OPEN:] != harts[:-OPEN]
    ends = np.flatnonzero(~is_last & ~is_done)
    new = ~issues.is_old
    stalls, is_waiting = _stalls(rows, harts, before)
    found = [
        items(
            starts[new],
            numbers[new],
            FETCHED,
            about=harts[new].astype(np.int64) << 1 | (starts < cycles)[new],
            pcs=issues.events["a"][new],
        ),
        *_stall_items(rows.chosen(stalls), starts, numbers, before[stalls] + 1),
        items(cycles[new], numbers[new], EXECUTES),
        items(np.maximum(cycles + 1, grants - SPAN)[is_granted], numbers[is_granted], WAITS),
        items(grants[is_granted] + 1, numbers[is_granted], RETIRED),
        items(np.maximum(cycles[ends] + 1, cycles[ends + OPEN] - SPAN), numbers[ends], RETIRED),
    ]
    done = np.zeros(is_issue.size, bool)
    done[is_issue] = is_done
    left = is_waiting.copy()
    left[is_issue] = is_last
    carried = rows._replace(is_done=done, is_old=is_issue).chosen(left)
    return found, carried


def _starts(harts: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """The cycle from which each instruction is in the decode stage."""
    starts = cycles.copy()
    earlier = np.maximum(cycles[:-1] + 1, cycles[1:] - SPAN)
    starts[1:] = np.where(harts[1:] == harts[:-1], earlier, cycles[1:])
    return starts


def _grants(rows: _Rows, issues: _Rows, before: np.ndarray) -> np.ndarray:
    """The cycle in which the access of each instruction is granted, the first of two; or -1.

    It is that of the last instruction, or of the one before it.
    """
    grants = np.full(issues.numbers.size, -1)
    where = np.flatnonzero((rows.events["kind"] == Kind.MEMORY) & (before >= 0))[::-1]
    events, last = taken(rows.events, where), before[where]
    harts, pcs = issues.events["hart"], issues.events["a"]
    for back in range(OPEN):
        found = np.maximum(last - back, 0)
        fits = (harts[found] == events["hart"]) & (pcs[found] == events["b"]) & (last >= back)
        grants[found[fits]] = events["cycle"][fits]
        events, last = taken(events, ~fits), last[~fits]
    grants[issues.is_done] = -1
    return grants


def _stalls(rows: _Rows, harts: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of stalls in front of an issue of their hart; and where there are others."""
    is_stall = rows.events["kind"] == Kind.STALL
    after = np.append(harts, 255)[before + 1]
    has_issue = (after == rows.events["hart"]) & (before + 1 < harts.size)
    return np.flatnonzero(is_stall & has_issue), is_stall & ~has_issue


def _stall_items(
    stalls: _Rows, starts: np.ndarray, numbers: np.ndarray, issue: np.ndarray
) -> list[Items]:
    """Begins and ends of stalls; of each, the instruction that issues after it."""
    begins = stalls.cycles
    ends = begins + stalls.events["b"]
    shown = ends > starts[issue]
    issue, begins, ends = issue[shown], np.maximum(begins, starts[issue])[shown], ends[shown]
    firsts = np.searchsorted(issue, issue)
    slots = STALLS + 2 * np.minimum(np.arange(issue.size) - firsts, MOST_STALLS)
    causes = stalls.events["extra"][shown].astype(np.int64)
    return [
        items(begins, numbers[issue], slots, about=causes),
        items(ends, numbers[issue], slots + 1, about=causes),
    ]


def _ends(carried: _Rows | None, last: int) -> list[Items]:
    """The ends of instructions that nothing follows."""
    if not carried:
        return []
    left = carried.chosen(carried.is_issue & ~carried.is_done)
    return [items(np.maximum(left.cycles + 1, last - SPAN), left.numbers, RETIRED)]
