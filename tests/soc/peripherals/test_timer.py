"""The timer: logs by hand, and against the RTL's registers transcribed cycle by cycle."""

import copy
import random

import pytest
from simpy import Environment

from soc.address_map.registers import TIMER
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.peripherals.timer import MOST_ALARMS, Timer

WORD = 0xFFFFFFFF
ENABLE, RESET, EVENT, CLEAR, ONE_SHOT, SCALED, REFERENCE = 1, 2, 4, 16, 32, 64, 128
WIDE = 1 << 31
REGULAR, FULL = 400, 1500


class Bench:
    """A timer, stores at given cycles, and a log of (cycle, counter) of its events."""

    def __init__(self, **fields):
        self.env = Environment()
        self.log = []
        self.timer = Timer(
            "timer",
            self.env,
            PeripheralsSpec(**fields),
            warn=lambda text: self.log.append(text),
            low=lambda: self.log.append((self.env.now, "low")),
            high=lambda: self.log.append((self.env.now, "high")),
        )

    def at(self, cycle):
        """Go to a cycle, after everything that happens at its beginning."""
        if cycle > self.env.now:
            self.env.run(until=cycle)
        while self.env.peek() <= cycle:
            self.env.step()

    def store(self, name, value, index=0):
        self.timer.write(TIMER.offset(name, index), value, 4)

    def load(self, name, index=0):
        return self.timer.read(TIMER.offset(name, index), 4)

    def values(self, start, end, index=0):
        found = []
        for cycle in range(start, end):
            self.at(cycle)
            found.append(self.load("VALUE", index))
        return found


class RtlCounter:
    """Registers of timer_unit.sv, timer_unit_counter.sv and timer_unit_counter_presc.sv (low)."""

    def __init__(self):
        self.config = self.compare = self.count = self.lock = self.reached = 0
        self.scaler = self.scaler_reached = 0

    def cycle(self, name=None, value=0):
        """One clock edge with at most one store. Returns whether the event is active before it."""
        old, reached = self.config, self.reached
        config = value if name == "CONFIG" else old
        if name == "START":
            config |= ENABLE
        elif config & ONE_SHOT and reached:
            config &= ~ENABLE
        resets = bool(old & RESET) or name == "RESET"
        scaler_resets = resets or (old & SCALED and self.scaler_reached) or self.scaler_reached
        if resets or (old & CLEAR and reached):
            resets = True
            config &= ~RESET
        counts = bool(old & ENABLE) and (not old & SCALED or bool(self.scaler_reached))
        writes = name == "VALUE"
        count = 0 if resets else value if writes else (self.count + counts) & WORD
        hits = counts and count == self.compare and not self.lock
        if not self.lock or resets or writes:
            self.count = count
        if (counts and self.lock) or resets or writes:
            self.lock = 0
        elif hits:
            self.lock = 1
        scales = bool(old & ENABLE) and bool(old & SCALED)
        self.scaler = 0 if scaler_resets else self.scaler + scales
        self.scaler_reached = int(self.scaler == old >> 8 & 255)
        self.reached = int(hits)
        self.config = config
        if name == "COMPARE":
            self.compare = value
        return bool(reached and old & EVENT)

    def is_quiet(self):
        """Whether no target is reached in this cycle or the next and no reset is under way."""
        following = copy.copy(self)
        following.cycle()
        return not (self.reached or following.reached or self.config & RESET)


def random_store(random_, rtl):
    name = random_.choice(["CONFIG", "CONFIG", "COMPARE", "VALUE", "START", "RESET"])
    flags = sum(random_.choice([0, f]) for f in (ENABLE, RESET, EVENT, CLEAR))
    flags += random_.choice([0, 0, ONE_SHOT]) + random_.choice([0, 0, SCALED])
    value = {
        "CONFIG": flags | random_.randint(0, 3) << 8,
        "COMPARE": random_.randint(1, 12),
        "VALUE": random_.choice([random_.randint(0, 12), WORD - 3]),
    }.get(name, 1)
    other = {"VALUE": rtl.compare, "COMPARE": rtl.count}.get(name)
    return (name, value) if value != other else ("START", 1)


def test_random_stores_have_the_effect_that_the_rtl_gives_them(request):
    """Values, configuration and events in every cycle; stores avoid the cycle of the target."""
    events, seeds = 0, FULL if request.config.getoption("--full") else REGULAR
    for seed in range(seeds):
        random_ = random.Random(seed)
        bench, rtl, rtl_log = Bench(), RtlCounter(), []
        next_store = 3
        for cycle in range(120):
            bench.at(cycle)
            assert (seed, cycle, bench.load("VALUE")) == (seed, cycle, rtl.count)
            found = bench.load("CONFIG") & ~RESET
            assert (seed, cycle, found) == (seed, cycle, rtl.config & ~RESET)
            store = (None, 0)
            if cycle == 1:
                store = ("COMPARE", random_.randint(1, 12))
            elif cycle >= next_store and rtl.is_quiet():
                store = random_store(random_, rtl)
                next_store = cycle + random_.randint(2, 40)
            if store[0]:
                bench.store(*store)
            if rtl.cycle(*store):
                rtl_log.append((cycle, "low"))
        assert (seed, bench.log) == (seed, rtl_log)
        events += len(rtl_log)
    assert events > seeds  # the stores do start counters


def test_a_counter_counts_from_the_cycle_after_its_start():
    bench = Bench()
    bench.at(10)
    bench.store("START", 1)
    assert bench.values(11, 15) == [0, 1, 2, 3]


def test_reaching_the_target_is_an_event_and_clears_if_told_so():
    bench = Bench()
    bench.store("COMPARE", 4)
    bench.at(10)
    bench.store("CONFIG", ENABLE | EVENT | CLEAR)
    assert bench.values(11, 23) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert bench.log == [(15, "low"), (20, "low")]


def test_a_one_shot_stops_at_its_target():
    bench = Bench()
    bench.store("COMPARE", 3)
    bench.store("CONFIG", ENABLE | EVENT | ONE_SHOT)
    assert bench.values(1, 9) == [0, 1, 2, 3, 3, 3, 3, 3]
    assert bench.log == [(4, "low")]
    assert bench.load("CONFIG") == EVENT | ONE_SHOT
    assert bench.env.peek() == float("inf")


def test_a_running_counter_stands_at_its_target_for_two_cycles():
    bench = Bench()
    bench.store("COMPARE", 3)
    bench.store("CONFIG", ENABLE)
    assert bench.values(1, 9) == [0, 1, 2, 3, 3, 4, 5, 6]


def test_the_prescaler_divides():
    bench = Bench()
    bench.store("COMPARE", 3)
    bench.at(10)
    bench.store("CONFIG", ENABLE | RESET | EVENT | CLEAR | SCALED | 3 << 8)
    bench.at(100)
    assert bench.log[:3] == [(24, "low"), (36, "low"), (48, "low")]


def test_the_reference_clock_counts_its_own_cycles():
    bench = Bench(reference_period=1000)
    bench.store("COMPARE", 2)
    bench.at(10)
    bench.store("CONFIG", ENABLE | EVENT | REFERENCE)
    bench.at(1001)
    assert bench.load("VALUE") == 1
    bench.at(5000)
    assert bench.log == [(2001, "low")]


def test_both_counters_run_for_themselves():
    bench = Bench()
    for index, target in enumerate((5, 7)):
        bench.store("COMPARE", target, index)
        bench.store("CONFIG", ENABLE | EVENT | CLEAR, index)
    bench.at(18)
    assert bench.log == [(6, "low"), (8, "high"), (12, "low"), (16, "high"), (18, "low")]


def test_two_counters_make_one_of_64_bits():
    bench = Bench()
    bench.store("VALUE", WORD - 2)
    bench.store("VALUE", 6, 1)
    bench.store("COMPARE", 2)
    bench.store("COMPARE", 7, 1)
    bench.at(10)
    bench.store("CONFIG", ENABLE | EVENT | WIDE)
    assert bench.values(11, 16) == [WORD - 2, WORD - 1, WORD, 0, 1]
    assert bench.load("VALUE", 1) == 7
    assert bench.load("COMPARE", 1) == 7
    bench.at(100)
    assert bench.log == [(16, "low")]
    bench.store("VALUE", 9, 1)
    bench.at(101)
    assert bench.load("VALUE", 1) == 9
    bench.store("CONFIG", 0)
    bench.at(102)
    assert bench.load("VALUE", 1) == 9


def test_a_new_target_replaces_an_event_that_was_due():
    bench = Bench()
    bench.store("COMPARE", 100)
    bench.store("CONFIG", ENABLE | EVENT | ONE_SHOT)
    bench.at(10)
    bench.store("COMPARE", 20)
    bench.at(200)
    assert bench.log == [(21, "low")]


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_a_program_that_sets_targets_for_ever_leaves_few_alarms(step):
    bench, far = Bench(), 1 << 20
    bench.store("CONFIG", ENABLE | EVENT | ONE_SHOT)
    for cycle in range(5000):
        bench.at(cycle)
        bench.store("COMPARE", far + step * cycle)
    assert len(bench.env._queue) <= MOST_ALARMS
    bench.env.run()
    assert bench.log == [(1 + far + step * 4999, "low")]


def test_a_million_rounds_are_skipped_not_counted():
    bench = Bench()
    bench.store("COMPARE", 9)
    bench.store("CONFIG", ENABLE | CLEAR)
    assert bench.values(10_000_001, 10_000_012) == [*range(10), 0]


@pytest.mark.parametrize("name", ["START", "RESET"])
def test_registers_that_only_act_read_zero(name):
    assert Bench().load(name) == 0
