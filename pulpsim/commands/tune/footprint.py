"""pulpsim footprint: bytes of each layer's tensors in L2 and buffers in L1, and of a network's."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from autotuner.footprint import Footprint
from firmware.builder import KernelError
from pulpsim.cli.output import STANDARD_OUTPUT, check_writable, write
from pulpsim.cli.terminal import compact_table, page_console, report_console, spinner
from pulpsim.commands.tune.config import load_layers, named
from soc.config.toml import ConfigError, Mistakes
from trainlib.launch import program

SCHEMA = "pulpsim.footprint/1"
Counted = Mapping[str, tuple[Footprint, int]]
"""Footprints by layer and step, and how often a layer occurs."""


def footprint(
    file: Path,
    chip: str | None,
    settings: Sequence[str] = (),
    report: Path | None = None,
    element: str | None = None,
) -> None:
    """Show the layers of a config as the launcher lays them out.

    settings    of the chip: "l1.banks=32"
    element     type of all layers that have it: "f32", "f16", "bf16"; None: that of each kernel
    report      a file for the same as JSON

    raises    ConfigError
    """
    if report and report != STANDARD_OUTPUT:
        check_writable("--json", report)
    found = footprints(file, chip, settings, element)
    if report:
        text = json.dumps(_to_json(found), indent=1) + "\n"
        if report == STANDARD_OUTPUT:
            sys.stdout.write(text)
            return
        write("--json", report, text.encode())
    parts: list[RenderableType] = [layers_table(found)]
    if len(found) > 1:
        parts += ["", steps_table(found), "", tensors_table(found)]
    page_console().print(Group(*parts))


def footprints(
    file: Path, chip: str | None, settings: Sequence[str] = (), element: str | None = None
) -> Counted:
    """The footprints of a config's layers.

    raises    ConfigError with every layer that cannot be built
    """
    spec, entries = load_layers(file, chip, settings, element)
    found, mistakes = dict[str, tuple[Footprint, int]](), Mistakes()
    with spinner(report_console(), "") as status:
        for number, (name, entry) in enumerate(entries.items(), start=1):
            if status:
                status.update(f"{name}, {number} of {len(entries)} ...")
            with mistakes.collected():
                try:
                    built = program(entry.kernel, entry.args, spec)
                except (KernelError, ConfigError) as error:
                    lines = error.mistakes if isinstance(error, ConfigError) else [str(error)]
                    raise ConfigError([f"{file}: {named(name, line)}" for line in lines]) from None
                found[name] = Footprint.of(built, spec), entry.count
    mistakes.raise_any()
    return found


def layers_table(found: Counted) -> Table:
    """Every tensor and every buffer of each layer and step."""
    table = compact_table("layer", "memory", "what", "type", "bytes", left=4)
    for name, (one, _) in found.items():
        for tensor, (dtype, size) in one.tensors.items():
            table.add_row(name, "L2", tensor, dtype, f"{size:,}")
        for what, size in (("tables", one.tables), ("code", one.code)):
            if size:
                table.add_row(name, "L2", what, "", f"{size:,}")
        for buffer, size in one.buffers.items():
            table.add_row(name, "L1", buffer, "", f"{size:,}")
        table.add_row(name, "L1", "all buffers", "", f"{one.l1_bytes:,}")
        table.add_row(name, "L1", "stacks", "", f"{one.stacks:,}")
    return table


def steps_table(found: Counted) -> Table:
    """All layers of each step: bytes of their tensors, and the most that one has in L1."""
    table = compact_table("step", "layers", "tensors in L2", "largest in L1")
    steps = {step_of(name): [] for name in found}  # type: dict[str, list[tuple[Footprint, int]]]
    for name, one in found.items():
        steps[step_of(name)].append(one)
    for step, some in [*steps.items(), ("all", list(found.values()))]:
        layers = sum(count for _, count in some)
        tensors = sum(one.tensor_bytes * count for one, count in some)
        table.add_row(step, f"{layers}", f"{tensors:,}", f"{max(o.l1_bytes for o, _ in some):,}")
    return table


def tensors_table(found: Counted) -> Table:
    """A network's tensors by name, each layer's once, whatever steps have it."""
    sizes = tensor_sizes(found)
    table = compact_table("tensors of all layers, each once", "type", "bytes", left=2)
    for (name, dtype), size in sizes.items():
        table.add_row(name, dtype, f"{size:,}")
    table.add_row("all", "", f"{sum(sizes.values()):,}")
    return table


def tensor_sizes(found: Counted) -> dict[tuple[str, str], int]:
    """Bytes of a network's tensors by name and type, each layer's once."""
    seen: dict[tuple[str, str, str], int] = {}
    for layer, (one, count) in found.items():
        for name, (dtype, size) in one.tensors.items():
            seen[layer.rpartition(".")[0] or layer, name, dtype] = size * count
    sizes: dict[tuple[str, str], int] = {}
    for (_, name, dtype), size in seen.items():
        sizes[name, dtype] = sizes.get((name, dtype), 0) + size
    return sizes


def step_of(layer: str) -> str:
    """The step in a layer's name: "fc.fw"."""
    return layer.rpartition(".")[2]


def _to_json(found: Counted) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "layers": [
            {"name": name, "count": count, **one.to_json()} for name, (one, count) in found.items()
        ],
        "tensors": [
            {"name": name, "dtype": dtype, "bytes": size}
            for (name, dtype), size in tensor_sizes(found).items()
        ],
    }
