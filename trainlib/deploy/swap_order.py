"""The order of copies between L2 and the HyperRAM: of those that may start, the one needed first.

HyperBus makes one copy after the other, and the order is fixed when the program is made. A copy to
the HyperRAM may start when the last node before the gap has ended; one to L2 when what lies in its
place is in use no more, and has been copied out if it is read again. Copies are taken in the order
of their deadlines (earliest deadline first), as nodes begin by estimates of their cycles: none
waits for a node that has not begun while another could be made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainlib.deploy.memory import Block, Memory

BYTES = 0.945  # bytes of L2 a cycle that HyperBus moves, in chunks of PAGE
PAGE = 1024  # bytes: copies begin at a multiple of it in the HyperRAM
START = 300  # cycles around a copy: its set-up, and its end


@dataclass(frozen=True)
class Copy:
    """A copy between L2 and the HyperRAM.

    name    of the value
    gate    it starts after all nodes before this one
    need    it is over before this node; the number of nodes: before the step ends
    """

    name: str
    to_l2: bool
    l2: int
    ram: int
    size: int
    gate: int
    need: int


@dataclass(frozen=True)
class Gap:
    """Nodes between two uses of a value.

    before    the last node that uses it; -1: it is there when the step begins
    after     the next one; the number of nodes: it is there when the step ends
    wraps     `after` is of the next step: the value lies in the HyperRAM between steps
    """

    name: str
    size: int
    before: int
    after: int
    wraps: bool = False

    def covers(self, node: int) -> bool:
        """Does a node come between these two?"""
        if self.wraps:
            return node > self.before or node < self.after
        return self.before < node < self.after


@dataclass(frozen=True)
class Absence:
    """A gap in which the value is absent from L2.

    is_copied    it is copied out; if not, the HyperRAM has it since an earlier gap
    spans        first and last nodes at which it is absent
    """

    gap: Gap
    is_copied: bool
    spans: tuple[tuple[int, int], ...]

    def covers(self, node: int) -> bool:
        """Is the value absent at a node?"""
        return any(first <= node <= last for first, last in self.spans)


def copy_cycles(size: int) -> int:
    """Cycles of a copy of so many bytes, about."""
    return int(size / BYTES) + START


@dataclass(eq=False)
class _Job:
    """A copy that has no place in the order yet.

    gate     the first node at whose begin it may start
    need     the node before which it is over
    after    copies before it
    """

    absence: Absence
    to_l2: bool
    gate: int
    need: int
    after: list["_Job"] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, bool, int, str]:
        """Its place among those that may start."""
        gap = self.absence.gap
        return self.need, self.to_l2, gap.size, gap.name


def ordered(
    memory: Memory, absences: Sequence[Absence], places: Mapping[str, int], cycles: Sequence[int]
) -> tuple[list[Copy], int]:
    """The copies in their order, and the cycles of a step with them, about.

    memory      addresses, where each value is absent in its gaps
    places      of values in the HyperRAM
    cycles      of each node, about
    """
    jobs = _Jobs(memory, absences, len(cycles)).made()
    order, end = _simulated(jobs, cycles)
    copies, gate = list[Copy](), 0
    for job in order:
        gate, gap = max(gate, job.gate), job.absence.gap
        where = memory.blocks[gap.name].address, places[gap.name]
        copies.append(Copy(gap.name, job.to_l2, *where, gap.size, gate, job.need))
    return copies, end


@dataclass
class _Jobs:
    """The copies of all gaps: when each may start, and when it is over."""

    memory: Memory
    absences: Sequence[Absence]
    end: int

    def __post_init__(self) -> None:
        self.by_name: dict[str, list[Absence]] = {}
        for absence in self.absences:
            self.by_name.setdefault(absence.gap.name, []).append(absence)
        self.out = {
            absence.gap: _Job(absence, False, absence.gap.before + 1, self._written(absence))
            for absence in self.absences
            if absence.is_copied
        }

    def made(self) -> list[_Job]:
        """All of them."""
        backs = [self._back(absence) for absence in self.absences]
        for job in backs:
            for out in job.after:
                out.need = min(out.need, job.need)
        return [*self.out.values(), *backs]

    def _written(self, absence: Absence) -> int:
        """The first node that writes to a place which a copy empties, or the value's next use.

        A copy that fills the place comes after it in any case, see `after`.
        """
        gap = absence.gap
        starts = [
            first
            for other in self._in_the_place_of(gap)
            for first, _ in other.times
            if first >= gap.before and absence.covers(first) and not self._is_filled(other, first)
        ]
        return min([*starts, self.end if gap.wraps else gap.after])

    def _back(self, absence: Absence) -> _Job:
        """The copy that fills a value's place again."""
        gap = absence.gap
        first = 0 if gap.wraps else gap.before + 1
        job = _Job(absence, True, first, gap.after)
        if gap in self.out and not gap.wraps:
            job.after.append(self.out[gap])
        for other in self._in_the_place_of(gap):
            for _, last in other.times:
                if first <= last < gap.after:
                    left = self._left(other, last)
                    job.gate = max(job.gate, (left.gap.before if left else last) + 1)
                    if left and left.gap in self.out:
                        job.after.append(self.out[left.gap])
        return job

    def _in_the_place_of(self, gap: Gap) -> Iterator[Block]:
        """What lies where a value does, at other times."""
        own = self.memory.blocks[gap.name]
        for other in self.memory.blocks.values():
            if other.address < own.end and own.address < other.end and other.name != gap.name:
                yield other

    def _is_filled(self, block: Block, first: int) -> bool:
        """Is it there from a node on since a copy fills its place?"""
        absences = self.by_name.get(block.name, ())
        return any(first == last + 1 for absence in absences for _, last in absence.spans)

    def _left(self, block: Block, last: int) -> Absence | None:
        """The gap that begins when it was there up to a node, if one does."""
        for absence in self.by_name.get(block.name, ()):
            if any(first == last + 1 for first, _ in absence.spans):
                return absence
        return None


def _simulated(jobs: Sequence[_Job], cycles: Sequence[int]) -> tuple[list[_Job], int]:
    """The order in which copies are made, and when the step ends, about."""
    bus = _Bus()
    needed: dict[int, list[_Job]] = {}
    freed: dict[int, list[_Job]] = {}
    for job in jobs:
        needed.setdefault(job.need, []).append(job)
        freed.setdefault(job.gate, []).append(job)
    now = 0
    for node, taken in enumerate((*cycles, 0)):
        bus.run_until(now)
        bus.waiting += freed.get(node, ())
        now = max([now, *(bus.end_of(job) for job in needed.get(node, ()))]) + taken
    return bus.order, now


@dataclass
class _Bus:
    """HyperBus, as copies are made on it.

    free       the cycle at which the last copy is over
    waiting    copies that may start, some after others of them
    ends       when copies are over that have begun
    """

    free: int = 0
    waiting: list[_Job] = field(default_factory=list)
    ends: dict[_Job, int] = field(default_factory=dict)

    @property
    def order(self) -> list[_Job]:
        """Copies that have begun."""
        return list(self.ends)

    def run_until(self, cycle: int) -> None:
        """Begin copies before a cycle."""
        while self.free < cycle and self._begin_next():
            pass
        self.free = max(self.free, cycle)

    def end_of(self, job: _Job) -> int:
        """When a copy is over for which a node waits."""
        while job not in self.ends:
            if not self._begin_next():
                raise AssertionError(f"{job.absence.gap}: no copy may start before it is needed")
        return self.ends[job]

    def _begin_next(self) -> bool:
        """Begin the copy that is needed first of those that may start; False: there is none."""
        ready = [job for job in self.waiting if all(j in self.ends for j in job.after)]
        if not ready:
            return False
        job = min(ready, key=lambda job: job.rank)
        self.waiting.remove(job)
        self.free += copy_cycles(job.absence.gap.size)
        self.ends[job] = self.free
        return True
