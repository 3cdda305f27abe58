"""Regions that a program measures between two markers, slti x0, x0, n."""

from soc.prelude.counters import COUNT, REGIONS
from soc.prelude.step import cold_step
from soc.prelude.trace_points import note_region


@cold_step
def mark_region(chip, h, number, cycle):
    """Open region number / 2, or close it if number is odd, at a marker's issue.

    A grant in the marker's own issue cycle does not belong to what precedes it (rule J).
    """
    hart = chip.harts[h]
    note_region(chip, hart, number, cycle)
    region = chip.regions[h * REGIONS + (number >> 1)]
    counts = hart["counts"]
    early = 1 if hart["l1_grant"] == cycle else 0
    if number & 1 == 0:
        if region["count"] == 0 and region["open"] == 0:
            region["first_start"] = cycle
        region["open"] = 1
        region["start"] = cycle
        for k in range(counts.size):
            region["at_start"][k] = counts[k]
        region["at_start"][COUNT.l1_accesses] -= early
    elif region["open"]:
        region["open"] = 0
        region["count"] += 1
        region["cycles"] += cycle - region["start"]
        for k in range(counts.size):
            region["total"][k] += counts[k] - region["at_start"][k]
        region["total"][COUNT.l1_accesses] -= early
