"""A layer's points as a picture: cycles of each tile shape, and cycles against bytes of L1."""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from autotuner.point import Items, Point
from autotuner.result import Found
from pulpsim.cli.output import check_writable, write
from pulpsim.commands.tune.result import Tuned
from soc.config.toml import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
SHOWN = 16  # tile shapes
LABEL = 60  # characters of a tile
Shape = tuple[Items | None, bool]
WIDTH, HEIGHT, DPI = 12.5, 6.0, 120

KINDS = {
    0: ("all in L1", "#0072B2", "D"),
    1: ("tiles, one buffer", "#E69F00", "s"),
    2: ("tiles, two buffers", "#009E73", "o"),
}
"""Colours that the colour-blind tell apart (Okabe and Ito's), and marks that all do."""

SLOWEST = 4  # times the best: slower points are not in the picture of the front

INK, FRONT, GRID = "#333333", "#D55E00", "#DDDDDD"


def check_picture(file: Path) -> None:
    """Refuse a picture that cannot be drawn or written, before the work.

    raises    ConfigError
    """
    if file.suffix not in FORMATS:
        raise ConfigError([f"--picture {file}: must end in {' or '.join(FORMATS)}"])
    check_writable("--picture", file)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            ["--picture: needs matplotlib, which is not installed: pip install 'pulpsim[plot]'"]
        ) from None


def write_picture(layer: Tuned, file: Path) -> None:
    """Draw a layer.

    raises    ConfigError if the file cannot be written
    """
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams |= {"svg.hashsalt": "pulpsim", "svg.fonttype": "none"}
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = [f for f in layer.found if f.outcome.cycles is not None]
    figure.suptitle(_title(layer), x=0.01, ha="left", fontsize=13, color=INK)
    _draw_tiles(left, found, layer)
    _draw_front(right, found, layer)
    for axes in (left, right):
        _tidy(axes)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        markerscale=0.9,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
    )
    target = BytesIO()
    date: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {}
    figure.savefig(target, format=file.suffix[1:], dpi=DPI, metadata=date)
    write("--picture", file, target.getvalue())


def _title(layer: Tuned) -> str:
    given = layer.space.layer.given
    shapes = ", ".join(
        f"{name} {'/'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in given.items()
    )
    best = layer.best
    cycles = f": {best.outcome.cycles:,} cycles at best" if best else ""
    kernel = layer.space.layer.kernel
    return f"{layer.name}{cycles}\n" + (f"{kernel}: {shapes}" if kernel != layer.name else shapes)


def kind(found: Found) -> int:
    """Which of KINDS it is: its buffers, 0 where all is in L1."""
    is_resident = found.point.tile is None and not found.point.is_phased
    return 0 if is_resident else found.point.buffers


def _draw_tiles(axes: "Axes", found: Sequence[Found], layer: Tuned) -> None:
    """Draw a line for each tile shape, the fastest on top, a mark for each way to compute it."""
    lines: dict[Shape, list[Found]] = {}
    for one in found:
        lines.setdefault(_shape(one), []).append(one)
    shown = list(lines.items())[:SHOWN]
    for place, (_, some) in enumerate(shown):
        cycles = [f.outcome.rank for f in some]
        axes.plot([min(cycles), max(cycles)], [place, place], color=GRID, linewidth=3, zorder=1)
        _scatter(axes, [(f, f.outcome.rank, place) for f in some])
    places = {shape: place for place, (shape, _) in enumerate(shown)}
    _mark(axes, layer, lambda f: (f.outcome.rank, places.get(_shape(f))))
    axes.set_yticks(range(len(shown)), [_label(layer, some[0].point) for _, some in shown])
    axes.invert_yaxis()
    axes.set_xlabel("cycles of the whole layer, L2 to L2")
    rest = len(lines) - len(shown)
    after = f" (not shown: {rest} slower)" if rest else ""
    axes.set_title(f"Tile shapes; a mark: blocking, cores{after}", loc="left", fontsize=11)


def _draw_front(axes: "Axes", found: Sequence[Found], layer: Tuned) -> None:
    """Draw points by bytes of L1, and the front: no other point has fewer of both."""
    shown = [f for f in found if f.outcome.rank <= SLOWEST * found[0].outcome.rank]
    front = [_place(f) for f in pareto(shown)]
    axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color=FRONT, linewidth=1.8,
              label="no point has fewer of both", zorder=3)  # fmt: skip
    _scatter(axes, [(f, *_place(f)) for f in shown])
    _mark(axes, layer, _place)
    axes.set_xlabel("L1 taken by buffers, kB (1,024 bytes)")
    axes.set_ylabel("cycles of the whole layer, L2 to L2")
    axes.set_xlim(left=0)
    rest = len(found) - len(shown)
    after = f" (not shown: {rest} slower)" if rest else ""
    axes.set_title(f"Cycles and bytes of L1{after}", loc="left", fontsize=11)


def _place(found: Found) -> tuple[float, float]:
    """Return a point's coordinates: kilobytes of L1, and cycles."""
    return (found.outcome.l1_bytes or 0) / 1024, found.outcome.rank


def _scatter(axes: "Axes", marks: Sequence[tuple[Found, float, float]]) -> None:
    """Draw marks of points at their places, by their kind."""
    for which, (label, colour, mark) in KINDS.items():
        some = [(x, y) for one, x, y in marks if kind(one) == which]
        if some:
            how: dict[str, Any] = {
                "c": colour,
                "marker": mark,
                "label": label,
                "s": 26,
                "alpha": 0.8,
                "zorder": 2,
            }
            axes.scatter(*zip(*some, strict=True), **how)


def _mark(axes: "Axes", layer: Tuned, place: Callable[[Found], tuple[float, Any]]) -> None:
    """Mark the best point, and the one that the layer has by default."""
    own = next((f for f in layer.found if f.point == layer.space.default()), None)
    rings = [("the best", layer.best, "o", 130), ("the layer's own choice", own, "s", 170)]
    for label, found, mark, size in rings:
        if found and found.outcome.cycles is not None:
            x, y = place(found)
            if y is not None:
                axes.scatter([x], [y], s=size, marker=mark, facecolors="none", edgecolors=INK,
                             linewidths=1.4, label=label, zorder=4)  # fmt: skip


def _shape(found: Found) -> Shape:
    """What has a line of its own: a tile, of phases or of all."""
    return found.point.tile, found.point.is_phased


def _label(layer: Tuned, point: Point) -> str:
    """Format a tile's sizes but for dimensions of one element; of phases, the first ones."""
    tiling, tile = layer.space.tiling(), point.tile
    if point.is_phased:
        return shorten(point.tile_shown, LABEL, placeholder=" ...")
    if tile is None or tiling is None:
        return "all in L1"
    sizes = {dim.name: dim.size for dim in tiling.dims}
    return "  ".join(f"{name} {size}" for name, size in tile if sizes[name] > 1) or "1"


def pareto(found: Sequence[Found]) -> list[Found]:
    """Points of which no other has both fewer bytes of L1 and fewer cycles, by bytes."""
    front: list[Found] = []
    for one in sorted(found, key=lambda f: (f.outcome.l1_bytes or 0, f.outcome.rank)):
        if not front or one.outcome.rank < front[-1].outcome.rank:
            front.append(one)
    return front


def _tidy(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    thousands = FuncFormatter(lambda value, _: f"{value:,.10g}")
    axes.xaxis.set_major_formatter(thousands)
    if axes.get_ylabel():
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.yaxis.set_major_formatter(thousands)
