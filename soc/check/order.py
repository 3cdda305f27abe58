"""Synchronisation: who learns what from whom, by the events of soc.core.sync_points.

barrier of the event unit    all that arrive -> those that it lets go on
mutex                        who unlocks -> who locks next
dispatch FIFO                who pushes -> who pops this value
software event               who signals -> who is granted by it, reads it or is interrupted
copy of the DMA              who stores its command -> the copy -> who sees its end, by STATUS,
                             by the event or the interrupt
start of a hart              who lets it start -> the hart
register of a peripheral     who stores -> who loads from the same 256 bytes
word used by test-and-set    who stores -> who loads; so with objects named sync_...
interrupt of the controller  who has stored to any peripheral -> the fabric controller
"""

from soc.address_map.memory_map import memory_map
from soc.check.clocks import acquire, assign, forget, go_on, join, release
from soc.check.copies import see_end
from soc.chip.shadow import COUNTERS, LINES, REGISTER_BLOCKS, SYNC_WORDS
from soc.event_unit.offsets import (
    BARRIER,
    BUFFER,
    BUFFER_CLEAR,
    DISPATCH,
    MUTEX,
    SHARED_SW_EVENT,
    SOC_EVENT,
    SW_EVENT,
    SW_EVENT_WAIT,
    TRIGGER,
    TRIGGER_SELF,
)
from soc.event_unit.offsets import SHARED_BARRIER as SHARED_BARRIERS
from soc.prelude.step import cold_step, step

_PLACES = {region.name: region for region in memory_map(0, 1 << 17)}
CLUSTER_BASE = _PLACES["cluster_control"].base
EVENT_UNIT = _PLACES["event_unit"].base - CLUSTER_BASE
EVENT_UNIT_END = _PLACES["event_unit"].end - CLUSTER_BASE
DMA = _PLACES["dma"].base - CLUSTER_BASE
DMA_END = _PLACES["dma"].end - CLUSTER_BASE
SHARED_UNIT = _PLACES["event_unit_shared"].base - CLUSTER_BASE
SHARED_UNIT_END = _PLACES["event_unit_shared"].end - CLUSTER_BASE
SHARED_DMA = _PLACES["dma_shared"].base - CLUSTER_BASE
SHARED_DMA_END = _PLACES["dma_fabric"].end - CLUSTER_BASE
COMMAND = 0
BARRIER_LINE = 16
DMA_LINE = 8
SOC_LINE_NUMBER = 27


@step
def answered(chip, hart, is_store, slot, address, value):
    """A hart has stored to a register, or has loaded from it."""
    check = chip.check[0]
    offset = address - CLUSTER_BASE
    check["asking"][hart] = 0
    if EVENT_UNIT <= offset < EVENT_UNIT_END:
        if is_store:
            _store_to_unit(check, hart, offset - EVENT_UNIT, slot, value)
        else:
            _load_from_unit(chip, hart, offset - EVENT_UNIT, slot, value)
    elif DMA <= offset < DMA_END or SHARED_DMA <= offset < SHARED_DMA_END:
        _access_dma(chip, hart, is_store, address & 7, value, DMA <= offset < DMA_END)
    elif SHARED_UNIT <= offset < SHARED_UNIT_END:
        if is_store:
            _store_to_shared_unit(check, hart, offset - SHARED_UNIT, value)
    elif chip.config[0]["control_page"]:
        acquire(check, hart, check["bench"])
    else:
        _access_peripheral(check, hart, is_store, address)


@step
def asked(chip, hart, is_store, address):
    """A hart asks a peripheral, which may act before it answers."""
    check = chip.check[0]
    check["asking"][hart] = address
    if chip.config[0]["control_page"]:
        release(check, hart, check["bench"])
        go_on(check, hart)
    elif is_store and SHARED_DMA <= address - CLUSTER_BASE < SHARED_DMA_END:
        assign(check, check["port"][hart], check["clock"][hart])


@step
def waits(chip, core, offset, targets):
    """A core loads from its port of the event unit, which may signal before it waits."""
    check = chip.check[0]
    offset &= 0x3FC
    if offset >= BARRIER:
        if offset & 0x1C >= TRIGGER_SELF:
            release(check, core, check["barrier"][offset - BARRIER >> 5])
    elif SW_EVENT_WAIT <= offset < SW_EVENT_WAIT + 0x80:
        _signal(check, core, offset >> 2 & 7, targets)
    go_on(check, core)


@step
def _signal(check, hart, line, cores):
    """A hart raises an event line of some cores; 0: of all."""
    for core in range(check["cores"]):
        if cores == 0 or cores >> core & 1:
            release(check, hart, check["event"][core][line])


@step
def _store_to_unit(check, core, offset, slot, value):
    if offset >= BARRIER:
        if offset & 0x1C == TRIGGER:
            release(check, core, check["barrier"][offset - BARRIER >> 5])
    elif SW_EVENT <= offset < SW_EVENT_WAIT:
        _signal(check, core, offset >> 2 & 7, value & (1 << check["cores"]) - 1)
    elif MUTEX <= offset < SW_EVENT:
        release(check, core, check["mutex"][offset - MUTEX >> 2])
    elif offset == DISPATCH:
        assign(check, check["dispatch"][slot], check["clock"][core])
    elif offset == BUFFER_CLEAR:
        for line in range(LINES):
            if value >> line & 1:
                _forget_event(check, core, line)
        return
    go_on(check, core)


@step
def _forget_event(check, core, line):
    forget(check, check["event"][core][line])
    if DMA_LINE <= line < DMA_LINE + 2:
        check["signalled"][core][line - DMA_LINE] = 0


@step
def _load_from_unit(chip, core, offset, slot, value):
    """A load delivers the events that are pending, or what a mutex or the FIFO passes on."""
    check = chip.check[0]
    if MUTEX <= offset < SW_EVENT:
        acquire(check, core, check["mutex"][offset - MUTEX >> 2])
    elif offset == DISPATCH:
        acquire(check, core, check["dispatch"][slot])
    elif offset >= BUFFER and (offset < BARRIER or offset & 0x1C >= TRIGGER_SELF):
        for line in range(LINES):
            if value >> line & 1:
                learn_event(chip, core, line)


@step
def learn_event(chip, core, line):
    """A core learns that an event line was raised for it."""
    check = chip.check[0]
    acquire(check, core, check["event"][core][line])
    if DMA_LINE <= line < DMA_LINE + 2:
        ended = check["signalled"][core][line - DMA_LINE]
        check["signalled"][core][line - DMA_LINE] = 0
        for counter in range(COUNTERS):
            if ended >> counter & 1:
                see_end(chip, core, counter)
    elif line == SOC_LINE_NUMBER:
        _learn_from_peripherals(check, core)


@step
def _store_to_shared_unit(check, hart, offset, value):
    if SHARED_BARRIERS <= offset < SHARED_SW_EVENT:
        if offset & 0x1C == TRIGGER:
            release(check, hart, check["barrier"][offset - SHARED_BARRIERS >> 5])
    elif SHARED_SW_EVENT <= offset < SOC_EVENT:
        _signal(check, hart, offset >> 2 & 7, value & (1 << check["cores"]) - 1)
    go_on(check, hart)


@step
def _access_dma(chip, hart, is_store, register, value, is_own_port):
    check = chip.check[0]
    if register == COMMAND:
        if not is_store:
            check["holder"][value & COUNTERS - 1] = hart
            check["held_cycle"][value & COUNTERS - 1] = check["site_cycle"][hart]
            check["held_pc"][value & COUNTERS - 1] = check["site_pc"][hart]
        elif is_own_port:
            assign(check, check["port"][hart], check["clock"][hart])
        if is_store:
            go_on(check, hart)
        return
    for counter in range(COUNTERS):
        if is_store and value >> counter & 1:
            check["holder"][counter] = -1
        elif not is_store and value >> counter & 1 == 0:
            see_end(chip, hart, counter)


@step
def _access_peripheral(check, hart, is_store, address):
    clock = check["block_clock"][_block_of(check, address >> 8)]
    if is_store:
        release(check, hart, clock)
        go_on(check, hart)
    else:
        acquire(check, hart, clock)


@step
def _block_of(check, number):
    """Where registers' clock is; those for which there is no place share the last one."""
    place = 0
    while place < REGISTER_BLOCKS - 1 and check["block"][place] != number:
        if check["block"][place] == 0:
            check["block"][place] = number
        else:
            place += 1
    return place


@step
def _learn_from_peripherals(check, hart):
    for place in range(REGISTER_BLOCKS):
        if check["block"][place]:
            acquire(check, hart, check["block_clock"][place])


@cold_step
def barrier_complete(chip, barrier, cores):
    """A barrier lets cores go on with what all know that have arrived."""
    check = chip.check[0]
    for core in range(check["cores"]):
        if cores >> core & 1:
            join(check, check["event"][core][BARRIER_LINE], check["barrier"][barrier])
    forget(check, check["barrier"][barrier])


@cold_step
def copies_signalled(chip, ports, line, counter):
    """The DMA raises an event line because a counter has ended."""
    check = chip.check[0]
    for core in range(check["cores"]):
        if ports >> core & 1:
            join(check, check["event"][core][line], check["ended"][counter])
            check["signalled"][core][line - DMA_LINE] |= 1 << counter


@cold_step
def started(chip, hart):
    """A hart starts: it knows what those know whose requests to peripherals are under way."""
    check = chip.check[0]
    for other in range(chip.config[0]["harts"]):
        if check["asking"][other]:
            acquire(check, hart, check["clock"][other])


@cold_step
def interrupted(chip, hart, line):
    """A hart takes an interrupt."""
    check = chip.check[0]
    if hart < check["cores"]:
        learn_event(chip, hart, line)
        return
    _learn_from_peripherals(check, hart)
    for counter in range(COUNTERS):
        acquire(check, hart, check["ended"][counter])


@step
def _sync_place(check, word):
    """Where a word's clock is; a table with no room left has the last ones share a place."""
    place = word * 0x9E3779B1 >> 8 & SYNC_WORDS - 1
    for _ in range(SYNC_WORDS - 1):
        if check["sync_word"][place] == 0:
            check["sync_word"][place] = word + 1
        if check["sync_word"][place] == word + 1:
            return place
        place = place + 1 & SYNC_WORDS - 1
    return place


@cold_step
def access_sync_word(chip, word, is_write, hart):
    """A hart accesses a word by which harts synchronise: a store passes on, a load learns."""
    check = chip.check[0]
    clock = check["sync_clock"][_sync_place(check, word)]
    if is_write:
        assign(check, clock, check["clock"][hart])
        go_on(check, hart)
    else:
        acquire(check, hart, clock)
