"""Pictures of L1: conflicts by bank and time, load of the banks, who blocks whom."""

from collections.abc import Iterator

import numpy as np

from pulpsim.report import short
from pulpsim.report_page.figures import Figures
from pulpsim.report_page.heat import EVEN, SQUARES, bounds, levels
from pulpsim.report_page.recording import Recording
from pulpsim.report_page.style import LEVELS
from pulpsim.report_page.svg import (
    LABELS,
    PLOT,
    WIDTH,
    cells,
    count,
    element,
    label,
    picture,
    plot,
    ticks,
    time_axis,
    title,
)

TALL = 176
"""Height of the bars of the banks."""
EDGE = 6
"""Above the heat map."""
CELL, LOW = 46, 22
"""Width and height of the matrix's cells."""


def row_height(banks: int) -> int:
    """Of the heat map."""
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
    box = element("rect", y=EDGE, width=bins.count, height=bottom - EDGE, class_="q0")
    paths = [box]
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


def load(figures: Figures) -> str:
    """Accesses and lost arbitrations of each bank, and the means."""
    banks = np.array(figures.banks)
    most, wide = max(1, int(banks.max())), PLOT / len(banks)
    top = 10
    parts = []
    for tick in ticks(most, 4):
        y = top + TALL * (1 - tick / most)
        parts.append(element("path", d=f"M{LABELS} {y:.1f}h{PLOT}", class_="grid"))
        parts.append(label(LABELS - 8, y + 4, short(round(tick)), class_="tick", text_anchor="end"))
    for bank, (accesses, conflicts) in enumerate(banks.tolist()):
        tip = title(f"bank {bank}: {count(accesses)} accesses, {count(conflicts)} conflicts")
        pair = (("work", accesses, 0.12), ("conflict", conflicts, 0.52))
        bars = [
            element(
                "rect",
                x=LABELS + wide * (bank + left),
                y=top + TALL * (1 - number / most),
                width=wide * 0.36,
                height=TALL * number / most,
                class_=f"crisp {key}",
            )
            for key, number, left in pair
        ]
        parts.append(element("g", tip, *bars))
        if bank % -(-len(banks) // 32) == 0:
            x = LABELS + wide * (bank + 0.5)
            parts.append(label(x, top + TALL + 16, str(bank), class_="tick", text_anchor="middle"))
    parts.append(label(LABELS - 8, top + TALL + 16, "bank", class_="tick", text_anchor="end"))
    parts += _means(banks, most, top)
    about = "Accesses and lost arbitrations of each bank of L1"
    return picture(top + TALL + 24, *parts, name="load", about=about)


def _means(banks: np.ndarray, most: int, top: float) -> list[str]:
    parts = []
    for mean in banks.mean(axis=0).tolist():
        y = top + TALL * (1 - mean / most)
        line = f"M{LABELS} {y:.1f}h{PLOT}"
        parts.append(element("path", d=line, class_="frame", stroke_dasharray="5 4"))
        parts.append(label(LABELS + PLOT + 6, y + 4, "mean", class_="tick"))
    return parts


def imbalance(figures: Figures) -> str:
    """How unequal the banks are, in words."""
    accesses, lost = np.array(figures.banks).T
    words = [
        f"the busiest bank, {int(numbers.argmax())}, has {numbers.max() / numbers.mean():.2f} "
        f"times the mean's {what}"
        for what, numbers in (("accesses", accesses), ("conflicts", lost))
        if numbers.any()
    ]
    return "; ".join(words)[:1].upper() + "; ".join(words)[1:] + "." if words else ""


def matrix(recording: Recording) -> str:
    """How often each initiator lost to each other: rows lost, columns won."""
    names, numbers = recording.trace.initiators, recording.matrix
    shown_ones = np.flatnonzero(numbers.any(axis=0) | numbers.any(axis=1)).tolist()
    part = numbers[np.ix_(shown_ones, shown_ones)]
    wide = min(CELL, (WIDTH - LABELS - 80) / max(1, len(shown_ones)))
    step = levels(part, part.max(), EVEN)
    top = 22
    pieces = [label(LABELS - 8, 14, "lost \\ won", class_="tick", text_anchor="end")]
    for i, initiator in enumerate(shown_ones):
        x, y = LABELS + wide * (i + 0.5), top + LOW * i
        pieces.append(label(x, 14, names[initiator], class_="tick", text_anchor="middle"))
        pieces.append(label(LABELS - 8, y + 15, names[initiator], text_anchor="end"))
        for j, winner in enumerate(shown_ones):
            pieces.append(
                _cell(
                    LABELS + wide * j,
                    y,
                    wide,
                    int(part[i, j]),
                    int(step[i, j]),
                    f"{names[initiator]} lost to {names[winner]}",
                )
            )
        total = count(int(numbers[initiator].sum()))
        pieces.append(label(LABELS + wide * len(shown_ones) + 10, y + 15, total))
    bottom = top + LOW * len(shown_ones)
    pieces += [
        label(
            LABELS + wide * (j + 0.5),
            bottom + 16,
            short(int(numbers[:, winner].sum())),
            text_anchor="middle",
        )
        for j, winner in enumerate(shown_ones)
    ]
    pieces.append(label(LABELS - 8, bottom + 16, "blocked", class_="tick", text_anchor="end"))
    pieces.append(label(LABELS + wide * len(shown_ones) + 10, 14, "conflicts", class_="tick"))
    about = "How often each initiator lost an arbitration to each other"
    return picture(bottom + 24, *pieces, name="matrix", about=about)


def _cell(x: float, y: float, wide: float, number: int, level: int, who: str) -> str:
    tip = title(f"{who} {count(number)} times")
    box = element("rect", tip, x=x, y=y, width=wide - 1, height=LOW - 1, class_=f"crisp q{level}")
    if not number:
        return box
    ink = "tick deep" if level > LEVELS // 2 else "tick"
    text = label(x + wide / 2, y + 15, short(number), class_=f"number {ink}", text_anchor="middle")
    return box + text
