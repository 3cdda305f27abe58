"""Event lines of the cluster and of the fabric controller."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Consecutive event lines of the cluster's event unit. Bit `line` of mask and buffer."""

    name: str
    line: int
    count: int
    meaning: str


CLUSTER_EVENTS = (  # pulp_cluster rtl/cluster_event_map.sv
    Event("software", 0, 8, "stores to SW_EVENT"),
    Event("dma", 8, 2, "a transfer of this core ended: 8 as event, 9 as interrupt"),
    Event("timer", 10, 2, "the cluster timer reached its target: low, high counter"),
    Event("accelerator", 12, 4, "hardware accelerator"),
    Event("barrier", 16, 1, "a barrier is complete"),
    Event("mutex", 17, 1, "a mutex is locked for this core"),
    Event("dispatch", 18, 1, "the dispatch FIFO holds a value for this core"),
    Event("cluster", 22, 2, "inputs of the cluster"),
    Event("soc", 27, 1, "the SoC event FIFO is not empty"),
)


FABRIC_EVENTS = (  # pulp_soc rtl/pulp_soc/soc_peripherals.sv, fc_events_o
    Event("software", 0, 8, "stores to STATUS_SET"),
    Event("dma", 8, 2, "a transfer of the fabric controller ended: event, interrupt"),
    Event("timer", 10, 2, "the FC timer reached its target: low, high counter"),
    Event("cluster", 12, 1, "the cluster's event to the fabric controller"),
    Event("reference_clock", 14, 1, "an edge of the reference clock, either one"),
    Event("gpio", 15, 1, "an edge at a pin"),
    Event("advanced_timer", 17, 4, "outputs of the advanced timers"),
    Event("soc", 26, 1, "the SoC event FIFO holds an event"),
    Event("lost", 29, 1, "a SoC event was lost"),
    Event("unused", 30, 2, "raw lines of the SoC event generator"),
)

ADVANCED_TIMER_EVENT = 135
"""The first one of the four SoC events of the advanced timers (pulp_soc soc_peripherals.sv)."""

GPIO_EVENT = 139
"""SoC event of an edge at a pin (pulp_soc soc_peripherals.sv)."""

REFERENCE_CLOCK_EVENT = 168
"""SoC event of a rising edge of the reference clock (soc_event_generator.sv)."""


def event_line(events: tuple[Event, ...], name: str) -> int:
    """First line of an event by name. Raises KeyError for an unknown name."""
    for event in events:
        if event.name == name:
            return event.line
    raise KeyError(f"no event {name}; there are {', '.join(event.name for event in events)}")
