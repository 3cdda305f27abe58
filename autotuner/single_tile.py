"""The latency of a single tile, by which the paper's policy chooses: one computation, all in L1."""

from dataclasses import dataclass

from autotuner.measure import Kind, Measure
from autotuner.measurement import Outcome
from autotuner.space import Layer, Point
from firmware.builder import KernelError
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.result import RunResult
from trainlib.tiling.resident import Resident

COMPUTE = 1  # the number of Resident's second region, after dma_in


@dataclass(frozen=True)
class TileBuilder:
    """Builds a program that copies the first tile of a point to L1, computes it, copies it back."""

    layer: Layer
    point: Point
    chip: SocSpec

    def __call__(self) -> Program:
        family, arguments = self.layer.family, self.layer.checked(self.point.arguments)
        tensors = family.tensors(arguments)
        if self.point.tile is None:
            resident = Resident.of(family, arguments, tensors)
        elif family.tiling is None:
            raise KernelError(f"{family.name}: it has no tiles")
        else:
            tiling = family.tiling(arguments)
            there = {name: range(size) for name, size in self.point.tile}
            tile = tiling.tile(there, tensors)
            scratch = tiling.scratch(tile.shape) if tiling.scratch else {}
            resident = Resident(
                tensors,
                tile.boxes,
                scratch,
                lambda k, team, l1: tiling.emit(k, team, tile.shape, l1),
            )
        k = new_kernel(self.chip, family.name)
        l2 = {n: k.buffer(k.l2, n, t.size) for n, t in tensors.items() if t.role != "scratch"}
        with team_of(k, self.chip, self.point.cores) as team:
            resident.emit(k, team, l2)
        for name, array in family.random(arguments).items():
            k.put(l2[name], array.tobytes())
        return k.build()


def latency_of(result: RunResult) -> Outcome:
    """Cycles of the computation alone. A tile's output is not compared; that of the layer is."""
    if (result.exit.reason, result.exit.code) != ("exit", 0):
        return Outcome(None, None, f"{result.exit.reason}: {result.exit.message}")
    harts = result.to_json()["harts"]
    return Outcome(
        max(r["cycles"] for hart in harts for r in hart["regions"] if r["id"] == COMPUTE)
    )


class MeasureTile(Measure):
    """Measures single tiles, remembered beside whole layers."""

    kind = Kind(" (one tile)", (*Measure.kind.made_by, "autotuner/single_tile.py"))
    builder = TileBuilder
    outcome = staticmethod(latency_of)
