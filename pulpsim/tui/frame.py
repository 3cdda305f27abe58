"""A moment of what is watched, as plain data: what the worker hands over to the screen."""

from dataclasses import dataclass

import numpy as np

from pulpsim.tui.player import Player
from pulpsim.tui.source import Bins, HartNow, RegionNow

PANELS = ("code", "registers", "floats", "memory", "regions", "banks", "console", "stops")


@dataclass(frozen=True)
class Look:
    """The screen's room, and what it asks for.

    columns    of what is shown over time
    memory     first address and bytes of the memory panel
    code       first address and bytes of the instructions in sight
    """

    columns: int = 50
    memory: tuple[int, int] = (0x10000000, 0)
    code: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Frame:
    """Everything that a picture shows.

    edges        cycles between the columns
    is_exact     do the columns show just these cycles, not those of the closest samples?
    cursor       column of the current cycle; it may lie before them or after
    registers    of the selected hart, {} if they are not known
    changed      those that are not what they were at the last stop
    memory       first address and contents, or why there is none
    code         first address and contents now of the instructions in sight
    stops        address and place of each breakpoint
    answered     how many wishes are fulfilled
    """

    title: str
    state: str
    message: str
    cycle: int
    latest: int
    rate: int
    speed: tuple[float, float]
    edges: np.ndarray
    bins: Bins
    is_exact: bool
    cursor: int
    harts: list[HartNow]
    selected: int
    regions: list[RegionNow]
    registers: dict[str, int]
    changed: frozenset[str]
    memory: tuple[int, bytes | str]
    code: tuple[int, bytes]
    console: str
    stops: list[tuple[int, str]]
    answered: int = 0

    @property
    def is_running(self) -> bool:
        return self.state in ("running", "to barrier")


class Registers:
    """The registers of all harts where the clock stands, and where it stood before."""

    def __init__(self) -> None:
        self.cycle = -1
        self.now: list[dict[str, int]] = []
        self.before: list[dict[str, int]] = []

    def of(self, player: Player) -> tuple[dict[str, int], frozenset[str]]:
        """Registers of the selected hart, and the names of those that have changed."""
        state, hart = player.source.state, player.selected
        if state is None:
            return {}, frozenset()
        if self.cycle != player.source.cycle:
            self.cycle, self.before = player.source.cycle, self.now
            self.now = [state.registers(h) for h in range(len(player.source.names))]
        now = state.registers(hart)
        before = self.before[hart] if self.before else now
        return now, frozenset(name for name in now if now[name] != before[name])


def frame(player: Player, look: Look, registers: Registers, answered: int, exact: bool) -> Frame:
    """What there is to see now."""
    source = player.source
    edges = player.edges(look.columns)
    values, changed = registers.of(player)
    column = (source.cycle - 1 - int(edges[0])) // int(edges[1] - edges[0])
    return Frame(
        title=source.title,
        state=player.state,
        message=player.message,
        cycle=source.cycle,
        latest=source.latest,
        rate=player.rate,
        speed=player.speed.rates(),
        edges=edges,
        bins=source.bins(edges),
        is_exact=exact,
        cursor=column if source.cycle else 0,
        harts=source.harts(),
        selected=player.selected,
        regions=source.regions(),
        registers=values,
        changed=changed,
        memory=_memory(player, *look.memory),
        code=_code(player, *look.code),
        console=source.console,
        stops=[(address, source.place(address)) for address in sorted(source.breakpoints)],
        answered=answered,
    )


def _memory(player: Player, address: int, size: int) -> tuple[int, bytes | str]:
    """What can be read from an address on."""
    state = player.source.state
    if state is None or not size:
        return address, b""
    try:
        return address, state.read(address, size)
    except ValueError as error:
        return address, _up_to_end(player, address, size) or str(error)


def _up_to_end(player: Player, address: int, size: int) -> bytes:
    """The first words from an address on, where the memory ends before all of them."""
    state, data = player.source.state, b""
    assert state
    try:
        while len(data) < size:
            data += state.read(address + len(data), 4)
    except ValueError:
        pass
    return data


def _code(player: Player, address: int, size: int) -> tuple[int, bytes]:
    """Instructions as memory has them now, for a program may change itself."""
    state = player.source.state
    if state is None or not size:
        return address, b""
    try:
        return address, state.read(address, size)
    except ValueError:
        return address, b""
