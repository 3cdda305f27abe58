"""Phases of a cycle: their order, and how the DMA, event unit and a test bench's generator act."""

from enum import IntEnum, auto

import numpy as np

from soc.aot.units import eu_clock, eu_interrupt, eu_set_event, request_lanes, tick
from soc.aot.units import is_idle as dma_is_idle
from soc.cluster import testbench
from soc.cluster.demux import answer
from soc.cluster.l1_access import bank_of
from soc.core.decoded_index import note_write
from soc.core.interrupts import set_interrupt
from soc.core.sync_points import (
    note_barriers,
    note_commands,
    note_signal,
    note_word_of_l1,
    note_words_of_l2,
)
from soc.interconnect.tcdm import DMA_PORTS, ask_bank, grant_bank
from soc.prelude.bits import lowest_index
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.stop_reasons import DMA_ERROR
from soc.prelude.trace_points import note_beat, note_transfers_done, note_transfers_started


class Phase(IntEnum):
    """Phases of a cycle, in their order. In one that is the harts', these act in theirs.

    The event engine schedules by it. The compiled one calls the step functions of the phases in
    this order, and leaves out those that have nothing to do in a cycle.
    """

    PERIPHERALS = 0  # processes behind the bus act
    SIGNAL = auto()  # event lines of the DMA reach the event unit
    COLLECT = auto()  # harts that are due put requests to L1's banks, or are served otherwise
    DMA_REQUEST = auto()  # lanes of the DMA, ports of the generator put theirs
    ACCESS_L1 = auto()  # banks choose: harts that win access L1
    DMA_ACCESS = auto()  # lanes and ports that win do; all stages of the DMA advance
    EVENT_UNIT = auto()  # the event unit is clocked, and grants loads
    GO_ON = auto()  # harts that were served issue, up to their next requests
    DECODE = auto()  # harts that have come to code that is not decoded do so once it is
    ICACHE = auto()  # the instruction cache is clocked
    END = auto()  # whoever looks on sees the whole cycle


DMA_EVENT, DMA_INTERRUPT = 8, 9
"""Event lines of a core's DMA transfers (cluster_event_map.sv)."""
DMA_AWAKE = 4
"""Cycles that the DMA is clocked when nothing moves; a port takes its next access after 2."""


@cold_step
def clock_event_unit(chip, now):
    """Clock the event unit; returns the harts whose loads it grants."""
    unit = chip.event_unit[0]
    wheel = chip.wheel[0]
    interrupted = unit["interrupt"]
    granted = np.uint64(eu_clock(unit, now))
    note_barriers(chip, now)
    rest = granted
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        answer(chip, h, unit["value"][h], now)
    wheel["at_event_unit"] &= ~granted
    if interrupted | unit["interrupt"]:
        for h in range(chip.config[0]["cores"]):
            set_interrupt(chip, h, eu_interrupt(unit, h), now + 1)
    return granted


@cold_step
def signal_dma(chip, now):
    """Pass the DMA's event lines of this cycle on to the event unit, before its other inputs."""
    dma = chip.dma[0]
    if dma["event"]:
        note_signal(chip, dma["event"], DMA_EVENT, now)
        eu_set_event(chip.event_unit[0], dma["event"], DMA_EVENT, now)
    if dma["interrupt"]:
        note_signal(chip, dma["interrupt"], DMA_INTERRUPT, now)
        eu_set_event(chip.event_unit[0], dma["interrupt"], DMA_INTERRUPT, now)


@step
def answer_dma_ports(chip, granted, now):
    """Grant the harts whose access a port of the DMA took; returns them."""
    wheel = chip.wheel[0]
    harts = np.uint64(granted) & wheel["at_dma"]
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        answer(chip, h, chip.dma[0]["port"][h]["reply"], now)
    wheel["at_dma"] &= ~harts
    return harts


@cold_step
def request_dma_lanes(chip, now):
    """Put the DMA's requests to L1; returns its lanes that request, a bit each."""
    lanes = request_lanes(chip.dma[0])
    first = chip.config[0]["inputs"] - DMA_PORTS
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            ask_bank(bank_of(chip, chip.dma[0]["lane_word"][lane]), first + lane)
    return lanes


@cold_step
def cycle_dma(chip, granted, lanes, now):
    """The DMA's cycle after the collection of requests; returns the harts that go on.

    granted    ports whose access is granted
    lanes      that request
    """
    first = chip.config[0]["inputs"] - DMA_PORTS
    granted_lanes = 0
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            word = chip.dma[0]["lane_word"][lane]
            won = grant_bank(bank_of(chip, word), first + lane)
            granted_lanes |= won << lane
            address = chip.config[0]["l1_base"] + 4 * word
            note_beat(chip, first + lane, address, won, lane >> 1, now)
            note_word_of_l1(chip, lane, won, now)
    advance_dma(chip, lanes, granted_lanes, now)
    return answer_dma_ports(chip, granted, now)


@step
def advance_dma(chip, lanes, granted, now):
    """Let all stages of the DMA advance; of its lanes these request, and are granted."""
    dma = chip.dma[0]
    offered = dma["offered"]
    note_transfers_done(chip, now)
    wheel = chip.wheel[0]
    dma["l2_write"] = dma["l2_read"] = -1
    tick(dma, lanes, granted, chip.l1, chip.l2, chip.l2_port[0], now)
    note_written_beat(chip)
    note_words_of_l2(chip, now)
    note_commands(chip, offered & ~dma["offered"], now)
    note_transfers_started(chip, offered & ~dma["offered"], now)
    wheel["dma_busy"] = wheel["dma_busy"] - 1 if dma_is_idle(dma) else DMA_AWAKE
    if dma["error"]:
        wheel["stop"] = DMA_ERROR


@inlined_step
def note_written_beat(chip):
    """Note that the DMA has written a beat of L2 in this cycle, if it has."""
    offset = chip.dma[0]["l2_write"]
    if offset >= 0:
        for word in range(2):
            note_write(chip, (offset >> 2) + word)


@cold_step
def cycle_generator(chip, now):
    """Let the control page's generator access L1 after the collection of requests."""
    control = chip.control[0]
    first = chip.config[0]["inputs"] - DMA_PORTS
    for port in range(DMA_PORTS):
        if control["next"][port] == now:
            address = testbench.generator_address(control, port)
            won = grant_bank(bank_of(chip, address >> 2), first + port)
            note_beat(chip, first + port, address, won, control["write"], now)
            testbench.generator_access(chip, port, won, now)
    if control["device_busy"]:
        testbench.device_access(chip, now)
