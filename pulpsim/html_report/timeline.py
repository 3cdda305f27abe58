"""The timeline: what each hart does, the DMA, barriers and regions, over the run's cycles."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pulpsim.html_report.recording import Recording
from pulpsim.html_report.sleep import union
from pulpsim.html_report.stall_groups import PARTS
from pulpsim.html_report.svg import (
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
from soc.trace.reader import Kind

HART, LOW, GAP = 26, 14, 4
"""Heights of a row for a hart, of other rows, and between rows."""
MOST_REGIONS = 20
NAME = 14
"""Characters that a row's name has room for."""


@dataclass(frozen=True)
class Row:
    """A row of the timeline.

    series    colour, name and values per bin of what is stacked in it
    full      what fills its height, a cycle; 0: the most that is seen
    total     stands at the right
    peak      unit of the number that stands there, if it is what fills the height
    """

    name: str
    height: int
    series: list[tuple[str, str, np.ndarray]]
    full: float = 1.0
    total: str = ""
    peak: str = ""

    def areas(self, widths: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Colour and values of what is stacked in it, each 0..1 of the height."""
        rates = [(key, values / widths) for key, _, values in self.series]
        full = self.full or float(sum(rate for _, rate in rates).max())
        return [(key, rate / full) for key, rate in rates]


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
            areas += _stacked(row, bins.widths, bottom)
            middle = y + row.height / 2 + 4
            texts.append(_name(row.name, middle))
            peak = row.name if row.peak else None
            right = LABELS + PLOT + 8
            texts.append(label(right, middle, row.total, class_="tick", data_peak=peak))
        about = "What each hart, the DMA, barriers and regions do over time"
        return picture(
            bottom + 26,
            time_axis(bins, 0, bottom + 2),
            plot(bins, bottom + 2, *areas),
            *texts,
            name="timed activity",
            about=about,
        )


def _stacked(row: Row, widths: np.ndarray, floor_y: float) -> Iterator[str]:
    below = np.zeros(len(widths))
    for key, values in row.areas(widths):
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
    for name, cycles in zip(recording.trace.harts, recording.activity, strict=True):
        used = [(part, row) for part, row in zip(PARTS, cycles, strict=True) if row.any()]
        yield Row(name, HART, [(part.key, part.name, row) for part, row in used])


def _dma(recording: Recording) -> Iterator[Row]:
    out, into = recording.beats
    if not recording.beats.any():
        return
    widths = recording.bins.widths
    most = (recording.beats.sum(axis=0) / widths).max()
    yield Row(
        "DMA beats",
        HART,
        [("dma_in", "words into L1", into), ("dma_out", "words out of L1", out)],
        0.0,
        f"peak {most:.2g}/cycle",
        "/cycle",
    )
    spans = recording.transfers
    if spans.size:
        busy = union(spans.start, spans.start + spans.length)
        cycles = recording.bins.spans(busy.starts, busy.ends - busy.starts)[0]
        yield Row(
            "DMA busy",
            LOW,
            [("dma_in", "transfer under way", cycles)],
            total=percent(busy.cycles, recording.cycles),
        )


def _barriers(recording: Recording) -> Iterator[Row]:
    sleeps = recording.of(Kind.SLEEP)
    ends = np.unique(
        sleeps["cycle"][sleeps["extra"] == 1].astype(np.int64) + sleeps["b"][sleeps["extra"] == 1]
    )
    if not ends.size:
        return
    passed = recording.bins.points(ends)[0]
    series = [("barrier_mark", "barriers passed", passed)]
    yield Row("barriers", LOW, series, 0.0, f"{ends.size:,}")


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
        series = [("accent", "cycles of all cores inside", cycles[index])]
        yield Row(name, LOW, series, float(harts))
