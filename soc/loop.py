"""The cycle loop: the step functions of all clocked parts, fused.

In every cycle the requests are collected, the arbiters choose, what was granted takes place, and
the harts concerned run on to their next request. Cycles in which nothing is due cost next to
nothing.
"""

from collections.abc import Callable

import numpy as np

from soc import control_page
from soc.bits import bit, lowest_index
from soc.chip_state import Chip
from soc.decode import LOAD, STORE
from soc.fetch import fetch_jump, fetch_stop
from soc.hart_status import (
    ACCESS,
    L1_REQUEST,
    NEEDS_DECODER,
    OFF,
    REQUEST,
    RUN,
    STOPPED,
    WFI,
    charge,
)
from soc.icache_bank import icache_note
from soc.l1 import DMA_PORTS, ask_bank, grant_bank
from soc.links import (
    eu_clock,
    eu_interrupt,
    eu_set_event,
    eu_take_interrupt,
    grant_ports,
    request_lanes,
    step_icache,
    tick,
)
from soc.links import is_idle as dma_is_idle
from soc.memory import transact
from soc.requests import access_granted, answer, l2_grant, redirect, schedule, serve
from soc.state import COUNT, NEVER, SLOTS
from soc.step import cold_step, inlined_step, step
from soc.traps import WFI_CYCLES, enter_trap, interrupts_enabled, wake_up

# Why the loop returns.
END = 0  # the window is over
ASLEEP = 1  # nothing is due
HOST = 2  # requests wait for the host
DECODE = 3  # a hart has come to code that is not decoded
HALT = 4  # a hart stopped the simulation
DMA_ERROR = 5

L1_CONTENTION, MISALIGNED = COUNT.l1_contention, COUNT.misaligned
L1_ACCESSES, LOADS, STORES = COUNT.l1_accesses, COUNT.loads, COUNT.stores

INTERRUPT_SEEN = 2
INTERRUPT_FETCH = 2
WFI_WAKE = 3
DMA_EVENT, DMA_INTERRUPT = 8, 9
"""Event lines of a core's DMA transfers (cluster_event_map.sv)."""

DMA_AWAKE = 4
"""Cycles that the DMA is clocked when nothing moves; a port takes its next access after 2."""


@inlined_step
def bank_of(chip, word):
    """Return the bank of a word address."""
    return chip.banks[np.uint64(word) & np.uint64(chip.config[0]["banks"] - 1)]


@inlined_step
def l1_word(hart):
    """Return the word address of a hart's L1 transaction."""
    return (hart["address"] >> 2) + hart["second"]


@inlined_step
def l1_access(chip, h, now):
    """Perform a granted L1 transaction; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    counts = hart["counts"]
    counts[L1_ACCESSES] += 1
    hart["l1_grant"] = now
    lost = now - hart["when"]
    if lost and hart["external"] == 0:
        charge(hart, L1_CONTENTION, lost)
    offset = hart["address"] - chip.config[0]["l1_base"]
    if transact(hart, row, chip.l1, offset):
        hart["second"] = 1
        if hart["external"] == 0:
            charge(hart, MISALIGNED, 1)
        schedule(chip, h, now + 1)
        return np.uint64(0)
    hart["second"] = 0
    access_granted(hart, row, now)
    if hart["test_and_set"]:
        hart["test_and_set"] = 0
        chip.l1[np.uint64(offset >> 2)] = -1
    if hart["external"]:
        return answer_controller(chip, h, now)
    return bit(h)


@step
def answer_controller(chip, h, now):
    """Send the answer of L1 back to the fabric controller."""
    hart = chip.harts[np.uint64(h)]
    cycle = now + chip.config[0]["l1_to_controller"]
    row = chip.code[np.uint64(hart["row"])]
    hart["state"] = RUN
    access_granted(hart, row, cycle)
    cause = COUNT.store_external if row["kind"] == STORE else COUNT.load_external
    charge(hart, cause, cycle - hart["issued"] - 1)
    schedule(chip, h, cycle)
    return np.uint64(0)


@step
def interrupt_pending(hart):
    """Will the hart take an interrupt?"""
    return hart["mstatus"] & 8 != 0 and hart["mip"] & hart["mie"] != 0


@cold_step
def take_interrupt(chip, h, start, now):
    """Enter the handler instead of the instruction that would have issued at start (rule T)."""
    hart = chip.harts[np.uint64(h)]
    pending = hart["mip"] & hart["mie"]
    line = 31
    while pending >> line & 1 == 0:
        line -= 1
    hart["pc"] = enter_trap(hart, 0x80000000 | line, hart["pc"])
    hart["handed"] = 0
    taken = max(hart["irq_cycle"] + INTERRUPT_SEEN, hart["seen"])
    handler = max(taken + INTERRUPT_FETCH, start + 1)
    charge(hart, COUNT.trap, handler - max(hart["free"], hart["seen"]))
    hart["seen"] = hart["free"] = hart["when"] = handler
    fetch_jump(chip.fetch[np.uint64(h)], hart["pc"], handler - 2)
    config = chip.config[0]
    if config["control_page"] == 0 and hart["external"] == 0:
        eu_take_interrupt(chip.event_unit[0], h, line, now)
        hart["mip"] = 0


@step
def raise_interrupt(chip, h, line, now):
    """Set an interrupt line of a hart; a hart in wfi wakes up."""
    hart = chip.harts[np.uint64(h)]
    hart["mip"] |= 1 << line
    hart["irq_cycle"] = now
    if hart["state"] == WFI and hart["mip"] & hart["mie"]:
        hart["state"] = RUN
        wake_up(hart, max(now + WFI_WAKE, hart["issued"] + WFI_CYCLES))
        schedule(chip, h, hart["free"])


@cold_step
def clock_event_unit(chip, now):
    """Clock the event unit; returns the harts whose loads it grants."""
    unit = chip.event_unit[0]
    wheel = chip.wheel[0]
    granted = np.uint64(eu_clock(unit, now))
    rest = granted
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        answer(chip, h, unit["value"][h], now)
    wheel["at_event_unit"] &= ~granted
    if unit["interrupt"]:
        for h in range(chip.config[0]["cores"]):
            line = eu_interrupt(unit, h)
            if line >= 0 and chip.harts[np.uint64(h)]["mip"] >> line & 1 == 0:
                raise_interrupt(chip, h, line, now + 1)
    return granted


@cold_step
def signal_dma(chip, now):
    """Pass the DMA's event lines of this cycle on to the event unit, before its other inputs."""
    dma = chip.dma[0]
    if dma["event"]:
        eu_set_event(chip.event_unit[0], dma["event"], DMA_EVENT, now)
    if dma["interrupt"]:
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
def cycle_dma(chip, granted, lanes, now):
    """The DMA's cycle behind the collection of requests; returns the harts that go on."""
    first = chip.config[0]["inputs"] - DMA_PORTS
    granted_lanes = 0
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            bank = bank_of(chip, chip.dma[0]["lane_word"][lane])
            granted_lanes |= grant_bank(bank, first + lane) << lane
    dma = chip.dma[0]
    wheel = chip.wheel[0]
    tick(dma, lanes, granted_lanes, chip.l1, chip.l2, chip.l2_port[0], now)
    wheel["dma_busy"] = wheel["dma_busy"] - 1 if dma_is_idle(dma) else DMA_AWAKE
    if dma["error"]:
        wheel["stop"] = DMA_ERROR
    return answer_dma_ports(chip, granted, now)


@cold_step
def request_dma_lanes(chip, now):
    """Put the DMA's requests to L1; returns its lanes that request, a bit each."""
    lanes = request_lanes(chip.dma[0])
    first = chip.config[0]["inputs"] - DMA_PORTS
    for lane in range(DMA_PORTS):
        if lanes >> lane & 1:
            ask_bank(bank_of(chip, chip.dma[0]["lane_word"][lane]), first + lane, now)
    return lanes


@cold_step
def cycle_generator(chip, now):
    """Let the control page's generator access L1 behind the collection of requests."""
    control = chip.control[0]
    first = chip.config[0]["inputs"] - DMA_PORTS
    for port in range(DMA_PORTS):
        if control["next"][port] == now:
            bank = bank_of(chip, control["base"] + 16 * control["done"][port] + 4 * port >> 2)
            won = grant_bank(bank, first + port)
            control_page.generator_access(chip, port, won, now)


@cold_step
def interrupt_from_control_page(chip, now):
    """Raise the test bench's interrupt in every core."""
    chip.control[0]["irq_cycle"] = NEVER
    for h in range(chip.config[0]["cores"]):
        raise_interrupt(chip, h, control_page.INTERRUPT_LINE, now)


@step
def collect_hart(chip, h, now):
    """Take up a hart that is due: its request goes to a bank of L1 or is served.

    Returns the harts that go on without L1.
    """
    hart = chip.harts[np.uint64(h)]
    going = np.uint64(0)
    if hart["when"] > now:
        schedule(chip, h, hart["when"])
        return going
    if hart["state"] == REQUEST and not redirect(chip, h, now):
        going = serve(chip, h, now)
        if hart["state"] == STOPPED:
            chip.wheel[0]["stop"] = HALT
            chip.wheel[0]["stop_hart"] = h
    elif hart["state"] == ACCESS:
        going = l2_grant(chip, h, now)
    elif hart["state"] == RUN:
        going = bit(h)
    if hart["state"] == L1_REQUEST and hart["when"] <= now:
        ask_bank(bank_of(chip, l1_word(hart)), h, now)
    return going


@cold_step
def collect(chip, due, now):
    """Collect the requests of this cycle; returns the harts that go on without L1."""
    going = np.uint64(0)
    while due:
        h = lowest_index(due)
        due &= due - np.uint64(1)
        going |= collect_hart(chip, h, now)
    return going


@inlined_step
def plain_bank(chip, h):
    """Return the bank of the plain word that a hart asks for."""
    return bank_of(chip, chip.harts[np.uint64(h)]["address"] >> 2)


@inlined_step
def request_plain(chip, harts, now):
    """Put the requests of harts for plain words to the banks."""
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        ask_bank(plain_bank(chip, h), h, now)


@inlined_step
def grant_plain(chip, harts, now):
    """Grant requests for plain words; returns the harts that are served, the others ask again."""
    wheel = chip.wheel[0]
    granted = np.uint64(0)
    rest = harts
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        granted |= np.uint64(grant_bank(plain_bank(chip, h), h)) << np.uint64(h)
    losers = harts & ~granted
    wheel["slots"][np.uint64(now + 1) % np.uint64(SLOTS)] |= losers
    wheel["due"] |= losers
    wheel["plain"] &= ~granted
    return granted


@inlined_step
def l1_word_access(chip, h, row, now):
    """Perform the access of this row to an aligned word of L1, which is granted."""
    hart = chip.harts[np.uint64(h)]
    counts = hart["counts"]
    counts[L1_ACCESSES] += 1
    lost = now - hart["when"]
    if lost:
        charge(hart, L1_CONTENTION, lost)
    word = np.uint64(hart["address"] - chip.config[0]["l1_base"]) >> np.uint64(2)
    if row["kind"] == LOAD:
        counts[LOADS] += 1
        hart["regs"][row["rd"]] = chip.l1[word]
        hart["load_register"] = row["rd"]
        hart["load_grant"] = now
    else:
        counts[STORES] += 1
        chip.l1[word] = hart["regs"][row["rs2"]]
    hart["l1_grant"] = now
    hart["memory_grant"] = now
    hart["free"] = now
    hart["ready"] = now + 1


@inlined_step
def access_plain(chip, harts, now):
    """Perform the accesses of harts to plain words of L1."""
    while harts:
        h = lowest_index(harts)
        harts &= harts - np.uint64(1)
        row = chip.code[np.uint64(chip.harts[np.uint64(h)]["row"])]
        l1_word_access(chip, h, row, now)


@cold_step
def access_l1(chip, due, now):
    """Arbitrate the banks and perform what was granted; returns the harts that go on."""
    wheel = chip.wheel[0]
    going = np.uint64(0)
    rest = due
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        hart = chip.harts[np.uint64(h)]
        if hart["state"] == L1_REQUEST and hart["when"] <= now:
            bank = bank_of(chip, l1_word(hart))
            if grant_bank(bank, h):
                going |= l1_access(chip, h, now)
            else:
                wheel["slots"][np.uint64(now + 1) % np.uint64(SLOTS)] |= bit(h)
                wheel["due"] |= bit(h)
    return going


def make_run_hart(advance: Callable) -> Callable:
    """Return the step function that lets a hart run on."""

    @inlined_step
    def run_hart(chip, h, now, end):
        """Let a hart run on, in cycles before `end`, and enter its next request into the wheel."""
        hart = chip.harts[np.uint64(h)]
        wheel = chip.wheel[0]
        until = min(end, now + chip.config[0]["lookahead"])
        if hart["exited"]:
            until = now + 1
        elif interrupts_enabled(hart):
            until = now
        state = RUN
        while True:
            state = advance(chip, h, until)
            if until == now and state == RUN and hart["when"] == now:
                if interrupt_pending(hart) and now >= hart["irq_cycle"] + INTERRUPT_SEEN:
                    take_interrupt(chip, h, now, now)
                else:
                    until = now + 1
                    continue
            break
        fetch = chip.fetch[np.uint64(h)]
        if hart["exited"]:
            hart["state"] = OFF
            fetch_stop(fetch)
        elif state <= REQUEST:
            slot = min(hart["when"], now + SLOTS - 1)
            wheel["slots"][np.uint64(slot) % np.uint64(SLOTS)] |= bit(h)
            wheel["due"] |= bit(h)
        elif state == NEEDS_DECODER:
            hart["state"] = RUN
            wheel["resume"] |= bit(h)
        elif state == STOPPED:
            wheel["stop"] = HALT
            wheel["stop_hart"] = h
        icache_note(chip.icache[0], fetch, h)

    return run_hart


def make_run(advance: Callable) -> Callable:
    """Return the loop around this `advance`."""
    run_hart = make_run_hart(advance)

    @step
    def run(chip: Chip, end: int) -> int:
        """Simulate cycles before `end`; returns why it stopped, at wheel.now."""
        wheel = chip.wheel[0]
        control = chip.control[0]
        unit = chip.event_unit[0]
        dma = chip.dma[0]
        icache = chip.icache[0]
        slots = wheel["slots"]
        now = wheel["now"]
        if wheel["resume"] == 0:
            wheel["stop"] = END
        while now < end:
            going = wheel["resume"]
            if going:
                wheel["resume"] = np.uint64(0)
            else:
                slot = np.uint64(now) % np.uint64(SLOTS)
                if control["irq_cycle"] == now:
                    interrupt_from_control_page(chip, now)
                due = slots[slot]
                next_part = min(unit["next"], icache["wake"])
                if due == 0 and control["busy"] | wheel["dma_busy"] == 0 and next_part > now:
                    quiet = next_part == NEVER and control["irq_cycle"] == NEVER
                    if wheel["due"] == 0 and quiet:
                        wheel["now"] = now
                        return ASLEEP
                    now += 1
                    wheel["now"] = now
                    continue
                slots[slot] = np.uint64(0)
                wheel["due"] &= ~due
                if wheel["dma_busy"]:
                    signal_dma(chip, now)
                plain = due & wheel["plain"]
                others = due & ~plain
                if others:
                    going = collect(chip, others, now)
                if control["busy"]:
                    control_page.generator_request(chip, now)
                granted = lanes = 0
                if wheel["dma_busy"]:
                    granted = grant_ports(dma)
                    lanes = request_dma_lanes(chip, now)
                request_plain(chip, plain, now)
                served = grant_plain(chip, plain, now)
                access_plain(chip, served, now)
                going |= served
                if others:
                    going |= access_l1(chip, others, now)
                if wheel["dma_busy"]:
                    going |= cycle_dma(chip, granted, lanes, now)
                if control["busy"]:
                    cycle_generator(chip, now)
                if unit["next"] <= now:
                    going |= clock_event_unit(chip, now)
            while going:
                h = lowest_index(going)
                going &= going - np.uint64(1)
                run_hart(chip, h, now, end)
            if wheel["resume"]:
                wheel["now"] = now
                return DECODE
            if icache["wake"] <= now:
                step_icache(chip, now)
            if wheel["host"] and wheel["stop"] == END:
                wheel["stop"] = HOST
            now += 1
            wheel["now"] = now
            if wheel["stop"] != END:
                return wheel["stop"]
        return END

    return run
