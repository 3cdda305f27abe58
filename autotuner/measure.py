"""Measure points: build the program, simulate the whole layer, check every output; or remember.

measure = Measure(space.layer, space.chip, database)
measure([point])[0].cycles
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from autotuner.footprint import Footprint
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database, key_of
from autotuner.space import Layer, Point
from firmware.builder import KernelError
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.result import RunResult
from soc.run_many import Keep, OnOutcome, Run, Threads, outcomes_of
from trainlib.launch import KernelProgram, program
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.operator import Family

LIMIT = 100_000_000  # cycles, unless it is said otherwise
REGIONS = ("dma_in", "compute", "dma_out")  # they follow each other, from L2 to L2


@dataclass(frozen=True)
class Limits:
    """Limits of simulations.

    workers       threads, where no executor is given; None: as many as there are processors
    max_cycles    of each; beyond, it has failed
    """

    workers: int | None = None
    max_cycles: int = LIMIT


@dataclass(frozen=True)
class Kind:
    """A kind of measurement, as part of what the database knows it by.

    name       after the primitive's
    made_by    files that make an outcome of runs: another content, another measurement
    """

    name: str
    made_by: tuple[str, ...]


LIMITS = Limits()
OnEnd = Callable[[Point, Outcome], None]


@dataclass(frozen=True)
class Checked(Program):
    """A program that knows what it should compute."""

    kernel: KernelProgram | None = None


@dataclass(frozen=True)
class Builder:
    """Builds a point's program where it runs."""

    layer: Layer
    point: Point
    chip: SocSpec

    def __call__(self) -> Checked:
        built = program(self.layer.kernel, self.layer.given | self.point.arguments, self.chip)
        own = {field.name: getattr(built.program, field.name) for field in fields(Program)}
        return Checked(**own, kernel=built)


def outcome_of(result: RunResult) -> Outcome:
    """What a run says of its point."""
    assert isinstance(result.program, Checked)
    kernel = result.program.kernel
    assert kernel is not None
    size = Footprint.of(kernel, result.spec).l1_bytes
    end = result.exit
    if end.reason != "exit":
        return Outcome(None, size, f"{end.reason}: {end.message}")
    if end.code:
        return Outcome(None, size, f"exit code {end.code}")
    report = kernel.report(result)
    if not report.is_correct:
        return Outcome(None, size, f"wrong result: largest error {report.max_error}")
    if report.stray_writes:
        return Outcome(None, size, f"wrote to {report.stray_writes[0]:#010x}, not its own")
    return Outcome(layer_cycles(result), size, phases=phase_cycles(kernel, result))


def phase_cycles(kernel: KernelProgram, result: RunResult) -> tuple[tuple[str, int], ...]:
    """Cycles of each phase, of the slowest core; those of the same name together."""
    names = phase_names(kernel.family, kernel.arguments)
    return tuple((n, _cycles(result, (n,))) for n in names if n in kernel.regions.values())


def phase_names(family: Family, point: CommonArguments) -> tuple[str, ...]:
    """Of the phases that a point may be computed in: with an update, gradients have none."""
    if family.phases is None:
        return ()
    with suppress(KernelError):
        return tuple(family.phases(point).named)
    return ()


def layer_cycles(result: RunResult) -> int:
    """Cycles from the first copy's start to the last copy's end, of the slowest core."""
    return _cycles(result, REGIONS)


def _cycles(result: RunResult, regions: Sequence[str]) -> int:
    """Return the cycles of the named regions on the slowest core."""
    return max(
        sum(r["cycles"] for r in hart["regions"] if r["name"] in regions)
        for hart in result.to_json()["harts"]
    )


class Measure:
    """Measures points of a layer on a chip.

    database      what is known, and gets what is found
    executor      simulates points that are not known; None: threads of this process
    on_end        called with each point and its outcome, known or new, once it is kept

    simulated     points that were not known, so far
    """

    kind = Kind("", ("autotuner/footprint.py", "autotuner/measure.py"))
    builder: Callable[[Layer, Point, SocSpec], Callable[[], Program]] = Builder
    outcome = staticmethod(outcome_of)

    def __init__(
        self,
        layer: Layer,
        chip: SocSpec,
        database: Database,
        limits: Limits = LIMITS,
        *,
        executor: Executor | None = None,
        on_end: OnEnd = lambda point, outcome: None,
    ) -> None:
        self.layer, self.chip, self.database = layer, chip, database
        self.limits, self.on_end = limits, on_end
        self.executor = executor
        self.simulated = 0

    def __call__(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each point; those that are not known are simulated side by side.

        raises    ConfigError if the database refuses, or the executor is lost
        """
        keys = [self.key(point) for point in points]
        known = self._known(keys, points)
        missing = {k: p for k, p in zip(keys, points, strict=True) if k not in known}
        for key, point in zip(keys, points, strict=True):
            if key in known:
                self.on_end(point, known[key])
        if missing:
            known |= self._simulate(list(missing), list(missing.values()))
        return [known[key] for key in keys]

    def _known(self, keys: Sequence[str], points: Sequence[Point]) -> dict[str, Outcome]:
        """Read outcomes from the database, with the cycles of their phases, which have own rows."""
        known = self.database.find(dict.fromkeys(keys))
        rows: dict[str, list[tuple[str, str]]] = {}
        for key, point in zip(keys, points, strict=True):
            if key in known and point.is_phased:
                rows[key] = [(name, self.key(point, phase)) for name, phase in self._kinds]
        every = self.database.find(row for some in rows.values() for _, row in some)
        for key, some in rows.items():
            cycles = ((name, every[row].cycles) for name, row in some if row in every)
            phases = tuple((name, n) for name, n in cycles if n is not None)
            known[key] = replace(known[key], phases=phases)
        return known

    @cached_property
    def _kinds(self) -> list[tuple[str, Kind]]:
        """The database's kinds of measurement of the phases, with their names."""
        names = phase_names(self.layer.family, self.layer.checked({}))
        return [(name, Kind(f" ({name})", self.kind.made_by)) for name in names]

    def key(self, point: Point, kind: Kind | None = None) -> str:
        """What the database knows it by; kind: its own if it is not given."""
        kind = kind or self.kind
        name, arguments = self.layer.kernel + kind.name, self._arguments(point)
        return key_of(name, arguments, self.chip, self.limits.max_cycles, kind.made_by)

    def keep(self, point: Point, outcome: Outcome, kind: Kind | None = None) -> None:
        """Keep an outcome in the database.

        raises    ConfigError if that refuses
        """
        name = self.layer.kernel + (kind or self.kind).name
        key, arguments = self.key(point, kind), self._arguments(point)
        self.database.keep(key, name, arguments, self.chip.name, outcome)

    def _keep_all(self, point: Point, outcome: Outcome) -> None:
        """Keep an outcome, its phases first: a point that is found has them, too."""
        kinds = dict(self._kinds)
        for name, cycles in outcome.phases:
            self.keep(point, Outcome(cycles), kinds[name])
        self.keep(point, outcome)

    def _arguments(self, point: Point) -> dict[str, Any]:
        return self.layer.checked(point.arguments).model_dump(mode="json")

    def _simulate(self, keys: list[str], points: list[Point]) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        build = type(self).builder

        def ended(index: int, result: Outcome | Exception) -> None:
            key, point = keys[index], points[index]
            outcome = failure(result) if isinstance(result, Exception) else result
            self.simulated += 1
            if is_lasting(result):
                self._keep_all(point, outcome)
            found[key] = outcome
            self.on_end(point, outcome)

        runs = [
            Run(build(self.layer, point, self.chip), self.chip, max_cycles=self.limits.max_cycles)
            for point in points
        ]
        self.carry_out(runs, type(self).outcome, ended)
        return found

    def carry_out(self, runs: Sequence[Run], keep: Keep, on_end: OnOutcome) -> None:
        """Simulate by the executor; on_end gets the number and the outcome of each run.

        raises    ConfigError if the executor is lost
        """
        own = nullcontext(self.executor) if self.executor else Threads(self.limits.workers)
        with own as executor:
            outcomes_of(executor, runs, keep, on_end)


def failure(error: Exception) -> Outcome:
    """The outcome of a point that was not even run."""
    what = str(error) if isinstance(error, KernelError) else f"{type(error).__name__}: {error}"
    return Outcome(None, None, what)


def is_lasting(result: Outcome | Exception) -> bool:
    """Would it be the same again? Not if a process died, or it was interrupted."""
    if isinstance(result, Outcome):
        return not result.reason.startswith("interrupted")
    return isinstance(result, KernelError)
