"""The cycle loop: the step functions of all clocked parts, fused.

In every cycle: what is due is collected, the arbiters choose, what was granted takes place, and the
harts concerned run on to their next request. Cycles in which nothing is due cost next to nothing.
"""

from collections.abc import Callable

import numpy as np

from soc import control_page
from soc.bits import bit, lowest_index
from soc.control_page import barrier_arrive, control_read, control_write
from soc.decode import LOAD, WIDTH
from soc.hart import (
    ACCESS,
    ELW,
    FAULT_LOAD,
    FAULT_STORE,
    INTERRUPT_CYCLES,
    L1_REQUEST,
    NEEDS_DECODER,
    OFF,
    REQUEST,
    RUN,
    SLEEP,
    STOPPED,
    WAIT,
    WFI,
    charge,
    enter_trap,
    stop_at,
)
from soc.l1 import DMA_PORTS, arbitrate
from soc.memory import transact
from soc.state import COUNT, NEVER, SLOTS, Chip
from soc.step import inlined_step, step

# Why the loop returns.
END = 0  # the window is over
ASLEEP = 1  # nothing is due
HOST = 2  # requests wait for the host
DECODE = 3  # a hart has come to code that is not decoded
HALT = 4  # a hart stopped the simulation
ALL_EXITED = 5

L1_CONTENTION, MISALIGNED = COUNT.l1_contention, COUNT.misaligned
L1_ACCESSES, EVENT_STALL, WFI_STALL = COUNT.l1_accesses, COUNT.event, COUNT.wfi
LOADS, STORES = COUNT.loads, COUNT.stores
LOAD_EXTERNAL, STORE_EXTERNAL = COUNT.load_external, COUNT.store_external
EXTERNAL_LOADS, EXTERNAL_STORES = COUNT.external_loads, COUNT.external_stores

ELW_RESUME = 3
INTERRUPT_SEEN = 2
WFI_WAKE = 3


@inlined_step
def schedule(chip, h, cycle):
    """Enter a hart into the timing wheel."""
    wheel = chip.wheel[0]
    hart = chip.harts[h]
    hart["when"] = cycle
    slot = min(cycle, wheel["now"] + SLOTS - 1)
    wheel["slots"][np.uint64(slot) % np.uint64(SLOTS)] |= bit(h)
    wheel["due"] |= bit(h)


@inlined_step
def bank_of(chip, hart):
    """Return the bank that a hart's L1 access asks for now."""
    config = chip.config[0]
    word = (hart["address"] >> 2) + hart["second"]
    return chip.banks[np.uint64(word) & np.uint64(config["banks"] - 1)]


@inlined_step
def access_granted(hart, row, now):
    """Note the grant of a hart's access: its next instruction can issue now."""
    hart["free"] = now
    hart["ready"] = now + 1
    hart["memory_grant"] = now
    if row["kind"] == LOAD:
        hart["load_register"] = row["rd"]
        hart["load_grant"] = now


@inlined_step
def l1_access(chip, hart, now):
    """Perform a granted L1 transaction; returns True if its second half is due."""
    row = chip.code[np.uint64(hart["row"])]
    counts = hart["counts"]
    counts[L1_ACCESSES] += 1
    hart["l1_grant"] = now
    lost = now - hart["when"]
    if lost:
        counts[L1_CONTENTION] += lost
    if transact(hart, row, chip.l1, hart["address"] - chip.config[0]["l1_base"]):
        hart["second"] = 1
        counts[MISALIGNED] += 1
        return True
    if hart["second"]:
        hart["second"] = 0
        hart["split_until"] = now
    access_granted(hart, row, now)
    return False


@step
def answer(chip, h, value, now):
    """Complete an access that is no L1 access: grant in this cycle, with this value."""
    hart = chip.harts[h]
    row = chip.code[np.uint64(hart["row"])]
    access_granted(hart, row, now)
    if row["kind"] == LOAD or row["kind"] == ELW:
        hart["counts"][LOADS] += 1
        hart["regs"][row["rd"]] = (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    else:
        hart["counts"][STORES] += 1
    if row["kind"] == ELW:
        hart["seen"] = now + ELW_RESUME
        charge(hart, EVENT_STALL, hart["seen"] - hart["issued"] - 1)
    elif row["kind"] == LOAD:
        charge(hart, LOAD_EXTERNAL, now - hart["issued"] - 1)
    else:
        charge(hart, STORE_EXTERNAL, now - hart["issued"] - 1)
    hart["state"] = RUN


@step
def store_value(hart, row):
    """Return the data of a store, unsigned."""
    width = 8 * int(row["access"] & WIDTH)
    return int(hart["regs"][row["rs2"]]) & ((1 << width) - 1)


@step
def control_request(chip, h, now):
    """Serve a request to the control page; returns the harts that go on."""
    hart = chip.harts[h]
    row = chip.code[np.uint64(hart["row"])]
    offset = hart["address"] - chip.config[0]["control_page"]
    if offset == control_page.BARRIER:
        released = barrier_arrive(chip, h)
        hart["state"] = WAIT
        rest = released
        while rest:
            other = lowest_index(rest)
            rest &= rest - np.uint64(1)
            answer(chip, other, 0, now)
        return released
    if row["kind"] == LOAD:
        answer(chip, h, control_read(chip, offset, now), now)
    else:
        control_write(chip, h, offset, store_value(hart, row), now)
        answer(chip, h, 0, now)
    return bit(h)


@step
def l2_access(chip, h, now):
    """Perform an access to L2 in its cycle there; returns True if its second half is due."""
    hart = chip.harts[h]
    row = chip.code[np.uint64(hart["row"])]
    if transact(hart, row, chip.l2, hart["address"] - chip.config[0]["l2_base"]):
        hart["second"] = 1
        hart["counts"][MISALIGNED] += 1
        return True
    hart["second"] = 0
    return False


@step
def l2_request(chip, h, now):
    """Serve a request to L2; returns the harts that go on now."""
    if l2_access(chip, h, now):
        schedule(chip, h, now + 1)
        return np.uint64(0)
    hart = chip.harts[h]
    row = chip.code[np.uint64(hart["row"])]
    access_granted(hart, row, now)
    hart["state"] = RUN
    return bit(h)


@step
def fault_request(chip, h):
    """Stop at an access to nowhere."""
    hart = chip.harts[h]
    row = chip.code[np.uint64(hart["row"])]
    hart["state"] = stop_at(
        hart, FAULT_LOAD if row["kind"] == LOAD else FAULT_STORE, hart["address"]
    )
    return np.uint64(0)


@step
def serve(chip, h, now):
    """Serve a request that is not for L1; returns the harts that go on in this cycle."""
    config = chip.config[0]
    hart = chip.harts[h]
    address = hart["address"]
    if 0 <= address - config["l2_base"] < config["l2_size"]:
        return l2_request(chip, h, now)
    if config["control_page"] and 0 <= address - config["control_page"] < 0x1000:
        return control_request(chip, h, now)
    return fault_request(chip, h)


@step
def interrupt_pending(hart):
    """Will the hart take an interrupt?"""
    return hart["mstatus"] & 8 != 0 and hart["mip"] & hart["mie"] != 0


@step
def take_interrupt(hart, start):
    """Enter the handler instead of the instruction that would have issued at start (rule T)."""
    pending = hart["mip"] & hart["mie"]
    line = 31
    while pending >> line & 1 == 0:
        line -= 1
    hart["pc"] = enter_trap(hart, 0x80000000 | line, hart["pc"])
    handler = max(hart["irq_cycle"] + INTERRUPT_CYCLES + 1, start + 1)
    charge(hart, COUNT.trap, handler - max(hart["free"], hart["seen"]))
    hart["seen"] = handler
    hart["free"] = handler


@step
def raise_interrupt(chip, h, line, now):
    """Set an interrupt line of a hart; a hart in wfi wakes up."""
    hart = chip.harts[h]
    hart["mip"] |= 1 << line
    hart["irq_cycle"] = now
    if hart["state"] == WFI and hart["mip"] & hart["mie"]:
        hart["state"] = RUN
        hart["seen"] = now + WFI_WAKE
        charge(hart, WFI_STALL, hart["seen"] - hart["issued"] - 1)
        schedule(chip, h, now + WFI_WAKE)


def make_run(advance: Callable) -> Callable:
    """Return the loop around this `advance`."""

    @inlined_step
    def run_hart(chip, h, now, end):
        """Let a hart run on and enter its next request into the wheel."""
        hart = chip.harts[h]
        wheel = chip.wheel[0]
        until = min(end, now + chip.config[0]["lookahead"])
        if hart["exited"]:
            until = now + 1
        elif hart["mstatus"] & 8 and hart["mie"]:
            until = now
        state = RUN
        while True:
            state = advance(chip, h, until)
            if until == now and state == RUN and hart["when"] == now:
                if interrupt_pending(hart) and now >= hart["irq_cycle"] + INTERRUPT_SEEN:
                    take_interrupt(hart, now)
                else:
                    until = now + 1
                    continue
            break
        if hart["exited"]:
            hart["state"] = OFF
            return
        if state <= REQUEST:
            when = hart["when"]
            slot = np.uint64(min(when, now + SLOTS - 1)) % np.uint64(SLOTS)
            wheel["slots"][slot] |= bit(h)
            wheel["due"] |= bit(h)
        elif state == NEEDS_DECODER:
            wheel["stop"] = DECODE
            wheel["stop_hart"] = h
            schedule(chip, h, max(now, hart["when"]))
        elif state == STOPPED:
            wheel["stop"] = HALT
            wheel["stop_hart"] = h

    @step
    def run(chip: Chip, end: int) -> int:
        """Simulate cycles before `end`; returns why it stopped, at wheel.now."""
        wheel = chip.wheel[0]
        config = chip.config[0]
        control = chip.control[0]
        harts = chip.harts
        slots = wheel["slots"]
        one = np.uint64(1)
        ports = config["inputs"] - DMA_PORTS
        now = wheel["now"]
        wheel["stop"] = END
        while now < end:
            slot = np.uint64(now) % np.uint64(SLOTS)
            due = slots[slot]
            if control["irq_cycle"] == now:
                for h in range(config["cores"]):
                    raise_interrupt(chip, h, control_page.INTERRUPT_LINE, now)
                due = slots[slot]
            if control["busy"]:
                generator_step = True
                control_page.generator_request(chip, now)
            else:
                generator_step = False
                if due == 0:
                    if wheel["due"] == 0 and control["irq_cycle"] == NEVER:
                        wheel["now"] = now
                        return ASLEEP
                    now += 1
                    wheel["now"] = now
                    continue
            slots[slot] = np.uint64(0)
            wheel["due"] &= ~due
            rest = due
            while rest:
                h = lowest_index(rest)
                rest &= rest - one
                hart = harts[np.uint64(h)]
                if hart["state"] == L1_REQUEST:
                    bank_of(chip, hart)["requests"] |= bit(h)
            going = np.uint64(0)
            rest = due
            while rest:
                h = lowest_index(rest)
                rest &= rest - one
                hart = harts[np.uint64(h)]
                state = hart["state"]
                if state == L1_REQUEST:
                    bank = bank_of(chip, hart)
                    if bank["requests"]:
                        arbitrate(bank)
                    if bank["winner"] != h:
                        bank["conflicts"] += 1
                        slots[np.uint64(now + 1) % np.uint64(SLOTS)] |= bit(h)
                        wheel["due"] |= bit(h)
                    elif l1_access(chip, hart, now):
                        schedule(chip, h, now + 1)
                    else:
                        going |= bit(h)
                elif hart["when"] > now:
                    schedule(chip, h, hart["when"])
                elif state == REQUEST:
                    going |= serve(chip, h, now)
                    if hart["state"] == STOPPED:
                        wheel["stop"] = HALT
                        wheel["stop_hart"] = h
                else:
                    going |= bit(h)
            while going:
                h = lowest_index(going)
                going &= going - one
                run_hart(chip, h, now, end)
            if generator_step:
                for port in range(DMA_PORTS):
                    if control["next"][port] == now:
                        address = control["base"] + 16 * control["done"][port] + 4 * port
                        bank = chip.banks[np.uint64(address >> 2) & np.uint64(config["banks"] - 1)]
                        if bank["requests"]:
                            arbitrate(bank)
                        won = bank["winner"] == ports + port
                        if not won:
                            bank["conflicts"] += 1
                        control_page.generator_access(chip, port, won, now)
            if wheel["stop"] == DECODE:
                wheel["now"] = now
                return DECODE
            now += 1
            wheel["now"] = now
            if wheel["stop"] != END:
                return wheel["stop"]
        return END

    return run


__all__ = ["ACCESS", "SLEEP"]
