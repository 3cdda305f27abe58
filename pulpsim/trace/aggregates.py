"""Sums of a recording: cycles, stalls and conflicts of instructions, functions, banks.

All of it reads the events part by part, so that a recording may be larger than memory. Without
filters the sums equal the run's counters.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from pulpsim.trace.dense_address_index import Places
from soc.prelude.counters import CAUSES
from soc.trace.reader import OUTSIDE_L1, Kind, Trace, TraceError, pcs_of, taken

PART = 1 << 18
"""Events that are looked at together: a few MB."""

SUM = np.dtype(
    [
        ("pc", "u4"),
        ("issues", "i8"),  # how often it left the decode stage
        ("cycles", "i8"),  # issues, and the stalls that it pays for
        ("accesses", "i8"),  # loads and stores granted in L1
        ("conflicts", "i8"),  # lost arbitrations of L1
        ("stalls", "i8", (len(CAUSES),)),
    ]
)
"""What an instruction took, or several of them together."""

BANK = np.dtype([("accesses", "i8"), ("conflicts", "i8")])

Parts = Iterable[np.ndarray]


def parts(trace: Trace, start: int | None = None, end: int | None = None) -> Iterator[np.ndarray]:
    """The events of the cycles start..end - 1 of the run in order, EVENT[n] copied at a time.

    raises    TraceError if an event names what the chip does not have
    """
    events = trace.select(start=start, end=end)
    check = _Check(trace)
    for first in range(0, events.size, PART):
        part = taken(events, slice(first, first + PART))
        check(part)
        yield part


class _Check:
    """A check of events: who reads them later can rely on their numbers."""

    def __init__(self, trace: Trace) -> None:
        self.path = trace.path
        harts, initiators = len(trace.harts), len(trace.initiators)
        self.harts = np.full(256, harts)
        self.harts[[Kind.CONFLICT, Kind.DMA, Kind.TRANSFER]] = max(harts, initiators)
        self.extras = np.full(256, 1 << 16)
        self.extras[Kind.STALL] = len(CAUSES)
        self.extras[Kind.CONFLICT] = initiators << 8
        self.banks = trace.banks

    def __call__(self, part: np.ndarray) -> None:
        kinds, extra = part["kind"], part["extra"]
        wrong = (kinds == 0) | (kinds > max(Kind))
        wrong |= (part["hart"] >= self.harts[kinds]) | (extra >= self.extras[kinds])
        wrong |= (kinds == Kind.CONFLICT) & (extra & 0xFF >= self.banks)
        if (part["cycle"][1:] < part["cycle"][:-1]).any():
            raise TraceError(f"{self.path}: damaged: its events are not in the order of cycles")
        if wrong.any():
            event = part[np.flatnonzero(wrong)[0]]
            raise TraceError(f"{self.path}: damaged: {event} is no event of this chip")


def instruction_sums(trace: Trace, events: Parts | None = None) -> np.ndarray:
    """What each instruction took, on all harts: SUM[n] by pc.

    events    parts of the trace, where not all of it counts

    Stalls without an instruction, such as those before a hart's first, count at pc 0.
    """
    table = _Table()
    for part in parts(trace) if events is None else events:
        for column, weight, rows in _costs(part):
            table.add(column, pcs_of(rows), weight)
    return table.sums()


def _costs(part: np.ndarray) -> Iterator[tuple[int, np.ndarray | None, np.ndarray]]:
    """Column of SUM's integers, cycles (None: one for each event), and the events to add there."""
    kinds = part["kind"]
    yield ISSUES, None, taken(part, kinds == Kind.ISSUE)
    memory = taken(part, kinds == Kind.MEMORY)
    yield ACCESSES, None, taken(memory, memory["extra"] & OUTSIDE_L1 == 0)
    conflicts = taken(part, kinds == Kind.CONFLICT)
    yield CONFLICTS, None, conflicts[conflicts["a"] != 0]
    stalls = taken(part, kinds == Kind.STALL)
    for cause in np.flatnonzero(np.bincount(stalls["extra"], minlength=len(CAUSES))):
        rows = stalls[stalls["extra"] == cause]
        yield FIRST_CAUSE + int(cause), rows["b"], rows


ISSUES, ACCESSES, CONFLICTS, FIRST_CAUSE = range(4)
COLUMNS = FIRST_CAUSE + len(CAUSES)


class _Table:
    """A table of sums for each half-word of the pages that contain code."""

    def __init__(self) -> None:
        self.places = Places()
        self.columns = np.zeros((COLUMNS, 0), np.int64)

    def add(self, column: int, pcs: np.ndarray, weight: np.ndarray | None) -> None:
        """Add a weight at each pc, or one."""
        places = self.places.of(pcs)
        size = self.places.size
        more = size - self.columns.shape[1]
        if more:
            self.columns = np.pad(self.columns, ((0, 0), (0, more)))
        # With weights bincount adds in float64: exact up to 2**53 cycles.
        self.columns[column] += np.bincount(places, weight, size).astype(np.int64)

    def sums(self) -> np.ndarray:
        """Return SUM of every half-word that something was added to, by pc."""
        used = np.flatnonzero(self.columns.any(axis=0))
        columns = self.columns[:, used]
        rows = np.zeros(used.size, SUM)
        rows["pc"] = self.places.pcs(used)
        rows["issues"], rows["accesses"] = columns[ISSUES], columns[ACCESSES]
        rows["conflicts"], rows["stalls"] = columns[CONFLICTS], columns[FIRST_CAUSE:].T
        rows["cycles"] = rows["issues"] + rows["stalls"].sum(axis=1)
        return rows[np.argsort(rows["pc"])]


def grouped(rows: np.ndarray, names: np.ndarray) -> dict[str, np.void]:
    """Sums of rows with the same name, the most cycles first, of as many cycles the most conflicts.

    Their pc is the first one's.

    rows      SUM[n]
    names     of functions, as Trace.function_of has them, or of lines; str[n]
    """
    found: dict[str, int] = {}
    group = np.array([found.setdefault(name, len(found)) for name in names.tolist()], np.int64)
    total = np.zeros(len(found), SUM)
    for field in SUM.fields or ():
        np.add.at(total[field], group, rows[field])
    firsts = np.full(len(found), np.iinfo(np.uint32).max, np.uint32)
    np.minimum.at(firsts, group, rows["pc"])
    total["pc"] = firsts
    labels = list(found)
    order = np.lexsort((firsts, -total["conflicts"], -total["cycles"])).tolist()
    return {labels[k]: total[k] for k in order}


def function_sums(trace: Trace, rows: np.ndarray) -> dict[str, np.void]:
    """What each function took, by name, the most cycles first; "" is code without a symbol.

    rows      as instruction_sums has them
    """
    return grouped(rows, trace.function_of(rows["pc"]))


def line_sums(trace: Trace, rows: np.ndarray) -> dict[str, np.void]:
    """What each source line took, by "file:line", the most cycles first; "" is code without."""
    return grouped(rows, trace.line_of(rows["pc"]))


def bank_sums(trace: Trace, events: Parts | None = None) -> np.ndarray:
    """Accesses of harts and DMA, and lost arbitrations, at each bank of L1: BANK[banks]."""
    sums = np.zeros(trace.banks, BANK)
    for part in parts(trace) if events is None else events:
        for name, kinds in (("accesses", (Kind.MEMORY, Kind.DMA)), ("conflicts", (Kind.CONFLICT,))):
            for kind in kinds:
                banks = banks_of(trace, taken(part, part["kind"] == kind))
                sums[name] += np.bincount(banks[banks >= 0], minlength=trace.banks)
    return sums


def banks_of(trace: Trace, events: np.ndarray) -> np.ndarray:
    """The bank of each event; -1 where it is about none: int64[n]."""
    kinds, extra = events["kind"], events["extra"].astype(np.int64)
    accesses = (kinds == Kind.DMA) | (kinds == Kind.MEMORY) & (extra & OUTSIDE_L1 == 0)
    banks = np.where(accesses, (events["a"].astype(np.int64) >> 2) % trace.banks, -1)
    return np.where(kinds == Kind.CONFLICT, extra & 0xFF, banks)


def blocking(trace: Trace, events: Parts | None = None) -> np.ndarray:
    """How often each initiator of L1 lost against each other: int64[loser, winner]."""
    count = len(trace.initiators)
    matrix = np.zeros(count * count, np.int64)
    for part in parts(trace) if events is None else events:
        rows = taken(part, part["kind"] == Kind.CONFLICT)
        pairs = rows["hart"].astype(np.int64) * count + (rows["extra"] >> 8)
        matrix += np.bincount(pairs, minlength=count * count)
    return matrix.reshape(count, count)


def stall_sums(trace: Trace, events: Parts | None = None) -> np.ndarray:
    """Cycles in which each hart issued nothing, by cause: int64[hart, cause]."""
    shape = len(trace.harts), len(CAUSES)
    sums = np.zeros(shape[0] * shape[1], np.int64)
    for part in parts(trace) if events is None else events:
        rows = taken(part, part["kind"] == Kind.STALL)
        places = rows["hart"].astype(np.int64) * len(CAUSES) + rows["extra"]
        sums += np.bincount(places, rows["b"], sums.size).astype(np.int64)
    return sums.reshape(shape)
