"""`pulpsim deploy --compare`: the same network, batches and weights in several element types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from pulpsim.cli.terminal import compact_table, print_whole
from trainlib.deploy import Deployed, Trained


@dataclass(frozen=True)
class Variant:
    """Element types of a network, as `precision_of` takes them, and their name in tables."""

    name: str
    precision: Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """A network in one of them; trained: None if it was only planned."""

    variant: Variant
    deployed: Deployed
    trained: Trained | None

    @property
    def cycles(self) -> float | None:
        """Cycles of a batch, in the mean."""
        if self.trained is None:
            return None
        report = self.trained.report
        return report.cycles / len(report.batches)


def variants(given: Mapping[str, Any]) -> list[Variant]:
    """Float32, both halves, and what the command line says if it is another one.

    given    dtype, dtypes (PATTERN=TYPE) and loss_scale; FP16's scale is dynamic if none is given
    """
    scale = given["loss_scale"]
    found = [
        _variant("f32", None),
        _variant("f16", scale or "dynamic"),
        _variant("bf16", scale),
    ]
    return [*found, _variant(**given)] if given["dtypes"] else found


def _variant(dtype: str, loss_scale: str | None, dtypes: Sequence[str] = ()) -> Variant:
    scaled = [f"scale {loss_scale}"] if loss_scale else []
    name = ", ".join([dtype, *dtypes, *scaled])
    return Variant(name, {"dtype": dtype, "dtypes": dtypes, "loss_scale": loss_scale})


def show_comparison(found: Sequence[Compared], network: str, console: Console) -> None:
    """Cycles, bytes and losses, side by side; the first is what others are compared with."""
    headings = ["types", "cycles a batch", "times", "values", "code", "tables", "loss", "off"]
    is_run = all(each.trained for each in found)
    table = compact_table(*(headings if is_run else [headings[0], *headings[3:6]]), left=1)
    table.columns[0].no_wrap = False
    first = found[0]
    for each in found:
        memory = each.deployed.memory
        sizes = [f"{size:,}" for size in (memory.peak, memory.code, memory.tables)]
        if not is_run:
            table.add_row(each.variant.name, *sizes)
            continue
        assert each.trained
        assert first.trained
        assert each.cycles
        assert first.cycles
        last, wanted = each.trained.losses[-1], first.trained.losses[-1]
        rates = f"{each.cycles:,.0f}", f"{first.cycles / each.cycles:.2f}"
        table.add_row(each.variant.name, *rates, *sizes, f"{last:.6g}", f"{last - wanted:+.2g}")
    print_whole(console, table)
    batches = len(first.trained.losses) if first.trained else 0
    after = f", losses of batch {batches}" if batches else ""
    console.print(
        f"{network} on {first.deployed.chip.name}: bytes of values, code and tables{after}; "
        f"weights and the optimiser's state are f32 in all",
        soft_wrap=True,
    )


def comparison_json(found: Sequence[Compared]) -> list[dict[str, Any]]:
    """As JSON."""
    return [
        {
            "types": each.variant.name,
            "dtype": each.deployed.precision.dtype,
            "dtypes": dict(each.deployed.precision.dtypes),
            "memory": {
                name: getattr(each.deployed.memory, of)
                for name, of in (("values", "peak"), ("code", "code"), ("tables", "tables"))
            },
            **({"cycles": each.cycles, "losses": each.trained.losses} if each.trained else {}),
        }
        for each in found
    ]
