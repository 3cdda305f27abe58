"""A trace: what happened on the chip, 16 bytes for each event, as a file and its reader.

    8 bytes      b"PULPTRC1"
    4 bytes      length of the header
    header       JSON in UTF-8 with spaces after it, so that events begin at a multiple of 64 KiB
    events       EVENT records, by cycle

All numbers are little-endian. What the fields of an event mean: soc.prelude.trace_event.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from soc.host.notebook import frame, html_table
from soc.prelude.trace_event import EVENT, OUTSIDE_L1, SECOND_HALF, SIZE_SHIFT, STORE, Kind
from soc.trace.header import TraceError, read_header

__all__ = [
    "EVENT",
    "OUTSIDE_L1",
    "SECOND_HALF",
    "SIZE_SHIFT",
    "STORE",
    "Kind",
    "Trace",
    "TraceError",
    "first_at",
    "pcs_of",
    "taken",
]

OPAQUE = np.complex128
"""What NumPy copies an event as: at once, not field by field."""


class Trace:
    """A recorded run.

    path      of the file
    header    what the recorder knew of chip, program and run
    events    EVENT[n] by cycle, read from the file as they are looked at
    """

    def __init__(self, path: Path, header: dict[str, Any], events: np.ndarray):
        self.path, self.header, self.events = path, header, events

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Trace":
        """Read a file; one whose recording broke off has the events up to there.

        raises    TraceError if it cannot be read, is no trace, or one of another format
        """
        file = Path(path)
        try:
            header, start = read_header(file)
            count = (file.stat().st_size - start) // EVENT.itemsize
            events = np.memmap(file, EVENT, "r", start, count) if count else np.zeros(0, EVENT)
        except OSError as error:
            raise TraceError(f"{file}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise TraceError(f"{file}: {error}") from None
        return cls(file, header, events)

    def __repr__(self) -> str:
        gap = f"; {self.gap}" if self.gap else ""
        return f"<Trace {self.path}: {self.cycles:,} cycles, {self.events.size:,} events{gap}>"

    def _repr_html_(self) -> str:
        counts = np.bincount(self.events["kind"], minlength=len(Kind) + 1).tolist()
        rows = [{"kind": kind.name.lower(), "events": counts[kind]} for kind in Kind]
        return html_table(repr(self)[1:-1], rows)

    def to_frame(self, events: np.ndarray | None = None) -> Any:
        """Events as a pandas.DataFrame: cycle, hart, kind, pc, function, extra, a, b.

        events    what `select` returns; all of them if left out

        The cycle is that of the run; of the DMA and of conflicts, hart is the initiator.
        raises    ImportError without pandas
        """
        chosen = self.events if events is None else events
        pcs, names = pcs_of(chosen), np.array(self.initiators, object)
        kinds = np.array(["", *(kind.name.lower() for kind in Kind)], object)
        columns = {
            "cycle": self.first_cycle + chosen["cycle"].astype(np.int64),
            "hart": names[chosen["hart"]],
            "kind": kinds[chosen["kind"]],
            "pc": pcs,
            "function": self.function_of(pcs),
            **{name: chosen[name].astype(np.int64) for name in ("extra", "a", "b")},
        }
        return frame(columns)

    @property
    def harts(self) -> list[str]:
        """Names of the harts, by number."""
        return self.header["harts"]

    @property
    def initiators(self) -> list[str]:
        """Names of the initiators of L1, by number; cores and fabric controller as among harts."""
        return self.header["initiators"]

    @property
    def banks(self) -> int:
        """Banks of L1."""
        return self.header["banks"]

    @property
    def first_cycle(self) -> int:
        """The cycle of the run from which those of the events count."""
        return self.header["first_cycle"]

    @property
    def cycles(self) -> int:
        """Cycles of the run; if it broke off, up to the last event."""
        if self.header.get("cycles") is not None:
            return self.header["cycles"]
        return self.first_cycle + int(self.events["cycle"][-1]) + 1 if self.events.size else 0

    @property
    def regions(self) -> dict[int, str]:
        """Names of regions, by number."""
        return {int(number): name for number, name in self.header["regions"].items()}

    @property
    def symbols(self) -> list[tuple[int, int, str]]:
        """Address, bytes and name of each function or label of the code, by address."""
        return [tuple(symbol) for symbol in self.header["symbols"]]

    @property
    def complete(self) -> bool:
        """Does it tell everything from its first cycle to the end of the run?"""
        return not self.gap

    @property
    def gap(self) -> str:
        """Why something is missing, for people; "" if nothing is."""
        expected = self.header.get("events")
        if expected is not None and self.events.size < expected:
            return f"the file is truncated: {self.events.size} of {expected} events are left"
        if self.header["complete"]:
            return ""
        return self.header.get("why") or "the recording broke off"

    def select(
        self,
        kind: int | Iterable[int] | None = None,
        hart: int | Iterable[int] | None = None,
        start: int | None = None,
        end: int | None = None,
        pc: int | tuple[int, int] | None = None,
    ) -> np.ndarray:
        """The events of some kinds and harts, in the cycles start..end - 1 of the run, at a pc.

        A pc may be a range (first, end). Without kind, hart and pc the result is a view.
        """
        events = self.events[self._position(start, 0) : self._position(end, self.events.size)]
        if kind is not None:
            events = taken(events, _is_one_of(events["kind"], kind))
        if hart is not None:
            events = taken(events, _is_one_of(events["hart"], hart))
        if pc is not None:
            first, limit = pc if isinstance(pc, tuple) else (pc, pc + 1)
            pcs = pcs_of(events)
            events = taken(events, (pcs >= first) & (pcs < limit))
        return events

    def _position(self, cycle: int | None, default: int) -> int:
        """Index of the first event of a cycle of the run, or after it."""
        return default if cycle is None else first_at(self.events, cycle - self.first_cycle)

    def function_of(self, pcs: np.ndarray | Iterable[int]) -> np.ndarray:
        """The name of the function or label that holds each address, "" where there is none."""
        return _names_at(self._symbols, pcs)

    def line_of(self, pcs: np.ndarray | Iterable[int]) -> np.ndarray:
        """ "file:line" of each address, "" where that is not known."""
        return _names_at(self._lines, pcs)

    @cached_property
    def _symbols(self) -> tuple[np.ndarray, np.ndarray]:
        ends = [(start, start + size, name) for start, size, name in self.header["symbols"]]
        return _steps(ends)

    @cached_property
    def _lines(self) -> tuple[np.ndarray, np.ndarray]:
        return _steps([(start, None, name) for start, name in self.header["lines"]])

    def word_at(self, pc: int) -> int | None:
        """The instruction at an address, of 16 bits or 32; None outside of the program's code."""
        index = bisect_right(self._code, pc, key=lambda part: part[0]) - 1
        if index < 0:
            return None
        start, data = self._code[index]
        place = pc - start
        size = 4 if data[place : place + 1] and data[place] & 3 == 3 else 2
        found = data[place : place + size]
        return int.from_bytes(found, "little") if len(found) == size else None

    @cached_property
    def _code(self) -> list[tuple[int, bytes]]:
        return sorted((start, bytes.fromhex(digits)) for start, digits in self.header["code"])


def taken(events: np.ndarray, which: np.ndarray | slice) -> np.ndarray:
    """A copy of those of EVENT[n] at these places, or where a mask holds."""
    chosen = events.view(OPAQUE)[which]
    return (np.array(chosen) if isinstance(which, slice) else chosen).view(EVENT)


def first_at(events: np.ndarray, cycle: int) -> int:
    """Index of the first of sorted events that is at a cycle, or after it."""
    cycles = events["cycle"]  # NOTE: np.searchsorted would copy them
    return bisect_left(range(cycles.size), cycle, key=cycles.__getitem__)


def pcs_of(events: np.ndarray) -> np.ndarray:
    """The address of the instruction that each event is about; 0 for those of the DMA."""
    kinds = events["kind"]
    in_b = (kinds == Kind.MEMORY) | (kinds == Kind.REGION)
    none = (kinds == Kind.DMA) | (kinds == Kind.TRANSFER)
    return np.where(none, np.uint32(0), np.where(in_b, events["b"], events["a"]))


def _is_one_of(values: np.ndarray, wanted: int | Iterable[int]) -> np.ndarray:
    table = np.zeros(256, bool)
    table[[wanted] if isinstance(wanted, int) else list(wanted)] = True
    return table[values]


def _steps(ranges: list[tuple[int, int | None, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Addresses from which on a name holds, and these names; a range without end goes on."""
    steps: dict[int, str] = {}
    following = 1 << 62  # where the next range begins
    for start, end, name in sorted(ranges, key=lambda each: each[0], reverse=True):
        if end is not None and end < following:
            steps[end] = ""
        steps[start] = name
        following = start
    starts = sorted(steps)
    names = [steps[start] for start in starts]
    return np.array(starts, np.int64), np.array([*names, ""], object)


def _names_at(steps: tuple[np.ndarray, np.ndarray], pcs: np.ndarray | Iterable[int]) -> np.ndarray:
    starts, names = steps
    wanted = np.asarray(pcs if isinstance(pcs, np.ndarray) else list(pcs), np.int64)
    return names[np.searchsorted(starts, wanted, "right") - 1]
