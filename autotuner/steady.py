"""Cycles of a large layer from a part of its tiles: the steps of a long loop are all alike.

A tiled program walks a table of steps. Where that repeats itself, period by period, some periods
are left out of the table, and nothing else is changed. From the cycles with a few periods follow
those with all of them:

    cycles(all) = cycles(10) + (all - 10) * (cycles(10) - cycles(4)) / 6

Periods differ by some percent, as cores meet at other banks, and the first ones are slower. How
much the slope from 4 to 7 differs from that from 7 to 10 bounds the error. There is no estimate
where the bound is more than WORST, where nothing repeats itself often enough, or too little would
be spared.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotuner.database import key_of
from autotuner.footprint import l1_bytes
from autotuner.measure import Measure
from autotuner.outcome import Outcome
from autotuner.point import Layer, Point
from firmware.builder import KernelError
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.result import RunResult
from soc.run import run_program
from soc.spec import SocSpec
from trainlib.kernels import WORD
from trainlib.passes import passes
from trainlib.schedule import Step
from trainlib.tile_plan import NEXT, RING, Plan
from trainlib.tiles import Walk

KEPT = (4, 7, 10)
"""Periods that are simulated, beside what is before and behind them."""

WORST = 0.01  # bound of the error, of all cycles
KIND = " (steady state)"
NONE = Outcome(None, None, "no steady state")
LARGE = 30_000_000
"""Multiply-adds of a layer whose points are worth an estimate: others are simulated as fast."""

MOST = 0.8  # of all steps, that the simulations together have


@dataclass(frozen=True)
class Repeat:
    """Steps that repeat themselves, at several places alike.

    firsts    where the first period of each place begins
    period    steps
    times     periods of each place, those that may be left out among them
    """

    firsts: tuple[int, ...]
    period: int
    times: int

    @property
    def left_out(self) -> int:
        """Steps that the longest simulation has not."""
        return len(self.firsts) * (self.times - KEPT[-1]) * self.period

    def kept(self, steps: int, times: int) -> list[int]:
        """Numbers of the steps that are left with so many periods at each place."""
        kept, at = list[int](), 0
        for first in self.firsts:
            kept += range(at, first + times * self.period)
            at = first + self.times * self.period
        return [*kept, *range(at, steps)]


def longest_repeat(steps: Sequence[Step]) -> Repeat | None:
    """The repeat that leaves out most steps; None if all are too short."""
    numbers: dict[Any, int] = {}
    marks = [numbers.setdefault(_signature(step), len(numbers)) for step in steps]
    found: list[Repeat] = []
    for period in range(1, len(marks) // (KEPT[-1] + 1) + 1):
        runs = [run for run in _runs(marks, period) if run[1] > KEPT[-1]]
        for times in {times for _, times in runs}:
            firsts = tuple(first for first, longest in runs if longest >= times)
            found.append(Repeat(firsts, period, times))
    return max(found, key=lambda repeat: repeat.left_out, default=None)


def _signature(step: Step) -> tuple[Any, ...]:
    """All of a step that takes time; not where its data lies."""
    copies = tuple((t.name, t.to_l1, t.copy.size, t.copy.line) for t in step.transfers)
    return step.shape, copies


def _runs(marks: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Where marks repeat, and for how many periods."""
    first = 0
    for at in range(period, len(marks) + 1):
        if at == len(marks) or marks[at] != marks[at - period]:
            if at - first >= 2 * period:
                yield first, (at - first) // period
            first = at - period + 1


@dataclass(frozen=True)
class Tiled:
    """The program of a point that has tiles, and its plan."""

    program: Program
    plan: Plan

    @classmethod
    def of(cls, layer: Layer, point: Point, chip: SocSpec) -> "Tiled":
        """Build it.

        raises    KernelError if it cannot be built
        """
        family, arguments = layer.family, layer.checked(point.arguments)
        tensors = family.tensors(arguments)
        assert family.tiling is not None
        tiling = family.tiling(arguments)
        k = new_kernel(chip, family.name)
        l2 = {n: k.buffer(k.l2, n, t.size) for n, t in tensors.items() if t.role != "scratch"}
        with team_of(k, chip, point.cores) as team:
            how = tiling, tensors, arguments.tile or {}, arguments.buffers
            plan = Plan.of(k, team, *how)
            with passes(k, is_warm=False) as region, region("compute"):
                Walk(k, team, plan, l2).emit()
                team.barrier()
        for name, array in family.random(arguments).items():
            k.put(l2[name], array.tobytes())
        return cls(k.build(), plan)

    def shortened(self, kept: Sequence[int]) -> Program:
        """The program with some of its steps alone.

        An entry says where its successor is in L1's ring of entries, and where the DMA finds the
        one behind that: these depend on its place in the table, all else on its step.
        """
        symbols = {symbol.name: symbol for symbol in self.program.symbols}
        table, ring, size = symbols["schedule"], symbols["entries"].address, self.plan.entry_size
        data = self._segment(table.address)
        start = table.address - data.address
        all_entries = np.frombuffer(data.data, "<u4", table.size // WORD, start)
        entries = all_entries.reshape(-1, size // WORD)[[*kept, len(self.plan.steps)]].copy()
        number = np.arange(len(kept), dtype=np.uint32)
        command = self.plan.first_block // WORD + 1
        entries[:-1, NEXT // WORD] = ring + (number + 1) % RING * size
        entries[:-1, command + 1] = ring + (number + 2) % RING * size
        entries[:-1, command + 2] = table.address + (number + 2) * size
        shorter = data.data[:start] + entries.tobytes() + data.data[start + entries.nbytes :]
        segments = (data._replace(data=shorter) if s == data else s for s in self.program.segments)
        return replace(self.program, segments=tuple(segments))

    def _segment(self, address: int) -> Any:
        return next(
            s for s in self.program.segments if s.address <= address < s.address + len(s.data)
        )


@dataclass(frozen=True)
class Estimate:
    """Cycles of all steps, the bound of their error as a part of them, and bytes of L1."""

    cycles: int
    error: float
    l1_bytes: int


def estimate(layer: Layer, point: Point, chip: SocSpec, max_cycles: int) -> Estimate | None:
    """Simulate a part of a point that has tiles; None if its cycles do not follow from it.

    raises    KernelError if it cannot be built
    """
    built = Tiled.of(layer, point, chip)
    steps = len(built.plan.steps)
    repeat = longest_repeat(built.plan.steps)
    if repeat is None:
        return None
    kept = [repeat.kept(steps, times) for times in KEPT]
    if sum(map(len, kept)) > MOST * steps:
        return None
    results = [run_program(built.shortened(k), chip, max_cycles=max_cycles) for k in kept]
    if any((r.exit.reason, r.exit.code) != ("exit", 0) for r in results):
        return None
    few, some, most = map(_cycles, results)
    left = repeat.times - KEPT[2]
    slopes = (some - few) / (KEPT[1] - KEPT[0]), (most - some) / (KEPT[2] - KEPT[1])
    cycles = round(most + left * (most - few) / (KEPT[2] - KEPT[0]))
    error = left * abs(slopes[1] - slopes[0]) / cycles
    if error > WORST:
        return None
    return Estimate(cycles, error, l1_bytes(built.program, chip))


def _cycles(result: RunResult) -> int:
    """Of the first region, which is all of the layer, on the slowest core."""
    harts = result.to_json()["harts"]
    return max(region["cycles"] for hart in harts for region in hart["regions"][:1])


class Steady:
    """Measures points by estimates where there are any, and in full elsewhere.

    full    measures, keeps and reports
    """

    def __init__(self, full: Measure) -> None:
        self.full = full

    def __call__(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each point.

        raises    ConfigError if the database refuses
        """
        full = self.full
        keys = {point: self._key(point) for point in points if point.tile is not None}
        known = full.database.find(keys.values())
        found = {point: known[key] for point, key in keys.items() if key in known}
        found |= self._estimates({p: key for p, key in keys.items() if p not in found})
        rest = [point for point in points if found.get(point, NONE) == NONE]
        for point in found.keys() - set(rest):
            full.on_end(point, found[point])
        found |= zip(rest, full(rest) if rest else [], strict=True)
        return [found[point] for point in points]

    def _estimates(self, keys: Mapping[Point, str]) -> dict[Point, Outcome]:
        """Estimate points side by side, and keep each as it ends."""
        full, found = self.full, dict[Point, Outcome]()
        with ThreadPoolExecutor(full.limits.workers or os.cpu_count()) as threads:
            futures = {threads.submit(self._outcome, point): point for point in keys}
            try:
                for future in as_completed(futures):
                    point = futures[future]
                    found[point] = future.result()
                    arguments = self._arguments(point)
                    kernel, chip = full.layer.kernel + KIND, full.chip.name
                    full.database.keep(keys[point], kernel, arguments, chip, found[point])
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    def _arguments(self, point: Point) -> dict[str, Any]:
        arguments: dict[str, Any] = self.full.layer.checked(point.arguments).model_dump(mode="json")
        return arguments

    def _key(self, point: Point) -> str:
        full = self.full
        kernel = full.layer.kernel + KIND
        return key_of(kernel, self._arguments(point), full.chip, full.limits.max_cycles)

    def _outcome(self, point: Point) -> Outcome:
        full = self.full
        try:
            found = estimate(full.layer, point, full.chip, full.limits.max_cycles)
        except KernelError as error:
            return Outcome(None, None, str(error))
        return Outcome(found.cycles, found.l1_bytes) if found else NONE
