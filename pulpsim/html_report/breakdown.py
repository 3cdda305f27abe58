"""The stall breakdown: all cycles of each hart, as bars and as a table that closes to 100 %."""

from pulpsim.html_report.figures import Figures, Hart
from pulpsim.html_report.stall_groups import MEANINGS, PARTS, hundredths
from pulpsim.html_report.svg import (
    LABELS,
    PLOT,
    count,
    element,
    label,
    percent,
    picture,
    shown,
    title,
)
from soc.prelude.counters import CAUSES

BAR, GAP = 20, 6
READABLE = 46
"""Width of a bar's piece that has room for its share."""

MANY = 9
"""Harts, the fabric controller with them, whose columns fit the page; more are written smaller."""


def bars(figures: Figures) -> str:
    """A bar for each hart, its parts side by side."""
    height = len(figures.harts) * (BAR + GAP) + 26
    parts = [_bar(hart, index * (BAR + GAP)) for index, hart in enumerate(figures.harts)]
    bottom = len(figures.harts) * (BAR + GAP)
    for share in range(0, 101, 20):
        x = LABELS + PLOT * share / 100
        parts.append(label(x, bottom + 14, f"{share} %", class_="tick", text_anchor="middle"))
    about = "For each hart, the share of its cycles that each part takes"
    return picture(height, *parts, name="breakdown", about=about)


def _bar(hart: Hart, y: float) -> str:
    pieces = [label(LABELS - 8, y + 14, hart.name, text_anchor="end")]
    x, whole = float(LABELS), max(1, hart.cycles)
    for part, cycles in zip(PARTS, hart.parts, strict=True):
        if not cycles:
            continue
        width, share = PLOT * cycles / whole, percent(cycles, whole)
        tip = title(f"{hart.name}, {part.name}: {count(cycles)} cycles, {share}")
        pieces.append(
            element("rect", tip, x=x, y=y, width=width, height=BAR, class_=f"crisp {part.key}")
        )
        if width > READABLE:
            ink = f"bar-text on-{part.key}"
            pieces.append(label(x + width / 2, y + 14, share, class_=ink, text_anchor="middle"))
        x += width
    return "".join(pieces)


def legend(keys: list[tuple[str, str]]) -> str:
    """Colours and what they stand for."""
    items = (f'<span><i class="fill-{key}"></i>{shown(name)}</span>' for key, name in keys)
    return f'<div class="legend">{"".join(items)}</div>'


def parts_legend(figures: Figures) -> str:
    """The colours of the parts that some hart has."""
    return legend(
        [
            (part.key, part.name)
            for index, part in enumerate(PARTS)
            if any(hart.parts[index] for hart in figures.harts)
        ]
    )


def table(figures: Figures, in_percent: bool) -> str:
    """Every cause of stalls and the instructions, by hart: cycles, or percent that add up."""
    columns = [[hart.instructions, *_stalls(hart)] for hart in figures.harts]
    wanted = [i for i in range(len(CAUSES) + 1) if any(column[i] for column in columns)]
    shares = [hundredths(column) for column in columns]
    values = shares if in_percent else columns
    head = "".join(f"<th>{shown(hart.name)}</th>" for hart in figures.harts)
    names = ["instructions", *CAUSES]
    rows = "".join(
        f'<tr><td class="left">{names[i]}</td>'
        + "".join(f"<td>{_cell(column[i], in_percent)}</td>" for column in values)
        + f'<td class="left soft meaning">{shown(MEANINGS.get(names[i], ""))}</td></tr>'
        for i in wanted
    )
    sums = "".join(f"<td>{_cell(sum(column), in_percent)}</td>" for column in values)
    unit = "% of the hart's cycles" if in_percent else "cycles"
    kind = ' class="many"' if len(columns) > MANY else ""
    return (
        f'<div class="scroll"><table{kind}>'
        f'<thead><tr><th class="left">{unit}</th>{head}<th></th></tr>'
        f'</thead><tbody>{rows}</tbody><tfoot><tr><td class="left">sum</td>{sums}<td></td></tr>'
        "</tfoot></table></div>"
    )


def _stalls(hart: Hart) -> list[int]:
    return [hart.stalls.get(cause, 0) for cause in CAUSES]


def _cell(value: int, in_percent: bool) -> str:
    if not value:
        return ""
    return f"{value // 100}.{value % 100:02}" if in_percent else count(value)
