"""Where the speed-up of several cores goes: parts that add up to the loss, in core-cycles.

n cores take n * T(n) core-cycles for what one core does in T(1): the difference is lost. Every
core-cycle of both runs is put into one account, and a part is n cores' account less one core's:

    DMA                   regions in which cores do nothing but wait for copies; and what the others
                          sleep while one of them waits for a copy, as far as they do
    instruction misses    stalls for the instruction cache, of the computation
    conflicts             lost arbitrations
    barriers              sleep of the core that sleeps least, counted for every core
    imbalance             what the others sleep longer, and cycles that a core begins later or ends
                          earlier than the slowest
    instructions          of which several cores may need more than one
    pipeline              everything else: branches, operands that are waited for, accesses to L2

A part may be negative: eight cores have eight instruction caches.
"""

from collections import Counter
from typing import Any

from pulpsim.commands.study.study import Result

DMA, MISSES, CONFLICTS, BARRIERS, IMBALANCE, INSTRUCTIONS, PIPELINE = PARTS = (
    "DMA",
    "instruction misses",
    "conflicts",
    "barriers",
    "imbalance",
    "instructions",
    "pipeline",
)
ASLEEP = "event"  # at the event unit
ACCOUNTS = {"fetch": MISSES, "l1_contention": CONFLICTS}
COPIES = ("dma_in", "dma_out")
COMPUTE, WAIT = "compute", "dma_wait"  # the second lies in the first
OUTER = (*COPIES, COMPUTE)  # regions that follow each other

Account = dict[str, int]
Regions = dict[str, dict[str, Any]]


def account(result: Result) -> Account:
    """The core-cycles of a run, by part; their sum is cores * cycles_of."""
    cores, slowest = _cores(result), cycles_of(result)
    total: Counter[str] = Counter(dict.fromkeys(PARTS, 0))
    asleep, waited = [], []
    for regions in cores:
        own = _computation(regions)
        waited.append(regions[COMPUTE]["cycles"] - own["cycles"])
        total[DMA] += waited[-1] + sum(regions[n]["cycles"] for n in COPIES if n in regions)
        total[INSTRUCTIONS] += own["instructions"]
        for cause, cycles in own["stalls"].items():
            if cause != ASLEEP:
                total[ACCOUNTS.get(cause, PIPELINE)] += cycles
        asleep.append(own["stalls"].get(ASLEEP, 0))
        # A stall that a marker cuts in two belongs to both sides of it.
        total[PIPELINE] += own["cycles"] - own["instructions"] - sum(own["stalls"].values())
        total[IMBALANCE] += slowest - _spent(regions)
    total[BARRIERS] += len(cores) * min(asleep)
    unequal = sum(asleep) - len(cores) * min(asleep)
    for_copies = min(len(cores) * max(waited) - sum(waited), unequal)
    total[DMA] += for_copies
    total[IMBALANCE] += unequal - for_copies
    return dict(total)


def losses(many: Result, one: Result) -> Account:
    """Core-cycles that are lost to each part; their sum is n * T(n) - T(1)."""
    after, before = account(many), account(one)
    return {part: after[part] - before[part] for part in PARTS}


def cycles_of(result: Result) -> int:
    """Cycles from the first copy to the last, of the slowest core: T."""
    return max(map(_spent, _cores(result)))


def _cores(result: Result) -> list[Regions]:
    """Return the regions of each core that computes."""
    found = [{region["name"]: region for region in hart["regions"]} for hart in result["harts"]]
    return [regions for regions in found if COMPUTE in regions]


def _spent(regions: Regions) -> int:
    return sum(regions[name]["cycles"] for name in OUTER if name in regions)


def _computation(regions: Regions) -> dict[str, Any]:
    """Return the figures of the computation without its waits for copies."""
    outer, inner = regions[COMPUTE], regions.get(WAIT)
    if inner is None:
        return outer
    stalls: Counter[str] = Counter(outer["stalls"])
    stalls.subtract(inner["stalls"])
    return {
        "cycles": outer["cycles"] - inner["cycles"],
        "instructions": outer["instructions"] - inner["instructions"],
        "stalls": dict(stalls),
    }
