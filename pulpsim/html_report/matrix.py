"""Who blocks whom: how often each initiator of L1 lost an arbitration to each other."""

from collections.abc import Iterator

import numpy as np

from pulpsim.cli.terminal import short
from pulpsim.html_report.heat import EVEN, levels
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.style import LEVELS
from pulpsim.html_report.svg import LABELS, WIDTH, count, element, label, picture, title

TOP = 22
"""Above the cells: names."""
CELL, LOW = 46, 22
"""Width of the cells, if there is room, and their height."""
SUMS = 80
"""Width of what stands at the right of them."""


def matrix(recording: Recording) -> str:
    """Rows lost, columns won; at the right and below, the sums. Initiators that neither: none."""
    numbers = recording.matrix
    taking_part = np.flatnonzero(numbers.any(axis=0) | numbers.any(axis=1))
    names = [recording.trace.initiators[initiator] for initiator in taking_part.tolist()]
    numbers = numbers[np.ix_(taking_part, taking_part)]
    wide = min(CELL, (WIDTH - LABELS - SUMS) / max(1, len(names)))
    right, bottom = LABELS + wide * len(names) + 10, TOP + LOW * len(names)
    corners = [
        label(LABELS - 8, 14, "lost \\ won", class_="tick", text_anchor="end"),
        label(right, 14, "conflicts", class_="tick"),
        label(LABELS - 8, bottom + 16, "blocked", class_="tick", text_anchor="end"),
    ]
    sums = zip(names, numbers.sum(axis=1).tolist(), numbers.sum(axis=0).tolist(), strict=True)
    edges = [
        _edges(name, lost, won, LABELS + wide * (i + 0.5), TOP + LOW * i + 15, right, bottom)
        for i, (name, lost, won) in enumerate(sums)
    ]
    about = "How often each initiator lost an arbitration to each other"
    parts = (*corners, *edges, *_cells(numbers, names, wide))
    return picture(bottom + 24, *parts, name="matrix", about=about)


def _edges(name: str, lost: int, won: int, x: float, y: float, right: float, bottom: float) -> str:
    """An initiator's name at its column x and its row y, and its sums at their ends."""
    return (
        label(x, 14, name, class_="tick", text_anchor="middle")
        + label(LABELS - 8, y, name, text_anchor="end")
        + label(right, y, count(lost))
        + label(x, bottom + 16, short(won), text_anchor="middle")
    )


def _cells(numbers: np.ndarray, names: list[str], wide: float) -> Iterator[str]:
    step = levels(numbers, numbers.max(), EVEN)
    for (i, j), number in np.ndenumerate(numbers):
        x, y = LABELS + wide * j, TOP + LOW * i
        tip = title(f"{names[i]} lost to {names[j]} {count(number)} times")
        colour = f"crisp q{step[i, j]}"
        yield element("rect", tip, x=x, y=y, width=wide - 1, height=LOW - 1, class_=colour)
        if number:
            ink = "tick number deep" if step[i, j] > LEVELS // 2 else "tick number"
            text = short(int(number))
            yield label(x + wide / 2, y + 15, text, class_=ink, text_anchor="middle")
