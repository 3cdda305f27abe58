"""Where the cycles went that did no work: each loss in cycles, where it lies, what would help.

The losses are a partition: together with the instructions they are all cycles of the cores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pulpsim.html_report import advice
from pulpsim.html_report.advice import Words
from pulpsim.html_report.conflict_advice import conflicts as about_conflicts
from pulpsim.html_report.evidence import Evidence

LARGEST = 3
"""Losses that are explained."""


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


@dataclass(frozen=True)
class Trial:
    """A change that would make a loss less, and what came of it when it was simulated.

    loss        its name
    predicted   cycles of the run if nothing of this loss were left, and all else stayed
    cycles      of the run with the change; None if it cannot be built, or ends otherwise
    """

    loss: str
    change: str
    predicted: int
    cycles: int | None

    def sentence(self, before: int) -> str:
        """What came of it.

        before    cycles of the recorded run
        """
        if self.cycles is None:
            return f"{self.change}: this kernel cannot be built so for this chip"
        saved, hoped = (100 * (1 - cycles / before) for cycles in (self.cycles, self.predicted))
        return (
            f"{self.change}: {self.cycles:,} cycles instead of {before:,}, "
            + (f"{saved:.1f} % fewer" if saved > 0 else "no fewer")
            + f"; {hoped:.1f} % if nothing of this loss were left"
        )


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
    ("other", "Misaligned accesses", ("misaligned",), advice.misaligned),
    ("other", "CSRs, fences and traps", ("csr", "fence", "trap"), advice.rare),
    ("asleep", "Asleep until an interrupt", ("wfi",), advice.for_good),
    ("off", "Not started yet, or ended", ("off",), advice.for_good),
)
"""Losses that causes of stalls alone tell: colour, name, causes, what to say."""


Candidate = tuple[str, str, int, Callable[[], Words]]
"""Colour, name, cycles, and what to say if there are any."""


def losses(evidence: Evidence) -> list[Loss]:
    """All losses of a run, the largest first."""
    found = [
        Loss(key, name, cycles, *words())
        for key, name, cycles, words in _candidates(evidence)
        if cycles > 0
    ]
    return sorted(found, key=lambda loss: -loss.cycles)


def _candidates(evidence: Evidence) -> Iterator[Candidate]:
    harts, stalls = evidence.figures.harts, evidence.stalls
    spare = sum(harts[core].cycles - harts[core].instructions for core in evidence.idle)
    yield "asleep", "Cores without work", spare, partial(advice.idle, evidence)
    lost, words = stalls["l1_contention"], partial(about_conflicts, evidence)
    yield "conflict", "Conflicts at L1's banks", lost, words
    yield from _sleeping(evidence)
    for key, name, causes, about in SIMPLE:
        cycles = sum(stalls[cause] for cause in causes)
        yield key, name, cycles, partial(about, evidence, causes)


def _sleeping(evidence: Evidence) -> Iterator[Candidate]:
    sleep = evidence.sleep
    if sleep is None:
        asleep = evidence.stalls["event"]
        yield "asleep", "Asleep at the event unit", asleep, partial(advice.asleep, evidence)
        return
    slower, themselves = sleep.imbalance, sleep.barrier
    yield "asleep", "Waits for the DMA", sleep.dma, partial(advice.dma, evidence)
    yield "barrier", "Waits for slower cores", slower, partial(advice.imbalance, evidence)
    yield "barrier", "Barriers themselves", themselves, partial(advice.barriers, evidence)
    yield "asleep", "Asleep without work", sleep.other, partial(advice.other_sleep, evidence)
