"""The bus: which peripheral answers at an address."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from soc.registers import Kind, Master, Region, hole, region_at


class Peripheral(Protocol):
    """What the bus needs of a component. Offsets count from the start of its region."""

    def read(self, offset: int, size: int) -> int: ...

    def write(self, offset: int, value: int, size: int) -> None: ...


class BusError(Exception):
    """Nothing answers. Caught by the SoC, which stops the hart with cycle, hart and pc."""


class Peripherals(Mapping[str, Peripheral]):
    """Peripherals by name, each of them made when somebody asks for it first.

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
        self.names = {name for name in names.values() if not name.endswith("_alias")}

    def find(self, address: int) -> int | None:
        """Which of the regions `seen` it is, if any."""
        index = bisect_right(self.bases, address) - 1
        return index if index >= 0 and address < self.seen[index].end else None

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
