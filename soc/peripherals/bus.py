"""The bus: which peripheral answers at an address."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, runtime_checkable

from simpy import Environment
from simpy.events import NORMAL

from soc.address_map.memory_map import Kind, Master, Region, hole, region_at


class Peripheral(Protocol):
    """What the bus needs of a component. Offsets count from the start of its region."""

    def read(self, offset: int, size: int) -> int: ...

    def write(self, offset: int, value: int, size: int) -> None: ...


@runtime_checkable
class Words(Protocol):
    """A peripheral that says once what accesses to a word of its own call, every time.

    Both raise BusError where nothing answers.
    """

    def loading(self, offset: int) -> Callable[[], int]: ...

    def storing(self, offset: int) -> Callable[[int], object]: ...


class BusError(Exception):
    """Nothing answers. Caught by the SoC, which stops the hart with cycle, hart and pc."""


class NotReady(Exception):
    """A peripheral lets an access wait. Caught by the SoC, which carries it out again then.

    when    called with what is to be called in the cycle in which the peripheral is ready
    """

    def __init__(self, when: Callable[[Callable[[], None]], None]):
        self.when = when


class Peripherals(Mapping[str, Peripheral]):
    """Peripherals by name, each of them made at its first access.

    A program uses few of them. Making one may change nothing else.

    makers    of each, from `parts`: what they have in common
    """

    def __init__(self, makers: Mapping[str, Callable[[Any], Peripheral]], parts: Any = None):
        self.makers, self.parts = makers, parts
        self.made: dict[str, Peripheral] = {}

    def __getitem__(self, name: str) -> Peripheral:
        made = self.made.get(name)
        if made is None:
            made = self.made[name] = self.makers[name](self.parts)
        return made

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


class Decoder:
    """In which peripheral's region an address is, as one master sees the memory map."""

    def __init__(self, regions: tuple[Region, ...], master: Master):
        kinds = (Kind.CLUSTER_PERIPHERAL, Kind.SOC_PERIPHERAL)
        self.regions, self.master = regions, master
        every = [region for region in regions if region.kind in kinds]
        self.seen = [region for region in every if master in region.masters]
        self.bases = [region.base for region in self.seen]
        names = {region.base: region.name for region in every}
        self.targets = [names[region.target] for region in self.seen]
        """Names of the peripherals that answer there: aliases lead to what they alias."""
        self.cluster = [r.target for r in self.seen if r.kind == Kind.CLUSTER_PERIPHERAL]
        """Addresses of the cluster's peripherals."""
        self.ends = [region.end for region in self.seen]
        self.names = {name for name in names.values() if not name.endswith("_alias")}

    def find(self, address: int) -> int | None:
        """Which of the regions `seen` it is, if any."""
        index = bisect_right(self.bases, address) - 1
        return index if index >= 0 and address < self.ends[index] else None

    def why_not(self, address: int) -> str:
        """What to tell about an address at which no peripheral answers."""
        region = region_at(self.regions, address, self.master)
        if region:
            return f"address {address:#010x} ({region}) is no peripheral"
        return hole(self.regions, address, self.master)


class Bus:
    """Carries accesses to peripherals, as one master sees them.

    peripherals   by the name of their region
    raises        ValueError if a peripheral's region has none, or a name has no region
    """

    def __init__(self, decoder: Decoder, peripherals: Mapping[str, Peripheral]):
        self.decoder, self.peripherals = decoder, peripherals
        names = set(peripherals)
        if missing := decoder.names - names:
            raise ValueError(f"bus: no peripheral for {', '.join(sorted(missing))}")
        if unknown := names - decoder.names:
            there = ", ".join(sorted(decoder.names))
            raise ValueError(f"bus: no region {', '.join(sorted(unknown))}; there are {there}")

    def read(self, address: int, size: int) -> int:
        """Load `size` bytes. Raises BusError where no peripheral answers."""
        peripheral, offset = self.find(self.decoder.find(address), address, size)
        return peripheral.read(offset, size)

    def write(self, address: int, value: int, size: int) -> None:
        """Store `size` bytes. Raises BusError where no peripheral answers."""
        peripheral, offset = self.find(self.decoder.find(address), address, size)
        peripheral.write(offset, value, size)

    def find(self, index: int | None, address: int, size: int) -> tuple[Peripheral, int]:
        """The peripheral of an address, and its offset there.

        index     what the decoder finds
        raises    BusError where no peripheral answers
        """
        decoder = self.decoder
        if index is None:
            raise BusError(decoder.why_not(address))
        if (address & 3) + size > 4:
            raise BusError(
                f"address {address:#010x}: {size} bytes cross a word of {decoder.seen[index].name};"
                " peripherals answer within one word"
            )
        return self.peripherals[decoder.targets[index]], address - decoder.seen[index].base


def later(env: Environment, cycles: float, action: Callable, *what: Any) -> None:
    """Call action(*what) so many cycles from now; 0: in this one, after what was said before."""
    at(env, env.now + cycles, action, *what)


def at(env: Environment, cycle: float, action: Callable, *what: Any) -> None:
    """Call action(*what) in a cycle, this one or a later one.

    NOTE: all that SimPy does for a Timeout, in half its time.
    """
    heappush(env._queue, (cycle, NORMAL, next(env._eid), _Call(action, what)))  # type: ignore


def forget(env: Environment, action: Callable, is_past: Callable[..., bool]) -> None:
    """Take back those calls of an action of which is_past(*what) says so."""
    queue = env._queue
    queue[:] = [
        entry
        for entry in queue
        if not (isinstance(call := entry[3], _Call) and call.action == action)
        or not is_past(*call.what)
    ]
    heapify(queue)


def step(env: Environment) -> None:
    """Let the next event take place, as env.step() does; a call takes half of its time."""
    cycle, _, _, event = env._queue[0]
    if type(event) is _Call:
        heappop(env._queue)
        env._now = cycle
        event.action(*event.what)
    else:
        env.step()


class _Call:
    """All that SimPy needs of an event that calls a function."""

    __slots__ = "action", "callbacks", "what"

    _ok = True

    def __init__(self, action: Callable, what: tuple):
        self.action, self.what = action, what
        self.callbacks: tuple[Callable, ...] | None = CALLS

    def call(self) -> None:
        self.action(*self.what)


CALLS = (_Call.call,)


class Calls:
    """Calls in cycles to come; those that follow each other in a cycle are one event of SimPy's.

    They come in the order in which events of their own would. So where SimPy has been told of
    another event meanwhile, which may be of that cycle, what is added is an event after it. Calls
    of one action that follow each other are one call.

    Ports
        made    out   called after the calls of an event
    """

    def __init__(self, env: Environment, made: Callable[[], None]):
        self.numbers, self.events, self.made = env._eid, env._queue, made
        self.open: dict[int, list[tuple[Call, list]]] = {}  # that may be added to, by cycle
        self.number = -1  # of the next event, if SimPy is told of none by others

    def at(self, cycle: int, action: "Call", what: list) -> None:
        """Call action(cycle, what) in a cycle, this one or a later one.

        what    a list, which becomes the action's: more may be added to it
        """
        number = next(self.numbers)
        if number != self.number:
            self.open.clear()
        self.number = number + 1
        calls = self.open.get(cycle)
        if not calls:
            calls = self.open[cycle] = [(action, what)]
            event = _Call(self._make, (cycle, calls))
            heappush(self.events, (cycle, NORMAL, number, event))  # type: ignore
        elif calls[-1][0] == action:
            calls[-1][1].extend(what)
        else:
            calls.append((action, what))

    def _make(self, cycle: int, calls: list[tuple["Call", list]]) -> None:
        for action, what in calls:  # which may add some
            action(cycle, what)
        if self.open.get(cycle) is calls:
            del self.open[cycle]
        self.made()


Call = Callable[[int, list], None]
"""Takes the cycle in which it is called, and a list that grows if it adds calls to this cycle."""
