"""A tiled program without some of its periods, and how long each of the others takes.

A tiled program walks a table of steps. Where that repeats itself, period by period, some periods
are left out of the table, and nothing else is changed. In every step each core waits for copies, a
region of its own in every program: where core 0 comes to it, as a trace says, a step begins.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from autotuner.footprint import l1_bytes
from autotuner.measurement import Outcome
from autotuner.periodicity import Repeat, worthwhile_repeat
from autotuner.point import Layer, Point
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.host.temporary import TemporaryFolder
from soc.result import RunResult
from soc.run import prepare
from soc.run_many import Run
from soc.simulation import Simulation
from soc.trace.reader import Kind, Trace
from soc.trace.recorder import Recording
from trainlib.tiling.tile_loop import Walk, plan_of
from trainlib.tiling.warm_up import passes

WAIT = "dma_wait"  # the region
FILTERS = "kind=region", "hart=0"


@dataclass(frozen=True)
class Shortened(Program):
    """A program that has not all of its periods.

    repeat    what repeats itself
    kept      periods that are left at each place
    opened    1 if the first step has no entry in the table
    wait      number of the region in which cores wait for copies
    folder    for the run's trace
    """

    repeat: Repeat | None = None
    kept: int = 0
    opened: int = 0
    wait: int = 0
    folder: TemporaryFolder | None = None

    @property
    def trace(self) -> Path:
        """The file of its run's trace."""
        assert self.folder is not None
        return self.folder.path / "regions.trace"


@dataclass(frozen=True)
class Shortener:
    """Builds the program of a point that has tiles, with a part of the periods of its repeat.

    periods    that are left at each place; None: enough for an estimate
    """

    layer: Layer
    point: Point
    chip: SocSpec
    periods: int | None = None

    def __call__(self) -> Shortened:
        """Build it.

        raises    KernelError if it cannot be built; NoSteadyStateError
        """
        family, arguments = self.layer.family, self.layer.checked(self.point.arguments)
        tensors = family.tensors(arguments)
        assert family.tiling is not None
        tiling = family.tiling(arguments)
        k = new_kernel(self.chip, family.name)
        l2 = {n: k.buffer(k.l2, n, t.size) for n, t in tensors.items() if t.role != "scratch"}
        with team_of(k, self.chip, self.point.cores) as team:
            how = l2, arguments.tile or {}, arguments.buffers
            plan = plan_of(k, team, tiling, tensors, *how)
            repeat = worthwhile_repeat(plan.steps)
            periods = self.periods or repeat.enough
            kept = [plan.steps[number] for number in repeat.kept(len(plan.steps), periods)]
            with passes(k, team, is_warm=False) as region, region("compute"):
                Walk(k, team, replace(plan, steps=kept), tensors, l2).emit()
        for name, array in family.random(arguments).items():
            k.put(l2[name], array.tobytes())
        built = k.build()
        own = {field.name: getattr(built, field.name) for field in fields(Program)}
        opened, wait = int(bool(plan.opening)), k.region_number(WAIT)
        return Shortened(**own, repeat=repeat, kept=periods, opened=opened, wait=wait)


@dataclass(frozen=True)
class TimedRun(Run):
    """A run of a shortened program that records where its steps begin."""

    def prepare(self, progress: Callable = nullcontext) -> Simulation:
        """As every Run."""
        assert callable(self.program)
        program = self.program()
        assert isinstance(program, Shortened)
        program = replace(program, folder=TemporaryFolder("pulpsim-regions-"))
        recording = Recording(program.trace, filters=FILTERS)
        return prepare(program, self.chip, self.engine, progress=progress, trace=recording)


@dataclass(frozen=True)
class Sample:
    """The result of a shortened program's run.

    cycles       of all of it; None if it has not come to its end
    durations    cycles of each period that is left, place by place
    times        periods that there are at each place
    """

    cycles: int | None
    durations: tuple[tuple[int, ...], ...]
    times: int
    l1_bytes: int


def sample_of(result: RunResult) -> Sample | Outcome:
    """The part that was run, or the outcome of a run that was interrupted.

    raises    TraceError, RuntimeError if the trace cannot be read, or is not whole
    """
    program, end = result.program, result.exit
    assert isinstance(program, Shortened)
    assert program.repeat is not None
    assert program.folder is not None
    if end.reason == "interrupted":
        return Outcome(None, None, f"{end.reason}: {end.message}")
    size = l1_bytes(program, result.spec)
    if (end.reason, end.code) != ("exit", 0):
        return Sample(None, (), program.repeat.times, size)
    starts = _starts(program)
    program.folder.remove()
    durations = program.repeat.durations(starts, program.kept)
    return Sample(_cycles(result), durations, program.repeat.times, size)


def _starts(program: Shortened) -> Sequence[int]:
    """Return the cycle in which each step begins, and the end of the last one.

    NOTE: the copies of a step without an entry are started before the table is walked.
    """
    trace = Trace.open(program.trace)
    if not trace.complete:
        raise RuntimeError(trace.gap)
    regions = trace.select(Kind.REGION)
    begins = regions["cycle"][(regions["extra"] == program.wait) & (regions["a"] == 1)]
    return np.concatenate([begins[: program.opened], begins]).tolist()


def _cycles(result: RunResult) -> int:
    """Return the cycles of the first region, the whole layer, on the slowest core."""
    harts = result.to_json()["harts"]
    return max(region["cycles"] for hart in harts for region in hart["regions"][:1])
