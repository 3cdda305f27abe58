"""Programs of schedules: those that fit a chip, planned, or recalled from before."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from soc.chip.spec import SocSpec
from soc.host.collector import paused_collector
from trainlib.calls.call import point_of
from trainlib.deploy.budget import fitted
from trainlib.deploy.estimate import step_cycles
from trainlib.deploy.graph.registry import call_of
from trainlib.deploy.graph.values import Graph, Node, TooLargeError
from trainlib.deploy.program import Built, build
from trainlib.deploy.program_store import ProgramStore, said_of
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.tiles import Tiles, Tuned

UNROLLED = 2000  # nodes of a step in which each batch has its own: more take long to plan


@dataclass(frozen=True)
class Planner:
    """What plans for a chip.

    cores    that compute; None: all
    tuned    tiles of kernels that have been measured
    store    of programs that were planned before
    """

    chip: SocSpec
    cores: int | None
    tuned: Tuned | None
    store: ProgramStore

    def fitted(self, of: Callable[..., Schedule], build: Callable[..., Built]) -> Built:
        """The program of a training step that fits: see trainlib.deploy.budget.

        of       of(recomputed=names, unrolled=False) is a schedule, see trainlib.deploy.step
        build    build(schedule, swaps=None)

        raises   what `build` raises
        """
        return fitted(partial(_scheduled, of), build, self._estimate)

    @paused_collector()
    def build(
        self,
        schedule: Schedule,
        swaps: TooLargeError | None = None,
        tell: Callable[[str], None] | None = None,
        **data: Any,
    ) -> Built:
        """The program of a schedule, see trainlib.deploy.program.build. One that holds its data is
        always built.

        raises    DeployError, KernelError
        """

        def made() -> Built:
            how = {"cores": self.cores, "tiles": self._tiles, "swaps": swaps, "tell": tell, **data}
            return build(schedule, self.chip, **how)

        if data:
            return made()
        how = self.cores, self._tiles.measured(schedule), swaps and swaps.code
        return self.store.program(schedule, self.chip, how, made)

    def fits(self, graph: Graph, node: Node) -> bool:
        """See Tiles.fits."""
        family, point = point_of(call_of(graph, node), self.cores)
        question = "fits", family.name, point.model_dump(), self.chip.model_dump(), self.cores
        found: bool = self.store.answer(question, lambda: self._tiles.fits(graph, node))
        return found

    def _estimate(self, schedule: Schedule, room: int) -> tuple[int, int]:
        """Cycles of a step, computed and with copies: see trainlib.deploy.budget."""
        tiles, cores = self._tiles, self.cores or self.chip.cores
        how = "cycles", self.chip.model_dump(), cores, tiles.measured(schedule), room
        work = partial(step_cycles, schedule, self.chip, room, cores, tiles)
        found: tuple[int, int] = self.store.answer((*how, *said_of(schedule)), work)
        return found

    @cached_property
    def _tiles(self) -> Tiles:
        return Tiles.on(self.chip, self.cores, self.tuned)


def _scheduled(
    of: Callable[..., Schedule], names: Collection[str], *, unrolled: bool = False
) -> Schedule:
    """A schedule; batches of a step repeat their nodes if there would be too many."""
    plain = of(recomputed=names)
    count = sum(len(section.nodes) * section.times for section in plain.sections)
    return of(recomputed=names, unrolled=True) if unrolled and count <= UNROLLED else plain
