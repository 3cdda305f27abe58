"""The room that a kernel takes in L1: does it fit, is it faster by tiles where all of it fits?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team, new_kernel
from soc.chip.spec import SocSpec
from trainlib.calls.call import Call, point_of
from trainlib.deploy.graph.registry import call_of
from trainlib.deploy.graph.values import Graph, Node
from trainlib.deploy.schedule import Schedule
from trainlib.primitive.operator import Family
from trainlib.tiling.dispatch import has_tiles
from trainlib.tiling.plan import Plan
from trainlib.tiling.records import BASES
from trainlib.tiling.resident import Resident
from trainlib.tiling.tile_size import PRICE, Choice, TableRoom

ENTRIES = 4096  # bytes of L1 that a table's entries and the program's own take, about
GAIN = 0.9  # of the cycles of all in L1 that tiles take at most, to be taken instead: estimates err
MOVED = 0.5  # cycles of the DMA for a word that a pass of its own reads or writes

NO_UPDATE = {"scale": None, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}
"""Arguments of a gradient that changes nothing at once."""

Tuned = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""tuned(kernel, arguments) returns further arguments: tiles that have been measured."""


@dataclass
class Tiles:
    """Tiles of kernels in a program.

    kernel    the program, which has what its functions share in L1
    cores     of the team
    tuned     those that have been measured
    """

    kernel: Kernel
    cores: int
    tuned: Tuned | None = None
    _known: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict, repr=False)

    @classmethod
    def on(cls, chip: SocSpec, cores: int | None = None, tuned: Tuned | None = None) -> "Tiles":
        """Those of programs for a chip.

        cores    None: all of the chip
        """
        kernel = new_kernel(chip, "deploy", code=0)  # what lies in L1 alone counts
        kernel.buffer(kernel.l1, "bases", BASES, BASES)
        return cls(kernel, cores or chip.cores, tuned)

    def fits(self, graph: Graph, node: Node) -> bool:
        """Can a gradient that changes its parameter at once be computed in one pass, and should
        that take less time than two? It leaves less room for tiles.
        """
        try:
            family, point = point_of(call_of(graph, node), self.cores)
            if self._fits_whole(family, point):
                return True
            if not has_tiles(self.kernel, family, point, self.cores):
                return False
            plain = point.model_copy(update=NO_UPDATE)
            own, others = (self._estimate(self._choice(family, p)) for p in (point, plain))
        except KernelError:
            return False
        changed = sum(t.elements for t in family.tensors(point).values() if t.role == "inout")
        gradients = sum(t.elements for t in family.tensors(plain).values() if t.role == "out")
        return own < others + MOVED * (2 * changed + gradients)

    @staticmethod
    def _estimate(choice: Choice) -> float:
        """Cycles with the tiles that are chosen."""
        return float(choice.grid(choice.sizes({})).cycles.item())

    def chosen(self, call: Call) -> Call:
        """A call with its tiles: those that have been measured, those that overlap copies with
        computing, or those that the primitive chooses.
        """
        key = call.kernel, repr(sorted(call.arguments.items()))
        if key not in self._known:
            self._known[key] = self._measured(call) or self._overlapping(
                *point_of(call, self.cores)
            )
        return replace(call, arguments={**call.arguments, **self._known[key]})

    def measured(self, schedule: Schedule) -> list[Mapping[str, Any]]:
        """What has been measured of a schedule's calls."""
        if not self.tuned:
            return []
        calls = (call_of(schedule.graph, node) for node in schedule.nodes)
        return [self.tuned(call.kernel, call.arguments) for call in calls]

    def _measured(self, call: Call) -> Mapping[str, Any]:
        """The tiles that have been measured, if they still fit beside what functions share."""
        kernel = call.kernel
        more = self.tuned(kernel, call.arguments) if self.tuned else {}
        if not more:
            return {}
        try:
            arguments = {**call.arguments, **more}
            family, point = point_of(replace(call, arguments=arguments), self.cores)
            if point.tile is None:
                return more if self._fits_whole(family, point) else {}
            if family.tiling and has_tiles(*(self.kernel, family, point, self.cores)):
                how = family.tiling(point), family.tensors(point), point.tile, point.buffers
                Plan.of(self.kernel, Team(self.kernel, self.cores), *how)
        except KernelError:
            return {}
        return more

    def _overlapping(self, family: Family, point: Any) -> Mapping[str, Any]:
        """Tiles of what would fit L1 as a whole, if they should take less time: copies come while
        others are computed.
        """
        if point.tile is not None or family.tiling is None or not self._fits_whole(family, point):
            return {}
        choice = self._choice(family, point)
        try:
            sizes = choice.sizes({})
        except KernelError:
            return {}
        whole = {dim.name: dim.size for dim in choice.tiling.dims}
        if sizes == whole:
            return {}
        by_tiles = choice.grid(sizes)
        at_once = replace(choice, buffers=1).grid(whole)
        is_faster = by_tiles.cycles.item() < GAIN * at_once.cycles.item()
        return {"tile": sizes} if is_faster else {}

    def _choice(self, family: Family, point: Any) -> Choice:
        """Of tiles with two buffers."""
        assert family.tiling
        how = family.name, family.tiling(point), family.tensors(point), 2
        return Choice(*how, self.kernel.l1, ENTRIES, TableRoom(price=PRICE))

    def _fits_whole(self, family: Family, point: Any) -> bool:
        return Resident.of(family, point, family.tensors(point)).fits(self.kernel.l1)
