"""The advanced timers by hand: counts, channels and events as in the RTL's text."""

import random
from itertools import pairwise

import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.advanced_timer import ADVANCED_TIMER
from soc.debug.checkpoint import _plain, _remember
from soc.peripherals import advanced_timer
from soc.peripherals.advanced_timer import AdvancedTimer
from soc.run import ENGINES, run_program

START, STOP, UPDATE, RESET, ARM = (1 << bit for bit in range(5))
SAW = 1 << 12
SET, TOGGLE_RESET, SET_RESET, TOGGLE, CLEAR, TOGGLE_SET, RESET_SET = range(7)


class Bench:
    """Four timers, the clocks of all of them on from cycle 11 on."""

    def __init__(self, reference=100):
        self.env, self.log, self.warnings = Environment(), [], []
        self.timer = AdvancedTimer(
            self.env,
            reference,
            self.warnings.append,
            lambda number: self.log.append((self.env.now, number)),
        )
        self.go_to(10)
        self.put("CLOCK_GATE", 0xF)

    def go_to(self, cycle):
        self.env.run(until=cycle)

    def put(self, name, value, timer=0):
        self.timer.write(ADVANCED_TIMER.offset(name, timer), value, 4)

    def get(self, name, timer=0):
        return self.timer.read(ADVANCED_TIMER.offset(name, timer), 4)

    def set_up(self, first, last, config=SAW, timer=0, **compares):
        self.put("COUNT_RANGE", last << 16 | first, timer)
        self.put("CONFIG", config, timer)
        for name, (count, operation) in compares.items():
            self.put(f"COMPARE_{name[1:]}", operation << 16 | count, timer)

    def start(self, cycle, timer=0):
        self.go_to(cycle)
        self.put("COMMAND", START, timer)

    def counts(self, cycles, timer=0):
        """By cycle."""
        found = []
        for cycle in cycles:
            self.go_to(cycle)
            found.append(self.get("COUNTER", timer))
        return found

    def outputs(self, cycles):
        found = []
        for cycle in cycles:
            self.go_to(cycle)
            self.get("COUNTER")
            found.append(self.timer._advanced(cycle).channels)
        return found


def test_a_store_of_start_counts_from_its_fourth_cycle_on():
    """Command, active; then input and prescaler, which ticks one cycle later; then the count."""
    bench = Bench()
    bench.set_up(3, 6)
    bench.start(100)
    assert bench.counts(range(101, 112)) == [0, 3, 3, 4, 5, 6, 3, 4, 5, 6, 3]


def test_the_prescaler_counts_one_more_than_it_says():
    bench = Bench()
    bench.set_up(0, 9, SAW | 2 << 16)
    bench.start(100)
    counts = bench.counts(range(102, 125))
    first = counts.index(1)
    assert counts[first : first + 7] == [1, 1, 1, 2, 2, 2, 3]


def test_up_and_down():
    bench = Bench()
    bench.set_up(2, 5, 0)
    bench.start(100)
    assert bench.counts(range(102, 116)) == [2, 2, 3, 4, 5, 4, 3, 2, 3, 4, 5, 4, 3, 2]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (SET, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        (TOGGLE_RESET, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]),
        (SET_RESET, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]),
        (TOGGLE, [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1]),
        (CLEAR, [0] * 12),
        (TOGGLE_SET, [0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0]),
        (RESET_SET, [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0]),
        (7, [0] * 12),
    ],
)
def test_what_a_match_does_with_its_channel(operation, expected):
    """Counts 0 to 3; the match is at 1, the end at 3; the channel has it one cycle later."""
    bench = Bench()
    bench.set_up(0, 3, c0=(1, operation))
    bench.start(100)
    assert [outputs & 1 for outputs in bench.outputs(range(103, 115))] == expected
    assert bench.counts(range(115, 121)) == [0, 1, 2, 3, 0, 1]


def test_up_and_down_match_twice():
    bench = Bench()
    bench.set_up(0, 4, 0, c0=(3, SET_RESET))
    bench.start(100)
    counts = bench.counts(range(103, 121))
    bench = Bench()
    bench.set_up(0, 4, 0, c0=(3, SET_RESET))
    bench.start(100)
    outputs = [value & 1 for value in bench.outputs(range(103, 121))]
    rises = [n for n in range(1, 18) if outputs[n] > outputs[n - 1]]
    falls = [n for n in range(1, 18) if outputs[n] < outputs[n - 1]]
    assert [counts[n - 1] for n in (*rises, *falls)] == [3] * len(rises + falls)
    assert len(rises) == 2


def test_events_tell_of_rising_channels_and_repeat():
    bench = Bench()
    bench.set_up(0, 99, c2=(40, SET_RESET))
    bench.put("EVENTS", 1 << 17 | 2 << 4)
    bench.start(1000)
    bench.go_to(5000)
    assert {number for _, number in bench.log} == {1}
    cycles = [cycle for cycle, _ in bench.log]
    assert cycles[0] == 1003 + 40 + 2, "the count, the channel, the edge"
    assert {b - a for a, b in pairwise(cycles)} == {100}
    bench.put("COMMAND", STOP)
    before = len(bench.log)
    bench.go_to(9000)
    assert len(bench.log) == before


def test_a_long_period_is_told_of_in_its_cycle_without_stepping_through_it(monkeypatch):
    steps = []
    plain = advanced_timer.step
    monkeypatch.setattr(advanced_timer, "step", lambda *a: (steps.append(1), plain(*a))[1])
    bench = Bench()
    bench.set_up(0, 0xFFFF, SAW | 255 << 16, c0=(0x8000, SET_RESET))
    bench.put("EVENTS", 1 << 16)
    bench.start(100)
    bench.go_to(100_000_000)
    cycles = [cycle for cycle, _ in bench.log]
    assert {b - a for a, b in pairwise(cycles)} == {1 << 24}
    assert len(steps) < 200_000


def test_stores_count_from_the_next_tick_on_and_an_update_at_the_end():
    bench = Bench()
    bench.set_up(0, 9)
    bench.start(100)
    bench.go_to(103)
    bench.put("COUNT_RANGE", 4 << 16 | 2)
    assert bench.counts(range(104, 116)) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    bench.put("COMMAND", UPDATE)
    assert bench.counts(range(116, 130)) == [3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 2, 3, 4, 2]


def test_reset_and_stop():
    bench = Bench()
    bench.set_up(5, 50)
    bench.start(100)
    bench.go_to(110)
    bench.put("COMMAND", RESET)
    assert bench.counts((111, 112, 113, 114)) == [13, 5, 5, 6]
    bench.put("COMMAND", STOP)
    held = bench.counts((117, 200))
    assert held[0] == held[1]


def test_a_timer_without_its_clock_keeps_its_registers_and_loses_commands():
    bench = Bench()
    bench.put("CLOCK_GATE", 0)
    bench.set_up(1, 9)
    bench.start(100)
    bench.go_to(110)
    bench.put("CLOCK_GATE", 1)
    assert bench.counts((120, 200)) == [0, 0]
    bench.start(201)
    assert bench.counts((210,)) == [7]


def test_pins_count_by_level_and_edge():
    bench = Bench()
    for timer, mode in enumerate((1, 2, 3, 5)):
        bench.set_up(0, 1000, SAW | mode << 8 | 4, timer)
        bench.start(100 + timer, timer)
    for cycle, pins in ((200, 1 << 4), (230, 0), (300, 1 << 4), (350, 0)):
        bench.go_to(cycle)
        bench.timer.see(pins)
    bench.go_to(400)
    low, high, rises, changes = (bench.get("COUNTER", timer) for timer in range(4))
    assert (high, rises, changes) == (80, 2, 4)
    assert low == 400 - 103 - 80


def test_an_armed_input_counts_after_its_edge_to_the_end():
    bench = Bench()
    bench.set_up(0, 20, SAW | 6 << 8)
    bench.start(100)
    bench.go_to(110)
    bench.timer.see(1)
    bench.go_to(120)
    bench.timer.see(0)
    assert bench.counts((150,)) == [0], "not armed"
    bench.put("COMMAND", ARM)
    bench.go_to(160)
    bench.timer.see(1)
    counts = bench.counts((170, 175, 300, 400))
    assert 0 < counts[0] < counts[1]
    assert counts[2] == counts[3]


def test_the_reference_clock_is_counted_at_its_rising_edges():
    bench = Bench(reference=100)
    bench.set_up(0, 1000, SAW | 1 << 11)
    bench.start(150)
    assert bench.counts((199, 210, 310, 1010)) == [0, 1, 2, 9]


def test_a_channel_is_another_timer_s_input():
    bench = Bench()
    bench.set_up(0, 9, c1=(5, SET_RESET))
    bench.set_up(0, 1000, SAW | 3 << 8 | 33, timer=1)
    bench.start(99, 1)
    bench.start(100)
    assert bench.counts((1003,), 1) == [90]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(3)
def test_what_is_skipped_is_the_same_as_all_of_its_cycles(seed, monkeypatch):
    def drive(bench):
        draw = random.Random(seed)
        cycle, log = 20, []
        for _ in range(40):
            cycle += draw.choice((1, 2, 7, 50, 400))
            bench.go_to(cycle)
            timer = draw.randrange(4)
            first, last = draw.randint(0, 20), draw.randint(20, 90)
            what = draw.randrange(7)
            if what == 0:
                bench.put("COMMAND", draw.choice((1, 1, 1, 2, 4, 8, 16)), timer)
            elif what == 1:
                bench.put("COUNT_RANGE", last << 16 | first, timer)
            elif what == 2:
                mode, clock, saw = draw.randrange(8), draw.random() < 0.2, draw.random() < 0.7
                select = draw.choice((0, 1, 32, 37, 40, 60))
                config = draw.randrange(4) << 16 | saw << 12 | clock << 11 | mode << 8 | select
                bench.put("CONFIG", config, timer)
            elif what == 3:
                name = f"COMPARE_{draw.randrange(4)}"
                bench.put(name, draw.randrange(8) << 16 | draw.randint(0, 90), timer)
            elif what == 4:
                bench.put("EVENTS", draw.getrandbits(20))
            elif what == 5:
                bench.timer.see(draw.getrandbits(2))
            else:
                bench.put("CLOCK_GATE", draw.choice((15, 15, 15, 7, 9)))
            at = bench.timer._advanced(bench.env.now)
            log.append((cycle, [bench.get("COUNTER", n) for n in range(4)], at))
        bench.go_to(cycle + 3000)
        return log, [bench.get("COUNTER", n) for n in range(4)], bench.log

    skipped = drive(Bench(reference=37))
    monkeypatch.setattr(advanced_timer, "LEAST_SKIP", 1 << 62)
    monkeypatch.setattr(AdvancedTimer, "_is_same", lambda *_: False)
    assert skipped == drive(Bench(reference=37))


def test_registers_keep_their_bits():
    bench = Bench()
    for name, bits in advanced_timer.STORED.items():
        bench.put(name, 0xFFFFFFFF)
        assert bench.get(name) == bits
    bench.put("COUNTER", 5)
    assert (bench.get("COUNTER"), bench.get("COMMAND")) == (0, 0)
    assert Bench().get("CONFIG", 3) == SAW


def test_a_restored_timer_goes_on():
    bench, other = Bench(), Bench()
    bench.set_up(0, 9, c1=(5, SET_RESET))
    bench.start(100)
    bench.go_to(150)
    _remember(other.timer, _plain(bench.timer))
    assert bench.counts((977,)) == other.counts((977,))


FIRMWARE = """
_start:
    li s0, 0x1A105000
    li t0, 1
    sw t0, 0x104(s0)             # clock of timer 0
    li t0, 199 << 16
    sw t0, 0x08(s0)              # 0 to 199
    li t0, 2 << 16 | 100
    sw t0, 0x0C(s0)              # channel 0: set at 100, reset at the end
    li t0, 1 << 16
    sw t0, 0x100(s0)             # event 0 is that of channel 0
    li s1, 0x1A109800
    li t0, 1
    sw t0, 0(s0)                 # start
    li a0, 0
again:
    lw t0, 0x0C(s1)
    srli t0, t0, 17
    andi t0, t0, 1
    beqz t0, again
    li t0, 1 << 17
    sw t0, 0x14(s1)              # STATUS_CLEAR
    addi a0, a0, 1
    li t0, 5
    bne a0, t0, again
    li t0, 0x1A104000
    lui t1, 0x80000
    or a0, a0, t1
    sw a0, 0xA0(t0)
    wfi
"""


def test_firmware_is_told_five_times_in_both_engines_in_the_same_cycles():
    program = assemble(FIRMWARE, profile("ri5cy", "x"))
    results = [run_program(program, engine=engine, max_cycles=5000) for engine in ENGINES]
    for result in results:
        assert result.exit.code == 5, result.exit.message
        assert 100 + 4 * 200 < result.cycles < 100 + 5 * 200
        assert not result.warnings
    assert results[0].cycles == results[1].cycles
