"""The study of strides: conflicts by the distance of a core's accesses, and between the cores."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.stride_model import conflicts
from pulpsim.commands.study.stride_program import READ, StrideProgram
from pulpsim.commands.study.study import Case, Finding, Row, Study, batched, counted
from pulpsim.commands.study.values import Cores, Some, Words
from soc.chip.spec import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = 4  # offsets that are drawn as lines
COLUMNS = 7  # of a table


class StrideArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strides: Some[Words] = Field(
        (0, 1, 2, 3, 4, 6, 7, 8, 9, 12, 15, 16, 17, 24, 32),
        description="words between a core's accesses",
    )
    offsets: Some[Words] = Field((0, 1, 2, 3, 4, 8, 16), description="words between cores")
    cores: Cores = Field(8, description="that access L1")
    reads: int = Field(128, ge=32, le=1024, multiple_of=4, description="of each core")


def cases(arguments: StrideArguments, chip: SocSpec) -> list[Case]:
    """A case for every stride and offset."""
    cores, reads = arguments.cores, arguments.reads
    spec = chip_with(chip, {"cores": max(cores, chip.cores)})
    return [
        Case(
            {"stride": stride, "offset": offset},
            spec,
            StrideProgram(spec, cores, stride, offset, reads),
        )
        for stride in arguments.strides
        for offset in arguments.offsets
    ]


def rows(arguments: StrideArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Lost arbitrations of all cores, measured and worked out."""
    return [_row(arguments, chip.l1.banks, finding) for finding in findings]


def _row(arguments: StrideArguments, banks: int, finding: Finding) -> Row:
    cores, reads = arguments.cores, arguments.reads
    stride, offset = finding.case.point["stride"], finding.case.point["offset"]
    regions = [r for hart in finding.result["harts"] for r in hart["regions"] if r["name"] == READ]
    lost = sum(region["stalls"].get("l1_contention", 0) for region in regions)
    expected = conflicts(cores, banks, stride, offset, reads)
    return {
        "cores": cores,
        "banks": banks,
        "stride": stride,
        "offset": offset,
        "reads": cores * reads,
        "cycles": max(region["cycles"] for region in regions),
        "conflicts": lost,
        "closed_form": expected.count,
        "is_exact": expected.is_exact,
        "difference": lost - expected.count,
        "wait": lost / (cores * reads),
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Conflicts by stride and offset; an estimate stands after a tilde."""
    return [_table(rows, offsets) for offsets in batched(_values(rows, "offset"), COLUMNS)]


def _table(rows: Sequence[Row], offsets: Sequence[int]) -> Table:
    by_place = {(row["stride"], row["offset"]): row for row in rows}
    table = compact_table("stride", *(f"offset {offset}" for offset in offsets), left=0)
    table.title = (
        f"conflicts in {rows[0]['reads']:,} reads of {_who(rows)}: as worked out; "
        f"measured~estimated"
    )
    for stride in _values(rows, "stride"):
        cells = [_cell(by_place.get((stride, offset))) for offset in offsets]
        table.add_row(str(stride), *cells)
    return table


def _who(rows: Sequence[Row]) -> str:
    return f"{counted(rows[0]['cores'], 'core')} from {counted(rows[0]['banks'], 'bank')}"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if not row["is_exact"]:
        return f"{row['conflicts']:,}~{row['closed_form']:,}"
    return f"{row['conflicts']:,}" + (f" not {row['closed_form']:,}" if row["difference"] else "")


def _values(rows: Sequence[Row], name: str) -> list[int]:
    return sorted({row[name] for row in rows})


def explain(rows: Sequence[Row]) -> str:
    """What strides cost, and how far the closed form holds."""
    banks = rows[0]["banks"]
    exact = [row for row in rows if row["is_exact"]]
    rest = [row for row in rows if not row["is_exact"]]
    worst, free = max(rows, key=lambda row: row["wait"]), sum(r["conflicts"] == 0 for r in rows)
    wrong = sum(row["difference"] != 0 for row in exact)
    slow = (
        f"; the worst, stride {worst['stride']} with offset {worst['offset']}, makes a read wait "
        f"{worst['wait']:.2f} cycles on average"
    )
    parts = [
        f"Reads of {_who(rows)}. {free} of {counted(len(rows), 'pair')} of stride and offset have "
        f"no conflict at all{slow if worst['conflicts'] else ''}.",
        f"The closed form is exact for {len(exact)} of them; "
        + ("each is as worked out." if not wrong else f"{wrong} of these differ."),
    ]
    if rest:
        far = max(abs(r["difference"]) / max(r["closed_form"], 1) for r in rest)
        parts.append(f"It is an estimate for {len(rest)} more, {100 * far:.1f} % off at most.")
    same = next((r for r in rows if r["stride"] == banks and r["offset"] == 0), None)
    padded = next((r for r in rows if r["stride"] == banks and r["offset"] == 1), None)
    if same and padded:
        parts.append(
            f"Walking down a column whose rows fill all banks (stride {banks}), the cores wait "
            f"{same['wait']:.2f} cycles for each read if all begin in the same bank, and "
            f"{padded['wait']:.2f} if each begins one word after the one before."
        )
    return " ".join(parts)


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Mean waits as a map, and as lines beside the closed form."""
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_map(figure, left, rows)
    _draw_lines(right, rows)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3)


def _draw_map(figure: "Figure", axes: "Axes", rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import heat_map

    by_place = {(row["stride"], row["offset"]): row for row in rows}
    strides, offsets = _values(rows, "stride"), _values(rows, "offset")
    found = [[by_place.get((s, o)) for o in offsets] for s in strides]
    waits = [[row["wait"] if row else None for row in line] for line in found]
    labels = [[_label(row) if row else "" for row in line] for line in found]
    top = max(row["wait"] for row in rows)
    image = heat_map(axes, waits, labels, offsets, strides, (0, max(top, 1)))
    axes.set_xlabel("offset between cores (words)")
    axes.set_ylabel("stride (words)")
    axes.set_title(f"mean wait of a read: {_who(rows)}")
    figure.colorbar(image, ax=axes, label="cycles", pad=0.02)


def _label(row: Row) -> str:
    if not row["conflicts"]:
        return "0"
    return f"{row['wait']:.2f}" if row["wait"] >= 0.005 else "<0.01"


def _draw_lines(axes: "Axes", rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import BLACK, line_style, named_ticks

    strides, top = _values(rows, "stride"), max(1.0, *(row["wait"] for row in rows))
    places = {stride: place for place, stride in enumerate(strides)}
    for index, (name, line) in enumerate(_different_lines(rows)[:LINES]):
        at = [places[row["stride"]] for row in line]
        waits = [row["wait"] for row in line]
        axes.plot(at, waits, label=name, linewidth=1, **line_style(index))
        for is_exact, style in ((True, "_"), (False, "x")):
            some = [row for row in line if row["is_exact"] == is_exact]
            axes.plot(
                [places[row["stride"]] for row in some],
                [row["closed_form"] / row["reads"] for row in some],
                style,
                color=BLACK,
                markersize=9,
                markeredgewidth=1.1,
                zorder=3,
            )
    axes.plot([], [], "_", color=BLACK, markersize=9, label="worked out, exact")
    axes.plot([], [], "x", color=BLACK, markersize=9, label="worked out, estimate")
    named_ticks(axes.xaxis, strides)
    axes.set_xlabel("stride (words)")
    axes.set_ylabel("mean wait of a read (cycles)")
    axes.set_ylim(-0.03 * top, 1.03 * top)
    axes.set_title("measured beside the closed form")


def _different_lines(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by stride for each offset, those offsets together that lie on one line."""
    lines: dict[tuple[float, ...], tuple[list[int], list[Row]]] = {}
    for offset in _values(rows, "offset"):
        line = sorted((r for r in rows if r["offset"] == offset), key=lambda r: r["stride"])
        shape = tuple(round(row["wait"], 1) for row in line)
        lines.setdefault(shape, ([], line))[0].append(offset)
    return [(f"offset {_ranges(same)}", line) for same, line in lines.values()]


def _ranges(numbers: Sequence[int]) -> str:
    """Format rising numbers in short: 1, 3-5, 16."""
    first = [n for n in numbers if n - 1 not in numbers]
    last = [n for n in numbers if n + 1 not in numbers]
    ends = zip(first, last, strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ends)


STUDY = Study(
    "stride",
    "conflicts by the stride of accesses and the offset between cores, beside the closed form",
    StrideArguments,
    {"strides": (1, 2, 8, 16, 17), "offsets": (0, 1, 4), "reads": 32},
    cases,
    rows,
    tables,
    explain,
    draw,
    (9.6, 4.8),
)
