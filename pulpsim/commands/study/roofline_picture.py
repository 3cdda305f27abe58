"""The pictures of the study of rooflines."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pulpsim.commands.study.plot_style import BLACK, GREY, line_style, plain_numbers
from pulpsim.commands.study.roofs import DMA, FLOPS, FPU, HALVES, L1, L2, PAIR, issue_roof, lanes_of
from pulpsim.commands.study.study import Row

STEPS = 100  # of a curve


def draw_rooflines(figure: Figure, rows: Sequence[Row]) -> None:
    """Two rooflines: against L1, and against DMA and L2."""
    left, right = figure.subplots(1, 2, sharey=True)
    limits = {row["what"]: row for row in rows if not row["against"]}
    for axes, against, slopes in ((left, L1, [L1]), (right, DMA, [DMA, L2])):
        some = [row for row in rows if row["against"] == against]
        at = _abscissae([row["intensity"] for row in some])
        lanes = [lanes_of(row["what"]) for row in some]
        for count, fpu in ((1, FPU), (PAIR, HALVES)):
            if fpu in limits and (count in lanes or not lanes):
                _draw_roofs(axes, at, limits, slopes, fpu)
                if against == L1:
                    _draw_issue(axes, at, round(limits[FPU]["nominal"] / FLOPS), count)
        if FPU not in limits:
            _draw_roofs(axes, at, limits, slopes, FPU)
        axes.legend(loc="lower right")
        for index, row in enumerate(some):
            style = line_style(index)
            axes.plot(row["intensity"], row["performance"], linestyle="", markersize=7, **style)
        axes.set_xlim(at[0], at[-1])
    _, top = left.get_ylim()
    left.set_ylim(bottom=min(left.get_ylim()[0], top / 12))  # so that there are some ticks
    left.set_title("computation, against L1")
    right.set_title("from L2 to L2, against DMA and L2")
    left.set_xlabel("flops for a byte of L1")
    right.set_xlabel("flops for a byte copied (the busier direction)")
    left.set_ylabel("flops in a cycle, all cores")
    for axis in (left.xaxis, right.xaxis, left.yaxis):
        plain_numbers(axis)
    names = dict.fromkeys(row["what"] for row in rows if row["against"])
    points = [Line2D([], [], linestyle="", **line_style(i)) for i, _ in enumerate(names)]
    figure.legend(points, list(names), loc="outside lower center", ncols=min(len(names), 6))


def _abscissae(intensities: Sequence[float]) -> list[float]:
    """Return intensities from half the lowest to four times the highest, evenly in logarithm."""
    low, high = min(intensities, default=0.2) / 2, max(intensities, default=5) * 4
    return [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]


def _draw_roofs(
    axes: Axes,
    at: Sequence[float],
    limits: Mapping[str, Row],
    slopes: Sequence[str],
    fpu: str,
) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    top = limits[fpu]["nominal"] if fpu in limits else float("inf")
    known = axes.get_legend_handles_labels()[1]
    for name, dashes in zip(slopes, ("-", "--"), strict=False):
        if name in limits:
            slope = limits[name]["nominal"] or limits[name]["measured"]
            roof = [min(slope * x, top) for x in at]
            label = f"{name}: {slope:.3g} bytes in a cycle"
            label = f"_{label}" if label in known else label  # "_": not in the legend
            axes.plot(at, roof, linestyle=dashes, color=BLACK, linewidth=1.3, label=label)
    if top < float("inf"):
        text = f"{fpu}: {top:g} flops in a cycle"
        axes.annotate(
            text, (at[-1], top), (0, 4), textcoords="offset points", ha="right", fontsize=7.5
        )


def _draw_issue(axes: Axes, at: Sequence[float], cores: int, lanes: int) -> None:
    """Draw the roof of single-issue cores that must load their operands."""
    label = "one instruction of each core in a cycle"
    label = f"_{label}" if label in axes.get_legend_handles_labels()[1] else label
    axes.plot(at, [issue_roof(cores, x, lanes) for x in at], ":", color=GREY, label=label)
