"""Results of tuning: numbers, JSON, a config file that `pulpsim run` takes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.measurement import Outcome
from autotuner.result import Found
from autotuner.single_kernel_baseline import Kernels, OneSize
from autotuner.space import Layer, Point, Space
from pulpsim.cli.toml_text import toml_value
from soc.config.toml import Table

SCHEMA = "pulpsim.tune/1"


@dataclass(frozen=True)
class Paper:
    """The result of the paper's policy.

    outcome    of the layer as it chooses
    tiles      single tiles that it simulated to choose
    """

    outcome: Outcome
    tiles: int


@dataclass(frozen=True)
class Tuned:
    """A layer's results.

    found        every point that was measured, the best first
    default      what the primitive does when it is told nothing
    searched     points that the policy simulated, known before or not
    simulated    simulations that were not known before, all together
    count        how often the layer occurs
    paper        None if it was not asked for
    kernels      the outcomes of the paper's kernels on the best tile; None if not measured
    """

    name: str
    space: Space
    found: Sequence[Found]
    default: Outcome
    searched: int
    simulated: int
    count: int = 1
    paper: Paper | None = None
    kernels: Kernels | None = None

    @property
    def best(self) -> Found | None:
        """The fastest point; None if all have failed."""
        return next((found for found in self.found if found.outcome.cycles is not None), None)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of its tensors in L2."""
        return sum(t.size for t in self.space.tensors.values() if t.role != "scratch")

    def gain(self, other: Outcome | None) -> float | None:
        """How many times as long the other takes."""
        if other is None or other.cycles is None or self.best is None:
            return None
        return other.cycles / self.best.outcome.rank

    def with_kernel(self, one: OneSize | None) -> Outcome | None:
        """The outcome with one kernel for all layers."""
        return self.kernels[one.kernel] if one and self.kernels else None

    def to_json(self, one: OneSize | None) -> dict[str, Any]:
        """As JSON."""
        best, single = self.best, self.with_kernel(one)
        return {
            "name": self.name,
            "count": self.count,
            "kernel": self.space.layer.kernel,
            "arguments": self.space.layer.given,
            "points": len(self.space),
            "searched": self.searched,
            "measured": len(self.found),
            "simulated": self.simulated,
            "best": point_json(best) if best else None,
            "default_cycles": self.default.cycles,
            "default_gain": self.gain(self.default),
            "paper_cycles": self.paper.outcome.cycles if self.paper else None,
            "paper_tiles": self.paper.tiles if self.paper else None,
            "paper_gain": self.gain(self.paper.outcome) if self.paper else None,
            "one_size_cycles": single.cycles if single else None,
            "one_size_gain": self.gain(single),
            "found": [point_json(found) for found in self.found],
        }


def point_json(found: Found) -> dict[str, Any]:
    """A point and what was measured."""
    return {
        "arguments": found.point.arguments,
        "cycles": found.outcome.cycles,
        "is_estimated": found.is_estimated,
        "l1_bytes": found.outcome.l1_bytes,
        "reason": found.outcome.reason,
        "phases": dict(found.outcome.phases),
    }


def report_json(
    chip: str,
    policy: str,
    layers: Sequence[Tuned],
    is_whole: bool = True,
    chosen: Sequence[str] | None = None,
) -> str:
    """The whole report.

    is_whole    are these all layers? Else there are no sums
    chosen      names of the layers in their fastest element type, if several were tried: sums are
                of these
    """
    of = [layer for layer in layers if chosen is None or layer.name in chosen]
    one = one_size(of) if is_whole else None
    summed = of if is_whole else ()
    content = {
        "schema": SCHEMA,
        "chip": chip,
        "policy": policy,
        "is_whole": is_whole,
        "cycles": {"default": own_total(summed), "one_size": one.cycles if one else None,
                   "paper": paper_total(summed), "best": best_total(summed)},
        "one_size": str(one.kernel) if one else None,
        "chosen": list(chosen) if chosen is not None else None,
        "layers": [layer.to_json(one) for layer in layers],
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


ByType = Mapping[str, Mapping[str, Tuned]]
"""Layers by name and element type."""


def typed_layers(layers: Sequence[Tuned], typed: Mapping[str, Mapping[str, str]]) -> ByType:
    """Layers by their own name and type.

    typed    what they are called, by name and type
    """
    known = {layer.name: layer for layer in layers}
    return {name: {of: known[title] for of, title in own.items()} for name, own in typed.items()}


def fastest(own: Mapping[str, Tuned]) -> Tuned:
    """The layer in the type in which it takes the fewest cycles; the first of equals."""
    return min(own.values(), key=lambda each: each.best.outcome.rank if each.best else float("inf"))


def one_size(layers: Sequence[Tuned]) -> OneSize | None:
    """The best single kernel; None if it was not measured, or none succeeds on all layers."""
    measured = [(layer.kernels, layer.count) for layer in layers if layer.kernels]
    return OneSize.of(measured) if layers and len(measured) == len(layers) else None


def own_total(layers: Sequence[Tuned]) -> int | None:
    """Cycles of all layers, each as its primitive does by default; None if one fails."""
    return _total((layer.default.cycles, layer.count) for layer in layers)


def best_total(layers: Sequence[Tuned]) -> int | None:
    """Cycles of all layers, each at its best; None if one has none."""
    return _total(
        (layer.best.outcome.cycles if layer.best else None, layer.count) for layer in layers
    )


def paper_total(layers: Sequence[Tuned]) -> int | None:
    """Cycles of all layers as the paper's policy chooses; None if it was not asked for."""
    return _total(
        (layer.paper.outcome.cycles if layer.paper else None, layer.count) for layer in layers
    )


def _total(cycles: Iterable[tuple[int | None, int]]) -> int | None:
    """Add cycles; None if there is none, or one of them is None."""
    total = 0
    for once, count in cycles:
        if once is None:
            return None
        total += once * count
    return total or None


def tuned_toml(chip: str | Table, layer: Layer, point: Point) -> str:
    """A config of the layer at a point.

    chip    as a config says it
    """
    arguments = layer.given | point.arguments
    lines = [
        f"{name} = {toml_value(value)}" for name, value in arguments.items() if value is not None
    ]
    return "\n".join(
        [
            f"chip = {toml_value(chip)}",
            "",
            "[program]",
            f"kernel = {toml_value(layer.kernel)}",
            "",
            "[program.args]",
            *lines,
            "",
        ]
    )
