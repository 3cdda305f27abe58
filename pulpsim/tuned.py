"""What tuning has found: as numbers, as JSON, as a config file that `pulpsim run` takes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.outcome import Outcome
from autotuner.search import Found
from autotuner.space import Items, Layer, Point, Space

SCHEMA = "pulpsim.tune/1"


@dataclass(frozen=True)
class Tuned:
    """A layer's results.

    found        every point that was measured, the best first
    default      what the primitive does when it is told nothing
    paper        what the paper's policy chooses, None if that was not asked for
    simulated    points that were not known before
    count        how often the layer occurs
    """

    name: str
    space: Space
    found: Sequence[Found]
    default: Outcome
    paper: Outcome | None
    simulated: int
    count: int = 1

    @property
    def best(self) -> Found | None:
        """The fastest point; None if all have failed."""
        return next((found for found in self.found if found.outcome.cycles is not None), None)

    def gain(self, other: Outcome | None) -> float | None:
        """How many times as long the other takes."""
        if other is None or other.cycles is None or self.best is None:
            return None
        return other.cycles / self.best.outcome.rank

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        best = self.best
        return {
            "name": self.name,
            "count": self.count,
            "kernel": self.space.layer.kernel,
            "arguments": self.space.layer.given,
            "points": len(self.space),
            "measured": len(self.found),
            "simulated": self.simulated,
            "best": point_json(best.point, best.outcome) if best else None,
            "default_cycles": self.default.cycles,
            "paper_cycles": self.paper.cycles if self.paper else None,
            "found": [point_json(found.point, found.outcome) for found in self.found],
        }


def point_json(point: Point, outcome: Outcome) -> dict[str, Any]:
    """A point and what was measured."""
    return {
        "arguments": point.arguments,
        "cycles": outcome.cycles,
        "l1_bytes": outcome.l1_bytes,
        "reason": outcome.reason,
    }


def report_json(chip: str, policy: str, layers: Sequence[Tuned]) -> str:
    """The whole report."""
    kernel, cycles = one_size(layers)
    content = {
        "schema": SCHEMA,
        "chip": chip,
        "policy": policy,
        "cycles": {"default": own_total(layers), "one_size": cycles,
                   "best": best_total(layers)},
        "one_size": dict(kernel),
        "layers": [layer.to_json() for layer in layers],
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def own_total(layers: Sequence[Tuned]) -> int | None:
    """Cycles of all layers, each as its primitive does untold; None if one fails."""
    return _total((layer.default.cycles, layer.count) for layer in layers)


def best_total(layers: Sequence[Tuned]) -> int | None:
    """Cycles of all layers, each at its best; None if one has none."""
    return _total(
        (layer.best.outcome.cycles if layer.best else None, layer.count) for layer in layers
    )


def _total(cycles: Iterable[tuple[int | None, int]]) -> int | None:
    total = 0
    for once, count in cycles:
        if once is None:
            return None
        total += once * count
    return total


def one_size(layers: Sequence[Tuned]) -> tuple[Items, int | None]:
    """The one blocking for all layers that is fastest in sum, each with its best tile measured."""
    fastest: list[dict[Items, int]] = []
    for layer in layers:
        own: dict[Items, int] = {}
        for found in layer.found:
            if found.outcome.cycles is not None:
                own.setdefault(found.point.kernel, found.outcome.cycles * layer.count)
        fastest.append(own)
    common = set.intersection(*map(set, fastest)) if fastest else set[Items]()
    sums = sorted((sum(own[kernel] for own in fastest), repr(kernel), kernel) for kernel in common)
    return (sums[0][2], sums[0][0]) if sums else ((), None)


def tuned_toml(chip: str, layer: Layer, point: Point) -> str:
    """A config of the layer at a point."""
    arguments = layer.given | point.arguments
    lines = [f"{name} = {_toml(value)}" for name, value in arguments.items() if value is not None]
    return "\n".join(
        [
            f"chip = {_toml(chip)}",
            "",
            "[program]",
            f"kernel = {_toml(layer.kernel)}",
            "",
            "[program.args]",
            *lines,
            "",
        ]
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(v)}" for name, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
