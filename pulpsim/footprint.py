"""pulpsim footprint: bytes of each layer's tensors in L2 and buffers in L1."""

from pathlib import Path

from autotuner.footprint import Footprint
from firmware.builder import KernelError
from pulpsim.console import compact_table, page_console
from pulpsim.tune_config import Options, load_tuning
from soc.toml_file import ConfigError
from trainlib.launch import program


def footprint(file: Path, chip: str | None) -> None:
    """Show the layers of a config as the launcher lays them out.

    raises    ConfigError
    """
    tuning = load_tuning(file, Options(chip=chip))
    table = compact_table("layer", "memory", "what", "bytes", left=3)
    totals: dict[str, int] = {}
    for name, space in tuning.spaces.items():
        try:
            built = program(space.layer.kernel, space.layer.given, tuning.chip)
        except KernelError as error:
            raise ConfigError([f"{file}: {name}: {error}"]) from None
        found = Footprint.of(built, tuning.chip)
        totals[name] = tuning.counts[name] * sum(found.tensors.values())
        for tensor, size in found.tensors.items():
            table.add_row(name, "L2", tensor, f"{size:,}")
        for what, size in (("schedule", found.schedule), ("code", found.code)):
            if size:
                table.add_row(name, "L2", what, f"{size:,}")
        for buffer, size in found.buffers.items():
            table.add_row(name, "L1", buffer, f"{size:,}")
        table.add_row(name, "L1", "all buffers", f"{found.l1_bytes:,}")
        table.add_row(name, "L1", "stacks", f"{found.stacks:,}")
    if len(totals) > 1:
        table.add_row("all", "L2", "tensors", f"{sum(totals.values()):,}")
    page_console().print(table)
