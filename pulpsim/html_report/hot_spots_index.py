"""Where in the program cycles go: what the sums of instructions, SUM[n], amount to."""

from collections.abc import Sequence

import numpy as np

from pulpsim.html_report.stall_groups import IDLE, PART, PART_OF, PARTS
from soc.prelude.counters import CAUSES


def busy(sites: np.ndarray) -> np.ndarray:
    """Cycles in which harts executed each instruction or waited for it, without sleep: int64[n]."""
    return sites["issues"] + stalled(sites, [cause for cause in CAUSES if cause not in IDLE])


def stalled(sites: np.ndarray, causes: Sequence[str]) -> np.ndarray:
    """Cycles of some causes, int64[n]."""
    return sites["stalls"][:, [CAUSES.index(cause) for cause in causes]].sum(axis=1)


def parts(sites: np.ndarray) -> np.ndarray:
    """Cycles by part, int64[n, PARTS]; sleep is not divided further."""
    cycles = np.zeros((len(PARTS), sites.size), np.int64)
    np.add.at(cycles, PART_OF, sites["stalls"].T)
    cycles[PART["work"]] += sites["issues"]
    return cycles.T
