"""The timeline: what each hart does, the DMA, barriers and regions, over the run's cycles."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pulpsim.report_page.parts import PARTS
from pulpsim.report_page.recording import Recording
from pulpsim.report_page.sleep import union
from pulpsim.report_page.svg import (
    LABELS,
    PLOT,
    area,
    element,
    label,
    percent,
    picture,
    plot,
    time_axis,
    title,
)
from soc.trace import Kind

HART, LOW, GAP = 26, 14, 4
"""Heights of a row for a hart, of other rows, and between rows."""
MOST_REGIONS = 20
NAME = 14
"""Characters that a row's name has room for."""


@dataclass(frozen=True)
class Row:
    """A row of the timeline.

    areas     colour and values of what is stacked in it, per bin, each 0..1 of the height
    series    name and values of what a pointer shows, per bin
    total     stands at the right
    """

    name: str
    height: int
    areas: list[tuple[str, np.ndarray]]
    series: list[tuple[str, np.ndarray]]
    total: str = ""


@dataclass
class Timeline:
    """Rows, and where they are."""

    recording: Recording
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [*_harts(self.recording), *_dma(self.recording)]
        self.rows += [*_barriers(self.recording), *_regions(self.recording)]

    def places(self) -> Iterator[tuple[float, Row]]:
        """The upper edge of each row."""
        y = 2.0
        for row in self.rows:
            yield y, row
            y += row.height + GAP

    def drawn(self) -> str:
        """The picture."""
        bins = self.recording.bins
        areas: list[str] = []
        texts: list[str] = []
        bottom = 0.0
        for y, row in self.places():
            bottom = y + row.height
            areas += _stacked(row, bottom)
            middle = y + row.height / 2 + 4
            texts.append(_name(row.name, middle))
            texts.append(label(LABELS + PLOT + 8, middle, row.total, class_="tick"))
        about = "What each hart, the DMA, barriers and regions do over time"
        return picture(
            bottom + 26,
            time_axis(bins, 0, bottom + 2),
            plot(bins, bottom + 2, *areas),
            *texts,
            name="timed activity",
            about=about,
        )


def _stacked(row: Row, floor_y: float) -> Iterator[str]:
    below = np.zeros(len(row.areas[0][1])) if row.areas else np.zeros(0)
    for key, values in row.areas:
        above = below + values * row.height
        path = area(above, below, floor_y)
        if path:
            yield element("path", d=path, class_=key)
        below = above


def _name(name: str, y: float) -> str:
    return element("g", title(name), label(LABELS - 8, y, abbreviated(name), text_anchor="end"))


def abbreviated(name: str) -> str:
    """A name with what its row has room for: its begin and its end."""
    return name if len(name) <= NAME else f"{name[:5]}…{name[-(NAME - 6) :]}"


def _harts(recording: Recording) -> Iterator[Row]:
    widths = recording.bins.widths
    for name, cycles in zip(recording.trace.harts, recording.activity, strict=True):
        used = [(part, row) for part, row in zip(PARTS, cycles, strict=True) if row.any()]
        yield Row(
            name,
            HART,
            [(part.key, row / widths) for part, row in used],
            [(part.name, row) for part, row in used],
        )


def _dma(recording: Recording) -> Iterator[Row]:
    out, into = recording.beats
    if not recording.beats.any():
        return
    widths = recording.bins.widths
    most = (recording.beats.sum(axis=0) / widths).max()
    yield Row(
        "DMA beats",
        HART,
        [("dma_in", into / widths / most), ("dma_out", out / widths / most)],
        [("words into L1", into), ("words out of L1", out)],
        f"peak {most:.2g}/cycle",
    )
    spans = recording.transfers
    if spans.size:
        busy = union(spans.start, spans.start + spans.length)
        cycles = recording.bins.spans(busy.starts, busy.ends - busy.starts)[0]
        yield Row(
            "DMA busy",
            LOW,
            [("dma_in", cycles / widths)],
            [("transfer under way", cycles)],
            percent(busy.cycles, recording.cycles),
        )


def _barriers(recording: Recording) -> Iterator[Row]:
    sleeps = recording.of(Kind.SLEEP)
    ends = np.unique(
        sleeps["cycle"][sleeps["extra"] == 1].astype(np.int64) + sleeps["b"][sleeps["extra"] == 1]
    )
    if not ends.size:
        return
    passed = recording.bins.points(ends)[0]
    areas = [("barrier_mark", passed / passed.max())]
    yield Row("barriers", LOW, areas, [("barriers passed", passed)], f"{ends.size:,}")


def _regions(recording: Recording) -> Iterator[Row]:
    spans, names = recording.regions, recording.trace.regions
    if not spans.size:
        return
    numbers, which = np.unique(spans.number, return_inverse=True)
    cycles = recording.bins.spans(spans.start, spans.length, which, numbers.size)
    first = np.full(numbers.size, recording.cycles)
    np.minimum.at(first, which, spans.start)
    chosen = np.argsort(-cycles.sum(axis=1), kind="stable")[:MOST_REGIONS]
    for index in chosen[np.argsort(first[chosen], kind="stable")].tolist():
        harts = np.unique(spans.hart[which == index]).size
        number = int(numbers[index])
        name = names.get(number, f"region {number}")
        values = cycles[index] / recording.bins.widths / harts
        yield Row(name, LOW, [("accent", values)], [("cycles of all cores inside", cycles[index])])
