"""Counters at the end of a run, and of its trace: what harts wait for then is counted too."""

import numpy as np

from soc.chip.state import Chip
from soc.prelude import hart_state as harts_module
from soc.prelude.counters import COUNT, COUNTS
from soc.result import Exit
from soc.trace.recorder import Recorder

WAITING = {
    harts_module.SLEEP: COUNT.event,
    harts_module.WFI: COUNT.wfi,
    harts_module.OFF: COUNT.off,
    harts_module.L1_REQUEST: COUNT.l1_contention,
    harts_module.FETCHING: COUNT.fetch,
}
"""Cause of the cycles of a hart that waits at the end, by its state."""

WAITING_CAUSES = np.array([WAITING.get(state, 0) for state in range(harts_module.LATER + 1)])


def close_counts(chip: Chip, cycles: int) -> np.ndarray:
    """Let each hart's cycles be those simulated: what it waits for at the end is counted too.

    Returns what was added, [harts, COUNTS].
    """
    before = chip.harts["counts"].copy()
    chip.harts["counts"] = closed_counts(chip, cycles)
    rest: np.ndarray = chip.harts["counts"] - before
    return rest


def closed_counts(chip: Chip, cycles: int, waiting: np.ndarray = WAITING_CAUSES) -> np.ndarray:
    """counts[harts, COUNTS] with what harts wait for at this cycle, which is counted only later.

    waiting    cause by the state of a hart; 0: what it waited for last
    """
    closed: np.ndarray = chip.harts["counts"].copy()
    counted = closed[:, COUNT.instructions] + closed[:, COUNT.load_use :].sum(axis=1)
    awaited = waiting[chip.harts["state"]]
    last = np.where(chip.harts["cause"], chip.harts["cause"], COUNT.load_external)
    cause = np.where((awaited == 0) | (counted > cycles), last, awaited)
    closed[np.arange(len(closed)), cause] += cycles - counted
    return closed


def close_trace(recorder: Recorder, chip: Chip, rest: np.ndarray, cycles: int, end: Exit) -> None:
    """End a recording with the counts that the trace's events add up to.

    rest    what close_counts has added
    """
    recorder.close(
        rest,
        cycles,
        f"the run was {end.message}" if end.reason == "interrupted" else "",
        exit=vars(end),
        counts=[dict(zip(COUNTS, counts.tolist(), strict=True)) for counts in chip.harts["counts"]],
        l1=[{name: int(bank[name]) for name in ("accesses", "conflicts")} for bank in chip.banks],
    )
