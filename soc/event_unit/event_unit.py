"""The cluster's event unit: event masks, barriers, mutexes, dispatch FIFO, waiting and waking.

The unit is clocked, but only in cycles in which something happens. In cycle t, in this order:

    eu_set_event        event lines that are active in t (DMA, timers, accelerator)
    eu_access           requests of the cores' private ports in t, the lowest core first
    eu_shared_load      the answer to a load through the view of all; before the accesses of t
    eu_shared_store     a store through the view of all in t; before or after them
    eu_clock            if eu["next"] <= t: the clock edge after t; reports the loads granted in t

A load that waits (an event load, p.elw) is granted in the cycle of its request if an event of the
core's mask is pending then, whatever it waits for; else in the first cycle in which one is. The
core resumes `resume` cycles after the grant. A line active in t can end a wait in t + 1, the last
arrival at a barrier in t ends it in t + 2.

Sources: event_unit_flex rtl/event_unit_core.sv, event_unit_interface_mux.sv,
interc_sw_evt_trig.sv; latencies measured on that RTL with eight CV32E40P cores: barrier 6 cycles
from issue to issue, software event 5, mutex 5, store or load of a register 1.
"""

from soc.event_unit import offsets as at
from soc.event_unit.clock_edge import (
    barrier_value,
    clears,
    core_value,
    end_wait,
    software_event,
    store_barrier,
    store_core,
)
from soc.event_unit.state import (
    CLOCK_OFF,
    FAULT,
    INTERRUPTED,
    LOADING,
    NONE,
    STALLED,
    STORED,
)
from soc.prelude.step import step


@step
def eu_set_event(eu, cores, line, now):
    """Raise an event line of some cores (a bit each) in this cycle."""
    eu["next"] = min(eu["next"], now)
    for core in range(eu["cores"]):
        if cores >> core & 1:
            eu["lines"][core] |= 1 << line


@step
def eu_push_soc_event(eu, number, now):
    """Offer an event of the SoC. False: the FIFO is full, offer it again in the next cycle."""
    if eu["soc_count"] == eu["soc_depth"] or eu["soc_arriving"] != NONE:
        return False
    eu["next"] = min(eu["next"], now)
    eu["soc_arriving"] = number
    return True


@step
def eu_interrupt(eu, core):
    """Number of the interrupt that a core is asked to take, or NONE. The highest line wins."""
    if not eu["interrupt"] >> core & 1:
        return NONE
    pending = eu["buffer"][core] & eu["interrupt_mask"][core]
    line = 31
    while line > 0 and not pending >> line & 1:
        line -= 1
    return line


@step
def eu_take_interrupt(eu, core, line, now):
    """A core takes an interrupt: its event is cleared at the clock edge of this cycle."""
    eu["next"] = min(eu["next"], now)
    eu["taken"][core] |= 1 << line


@step
def eu_access(eu, core, write, is_elw, offset, value, now):
    """Request of a core at its private port in this cycle. Returns STALLED, STORED, LOADING, FAULT.

    offset    of a word; the unit has no byte enables, a narrower store writes the whole register
    is_elw    an event load: the core's clock stops while it waits. The address alone decides
              whether a load waits.
    """
    offset &= 0x3FC
    if offset >= at.BARRIER and offset & 0x1C < at.TRIGGER_SELF:
        return _access_barrier(eu, write, offset, value & at.WORD, core, now)
    eu["next"] = min(eu["next"], now)
    if write:
        eu["written"][core], eu["written_offset"][core] = now, offset
        result = _store(eu, offset, value & at.WORD, core)
        is_late = result == STORED and eu["clearing"] >> core & 1
        return STALLED if is_late else result
    return _load(eu, is_elw, offset, core, now)


@step
def _access_barrier(eu, write, offset, value, core, now):
    """Registers of a barrier serve one core per cycle, the lowest that asks."""
    barrier = offset - at.BARRIER >> 5
    if barrier >= eu["barriers"]:
        return FAULT
    if eu["served"][barrier] == now:
        return STALLED
    eu["next"] = min(eu["next"], now)
    eu["served"][barrier] = now
    if write:
        eu["barrier_written"][barrier] = now
        eu["barrier_written_offset"][barrier] = offset & 0x1C
        store_barrier(eu, barrier, offset & 0x1C, value)
        return STORED
    eu["offset"][core] = offset
    eu["answering"] |= 1 << core
    return LOADING


@step
def _store(eu, offset, value, core):
    """A store to the core's own registers. One to a read-only register does nothing."""
    if offset < 0x40:
        store_core(eu, core, offset, value)
    elif at.DISPATCH <= offset < at.MUTEX and offset & 0xC == at.DISPATCH & 0xC:
        eu["push_value"] = value | (eu["push_value"] if eu["pushing"] else 0)
        eu["pushing"] = 1
    elif at.DISPATCH <= offset < at.MUTEX and offset & 0xC == at.TEAM & 0xC:
        team = value & (1 << eu["cores"]) - 1
        eu["team_next"] = team | (eu["team_next"] if eu["teaming"] else 0)
        eu["teaming"] = 1
    elif at.MUTEX <= offset < at.SW_EVENT:
        mutex = offset - at.MUTEX >> 2
        if mutex >= eu["mutexes"]:
            return FAULT
        eu["message"][mutex] = value | (eu["message"][mutex] if eu["unlocking"][mutex] else 0)
        eu["unlocking"][mutex] = 1
        eu["mutex_active"] |= 1 << mutex
    elif at.SW_EVENT <= offset < at.SW_EVENT_WAIT:
        software_event(eu, offset >> 2 & 7, value)
    return STORED


@step
def eu_waits(offset):
    """Whether a load at this offset of the private port waits for an event."""
    if offset >= at.BARRIER:
        return offset & 0x1C >= at.TRIGGER_WAIT
    group = offset & ~0x3F
    return (
        (offset < at.SW_EVENT and offset & 0x38 == at.WAIT)
        or group == at.MUTEX
        or group == at.SW_EVENT_WAIT
        or group == at.SW_EVENT_WAIT_CLEAR
        or (group == at.DISPATCH and offset & 0xC == at.DISPATCH & 0xC)
    )


@step
def _load(eu, is_elw, offset, core, now):
    """A load of the core's own registers; those that wait also trigger what they wait for."""
    bit = 1 << core
    if at.MUTEX <= offset < at.SW_EVENT and offset - at.MUTEX >> 2 >= eu["mutexes"]:
        return FAULT
    if offset >= at.BARRIER and offset - at.BARRIER >> 5 >= eu["barriers"]:
        return FAULT
    if not eu["replay"] & bit:
        _trigger(eu, core, offset)
    eu["offset"][core] = offset
    interrupted = eu["buffer"][core] & eu["interrupt_mask"][core] != 0
    has_event = not interrupted and eu["buffer"][core] & eu["mask"][core] != 0
    if eu["clearing"] & bit:
        if not eu_waits(offset):
            return STALLED
        if has_event:
            _end_wait_in_vain(eu, core)
            return STALLED
    elif not eu_waits(offset) or (interrupted and eu["clock"][core] == INTERRUPTED):
        eu["answering"] |= bit
        return LOADING
    elif has_event:
        end_wait(eu, core)
        return LOADING
    eu["waiting"] |= bit
    eu["replay"] |= bit
    eu["sleeps"][core] = is_elw
    eu["since"][core] = now
    if interrupted:
        eu["clock"][core] = INTERRUPTED
    elif is_elw:
        eu["clock"][core] = CLOCK_OFF
    return LOADING


@step
def _end_wait_in_vain(eu, core):
    """What an event does to a wait that is not granted because the last one clears just now.

    The event is mostly the one that ended that wait. The wait is repeated in the next cycle: it
    triggers again, and its request for a value of the dispatch FIFO has lost one.
    """
    bit = 1 << core
    eu["waking"] |= bit
    eu["replay"] &= ~bit
    if clears(eu["offset"][core]):
        eu["clearing_next"] |= bit


@step
def _trigger(eu, core, offset):
    if offset >= at.BARRIER:
        barrier = offset - at.BARRIER >> 5
        eu["arriving"][barrier] |= 1 << core
        eu["barrier_active"] |= 1 << barrier
    elif at.SW_EVENT_WAIT <= offset < at.SW_EVENT_WAIT_CLEAR + 0x40:
        software_event(eu, offset >> 2 & 7, eu["targets"][core])
    elif at.MUTEX <= offset < at.SW_EVENT:
        mutex = offset - at.MUTEX >> 2
        eu["locking"][mutex] |= 1 << core
        eu["mutex_active"] |= 1 << mutex
    elif offset == at.DISPATCH:
        eu["pop_request"] |= 1 << core


@step
def eu_shared_exists(eu, offset):
    """Whether this chip has what lies at an offset of the view of all."""
    if offset < at.SHARED_BARRIER:
        return offset >> 6 < eu["cores"]
    if offset < at.SHARED_SW_EVENT:
        return offset - at.SHARED_BARRIER >> 5 < eu["barriers"]
    return offset < at.SHARED_END


@step
def eu_shared_store(eu, offset, value, now):
    """A store through the view of all in this cycle. Returns STALLED, STORED, FAULT.

    It is done at the clock edge, and the next one stalls until it is granted.
    """
    offset &= 0x7FC
    if not eu_shared_exists(eu, offset):
        return FAULT
    if eu["shared_offset"] != NONE:
        return STALLED
    eu["next"] = min(eu["next"], now)
    eu["shared_offset"], eu["shared_value"] = offset, value & at.WORD
    return STORED


@step
def eu_shared_load(eu, offset, now):
    """What a load through the view of all reads whose request was in the cycle before this one.

    It exists (eu_shared_exists). A load of SOC_EVENT takes the event from the FIFO.
    """
    offset &= 0x7FC
    if offset < at.SHARED_BARRIER:
        core, register = offset >> 6, offset & 0x3C
        if register == at.STATUS and eu["clock"][core] == CLOCK_OFF and now > eu["since"][core]:
            return 0
        return core_value(eu, core, register)
    if offset < at.SHARED_SW_EVENT:
        return barrier_value(eu, offset - at.SHARED_BARRIER >> 5, offset & 0x1C)
    if offset < at.SOC_EVENT:
        return 0
    event = eu["soc_events"][eu["soc_head"]]
    if eu["soc_count"] == 0:
        return event
    eu["soc_leaving"] = 1
    eu["next"] = min(eu["next"], now)
    return 1 << 31 | event
