"""The bus: which peripheral answers at an address."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Protocol

from soc.registers import Kind, Master, Region, hole, region_at


class Peripheral(Protocol):
    """What the bus needs of a component. Offsets count from the start of its region."""

    def read(self, offset: int, size: int) -> int: ...

    def write(self, offset: int, value: int, size: int) -> None: ...


class BusError(Exception):
    """Nothing answers. Caught by the SoC, which stops the hart with cycle, hart and pc."""


class Bus:
    """Maps addresses to peripherals, as one master sees them.

    regions       the chip's memory map
    peripherals   by the name of their region; aliases lead to the region that they alias
    raises        ValueError if a peripheral's region has none, or a name has no region
    """

    def __init__(
        self, regions: tuple[Region, ...], master: Master, peripherals: Mapping[str, Peripheral]
    ):
        kinds = (Kind.CLUSTER_PERIPHERAL, Kind.SOC_PERIPHERAL)
        self.regions, self.master = regions, master
        self.seen = [r for r in regions if r.kind in kinds and master in r.masters]
        names = {region.base: region.name for region in regions if region.kind in kinds}
        self._check_names(sorted(set(names.values())), peripherals)
        self.bases = [region.base for region in self.seen]
        self.targets = [peripherals[names[region.target]] for region in self.seen]

    @staticmethod
    def _check_names(names: Sequence[str], peripherals: Mapping[str, Peripheral]) -> None:
        names = [name for name in names if not name.endswith("_alias")]
        missing = [name for name in names if name not in peripherals]
        if missing:
            raise ValueError(f"bus: no peripheral for {', '.join(missing)}")
        unknown = [name for name in peripherals if name not in names]
        if unknown:
            raise ValueError(f"bus: no region {', '.join(unknown)}; there are {', '.join(names)}")

    def read(self, address: int, size: int) -> int:
        """Load `size` bytes. Raises BusError where no peripheral answers."""
        peripheral, offset = self._find(address, size)
        return peripheral.read(offset, size)

    def write(self, address: int, value: int, size: int) -> None:
        """Store `size` bytes. Raises BusError where no peripheral answers."""
        peripheral, offset = self._find(address, size)
        peripheral.write(offset, value, size)

    def region(self, address: int) -> Region | None:
        """The region of the peripheral that answers at an address."""
        index = self._index(address)
        return None if index is None else self.seen[index]

    def _index(self, address: int) -> int | None:
        index = bisect_right(self.bases, address) - 1
        return index if index >= 0 and address < self.seen[index].end else None

    def _find(self, address: int, size: int) -> tuple[Peripheral, int]:
        index = self._index(address)
        if index is None:
            raise BusError(self._why_not(address))
        if (address & 3) + size > 4:
            raise BusError(
                f"address {address:#010x}: {size} bytes cross a word of {self.seen[index].name}; "
                "peripherals answer within one word"
            )
        return self.targets[index], address - self.seen[index].base

    def _why_not(self, address: int) -> str:
        region = region_at(self.regions, address, self.master)
        if region:
            return f"address {address:#010x} ({region}) is no peripheral"
        return hole(self.regions, address, self.master)
