"""Which events of a run a trace keeps: by kind, hart, cycle, function, address, region.

    kind=issue,stall       hart=0-3,fc,dma0       cycle=1000-2000       (the end is left out)
    function=matmul,main   pc=0x1c008000-0x1c008100                     region=3 or region=kernel

Filters of one key add up, as function and pc do; those of other keys all have to hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from isa.program import Program
from soc.config.toml import ConfigError
from soc.prelude.trace_event import Kind
from soc.trace.reader import pcs_of, taken

KEYS = ("kind", "hart", "cycle", "pc", "function", "region")
KINDS = {kind.name.lower(): int(kind) for kind in Kind}
LONGEST_NUMBER = 9  # digits
ADDRESSES = 1 << 32
CYCLES = 1 << 62
Range = tuple[int, int]
"""First number, and the one after the last."""


@dataclass(frozen=True)
class TraceFilter:
    """What is kept; None: everything.

    harts      and other initiators of L1, by number
    cycles     of the run
    ranges     of addresses of instructions
    regions    by number: of each hart, what happens while it is in one of them
    """

    kinds: frozenset[int] | None = None
    harts: frozenset[int] | None = None
    cycles: Range | None = None
    ranges: tuple[Range, ...] | None = None
    regions: frozenset[int] | None = None


def filter_mistakes(text: str) -> list[str]:
    """What is wrong with a filter, as far as that is known without chip and program."""
    key, equals, values = text.partition("=")
    if not equals or not values or key not in KEYS:
        return [f"{text!r} must be KEY=VALUE with a KEY of {', '.join(KEYS)}"]
    found = []
    for value in values.split(","):
        if key == "kind" and value not in KINDS:
            found.append(f"{text!r}: {value!r} is no kind of event{_near(value, KINDS)}")
        elif key in ("cycle", "pc") and _range(value) is None:
            found.append(f"{text!r}: {value!r} is no {key} and no range such as 0x100-0x200")
    return found


def _near(value: str, known: Iterable[str]) -> str:
    names = list(known)
    if not names:
        return ""
    near = get_close_matches(value, names, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def _range(text: str) -> Range | None:
    """12, 0x12, or 12-15: from the first to before the last."""
    first, dash, last = text.partition("-")
    try:
        start = int(first, 0)
        end = int(last, 0) if dash else start + 1
    except ValueError:
        return None
    return (start, end) if 0 <= start < end else None


def trace_filter(
    filters: Sequence[str],
    initiators: Sequence[str],
    program: Program,
    regions: Mapping[int, str],
) -> TraceFilter:
    """The filter that texts describe.

    initiators    names of harts and other initiators of L1
    regions       names of regions
    raises        ConfigError with all mistakes
    """
    mistakes = [mistake for text in filters for mistake in filter_mistakes(text)]
    _raise_any(mistakes)
    found: dict[str, list] = {}
    known = _Names(initiators, program, regions)
    for text in filters:
        key, _, values = text.partition("=")
        for value in values.split(","):
            try:
                found.setdefault(key, []).extend(known.found(key, value))
            except KeyError as error:
                mistakes.append(f"{text!r}: {error.args[0]}")
    _raise_any(mistakes)
    cycles = found.get("cycle")
    ranges = (*found.get("pc", ()), *found.get("function", ()))
    return TraceFilter(
        kinds=_set(found.get("kind")),
        harts=_set(found.get("hart")),
        cycles=(max(c[0] for c in cycles), min(c[1] for c in cycles)) if cycles else None,
        ranges=ranges or None,
        regions=_set(found.get("region")),
    )


def _raise_any(mistakes: list[str]) -> None:
    if mistakes:
        raise ConfigError([f"trace filter {mistake}" for mistake in mistakes])


def _set(values: list[int] | None) -> frozenset[int] | None:
    return None if values is None else frozenset(values)


def _is_number(text: str) -> bool:
    """Is it a decimal number of a size that numbers of harts and regions have?"""
    return text.isdecimal() and len(text) <= LONGEST_NUMBER


class _Names:
    """What filters name in one run."""

    def __init__(self, initiators: Sequence[str], program: Program, regions: Mapping[int, str]):
        self.initiators, self.program, self.regions = initiators, program, regions

    def found(self, key: str, value: str) -> list:
        """The numbers, or ranges, that a value of this key stands for; KeyError with a message."""
        if key == "kind":
            return [KINDS[value]]
        if key == "hart":
            return self._harts(value)
        if key == "function":
            return self._function(value)
        if key == "region":
            return self._regions(value)
        found = _range(value)
        assert found
        return [found]

    def _harts(self, value: str) -> list[int]:
        if value in self.initiators:
            return [self.initiators.index(value)]
        first, dash, last = value.partition("-")
        if _is_number(first) and (not dash or _is_number(last)):
            harts = range(int(first), int(last if dash else first) + 1)
            if harts and harts[-1] < len(self.initiators):
                return list(harts)
        raise KeyError(f"no hart {value!r}{_near(value, filter(None, self.initiators))}")

    def _function(self, name: str) -> list[Range]:
        symbols = [symbol for symbol in self.program.symbols if symbol.name == name]
        if not symbols:
            functions = sorted({s.name for s in self.program.symbols if s.kind != "object"})
            raise KeyError(f"the program has no function {name!r}{_near(name, functions)}")
        return [self._extent(symbol.address, symbol.size) for symbol in symbols]

    def _extent(self, address: int, size: int) -> Range:
        """Of a symbol; without a size it ends where the next one begins."""
        if size:
            return address, address + size
        later = [s.address for s in self.program.symbols if s.address > address]
        ends = [part.address + part.size for part in self.program.code if part.address <= address]
        return address, min([*later, *(end for end in ends if end > address)], default=ADDRESSES)

    def _regions(self, value: str) -> list[int]:
        if _is_number(value):
            return [int(value)]
        found = [number for number, name in self.regions.items() if name == value]
        if not found:
            names = self.regions.values()
            raise KeyError(f"no region {value!r}; name one by its number{_near(value, names)}")
        return found


class Sieve:
    """Applies to batches of events, one after the other, what compiled code has not applied.

    is_open    the wanted regions that each hart is in
    """

    def __init__(self, wanted: TraceFilter, harts: int):
        self.wanted = wanted
        self.is_open: list[set[int]] = [set() for _ in range(harts)]

    def passed(self, events: np.ndarray) -> np.ndarray:
        """Those of the next events of a trace that are wanted."""
        if self.wanted.regions is None and self.wanted.ranges is None:
            return events
        keep = np.ones(events.size, bool)
        if self.wanted.regions is not None:
            keep &= self._in_regions(events, list(self.wanted.regions))
            if self.wanted.kinds is not None and Kind.REGION not in self.wanted.kinds:
                keep &= events["kind"] != Kind.REGION
        if self.wanted.ranges is not None:
            pcs = pcs_of(events)
            keep &= np.any([(pcs >= a) & (pcs < b) for a, b in self.wanted.ranges], axis=0)
        return taken(events, keep)

    def _in_regions(self, events: np.ndarray, regions: list[int]) -> np.ndarray:
        """Is each event's hart in one of the regions? The DMA is if any hart is."""
        count = len(self.is_open)
        inside = np.zeros((count + 1, events.size), bool)
        marks = (events["kind"] == Kind.REGION) & np.isin(events["extra"], regions)
        for h, is_open in enumerate(self.is_open):
            start = 0
            for place in np.flatnonzero(marks & (events["hart"] == h)).tolist():
                inside[h, start:place] = bool(is_open)
                inside[h, place] = True
                change = is_open.add if events["a"][place] else is_open.discard
                change(int(events["extra"][place]))
                start = place + 1
            inside[h, start:] = bool(is_open)
        inside[count] = inside[:count].any(axis=0)
        return inside[np.minimum(events["hart"], count), np.arange(events.size)]
