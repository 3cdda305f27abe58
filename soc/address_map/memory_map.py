"""The memory map: who finds what at which address."""

from dataclasses import dataclass
from enum import Flag, IntEnum

from soc.address_map.advanced_timer import ADVANCED_TIMER
from soc.address_map.register import Block
from soc.address_map.registers import (
    CLUSTER_CONTROL,
    DEBUG,
    DMA,
    EVENT_UNIT,
    EVENT_UNIT_SHARED,
    FABRIC_ICACHE_CONTROL,
    FLL,
    GPIO,
    ICACHE_CONTROL,
    INTERRUPT_CONTROLLER,
    L1_BASE,
    L2_BASE,
    PMU,
    SOC_CONTROL,
    SOC_EVENTS,
    STDOUT,
    TIMER,
)
from soc.address_map.udma import UDMA_CORE


class Kind(IntEnum):
    """Kinds of targets that an address leads to."""

    L1 = 1
    L1_TEST_AND_SET = 2  # a load also stores -1
    L2 = 3
    EVENT_UNIT = 4  # the core's own port
    DMA = 5  # the core's own port
    CLUSTER_PERIPHERAL = 6
    SOC_PERIPHERAL = 7


class Master(Flag):
    """Who sees a region."""

    CORE = 1
    FABRIC = 2
    ALL = 3


@dataclass(frozen=True)
class Region:
    """Addresses base .. base + size - 1.

    target    where an alias leads; base itself if it is none
    block     its registers, None for memory
    """

    name: str
    base: int
    size: int
    kind: Kind
    masters: Master
    target: int
    block: Block | None = None

    @property
    def end(self) -> int:
        """First address after it."""
        return self.base + self.size

    def __str__(self) -> str:
        return f"{self.name} {self.base:#010x}..{self.end - 1:#010x}"


CLUSTER_ALIAS = 0x10000000  # cores see their own cluster at 0 as well

CLUSTER_ALIAS_SIZE = 0x400000

CLUSTER_SPACE = 0x10200000, 0x10400000  # registers of the cluster, up to the end of its addresses

SOC_SPACE = 0x1A000000, 0x1A200000

BOOT_ROM, BOOT_ROM_SPACE = 0x1A000000, 0x40000
"""First address, bytes (soc_mem_map.svh of pulp_soc)."""

PRIVATE_SIZE = 32 * 1024  # of each of the two private L2 banks

_CLUSTER = (  # name, base, size, kind, masters, block
    ("cluster_control", 0x10200000, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, CLUSTER_CONTROL),
    ("cluster_timer", 0x10200400, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, TIMER),
    (
        "event_unit_shared",
        0x10200800,
        0x800,
        Kind.CLUSTER_PERIPHERAL,
        Master.ALL,
        EVENT_UNIT_SHARED,
    ),
    ("cluster_icache", 0x10201400, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, ICACHE_CONTROL),
    ("dma_shared", 0x10201800, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, DMA),
    ("dma_fabric", 0x10201C00, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, DMA),
    ("event_unit", 0x10204000, 0x400, Kind.EVENT_UNIT, Master.CORE, EVENT_UNIT),
    ("dma", 0x10204400, 0x400, Kind.DMA, Master.CORE, DMA),
)


_SOC = (  # name, base, size, block
    ("fll_soc", 0x1A100000, 0x10, FLL),
    ("fll_peripheral", 0x1A100010, 0x10, FLL),
    ("fll_cluster", 0x1A100020, 0x10, FLL),
    ("gpio", 0x1A101000, 0x1000, GPIO),
    ("udma", 0x1A102000, 0x2000, UDMA_CORE),
    ("soc_control", 0x1A104000, 0x1000, SOC_CONTROL),
    ("advanced_timer", 0x1A105000, 0x1000, ADVANCED_TIMER),
    ("soc_events", 0x1A106000, 0x1000, SOC_EVENTS),
    ("pmu", 0x1A107000, 0x1000, PMU),
    ("fabric_icache", 0x1A108800, 0x800, FABRIC_ICACHE_CONTROL),
    ("interrupt_controller", 0x1A109800, 0x800, INTERRUPT_CONTROLLER),
    ("fabric_timer", 0x1A10B000, 0x1000, TIMER),
    ("stdout", 0x1A10F000, 0x1000, STDOUT),
    ("debug", 0x1A190000, 0x1000, DEBUG),
)


def memory_map(
    l1_size: int, l2_size: int, devices: tuple[tuple[str, int, int], ...] = ()
) -> tuple[Region, ...]:
    """The platform's regions, lowest address first; aliases of two masters may overlap.

    l1_size, l2_size    bytes; L2 begins with the two private banks
    devices             name, base and bytes of components of the user's own
    """
    own = [Region(name, base, size, _kind(base), Master.ALL, base) for name, base, size in devices]
    regions = [
        *_l1(l1_size),
        *(Region(n, base, size, k, m, base, b) for n, base, size, k, m, b in _CLUSTER),
        *(region for region in own if region.kind == Kind.CLUSTER_PERIPHERAL),
    ]
    regions += [_core_alias(region) for region in regions]
    regions += _l2(l2_size)
    regions += [
        Region(name, base, size, Kind.SOC_PERIPHERAL, Master.ALL, base, block)
        for name, base, size, block in _SOC
    ]
    regions += [region for region in own if region.kind == Kind.SOC_PERIPHERAL]
    return tuple(sorted(regions, key=lambda region: region.base))


def _kind(base: int) -> Kind:
    return Kind.CLUSTER_PERIPHERAL if base < CLUSTER_SPACE[1] else Kind.SOC_PERIPHERAL


def _l1(size: int) -> list[Region]:
    return [
        Region("l1", L1_BASE, size, Kind.L1, Master.ALL, L1_BASE),
        Region(
            "l1_test_and_set", L1_BASE | 1 << 20, size, Kind.L1_TEST_AND_SET, Master.ALL, L1_BASE
        ),
    ]


def _l2(size: int) -> list[Region]:
    banks = [
        ("l2_private_0", L2_BASE, PRIVATE_SIZE),
        ("l2_private_1", L2_BASE + PRIVATE_SIZE, PRIVATE_SIZE),
        ("l2_shared", L2_BASE + 2 * PRIVATE_SIZE, size - 2 * PRIVATE_SIZE),
    ]
    regions = [Region(n, base, size, Kind.L2, Master.ALL, base) for n, base, size in banks]
    return [Region("l2_alias", 0, PRIVATE_SIZE, Kind.L2, Master.FABRIC, L2_BASE), *regions]


def _core_alias(region: Region) -> Region:
    base = region.base - CLUSTER_ALIAS
    name = f"{region.name}_alias"
    return Region(name, base, region.size, region.kind, Master.CORE, region.target, region.block)


def region_at(regions: tuple[Region, ...], address: int, master: Master) -> Region | None:
    """The region that a master sees at an address; None in a hole."""
    for region in regions:
        if 0 <= address - region.base < region.size and master in region.masters:
            return region
    return None


def hole(regions: tuple[Region, ...], address: int, master: Master) -> str:
    """What to tell about an address that leads nowhere."""
    if 0 <= address - BOOT_ROM < BOOT_ROM_SPACE:
        return (
            f"address {address:#010x} is in the boot ROM, which this chip lacks: give its content "
            "as boot_rom.load"
        )
    seen = [region for region in regions if master in region.masters]
    others = region_at(regions, address, Master.ALL & ~master)
    if others:
        who = {Master.CORE: "the cluster's cores", Master.FABRIC: "the fabric controller"}
        return f"address {address:#010x} ({others}) is not visible to {who[master]}"
    nearest = min(seen, key=lambda region: max(region.base - address, address - region.end + 1))
    return f"address {address:#010x} is in no region of the memory map (nearest: {nearest})"
