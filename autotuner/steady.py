"""Cycles of a large layer from a part of its tiles: the steps of a long loop are all alike.

A tiled program walks a table of steps. Where that repeats itself, period by period, some periods
are left out of the table, and nothing else is changed. From the cycles with a few periods, runs of
their own, follow those with all of them:

    cycles(all) = cycles(10) + (all - 10) * (cycles(10) - cycles(4)) / 6

Periods differ by some percent, as cores meet at other banks, and the first ones are slower. How
much the slope from 4 to 7 differs from that from 7 to 10 bounds the error. There is no estimate
where the bound is more than WORST, where nothing repeats itself often enough, or too little would
be spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from autotuner.footprint import l1_bytes
from autotuner.measure import Kind, Measure, is_lasting
from autotuner.outcome import Outcome
from autotuner.point import Layer, Point
from autotuner.repeat import KEPT, NoSteadyStateError, worthwhile_repeat
from firmware.builder import KernelError
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.result import RunResult
from soc.run_many import Run
from soc.spec import SocSpec
from trainlib.passes import passes
from trainlib.tile_plan import Plan
from trainlib.tiles import Walk

WORST = 0.01  # bound of the error, of all cycles
MADE_BY = "autotuner/footprint.py", "autotuner/repeat.py", "autotuner/steady.py"
KIND = Kind(" (steady state)", MADE_BY)
NONE = Outcome(None, None, "no steady state")
LARGE = 30_000_000
"""Multiply-adds of a layer whose points are worth an estimate: others are simulated as fast."""


@dataclass(frozen=True)
class Shortened(Program):
    """A program that has not all of its periods, and knows how many there are."""

    all_periods: int = 0


@dataclass(frozen=True)
class Shortener:
    """Builds the program of a point that has tiles, with so many periods of its longest repeat."""

    layer: Layer
    point: Point
    chip: SocSpec
    periods: int

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
            how = tiling, tensors, arguments.tile or {}, arguments.buffers
            plan = Plan.of(k, team, *how)
            repeat = worthwhile_repeat(plan.steps)
            kept = [plan.steps[number] for number in repeat.kept(len(plan.steps), self.periods)]
            with passes(k, is_warm=False) as region, region("compute"):
                Walk(k, team, replace(plan, steps=kept), tensors, l2).emit()
                team.barrier()
        for name, array in family.random(arguments).items():
            k.put(l2[name], array.tobytes())
        built = k.build()
        own = {field.name: getattr(built, field.name) for field in fields(Program)}
        return Shortened(**own, all_periods=repeat.times)


@dataclass(frozen=True)
class Part:
    """What the run of a shortened program says.

    cycles    None if it has not come to its end
    """

    cycles: int | None
    all_periods: int
    l1_bytes: int


def part_of(result: RunResult) -> Part | Outcome:
    """The part that was run, or the outcome of a run that somebody has stopped."""
    program, end = result.program, result.exit
    assert isinstance(program, Shortened)
    if end.reason == "interrupted":
        return Outcome(None, None, f"{end.reason}: {end.message}")
    has_ended = (end.reason, end.code) == ("exit", 0)
    cycles = _cycles(result) if has_ended else None
    return Part(cycles, program.all_periods, l1_bytes(program, result.spec))


def _cycles(result: RunResult) -> int:
    """Of the first region, which is all of the layer, on the slowest core."""
    harts = result.to_json()["harts"]
    return max(region["cycles"] for hart in harts for region in hart["regions"][:1])


@dataclass(frozen=True)
class Estimate:
    """Cycles of all steps, the bound of their error as a part of them, and bytes of L1."""

    cycles: int
    error: float
    l1_bytes: int


def estimate(parts: Sequence[Part]) -> Estimate | None:
    """All cycles, from the parts with KEPT periods; None if they do not follow."""
    few, some, most = (part.cycles for part in parts)
    if few is None or some is None or most is None:
        return None
    left = parts[-1].all_periods - KEPT[2]
    slopes = (some - few) / (KEPT[1] - KEPT[0]), (most - some) / (KEPT[2] - KEPT[1])
    cycles = round(most + left * (most - few) / (KEPT[2] - KEPT[0]))
    error = left * abs(slopes[1] - slopes[0]) / cycles
    return Estimate(cycles, error, parts[-1].l1_bytes) if error <= WORST else None


class Steady:
    """Measures points by estimates where there are any, and in full elsewhere.

    full    measures, keeps and reports
    """

    def __init__(self, full: Measure) -> None:
        self.full = full

    def __call__(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each point.

        raises    ConfigError if the database refuses, or the place is lost
        """
        keys = {point: self.full.key(point, KIND) for point in points if point.tile is not None}
        known = self.full.database.find(keys.values())
        found = {point: known[key] for point, key in keys.items() if key in known}
        for point, outcome in found.items():
            self._note(point, outcome)
        found |= self._estimates([point for point in keys if point not in found])
        rest = [point for point in points if found.get(point, NONE) == NONE]
        found |= zip(rest, self.full(rest) if rest else [], strict=True)
        return [found[point] for point in points]

    def _estimates(self, points: Sequence[Point]) -> dict[Point, Outcome]:
        """Estimate points where others are measured, and keep each as its last part ends."""
        full, found = self.full, dict[Point, Outcome]()
        ended: dict[Point, dict[int, Any]] = {point: {} for point in points}
        wanted = [(point, periods) for point in points for periods in KEPT]

        def on_end(number: int, part: Any) -> None:
            point, periods = wanted[number]
            ended[point][periods] = part
            if len(ended[point]) == len(KEPT):
                found[point] = self._end(point, [ended[point][periods] for periods in KEPT])

        runs = [
            Run(
                Shortener(full.layer, point, full.chip, periods),
                full.chip,
                max_cycles=full.limits.max_cycles,
            )
            for point, periods in wanted
        ]
        if runs:
            full.place.carry_out(runs, part_of, on_end)
        return found

    def _end(self, point: Point, parts: Sequence[Any]) -> Outcome:
        """The outcome of a point, given those of its parts; kept, if it would be the same again."""
        outcome = outcome_of(parts)
        if all(map(_is_lasting, parts)):
            self.full.keep(point, outcome, KIND)
        self._note(point, outcome)
        return outcome

    def _note(self, point: Point, outcome: Outcome) -> None:
        if outcome != NONE:
            self.full.on_end(point, outcome)


def outcome_of(parts: Sequence[Part | Outcome | Exception]) -> Outcome:
    """The outcome of a point; NONE if its parts do not tell."""
    for part in parts:
        if isinstance(part, KernelError):
            return Outcome(None, None, str(part))
    ran = [part for part in parts if isinstance(part, Part)]
    found = estimate(ran) if len(ran) == len(parts) else None
    return Outcome(found.cycles, found.l1_bytes) if found else NONE


def _is_lasting(part: Part | Outcome | Exception) -> bool:
    return isinstance(part, Part | NoSteadyStateError) or is_lasting(part)
