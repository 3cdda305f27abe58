"""Bars, lanes and the heat map: numbers as coloured characters."""

from itertools import groupby

import numpy as np
from rich.style import Style
from rich.text import Text

from pulpsim.live.palette import BLOCKS, HEAT, KINDS, ROWS_OF_KIND, SHADES
from pulpsim.live.source import Bins

CURSOR = Style(reverse=True)
STYLES = [Style(color=kind.colour) for kind in KINDS]


def shares(bins: Bins, hart: int) -> np.ndarray:
    """[KINDS, n]: cycles that a hart spent on each kind; an issue is a cycle."""
    stalls = bins.stalls[hart]
    kinds = (stalls[rows].sum(axis=0) for rows in ROWS_OF_KIND[1:])
    return np.maximum(0, np.stack([bins.issued[hart], *kinds]))


def bar(cycles: np.ndarray, width: int) -> Text:
    """Parts of a whole as a bar: cycles[KINDS]."""
    text, whole = Text(), cycles.sum()
    if whole == 0:
        return Text(" " * width)
    ends = np.round(np.cumsum(cycles) / whole * width).astype(int)
    for kind, size in zip(KINDS, np.diff(ends, prepend=0).tolist(), strict=True):
        text.append(kind.letter * size, _style(kind.letter, kind.colour))
    return text


def _style(letter: str, colour: str) -> Style:
    """A full block, or a black letter on the colour, so that no one needs to see that."""
    is_block = letter == "█"
    return Style(color=colour) if is_block else Style(color="#000000", bgcolor=colour)


def lane(bins: Bins, hart: int, cursor: int) -> Text:
    """What a hart did in each column: how much it ran, or what kept it from that."""
    cycles = shares(bins, hart)
    letters, styles = [], []
    for here in cycles.T:
        whole, most = here.sum(), int(here.argmax())
        letters.append(KINDS[most].letter if most else BLOCKS[round(8 * here[0] / max(1, whole))])
        styles.append(STYLES[most])
    return _line(letters, styles, cursor)


def _line(letters: list[str], styles: list[Style], cursor: int) -> Text:
    """Characters in their styles, with few changes of these."""
    styles[cursor] = styles[cursor] + CURSOR
    text = Text()
    for style, same in groupby(zip(letters, styles, strict=True), key=lambda pair: pair[1]):
        text.append("".join(letter for letter, _ in same), style)
    return text


def levels(values: np.ndarray, largest: float, cursor: int, colour: str = "#56b4e9") -> Text:
    """Numbers as blocks of different height."""
    parts = [min(1.0, value / largest) if largest else 0.0 for value in values.tolist()]
    letters = [BLOCKS[max(1, round(8 * part)) if part > 0 else 0] for part in parts]
    return _line(letters, [Style(color=colour)] * len(letters), cursor)


def heat_rows(
    conflicts: np.ndarray, cycles: np.ndarray, lines: int, has_colours: bool
) -> tuple[list[Text], int, float]:
    """Conflicts[banks, n] in n spans of cycles[n] as lines.

    Returns the lines; how many banks each has, half of them above; the conflicts a cycle that the
    brightest colour stands for.
    """
    group = -(-conflicts.shape[0] // (2 * lines))
    sums = np.add.reduceat(conflicts, np.arange(0, conflicts.shape[0], group), axis=0)
    rates = sums / np.maximum(1, cycles)
    largest = float(rates.max(initial=0.0))
    top = len(HEAT) - 1
    steps = np.minimum(top, np.ceil(rates / (largest or 1.0) * top)).astype(int)
    steps = np.pad(steps, ((0, len(steps) % 2), (0, 0)))
    draw = _heat_line if has_colours else _shaded
    rows = [draw(*steps[k : k + 2].tolist()) for k in range(0, len(steps), 2)]
    return [*rows, *[Text()] * (lines - len(rows))], 2 * group, largest


def _heat_line(upper: list[int], lower: list[int]) -> Text:
    text = Text()
    for (above, below), same in groupby(zip(upper, lower, strict=True)):
        style = Style(color=HEAT[above], bgcolor=HEAT[below])
        text.append("▀" * len(list(same)), style)
    return text


def _shaded(upper: list[int], lower: list[int]) -> Text:
    most = (max(pair) for pair in zip(upper, lower, strict=True))
    scale = (len(SHADES) - 1) / (len(HEAT) - 1)
    return Text("".join(SHADES[round(step * scale)] for step in most))
