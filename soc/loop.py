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
from soc.fetch import fetch_stop
from soc.hart_status import ACCESS, L1_REQUEST, NEEDS_DECODER, OFF, REQUEST, RUN, STOPPED
from soc.icache_bank import icache_note
from soc.interrupts import (
    INTERRUPT_SEEN,
    interrupt_from_control_page,
    interrupt_pending,
    take_interrupt,
)
from soc.l1 import ask_bank
from soc.l1_access import access_l1, bank_of, grant_plain, l1_word, l1_word_access, request_plain
from soc.links import grant_ports, step_icache
from soc.phases import clock_event_unit, cycle_dma, cycle_generator, request_dma_lanes, signal_dma
from soc.requests import enter_wheel, l2_grant, redirect, schedule, serve
from soc.state import NEVER, SLOTS
from soc.step import cold_step, inlined_step, step
from soc.trace_points import is_full
from soc.traps import interrupts_enabled

# Why the loop returns, besides soc.phases.DMA_ERROR.
END = 0  # the window is over
ASLEEP = 1  # nothing is due
HOST = 2  # requests wait for the host
DECODE = 3  # a hart has come to code that is not decoded
HALT = 4  # a hart stopped the simulation
TRACE = 6  # the trace's buffer is full


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
            enter_wheel(wheel, bit(h), hart["when"])
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
            if is_full(chip):
                return TRACE
            going = wheel["resume"]
            served = np.uint64(0)
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
                if served >> np.uint64(h) & np.uint64(1):
                    l1_word_access(chip, h, now)
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
