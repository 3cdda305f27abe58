"""Hot spots: the functions, and inside them the instructions, that the cycles went to."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pulpsim.html_report.hot_spots_index import busy, parts
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.stall_groups import MEANINGS, PARTS
from pulpsim.html_report.svg import count, element, percent, shown
from soc.prelude.counters import CAUSES

FUNCTIONS, OPEN = 12, 0.1
"""Functions in the table, and from which share on one shows its instructions at once."""
WHOLE, HOT, AROUND = 48, 48, 2
"""Instructions of a function that is shown whole; else so many of the hottest, and around them."""
METER = 110
"""Length of the longest bar."""
CAUSES_SHOWN = 2
SLEEP = ("barrier", "asleep", "off")


@dataclass(frozen=True)
class Function:
    """A function or label.

    rows      of the instructions' sums that lie in it
    cycles    in which harts were busy in it
    """

    name: str
    rows: np.ndarray
    cycles: int


def hottest(recording: Recording) -> list[Function]:
    """The functions in which harts were busy, most cycles first; code without a symbol by page."""
    sites = recording.sites
    names = np.array(recording.trace.function_of(sites["pc"]), object)
    for index in np.flatnonzero(names == "").tolist():
        names[index] = f"{int(sites['pc'][index]) & ~0xFFF:#010x} and after"
    known, which = np.unique(names.astype(str), return_inverse=True)
    cycles = np.bincount(which, busy(sites), known.size).astype(int).tolist()
    order = sorted(range(known.size), key=lambda i: -cycles[i])[:FUNCTIONS]
    return [
        Function(str(known[i]), np.flatnonzero(which == i), cycles[i]) for i in order if cycles[i]
    ]


def hot_spots(recording: Recording) -> str:
    """The table of functions, and the listing of each."""
    functions, whole = hottest(recording), int(busy(recording.sites).sum())
    rows = "".join(_function(recording, each, whole, functions[0].cycles) for each in functions)
    listings = "".join(
        _listing(recording, each, whole, is_open=each.cycles >= OPEN * whole) for each in functions
    )
    return (
        '<div class="scroll"><table><thead><tr><th class="left">function</th><th>cycles</th>'
        "<th>share</th><th></th><th>instructions</th><th>conflicts</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{listings}"
    )


def _function(recording: Recording, function: Function, whole: int, most: int) -> str:
    inside = recording.sites[function.rows]
    return (
        f'<tr><td class="left code">{shown(function.name)}</td>'
        f"<td>{count(function.cycles)}</td><td>{percent(function.cycles, whole)}</td>"
        f"<td>{_meter(parts(inside).sum(axis=0), function.cycles / most)}</td>"
        f"<td>{count(int(inside['issues'].sum()))}</td>"
        f"<td>{count(int(inside['conflicts'].sum()))}</td></tr>"
    )


def _meter(cycles: np.ndarray, share: float) -> str:
    """A bar of the length that a share has, divided by parts; sleep is left out."""
    awake = [
        (part.key, int(number))
        for part, number in zip(PARTS, cycles, strict=True)
        if part.key not in SLEEP
    ]
    total, x, pieces = max(1, sum(number for _, number in awake)), 0.0, []
    for key, number in awake:
        width = METER * share * number / total
        if width >= 0.3:
            pieces.append(element("rect", x=x, width=width, height=11, class_=key))
        x += width
    box = f"0 0 {METER} 11"
    return element("svg", *pieces, class_="meter crisp", viewBox=box) if pieces else ""


def _listing(recording: Recording, function: Function, whole: int, is_open: bool) -> str:
    """List the instructions of a function: all, or the hottest with their neighbours."""
    sites = recording.sites
    rows = _chosen(busy(sites[function.rows]), function.rows)
    lines = recording.trace.line_of(sites["pc"][rows]).tolist()
    most = max(1, int(busy(sites[rows]).max()))
    body = "".join(_instructions(recording, rows, lines, most))
    left_out = function.rows.size - rows.size
    rest = f'<p class="note">{left_out} cooler instructions are left out.</p>' if left_out else ""
    return (
        f'<details{" open" if is_open else ""}><summary><code class="name">'
        f"{shown(function.name)}</code> {percent(function.cycles, whole)}</summary>"
        '<div class="scroll"><table><thead><tr><th class="left">address</th>'
        '<th class="left">instruction</th><th>executed</th><th>cycles</th><th></th>'
        '<th class="left">waits, in cycles</th><th class="left">source</th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>{rest}</details>"
    )


def _chosen(cycles: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if rows.size <= WHOLE:
        return rows
    wanted = np.zeros(rows.size, bool)
    for place in np.argsort(-cycles, kind="stable")[:HOT].tolist():
        wanted[max(0, place - AROUND) : place + AROUND + 1] = True
    return rows[wanted]


def _instructions(
    recording: Recording, rows: np.ndarray, lines: list[str], most: int
) -> Iterator[str]:
    before = None
    for row, line in zip(rows.tolist(), lines, strict=True):
        if before is not None and row != before + 1:
            yield '<tr><td class="left soft" colspan="7">…</td></tr>'
        before = row
        yield _instruction(recording, recording.sites[row : row + 1], line, most)


def _instruction(recording: Recording, site: np.ndarray, line: str, most: int) -> str:
    """Return the row of an instruction, from its SUM[1]."""
    pc, cycles, stalls = int(site["pc"][0]), int(busy(site)[0]), site["stalls"][0].tolist()
    order = sorted((i for i in range(len(CAUSES)) if stalls[i]), key=lambda i: -stalls[i])
    waits = ", ".join(f"{CAUSES[i]} {count(stalls[i])}" for i in order[:CAUSES_SHOWN])
    more = "; ".join(f"{CAUSES[i]} {count(stalls[i])}: {MEANINGS[CAUSES[i]]}" for i in order)
    return (
        f'<tr><td class="left code soft">{pc:x}</td>'
        f'<td class="left code">{shown(recording.code.text(pc))}</td>'
        f"<td>{count(int(site['issues'][0]))}</td><td>{count(cycles)}</td>"
        f"<td>{_meter(parts(site)[0], cycles / most)}</td>"
        f'<td class="left" title="{shown(more)}">{shown(waits)}</td>'
        f'<td class="left code soft">{shown(line.rsplit("/", 1)[-1])}</td></tr>'
    )
