"""How pictures look: one style, colours that everybody can tell apart, also in print.

Colours: M. Okabe, K. Ito, Color Universal Design, 2008. Heat maps: cividis, whose lightness rises
evenly. Lines differ in their markers, too.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pulpsim.commands.study.study import Row, Study

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
LINES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = "osD^vPX*"
"""One more than colours: a line repeats another only after all pairs."""
GREY = "#707070"
PART_COLOURS = (
    (BLUE, ""),
    (ORANGE, "///"),
    (RED, ""),
    (GREEN, "---"),
    (SKY, "\\\\\\"),
    (PURPLE, ""),
    (YELLOW, "|||"),
)
"""Of stacked bars: colour and hatching."""
MAP = "cividis"
MOST_NAMES = 17
"""Names that have room along an axis."""

KINDS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""And what is left out of them, since it differs from run to run, or from host to host."""

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "pulpsim",
}


def pictures(study: Study, rows: Sequence[Row]) -> dict[str, bytes]:
    """The picture of a study by kind of file; the same rows make the same bytes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=study.size, layout="constrained")
        study.draw(figure, rows)
        return {kind: _saved(figure, kind, metadata) for kind, metadata in KINDS.items()}


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    data = BytesIO()
    figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()


def line_style(index: int) -> dict[str, Any]:
    """Colour and marker of a line."""
    return {"color": LINES[index % len(LINES)], "marker": MARKERS[index % len(MARKERS)]}


def heat_map(
    axes: Axes,
    values: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[str]],
    columns: Sequence[object],
    rows: Sequence[object],
    limits: tuple[float, float],
) -> Any:
    """Draw a table of values as colours with their labels inside; None stays empty.

    Colours alone where labels have no room. Returns what a colour bar is made of.
    """
    low, high = limits
    data = [[float("nan") if v is None else v for v in row] for row in values]
    image = axes.imshow(data, cmap=MAP, vmin=low, vmax=high, aspect="auto", origin="lower")
    named_ticks(axes.xaxis, columns)
    named_ticks(axes.yaxis, rows)
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(rows) > MOST_NAMES or len(columns) > MOST_NAMES:
        return image
    for y, (row, texts) in enumerate(zip(values, labels, strict=True)):
        for x, (value, text) in enumerate(zip(row, texts, strict=True)):
            if value is not None:
                is_light = value - low > 0.55 * (high - low)
                colour = BLACK if is_light else "#ffffff"
                axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=7)
    return image


def named_ticks(axis: Axis, names: Sequence[object]) -> None:
    """Ticks at 0, 1, 2 ... with these names; of many names every second, third ..."""
    step = -(-len(names) // MOST_NAMES)
    axis.set_ticks(range(0, len(names), step), [str(name) for name in names[::step]])


def powers_of_two(axes: Axes, values: Sequence[int]) -> None:
    """Let x be logarithmic, with a tick at each of the values; many are written aslant."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.tick_params(axis="x", labelrotation=45 if len(values) > 6 else 0)
    axes.minorticks_off()


def plain_numbers(axis: Axis) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, as plain numbers."""
    axis.set_major_locator(LogLocator(10, (1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
