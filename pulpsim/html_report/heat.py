"""Conflicts by bank and time, as a heat map; its steps of colour.

Steps are even, or where values differ by orders of magnitude they grow as squares.
"""

from collections.abc import Iterator

import numpy as np

from pulpsim.cli.terminal import short
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.style import LEVELS
from pulpsim.html_report.svg import LABELS, PLOT, cells, element, label, picture, plot, time_axis

EVEN, SQUARES = 1, 2
EDGE = 6
"""Above the heat map."""


def bounds(most: float, growth: int) -> np.ndarray:
    """The values that end each step but the first, which is nothing: float[LEVELS - 1].

    growth    EVEN or SQUARES
    """
    return most * (np.arange(1, LEVELS) / (LEVELS - 1)) ** growth


def levels(values: np.ndarray, most: float, growth: int) -> np.ndarray:
    """The step of each value: 0 for nothing, LEVELS - 1 for the most."""
    steps = 1 + np.searchsorted(bounds(most, growth) * (1 + 1e-9), values)
    return np.where(values > 0, np.minimum(steps, LEVELS - 1), 0)


def row_height(banks: int) -> int:
    """Height of a row of the heat map."""
    return 14 if banks <= 16 else 9 if banks <= 32 else 6


def heat_rows(recording: Recording) -> Iterator[tuple[float, np.ndarray]]:
    """The upper edge of each bank's row in the heat map, and its lost arbitrations."""
    height = row_height(recording.trace.banks)
    for bank, lost in enumerate(recording.heat):
        yield EDGE + bank * height, lost


def heat_map(recording: Recording) -> str:
    """Lost arbitrations by bank and time; at the right, those of each bank in all."""
    heat, bins = recording.heat, recording.bins
    rate = heat / bins.widths
    height, step = row_height(len(heat)), levels(rate, rate.max(), SQUARES)
    tops = [top for top, _ in heat_rows(recording)]
    bottom = EDGE + len(heat) * height
    paths = [element("rect", y=EDGE, width=bins.count, height=bottom - EDGE, class_="q0")]
    for level in range(1, LEVELS):
        rows = zip(step, tops, strict=True)
        path = "".join(cells(row, level, top, height - 1) for row, top in rows)
        if path:
            paths.append(element("path", d=path, class_=f"q{level}"))
    every = -(-12 // height)
    texts = [
        label(LABELS - 8, top + height / 2 + 4, f"bank {bank}", class_="tick", text_anchor="end")
        + label(LABELS + PLOT + 8, top + height / 2 + 4, short(int(lost.sum())), class_="tick")
        for bank, (top, lost) in enumerate(heat_rows(recording))
        if bank % every == 0
    ]
    about = f"Lost arbitrations of {len(heat)} banks over time"
    return picture(
        bottom + 24,
        plot(bins, bottom, *paths),
        time_axis(bins, bottom, bottom),
        *texts,
        name="timed heat",
        about=about,
    )


def heat_legend(recording: Recording) -> str:
    """What the heat map's colours stand for."""
    ends = bounds(float((recording.heat / recording.bins.widths).max()), SQUARES)
    items = ['<span><i class="fill-q0"></i>none</span>']
    items += [
        f'<span><i class="fill-q{level + 1}"></i>to {end:.2g}</span>'
        for level, end in enumerate(ends.tolist())
    ]
    return f'<div class="legend">{"".join(items)}<span>lost arbitrations a cycle</span></div>'
