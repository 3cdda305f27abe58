"""Pictures of a training: what each layer's cycles are spent on, and the losses."""

from collections.abc import Iterator, Sequence

from pulpsim.commands.deploy.tables import short_name
from pulpsim.html_report.breakdown import legend
from pulpsim.html_report.stall_groups import PARTS, parts_of
from pulpsim.html_report.svg import (
    LABELS,
    PLOT,
    WIDTH,
    count,
    element,
    label,
    level,
    percent,
    picture,
    shown,
    ticks,
    title,
)
from trainlib.deploy import Trained
from trainlib.deploy.running import LayerStep

NAMES = 250  # width of what stands left of a bar
BARS = WIDTH - NAMES - 80
BAR, ROW = 11, 15
HEIGHT, TOP, BOTTOM = 180, 12, 34  # of the picture of losses, and what is above and below it
LONGEST = 24  # characters of a layer's name


def layer_bars(trained: Trained, cores: int) -> str:
    """A bar for each layer and direction, as long as its cycles of a batch, by cause.

    A core that is done before the slowest one is asleep for the rest.
    """
    layers, batches = trained.report.layers, len(trained.report.batches)
    most = max((layer.cycles for layer in layers), default=1) / batches
    bottom = TOP + len(layers) * ROW
    parts, used = list(_cycle_axis(most, bottom)), set()
    for index, layer in enumerate(layers):
        y = TOP + index * ROW
        name = f"{short_name(layer.layer, LONGEST)}  {layer.step}"
        parts.append(label(NAMES - 8, y + BAR - 2, name, text_anchor="end"))
        x, scale = float(NAMES), BARS / most / batches / cores
        for key, part, cycles in _pieces(layer, cores):
            tip = title(
                f"{layer.layer}, {layer.step}, {part}: {percent(cycles, cores * layer.cycles)}"
            )
            box = {"x": x, "y": y, "width": cycles * scale, "height": BAR}
            parts.append(element("rect", tip, **box, class_=f"crisp {key}"))
            x += cycles * scale
            used.add(key)
        number = count(layer.cycles / batches)
        parts.append(label(x + 6, y + BAR - 2, number, class_="tick"))
    about = "Cycles of each layer's forward and backward pass and update, by what cores do in them"
    drawn = picture(bottom + 22, *parts, name="layers", about=about)
    keys = [(part.key, part.name) for part in PARTS if part.key in used]
    return f"{legend(keys)}<figure>{drawn}</figure>"


def _cycle_axis(most: float, bottom: float) -> Iterator[str]:
    for cycles in ticks(most):
        x = NAMES + BARS * cycles / most
        yield element("path", d=f"M{x:.2f} {TOP}V{bottom}", class_="grid")
        yield label(x, bottom + 14, count(cycles), class_="tick", text_anchor="middle")


def _pieces(layer: LayerStep, cores: int) -> Iterator[tuple[str, str, int]]:
    """Return class, name and cycles of all cores for each part of a layer's cycles."""
    cycles = parts_of(layer.instructions, layer.stalls, None)
    rest = cores * layer.cycles - sum(cycles)
    for part, number in zip(PARTS, cycles, strict=True):
        number += max(rest, 0) if part.key == "asleep" else 0
        if number > 0:
            yield part.key, part.name, number


def loss_curve(losses: Sequence[float]) -> str:
    """The loss of each batch."""
    low, high = min(*losses, 0.0), max(losses)
    span, last = (high - low) or 1.0, len(losses) - 1
    bottom = TOP + HEIGHT

    def place(number: int) -> tuple[float, float]:
        y = bottom - HEIGHT * (losses[number] - low) / span
        return LABELS + PLOT * number / last, y

    parts = []
    for value in ticks(span, 5):
        parts.append(level(bottom - HEIGHT * value / span, f"{low + value:g}"))
    for number in ticks(last):
        if number == int(number):
            x = place(int(number))[0]
            text = count(number + 1)
            parts.append(label(x, bottom + 16, text, class_="tick", text_anchor="middle"))
    parts.append(label(LABELS + PLOT + 40, bottom + 16, "batch", class_="tick"))
    points = " ".join("{:.2f},{:.2f}".format(*place(n)) for n in range(last + 1))
    line = {"fill": "none", "stroke": "var(--work)", "stroke_width": 2}
    parts.append(element("polyline", points=points, **line))
    for number in range(last + 1) if last < 100 else ():
        x, y = place(number)
        tip = title(f"batch {number + 1}: loss {losses[number]:.6g}")
        parts.append(element("circle", tip, cx=x, cy=y, r=3, fill="var(--work)"))
    about = f"Loss by batch, from {losses[0]:.4g} to {losses[-1]:.4g}"
    drawn = picture(bottom + BOTTOM, *parts, name="losses", about=about)
    return f"<figure>{drawn}<figcaption>{shown(about)}.</figcaption></figure>"
