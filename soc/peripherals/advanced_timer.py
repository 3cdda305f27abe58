"""The advanced timers: four counters with comparators, behind a bus, and their channels' events.

Source: apb_adv_timer rtl/apb_adv_timer.sv, adv_timer_apb_if.sv, read; no program was measured. A
store takes effect in the next cycle; a timer whose clock is off keeps its registers, and a command
that comes then is lost.

Nothing is done cycle by cycle but around what may happen (soc.peripherals.advanced_timer_counter).
When firmware waits for events, the next one is looked for, and SimPy told of its cycle.
"""

from collections.abc import Callable
from typing import NamedTuple

from simpy import Environment

from soc.address_map.advanced_timer import ADVANCED_TIMER, TIMERS
from soc.peripherals.advanced_timer_counter import NEVER, Settings, TimerState, quiet, skip, step
from soc.peripherals.bus import later
from soc.peripherals.register_block import RegisterBlock, loads, stores

PINS = 32
LEAST_SKIP = 4
MOST_STEPS = 512
"""Steps in which the next event is looked for at once."""
STORED = {
    "CONFIG": 0xFF1FFF,
    "COUNT_RANGE": 0xFFFFFFFF,
    "EVENTS": 0xFFFFF,
    "CLOCK_GATE": 0xF,
    **dict.fromkeys((f"COMPARE_{channel}" for channel in range(4)), 0x7FFFF),
    **dict.fromkeys((f"TABLE_{channel}" for channel in range(4)), 0x3FFFF),
}
"""Bits that registers keep."""


class Moment(NamedTuple):
    """All registers in a cycle.

    commands    in this cycle, of each timer
    edges       of each event, two samples of its channel: the older in bit 0
    """

    cycle: int
    timers: tuple[TimerState, ...]
    commands: tuple[int, ...] = (0,) * TIMERS
    edges: tuple[int, ...] = (0,) * TIMERS

    @property
    def channels(self) -> int:
        """A bit each, those of timer 0 first."""
        return sum(timer.outputs << 4 * number for number, timer in enumerate(self.timers))


class AdvancedTimer(RegisterBlock, write_only=("COMMAND",), read_only=("COUNTER",)):
    """Four timers.

    reference    cycles of the reference clock

    Ports
        warn     out   see RegisterBlock
        event    out   0..3: an event in this cycle
        see      in    levels of the pins from this cycle on

    State: `at`, a Moment; what is asked for later is found from it.
    """

    def __init__(
        self,
        env: Environment,
        reference: int,
        warn: Callable[[str], None],
        event: Callable[[int], None],
    ):
        super().__init__("advanced_timer", ADVANCED_TIMER, warn)
        self.env, self.reference, self.event = env, reference, event
        self.pins = self.serial = 0
        self.settings: tuple[Settings, ...] = (Settings(),) * TIMERS
        self.at = Moment(0, (TimerState(),) * TIMERS)
        self.clocked = self.events = 0  # CLOCK_GATE, EVENTS

    @property
    def _now(self) -> int:
        return int(self.env.now)

    @loads("COUNTER")
    def _load_counter(self, name: str, index: int) -> int:
        return self._advanced(self._now).timers[index].value

    @stores("COMMAND")
    def _command(self, name: str, index: int, value: int) -> None:
        at = self._advanced(self._now + 1)
        commands = (*at.commands[:index], value & 0x1F, *at.commands[index + 1 :])
        self._go_on(at._replace(commands=commands))

    @stores(*STORED)
    def _store(self, name: str, index: int, value: int) -> None:
        at = self._advanced(self._now + 1)
        self.put(name, index, value & STORED[name])
        self.settings = tuple(self._settings(timer) for timer in range(TIMERS))
        self.clocked, self.events = self.word("CLOCK_GATE"), self.word("EVENTS")
        self._go_on(at)

    def see(self, pins: int) -> None:
        """The pins have these levels from this cycle on."""
        at = self._advanced(self._now)
        self.pins = pins
        self._go_on(at)

    def _settings(self, timer: int) -> Settings:
        config, span = self.word("CONFIG", timer), self.word("COUNT_RANGE", timer)
        return Settings(
            config & 0xFF,
            config >> 8 & 7,
            config >> 11 & 1,
            config >> 12 & 1,
            config >> 16,
            span & 0xFFFF,
            span >> 16,
            tuple(self.word(f"COMPARE_{channel}", timer) for channel in range(4)),
        )

    # Time

    def _clock(self, cycle: int) -> int:
        """Level of the reference clock: it rises in multiples of its period."""
        return int(cycle >= self.reference and cycle % self.reference < self.reference // 2)

    def _next_edge(self, cycle: int) -> int:
        """The first cycle after this one with another level of it."""
        half, past = self.reference // 2, cycle % self.reference
        return cycle - past + (half if past < half else self.reference)

    def _told(self, at: Moment) -> int:
        """A bit per event that is told in this cycle."""
        enabled = self.events >> 16
        return sum(1 << n for n, edge in enumerate(at.edges) if edge == 0b10 and enabled >> n & 1)

    def _level(self, at: Moment, timer: int) -> int:
        """Of a timer's input."""
        select = at.timers[timer].taken[0]
        return (at.channels << PINS | self.pins) >> select & 1

    def _step(self, at: Moment) -> Moment:
        channels, clock = at.channels, self._clock(at.cycle)
        timers = tuple(
            step(state, self.settings[n], at.commands[n], self._level(at, n), clock)
            if self.clocked >> n & 1
            else state
            for n, state in enumerate(at.timers)
        )
        edges = tuple(
            (channels >> (self.events >> 4 * n & 15) & 1) << 1 | edge >> 1
            if self.events >> 16 + n & 1
            else edge
            for n, edge in enumerate(at.edges)
        )
        return Moment(at.cycle + 1, timers, (0,) * TIMERS, edges)

    def _quiet(self, at: Moment) -> int:
        """Cycles that may be skipped, see advanced_timer_counter.quiet."""
        if any(at.commands) or any(edge in (0b01, 0b10) for edge in at.edges):
            return 0
        channels, cycles = at.channels, NEVER
        for n, edge in enumerate(at.edges):
            is_high = channels >> (self.events >> 4 * n & 15) & 1
            if self.events >> 16 + n & 1 and edge != 3 * is_high:
                return 0
        for n, state in enumerate(at.timers):
            if self.clocked >> n & 1:
                settings = self.settings[n]
                cycles = min(cycles, quiet(state, settings, self._level(at, n)))
                if settings.by_clock and state.is_active:
                    level = self._clock(at.cycle)
                    if state.clock != 7 * level:
                        return 0
                    cycles = min(cycles, self._next_edge(at.cycle) - at.cycle)
        return cycles

    def _skipped(self, at: Moment, cycles: int) -> Moment:
        timers = tuple(
            skip(state, self.settings[n], self._level(at, n), cycles)
            if self.clocked >> n & 1
            else state
            for n, state in enumerate(at.timers)
        )
        return self._with_clocks(at._replace(cycle=at.cycle + cycles, timers=timers))

    def _pass(self, at: Moment, until: int, most: int, is_awaited: bool) -> Moment:
        """Let time pass up to a cycle, or, if one is awaited, to the next event.

        most    steps, after which it comes back early. Where the registers are what they were
                before, all that lies between them comes again and again.
        """
        kept, kept_for = at, 2
        for number in range(1, most):
            if at.cycle >= until or (is_awaited and self._told(at)):
                break
            cycles = min(self._quiet(at), until - at.cycle)
            at = self._skipped(at, cycles) if cycles >= LEAST_SKIP else self._step(at)
            if self._is_same(at, kept):
                if is_awaited and not self._told(at):
                    return at._replace(cycle=until)  # none comes
                skipped = (until - at.cycle) // (at.cycle - kept.cycle) * (at.cycle - kept.cycle)
                if skipped >= LEAST_SKIP:
                    at = self._with_clocks(at._replace(cycle=at.cycle + skipped))
            elif number == kept_for:
                kept, kept_for = at, 2 * kept_for
        return at

    def _is_same(self, at: Moment, before: Moment) -> bool:
        """Does all that follows come again, because the registers are what they were?"""
        if at.cycle == before.cycle or at.edges != before.edges or any(at.commands):
            return False
        is_in_phase = (at.cycle - before.cycle) % self.reference == 0
        for settings, now, then in zip(self.settings, at.timers, before.timers, strict=True):
            if now.value != then.value or now._replace(clock=then.clock) != then:
                return False
            if settings.by_clock and now.is_active and not (is_in_phase and now == then):
                return False
        return True

    def _with_clocks(self, at: Moment) -> Moment:
        """With the samples of the reference clock that timers have at least 3 cycles later."""
        clock = sum(self._clock(at.cycle - 1 - n) << n for n in range(3))
        timers = tuple(
            state._replace(clock=clock) if self.clocked >> n & 1 else state
            for n, state in enumerate(at.timers)
        )
        return at._replace(timers=timers)

    def _advanced(self, cycle: int) -> Moment:
        """The registers in a cycle, this one or the next."""
        at = self._moment()
        while at.cycle < cycle:
            at = self._pass(at, cycle, 1 << 30, False)
        self.at = at
        return at

    def _moment(self) -> Moment:
        """What is kept; a checkpoint has plain tuples."""
        cycle, timers, commands, edges = self.at
        self.settings = tuple(Settings(*each) for each in self.settings)
        return Moment(cycle, tuple(TimerState(*state) for state in timers), commands, edges)

    def _go_on(self, at: Moment) -> None:
        """Set an alarm for the next event, if there is one."""
        self.at = at
        self.serial += 1
        if self.events >> 16:
            found = self._pass(at, NEVER, MOST_STEPS, True)
            if found.cycle < NEVER:
                later(self.env, found.cycle - self._now, self._alarm, self.serial)

    def _alarm(self, serial: int) -> None:
        if serial != self.serial:
            return
        at = self._advanced(self._now)
        told = self._told(at)
        for number in range(TIMERS):
            if told >> number & 1:
                self.event(number)
        self._go_on(self._step(at) if told else at)
