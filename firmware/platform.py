"""The platform's addresses and the events that cores wait for, as the runtime uses them."""

from soc.address_map.events import CLUSTER_EVENTS, event_line
from soc.address_map.memory_map import memory_map

REGIONS = {region.name: region for region in memory_map(1 << 16, 1 << 21)}
EVENT_UNIT = REGIONS["event_unit"].base
DMA = REGIONS["dma"].base

CORE_NUMBER = 0x1F  # bits of mhartid; the others are the cluster's number


def _event(name: str) -> int:
    return 1 << event_line(CLUSTER_EVENTS, name)


DMA_EVENT = _event("dma")
SOFTWARE_EVENT = _event("software")
WAITED_FOR = _event("barrier") | _event("mutex") | _event("dispatch")
"""Events in the cores' masks: they come only to those that ask."""


def address_of(region: str, register: str, index: int = 0) -> int:
    """Address of a register of the memory map: address_of("soc_control", "CORE_STATUS")."""
    block = REGIONS[region].block
    assert block is not None
    return REGIONS[region].base + block.offset(register, index)


def in_event_unit(register: str, index: int = 0) -> int:
    """Bytes from EVENT_UNIT to one of its registers."""
    return address_of("event_unit", register, index) - EVENT_UNIT
