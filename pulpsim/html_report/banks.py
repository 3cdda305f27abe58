"""Load of L1's banks: accesses and lost arbitrations of each, and how unequal they are."""

from collections.abc import Iterator

import numpy as np

from pulpsim.cli.terminal import short
from pulpsim.html_report.figures import Figures
from pulpsim.html_report.svg import (
    LABELS,
    PLOT,
    count,
    element,
    label,
    level,
    picture,
    ticks,
    title,
)

TOP, TALL = 10, 176
"""Above the bars, and the height of the highest."""
LABELLED = 32
"""Banks whose numbers have room."""


def load(figures: Figures) -> str:
    """Accesses and lost arbitrations of each bank, and the means."""
    banks = np.array(figures.banks)
    most, wide = max(1, int(banks.max())), PLOT / len(banks)
    parts = [*_grid(most), *_bars(banks, most, wide), *_means(banks, most)]
    for bank in range(0, len(banks), -(-len(banks) // LABELLED)):
        x = LABELS + wide * (bank + 0.5)
        parts.append(label(x, TOP + TALL + 16, str(bank), class_="tick", text_anchor="middle"))
    parts.append(label(LABELS - 8, TOP + TALL + 16, "bank", class_="tick", text_anchor="end"))
    about = "Accesses and lost arbitrations of each bank of L1"
    return picture(TOP + TALL + 24, *parts, name="load", about=about)


def _height(number: float, most: int) -> float:
    """Return where a bar of this number ends."""
    return TOP + TALL * (1 - number / most)


def _grid(most: int) -> Iterator[str]:
    for tick in ticks(most, 4):
        number = short(round(tick)) if tick >= 10_000 else count(round(tick))
        yield level(_height(tick, most), number)


def _bars(banks: np.ndarray, most: int, wide: float) -> Iterator[str]:
    for bank, (accesses, conflicts) in enumerate(banks.tolist()):
        tip = title(f"bank {bank}: {count(accesses)} accesses, {count(conflicts)} conflicts")
        pair = (("work", accesses, 0.12), ("conflict", conflicts, 0.52))
        bars = [
            element(
                "rect",
                x=LABELS + wide * (bank + left),
                y=_height(number, most),
                width=wide * 0.36,
                height=TALL * number / most,
                class_=f"crisp {key}",
            )
            for key, number, left in pair
        ]
        yield element("g", tip, *bars)


def _means(banks: np.ndarray, most: int) -> Iterator[str]:
    for mean in banks.mean(axis=0).tolist():
        y = _height(mean, most)
        line = f"M{LABELS} {y:.1f}h{PLOT}"
        yield element("path", d=line, class_="frame", stroke_dasharray="5 4")
        yield label(LABELS + PLOT + 6, y + 4, "mean", class_="tick")


def imbalance(figures: Figures) -> str:
    """How unequal the banks are, in words."""
    accesses, lost = np.array(figures.banks).T
    words = [
        f"Bank {int(numbers.argmax())} has the most {what}: {numbers.max() / numbers.mean():.2f} "
        "times the mean."
        for what, numbers in (("accesses", accesses), ("conflicts", lost))
        if numbers.any()
    ]
    return " ".join(words)
