"""The report of a primitive's run: cycles, stalls, and the largest error."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from soc.host.notebook import html_table
from soc.result import RunResult
from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import Arrays

COMPUTE = "compute"  # region whose cycles count for macs_per_cycle
DMA_WAITS = ("dma_in", "dma_out", "dma_wait")  # regions in which nothing but the DMA works


@dataclass(frozen=True)
class Region:
    """The work of the harts in a region.

    cycles          of the slowest hart, all its passes together
    count           passes of that hart
    instructions    of all harts
    stalls          cycles by cause, of all harts
    """

    cycles: int
    count: int
    instructions: int
    stalls: dict[str, int]


@dataclass(frozen=True)
class Report:
    """A run of a primitive, compared with its reference.

    result          the whole run: its cycles are those of boot, DMA and exit too
    macs            multiply-adds; those with the padding of an image are not counted
    outputs         what it has left
    expected        what it should have
    stray_writes    addresses of bytes that hold something else than before, without being part of
                    an output or of a buffer in L1; sure to have all only in a guarded program
    is_warm         was it measured the second time, its instructions in the caches?
    lanes           multiply-adds of an instruction: two of halves
    cores           that computed it; None: all
    """

    result: RunResult
    macs: int
    outputs: Arrays = field(repr=False)
    expected: Mapping[str, Expected] = field(repr=False)
    stray_writes: list[int] = field(default_factory=list)
    is_warm: bool = False
    lanes: int = 1
    cores: int | None = None

    def _repr_html_(self) -> str:
        rate = f"{self.macs_per_cycle:.2f} a cycle; " if self.macs_per_cycle else ""
        of = f"{self.macs:,} multiply-adds, {rate}" if self.macs else ""
        right = "correct" if self.is_correct else "wrong"
        rows = [
            {"region": name, "cycles": r.cycles, "count": r.count, "instructions": r.instructions}
            | {cause: cycles for cause, cycles in r.stalls.items() if cycles}
            for name, r in self.regions.items()
        ]
        return html_table(f"{of}{right}", rows) + self.result._repr_html_()

    @cached_property
    def regions(self) -> dict[str, Region]:
        """All regions by name, in the order of their first start."""
        passed: dict[str, list[dict[str, Any]]] = {}
        for hart in self.result.to_json()["harts"]:
            for region in hart["regions"]:
                passed.setdefault(region["name"], []).append(region)
        starts = {name: min(r["first_start"] for r in group) for name, group in passed.items()}
        return {name: _region(passed[name]) for name in sorted(starts, key=starts.__getitem__)}

    @property
    def cycles(self) -> int:
        """Cycles of the computation on the slowest core, its barriers included; 0 if none."""
        return self.regions[COMPUTE].cycles if COMPUTE in self.regions else 0

    @property
    def macs_per_cycle(self) -> float | None:
        """Multiply-adds per cycle of the computation; None if there was none."""
        return self.macs / self.cycles if self.cycles else None

    @property
    def macs_per_cycle_limit(self) -> int:
        """Multiply-adds per cycle if every core did nothing else."""
        return self.lanes * (self.cores or self.result.spec.cores)

    @property
    def stalls(self) -> dict[str, int]:
        """Stall cycles of the computation by cause, all cores together."""
        return self.regions[COMPUTE].stalls if COMPUTE in self.regions else {}

    @property
    def dma_overlap(self) -> float | None:
        """The part of the DMA's work during which cores computed, 0..1; None without DMA.

        Its work is one cycle a beat, the most that it moves; what cores waited for it, in the
        regions dma_in, dma_out and dma_wait, did not overlap.
        """
        work = sum(self.result.to_json()["dma"]["beats"])
        waited = sum(self.regions[name].cycles for name in DMA_WAITS if name in self.regions)
        return max(0.0, 1 - waited / work) if work else None

    @cached_property
    def errors(self) -> dict[str, np.ndarray]:
        """Distance from the exact value by output, 0 where both are the same infinity or NaN."""
        return {name: _error(self.outputs[name], exact) for name, (exact, _) in self._exact}

    @property
    def max_error(self) -> float | None:
        """The largest distance from an exact value; None: not even finite."""
        largest = max((float(error.max()) for error in self.errors.values()), default=0.0)
        return largest if np.isfinite(largest) else None

    @property
    def is_correct(self) -> bool:
        """Did it exit with 0, every output as close to its exact value as it must be?"""
        end = self.result.exit
        return (end.reason, end.code) == ("exit", 0) and all(
            bool(((self.errors[name] == 0) | (self.errors[name] <= bound)).all())
            for name, (_, bound) in self._exact
        )

    @property
    def _exact(self) -> list[tuple[str, Expected]]:
        return list(self.expected.items())

    def to_json(self) -> dict[str, Any]:
        """What the JSON of a run says under "program"."""
        return {
            "macs": self.macs,
            "macs_per_cycle": self.macs_per_cycle,
            "lanes": self.lanes,
            "macs_per_cycle_limit": self.macs_per_cycle_limit,
            "warm": self.is_warm,
            "dma_overlap": self.dma_overlap,
            "max_error": self.max_error,
            "correct": self.is_correct,
        }


def _region(passed: list[dict[str, Any]]) -> Region:
    slowest = max(passed, key=lambda region: region["cycles"])
    stalls: Counter[str] = Counter()
    for region in passed:
        stalls.update(region["stalls"])
    return Region(
        slowest["cycles"],
        slowest["count"],
        sum(region["instructions"] for region in passed),
        dict(stalls),
    )


def _error(value: np.ndarray, exact: np.ndarray) -> np.ndarray:
    is_same = (value == exact) | np.isnan(value) & np.isnan(exact)
    with np.errstate(invalid="ignore"):
        error = np.abs(value.astype(np.float64) - exact)
    return np.where(is_same, 0.0, np.where(np.isnan(error), np.inf, error))
