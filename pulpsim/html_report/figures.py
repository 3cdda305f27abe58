"""Figures of a page: a run's counters, from its trace or from the JSON that it left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pulpsim.html_report.recording import Recording
from pulpsim.html_report.stall_groups import PART, parts_of
from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind, Trace, TraceError

CONTROLLER = "fc"
"""Name of the hart that is no core of the cluster."""


@dataclass(frozen=True)
class Hart:
    """A hart's counters.

    parts      its cycles by part, as in parts.PARTS; they add up to all of them
    regions    of the result's JSON, where that is what is shown
    """

    name: str
    instructions: int
    stalls: Mapping[str, int]
    parts: list[int]
    regions: tuple[dict[str, Any], ...] = ()

    @property
    def cycles(self) -> int:
        return sum(self.parts)


@dataclass(frozen=True)
class Figures:
    """A run in figures.

    about        what ran, on what; "" if the file does not say
    banks        accesses and lost arbitrations of each bank of L1
    notes        what people should know before they trust the page
    by_dma       of the accesses to L1, those of the DMA
    kernel       what a kernel computed, as in the result's JSON; empty for other programs
    recording    the trace, if there is one
    checks       what checks have found, as in the result's JSON; empty if none were made
    is_summed    are the counters sums over all events of its cycles?
    """

    file: str
    about: str
    cycles: int
    harts: tuple[Hart, ...]
    banks: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()
    by_dma: int = 0
    kernel: Mapping[str, Any] = field(default_factory=dict)
    recording: Recording | None = None
    is_summed: bool = False
    checks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workers(self) -> tuple[int, ...]:
        """The cores that ran; the fabric controller if none did."""
        cores = [i for i, hart in enumerate(self.harts) if hart.name != CONTROLLER]
        ran = tuple(i for i in cores if self.harts[i].instructions)
        return ran or tuple(i for i, hart in enumerate(self.harts) if hart.instructions)

    @property
    def conflicts(self) -> int:
        """Lost arbitrations of L1, all initiators together."""
        return sum(conflicts for _, conflicts in self.banks)


Counters = tuple[tuple[Hart, ...], tuple[tuple[int, int], ...]]
"""Of harts, and the accesses and lost arbitrations of banks."""


def of_result(result: Mapping[str, Any], name: str) -> Figures:
    """The figures of a run's JSON, as soc.result_file reads it."""
    return Figures(
        Path(name).name,
        "",
        result["cycles"],
        tuple(_hart_of(hart) for hart in result["harts"]),
        tuple((bank["accesses"], bank["conflicts"]) for bank in result["l1"]["banks"]),
        ("no trace: what needs times and addresses is left out", *result["warnings"]),
        result["dma"]["l1_accesses"],
        result.get("program") or {},
        checks=result.get("checks") or {},
    )


def _hart_of(hart: Mapping[str, Any]) -> Hart:
    stalls = {cause: hart["stalls"][cause] for cause in CAUSES if hart["stalls"].get(cause)}
    parts = parts_of(hart["instructions"], stalls, None)
    return Hart(hart["name"], hart["instructions"], stalls, parts, tuple(hart["regions"]))


def of_trace(trace: Trace) -> Figures:
    """The figures of a trace: sums over its events.

    raises    TraceError if its events cannot be
    """
    recording = Recording(trace)
    counted = _counted(recording)
    harts, banks = counted or _summed(recording)
    chip = trace.header.get("chip")
    name = chip.get("name", "") if isinstance(chip, dict) else ""
    program = Path(str(trace.header.get("program", ""))).name
    return Figures(
        trace.path.name,
        " on ".join(part for part in (program, name) if part),
        recording.cycles,
        harts,
        banks,
        tuple(_notes(recording, harts)),
        recording.of(Kind.DMA).size,
        recording=recording,
        is_summed=counted is None and not trace.header.get("filters"),
    )


def _summed(recording: Recording) -> Counters:
    """Sum counters of harts and banks over the events."""
    issues = np.bincount(recording.of(Kind.ISSUE)["hart"], minlength=len(recording.trace.harts))
    at_barriers = recording.activity[:, PART["barrier"]].sum(axis=1)
    harts = []
    for index, name in enumerate(recording.trace.harts):
        stalls = recording.stalls[index].tolist()
        causes = {cause: cycles for cause, cycles in zip(CAUSES, stalls, strict=True) if cycles}
        parts = parts_of(int(issues[index]), causes, int(at_barriers[index]))
        harts.append(Hart(name, int(issues[index]), causes, parts))
    return tuple(harts), tuple((int(accesses), int(lost)) for accesses, lost in recording.banks)


def _counted(recording: Recording) -> Counters | None:
    """Return counters of the run itself, None where the events are complete.

    raises    TraceError if the header has no such counters
    """
    header = recording.trace.header
    if recording.is_whole or header.get("part") or "counts" not in header:
        return None
    try:
        harts = [
            {"name": name, "regions": (), "instructions": counts["instructions"], "stalls": counts}
            for name, counts in zip(recording.trace.harts, header["counts"], strict=True)
        ]
        banks = tuple((int(bank["accesses"]), int(bank["conflicts"])) for bank in header["l1"])
        return tuple(_hart_of(hart) for hart in harts), banks
    except (KeyError, TypeError, ValueError):
        raise TraceError(f"{recording.trace.path}: damaged: its header tells no counters") from None


def _notes(recording: Recording, harts: tuple[Hart, ...]) -> Iterator[str]:
    """Say how the run ended if not well, and what is missing in its trace."""
    trace = recording.trace
    if trace.header.get("part"):
        last = trace.cycles - 1
        yield f"only the cycles {trace.first_cycle:,} to {last:,} of the run are shown"
    end = trace.header.get("exit")
    if isinstance(end, dict) and (end.get("reason") != "exit" or end.get("code")):
        yield str(end.get("message") or f"the run ended by {end.get('reason')} {end.get('code')}")
    if trace.gap:
        yield f"the trace is not complete: {trace.gap}"
    if trace.header.get("filters"):
        filters = ", ".join(map(str, trace.header["filters"]))
        yield f"recorded with filters ({filters}): pictures do not show the rest"
    if recording.is_whole:
        odd = [hart.name for hart in harts if hart.cycles != recording.cycles]
        if odd:
            yield f"the events do not account for every cycle of {', '.join(odd)}"
