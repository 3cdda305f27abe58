"""PULP's timer (timer_v2): two 32-bit counters or one of 64 bits, with prescaler and target.

Source: timer_unit rtl/timer_unit.sv, timer_unit_counter.sv, timer_unit_counter_presc.sv. Of the
64-bit mode the RTL compares the halves separately; here it is one counter, as documented.

A store takes effect in the next cycle. Nothing is counted cycle by cycle: a counter knows its next
tick, and SimPy the cycle in which it reaches its target if that is an event.
"""

from collections.abc import Callable
from dataclasses import dataclass

from simpy import Environment

from soc.address_map.registers import TIMER
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.peripherals.bus import forget, later
from soc.peripherals.register_block import WORD, RegisterBlock, loads, stores

DECODED = 0x3F
"""Bits of an address that choose the register (apb_timer_unit.sv): they repeat every 64 bytes."""

NEVER = 1 << 62
MOST_ALARMS = 1024
"""Alarms that are kept: a program may set other targets as often as it likes."""
EARLY = 64
"""An alarm that is set so many cycles before comes before all accesses in its cycle."""

CONFIG = {f.name: (f.mask, f.low) for f in TIMER.register("CONFIG").fields}
ENABLE, RESET, WIDE = (CONFIG[name][0] for name in ("enable", "reset", "wide"))
CONFIG_OFFSETS = [TIMER.offset("CONFIG", index) for index in range(2)]


@dataclass
class Counter:
    """One counter.

    value        that is visible from cycle `since` on; `before` is, until then
    tick         next cycle after which the value is one more
    period       cycles from tick to tick
    prescaler    its target; `phase` is its count while it stands still
    is_locked    stands at its target: swallows the next tick
    """

    value: int = 0
    since: int = 0
    before: int = 0
    tick: int = 0
    period: int = 1
    prescaler: int = 0
    phase: int = 0
    is_scaled: bool = False
    is_locked: bool = False
    compare: int = 0
    width: int = 32
    running: bool = False
    clears: bool = False
    one_shot: bool = False

    def reaches(self) -> int:
        """Cycle in which the value reaches the target next, NEVER if it stands still."""
        if not self.running:
            return NEVER
        ticks = ((self.compare - self.value - 1) & ((1 << self.width) - 1)) + 1
        return self.tick + (ticks - 1 + self.is_locked) * self.period + 1

    def advance(self, now: int) -> None:
        """Count up to the value that is visible in `now`."""
        if not self.running:
            return
        while (reached := self.reaches()) <= now:
            self._reach(reached)
            self._skip_rounds(now)
        if self.running and self.is_locked and self.tick < now:
            self.tick += self.period
            self.is_locked = False
        if self.running and self.tick < now:
            ticks = -((self.tick - now) // self.period)
            self.value = self.value + ticks & (1 << self.width) - 1
            self.tick += ticks * self.period

    def visible(self, now: int) -> int:
        self.advance(now)
        return self.before if now < self.since else self.value

    def scaler_at(self, cycle: int) -> tuple[int, bool]:
        """The prescaler's count in a cycle up to the next tick, and whether it ticks then."""
        if not (self.running and self.is_scaled):
            return self.phase, self.phase == self.prescaler
        return self.prescaler - (self.tick - cycle), self.tick == cycle

    def _reach(self, reached: int) -> None:
        """The cycle in which the value equals the target. A tick in it is swallowed."""
        self.value = 0 if self.clears else self.compare
        self.before = self.compare
        self.since = reached + 1
        self.tick = max(reached - 1 + self.period, reached + 1)
        self.is_locked = not self.clears and self.period > 1
        self.running = not self.one_shot
        if self.one_shot:
            self.phase = int(self.is_scaled and self.prescaler > 1)

    def _skip_rounds(self, now: int) -> None:
        if self.clears and self.running and self.compare:
            round_ = self.compare * self.period if self.period > 1 else self.compare + 1
            rounds = max(0, (now - self.tick) // round_ - 1)
            self.tick += rounds * round_
            self.since += rounds * round_


class Timer(RegisterBlock, write_only=("START", "RESET")):
    """Two counters behind a bus.

    Ports
        warn     out   see RegisterBlock
        low      out   the low (or the wide) counter reached its target in this cycle
        high     out   the high counter did
    """

    def __init__(
        self,
        name: str,
        env: Environment,
        spec: PeripheralsSpec,
        warn: Callable[[str], None],
        low: Callable[[], None],
        high: Callable[[], None],
    ):
        super().__init__(name, TIMER, warn)
        self.env, self.reference = env, spec.reference_period
        self.events = (low, high)
        self.counters = (Counter(), Counter())
        self.expected = [NEVER, NEVER]  # cycles of the next events
        self.pending = [NEVER, NEVER]  # cycles of the alarms that count,
        self.serial = [0, 0]  # and their numbers
        self.alarms = 0  # all that are to come

    def loading(self, offset: int) -> Callable[[], int]:
        """As in RegisterBlock. Bits of the address from 6 on are not decoded."""
        return super().loading(offset & DECODED)

    def storing(self, offset: int) -> Callable[[int], object]:
        """As in RegisterBlock, decoded alike."""
        return super().storing(offset & DECODED)

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def _config(self, index: int, name: str) -> int:
        mask, low = CONFIG[name]
        return (self.words.get(CONFIG_OFFSETS[index], 0) & mask) >> low

    def _is_wide(self) -> bool:
        return self.words.get(CONFIG_OFFSETS[0], 0) & WIDE != 0

    @loads("CONFIG")
    def _load_config(self, name: str, index: int) -> int:
        config = self.word(name, index)
        counter = self.counters[index]
        counter.advance(self._now)
        stopped = not counter.running and self._now >= counter.since
        return config & ~ENABLE if stopped else config

    @loads("VALUE")
    def _load_value(self, name: str, index: int) -> int:
        if self._is_wide():
            return self.counters[0].visible(self._now) >> 32 * index & WORD
        return self.counters[index].visible(self._now)

    @loads("COMPARE")
    def _load_compare(self, name: str, index: int) -> int:
        if self._is_wide():
            return self.counters[0].compare >> 32 * index & WORD
        return self.counters[index].compare

    @stores("VALUE")
    def _store_value(self, name: str, index: int, value: int) -> None:
        which, now = 0 if self._is_wide() else index, self._now
        counter = self.counters[which]
        counter.advance(now)
        counter.value = self._placed(counter.value, index, value)
        counter.since, counter.is_locked = now + 1, False
        if counter.tick == now:
            counter.tick += counter.period
        self._arm(which)

    @stores("COMPARE")
    def _store_compare(self, name: str, index: int, value: int) -> None:
        is_wide = self._is_wide()
        which = 0 if is_wide else index
        counter = self.counters[which]
        if counter.running:
            counter.advance(self._now + 1)
        counter.compare = self._placed(counter.compare, index, value) if is_wide else value
        self._arm(which)

    def _placed(self, old: int, index: int, value: int) -> int:
        if not self._is_wide():
            return value
        return old & WORD << 32 * (1 - index) | value << 32 * index

    @stores("CONFIG")
    def _store_config(self, name: str, index: int, value: int) -> None:
        was_wide = self._is_wide()
        self._configure(index, value & ~RESET)
        if index == 0 and self._is_wide() != was_wide:
            self._change_width()
        if value & RESET:
            self._reset(index, self._now + 2)

    @stores("START")
    def _start(self, name: str, index: int, value: int) -> None:
        self._configure(index, self._load_config("CONFIG", index) | ENABLE)

    @stores("RESET")
    def _restart(self, name: str, index: int, value: int) -> None:
        self._reset(index, self._now + 1)

    def _configure(self, index: int, config: int) -> None:
        counter, start = self.counters[index], self._now + 1
        counter.advance(start)
        phase, ticks = counter.scaler_at(start)
        was = counter.running, counter.period, counter.is_scaled
        self.put("CONFIG", index, config)
        counter.running = bool(self._config(index, "enable"))
        counter.clears = bool(self._config(index, "clear"))
        counter.one_shot = bool(self._config(index, "one_shot"))
        counter.is_scaled = bool(self._config(index, "prescaler_enable"))
        counter.prescaler = self._config(index, "prescaler")
        counter.phase = 0 if ticks or phase == counter.prescaler else phase
        counter.period = self._period(index)
        if was != (True, counter.period, counter.is_scaled) or not counter.running:
            left = 0 if ticks else (counter.prescaler - phase - 1 & WORD) + 1
            counter.tick = self._first_tick(index, start, left if counter.is_scaled else 0)
        self._arm(index)

    def _change_width(self) -> None:
        low, high = self.counters
        high.advance(self._now + 1)
        if self._is_wide():
            low.value |= high.value << 32
            low.compare |= high.compare << 32
            low.width, high.running = 64, False
        else:
            high.value, high.compare = low.value >> 32, low.compare >> 32
            low.value, low.compare, low.width = low.value & WORD, low.compare & WORD, 32
        self._arm(0)

    def _period(self, index: int) -> int:
        scaled = self._config(index, "prescaler_enable")
        ticks = self._config(index, "prescaler") + 1 if scaled else 1
        return ticks * (self.reference if self._config(index, "reference_clock") else 1)

    def _first_tick(self, index: int, cycle: int, ticks: int) -> int:
        """First tick from `cycle` on, when the prescaler lacks `ticks`."""
        if self._config(index, "reference_clock"):
            return (-(-cycle // self.reference) + ticks) * self.reference
        return cycle + ticks

    def _reset(self, index: int, since: int) -> None:
        counter = self.counters[index]
        counter.before = counter.visible(since - 1)
        counter.value, counter.since, counter.phase = 0, since, 0
        counter.is_locked = False
        ticks = counter.prescaler if counter.is_scaled else 0
        counter.tick = self._first_tick(index, since, ticks)
        self._arm(index)

    def _arm(self, index: int) -> None:
        """Wake up when the counter reaches its target, if that is an event."""
        if not self._config(index, "event"):
            self.expected[index] = NEVER
            return
        reached, pending = self.counters[index].reaches(), self.pending[index]
        self.expected[index] = reached
        told = self._now if pending == reached else pending  # when SimPy hears of it at the latest
        if reached != NEVER and reached - told < EARLY:
            self._wake_at(index, reached)

    def _wake_at(self, index: int, cycle: int) -> None:
        """Let an alarm come in a cycle; it may find that the event is due later by then."""
        self.alarms += 1
        if self.alarms > MOST_ALARMS:
            forget(self.env, self._alarm, lambda index, serial: serial != self.serial[index])
            self.alarms = 2
        self.pending[index] = cycle
        self.serial[index] += 1
        later(self.env, cycle - self._now, self._alarm, index, self.serial[index])

    def _alarm(self, index: int, serial: int) -> None:
        self.alarms -= 1
        if serial != self.serial[index]:
            return
        self.pending[index] = NEVER
        if self.expected[index] == self._now:
            self.counters[index].advance(self._now)
            self.events[index]()
            self._arm(index)
        elif self.expected[index] != NEVER:
            self._wake_at(index, self.expected[index])
