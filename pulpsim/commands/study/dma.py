"""The study of the DMA: its bandwidth alone, and what it and the cores cost each other."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.dma_program import BOTH, COPY, DIRECTIONS, NONE, TO_L1, DmaProgram
from pulpsim.commands.study.kernels import compute_regions
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.study import Case, Finding, Row, Study, batched
from pulpsim.commands.study.traffic_program import TRAFFIC
from pulpsim.commands.study.values import Burst, PositiveRate, Size, Some
from soc.chip.spec import SocSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEAT = 8  # bytes; one of each direction in a cycle at most
COLUMNS = 8  # of a table
SHARED = 1024  # bytes of a copy while cores load


class DmaArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sizes: Some[Size] = Field(
        (64, 128, 256, 512, 1024, 2048, 4096, 8192), description="bytes of a copy"
    )
    bursts: Some[Burst] = Field((16, 64, 256, 1024), description="bytes of the DMA's bursts")
    rates: Some[PositiveRate] = Field(
        (0.1, 0.25, 0.5, 0.75, 1.0), description="loads that a core begins in a free cycle"
    )
    cores: int = Field(7, ge=1, le=15, description="that load, beside the one that copies")
    slots: int = Field(8192, ge=256, le=16384, description="cycles of each without conflicts")
    total: int = Field(32768, ge=1024, le=1 << 20, description="bytes that are copied, at least")
    seed: int = Field(0, ge=0, lt=1 << 32, description="of the random loads")


def cases(arguments: DmaArguments, chip: SocSpec) -> list[Case]:
    """Copies alone by direction, burst and size; copies and loads by direction and rate."""
    ideal = chip_with(chip, {"cores": max(arguments.cores + 1, chip.cores), "icache.kind": "ideal"})
    chips = {burst: chip_with(ideal, {"dma.burst": burst}) for burst in arguments.bursts}
    alone = [
        Case(
            {"direction": direction, "burst": burst, "size": size, "rate": 0.0},
            chips[burst],
            DmaProgram(chips[burst], direction, size, max(arguments.total // size // 2, 2)),
        )
        for direction, burst, size in product(DIRECTIONS, arguments.bursts, arguments.sizes)
    ]
    cores, slots, seed = arguments.cores, arguments.slots, arguments.seed
    shared = [
        Case(
            {"direction": direction, "burst": ideal.dma.burst, "size": SHARED, "rate": rate},
            ideal,
            DmaProgram(ideal, direction, SHARED, 1, cores, rate, slots, seed),
        )
        for direction, rate in product((NONE, *DIRECTIONS), arguments.rates)
    ]
    return alone + shared


def rows(arguments: DmaArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Bandwidths; and how much longer the loads take than without copies."""
    without = {
        f.case.point["rate"]: _load_cycles(f) for f in findings if f.case.point["direction"] == NONE
    }
    return [
        _row(finding, without.get(finding.case.point["rate"]))
        for finding in findings
        if finding.case.point["direction"] != NONE
    ]


def _load_cycles(finding: Finding) -> float:
    """Return the cycles of the cores that load, on average."""
    cycles = [region["cycles"] for region in compute_regions(finding.result, TRAFFIC)]
    return sum(cycles) / len(cycles)


def _row(finding: Finding, without: float | None) -> Row:
    dma = finding.result["dma"]
    cycles = compute_regions(finding.result, COPY)[0]["cycles"]
    asked = dma["l1_accesses"] + dma["l1_conflicts"]
    return {
        **finding.case.point,
        "bytes": BEAT * sum(dma["beats"]),
        "cycles": cycles,
        "bandwidth": BEAT * sum(dma["beats"]) / cycles,
        "dma_refused": dma["l1_conflicts"] / asked,
        "slow_down": _load_cycles(finding) / without if without else None,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Bandwidth alone by burst and size; then both at once."""
    alone = [row for row in rows if not row["rate"]]
    sizes = sorted({row["size"] for row in alone})
    found = [_alone(alone, some) for some in batched(sizes, COLUMNS)]
    return [*found, _shared([row for row in rows if row["slow_down"]])]


def _alone(rows: Sequence[Row], sizes: Sequence[int]) -> Table:
    table = compact_table("direction", "burst", *(f"{size:,} B" for size in sizes))
    table.title = "bytes in a cycle, copies alone, by the bytes of a copy"
    by_place = {(row["direction"], row["burst"], row["size"]): row["bandwidth"] for row in rows}
    for direction in DIRECTIONS:
        for burst in sorted({row["burst"] for row in rows}):
            found = [by_place.get((direction, burst, size)) for size in sizes]
            cells = ["" if value is None else f"{value:.2f}" for value in found]
            table.add_row(direction, f"{burst:,}", *cells)
    return table


def _shared(rows: Sequence[Row]) -> Table:
    table = compact_table("direction", "rate", "bytes/cycle", "DMA refused %", "cores slower %")
    table.title = f"copies of {SHARED:,} bytes, while cores load at a rate"
    for row in rows:
        table.add_row(
            row["direction"],
            f"{row['rate']:g}",
            f"{row['bandwidth']:.2f}",
            f"{100 * row['dma_refused']:.1f}",
            f"{100 * (row['slow_down'] - 1):.1f}",
        )
    return table


def explain(rows: Sequence[Row]) -> str:
    """How fast copies are, which size is enough, and who suffers from whom."""
    parts = []
    alone = [row for row in rows if not row["rate"]]
    for direction in (TO_L1, BOTH):
        some = [row for row in alone if row["direction"] == direction]
        if not some:
            continue
        best = max(some, key=lambda row: row["bandwidth"])
        limit = BEAT * len(set(DIRECTIONS[direction]))
        same = [row for row in some if row["burst"] == best["burst"]]
        sizes = sorted(row["size"] for row in same)
        enough = min(row["size"] for row in same if row["bandwidth"] >= 0.9 * best["bandwidth"])
        parts.append(
            f"{direction}: {best['bandwidth']:.2f} of {limit} bytes in a cycle at best, with "
            f"bursts of {best['burst']:,} bytes and copies of {best['size']:,}, two under way; "
            + _enough(enough, best["size"], sizes)
        )
    shared = [row for row in rows if row["slow_down"]]
    if shared:
        worst = max(shared, key=lambda row: row["slow_down"])
        least = min(shared, key=lambda row: row["bandwidth"])
        parts.append(
            f"The cores lose most, {100 * (worst['slow_down'] - 1):.1f} %, beside copies "
            f"{_way(worst)} when they load at rate {worst['rate']:g}; the DMA is slowest, "
            f"{least['bandwidth']:.2f} bytes in a cycle, {_way(least)} at rate {least['rate']:g}, "
            f"when {100 * least['dma_refused']:.0f} % of its requests to L1 are refused."
        )
    return " ".join(parts)


def _enough(size: int, best: int, sizes: Sequence[int]) -> str:
    """From which size on copies reach nearly as much, as far as the sizes tried can tell."""
    if best == size == sizes[-1]:
        less = f"; copies of {sizes[-2]:,} bytes reach less than 90 % of that" if sizes[1:] else ""
        return f"larger ones, which were not tried, may be faster{less}."
    if size == sizes[0]:
        return f"copies of {size:,} bytes, the smallest tried, reach 90 % of that."
    return f"copies of {size:,} bytes reach 90 % of that."


def _way(row: Row) -> str:
    return row["direction"] if row["direction"] == BOTH else f"from {row['direction']}"


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Bandwidth by size, and bandwidth against slow-down."""
    left, right = figure.subplots(1, 2)
    _draw_alone(left, [row for row in rows if not row["rate"]])
    _draw_shared(right, [row for row in rows if row["slow_down"]])


def _draw_alone(axes: "Axes", rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import BLACK, GREY, line_style, powers_of_two

    for index, burst in enumerate(sorted({row["burst"] for row in rows})):
        for direction, dashes in ((TO_L1, "-"), (BOTH, "--")):
            line = sorted(
                (r for r in rows if (r["burst"], r["direction"]) == (burst, direction)),
                key=lambda r: r["size"],
            )
            axes.plot(
                [row["size"] for row in line],
                [row["bandwidth"] for row in line],
                linestyle=dashes,
                label=f"bursts of {burst:,} B" if dashes == "-" else None,
                **line_style(index),
            )
    for number, name in ((1, "one way"), (2, "both ways")):
        axes.axhline(number * BEAT, linestyle=":", color=BLACK, linewidth=1)
        axes.annotate(
            f"limit {name}",
            (0.02, number * BEAT),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=7.5,
        )
    axes.plot([], [], "-", color=GREY, label=TO_L1)
    axes.plot([], [], "--", color=GREY, label=BOTH)
    powers_of_two(axes, sorted({row["size"] for row in rows}))
    axes.set_ylim(0, 2 * BEAT + 1.5)
    axes.set_xlabel("bytes of a copy")
    axes.set_ylabel("bandwidth (bytes in a cycle)")
    axes.set_title("copies alone, two under way")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.93))


def _draw_shared(axes: "Axes", rows: Sequence[Row]) -> None:
    from pulpsim.commands.study.plot_style import line_style

    for index, direction in enumerate(DIRECTIONS):
        line = sorted((r for r in rows if r["direction"] == direction), key=lambda r: r["rate"])
        at = [row["bandwidth"] for row in line]
        slower = [100 * (row["slow_down"] - 1) for row in line]
        axes.plot(at, slower, label=direction, **line_style(index))
        for x, y, row in zip(at, slower, line, strict=True):
            if direction != TO_L1:
                axes.annotate(
                    f"{row['rate']:g}",
                    (x, y),
                    xytext=(5, 3),
                    textcoords="offset points",
                    fontsize=7.5,
                )
    axes.set_xlim(0, 1.1 * max(row["bandwidth"] for row in rows))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("bandwidth of the DMA (bytes in a cycle)")
    axes.set_ylabel("cores slower than without DMA (%)")
    axes.set_title("copies and loads at once")
    axes.legend(loc="upper left", title="numbers: rate of loads", title_fontsize=8)


STUDY = Study(
    "dma",
    "bandwidth of the DMA by burst and size of copies, and what it and the cores cost each other",
    DmaArguments,
    {"sizes": (64, 1024), "bursts": (16, 256), "rates": (0.5, 1.0), "slots": 512, "total": 4096},
    cases,
    rows,
    tables,
    explain,
    draw,
    (9.6, 4.4),
)
