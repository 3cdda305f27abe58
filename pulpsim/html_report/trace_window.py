"""A part of a trace as a trace of its own: what happened from one cycle to another.

What goes on over its ends is cut there: stalls, sleep, transfers of the DMA and regions.
"""

import re

import numpy as np

from soc.config.toml import ConfigError
from soc.trace.reader import EVENT, Kind, Trace

LASTING = (Kind.STALL, Kind.SLEEP)
"""Kinds whose events have their length in `b`."""
MARKS = (Kind.TRANSFER, Kind.REGION)
"""Kinds of which one event begins and another one ends."""


def window(trace: Trace, first: int, end: int) -> Trace:
    """The cycles first .. end - 1 of the run."""
    begin, stop = first - trace.first_cycle, end - trace.first_cycle
    events = trace.events
    kinds, cycles = events["kind"], events["cycle"]
    inside = (cycles >= begin) & (cycles < stop)
    lasting = np.isin(kinds, LASTING) & (cycles < begin)
    lasting[lasting] = cycles[lasting] + events["b"][lasting].astype(np.int64) > begin
    chosen = np.array(events[inside | lasting | np.isin(kinds, MARKS)], EVENT)
    lasts = np.isin(chosen["kind"], LASTING)
    starts = chosen["cycle"].astype(np.int64)
    ends = np.minimum(starts + chosen["b"], stop)
    chosen["cycle"] = np.clip(starts, begin, stop) - begin
    chosen["b"] = np.where(lasts, ends - np.maximum(starts, begin), chosen["b"])
    cut = {"first_cycle": first, "cycles": end, "part": True, "events": chosen.size}
    gap = {"complete": trace.complete, "why": trace.gap}
    return Trace(trace.path, trace.header | cut | gap, chosen)


def parsed(text: str, trace: Trace) -> tuple[int, int]:
    """The cycles that "1000-2000" stands for, the end left out: first, and after the last.

    raises    ConfigError if it is no range of cycles of the trace
    """
    found = re.fullmatch(r"(\d[\d_]*)-(\d[\d_]*)", text)
    if not found:
        raise ConfigError([f"--cycle {text}: must be a range such as 1000-2000"])
    first, end = (int(number) for number in found.groups())
    if end <= first:
        raise ConfigError([f"--cycle {text}: ends before it begins"])
    if first < trace.first_cycle or end > trace.cycles:
        there = f"{trace.first_cycle}-{trace.cycles}"
        raise ConfigError([f"--cycle {text}: the trace has the cycles {there}"])
    return first, end
