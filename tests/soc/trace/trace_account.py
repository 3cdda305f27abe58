"""Holds a trace against the counters of its run: every event that is counted is there, once."""

from pathlib import Path
from typing import Any

import numpy as np

from soc.prelude.counters import CAUSES, COUNT
from soc.result import RunResult
from soc.run import run_program
from soc.trace.reader import OUTSIDE_L1, Kind, Trace
from soc.trace.recorder import Recording

MISC_MEM = 0b0001111
"""Major opcode of fences."""


def recorded(file: Path, *arguments: Any, **how: Any) -> tuple[RunResult, Trace]:
    """Run a program with a trace; `how` goes to Recording or to run_program."""
    options = {key: how.pop(key) for key in ("limit", "filters", "regions") if key in how}
    result = run_program(*arguments, trace=Recording(file, **options), **how)
    return result, Trace.open(file)


def numbers(result: RunResult) -> dict[str, Any]:
    """All that a run reports but how long it took."""
    return {key: value for key, value in result.to_json().items() if key != "host"}


def check(trace: Trace, result: RunResult) -> None:
    """Every hart's cycles are told without gaps, and the events add up to the counters."""
    assert trace.gap == ""
    assert trace.cycles == result.cycles
    assert (np.diff(trace.events["cycle"].astype(np.int64)) >= 0).all()
    for h in range(result.chip.harts.size):
        _check_hart(trace, result, h)
    accesses = trace.select([Kind.MEMORY, Kind.DMA])
    accesses = accesses[is_in_l1(accesses)]
    assert _by_bank(accesses["a"] >> 2, trace) == result.chip.banks["accesses"].tolist()
    conflicts = trace.select(Kind.CONFLICT)
    assert _by_bank(conflicts["extra"], trace) == result.chip.banks["conflicts"].tolist()
    assert ((conflicts["b"] >> 2) % trace.banks == conflicts["extra"] & 0xFF).all()
    assert (conflicts["extra"] >> 8 != conflicts["hart"]).all()


def is_in_l1(accesses: np.ndarray) -> np.ndarray:
    return (accesses["kind"] == Kind.DMA) | (accesses["extra"] & OUTSIDE_L1 == 0)


def _by_bank(numbers: np.ndarray, trace: Trace) -> list[int]:
    return np.bincount(numbers % trace.banks, minlength=trace.banks).tolist()


def _check_hart(trace: Trace, result: RunResult, h: int) -> None:
    counts = result.chip.harts["counts"][h]
    told = trace.select([Kind.ISSUE, Kind.STALL], h)
    is_stall = told["kind"] == Kind.STALL
    stalls = told[is_stall]
    for number, name in enumerate(CAUSES):
        told_cycles = int(stalls["b"][stalls["extra"] == number].sum())
        assert told_cycles == counts[COUNT.load_use + number], (trace.harts[h], name)
    uncounted = ~is_stall & _are_fences(trace, told["a"])
    assert (~is_stall & ~uncounted).sum() == counts[COUNT.instructions]
    _check_cycles(told, np.where(is_stall, told["b"], 1) - uncounted, result.cycles)
    memory = trace.select(Kind.MEMORY, h)
    assert is_in_l1(memory).sum() == counts[COUNT.l1_accesses]
    assert (memory["extra"] & 1).sum() >= counts[COUNT.stores]
    if not result.chip.harts["external"][h]:
        assert trace.select(Kind.CONFLICT, h).size == counts[COUNT.l1_contention]
    sleep = trace.select(Kind.SLEEP, h)
    asleep = stalls[stalls["extra"] == CAUSES.index("event")]
    assert sleep[["cycle", "a", "b"]].tolist() == asleep[["cycle", "a", "b"]].tolist()


def _are_fences(trace: Trace, pcs: np.ndarray) -> np.ndarray:
    """Instructions that RI5CY does not count: see soc.prelude.decoded."""
    if not trace.header["isa"].startswith("ri5cy"):
        return np.zeros(pcs.size, bool)
    known, places = np.unique(pcs, return_inverse=True)
    words = [trace.word_at(int(pc)) for pc in known]
    return np.array([word is not None and word & 0x7F == MISC_MEM for word in words], bool)[places]


def _check_cycles(told: np.ndarray, lengths: np.ndarray, cycles: int) -> None:
    """Each instruction or stall begins where the one before it ends."""
    ends = np.cumsum(lengths.astype(np.int64))
    assert told["cycle"].tolist() == [0, *ends[:-1].tolist()]
    assert ends[-1] == cycles
