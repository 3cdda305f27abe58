"""The overview as lines of text: state and slider, harts over time, legend, cluster.

title, state, cycle, speed
slider: where the cycle lies in what is known
axis
harts        function, IPC, cycles spent            |  what each did over time
legend
regions                                             |  cores at a barrier, DMA, conflicts
"""

from dataclasses import dataclass

import numpy as np
from rich.cells import set_cell_size
from rich.style import Style
from rich.text import Text

from pulpsim.cli.terminal import one_line, short
from pulpsim.tui.charts import (
    Paint,
    axis,
    bar,
    heat_lines,
    heat_steps,
    lane,
    levels,
    scale,
    shares,
    styled,
)
from pulpsim.tui.frame import Frame
from pulpsim.tui.palette import KINDS
from pulpsim.tui.panels import in_order, short_region_line

NAME, LABEL = 6, 13
LEAST_PANEL, LEAST_HEAT = 6, 4
FIXED = 7
"""Lines besides harts, cluster and panel."""
IDLE = "off", "asleep", "barrier", "wfi"
STATES = {"running": "▶", "to barrier": "▶", "paused": "‖", "ended": "■"}


@dataclass(frozen=True)
class Layout:
    """How the columns and lines of a screen are shared.

    left      columns to the left of what is shown over time
    bar       of them, for how the cycles were spent; 0: none
    harts     lines of harts that are seen at once
    heat      lines of the heat map; 0: the cluster is not shown
    """

    width: int
    height: int
    left: int
    bar: int
    harts: int
    heat: int

    @property
    def right(self) -> int:
        """Columns of what is shown over time."""
        return max(1, self.width - self.left)

    @property
    def function(self) -> int:
        """Columns of the function that a hart is in."""
        return self.left - NAME - self.bar - (9 if self.bar else 8)


def layout(width: int, height: int, harts: int, banks: int) -> Layout:
    """Share a screen: from 80 by 24 on, with room to spare from 100 by 30 on."""
    left, bar_width = (51, 16) if width >= 100 else (31, 0)
    if width >= 140:
        left, bar_width = 60, 20
    seen = min(harts, height - FIXED - LEAST_PANEL)
    spare = height - FIXED - seen - LEAST_PANEL - 4
    heat = min((banks + 1) // 2, max(LEAST_HEAT, spare - 8)) if spare >= LEAST_HEAT else 0
    return Layout(width, height, left, bar_width, seen, heat)


def status(frame: Frame, width: int, is_busy: bool, paint: Paint) -> list[Text]:
    """Title, state, cycle and speed; below it, the slider."""
    state = "working" if is_busy else frame.state
    left = styled(f" {one_line(frame.title)} ", paint.strong + Style(reverse=True))
    left.append(f"  {'…' if is_busy else STATES[frame.state]} {state}", paint.strong)
    left.append("  cycle ", paint.label).append(f"{frame.cycle:,}", paint.strong)
    if frame.latest > frame.cycle:
        left.append(f" of {frame.latest:,}", paint.label)
    right = styled(f"limit {short(frame.rate)} cycles/s  " if frame.rate else "", paint.label)
    if frame.is_running:
        cycles, instructions = frame.speed
        right.append(f"{short(int(cycles))} cycles/s  {instructions / 1e6:.2f} MIPS ")
    if left.cell_len + right.cell_len > width:
        title_room = max(4, width - right.cell_len - (left.cell_len - len(frame.title)) - 1)
        shorter = one_line(frame.title)[: title_room - 1] + "…"
        left = (
            Text().append(f" {shorter} ", paint.strong + Style(reverse=True))
            + left[len(one_line(frame.title)) + 2 :]
        )
    left.truncate(max(0, width - right.cell_len))
    left.pad_right(max(0, width - right.cell_len - left.cell_len))
    done = round((width - 1) * frame.cycle / frame.latest) if frame.latest else 0
    slider = styled("━" * done, paint.series).append("●", paint.strong)
    slider.append("─" * (width - done - 1), paint.label)
    return [left.append_text(right), slider]


def heading(frame: Frame, place: Layout, paint: Paint) -> list[Text]:
    """Titles of the columns, and the axis of time."""
    titles = f" {'hart':{NAME}}{'next instruction in':{place.function}}"
    titles = f"{titles[: NAME + place.function]}   IPC "
    titles += f" {'cycles spent on':{place.bar}}" if place.bar else ""
    text = styled(titles.ljust(place.left)[: place.left], paint.strong)
    return [text.append_text(axis(frame.edges, paint))]


def hart_line(frame: Frame, h: int, place: Layout, paint: Paint) -> Text:
    """A hart: where it is, how it has spent its cycles, and both over time."""
    hart = frame.harts[h]
    cycles = shares(frame.bins, h)[:, : max(0, frame.cursor + 1)].sum(axis=1)
    ipc = cycles[0] / cycles.sum() if cycles.sum() else 0.0
    is_selected = h == frame.selected
    text = styled("▶" if is_selected else " ", paint.strong)
    style = paint.strong + Style(reverse=True) if is_selected else paint.strong
    text.append(set_cell_size(hart.name, NAME - 1), style).append(" ")
    function = one_line(hart.function) or (f"{hart.pc:#010x}" if hart.what != "off" else "")
    shown = f"({hart.what}) {function}" if hart.what in IDLE else function
    text.append(set_cell_size(shown, place.function), paint.label if hart.what in IDLE else "")
    text.append(f" {ipc:5.2f} ")
    if place.bar:
        text.append_text(bar(cycles, place.bar, paint)).append(" ")
    return text.append_text(lane(frame.bins, h, frame.cursor, paint))


def legend(frame: Frame, place: Layout, paint: Paint) -> list[Text]:
    """The kinds of cycles, and how many cycles a column has."""
    text = Text(" ")
    for number, kind in enumerate(KINDS):
        text.append(kind.letter, paint.filled[number] if number else paint.run)
        text.append(f" {kind.name}  ", paint.label)
    width = int(frame.edges[1] - frame.edges[0])
    right = f"{width:,} cycle{'s' * (width > 1)}/column" + ("" if frame.is_exact else " ≈")
    gap = place.width - text.cell_len - len(right) - 1
    if gap < 0:
        right, gap = "", 0
    return [text.append(" " * gap).append(right, paint.label)]


def cluster(frame: Frame, place: Layout, paint: Paint) -> list[Text]:
    """Cores at a barrier, the DMA and conflicts over time; beside them the regions."""
    spans = np.maximum(1, np.diff(frame.edges))
    dma = frame.bins.dma / spans
    largest = float(dma.max(initial=0.0))
    cores = sum(hart.name != "fc" for hart in frame.harts)
    rows: list[tuple[Text, Text]] = []
    for name, values, most in (
        ("at barrier", frame.bins.waiting, cores),
        ("DMA to L1", dma[0], largest),
        ("DMA from L1", dma[1], largest),
    ):
        label = styled(f"{name:>{LABEL - 1}} ", paint.label)
        rows.append((label, levels(values, most, frame.cursor, paint)))
    colours = len(paint.colours.heat)
    steps, group, most = heat_steps(frame.bins.conflicts, spans, 2 * place.heat, colours)
    title = styled("L1 conflicts/cycle by bank  0 ", paint.strong).append_text(scale(paint))
    rows.append((Text(), title.append(f" {most:.2f}", paint.strong)))
    for line, heat in enumerate(heat_lines(steps, paint)):
        first, last = 2 * group * line, min(2 * group * (line + 1), frame.bins.conflicts.shape[0])
        name = f"bank {first}-{last - 1}" if last - first > 1 else f"bank {first}"
        rows.append((styled(f"{name:>{LABEL - 1}} ", paint.label), heat))
    tables = _regions(frame, place, len(rows), paint)
    return [
        _beside(table, label, right, place.left)
        for table, (label, right) in zip(tables, rows, strict=True)
    ]


def _regions(frame: Frame, place: Layout, lines: int, paint: Paint) -> list[Text]:
    """The first regions, in as many lines, where there is room for them."""
    room = place.left - LABEL - 1
    if room < 30:
        return [Text()] * lines
    name = room - 18
    titles = f"{'  region':{name}}{'count':>6}{'cycles':>7}{'IPC':>5}"
    ordered = in_order(frame.regions)
    found = [styled(titles, paint.strong)]
    found += [short_region_line(r, paint, name) for r in ordered[: lines - 1]]
    if len(ordered) > lines - 1:
        found[-1] = styled(f"  ... {len(ordered) - lines + 2} more: tab", paint.label)
    return [*found, *[Text()] * (lines - len(found))]


def _beside(table: Text, label: Text, right: Text, left: int) -> Text:
    text = Text().append_text(table)
    text.truncate(left - label.cell_len)
    text.pad_right(left - label.cell_len - text.cell_len)
    return text.append_text(label).append_text(right)


def told(frame: Frame, h: int, column: int) -> str:
    """What a hart did in a column, in words."""
    first, last = int(frame.edges[column]), int(frame.edges[column + 1])
    cycles = shares(frame.bins, h)[:, column]
    whole = max(1, int(cycles.sum()))
    parts = [
        f"{kind.name} {100 * count / whole:.0f} %"
        for kind, count in zip(KINDS, cycles.tolist(), strict=True)
        if count
    ]
    what = ", ".join(parts) or "nothing known"
    return f"{frame.harts[h].name}, cycles {first:,} .. {last - 1:,}: {what}"


def told_of_cluster(frame: Frame, line: int, column: int, heat: int) -> str:
    """What a line of the cluster shows in a column, in words."""
    first, last = int(frame.edges[column]), int(frame.edges[column + 1])
    where, span = f"cycles {first:,} .. {last - 1:,}: ", max(1, last - first)
    if line == 0:
        return f"{where}{int(frame.bins.waiting[column])} cores at a barrier at the end"
    if line < 3:
        beats = frame.bins.dma[line - 1, column] / span
        return f"{where}{beats:.2f} beats of the DMA {'to' if line == 1 else 'from'} L1 a cycle"
    conflicts = frame.bins.conflicts
    group = 2 * max(1, -(-conflicts.shape[0] // (2 * heat)))
    banks = range(group * (line - 4), min(conflicts.shape[0], group * (line - 3)))
    if line == 3 or not banks:
        return ""
    rates = ", ".join(f"bank {b} {conflicts[b, column] / span:.2f}" for b in banks)
    return f"{where}conflicts a cycle: {rates}"
