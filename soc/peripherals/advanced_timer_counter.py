"""One of the advanced timers: the registers of apb_adv_timer's timer_module, cycle by cycle.

Source: apb_adv_timer rtl/timer_module.sv, timer_cntrl.sv, input_stage.sv, prescaler.sv,
up_down_counter.sv, comparator.sv, read. An input, a tick of the prescaler, a count and what the
comparators make of it follow each other by a cycle each.

Long stretches in which nothing but counts changes are passed at once: see `quiet`.
"""

from typing import NamedTuple

CHANNELS = 4
COUNT = 0xFFFF
NEVER = 1 << 62

ALWAYS, LOW, HIGH, RISES, FALLS, CHANGES, ARMED_RISE, ARMED_FALL = range(8)
"""Modes of the input."""
SET, TOGGLE_RESET, SET_RESET, TOGGLE, RESET, TOGGLE_SET, RESET_SET = range(7)
"""What a comparator does with its channel at a match; and then at the end, or the next match."""
START, STOP, UPDATE, CLEAR, ARM = (1 << bit for bit in range(5))
"""Bits of COMMAND."""


class Settings(NamedTuple):
    """What firmware has stored.

    by_clock        the input counts at edges of the reference clock alone
    is_saw          from `first` to `last` and anew; else up and down
    compares        of the channels, with the operation in bits 18:16
    """

    select: int = 0
    mode: int = 0
    by_clock: int = 0
    is_saw: int = 1
    prescaler: int = 0
    first: int = 0
    last: int = 0
    compares: tuple[int, ...] = (0,) * CHANNELS


class TimerState(NamedTuple):
    """The registers.

    taken             select, mode, prescaler and compares as they count: those of the last tick
    clock             three samples of the reference clock
    old               the input before
    is_armed, latched of the input
    scaled, ticks     the prescaler's count; it has come to its end
    value             from `first` to `last`
    is_counted        `value` is new: comparators look at it
    is_due            an update waits for the counter's end
    outputs           a bit per channel; seconds: the channel waits for its second match
    """

    is_active: int = 0
    taken: tuple[int, int, int, tuple[int, ...]] = (0, 0, 0, (0,) * CHANNELS)
    clock: int = 0
    old: int = 0
    is_armed: int = 0
    latched: int = 0
    scaled: int = 0
    ticks: int = 0
    value: int = 0
    first: int = 0
    last: int = 0
    is_down: int = 0
    is_saw: int = 1
    is_counted: int = 0
    is_due: int = 0
    outputs: int = 0
    seconds: int = 0


def _input(s: TimerState, level: int) -> int:
    """The input's event, but for the reference clock."""
    mode = s.taken[1]
    rises, falls = level & ~s.old & 1, s.old & ~level & 1
    if mode < ARMED_RISE:
        return (1, 1 - level, level, rises, falls, rises | falls)[mode]
    edge = rises if mode == ARMED_RISE else falls
    return s.is_armed and (edge or s.latched)


def _is_end(s: TimerState) -> bool:
    """The count is one at which the counter begins anew, and takes an update."""
    if s.is_saw:
        return s.value == s.last
    return bool(s.is_down and s.value == s.first - 1)


def _count(s: TimerState) -> tuple[int, int]:
    """The next count, and whether it goes down."""
    if not s.is_down and s.value == s.last:
        return (s.first, 0) if s.is_saw else (s.value - 1 & COUNT, 1)
    if s.is_down and s.value == s.first:
        return s.value + 1 & COUNT, 0
    return s.value + (-1 if s.is_down else 1) & COUNT, s.is_down


def _compared(s: TimerState, is_end: bool) -> tuple[int, int]:
    """Outputs, and those that wait for their second match, after a count that is new."""
    outputs, seconds = s.outputs, s.seconds
    for channel, compare in enumerate(s.taken[3]):
        bit = 1 << channel
        is_match, operation = compare & COUNT == s.value, compare >> 16
        if operation in (SET, TOGGLE, RESET):
            if is_match:
                value = {SET: 1, RESET: 0}.get(operation, ~outputs >> channel & 1)
                outputs = outputs & ~bit | value << channel
        elif operation > RESET_SET:
            seconds &= ~bit
        else:
            first = (operation in (TOGGLE_RESET, TOGGLE_SET) and ~outputs >> channel & 1) or int(
                operation == SET_RESET
            )
            then = int(operation in (TOGGLE_SET, RESET_SET))
            if s.is_saw:
                value = first if is_match else then if is_end else outputs >> channel & 1
            elif is_match:
                value = then if seconds & bit else first
                seconds ^= bit
            else:
                continue
            outputs = outputs & ~bit | value << channel
    return outputs, seconds


def step(s: TimerState, settings: Settings, command: int, level: int, clock: int) -> TimerState:
    """One cycle of its clock.

    command    bits of COMMAND, in the cycle after the store
    level      of the chosen input
    clock      of the reference clock
    """
    rises = s.clock >> 1 & 1 & ~(s.clock >> 2)
    by_clock = settings.by_clock
    happens = int(_input(s, level) and (not by_clock or rises))
    starts = command & START and not s.is_active
    resets, updates = starts or command & CLEAR, starts or command & UPDATE
    is_end = _is_end(s)
    is_new = s.is_active and s.is_counted
    ends = is_new and is_end

    taken = s.taken
    if starts or is_new:
        taken = settings.select, settings.mode, settings.prescaler, settings.compares
    latched = s.latched
    if s.is_armed:
        latched = int(bool(_input(s, level)))
    elif ends:
        latched = 0

    if resets or not s.is_active:
        scaled = ticks = 0
    elif not happens:
        scaled, ticks = s.scaled, 0
    elif s.taken[2] == 0 or s.scaled == s.taken[2]:
        scaled, ticks = (s.scaled if s.taken[2] == 0 else 0), 1
    else:
        scaled, ticks = s.scaled + 1 & 0xFF, 0

    is_due, takes_up = s.is_due, False
    if updates or s.is_due:
        if updates and not s.is_active:
            is_due, takes_up = 0, True
        elif is_end:
            is_due, takes_up = 0, bool(s.ticks)
        else:
            is_due = 1
    elif resets:
        is_due, takes_up = 0, True
    count, is_down, first, last, is_saw = s.value, s.is_down, s.first, s.last, s.is_saw
    if takes_up:
        count = first = settings.first
        last, is_saw, is_down = settings.last, settings.is_saw, 0
    elif s.ticks and s.is_active:
        count, is_down = _count(s)

    outputs, seconds = s.outputs, s.seconds
    if resets:
        outputs = seconds = 0
    elif is_new:
        outputs, seconds = _compared(s, bool(is_end))
    return TimerState(
        1 if command & START else 0 if command & STOP else s.is_active,
        taken,
        s.clock << 1 & 7 | clock,
        level if s.is_active and (not by_clock or rises) else s.old,
        1 if command & ARM else 0 if ends else s.is_armed,
        latched,
        scaled,
        ticks,
        count,
        first,
        last,
        is_down,
        is_saw,
        s.ticks if s.is_active else s.is_counted,
        is_due,
        outputs,
        seconds,
    )


def quiet(s: TimerState, settings: Settings, level: int) -> int:
    """Cycles that `skip` may pass at once, while input and reference clock keep their levels.

    NEVER: it stands still. 0: something may happen soon, step.
    """
    happens = bool(_input(s, level))
    is_still = not s.ticks and not (s.is_counted and s.is_active)
    if s.is_armed and s.latched != happens:
        return 0
    if not s.is_active:
        return NEVER if is_still and not s.scaled else 0
    if s.taken != (settings.select, settings.mode, settings.prescaler, settings.compares):
        return 0
    if settings.by_clock:
        return NEVER if is_still else 0
    if s.old != level or s.scaled > s.taken[2]:
        return 0
    if not happens:
        return NEVER if is_still else 0
    if any(c >> 16 > RESET_SET and s.seconds >> n & 1 for n, c in enumerate(s.taken[3])):
        return 0
    marks = [s.first, s.first - 1 & COUNT, s.last, *(c & COUNT for c in s.taken[3])]
    way = -1 if s.is_down else 1
    ahead = min((way * (mark - s.value)) & COUNT for mark in marks)
    return max(0, (ahead - 2) * (s.taken[2] + 1) - 2)


def skip(s: TimerState, settings: Settings, level: int, cycles: int) -> TimerState:
    """Pass cycles, at least 3 and at most `quiet`; `clock` is left as it is."""
    if not s.is_active or settings.by_clock or not _input(s, level):
        return s
    period = s.taken[2] + 1
    total = s.scaled + cycles
    counts = s.ticks + (total - 1) // period
    return s._replace(
        scaled=total % period,
        ticks=int(total % period == 0),
        is_counted=int((total - 1) % period == 0),
        value=s.value + (-counts if s.is_down else counts) & COUNT,
    )
