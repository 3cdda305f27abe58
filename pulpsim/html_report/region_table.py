"""The table of regions: layer, tile, kernel, as they lie inside each other."""

from collections.abc import Iterable

from pulpsim.html_report.figures import Figures
from pulpsim.html_report.nesting import nested
from pulpsim.html_report.stall_groups import PARTS, parts_of
from pulpsim.html_report.svg import count, percent, shown

MOST = 400
"""Rows; a trace has all."""
COLUMNS = tuple(part for part in PARTS if part.key not in ("other", "off"))
Row = tuple[int, str, int, int, int, list[int]]
"""Depth, name, harts, entries, cycles of the slowest hart, cycles by part of all harts."""


def region_table(figures: Figures) -> str:
    """Regions with what they took; "" if the program has none."""
    rows = list(_of_trace(figures) if figures.recording else _of_result(figures))
    if not rows:
        return ""
    columns = [c for c in COLUMNS if any(row[5][PARTS.index(c)] for row in rows)]
    head = "".join(f"<th>{shown(part.name)} %</th>" for part in columns)
    body = "".join(_row(row, figures.cycles, columns) for row in rows[:MOST])
    rest = f'<p class="note">{len(rows) - MOST} more are left out.</p>' if rows[MOST:] else ""
    return (
        '<div class="scroll"><table class="tight"><thead><tr><th class="left">region</th>'
        f"<th>cores</th><th>entered</th><th>cycles</th><th>of the run</th><th>IPC</th>{head}"
        f"</tr></thead><tbody>{body}</tbody></table></div>{rest}"
    )


def _row(row: Row, cycles: int, columns: Iterable) -> str:
    depth, name, harts, entries, longest, parts = row
    whole = sum(parts)
    shares = (parts[PARTS.index(part)] for part in columns)
    cells = "".join(f"<td>{100 * n / whole:.1f}</td>" if n else "<td></td>" for n in shares)
    per_cycle = f"{parts[0] / whole:.2f}" if whole else ""
    return (
        f'<tr><td class="left" style="padding-left:{20 * depth}px">{shown(name)}</td>'
        f"<td>{harts}</td><td>{count(entries)}</td><td>{count(longest)}</td>"
        f"<td>{percent(longest, cycles)}</td><td>{per_cycle}</td>{cells}</tr>"
    )


def _of_trace(figures: Figures) -> Iterable[Row]:
    assert figures.recording is not None
    for each in nested(figures.recording):
        cycles = each.cycles.tolist()
        depth = len(each.path) - 1
        yield depth, each.path[-1], each.harts, each.entries, each.longest, cycles


def _of_result(figures: Figures) -> Iterable[Row]:
    """Regions of all harts by name, in the order of their numbers; how they nest is not known."""
    found: dict[int, list[dict]] = {}
    for hart in figures.harts:
        for region in hart.regions:
            found.setdefault(region["id"], []).append(region)
    for _, regions in sorted(found.items()):
        parts = [parts_of(region["instructions"], region["stalls"], None) for region in regions]
        yield (
            0,
            regions[0]["name"],
            len(regions),
            sum(region["count"] for region in regions),
            max(region["cycles"] for region in regions),
            [sum(column) for column in zip(*parts, strict=True)],
        )
