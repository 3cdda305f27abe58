"""Loops through the instruction cache, measured on RTL: the cycles of each of six iterations."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from pulpsim.fidelity.comparison import Comparison, Measurement, compared
from pulpsim.fidelity.fetch_bench import Bench, loops

DATA = Path(__file__).parent / "data"


def measured_loops() -> list[dict[str, Any]]:
    """What was measured: name, latency (of L2), instructions, cycles by core and iteration."""
    return [json.loads(line) for line in (DATA / "icache_loops.jsonl").read_text().splitlines()]


def title(run: dict[str, Any]) -> str:
    """Configuration of a measured run."""
    cores = len(run["cycles"])
    return f"{cores} core{'s' * (cores > 1)}, latency {run['latency']}"


def measurements() -> Iterator[Measurement]:
    """Each loop on one core or on eight, by the latency of L2."""
    for run in measured_loops():
        cycles = sum(map(sum, run["cycles"]))
        repeat = partial(repeat_loop, run)
        yield Measurement("icache", run["name"], title(run), cycles, repeat, engines=("compiled",))


def repeat_loop(run: dict[str, Any], _engine: str = "compiled") -> Comparison:
    """Repeat a loop: the caches with harts that do nothing but issue."""
    found = simulated_iterations(run)
    parts = [
        compared(f"core {core}", {"cycles": rtl}, {"cycles": ours})
        for core, (rtl, ours) in enumerate(zip(run["cycles"], found, strict=True))
    ]
    return Comparison(sum(map(sum, run["cycles"])), sum(map(sum, found)), tuple(parts))


def simulated_iterations(run: dict[str, Any]) -> list[list[int]]:
    """By core, the cycles of each iteration."""
    bench = Bench([loops()[run["name"]]] * len(run["cycles"]), run["latency"])
    return iterations(bench.run())


def iterations(marks: list[list[int]]) -> list[list[int]]:
    """By core, the cycles from start to stop marker of each iteration."""
    return [[stop - start for start, stop in pairwise(core)][::2] for core in marks]
