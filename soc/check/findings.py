"""Findings: what a check has found, once for each pair of instructions.

Compiled code notes them in the chip's `findings`; soc.check.report says them in words.
"""

import numpy as np

from soc.chip.shadow import MOST_FINDINGS
from soc.prelude.step import cold_step, inlined_step

RACE, UNWRITTEN, OUTSIDE, CONSTANT, IN_FLIGHT, LEAK = range(6)
"""Kinds: no order; a byte that was not written; was not given; that may not be written; that a copy
under way writes or reads; a counter of the DMA that was never freed."""

NOBODY = -1
HART_SHIFT = 56
"""A stamp is a cycle, and above it who acted: of a copy, the hart that has started it."""
CYCLE = (1 << HART_SHIFT) - 1


@inlined_step
def stamp_of(cycle, hart):
    """When, and by which hart."""
    return cycle | hart << HART_SHIFT


@inlined_step
def _is_known(finding, kind, pc, earlier_pc):
    return finding["kind"] == kind and finding["pc"][0] == pc and finding["pc"][1] == earlier_pc


@cold_step
def found(
    chip,
    kind,
    byte,
    size,
    thread,
    stamp,
    pc,
    is_write,
    earlier,
    earlier_stamp,
    earlier_pc,
    earlier_write,
):
    """Note a finding: this access, and the earlier one if there is one (`earlier` not NOBODY)."""
    check = chip.check[0]
    for number in range(check["findings"]):
        known = chip.findings[np.uint64(number)]
        if _is_known(known, kind, pc, earlier_pc):
            known["count"] += 1
            return
    if check["findings"] == MOST_FINDINGS:
        check["dropped"] += 1
        return
    finding = chip.findings[np.uint64(check["findings"])]
    check["findings"] += 1
    finding["kind"], finding["byte"], finding["size"], finding["count"] = kind, byte, size, 1
    finding["thread"][0], finding["thread"][1] = thread, earlier
    finding["cycle"][0], finding["cycle"][1] = stamp & CYCLE, earlier_stamp & CYCLE
    finding["hart"][0], finding["hart"][1] = stamp >> HART_SHIFT, earlier_stamp >> HART_SHIFT
    finding["pc"][0], finding["pc"][1] = pc, earlier_pc
    finding["is_write"][0], finding["is_write"][1] = is_write, earlier_write


@inlined_step
def found_alone(chip, kind, byte, size, thread, stamp, pc, is_write):
    """Note a finding of one access."""
    found(chip, kind, byte, size, thread, stamp, pc, is_write, NOBODY, 0, 0, 0)
