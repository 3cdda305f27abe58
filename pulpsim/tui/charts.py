"""Bars, lanes and the heat map: numbers as coloured characters."""

from itertools import groupby

import numpy as np
from rich.color import Color, blend_rgb
from rich.style import Style
from rich.text import Text

from pulpsim.tui.palette import BLOCKS, KINDS, ROWS_OF_KIND, Colours
from pulpsim.tui.source import Bins

INK = 0.55
"""How far a letter on a colour is from that colour to black."""


class Paint:
    """The styles of one ground's colours."""

    def __init__(self, colours: Colours):
        self.colours = colours
        self.run = Style(color=colours.kinds[0])
        self.filled = [_filled(colour) for colour in colours.kinds]
        self.label = Style(color=colours.label)
        self.strong = Style(color=colours.strong, bold=True)
        self.changed = Style(color=colours.changed, bold=True)
        self.alarm = Style(color=colours.alarm, bold=True)
        self.series = Style(color=colours.series)
        self.reverse = Style(reverse=True)
        self.cursor = Style(bgcolor=colours.cursor)

    def heat(self, upper: int, lower: int) -> Style:
        """Two values above each other, as steps of the scale."""
        return Style(color=self.colours.heat[upper], bgcolor=self.colours.heat[lower])


def _filled(colour: str) -> Style:
    """A ground of this colour, on which a letter is seen but does not shout."""
    ground = Color.parse(colour).get_truecolor()
    ink = blend_rgb(ground, Color.parse("#000000").get_truecolor(), INK)
    return Style(color=Color.from_triplet(ink), bgcolor=colour)


def styled(text: str, style: Style | str) -> Text:
    """A text of which only this part has the style, not what is appended to it."""
    return Text().append(text, style)


def shares(bins: Bins, hart: int) -> np.ndarray:
    """[KINDS, n]: cycles that a hart spent on each kind; an issue is a cycle."""
    stalls = bins.stalls[hart]
    kinds = (stalls[rows].sum(axis=0) for rows in ROWS_OF_KIND[1:])
    return np.maximum(0, np.stack([bins.issued[hart], *kinds]))


def bar(cycles: np.ndarray, width: int, paint: Paint) -> Text:
    """Parts of a whole as a bar: cycles[KINDS]."""
    text, whole = Text(), cycles.sum()
    if whole == 0:
        return Text(" " * width)
    ends = np.round(np.cumsum(cycles) / whole * width).astype(int)
    for number, size in enumerate(np.diff(ends, prepend=0).tolist()):
        letter = KINDS[number].letter * size
        text.append(letter, paint.filled[number] if number else paint.run)
    return text


def lane(bins: Bins, hart: int, cursor: int, paint: Paint) -> Text:
    """What a hart did in each column: how much it ran, or what kept it from that."""
    cycles = shares(bins, hart)
    cells = []
    for here in cycles.T:
        whole, most = here.sum(), int(here.argmax())
        letter = KINDS[most].letter if most else BLOCKS[round(8 * here[0] / max(1, whole))]
        cells.append((letter, paint.filled[most] if most else paint.run))
    return _line(cells, cursor, paint)


def _line(cells: list[tuple[str, Style]], cursor: int, paint: Paint) -> Text:
    """Characters in their styles, with few changes of these."""
    if 0 <= cursor < len(cells):
        letter, style = cells[cursor]
        colour = Style(color=style.bgcolor) if style.bgcolor else style
        cells[cursor] = letter, colour + paint.cursor
    text = Text()
    for style, same in groupby(cells, key=lambda cell: cell[1]):
        text.append("".join(letter for letter, _ in same), style)
    return text


def levels(values: np.ndarray, largest: float, cursor: int, paint: Paint) -> Text:
    """Numbers as blocks of different height."""
    parts = [min(1.0, value / largest) if largest else 0.0 for value in values.tolist()]
    letters = [BLOCKS[max(1, round(8 * part)) if part > 0 else 0] for part in parts]
    return _line([(letter, paint.series) for letter in letters], cursor, paint)


def heat_steps(
    conflicts: np.ndarray, cycles: np.ndarray, rows: int, steps: int
) -> tuple[np.ndarray, int, float]:
    """Conflicts[banks, n] in n spans of cycles[n] as steps[rows or fewer, n] of a scale.

    Returns also how many banks a row has, and the conflicts a cycle that the last step stands for.
    """
    group = max(1, -(-conflicts.shape[0] // rows))
    sums = np.add.reduceat(conflicts, np.arange(0, conflicts.shape[0], group), axis=0)
    rates = sums / np.maximum(1, cycles)
    largest = float(rates.max(initial=0.0))
    found = np.minimum(steps - 1, np.ceil(rates / (largest or 1.0) * (steps - 1)))
    return found.astype(int), group, largest


def heat_lines(steps: np.ndarray, paint: Paint) -> list[Text]:
    """Two rows of steps a line."""
    steps = np.pad(steps, ((0, len(steps) % 2), (0, 0)))
    lines = []
    for upper, lower in zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True):
        text = Text()
        for (above, below), same in groupby(zip(upper, lower, strict=True)):
            text.append("▀" * len(list(same)), paint.heat(above, below))
        lines.append(text)
    return lines


def scale(paint: Paint) -> Text:
    """The colours of the heat map, from none to most."""
    text = Text()
    for colour in paint.colours.heat:
        text.append(" ", Style(bgcolor=colour))
    return text


def axis(edges: np.ndarray, paint: Paint) -> Text:
    """Cycles over the columns, as far as there is room."""
    columns, text = len(edges) - 1, ""
    step = -(-(len(f"{int(edges[-1]):,}") + 3) // 5) * 5
    for place in range(0, columns, step):
        mark = f"╷{int(edges[place]):,}"
        if place + len(mark) <= columns:
            text = text.ljust(place) + mark
    return styled(text.ljust(columns), paint.label)
