"""The instruction cache, measured on RTL: loops of six iterations, matrix products, cold at first.

The programs run on RI5CY cores with the caches of the cluster on, before a memory of the latency
that was measured with. A loop's iterations are compared one by one where the event engine runs it,
together where the compiled one does.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from isa.program import Program
from pulpsim.fidelity.comparison import Comparison, Measurement, compared
from pulpsim.fidelity.programs import elfs
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

DATA = Path(__file__).parent / "data"
LIMIT = 1_000_000  # cycles; the longest takes 23,000
START, STOP = 0x00002013, 0x00102013  # slti x0, x0, 0 and 1: the markers of region 0

PRODUCTS = {
    "mmz_4x4_16x16x16_c8": {10: 2450, 30: 3030},
    "mmz_2x2_16x16x16_c8": {10: 1938, 30: 2336},
    "mmz_2x4_32x32x32_c8": {10: 8734, 30: 9215},
    "mmz_4x4_32x32x32_c8": {10: 7483, 30: 8058},
}
"""Cycles of whole programs on eight cores, by the latency of L2."""

START_UP = 102
"""Cycles in them before the RTL's harts fetch, which its measurement contains."""


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
        yield Measurement("icache", run["name"], title(run), cycles, partial(repeat_loop, run))
    for name, latencies in PRODUCTS.items():
        for latency, measured in latencies.items():
            cycles = measured - START_UP
            repeat = partial(repeat_product, name, latency, cycles)
            yield Measurement("icache", name, f"8 cores, latency {latency}", cycles, repeat)


def repeat_loop(run: dict[str, Any], engine: str = "compiled") -> Comparison:
    """Repeat a loop on all its cores."""
    result = simulate(f"icache/{run['name']}", len(run["cycles"]), run["latency"], engine)
    if engine == "event":
        rtl, found = run["cycles"], iterations(result)
    else:
        rtl, found = [[sum(core)] for core in run["cycles"]], totals(result)
    parts = [
        compared(f"core {core}", {"cycles": one}, {"cycles": other})
        for core, (one, other) in enumerate(zip(rtl, found, strict=True))
    ]
    return Comparison(sum(map(sum, rtl)), sum(map(sum, found)), tuple(parts))


def repeat_product(name: str, latency: int, cycles: int, engine: str = "compiled") -> Comparison:
    """Repeat a matrix product on eight cores."""
    result = simulate(f"ri5cy/{name}", 8, latency, engine)
    part = compared("program", {"cycles": cycles}, {"cycles": result.cycles})
    return Comparison(cycles, result.cycles, (part,))


def simulate(name: str, cores: int, latency: int, engine: str) -> RunResult:
    """Run a program of the archive to its end, before an L2 of this latency."""
    chip = load_chip(
        "ri5cy-rtl",
        {
            "cores": cores,
            "core.float_registers": "x",
            "icache": {"kind": "hierarchical", "enabled": True},
            "l2.private_banks": 0,  # one plain memory
            "l2.bank_latency": latency,
            "l2.cluster_synchronizer_stages": 0,
            "l2.soc_synchronizer_stages": 0,
        },
    )
    program = Program.from_elf(elfs()[f"{name}.elf"], f"{name}.elf")
    return run_program(
        program, chip, engine=engine, max_cycles=LIMIT, issue_trace=engine == "event"
    )


def totals(result: RunResult) -> list[list[int]]:
    """By core, the cycles of all iterations together, in a list of one."""
    return [
        [sum(region["cycles"] for region in hart["regions"])] for hart in result.to_json()["harts"]
    ]


def iterations(result: RunResult) -> list[list[int]]:
    """By core, the cycles from start to stop marker of each iteration."""
    assert result.issues is not None
    markers = result.issues[np.isin(result.issues["word"], (START, STOP))]
    cycles = [markers["cycle"][markers["hart"] == hart] for hart in range(result.spec.cores)]
    return [[int(stop - start) for start, stop in pairwise(core)][::2] for core in cycles]
