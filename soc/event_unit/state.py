"""The event unit's fields, state and offsets. Its behaviour: soc.event_unit.event_unit,
soc.event_unit.clock_edge.

Source: event_unit_flex rtl/event_unit_top.sv, event_unit_core.sv.
"""

import numpy as np
from pydantic import BaseModel, ConfigDict

from soc.address_map.registers import (
    BARRIERS,
    CORES,
    MUTEXES,
)
from soc.prelude.field import setting
from soc.prelude.wheel import NEVER

RUNNING, CLOCK_OFF, INTERRUPTED = range(3)
"""States of a core's clock: ACTIVE, SLEEP, IRQ_WHILE_SLEEP in event_unit_core.sv."""

STALLED, STORED, LOADING, FAULT = range(4)
"""What an access returns: repeat it in the next cycle; done; eu_clock will report its grant, maybe
for this very cycle; there is no such core, barrier or mutex."""

NONE = -1
FIFO = 16  # entries that the records hold; the Spec says how many the chip has


class EventUnitSpec(BaseModel):
    """The event unit of a cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    barriers: int = setting(
        8, "barriers", "pulp_cluster: NB_BARR = NB_CORES; GVSoC has 9", ge=1, le=BARRIERS
    )
    mutexes: int = setting(
        1, "mutexes", "event_unit_top.sv: NB_HW_MUT = 1; GVSoC has 8", ge=1, le=MUTEXES
    )
    dispatch_depth: int = setting(8, "values", "event_unit_top.sv, DISP_FIFO_DEPTH", ge=1, le=FIFO)
    soc_event_depth: int = setting(8, "events", "event_unit_top.sv, SOC_FIFO_DEPTH", ge=1, le=FIFO)
    resume: int = setting(
        3, "cycles", "measured on RTL: grant of an event load to the next issue", ge=1
    )
    keeps_new_events: bool = setting(
        False,
        "",
        "event_unit_core.sv as pulp_cluster locks it: WAIT_CLEAR also clears an event of the mask "
        "that arrives in the cycle after the grant; later revisions keep it",
    )


EU_STATE = np.dtype(
    [
        ("cores", "i8"),
        ("barriers", "i8"),
        ("mutexes", "i8"),
        ("dispatch_depth", "i8"),
        ("soc_depth", "i8"),
        ("keeps_new", "i8"),
        ("next", "i8"),  # cycle whose clock edge is due
        ("waiting", "i8"),  # cores whose load is not granted yet
        ("answering", "i8"),  # cores whose load is granted in this cycle
        ("waking", "i8"),  # those of them that wait for events and got one
        ("replay", "i8"),  # cores whose wait has triggered what it triggers
        ("interrupt", "i8"),  # cores whose interrupt line is high in this cycle
        ("interrupt_next", "i8"),  # and in the next one
        ("mask", "i8", (CORES,)),
        ("interrupt_mask", "i8", (CORES,)),
        ("buffer", "i8", (CORES,)),
        ("lines", "i8", (CORES,)),  # event lines active in this cycle
        ("clearing", "i8"),  # cores whose last wait clears at the clock edge of this cycle
        ("clearing_next", "i8"),  # and of the next one
        ("clears", "i8", (CORES,)),  # bits that it clears
        ("taken", "i8", (CORES,)),  # bits that it clears because their interrupt was taken
        ("targets", "i8", (CORES,)),  # SW_EVENT_MASK
        ("clock", "i8", (CORES,)),
        ("offset", "i8", (CORES,)),  # of the load that waits or is being answered
        ("sleeps", "i8", (CORES,)),  # it is an event load: the core's clock stops
        ("since", "i8", (CORES,)),  # last cycle in which it had one, while its clock is off
        ("value", "i8", (CORES,)),  # data of the last load
        ("written", "i8", (CORES,)),  # cycle of the last store by the core's own port
        ("written_offset", "i8", (CORES,)),
        ("clock_off", "i8", (CORES,)),  # cycles without clock, ever
        ("barrier_active", "i8"),  # barriers whose clock edge is due
        ("trigger_mask", "i8", (BARRIERS,)),
        ("target_mask", "i8", (BARRIERS,)),
        ("status", "i8", (BARRIERS,)),
        ("arriving", "i8", (BARRIERS,)),
        ("matched", "i8", (BARRIERS,)),
        ("served", "i8", (BARRIERS,)),  # cycle of the last access of a core to its registers
        ("barrier_written", "i8", (BARRIERS,)),  # and of the last store
        ("barrier_written_offset", "i8", (BARRIERS,)),
        ("mutex_active", "i8"),  # mutexes whose clock edge is due
        ("owner", "i8", (MUTEXES,)),
        ("queue", "i8", (MUTEXES,)),  # cores that wait for it
        ("locking", "i8", (MUTEXES,)),
        ("unlocking", "i8", (MUTEXES,)),
        ("message", "i8", (MUTEXES,)),
        ("fifo", "i8", (FIFO,)),  # dispatch: values, the cores that have not read them
        ("readers", "i8", (FIFO,)),
        ("team", "i8"),
        ("teaming", "i8"),
        ("team_next", "i8"),
        ("pushing", "i8"),
        ("push_value", "i8"),
        ("write", "i8"),
        ("read", "i8", (CORES,)),
        ("pop_request", "i8"),
        ("popping", "i8"),
        ("popped", "i8"),
        ("shared_offset", "i8"),  # of the store through the view of all that is due, or NONE
        ("shared_value", "i8"),
        ("soc_events", "i8", (FIFO,)),
        ("soc_head", "i8"),
        ("soc_count", "i8"),
        ("soc_arriving", "i8"),  # event that enters at this clock edge, or NONE
        ("soc_leaving", "i8"),
    ]
)
"""State of one event unit. Sets of cores, barriers and mutexes are bit masks."""


def event_unit_state(spec: EventUnitSpec, cores: int) -> np.ndarray:
    """The state of one event unit after reset: an EU_STATE array of one record."""
    state = np.zeros(1, EU_STATE)
    eu = state[0]
    eu["cores"], eu["barriers"], eu["mutexes"] = cores, spec.barriers, spec.mutexes
    eu["dispatch_depth"], eu["soc_depth"] = spec.dispatch_depth, spec.soc_event_depth
    eu["keeps_new"] = spec.keeps_new_events
    eu["next"] = NEVER
    eu["owner"], eu["written"], eu["served"], eu["barrier_written"] = NONE, NONE, NONE, NONE
    eu["shared_offset"], eu["soc_arriving"] = NONE, NONE
    return state
