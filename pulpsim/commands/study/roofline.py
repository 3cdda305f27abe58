"""The study of rooflines: kernels against what the FPUs, L1, L2 and the DMA allow.

Against L1 stands the computation, its caches warm; against the DMA the whole kernel from L2 to L2,
its caches cold.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from pulpsim.commands.study.kernels import KernelRun, KernelTable, compute_regions, kernels_of
from pulpsim.commands.study.losses import cycles_of
from pulpsim.commands.study.roofline_program import WORD
from pulpsim.commands.study.roofs import (
    BEAT,
    DMA,
    FLOPS,
    FPU,
    HALVES,
    L1,
    L2,
    Ceiling,
    ceilings,
    issue_roof,
    lanes_of,
)
from pulpsim.commands.study.study import Case, Finding, Row, Study
from pulpsim.commands.study.values import Some
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from soc.config.validation import Layer, validated
from trainlib.registry import family_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = (
    {"kernel": "matmul_f32", "args": {"n": 48, "k": 48, "m": 48}},
    {"kernel": "matmul_bf16", "args": {"n": 48, "k": 48, "m": 48}},
    "conv2d_fw_f32",
    "conv2d_wg_f32",
    "dwconv2d_fw_f32",
    {"kernel": "linear_fw_f32", "args": {"inputs": 640, "outputs": 128}},
    "linear_wg_f32",
)


class RooflineArguments(BaseModel):
    """Arguments of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: Some[Any] = Field(KERNELS, description="names, or tables with kernel and args")


def cases(arguments: RooflineArguments, chip: SocSpec) -> list[Case]:
    """A case for every ceiling, and two for every kernel."""
    found = [
        Case({"what": name, "caches": ""}, chip, ceiling.program)
        for name, ceiling in ceilings(chip).items()
    ]
    for name, table in kernels_of(arguments.kernels).items():
        _check_macs(table)
        found += [
            Case(
                {"what": name, "caches": caches},
                chip,
                KernelRun(table.kernel, table.args, chip, chip.cores, caches == "warm"),
            )
            for caches in ("warm", "cold")
        ]
    return found


def _check_macs(table: KernelTable) -> None:
    family = family_of(table.kernel)
    point = validated(family.arguments, [Layer(f"kernels: {table.kernel}", table.args)])
    if not family.macs(point):
        raise ConfigError(
            [f"kernels: {table.kernel}: it has no multiply-adds, by which a roofline goes"]
        )


def rows(arguments: RooflineArguments, chip: SocSpec, findings: Sequence[Finding]) -> list[Row]:
    """Ceilings, then kernels: what each computes for a byte, and in a cycle."""
    every = ceilings(chip)
    by_place = {(f.case.point["what"], f.case.point["caches"]): f.result for f in findings}
    found = []
    for name, ceiling in every.items():
        if (name, "") in by_place:
            found.append(_ceiling_row(name, ceiling, by_place[name, ""]))
    for name in dict.fromkeys(what for what, caches in by_place if caches):
        if (name, "warm") in by_place:
            found.append(_l1_row(name, chip, by_place[name, "warm"]))
        if (name, "cold") in by_place:
            found.append(_dma_row(name, chip, by_place[name, "cold"]))
    return found


def _ceiling_row(name: str, ceiling: Ceiling, result: dict[str, Any]) -> Row:
    cycles = max(region["cycles"] for region in compute_regions(result, ceiling.region))
    return {
        "what": name,
        "against": "",
        "unit": ceiling.unit,
        "nominal": ceiling.nominal,
        "measured": ceiling.amount / cycles,
    }


def _l1_row(name: str, chip: SocSpec, result: dict[str, Any]) -> Row:
    regions = compute_regions(result)
    flops = FLOPS * result["program"]["macs"]
    moved = WORD * sum(region["l1_accesses"] for region in regions)
    lanes = lanes_of(name)
    roofs = {
        **_fpu_roof(chip, lanes),
        L1: WORD * min(chip.cores, chip.l1.banks) * flops / moved,
        "issue": issue_roof(chip.cores, flops / moved, lanes),
    }
    return _kernel_row(name, L1, flops, moved, max(r["cycles"] for r in regions), roofs)


def _dma_row(name: str, chip: SocSpec, result: dict[str, Any]) -> Row:
    flops, moved = FLOPS * result["program"]["macs"], BEAT * max(result["dma"]["beats"])
    lanes = lanes_of(name)
    roofs = {**_fpu_roof(chip, lanes), DMA: BEAT * flops / moved}
    return _kernel_row(name, DMA, flops, moved, cycles_of(result), roofs)


def _fpu_roof(chip: SocSpec, lanes: int) -> dict[str, float]:
    return {HALVES if lanes > 1 else FPU: FLOPS * lanes * chip.cores}


def _kernel_row(
    name: str, against: str, flops: int, moved: int, cycles: int, roofs: dict[str, float]
) -> Row:
    bound = min(roofs, key=roofs.__getitem__)
    return {
        "what": name,
        "against": against,
        "flops": flops,
        "bytes": moved,
        "cycles": cycles,
        "intensity": flops / moved,
        "performance": flops / cycles,
        "roof": roofs[bound],
        "bound_by": bound,
        "share": flops / cycles / roofs[bound],
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Ceilings, and kernels below them."""
    first = compact_table("ceiling", "", "nominal", "measured", left=2)
    first.title = "ceilings, all cores together"
    heads = "flops bytes cycles flops/byte flops/cycle roof by %".split()
    second = compact_table("kernel", "against", *heads, left=2)
    second.title = "kernels: the computation against L1, from L2 to L2 against the DMA"
    for row in rows:
        if not row["against"]:
            nominal = "" if row["nominal"] is None else f"{row['nominal']:.2f}"
            unit = f"{row['unit']} in a cycle"
            first.add_row(row["what"], unit, nominal, f"{row['measured']:.2f}")
            continue
        second.add_row(
            row["what"],
            row["against"],
            *(f"{row[name]:,}" for name in ("flops", "bytes", "cycles")),
            *(f"{row[name]:.2f}" for name in ("intensity", "performance", "roof")),
            row["bound_by"],
            f"{100 * row['share']:.0f}",
        )
    return [first, second]


def explain(rows: Sequence[Row]) -> str:
    """How near the nearest and the farthest kernel come to their ceilings."""
    parts = []
    for against, what in (
        (L1, "In the computation, its caches warm"),
        (DMA, "On the whole way from L2 to L2"),
    ):
        some = [row for row in rows if row["against"] == against]
        if not some:
            continue
        best, worst = (f(some, key=lambda r: r["share"]) for f in (max, min))
        parts.append(f"{what}, {best['what']} comes to {_reached(best)}")
        parts[-1] += f", {worst['what']} to {_reached(worst)}." if len(some) > 1 else "."
    loads = next((row for row in rows if row["what"] == L2), None)
    copies = next((row for row in rows if row["what"] == DMA), None)
    if loads and copies:
        times = copies["measured"] / loads["measured"]
        parts.append(
            f"The DMA brings {copies['measured']:.2f} bytes in a cycle, {times:.1f} times what all "
            f"cores get that load from L2 themselves, {loads['measured']:.2f}."
        )
    return " ".join(parts)


def _reached(row: Row) -> str:
    roof = "one instruction in a cycle" if row["bound_by"] == "issue" else f"the {row['bound_by']}"
    return f"{100 * row['share']:.0f} % of what {roof} allows"


def draw(figure: "Figure", rows: Sequence[Row]) -> None:
    """Two rooflines: against L1, and against DMA and L2."""
    from pulpsim.commands.study.roofline_picture import draw_rooflines

    draw_rooflines(figure, rows)


STUDY = Study(
    "roofline",
    "kernels against the ceilings of FPU, L1, L2 and DMA",
    RooflineArguments,
    {"kernels": ("matmul_f32", "linear_fw_f32")},
    cases,
    rows,
    tables,
    explain,
    draw,
    (9.6, 4.6),
)
