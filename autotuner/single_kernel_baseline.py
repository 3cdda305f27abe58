"""One kernel for all layers: what tuning is compared with.

Each of the paper's kernels is measured on each layer, with the tile that is best there; where a
layer has no such block of sums, the largest that is not larger takes its place. The one with the
fewest cycles of all layers together is the best single kernel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotuner.blockings import PAPER_KERNELS, PaperKernel
from autotuner.measurement import Outcome
from autotuner.point import Point
from autotuner.search import MeasurePoints
from autotuner.space import Space

Kernels = Mapping[PaperKernel, Outcome]


def kernels_at(space: Space, point: Point, measure: MeasurePoints) -> Kernels:
    """The outcome of each of the paper's kernels, all else as at a point."""
    method = space.method_of(point.kernel)
    points = {
        kernel: replace(point, kernel=kernel.on(space.layer, method, point.cores))
        for kernel in PAPER_KERNELS
    }
    every = list(dict.fromkeys(points.values()))
    outcomes = dict(zip(every, measure(every), strict=True))
    return {kernel: outcomes[point] for kernel, point in points.items()}


@dataclass(frozen=True)
class OneSize:
    """The best single kernel, and the cycles of all layers with it."""

    kernel: PaperKernel
    cycles: int

    @classmethod
    def of(cls, layers: Sequence[tuple[Kernels, int]]) -> "OneSize | None":
        """Choose it; None if none succeeds on all layers.

        layers    what was measured, and how often the layer occurs
        """
        sums: dict[PaperKernel, int] = {}
        for kernel in PAPER_KERNELS:
            cycles = [(outcomes[kernel].cycles, count) for outcomes, count in layers]
            if all(once is not None for once, _ in cycles):
                sums[kernel] = sum((once or 0) * count for once, count in cycles)
        best = min(sums, key=sums.__getitem__, default=None)
        return cls(best, sums[best]) if best else None
