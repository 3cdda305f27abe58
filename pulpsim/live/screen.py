"""The screen of the live view: what a source shows, as lines of text.

    title, cycle, speed
    harts        function, IPC and stall mix as bars    |  what each did over time
    cluster      colours                                |  cores at a barrier, DMA over time
    regions                                             |  conflicts: bank by time
    panel        console, code, registers or memory
    message, keys

All of it is about the span of cycles that the right half shows.
"""

from dataclasses import dataclass, field

import numpy as np
from rich.cells import set_cell_size
from rich.style import Style
from rich.text import Text

from pulpsim.console import one_line
from pulpsim.live.charts import bar, heat_rows, lane, levels, shares
from pulpsim.live.palette import KINDS
from pulpsim.live.source import Bins, HartNow, RegionNow
from pulpsim.report import short

COLUMNS, LINES = 100, 30
"""The least that a terminal needs; more lines with more than fifteen harts."""
FIXED, LEAST_HEAT = 10, 4
"""Lines besides those of harts, heat map and panel; lines of the heat map, at least."""

LEFT = 50
"""Columns of the left half."""

BAR = 18
NAME, FUNCTION = 6, 17

KEYS = (
    *(("space", "run"), (".", "cycle"), ("i", "instr"), ("n", "barrier"), ("←", "back")),
    *(("g", "goto"), ("b", "break"), ("+-f", "zoom"), ("<>", "speed"), ("↑↓", "hart")),
    *(("tab", "panel"), ("q", "quit"), ("m", "memory"), ("home end", "first, last")),
)
"""In the order in which there must be room for them."""


@dataclass(frozen=True)
class View:
    """One picture.

    edges       cycles between the columns of the right half
    cursor      column of the current cycle
    state       "running", "paused", ...
    selected    number of the hart whose code and registers are shown
    """

    title: str
    state: str
    speed: str
    cycle: int
    latest: int
    edges: np.ndarray
    bins: Bins
    cursor: int
    harts: list[HartNow]
    selected: int
    regions: list[RegionNow]
    panel: str
    lines: list[Text]
    message: str
    breakpoints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """How a terminal's lines and columns are shared.

    right    columns of the right half
    heat     lines of the heat map: two banks in each, or more if there is no room for that
    panel    lines of the panel, without its heading
    """

    width: int
    height: int
    right: int
    heat: int
    panel: int


def layout(width: int, height: int, harts: int, banks: int, wanted: int) -> Layout:
    """Share a terminal's lines; `wanted` of them are for the panel if the heat map keeps four."""
    rest = height - FIXED - harts
    heat = min(max(LEAST_HEAT, (banks + 1) // 2), max(LEAST_HEAT, rest - wanted))
    return Layout(width, height, width - LEFT - 1, heat, max(1, rest - heat))


def too_small(width: int, height: int, harts: int) -> Text | None:
    """What to say on a terminal that is too small; None on one that is not."""
    lines = max(LINES, FIXED + harts + LEAST_HEAT + 1)
    if width >= COLUMNS and height >= lines:
        return None
    return Text(
        f"The live view needs {COLUMNS} columns and {lines} lines; this terminal has {width} and "
        f"{height}. Enlarge it, or leave with q."
    )


def draw(view: View, place: Layout, has_colours: bool = True) -> list[Text]:
    """The lines of a picture, as many as the terminal has."""
    width = place.width
    lines = [_header(view, width), _progress(view, width)]
    lines.append(_halves(_left_heading(), _time_heading(view, place.right), width))
    for h in range(len(view.harts)):
        lines.append(_halves(_hart(view, h), lane(view.bins, h, view.cursor), width))
    for (name, values, largest), left in zip(_cluster(view), _legend(), strict=True):
        label = Text(f"{name:>12} ", "dim")
        lines.append(_halves(left, levels(values, largest, view.cursor), width, label))
    spans = np.diff(view.edges)
    heat, banks, largest = heat_rows(view.bins.conflicts, spans, place.heat, has_colours)
    heading = Text(f"L1 conflicts, {banks} banks a line, up to {largest:.2f} a cycle", "bold")
    lines.append(_halves(_region_heading(), heading, width))
    regions = _regions(view.regions, place.heat)
    for line, (left, right) in enumerate(zip(regions, heat, strict=True)):
        first = line * banks
        bank = f"{first:>2} " if first < len(view.bins.conflicts) else "   "
        lines.append(_halves(left, right, width, Text(bank, "dim")))
    lines.append(_panel_heading(view, width))
    lines += [*view.lines[: place.panel], *[Text()] * (place.panel - len(view.lines))]
    lines += [Text(one_line(view.message), "bold"), _keys(width)]
    return [_cut(line, width) for line in lines]


def _header(view: View, width: int) -> Text:
    left = Text().append(f" {one_line(view.title)} ", "bold reverse")
    left.append(f"  cycle {view.cycle:,}", "bold")
    if view.latest > view.cycle:
        left.append(f" of {view.latest:,}")
    left.append(f"  {view.state}", "bold")
    return _ends(left, Text(view.speed), width)


def _progress(view: View, width: int) -> Text:
    """Where the cycle lies in what is known."""
    done = round(width * view.cycle / view.latest) if view.latest else 0
    return Text().append("━" * done, "#56b4e9").append("─" * (width - done), "dim")


def _left_heading() -> Text:
    return Text(f"{'hart':{NAME}} {'function':{FUNCTION}}  IPC  cycles spent", "bold")


def _time_heading(view: View, right: int) -> Text:
    first, last = int(view.edges[0]), int(view.edges[-1])
    width = int(view.edges[1] - view.edges[0])
    text = f"{first:,} .. {last:,}: {width:,} cycle{'s' * (width > 1)} a column"
    return Text(set_cell_size(text, right), "bold")


def _hart(view: View, h: int) -> Text:
    hart = view.harts[h]
    cycles = shares(view.bins, h)[:, : view.cursor + 1].sum(axis=1)
    ipc = cycles[0] / cycles.sum() if cycles.sum() else 0.0
    style = "bold reverse" if h == view.selected else "bold"
    text = Text().append(set_cell_size(hart.name, NAME), style)
    function = one_line(hart.function) or f"{hart.pc:#010x}"
    what = "dim" if hart.what in ("off", "asleep", "barrier", "wfi") else ""
    shown = function if not what else f"({hart.what}) {function}"
    text.append(" " + set_cell_size(shown, FUNCTION), what)
    text.append(f" {ipc:5.2f} ")
    return text.append_text(bar(cycles, BAR))


def _legend() -> list[Text]:
    """Three lines that name the kinds of cycles."""
    lines = [Text(), Text(), Text()]
    for index, kind in enumerate(KINDS):
        line = lines[index // 3]
        line.append(kind.letter, _of(kind.colour))
        line.append(set_cell_size(f" {kind.name}", 11), "dim")
    return lines


def _of(colour: str) -> Style:
    return Style(color=colour)


def _cluster(view: View) -> list[tuple[str, np.ndarray, float]]:
    """What the cluster has over time: name, values, the most that there can be or is."""
    spans = np.maximum(1, np.diff(view.edges))
    dma = view.bins.dma / spans
    largest = float(dma.max(initial=0.0))
    cores = sum(hart.name != "fc" for hart in view.harts)
    return [
        ("at barrier", view.bins.waiting, cores),
        ("DMA to L1", dma[0], largest),
        ("DMA from L1", dma[1], largest),
    ]


def _region_heading() -> Text:
    return Text(f"{'region':19}{'harts':>5}{'count':>7}{'cycles':>9}{'IPC':>6}", "bold")


def _regions(regions: list[RegionNow], lines: int) -> list[Text]:
    """The regions that are entered now first, then the longest."""
    ordered = sorted(regions, key=lambda r: (not r.is_open, -r.cycles))
    rows = []
    for region in ordered[: lines if len(ordered) <= lines else lines - 1]:
        name = set_cell_size(("▶ " if region.is_open else "  ") + one_line(region.name), 19)
        total = region.cycles * region.harts
        ipc = f"{region.instructions / total:6.2f}" if total else ""
        row = f"{name}{region.harts:>5}{short(region.count):>7}{short(region.cycles):>9}{ipc}"
        rows.append(Text(row, "bold" if region.is_open else ""))
    if len(ordered) > lines:
        rows.append(Text(f"  ... {len(ordered) - len(rows)} more", "dim"))
    return [*rows, *[Text()] * (lines - len(rows))]


def _panel_heading(view: View, width: int) -> Text:
    keys = " (m: elsewhere)" if view.panel == "memory" else ""
    stops = f"  breakpoints: {', '.join(view.breakpoints)}" if view.breakpoints else ""
    text = one_line(f"── {view.panel}{keys} {stops} ")
    return (
        Text(set_cell_size(text, width), "dim")
        if len(text) > width
        else Text(text + "─" * (width - len(text)), "dim")
    )


def _keys(width: int) -> Text:
    """The keys for which there is room."""
    text = Text()
    for key, what in KEYS:
        if text.cell_len + len(f"{key} {what}") <= width:
            text.append(key, "bold").append(f" {what} ", "dim")
    return text


def _halves(left: Text, right: Text, width: int, label: Text | None = None) -> Text:
    """The two halves of a line; a label ends the left one."""
    room = LEFT - (label.cell_len if label else 0)
    left = _cut(left, room)
    left.pad_right(room - left.cell_len)
    if label:
        left.append_text(label)
    return _cut(left.append(" ").append_text(right), width)


def _ends(left: Text, right: Text, width: int) -> Text:
    left = _cut(left, max(0, width - right.cell_len - 1))
    left.pad_right(width - right.cell_len - left.cell_len)
    return left.append_text(right)


def _cut(text: Text, width: int) -> Text:
    """The text, no wider; what is put behind it does not take on its style."""
    text = Text().append_text(text)
    text.truncate(width)
    return text
