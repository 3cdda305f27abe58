"""Bits on the lines of I2C: the registers of udma_i2c's bus controller, cycle by cycle.

Source: udma_i2c rtl/udma_i2c_bus_ctrl.sv, read. A bit passes four phases, each of which ends when
the divider's counter, which does not begin anew with a command, has come to its end. The lines are
seen through two flip-flops and a filter; the counter stands until a clock line that is let go is
seen high.

What a command does depends on the registers and on what a device drives alone, so its cycles are
found at once, and remembered.
"""

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

RESET_DIVIDER = 0x100


class Bit(IntEnum):
    """Commands of the bus controller."""

    NONE = 0
    START = 1
    STOP = 2
    WRITE = 3
    READ = 4
    WAIT = 5


MAJORITY = (0, 0, 0, 1, 0, 1, 1, 1)
"""Of three samples."""

IDLE = 0
"""The phase between commands; phase n of a command c is 4 c + n, n from 0."""

KEEP, DATA = -1, -2
_PHASES = {
    Bit.START: ((KEEP, 1), (1, 1), (1, 0), (0, 0)),
    Bit.STOP: ((0, 0), (1, 0), (1, 0), (1, 1)),
    Bit.WRITE: ((0, DATA), (1, DATA), (1, DATA), (0, DATA)),
    Bit.READ: ((0, 1), (1, 1), (1, 1), (0, 1)),
    Bit.WAIT: ((1, 1), (1, 1), (1, 1), (1, 1)),
}
LINES = {4 * bit + n: lines for bit, each in _PHASES.items() for n, lines in enumerate(each)}
"""By phase, what the master lets SCL and SDA be: 0 pulled low, 1 let go, KEEP as it is, DATA."""
CHECKED = 4 * Bit.WRITE + 2
"""The phase in which a line that was let go has to be high: or the arbitration is lost."""


class BusState(NamedTuple):
    """The bus controller's registers.

    counter, enable     of the divider; `enable` lets a phase end
    waits               the counter stands: SCL is let go and not yet seen high
    scl_before          what SCL was let be one cycle before
    scl_sync, sda_sync  two flip-flops
    filter_count        cycles to the next samples; scl_samples, sda_samples: three of them
    scl_seen, sda_seen  their majority; scl_old, sda_old one cycle before
    rises, falls        of SDA while SCL was high: a stop, a start
    is_busy, is_lost    the bus is between start and stop; arbitration is lost
    is_stop             the last command was STOP
    got                 SDA as SCL was seen to rise
    phase               see IDLE
    is_done             a command has ended
    scl, sda            1: the line is let go
    is_checked          SDA has to be as it was let be
    """

    counter: int = 0
    enable: int = 1
    waits: int = 0
    scl_before: int = 1
    scl_sync: int = 0
    sda_sync: int = 0
    filter_count: int = 0
    scl_samples: int = 7
    sda_samples: int = 7
    scl_seen: int = 1
    sda_seen: int = 1
    scl_old: int = 1
    sda_old: int = 1
    falls: int = 0
    rises: int = 0
    is_busy: int = 0
    is_lost: int = 0
    is_stop: int = 0
    got: int = 1
    phase: int = IDLE
    is_done: int = 0
    scl: int = 1
    sda: int = 1
    is_checked: int = 0


def step(s: BusState, divider: int, command: int, data: int, driven: int) -> BusState:
    """One cycle.

    command    that begins, Bit.NONE: none
    data       bit to write
    driven     what the devices let SDA be
    """
    is_sync = s.scl_old and not s.scl_seen and s.scl
    count, enable = s.counter, 0
    if s.counter == 0 or is_sync:
        count, enable = divider, 1
    elif not s.waits:
        count -= 1
    scl_samples, sda_samples = s.scl_samples, s.sda_samples
    if s.filter_count == 0:
        filter_count = divider >> 2
        scl_samples = scl_samples << 1 & 7 | s.scl_sync >> 1
        sda_samples = sda_samples << 1 & 7 | s.sda_sync >> 1
    else:
        filter_count = s.filter_count - 1
    phase, is_done, scl, sda, is_checked = s.phase, 0, s.scl, s.sda, 0
    if s.is_lost:
        phase, scl, sda = IDLE, 1, 1
    elif phase == IDLE:
        phase = 4 * command
    else:
        of_scl, of_sda = LINES[phase]
        scl = scl if of_scl == KEEP else of_scl
        sda = data if of_sda == DATA else of_sda
        is_checked = int(phase == CHECKED)
        if s.enable:
            is_done = int(phase & 3 == 3)
            phase = IDLE if is_done else phase + 1
    is_bad = s.is_checked and not s.sda_seen and s.sda
    return BusState(
        count,
        enable,
        int(not s.scl_seen and ((s.scl and not s.scl_before) or s.waits)),
        s.scl,
        s.scl_sync << 1 & 3 | s.scl,
        s.sda_sync << 1 & 3 | s.sda & driven,
        filter_count,
        scl_samples,
        sda_samples,
        MAJORITY[s.scl_samples],
        MAJORITY[s.sda_samples],
        s.scl_seen,
        s.sda_seen,
        int(not s.sda_seen and s.sda_old and s.scl_seen),
        int(s.sda_seen and not s.sda_old and s.scl_seen),
        int((s.falls or s.is_busy) and not s.rises),
        int(bool(is_bad or (s.phase != IDLE and s.rises and not s.is_stop))),
        int(command == Bit.STOP) if command else s.is_stop,
        s.sda_seen if s.scl_seen and not s.scl_old else s.got,
        phase,
        is_done,
        scl,
        sda,
        is_checked,
    )


@lru_cache(1 << 14)
def advance(
    state: BusState, divider: int, command: int, data: int, driven: int
) -> tuple[int, BusState]:
    """Let cycles pass until a line changes, the bus becomes busy or lost, or a command has ended.

    A command is under way, or begins in the first cycle. Returns the cycles, and the state then.
    """
    before = state.scl, state.sda, state.is_busy, state.is_lost
    cycles = 0
    while True:
        state = step(state, divider, command, data, driven)
        cycles += 1
        command = Bit.NONE
        if state.is_done or before != (state.scl, state.sda, state.is_busy, state.is_lost):
            return cycles, state
        if state.phase == IDLE:
            return cycles, state


def rest(state: BusState, divider: int, cycles: int, driven: int) -> BusState:
    """Let cycles pass without a command."""
    settled = state.filter_count + 3 * ((divider >> 2) + 1) + 12  # flip-flops, filter, the rest
    if cycles - settled > 1:
        for _ in range(settled):
            state = step(state, divider, Bit.NONE, 0, driven)
        left = cycles - settled - 1
        state = state._replace(
            counter=state.counter - left
            if left <= state.counter
            else (state.counter - left) % (divider + 1),
            filter_count=(state.filter_count - left) % ((divider >> 2) + 1),
        )
        cycles = 1
    for _ in range(cycles):
        state = step(state, divider, Bit.NONE, 0, driven)
    return state
