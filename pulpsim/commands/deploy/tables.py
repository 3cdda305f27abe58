"""Reports of a deployment: tables for a person, JSON for a program."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from pulpsim.cli.terminal import compact_table, one_line, print_whole
from trainlib.calls.call import point_of
from trainlib.deploy import Deployed, Trained
from trainlib.deploy.running import LayerStep
from trainlib.primitive.operator import Family

SCHEMA = "pulpsim.deploy/1"
LONGEST = 40  # characters of a layer's name
SHOWN = 20  # losses; the JSON has all
KERNELS = 2  # of a layer's step; the JSON has all
STEPS = ("forward", "backward", "update")


def memory_of(deployed: Deployed) -> dict[str, Any]:
    """Bytes of L2, and copies between it and the HyperRAM."""
    memory = deployed.memory
    return {
        "l2": deployed.chip.l2.size,
        "values": memory.peak,
        "static": memory.static,
        "live": memory.live,
        "code": memory.code,
        "tables": memory.tables,
        "blocks": [
            {
                "name": block.name,
                "address": block.address,
                "bytes": block.size,
                "first": block.first,
                "last": block.last,
            }
            for block in memory.blocks.values()
        ],
        "copies": [asdict(copy) for copy in deployed.built().copies],
    }


def show_plan(deployed: Deployed, console: Console) -> None:
    """What the step takes, before it runs."""
    memory, built = deployed.memory, deployed.built()
    functions = len({c.call.kernel + repr(c.call.arguments) for c in built.calls})
    console.print(
        f"{len(built.schedule.nodes)} operators, {len(built.calls)} calls of {functions} "
        f"functions, {built.macs:,} multiply-adds a step",
        soft_wrap=True,
    )
    table = compact_table("L2", "bytes")
    left = deployed.chip.l2.size - memory.peak - memory.code - memory.tables
    for name, size in (
        ("parameters and what else stays", memory.static),
        ("temporary values, at most", memory.peak - memory.static),
        ("code", memory.code),
        ("tables and records", memory.tables),
        ("private banks and free", left),
    ):
        table.add_row(name, f"{size:,}")
    console.print(table)
    if built.copies:
        copied = sum(copy.size for copy in built.copies)
        values = len({copy.name for copy in built.copies})
        console.print(
            f"{values} values lie in the HyperRAM between two uses: {len(built.copies)} copies of "
            f"{copied:,} bytes a step",
            soft_wrap=True,
        )


def show_run(deployed: Deployed, trained: Trained, name: str, console: Console) -> None:
    """Cycles by layer, and losses."""
    report = trained.report
    columns = "layer", "step", "kernels", "cycles", "%", "MAC/cycle", "IPC", "stalls %", "bytes"
    table = compact_table(*columns, left=3)
    for column in (table.columns[0], table.columns[2]):
        column.no_wrap = False  # where the terminal is narrow: numbers are whole
    moved = bytes_by_layer(deployed)
    macs, kernels = macs_by_layer(deployed), kernels_by_layer(deployed)
    batches = len(report.batches)
    for layer in report.layers:
        share = 100 * layer.cycles / report.cycles
        done = macs.get((layer.layer, layer.step), 0) * batches / deployed.accumulate
        rate = f"{done / layer.cycles:.2f}" if done else ""
        cores = deployed.cores or deployed.chip.cores
        waited = 100 * sum(layer.stalls.values()) / (cores * layer.cycles)
        numbers = f"{layer.cycles / batches:,.0f}", f"{share:.1f}", rate
        busy = f"{layer.instructions / layer.cycles:.2f}", f"{waited:.0f}"
        called = _first(kernels.get((layer.layer, layer.step), ()))
        size = f"{moved.get((layer.layer, layer.step), 0) / deployed.accumulate:,.0f}"
        table.add_row(short_name(layer.layer, LONGEST), layer.step, called, *numbers, *busy, size)
    print_whole(console, table)
    console.print(
        f"{name} on {deployed.chip.name}: {batches} batches, {report.cycles:,} cycles, "
        f"{report.cycles / batches:,.0f} each",
        soft_wrap=True,
    )
    for number, loss in enumerate(trained.losses[:SHOWN], 1):
        console.print(f"batch {number}: loss {loss:.6g}")
    if len(trained.losses) > SHOWN:
        last = trained.losses[-1]
        console.print(f"... batch {len(trained.losses)}: loss {last:.6g}")


def short_name(layer: str, most: int) -> str:
    """A layer's name, or the end of one that is longer than so many characters."""
    name = one_line(layer)
    return name if len(name) <= most else f"...{name[3 - most :]}"


def _first(kernels: Sequence[str]) -> str:
    """Name the first kernels of a layer's step, and count the others."""
    shown = ", ".join(kernels[:KERNELS])
    return f"{shown}, +{len(kernels) - KERNELS}" if len(kernels) > KERNELS else shown


def kernels_by_layer(deployed: Deployed) -> dict[tuple[str, str], list[str]]:
    """Kernels that a step calls, by layer and direction: each once, in the order of first calls."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for emitted in deployed.built().calls:
        layer, _, step = emitted.call.region.rpartition(" ")
        found.setdefault((layer, step), {})[emitted.call.kernel] = None
    return {key: list(kernels) for key, kernels in found.items()}


def macs_by_layer(deployed: Deployed) -> dict[tuple[str, str], int]:
    """Multiply-adds of a step, by layer and direction."""
    return _sums(deployed, lambda family, point: family.macs(point))


def bytes_by_layer(deployed: Deployed) -> dict[tuple[str, str], int]:
    """Bytes of operands of a step's kernels, read and written, by layer and direction."""

    def size(family: Family, point: Any) -> int:
        tensors = [t for t in family.tensors(point).values() if t.role != "scratch"]
        return sum(t.size * (2 if t.role == "inout" else 1) for t in tensors)

    return _sums(deployed, size)


def _sums(deployed: Deployed, of: Callable[[Family, Any], int]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    schedule, calls = deployed.schedule, iter(deployed.built().calls)
    for section in schedule.sections:
        for _ in section.nodes:
            call = next(calls).call
            layer, _, step = call.region.rpartition(" ")
            family, point = point_of(call, deployed.cores or deployed.chip.cores)
            found[layer, step] = found.get((layer, step), 0) + section.times * of(family, point)
    return found


def json_of(
    deployed: Deployed, name: str, trained: Trained | None, verified: dict[str, Any] | None
) -> dict[str, Any]:
    """All of it, as the schema pulpsim.deploy/1 has it."""
    built, kernels = deployed.built(), kernels_by_layer(deployed)
    moved = bytes_by_layer(deployed)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "network": name,
        "chip": deployed.chip.name,
        "operators": len(built.schedule.nodes),
        "calls": len(built.calls),
        "macs": built.macs,
        "memory": memory_of(deployed),
    }
    if trained:
        result["losses"] = trained.losses
        result["cycles"] = trained.report.cycles
        result["batches"] = [
            {
                "cycles": batch.cycles,
                "layers": [_layer(layer, kernels, moved) for layer in batch.layers],
            }
            for batch in trained.report.batches
        ]
    if verified is not None:
        result["verify"] = verified
    return result


def _layer(
    layer: LayerStep,
    kernels: dict[tuple[str, str], list[str]],
    moved: dict[tuple[str, str], int],
) -> dict[str, Any]:
    return {
        "layer": layer.layer,
        "step": layer.step,
        "kernels": kernels.get((layer.layer, layer.step), []),
        "bytes": moved.get((layer.layer, layer.step), 0),
        "cycles": layer.cycles,
        "instructions": layer.instructions,
        "stalls": dict(layer.stalls),
    }
