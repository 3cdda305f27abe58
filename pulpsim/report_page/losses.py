"""Where the cycles went that did no work: each loss in cycles, where it lies, what would help.

The losses are a partition: together with the instructions they are all cycles of the cores.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pulpsim.report_page import advice
from pulpsim.report_page.conflict_advice import conflicts as about_conflicts
from pulpsim.report_page.evidence import Evidence


@dataclass(frozen=True)
class Loss:
    """Cycles without work.

    key       of the colour, as in the style sheet
    cycles    of all cores together
    where     sentences: how it shows
    help      sentences: what would make it less
    """

    key: str
    name: str
    cycles: int
    where: str = ""
    help: str = ""


SIMPLE = (
    ("fetch", "Instruction-cache misses", ("fetch",), advice.fetch),
    ("wait", "Loads used at once", ("load_use",), advice.load_use),
    (
        "wait",
        "Waits for the FPU",
        ("fpu_dependency", "fpu_contention", "fpu_writeback"),
        advice.fpu,
    ),
    ("wait", "Long multiplications and divisions", ("multicycle",), advice.multicycle),
    ("flow", "Branches and jumps", ("branch", "jump", "jump_register"), advice.flow),
    ("outside", "Loads and stores beyond L1", ("load_external", "store_external"), advice.outside),
    ("outside", "Misaligned accesses", ("misaligned",), advice.misaligned),
    ("other", "CSRs, fences and traps", ("csr", "fence", "trap"), advice.rare),
    ("asleep", "Asleep until an interrupt", ("wfi",), advice.for_good),
    ("off", "Not started yet, or ended", ("off",), advice.for_good),
)
"""Losses that causes of stalls alone tell: colour, name, causes, what to say."""


def losses(evidence: Evidence) -> list[Loss]:
    """All losses of a run, the largest first."""
    found = [loss for loss in _all(evidence) if loss.cycles > 0]
    return sorted(found, key=lambda loss: -loss.cycles)


def _all(evidence: Evidence) -> Iterator[Loss]:
    harts = evidence.figures.harts
    spare = sum(harts[core].cycles - harts[core].instructions for core in evidence.idle)
    yield Loss("asleep", "Cores without work", spare, *advice.idle(evidence))
    conflicts = evidence.stalls["l1_contention"]
    yield Loss("conflict", "Conflicts at L1's banks", conflicts, *about_conflicts(evidence))
    yield from _sleeping(evidence)
    for key, name, causes, words in SIMPLE:
        cycles = sum(evidence.stalls[cause] for cause in causes)
        yield Loss(key, name, cycles, *words(evidence, causes))


def _sleeping(evidence: Evidence) -> Iterator[Loss]:
    sleep = evidence.sleep
    if sleep is None:
        asleep = evidence.stalls["event"]
        yield Loss("asleep", "Asleep at the event unit", asleep, *advice.asleep(evidence))
        return
    yield Loss("asleep", "Waits for the DMA", sleep.dma, *advice.dma(evidence))
    yield Loss("barrier", "Waits for slower cores", sleep.imbalance, *advice.imbalance(evidence))
    yield Loss("barrier", "Barriers themselves", sleep.barrier, *advice.barriers(evidence))
    yield Loss("asleep", "Asleep without work", sleep.other, *advice.other_sleep(evidence))
