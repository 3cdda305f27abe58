"""The study of traffic: throughput and latency of L1 under synthetic loads, beside theory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.kernels import compute_regions, stalls_of
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.study import Case, Finding, Row, Study, batched, counted
from pulpsim.commands.study.traffic_limits import uniform_load
from pulpsim.commands.study.traffic_program import (
    AROUND,
    HOT,
    STRIDED,
    TRAFFIC,
    UNIFORM,
    TrafficProgram,
)
from pulpsim.commands.study.values import Cores, Rate, Some, Stride
from soc.chip.spec import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLUMNS = 4  # patterns of a table


class TrafficArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rates: Some[Rate] = Field(
        (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        description="loads that a core begins in a free cycle",
    )
    hot: Rate = Field(0.25, description="part of the loads that go to one bank, in a hot spot")
    strides: tuple[Stride, ...] = Field((1, 8), description="words between a core's loads")
    cores: Cores = Field(8, description="that access L1")
    slots: int = Field(4096, ge=64, le=16384, description="cycles of each core without conflicts")
    seed: int = Field(0, ge=0, lt=1 << 32, description="of the random loads")


def cases(arguments: TrafficArguments, chip: SocSpec) -> list[Case]:
    """A case for every pattern and rate."""
    cores = arguments.cores
    spec = chip_with(chip, {"cores": max(cores, chip.cores), "icache.kind": "ideal"})
    patterns: list[tuple[str, str, dict[str, Any]]] = [
        (UNIFORM, UNIFORM, {}),
        (f"{HOT} {100 * arguments.hot:g} %", HOT, {"hot": arguments.hot}),
        *((f"{STRIDED} {stride}", STRIDED, {"stride": stride}) for stride in arguments.strides),
    ]
    return [
        Case(
            {"pattern": name, "rate": rate},
            spec,
            TrafficProgram(
                spec, cores, pattern, rate, arguments.slots, arguments.seed, **parameters
            ),
        )
        for name, pattern, parameters in patterns
        for rate in arguments.rates
    ]


def rows(arguments: TrafficArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Throughput and latency, with what bounds them."""
    return [_row(arguments, chip.l1.banks, finding) for finding in findings]


def _row(arguments: TrafficArguments, banks: int, finding: Finding) -> Row:
    cores, rate = arguments.cores, finding.case.point["rate"]
    regions = compute_regions(finding.result, TRAFFIC)
    accesses = sum(region["l1_accesses"] for region in regions)
    lost = stalls_of(regions)["l1_contention"]
    build = finding.case.build
    assert isinstance(build, TrafficProgram)
    model = uniform_load(cores, banks, rate) if rate and build.pattern == UNIFORM else None
    cycles = max(region["cycles"] for region in regions) - AROUND
    return {
        **finding.case.point,
        "cores": cores,
        "banks": banks,
        "accesses": accesses,
        "throughput": accesses / cores / cycles,
        "latency": 1 + lost / accesses if accesses else None,
        "bound": accesses / cores / max(arguments.slots, build.busiest),
        "model_throughput": model.throughput if model else None,
        "model_latency": model.latency if model else None,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """A line for each rate: throughput and latency of each pattern."""
    return [_table(rows, names) for names in batched(_patterns(rows), COLUMNS)]


def _table(rows: Sequence[Row], names: Sequence[str]) -> Table:
    heads = [name.replace(" ", "\n", 1) for name in (*names, "uniform model")]
    table = compact_table("rate", *(c for head in heads for c in (head, "cycles")), left=0)
    table.title = "throughput (loads of a core in a cycle), and cycles of a load"
    by_place = {(row["pattern"], row["rate"]): row for row in rows}
    for rate in sorted({row["rate"] for row in rows}):
        found = [by_place.get((name, rate), {}) for name in names]
        cells = [_cell(row.get(what)) for row in found for what in ("throughput", "latency")]
        model = by_place.get((UNIFORM, rate), {})
        cells += [_cell(model.get(what)) for what in ("model_throughput", "model_latency")]
        table.add_row(f"{rate:g}", *cells)
    return table


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _who(rows: Sequence[Row]) -> str:
    return f"{counted(rows[0]['cores'], 'core')} from {counted(rows[0]['banks'], 'bank')}"


def _patterns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["pattern"] for row in rows))


def explain(rows: Sequence[Row]) -> str:
    """Where each pattern saturates, and how far theory holds."""
    parts = [f"Loads of {_who(rows)}."]
    for name in _patterns(rows):
        last = max((r for r in rows if r["pattern"] == name), key=lambda r: r["rate"])
        if last["accesses"]:
            parts.append(
                f"{name}: at rate {last['rate']:g} a core does {last['throughput']:.3f} loads in a "
                f"cycle, {100 * last['throughput'] / last['bound']:.0f} % of what the busiest bank "
                f"or the core allows, and each takes {last['latency']:.2f} cycles."
            )
    modelled = [r for r in rows if r["model_throughput"] and r["accesses"]]
    if modelled:
        worst = max(modelled, key=lambda r: abs(r["throughput"] / r["model_throughput"] - 1))
        off = worst["model_throughput"] / worst["throughput"] - 1
        parts.append(
            f"The model of uniform traffic, which forgets which bank a waiting core asks for, is "
            f"{100 * abs(off):.1f} % too {'high' if off > 0 else 'low'} at worst, at rate "
            f"{worst['rate']:g}; random loads differ from their mean, too."
        )
    return " ".join(parts)


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Throughput and latency by rate."""
    left, right = figure.subplots(1, 2)
    _draw(left, rows, "throughput")
    _draw(right, rows, "latency")
    left.set_ylabel("throughput (loads of a core in a cycle)")
    right.set_ylabel("latency (cycles from request to grant)")
    left.set_title(_who(rows))
    right.set_title("latency of a load")
    left.legend(*right.get_legend_handles_labels(), loc="upper left")


def _draw(axes: "Axes", rows: Sequence[Row], what: str) -> None:
    from pulpsim.commands.study.plot_style import BLACK, GREY, line_style

    for index, name in enumerate(_patterns(rows)):
        line = sorted(
            (r for r in rows if r["pattern"] == name and r[what] is not None),
            key=lambda r: r["rate"],
        )
        rates, style = [row["rate"] for row in line], line_style(index)
        axes.plot(rates, [row[what] for row in line], label=name, **style)
        if what == "throughput":
            bounds = [row["bound"] for row in line]
            axes.plot(rates, bounds, ":", color=style["color"], linewidth=1.2)
    axes.plot([], [], ":", color=GREY, linewidth=1.2, label="bound: the busiest bank")
    model = sorted((r for r in rows if r["model_throughput"]), key=lambda r: r["rate"])
    values = [row[f"model_{what}"] for row in model]
    axes.plot(
        [row["rate"] for row in model],
        values,
        "--",
        color=BLACK,
        linewidth=1,
        label="model of uniform traffic",
    )
    axes.set_xlabel("injection rate (loads begun in a free cycle)")
    axes.set_xlim(0, 1.02)
    is_empty = not any(row[what] for row in rows)
    axes.set_ylim(0 if what == "throughput" else 0.9, 1.1 if is_empty else None)


STUDY = Study(
    "traffic",
    "throughput and latency of L1 under uniform, hot-spot and strided loads, beside theory",
    TrafficArguments,
    {"rates": (0.0, 0.5, 1.0), "slots": 128},
    cases,
    rows,
    tables,
    explain,
    draw,
    (9.6, 4.2),
)
