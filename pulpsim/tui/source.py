"""Sources of the live view: a simulation that runs, or a recording."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pulpsim.tui.listing import Listing


@dataclass(frozen=True)
class Bins:
    """Events in each of n spans of cycles, between neighbours of edges[n + 1].

    issued       [harts, n] instructions
    stalls       [harts, CAUSES, n] cycles
    conflicts    [banks, n] lost arbitrations
    dma          [2, n] beats to L1, beats from L1
    waiting      [n] cores at a barrier at the end of each span
    """

    edges: np.ndarray
    issued: np.ndarray
    stalls: np.ndarray
    conflicts: np.ndarray
    dma: np.ndarray
    waiting: np.ndarray


@dataclass(frozen=True)
class HartNow:
    """A hart in the current cycle.

    function    that its next instruction belongs to, "" if that has no name
    place       the same with the distance from its start
    what        "runs", "barrier", "asleep", "off", ...
    """

    name: str
    pc: int
    function: str
    place: str
    what: str


@dataclass(frozen=True)
class RegionNow:
    """A region so far: cycles of the slowest hart, instructions of all; is a hart in it?"""

    name: str
    harts: int
    count: int
    cycles: int
    instructions: int
    is_open: bool


class Stopped(NamedTuple):
    """Why a source stopped before its time, and the harts that are the reason."""

    reason: str
    harts: tuple[int, ...] = ()


class State(Protocol):
    """What a simulation holds besides what happens in it. Bad addresses and names: ValueError."""

    def registers(self, hart: int) -> dict[str, int]: ...

    def read(self, address: int, size: int) -> bytes: ...

    def memory_address(self, place: str) -> int: ...


class Source(Protocol):
    """Something with a clock.

    cycle          where it stands
    latest         how far it is known
    end            why it does not go on after `latest`, "" if it does
    culprit        the hart that has ended the run, if one has
    breakpoints    addresses
    code           the program's instructions, as its file has them
    grain          cycles of a column below which `bins` needs `refine`
    state          registers and memory, if they are known
    """

    title: str
    names: list[str]
    banks: int
    breakpoints: set[int]

    @property
    def code(self) -> Listing: ...

    @property
    def state(self) -> State | None: ...

    @property
    def grain(self) -> int: ...

    @property
    def cycle(self) -> int: ...

    @property
    def latest(self) -> int: ...

    @property
    def end(self) -> str: ...

    @property
    def culprit(self) -> int | None: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def instructions(self) -> int: ...

    @property
    def console(self) -> str: ...

    def run(self, seconds: float, end: int, to_barrier: bool = False) -> Stopped | None:
        """Go on for about so long, to a cycle at most; returns why it stopped early, if it did."""
        ...

    def go_to(self, cycle: int) -> None: ...

    def step_instruction(self, hart: int, within: int) -> bool: ...

    def bins(self, edges: np.ndarray) -> Bins: ...

    def refine(self, edges: np.ndarray, is_wanted: Callable[[], bool]) -> bool:
        """Make `bins` of these edges exact; False if that was not wanted to its end."""
        ...

    def harts(self) -> list[HartNow]: ...

    def regions(self) -> list[RegionNow]: ...

    def address_of(self, place: str) -> int: ...

    def place(self, address: int) -> str: ...
