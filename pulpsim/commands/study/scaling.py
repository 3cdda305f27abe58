"""The study of scaling: how much faster several cores are, and where the rest of the time goes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.kernels import KernelRun, kernels_of
from pulpsim.commands.study.losses import PARTS, cycles_of, losses
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.study import Case, Finding, Row, Study
from pulpsim.commands.study.values import Cores, Some
from soc.chip.spec import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KERNELS = (
    {"kernel": "matmul_f32", "args": {"n": 48, "k": 48, "m": 48}},
    "conv2d_fw_f32",
    "layernorm_fw_f32",
    {"kernel": "linear_fw_f32", "args": {"inputs": 640, "outputs": 128}},
)
ACROSS = 5  # pictures of kernels beside each other
HEADS = (
    "DMA",
    "instr.\nmisses",
    "con-\nflicts",
    "bar-\nriers",
    "imba-\nlance",
    "instruc-\ntions",
    "pipe-\nline",
)


class ScalingArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: Some[Any] = Field(KERNELS, description="names, or tables with kernel and args")
    cores: Some[Cores] = Field(
        (1, 2, 4, 8, 16), description="that compute; one core is always measured"
    )
    warm: bool = Field(False, description="true: measure the second pass, its instructions cached")


def cases(arguments: ScalingArguments, chip: SocSpec) -> list[Case]:
    """A case for every kernel and number of cores, all on the same chip."""
    numbers = sorted({1, *arguments.cores})
    spec = chip_with(chip, {"cores": max(chip.cores, *numbers)})
    return [
        Case(
            {"kernel": name, "cores": cores},
            spec,
            KernelRun(table.kernel, table.args, spec, cores, arguments.warm),
        )
        for name, table in kernels_of(arguments.kernels).items()
        for cores in numbers
    ]


def rows(arguments: ScalingArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Cycles from L2 to L2, speed-up, and core-cycles lost; kernels that one core can compute."""
    alone = {f.case.point["kernel"]: f for f in findings if f.case.point["cores"] == 1}
    return [
        _row(f, alone[f.case.point["kernel"]]) for f in findings if f.case.point["kernel"] in alone
    ]


def _row(finding: Finding, alone: Finding) -> Row:
    cores = finding.case.point["cores"]
    cycles, one = cycles_of(finding.result), cycles_of(alone.result)
    lost = losses(finding.result, alone.result)
    return {
        **finding.case.point,
        "cycles": cycles,
        "speed_up": one / cycles,
        "efficiency": one / cycles / cores,
        "lost": cores * cycles - one,
        **{_column(part): lost[part] for part in PARTS},
    }


def _column(part: str) -> str:
    return "lost_" + part.lower().replace(" ", "_")


def tables(rows: Sequence[Row]) -> list[Table]:
    """Speed-up, and what is missing to the number of cores: the line adds up to it."""
    table = compact_table("kernel", "cores", "cycles", "speed-\nup", *HEADS)
    table.title = "speed-up from L2 to L2, and cores lost: together they are the cores"
    last = None
    for row in rows:
        lost = [round(row[_column(part)] / row["cycles"], 2) for part in PARTS]
        parts = [f"{value or 0:.2f}" for value in lost]  # no -0.00
        name, last = ("" if row["kernel"] == last else row["kernel"]), row["kernel"]
        table.add_row(
            name, str(row["cores"]), f"{row['cycles']:,}", f"{row['speed_up']:.2f}", *parts
        )
    return [table]


def explain(rows: Sequence[Row]) -> str:
    """How well each kernel scales, and what takes most of the rest."""
    parts = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        row = max((r for r in rows if r["kernel"] == kernel), key=lambda r: r["cores"])
        if row["cores"] == 1:
            continue
        largest = sorted(PARTS, key=lambda part: -row[_column(part)])[:2]
        causes = " and ".join(
            f"{part} ({100 * row[_column(part)] / row['lost']:.0f} %)"
            for part in largest
            if row["lost"] > 0 and row[_column(part)] > 0
        )
        parts.append(
            f"{kernel} is {row['speed_up']:.2f} times as fast on {row['cores']} cores as on one"
            + (f"; of what is lost most goes to {causes}." if causes else ".")
        )
    parts.append("Parts add up to the loss exactly; a negative one is a gain over a single core.")
    return " ".join(parts)


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Speed-up of all kernels, and for each of them where the core-cycles go."""
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    lines = -(-len(kernels) // ACROSS)
    across = -(-len(kernels) // lines)
    figure.set_size_inches(max(STUDY.size[0], 2.6 + 1.8 * across), STUDY.size[1] * lines**0.8)
    grid = figure.add_gridspec(lines, 1 + across, width_ratios=(1.5, *[1] * across))
    _draw_speed_up(figure.add_subplot(grid[:, 0]), kernels, rows)
    places = [grid[at // across, 1 + at % across] for at in range(len(kernels))]
    others = [figure.add_subplot(place) for place in places]
    for index, (axes, kernel) in enumerate(zip(others, kernels, strict=True)):
        _draw_parts(axes, [row for row in rows if row["kernel"] == kernel])
        axes.set_title(kernel, fontsize=8.5)
        if index:
            axes.sharey(others[0])
        if index % across:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("core-cycles (%)")
    handles, names = others[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower right", ncols=len(names), columnspacing=1)


def _draw_speed_up(axes: "Axes", kernels: Sequence[str], rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import GREY, line_style

    cores = sorted({row["cores"] for row in rows})
    axes.plot(cores, cores, "--", color=GREY, linewidth=1, label="ideal")
    for index, kernel in enumerate(kernels):
        line = [row for row in rows if row["kernel"] == kernel]
        at, values = [row["cores"] for row in line], [row["speed_up"] for row in line]
        axes.plot(at, values, label=kernel, **line_style(index))
    axes.set_xticks(cores)
    axes.set_xlabel("cores")
    axes.set_ylabel("speed-up")
    axes.set_ylim(bottom=0)
    axes.set_title("speed-up, L2 to L2", fontsize=8.5)
    axes.legend(loc="upper left", fontsize=7.5)


def _draw_parts(axes: "Axes", rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import PART_COLOURS

    at = range(len(rows))
    useful = [100 * row["efficiency"] for row in rows]
    axes.bar(at, useful, color="#d9d9d9", edgecolor="white", linewidth=0.4, label="useful")
    above, below = useful, [0.0] * len(rows)
    for part, (colour, hatch) in zip(PARTS, PART_COLOURS, strict=True):
        values = [100 * row[_column(part)] / row["cores"] / row["cycles"] for row in rows]
        bottoms = [a if v >= 0 else b for v, a, b in zip(values, above, below, strict=True)]
        axes.bar(
            at,
            values,
            bottom=bottoms,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
            label=part,
        )
        above = [a + max(v, 0) for a, v in zip(above, values, strict=True)]
        below = [b + min(v, 0) for b, v in zip(below, values, strict=True)]
    axes.axhline(0, color="#000000", linewidth=0.8)
    axes.set_xticks(at, [str(row["cores"]) for row in rows])
    axes.set_xlabel("cores")
    axes.grid(axis="x", visible=False)


STUDY = Study(
    "scaling",
    "speed-up over cores, and the loss split into parts that add up to it",
    ScalingArguments,
    {"kernels": ("matmul_f32", "linear_fw_f32"), "cores": (1, 8)},
    cases,
    rows,
    tables,
    explain,
    draw,
    (10.0, 4.2),
)
