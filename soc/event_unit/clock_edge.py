"""The clock edge of the event unit: buffers, barriers, mutexes, dispatch, the end of waits.

Sources: event_unit_flex rtl/event_unit_core.sv, hw_barrier_unit.sv, hw_mutex_unit.sv,
hw_dispatch.sv, soc_periph_fifo.sv.
"""

import numpy as np

from soc.event_unit import offsets as at
from soc.event_unit.state import CLOCK_OFF, INTERRUPTED, NONE, RUNNING
from soc.prelude.bits import lowest_index
from soc.prelude.step import step
from soc.prelude.wheel import NEVER


@step
def eu_clock(eu, now):
    """The clock edge after cycle `now`. Returns the cores whose load is granted in `now`.

    Leaves in eu["value"] what they read, in eu["interrupt"] the cores whose interrupt line is high
    in now + 1, and in eu["next"] the next cycle that must be clocked.
    """
    granted = eu["answering"]
    if eu["shared_offset"] != NONE:
        _store_shared(eu, now)
    if eu["mutex_active"]:
        _clock_mutexes(eu)
    if eu["pop_request"] | eu["popping"] | eu["popped"] | eu["pushing"] | eu["teaming"]:
        _clock_dispatch(eu)
    _clock_buffers(eu)
    if eu["barrier_active"]:
        _clock_barriers(eu)
    _clock_soc_fifo(eu)
    _answer(eu)
    _end_waits(eu, now + 1)
    eu["next"] = now + 1 if _is_active(eu) else NEVER
    return granted


@step
def _store_shared(eu, now):
    """The store through the view of all.

    It is granted in a cycle in which no core stores to the same unit, and takes effect in each
    cycle until then; a core's store to the same register goes before it. A software event is
    raised for all cores if the whole word is 0, not only the cores' bits.
    """
    offset, value = eu["shared_offset"], eu["shared_value"]
    is_granted = True
    if offset < at.SHARED_BARRIER:
        core, register = offset >> 6, offset & 0x3C
        is_granted = eu["written"][core] != now
        if is_granted or _written(eu["written_offset"][core]) != _written(register):
            store_core(eu, core, register, value)
    elif offset < at.SHARED_SW_EVENT:
        barrier, register = offset - at.SHARED_BARRIER >> 5, offset & 0x1C
        is_granted = eu["barrier_written"][barrier] != now
        is_other = eu["barrier_written_offset"][barrier] != register or register == at.TRIGGER
        if is_granted or is_other:
            store_barrier(eu, barrier, register, value)
    elif offset < at.SOC_EVENT and (value == 0 or value & (1 << eu["cores"]) - 1):
        software_event(eu, offset >> 2 & 7, value)
    if is_granted:
        eu["shared_offset"] = NONE


@step
def _written(offset):
    """The register that a store to this offset of a core's block writes."""
    if offset <= at.MASK_OR:
        return at.MASK
    if offset <= at.IRQ_MASK_OR:
        return at.IRQ_MASK
    return at.TARGETS if at.TARGETS <= offset <= at.TARGETS_OR else offset


@step
def store_core(eu, core, register, value):
    """A store to a register of a core's block. An event buffer that a wait clears is left alone."""
    written = _written(register)
    if written == at.MASK:
        eu["mask"][core] = _changed(eu["mask"][core], register - written, value)
    elif written == at.IRQ_MASK:
        eu["interrupt_mask"][core] = _changed(eu["interrupt_mask"][core], register - written, value)
    elif written == at.BUFFER_CLEAR:
        if not eu["clearing"] >> core & 1:
            eu["buffer"][core] &= ~value
    elif written == at.TARGETS:
        value &= (1 << eu["cores"]) - 1
        eu["targets"][core] = _changed(eu["targets"][core], register - written, value)


@step
def _changed(mask, offset, value):
    """A mask after a store to this offset of its three registers: set, clear bits, set bits."""
    if offset == 0:
        return value
    return mask & ~value if offset == at.MASK_AND - at.MASK else mask | value


@step
def store_barrier(eu, barrier, register, value):
    """A store to a register of a barrier."""
    value &= (1 << eu["cores"]) - 1
    eu["barrier_active"] |= 1 << barrier
    if register == at.TRIGGER_MASK:
        eu["trigger_mask"][barrier] = value
    elif register == at.TARGET_MASK:
        eu["target_mask"][barrier] = value
    elif register == at.TRIGGER:
        eu["arriving"][barrier] |= value


@step
def software_event(eu, event, targets):
    """Raise a software event of the cores in targets, of all if there is none in it."""
    targets &= (1 << eu["cores"]) - 1
    for core in range(eu["cores"]):
        if targets == 0 or targets >> core & 1:
            eu["lines"][core] |= 1 << event


@step
def _clock_mutexes(eu):
    """A free mutex goes to the lowest core that asks, an unlocked one to the lowest that waits."""
    for mutex in range(eu["mutexes"]):
        if not eu["mutex_active"] >> mutex & 1:
            continue
        waiting = eu["queue"][mutex] | eu["locking"][mutex]
        is_free = eu["owner"][mutex] == NONE
        if waiting and ((is_free and eu["locking"][mutex]) or eu["unlocking"][mutex]):
            core = lowest_index(np.uint64(waiting))
            eu["owner"][mutex] = core
            eu["lines"][core] |= at.MUTEX_EVENT
            waiting &= ~(1 << core)
        elif eu["unlocking"][mutex]:
            eu["owner"][mutex] = NONE
        eu["queue"][mutex] = waiting
        eu["locking"][mutex] = 0
        eu["unlocking"][mutex] = 0
    eu["mutex_active"] = 0


@step
def _clock_dispatch(eu):
    """Each core walks through the values to the next one for it. A full FIFO is overwritten."""
    requested, popped = eu["pop_request"] | eu["popping"], 0
    for core in range(eu["cores"]):
        bit, read = 1 << core, eu["read"][core]
        advances = eu["popped"] & bit
        if requested & bit:
            if eu["readers"][read] & bit:
                eu["lines"][core] |= at.DISPATCH_EVENT
            elif read != eu["write"]:
                advances = bit
        if eu["popping"] & eu["waking"] & bit:
            requested &= ~bit
            popped |= bit
            eu["readers"][read] &= ~bit
        if advances:
            eu["read"][core] = (read + 1) % eu["dispatch_depth"]
    eu["popping"], eu["pop_request"], eu["popped"] = requested, 0, popped
    if eu["pushing"]:
        eu["fifo"][eu["write"]] = eu["push_value"]
        eu["readers"][eu["write"]] = eu["team"]
        eu["write"] = (eu["write"] + 1) % eu["dispatch_depth"]
        eu["pushing"] = 0
    if eu["teaming"]:
        eu["team"] = eu["team_next"]
        eu["teaming"] = 0


@step
def _clock_buffers(eu):
    """Events of this cycle enter the buffers; those of a wait that clears leave."""
    soc_line = at.SOC_LINE if eu["soc_count"] > 0 else 0
    for core in range(eu["cores"]):
        lines, cleared = eu["lines"][core] | soc_line, eu["clears"][core]
        if eu["keeps_new"]:
            events = (eu["buffer"][core] & ~cleared) | lines
        else:
            events = (eu["buffer"][core] | lines) & ~cleared
        eu["buffer"][core] = events & ~eu["taken"][core]
        eu["lines"][core] = 0
        eu["taken"][core] = 0
        eu["clears"][core] = eu["mask"][core] if eu["clearing_next"] >> core & 1 else 0
    eu["clearing"], eu["clearing_next"] = eu["clearing_next"], 0


@step
def _clock_barriers(eu):
    """A barrier whose status equals its mask is complete for one cycle, deaf to arrivals."""
    active = 0
    for barrier in range(eu["barriers"]):
        if not eu["barrier_active"] >> barrier & 1:
            continue
        if eu["matched"][barrier]:
            eu["status"][barrier] = 0
        else:
            eu["status"][barrier] |= eu["arriving"][barrier]
        eu["arriving"][barrier] = 0
        mask = eu["trigger_mask"][barrier]
        eu["matched"][barrier] = mask != 0 and eu["status"][barrier] == mask
        if eu["matched"][barrier]:
            active |= 1 << barrier
            for core in range(eu["cores"]):
                if eu["target_mask"][barrier] >> core & 1:
                    eu["lines"][core] |= at.BARRIER_EVENT
    eu["barrier_active"] = active


@step
def _clock_soc_fifo(eu):
    if eu["soc_leaving"]:
        eu["soc_head"] = (eu["soc_head"] + 1) % eu["soc_depth"]
        eu["soc_count"] -= 1
        eu["soc_leaving"] = 0
    if eu["soc_arriving"] != NONE:
        eu["soc_events"][(eu["soc_head"] + eu["soc_count"]) % eu["soc_depth"]] = eu["soc_arriving"]
        eu["soc_count"] += 1
        eu["soc_arriving"] = NONE


@step
def _answer(eu):
    """Data of the loads granted in this cycle: the state that the next one begins with."""
    for core in range(eu["cores"]):
        bit = 1 << core
        if not eu["answering"] & bit:
            continue
        eu["value"][core] = _private_value(eu, core, eu["offset"][core])
    eu["answering"] = 0
    eu["waking"] = 0


@step
def clears(offset):
    """Whether the wait at this offset clears the events of the mask."""
    if offset >= at.BARRIER:
        return offset & 0x1C == at.TRIGGER_WAIT_CLEAR
    if offset < at.DISPATCH:
        return offset == at.WAIT_CLEAR
    if offset < at.MUTEX:
        return offset & 0xC == at.DISPATCH & 0xC
    return offset < at.SW_EVENT or offset & ~0x3F == at.SW_EVENT_WAIT_CLEAR


@step
def _private_value(eu, core, offset):
    if offset < 0x40:
        if offset == at.WAIT or offset == at.WAIT_CLEAR:
            return eu["buffer"][core] & eu["mask"][core]
        return core_value(eu, core, offset)
    if at.DISPATCH <= offset < at.MUTEX:
        return eu["fifo"][eu["read"][core]] if offset & 0xC == at.DISPATCH & 0xC else 0
    if at.MUTEX <= offset < at.SW_EVENT:
        return eu["message"][offset - at.MUTEX >> 2]
    if offset >= at.BARRIER and offset & 0x1C < at.TRIGGER_SELF:
        return barrier_value(eu, offset - at.BARRIER >> 5, offset & 0x1C)
    return eu["buffer"][core] & eu["mask"][core]


@step
def core_value(eu, core, register):
    """A register of a core's block, as a load that does not wait reads it.

    A core reads of itself that its clock runs.
    """
    if register == at.MASK:
        return eu["mask"][core]
    if register == at.IRQ_MASK:
        return eu["interrupt_mask"][core]
    if register == at.STATUS:
        return 1
    if register == at.BUFFER:
        return eu["buffer"][core]
    if register == at.BUFFER_MASKED:
        return eu["buffer"][core] & eu["mask"][core]
    if register == at.BUFFER_IRQ_MASKED:
        return eu["buffer"][core] & eu["interrupt_mask"][core]
    if register == at.TARGETS:
        return eu["targets"][core]
    return 0


@step
def barrier_value(eu, barrier, register):
    """A register of a barrier."""
    if register == at.TRIGGER_MASK:
        return eu["trigger_mask"][barrier]
    if register == at.BARRIER_STATUS:
        return eu["status"][barrier]
    if register == at.TARGET_MASK:
        return eu["target_mask"][barrier]
    return 0


@step
def end_wait(eu, core):
    """Grant a wait because an event of the mask is pending."""
    bit = 1 << core
    eu["answering"] |= bit
    eu["waking"] |= bit
    eu["waiting"] &= ~bit
    eu["replay"] &= ~bit
    eu["clock"][core] = RUNNING
    if clears(eu["offset"][core]):
        eu["clearing_next"] |= bit


@step
def _end_waits(eu, cycle):
    """Grant in `cycle` the waits for which an event is pending then.

    A pending interrupt first starts the core's clock; the wait is granted one cycle later without
    clearing anything, so that the core can take the interrupt, and its replay triggers nothing.
    """
    pending = 0
    for core in range(eu["cores"]):
        bit, events = 1 << core, eu["buffer"][core]
        interrupted = events & eu["interrupt_mask"][core] != 0
        if interrupted:
            pending |= bit
        if not eu["waiting"] & bit:
            continue
        if eu["clock"][core] == CLOCK_OFF and (interrupted or events & eu["mask"][core]):
            eu["clock_off"][core] += cycle - eu["since"][core] - 1
        if interrupted and eu["clock"][core] == INTERRUPTED:
            eu["answering"] |= bit
            eu["waiting"] &= ~bit
        elif interrupted:
            eu["clock"][core] = INTERRUPTED
        elif events & eu["mask"][core]:
            end_wait(eu, core)
        elif eu["sleeps"][core] and eu["clock"][core] != CLOCK_OFF:
            eu["clock"][core] = CLOCK_OFF
            eu["since"][core] = cycle
    eu["interrupt"] = eu["interrupt_next"]
    eu["interrupt_next"] = pending


@step
def _is_active(eu):
    """Whether the next clock edge changes anything by itself."""
    if eu["answering"] | eu["barrier_active"] | eu["popped"] | eu["clearing"]:
        return True
    if eu["shared_offset"] != NONE:
        return True
    if eu["interrupt"] != eu["interrupt_next"]:
        return True
    for core in range(eu["cores"]):
        if eu["lines"][core]:
            return True
        if eu["soc_count"] > 0 and not eu["buffer"][core] & at.SOC_LINE:
            return True
        if eu["popping"] >> core & 1:
            read = eu["read"][core]
            has_value = eu["readers"][read] >> core & 1
            if has_value and not eu["buffer"][core] & at.DISPATCH_EVENT:
                return True
            if not has_value and read != eu["write"]:
                return True
    return False
