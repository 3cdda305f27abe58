"""Which events of a recording are wanted: harts, kinds, functions, addresses, a region, cycles."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pulpsim.trace.sums import parts
from soc.toml_file import ConfigError
from soc.trace import Kind, Trace, pcs_of

Range = tuple[int, int]
"""First and last, both included."""

EVERYTHING: Range = (0, (1 << 63) - 1)
NUMBER = r"0[xX][0-9a-fA-F]+|[0-9][0-9_]*"
OF_INITIATORS = (Kind.CONFLICT, Kind.DMA)


@dataclass(frozen=True)
class Options:
    """What the command line says.

    harts        "core3", "0-3", "fc"; several in one, with commas
    kinds        "issue,stall"
    functions    names
    pcs          "0x1c008000-0x1c0080ff", or one address
    region       its name or number
    cycles       "1000-2000", or one cycle, of the run
    """

    harts: Sequence[str] = ()
    kinds: Sequence[str] = ()
    functions: Sequence[str] = ()
    pcs: Sequence[str] = ()
    region: str | None = None
    cycles: str | None = None


@dataclass(frozen=True)
class Selection:
    """Filters that an event has to pass, all of them; an empty tuple or None passes all."""

    harts: tuple[int, ...] = ()
    kinds: tuple[int, ...] = ()
    pcs: tuple[Range, ...] = ()
    region: int | None = None
    cycles: Range = EVERYTHING

    @classmethod
    def of(cls, trace: Trace, options: Options) -> "Selection":
        """The filters of a command line. Raises ConfigError for what this trace does not know."""
        return cls(
            tuple(hart for text in options.harts for hart in _harts(trace, text)),
            tuple(kind for text in options.kinds for kind in _kinds(text)),
            (
                *(part for name in options.functions for part in _function(trace, name)),
                *(_range("--pc", text) for text in options.pcs),
            ),
            None if options.region is None else _region(trace, options.region),
            EVERYTHING if options.cycles is None else _range("--cycles", options.cycles),
        )

    def only(self, *kinds: int) -> "Selection":
        """The same for these kinds alone."""
        return replace(self, kinds=kinds)

    def parts(self, trace: Trace) -> Iterator[np.ndarray]:
        """The selected events in order, EVENT[n] at a time; n may be 0."""
        open_regions = np.zeros(256, np.int64)
        first, last = self.cycles
        for part in parts(trace, first, last + 1):
            wanted = self._passes(part)
            if self.region is not None:
                wanted &= _is_inside(part, self.region, open_regions)
            yield part if wanted.all() else part[wanted]

    def _passes(self, part: np.ndarray) -> np.ndarray:
        wanted = np.ones(part.size, bool)
        if self.kinds:
            wanted &= _table(self.kinds)[part["kind"]]
        if self.harts:
            is_lane = np.isin(part["kind"], [Kind.DMA])
            wanted &= _table(self.harts)[part["hart"]] & ~is_lane
        if self.pcs:
            pcs = pcs_of(part)
            inside = [(pcs >= first) & (pcs <= last) for first, last in self.pcs]
            wanted &= np.logical_or.reduce(inside)
        return wanted


def _table(numbers: Sequence[int]) -> np.ndarray:
    table = np.zeros(256, bool)
    table[list(numbers)] = True
    return table


def _is_inside(part: np.ndarray, region: int, is_open: np.ndarray) -> np.ndarray:
    """Does an event lie between its hart's markers, these included? Keeps is_open[hart]."""
    marks = (part["kind"] == Kind.REGION) & (part["extra"] == region)
    inside = np.zeros(part.size, bool)
    for hart in np.unique(part["hart"]):
        own = part["hart"] == hart
        places = np.flatnonzero(own & marks)
        begins = part["a"][places] == 1
        state = np.concatenate([is_open[hart : hart + 1], begins])
        inside[own] = state[np.searchsorted(places, np.flatnonzero(own), "right")] == 1
        is_open[hart] = state[-1]
    return inside | marks


def _harts(trace: Trace, text: str) -> Iterator[int]:
    """Numbers of the harts that "core3", "3", "0-3" or a list of these names."""
    for part in text.split(","):
        name = part.strip()
        if name in trace.harts:
            yield trace.harts.index(name)
            continue
        if not re.fullmatch(r"\d{1,3}(-\d{1,3})?", name):
            known = f"a number, a range such as 0-3, or of {', '.join(trace.harts)}"
            raise ConfigError([f"--hart {text}: must be {known}"])
        first, _, last = name.partition("-")
        if int(last or first) >= len(trace.harts) or int(last or first) < int(first):
            raise ConfigError([f"--hart {text}: the trace has harts 0-{len(trace.harts) - 1}"])
        yield from range(int(first), int(last or first) + 1)


def _kinds(text: str) -> Iterator[int]:
    known = {kind.name.lower(): int(kind) for kind in Kind}
    for name in text.split(","):
        if name.strip() not in known:
            raise ConfigError([f"--kind {text}: must be of {', '.join(known)}"])
        yield known[name.strip()]


def _function(trace: Trace, name: str) -> list[Range]:
    found = [(start, start + size - 1) for start, size, symbol in trace.symbols if symbol == name]
    if not found:
        raise ConfigError([f"--function {name}: the program has no such function"])
    return found


def _region(trace: Trace, name: str) -> int:
    for number, known in trace.regions.items():
        if name in (known, str(number)):
            return number
    known = ", ".join(trace.regions.values()) or "none"
    raise ConfigError([f"--region {name}: no such region; the trace has {known}"])


def _range(option: str, text: str) -> Range:
    match = re.fullmatch(rf"({NUMBER})(?:-({NUMBER}))?", text.strip())
    if not match:
        raise ConfigError([f"{option} {text}: must be a number or a range such as 1000-2000"])
    first, last = (int(number, 0) for number in (match[1], match[2] or match[1]))
    if last < first:
        raise ConfigError([f"{option} {text}: ends before it begins"])
    return first, last
