"""The vocabulary of the page's pictures: escaped text, elements, axes, numbers for people."""

from html import escape
from itertools import pairwise
from math import floor, log10

import numpy as np

from pulpsim.cli.terminal import neutralised
from pulpsim.html_report.bins import Bins

LABELS = 96
"""Width of the labels at the left of a picture."""
PLOT = 860
"""Width of what is drawn beside them."""
MARGIN = 92
"""Width of what stands at the right of it."""
WIDTH = LABELS + PLOT + MARGIN


def shown(text: str) -> str:
    """Text as HTML and SVG show it: markup escaped, and what controls terminals or direction."""
    return escape(neutralised(text), quote=True)


def element(tag: str, *children: str, **attributes: object) -> str:
    """An element; attributes' names with - for _ and without a last _: class_, stroke_width."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{shown(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{pairs}>{''.join(children)}</{tag}>" if children else f"<{tag}{pairs}/>"


def _number(value: object) -> str:
    """Format a position, with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def label(x: float, y: float, text: str, **attributes: object) -> str:
    """Text at a place."""
    return element("text", shown(text), x=x, y=y, **attributes)


def level(y: float, text: str) -> str:
    """A line across a picture, and at its left what it stands for."""
    line = element("path", d=f"M{LABELS} {y:.2f}h{PLOT}", class_="grid")
    return line + label(LABELS - 8, y + 4, text, class_="tick", text_anchor="end")


def title(text: str) -> str:
    """What a pointer that rests on the element around it shows."""
    return element("title", shown(text))


def picture(height: float, *parts: str, name: str, about: str) -> str:
    """A picture of the page's width; `about` says in words what it shows."""
    box = f"0 0 {WIDTH} {_number(float(height))}"
    return element(
        "svg", *parts, class_=f"picture {name}", viewBox=box, role="img", aria_label=about
    )


def ticks(most: float, count: int = 8) -> list[float]:
    """Round numbers from 0 to most, about `count`: steps of 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return [0]
    raw = most / count
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [index * step for index in range(floor(most / step * 1.0001) + 1)]


def time_axis(bins: Bins, top: float, bottom: float) -> str:
    """Grid lines from top to bottom at round cycles, and their numbers below."""
    span = bins.width * bins.count
    steps = ticks(span)
    step = max(1, round(steps[1])) if len(steps) > 1 else 1
    parts = []
    for cycle in range(-(-bins.first // step) * step, bins.first + span + 1, step):
        x = LABELS + PLOT * (cycle - bins.first) / span
        parts.append(element("path", d=f"M{x:.2f} {top:g}V{bottom + 4:g}", class_="grid"))
        parts.append(label(x, bottom + 16, f"{cycle:,}", class_="tick", text_anchor="middle"))
    axis = element("g", *parts, class_="axis", data_top=top, data_bottom=bottom)
    return axis + label(LABELS + PLOT + 40, bottom + 16, "cycle", class_="tick")


def plot(bins: Bins, height: float, *parts: str) -> str:
    """What is drawn over time: inside, x counts bins, y is that of the picture."""
    return element(
        "svg",
        *parts,
        class_="plot crisp",
        x=LABELS,
        y=0,
        width=PLOT,
        height=height,
        viewBox=f"0 0 {bins.count} {_number(float(height))}",
        preserveAspectRatio="none",
    )


def area(upper: np.ndarray, lower: np.ndarray, floor_y: float) -> str:
    """The path of an area between two step lines, given as heights above `floor_y`, bin by bin.

    Equal neighbours share a step, and what is empty is left out.
    """
    high, low = np.round(upper, 1), np.round(lower, 1)
    changes = np.flatnonzero((np.diff(high) != 0) | (np.diff(low) != 0)) + 1
    edges = [0, *changes.tolist(), len(high)]
    return "".join(
        f"M{start} {_number(floor_y - float(high[start]))}h{end - start}"
        f"v{_number(float(high[start] - low[start]))}h{start - end}z"
        for start, end in pairwise(edges)
        if high[start] > low[start]
    )


def cells(values: np.ndarray, wanted: int, y: float, height: float) -> str:
    """The path of the cells of a row that have a value; equal neighbours are one rectangle."""
    inside = np.concatenate(([0], values == wanted, [0])).astype(np.int8)
    starts, ends = np.flatnonzero(np.diff(inside) == 1), np.flatnonzero(np.diff(inside) == -1)
    return "".join(
        f"M{start} {_number(y)}h{end - start}v{_number(height)}h{start - end}z"
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def count(number: float) -> str:
    """A whole number with thousands apart."""
    return f"{round(number):,}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: "1 barrier", "2 barriers"."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def percent(part: float, whole: float, decimals: int = 1) -> str:
    """A share with its sign; "0 %" where there is no whole."""
    return f"{100 * part / whole:.{decimals}f} %" if whole else "0 %"
