"""The study of banking: kernels on L1s of more and fewer banks, with more and fewer cores."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.kernels import (
    KernelRun,
    compute_regions,
    kernels_of,
    stalls_of,
)
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.study import Case, Finding, Row, Study, batched, counted
from pulpsim.commands.study.values import Banks, Cores, Some
from soc.chip.spec import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLUMNS = 5  # of a table
KERNELS = ("matmul_f32", "conv2d_fw_f32", "layernorm_fw_f32")


class BankingArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: Some[Any] = Field(KERNELS, description="names, or tables with kernel and args")
    banks: Some[Banks] = Field((4, 8, 16, 32, 64), description="of L1")
    cores: Some[Cores] = Field((1, 2, 4, 8, 16), description="of the cluster")


def cases(arguments: BankingArguments, chip: SocSpec) -> list[Case]:
    """A case for every kernel, number of cores and number of banks."""
    kernels = kernels_of(arguments.kernels)
    chips = {
        (cores, banks): chip_with(chip, {"cores": cores, "l1.banks": banks})
        for cores, banks in product(arguments.cores, arguments.banks)
    }
    return [
        Case(
            {"kernel": name, "cores": cores, "banks": banks},
            spec,
            KernelRun(table.kernel, table.args, spec, cores, True),
        )
        for name, table in kernels.items()
        for (cores, banks), spec in chips.items()
    ]


def rows(arguments: BankingArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Cycles of the computation, its caches warm, and the share of conflicts in them."""
    return [_row(finding) for finding in findings]


def _row(finding: Finding) -> Row:
    regions = compute_regions(finding.result)
    spent = sum(region["cycles"] for region in regions)
    lost = stalls_of(regions)["l1_contention"]
    accesses = sum(region["l1_accesses"] for region in regions)
    return {
        **finding.case.point,
        "cycles": max(region["cycles"] for region in regions),
        "conflict_cycles": lost,
        "conflict_share": lost / spent,
        "accesses": accesses,
        "wait": lost / accesses if accesses else 0.0,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Cycles and conflict share, a column for each number of banks."""
    return [_table(rows, banks) for banks in batched(_values(rows, "banks"), COLUMNS)]


def _table(rows: Sequence[Row], banks: Sequence[int]) -> Table:
    by_place = {(row["kernel"], row["cores"], row["banks"]): row for row in rows}
    table = compact_table("kernel", "cores", *(f"{b} banks" for b in banks))
    table.title = "cycles of the computation, and % of the cores' cycles lost in conflicts"
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        for index, cores in enumerate(_values(rows, "cores")):
            found = [by_place.get((kernel, cores, b)) for b in banks]
            cells = [
                f"{row['cycles']:,} {100 * row['conflict_share']:4.1f}" if row else ""
                for row in found
            ]
            table.add_row(kernel if index == 0 else "", str(cores), *cells)
    return table


def _values(rows: Sequence[Row], name: str) -> list[int]:
    return sorted({row[name] for row in rows})


def explain(rows: Sequence[Row]) -> str:
    """Where conflicts are worst, what banks buy, and where more do not help."""
    worst = max(rows, key=lambda row: row["conflict_share"])
    if not worst["conflict_cycles"]:
        return "No core ever waits for a bank."
    parts = [
        f"Conflicts cost most in {worst['kernel']} on {worst['cores']} cores and "
        f"{worst['banks']} banks: {100 * worst['conflict_share']:.1f} % of the cores' cycles."
    ]
    factors: dict[float, list[float]] = {}
    for row in rows:
        if row["cores"] > 1:
            factors.setdefault(row["banks"] / row["cores"], []).append(row["conflict_share"])
    if factors:
        means = ", ".join(
            f"{100 * sum(shares) / len(shares):.1f} % with {factor:g}"
            for factor, shares in sorted(factors.items())
        )
        parts.append(f"By banks per core, the mean over kernels with several cores is {means}.")
    most = max(row["cores"] for row in rows)
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        line = sorted(
            (r for r in rows if r["kernel"] == kernel and r["cores"] == most),
            key=lambda r: r["banks"],
        )
        if len(line) > 1:
            best = min(r["cycles"] for r in line)
            far = [index for index, r in enumerate(line) if r["cycles"] > 1.02 * best]
            enough = line[min(far[-1] + 1, len(line) - 1) if far else 0]
            parts.append(
                f"{kernel} on {most} cores takes {line[0]['cycles'] / best:.2f} times as many "
                f"cycles with {line[0]['banks']} banks as at its best, and {enough['banks']} banks "
                f"are enough to stay within 2 % of that."
            )
    return " ".join(parts)


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Maps of the conflict share, and cycles relative to those with the most banks."""
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    figure.set_figwidth(max(STUDY.size[0], 3.0 * len(kernels)))
    heights = {"height_ratios": (1, 1.1)}
    axes = figure.subplots(2, len(kernels), squeeze=False, sharey="row", gridspec_kw=heights)
    images = []
    for column, kernel in enumerate(kernels):
        images.append(_draw_map(axes[0][column], kernel, rows))
        _draw_cycles(axes[1][column], kernel, rows)
    axes[0][0].set_ylabel("cores")
    axes[1][0].set_ylabel(f"cycles, relative to {max(_values(rows, 'banks'))} banks")
    figure.colorbar(images[0], ax=list(axes[0]), label="lost in conflicts (%)", pad=0.01)
    handles, names = axes[1][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))


def _draw_map(axes: "Axes", kernel: str, rows: Sequence[Row]) -> Any:
    from pulpsim.commands.study.plot_style import heat_map

    shares = {(r["kernel"], r["cores"], r["banks"]): 100 * r["conflict_share"] for r in rows}
    banks, cores = _values(rows, "banks"), _values(rows, "cores")
    values = [[shares.get((kernel, c, b)) for b in banks] for c in cores]
    labels = [["" if v is None else f"{v:.1f}" for v in line] for line in values]
    axes.set_title(kernel)
    axes.set_xlabel("banks")
    return heat_map(axes, values, labels, banks, cores, (0, max(1, *shares.values())))


def _draw_cycles(axes: "Axes", kernel: str, rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import line_style, powers_of_two

    for index, cores in enumerate(_values(rows, "cores")):
        some = [row for row in rows if (row["kernel"], row["cores"]) == (kernel, cores)]
        line = sorted(some, key=lambda row: row["banks"])
        at = [row["banks"] for row in line]
        relative = [row["cycles"] / line[-1]["cycles"] for row in line]
        name = counted(cores, "core")
        axes.plot(at, relative, label=name, **line_style(index))
    powers_of_two(axes, _values(rows, "banks"))
    axes.set_xlabel("banks")


STUDY = Study(
    "banking",
    "cycles and conflicts of kernels by the number of banks and of cores",
    BankingArguments,
    {"kernels": ("matmul_f32",), "banks": (4, 16), "cores": (1, 8)},
    cases,
    rows,
    tables,
    explain,
    draw,
    (9.6, 5.6),
)
