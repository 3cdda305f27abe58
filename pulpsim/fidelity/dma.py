"""Transfers of the cluster DMA measured on MCHAN's RTL: 11,927 tests by what they vary.

Compared of each: grants of the control ports, events, every change of STATUS, bursts on the L2
side with their beats, accesses to L1 and lost arbitrations, both memories at the end; of 59 every
access to L1.
"""

import json
import lzma
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pulpsim.fidelity.comparison import Comparison, Deviation, Measurement, compared
from pulpsim.fidelity.dma_bench import KINDS, Script, ScriptResult, memory_hash, parse_scripts, run
from pulpsim.fidelity.dma_notes import AXI, BURSTS, EVENTS, LANES, STATUSES

DATA = Path(__file__).parent / "data"

FAMILIES = {
    "1d": "sizes of 1 to 65,536 bytes, 11 latencies",
    "al": "30 sizes at 8 x 8 alignments",
    "2d": "lines and strides",
    "mu": "2 to 8 commands of one core or of as many",
    "mur": "commands of several cores whose reads and writes meet in L2",
    "bi": "both directions with one counter",
    "gap1": "read beats every second cycle",
    "gap2": "every third",
    "gap3": "every fourth",
    "cf": "L1 shared with random rivals",
    "tr": "access by access",
    "gapst": "stores with pauses",
    "other": "broadcast, no event, polling, all counters taken",
}
"""Tests by the first part of their names: what they vary."""

Test = tuple[Script, dict[str, Any]]


@cache
def measured_tests() -> dict[str, list[Test]]:
    """All tests, each with what was measured."""
    families: dict[str, list[Test]] = {name: [] for name in FAMILIES}
    with lzma.open(DATA / "dma_scripts.txt.xz", "rt") as text:
        scripts = parse_scripts(text.read())
    with lzma.open(DATA / "dma_measured.jsonl.xz", "rt") as lines:
        for script, line in zip(scripts, lines, strict=True):
            measured = json.loads(line)
            assert script.name == measured["name"]
            first = script.name.split("_")[0]
            families[first if first in FAMILIES else "other"].append((script, measured))
    return families


def measurements() -> Iterator[Measurement]:
    """Each family of tests, its cycles added up."""
    for name, about in FAMILIES.items():
        cycles = sum(last_change(measured) for _, measured in measured_tests()[name])
        repeat = partial(repeat_family, name)
        yield Measurement("dma", name, about, cycles, repeat, engines=("compiled",))


def repeat_family(name: str, _engine: str = "compiled") -> Comparison:
    """Repeat a family's tests: the DMA by itself, on the bench of the RTL."""
    parts: list[Deviation] = []
    rtl_cycles = cycles = rtl_waits = waits = 0
    for script, measured in measured_tests()[name]:
        rtl, simulated = repeat_test(script, measured)
        parts.append(compared(script.name, rtl, simulated))
        rtl_cycles += rtl["cycles"]
        cycles += simulated["cycles"]
        rtl_waits += rtl["tcdm_conf"]
        waits += simulated["tcdm_conf"]
    return Comparison(rtl_cycles, cycles, tuple(parts), rtl_waits, waits)


def repeat_test(
    script: Script, measured: dict[str, Any], *, memories: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a test: the RTL's numbers and the simulator's.

    memories    hash both memories, which takes longer than the rest
    """
    result = run(script, until=measured["end"] + 1 if "cn" in script.options else 0)
    simulated = outcome(result, is_traced="tcdm" in measured, memories=memories)
    ordered = {"ops": in_order(measured["ops"]), "axi": in_order(measured["axi"])}
    rtl = {**measured, **ordered, "cycles": last_change(measured)}
    return {name: rtl[name] for name in simulated}, simulated


def last_change(numbers: dict[str, Any]) -> int:
    """The cycle of the last event or change of STATUS: all transfers have ended."""
    return max(row[0] for name in ("evt", "status") for row in numbers[name])


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of one cycle in a fixed order: what happens in a cycle happens at once."""
    return sorted(rows, key=lambda row: (row[0], str(row[1]), str(row[2])))


def outcome(result: ScriptResult, *, is_traced: bool, memories: bool) -> dict[str, Any]:
    """What the simulator did, in the form of the measurements."""
    logs = [log.tolist() for log in result.logs]
    won = [row for row in logs[LANES] if row[4]]
    found: dict[str, Any] = {
        "ops": in_order([[c, port, KINDS[kind], value] for c, port, kind, value, *_ in logs[0]]),
        "evt": [row[:3] for row in logs[EVENTS]],
        "status": [row[:2] for row in logs[STATUSES]],
        "axi": in_order(
            [
                [cycle, AXI[kind], *rest[: 3 if AXI[kind].startswith("A") else 1]]
                for cycle, kind, *rest in logs[BURSTS]
            ]
        ),
        "tcdm_acc": len(won),
        "tcdm_conf": len(logs[LANES]) - len(won),
        "tcdm_first": won[0][0],
        "tcdm_last": won[-1][0],
        "comp_grants": result.rival_grants,
    }
    found["cycles"] = last_change(found)
    if is_traced:
        found["tcdm"] = logs[LANES]
    if memories:
        for name, words in (("h1", result.l1), ("h2", result.l2)):
            found[name] = f"{memory_hash(words.view(np.uint8)):016x}"
    return found
