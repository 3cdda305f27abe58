"""The event unit alone, driven by hand; latencies against RTL (data/event_unit_c8.txt).

The data are the accesses of a program for eight CV32E40P cores and the real event unit, as the
RTL's trace has them: barriers together and staggered, software event, mutex under contention.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from soc.address_map.registers import EVENT_UNIT, EVENT_UNIT_SHARED
from soc.event_unit.clock_edge import eu_clock
from soc.event_unit.diagnosis import event_names, waits
from soc.event_unit.event_unit import (
    FAULT,
    LOADING,
    STALLED,
    STORED,
    eu_access,
    eu_interrupt,
    eu_push_soc_event,
    eu_set_event,
    eu_shared_exists,
    eu_shared_load,
    eu_shared_store,
    eu_take_interrupt,
)
from soc.event_unit.state import EventUnitSpec, event_unit_state
from soc.prelude.wheel import NEVER

TRACE = Path(__file__).parents[1] / "data" / "event_unit_c8.txt"
CLOCK_OFF_OF_RTL = {  # cycles that the RTL gates each core's clock, by region of the program
    "barriers together": [5] * 8,
    "staggered": [225, 193, 161, 129, 97, 65, 33, 1],
    "last core 0": [1, 33, 65, 97, 129, 161, 193, 225],
    "barrier 1, core 0": [1] + [0] * 7,
    "software event": [0] + [157] * 7,
    "mutex": [0, 9, 18, 27, 36, 45, 54, 63],
}
BARRIER, MUTEX, DMA = 1 << 16, 1 << 17, 1 << 8


class Bench:
    """An event unit, its cores' requests by cycle, and a log of what it answers."""

    def __init__(self, cores=8, **fields):
        self.spec = EventUnitSpec(**{"barriers": 9, "mutexes": 8} | fields)
        self.state = event_unit_state(self.spec, cores)
        self.eu = self.state[0]
        self.cores = cores
        self.cycle = 0
        self.log = []

    def access(self, core, write, name, value=0, index=0, is_elw=True):
        offset = EVENT_UNIT.offset(name, index)
        return eu_access(self.eu, core, write, is_elw, offset, value, self.cycle)

    def store(self, core, name, value, index=0):
        return self.access(core, True, name, value, index)

    def load(self, core, name, index=0, is_elw=True):
        return self.access(core, False, name, 0, index, is_elw)

    def shared(self, name, value, index=0):
        offset = EVENT_UNIT_SHARED.offset(name, index)
        return eu_shared_store(self.eu, offset, value, self.cycle)

    def event(self, cores, line):
        eu_set_event(self.eu, cores, line, self.cycle)

    def tick(self, cycles=1):
        """End cycles; log (cycle, core, value) of each load that is granted in them."""
        for _ in range(cycles):
            if self.eu["next"] <= self.cycle:
                granted = int(eu_clock(self.eu, self.cycle))
                for core in range(self.cores):
                    if granted >> core & 1:
                        self.log.append((self.cycle, core, int(self.eu["value"][core])))
            self.cycle += 1

    def at(self, cycle):
        """Go on to the beginning of a cycle."""
        self.tick(cycle - self.cycle)

    def read(self, core, name, index=0):
        """Value of a plain register."""
        assert self.load(core, name, index, is_elw=False) == LOADING
        self.tick()
        return self.log.pop()[2]

    def read_shared(self, name, index=0):
        value = eu_shared_load(self.eu, EVENT_UNIT_SHARED.offset(name, index), self.cycle)
        self.tick()
        return int(value)

    def hear(self, mask, cores=None):
        """Set the event mask of some cores in one cycle, and the cycle to 10."""
        for core in range(self.cores) if cores is None else cores:
            assert self.store(core, "MASK", mask) == STORED
        self.at(10)

    def set_barrier(self, barrier, mask, target=None):
        self.store(0, "BARRIER_TRIGGER_MASK", mask, barrier)
        self.tick()
        self.store(0, "BARRIER_TARGET_MASK", mask if target is None else target, barrier)
        self.tick()

    def waits(self):
        return waits(self.eu, [f"hart {core}" for core in range(self.cores)])


def replay(bench, accesses):
    """Feed accesses as an RTL trace has them; return grant cycles by (issue cycle, core)."""
    grants, pending = {}, {}
    by_cycle = {}
    for access in accesses:
        by_cycle.setdefault(access[0] + 1, []).append(access)
    while bench.cycle <= max(by_cycle) + 20:
        for issue, core, kind, offset, value, _ in by_cycle.get(bench.cycle, []):
            status = eu_access(
                bench.eu, core, kind == "store", kind == "elw", offset, value, bench.cycle
            )
            assert status == (STORED if kind == "store" else LOADING)
            if kind == "store":
                grants[issue, core] = bench.cycle
            else:
                pending[core] = issue
        bench.tick()
        for cycle, core, _ in bench.log:
            grants[pending.pop(core), core] = cycle
        bench.log.clear()
    assert not pending
    return grants


def traced_accesses():
    for line in TRACE.read_text().splitlines():
        if not line.startswith("#"):
            issue, core, kind, offset, value, following = line.split()
            yield int(issue), int(core), kind, int(offset, 16), int(value, 16), int(following)


def test_every_access_of_the_rtl_program_is_granted_in_the_rtl_cycle():
    bench = Bench()
    accesses = list(traced_accesses())
    grants = replay(bench, accesses)
    resume = bench.spec.resume
    expected, found = {}, {}
    for issue, core, kind, _, _, following in accesses:
        expected[issue, core] = following - resume if kind == "elw" else issue + 1
        found[issue, core] = grants[issue, core]
    assert len(expected) == 110
    assert found == expected


def test_the_rtl_program_stops_each_core_clock_for_the_rtl_cycles():
    bench = Bench()
    replay(bench, list(traced_accesses()))
    total = [sum(cycles) for cycles in zip(*CLOCK_OFF_OF_RTL.values(), strict=True)]
    assert bench.eu["clock_off"][:8].tolist() == total


def test_plain_python_does_the_same():
    """The step functions mean the same without the compiler."""
    command = [sys.executable, "-m", "pytest", "-q", "-k", "not plain_python", __file__]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_last_arrival_ends_a_barrier_two_cycles_later():
    bench = Bench(cores=3)
    bench.set_barrier(0, 0b111)
    bench.hear(BARRIER)
    for core, cycle in enumerate((10, 13, 20)):
        bench.at(cycle)
        bench.load(core, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.at(40)
    assert bench.log == [(22, core, BARRIER) for core in range(3)]
    assert bench.eu["next"] == NEVER


def test_a_barrier_can_be_used_again_at_once():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b11)
    bench.hear(BARRIER)
    for cycle in (10, 16, 22):
        bench.at(cycle)
        for core in range(2):
            bench.load(core, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.at(40)
    assert bench.log == [(c, core, BARRIER) for c in (12, 18, 24) for core in range(2)]


def test_a_barrier_wakes_its_targets_not_those_that_arrive():
    bench = Bench(cores=3)
    bench.set_barrier(2, 0b001, target=0b110)
    bench.hear(BARRIER)
    for core in (1, 2):
        bench.load(core, "WAIT_CLEAR")
    bench.tick()
    bench.store(0, "BARRIER_TRIGGER", 0b001, 2)
    bench.at(20)
    assert bench.log == [(13, 1, BARRIER), (13, 2, BARRIER)]
    assert bench.read(0, "BUFFER") == 0


def test_a_barrier_without_targets_empties_itself():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b01, target=0)
    bench.at(10)
    bench.store(0, "BARRIER_TRIGGER", 0b01)
    bench.at(20)
    assert (bench.eu["status"][0], bench.eu["next"]) == (0, NEVER)


def test_an_arrival_in_the_cycle_in_which_a_barrier_is_complete_is_lost():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b01)
    bench.at(10)
    bench.store(0, "BARRIER_TRIGGER", 0b01)
    bench.at(11)
    bench.store(1, "BARRIER_TRIGGER", 0b10)
    bench.at(12)
    assert bench.read(0, "BARRIER_STATUS") == 0


def test_barrier_registers_read_back():
    bench = Bench(cores=4)
    bench.set_barrier(8, 0b1011, target=0b0110)
    bench.store(3, "BARRIER_TRIGGER", 0xFFFFFFF2, 8)
    bench.tick()
    registers = ("TRIGGER_MASK", "TARGET_MASK", "STATUS", "STATUS_SUMMARY", "TRIGGER")
    found = [bench.read(2, f"BARRIER_{name}", 8) for name in registers]
    assert found == [0b1011, 0b0110, 0b0010, 0, 0]
    shared = [bench.read_shared(f"BARRIER_{name}", 8) for name in registers]
    assert shared == found


def test_a_load_of_trigger_self_arrives_without_waiting():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b11)
    assert bench.read(1, "BARRIER_TRIGGER_SELF") == 0
    assert bench.read(0, "BARRIER_STATUS") == 0b10


def test_the_registers_of_a_barrier_serve_the_lowest_core_of_a_cycle():
    bench = Bench(cores=3)
    log = []
    waiting = [0, 1, 2]
    while waiting:
        for core in list(waiting):
            if bench.store(core, "BARRIER_TRIGGER_MASK", core + 1) == STORED:
                log.append((bench.cycle, core))
                waiting.remove(core)
        bench.tick()
    assert log == [(0, 0), (1, 1), (2, 2)]
    assert bench.read(0, "BARRIER_TRIGGER_MASK") == 3


def test_masks_are_set_and_cleared_bit_by_bit():
    bench = Bench(cores=2)
    for name in ("MASK", "IRQ_MASK", "SW_EVENT_MASK"):
        bench.store(1, name, 0b0110_0011)
        bench.tick()
        bench.store(1, f"{name}_AND", 0b0000_0001)
        bench.tick()
        bench.store(1, f"{name}_OR", 0b1000_0000)
        bench.tick()
        found = bench.read(1, name)
        assert found == (0b10 if name == "SW_EVENT_MASK" else 0b1110_0010)
        assert bench.read(0, name) == 0


def test_a_software_event_reaches_its_targets_and_zero_means_all():
    bench = Bench(cores=4)
    bench.store(2, "SW_EVENT", 0b0101, 3)
    bench.tick()
    bench.store(0, "SW_EVENT", 0, 7)
    bench.tick()
    assert [bench.read(core, "BUFFER") for core in range(4)] == [0x88, 0x80, 0x88, 0x80]


def test_a_load_reads_an_event_that_arrives_in_its_own_cycle():
    bench = Bench(cores=2)
    bench.store(0, "SW_EVENT", 0b10)
    assert bench.read(1, "BUFFER") == 1


def test_buffers_are_masked_and_cleared():
    bench = Bench(cores=1)
    bench.store(0, "MASK", 0b0110)
    bench.tick()
    bench.store(0, "IRQ_MASK", 0b0011)
    for event in range(3):
        bench.tick()
        bench.store(0, "SW_EVENT", 1, event)
    bench.tick()
    assert bench.read(0, "BUFFER") == 0b0111
    assert bench.read(0, "BUFFER_MASKED") == 0b0110
    assert bench.read(0, "BUFFER_IRQ_MASKED") == 0b0011
    bench.store(0, "BUFFER_CLEAR", 0b0101)
    bench.tick()
    assert bench.read(0, "BUFFER") == 0b0010


def test_a_wait_is_granted_in_the_cycle_after_an_event_of_the_mask():
    bench = Bench(cores=1)
    bench.hear(DMA)
    bench.load(0, "WAIT_CLEAR")
    bench.at(30)
    bench.event(1, 10)
    bench.at(50)
    bench.event(1, 8)
    bench.at(60)
    assert bench.log == [(51, 0, DMA)]
    assert bench.read(0, "BUFFER") == 1 << 10


def test_a_wait_for_an_event_that_is_pending_is_granted_at_once():
    bench = Bench(cores=1)
    bench.hear(DMA)
    bench.event(1, 8)
    bench.at(15)
    bench.load(0, "WAIT")
    bench.at(20)
    bench.load(0, "WAIT_CLEAR")
    bench.at(30)
    assert bench.log == [(15, 0, DMA), (20, 0, DMA)]
    assert bench.read(0, "BUFFER") == 0


@pytest.mark.parametrize(("keeps", "buffer"), [(False, 0), (True, DMA)])
def test_an_event_after_the_grant_is_lost_or_kept_as_the_chip_says(keeps, buffer):
    bench = Bench(cores=1, keeps_new_events=keeps)
    bench.hear(DMA | 1)
    bench.store(0, "SW_EVENT", 1)
    bench.at(15)
    bench.load(0, "WAIT_CLEAR")
    bench.at(16)
    bench.event(1, 8)
    bench.at(20)
    assert bench.log == [(15, 0, 1)]
    assert bench.read(0, "BUFFER") == buffer


def test_an_event_in_the_cycle_of_the_grant_is_read_and_cleared():
    bench = Bench(cores=1)
    bench.hear(DMA | 1)
    bench.store(0, "SW_EVENT", 1)
    bench.at(15)
    bench.event(1, 8)
    bench.load(0, "WAIT_CLEAR")
    bench.at(20)
    assert bench.log == [(15, 0, DMA | 1)]
    assert bench.read(0, "BUFFER") == 0


def test_software_events_can_be_triggered_by_the_load_that_waits():
    bench = Bench(cores=3)
    bench.hear(0b100)
    bench.store(0, "SW_EVENT_MASK", 0b011)
    bench.tick()
    bench.load(0, "SW_EVENT_WAIT_CLEAR", 2)
    bench.at(20)
    bench.load(1, "SW_EVENT_WAIT", 2)
    bench.at(30)
    assert bench.log == [(12, 0, 4), (20, 1, 4)]
    assert [bench.read(core, "BUFFER") for core in range(3)] == [4, 4, 4]


def test_a_plain_load_waits_as_an_event_load_but_keeps_the_clock():
    bench = Bench(cores=2)
    bench.hear(1)
    bench.load(0, "WAIT_CLEAR", is_elw=False)
    bench.load(1, "WAIT_CLEAR", is_elw=True)
    bench.at(20)
    assert [bench.read_shared("CORE_STATUS", core) for core in range(2)] == [1, 0]
    bench.shared("SW_EVENT", 0, 0)
    bench.at(30)
    assert [entry[:2] for entry in bench.log] == [(23, 0), (23, 1)]
    assert bench.eu["clock_off"][:2].tolist() == [0, 12]


def test_a_request_after_a_wait_that_clears_stalls_one_cycle():
    bench = Bench(cores=1)
    bench.hear(1)
    bench.store(0, "SW_EVENT", 1)
    bench.at(12)
    bench.load(0, "WAIT_CLEAR", is_elw=False)
    bench.at(13)
    assert bench.store(0, "MASK", 0) == STALLED
    bench.at(14)
    assert bench.store(0, "MASK", 0) == STORED


def test_a_mutex_goes_to_the_lowest_core_and_hands_a_message_on():
    bench = Bench(cores=4)
    bench.hear(MUTEX)
    for core in (3, 1, 2):
        bench.load(core, "MUTEX", 5)
    bench.at(20)
    assert bench.store(1, "MUTEX", 0xCAFE, 5) == STORED
    bench.at(30)
    bench.store(2, "MUTEX", 7, 5)
    bench.at(40)
    bench.store(3, "MUTEX", 8, 5)
    bench.at(50)
    bench.load(0, "MUTEX", 5)
    bench.at(60)
    assert bench.log == [(11, 1, 0), (21, 2, 0xCAFE), (31, 3, 7), (51, 0, 8)]


def test_a_pending_event_ends_a_wait_for_a_mutex_without_the_lock():
    bench = Bench(cores=2)
    bench.hear(MUTEX | 1)
    bench.load(0, "MUTEX")
    bench.at(20)
    bench.store(0, "SW_EVENT", 0b10)
    bench.at(21)
    bench.load(1, "MUTEX")
    bench.at(30)
    assert bench.log == [(11, 0, 0), (21, 1, 0)]
    assert bench.eu["owner"][0] == 0
    bench.store(0, "MUTEX", 0)
    bench.at(40)
    assert bench.eu["owner"][0] == 1
    assert bench.read(1, "BUFFER") == MUTEX


def test_dispatch_hands_values_to_the_team_in_order():
    bench = Bench(cores=3)
    bench.hear(1 << 18)
    bench.store(0, "DISPATCH_TEAM", 0b110)
    bench.tick()
    bench.store(0, "DISPATCH", 0xA0)
    bench.tick()
    bench.store(0, "DISPATCH", 0xA1)
    bench.at(20)
    for cycle in (20, 30):
        bench.at(cycle)
        for core in (1, 2):
            bench.load(core, "DISPATCH")
    bench.at(50)
    assert bench.log == [(21, 1, 0xA0), (21, 2, 0xA0), (31, 1, 0xA1), (31, 2, 0xA1)]


def test_a_core_that_waits_gets_a_value_two_cycles_after_its_store():
    bench = Bench(cores=2)
    bench.hear(1 << 18)
    bench.store(0, "DISPATCH_TEAM", 0b10)
    bench.load(1, "DISPATCH")
    bench.at(40)
    bench.store(0, "DISPATCH", 0x1234)
    bench.at(60)
    assert bench.log == [(42, 1, 0x1234)]
    assert bench.eu["next"] == NEVER


def test_a_core_walks_past_values_of_other_teams_one_per_cycle():
    bench = Bench(cores=2)
    bench.hear(1 << 18)
    for team, value in ((0b01, 1), (0b01, 2), (0b10, 3)):
        bench.store(0, "DISPATCH_TEAM", team)
        bench.tick()
        bench.store(0, "DISPATCH", value)
        bench.tick()
    bench.at(20)
    bench.load(1, "DISPATCH")
    bench.at(40)
    assert bench.log == [(23, 1, 3)]


def test_soc_events_queue_and_raise_a_line_while_there_are_any():
    bench = Bench(cores=1)
    bench.hear(1 << 27)
    bench.load(0, "WAIT_CLEAR")
    bench.at(20)
    assert eu_push_soc_event(bench.eu, 0x31, bench.cycle)
    assert not eu_push_soc_event(bench.eu, 0x32, bench.cycle)
    bench.tick()
    assert eu_push_soc_event(bench.eu, 0x32, bench.cycle)
    bench.at(30)
    assert bench.log == [(22, 0, 1 << 27)]
    found = [bench.read_shared("SOC_EVENT") for _ in range(3)]
    assert found[:2] == [0x80000031, 0x80000032]
    assert found[2] >> 31 == 0


def test_a_soc_event_wakes_a_core_two_cycles_later_and_again_while_it_is_not_read():
    bench = Bench(cores=1)
    bench.hear(1 << 27)
    bench.load(0, "WAIT_CLEAR")
    bench.at(20)
    eu_push_soc_event(bench.eu, 9, bench.cycle)
    bench.at(40)
    bench.load(0, "WAIT_CLEAR")
    bench.at(60)
    assert bench.log == [(22, 0, 1 << 27), (40, 0, 1 << 27)]
    assert bench.eu["next"] == NEVER


def test_a_full_soc_event_fifo_refuses():
    bench = Bench(cores=1, soc_event_depth=2)
    log = []
    for number in range(3):
        log.append(eu_push_soc_event(bench.eu, number, bench.cycle))
        bench.tick()
    assert log == [True, True, False]


def test_an_interrupt_rises_one_cycle_after_its_event_and_the_highest_line_wins():
    bench = Bench(cores=2)
    bench.store(0, "IRQ_MASK", DMA | 1 << 11)
    bench.at(10)
    bench.event(0b11, 11)
    bench.event(0b11, 8)
    log = []
    for _ in range(3):
        bench.tick()
        log.append((bench.cycle, eu_interrupt(bench.eu, 0), eu_interrupt(bench.eu, 1)))
    assert log == [(11, -1, -1), (12, 11, -1), (13, 11, -1)]
    eu_take_interrupt(bench.eu, 0, 11, bench.cycle)
    bench.tick()
    assert eu_interrupt(bench.eu, 0) == 8
    assert bench.read(0, "BUFFER") == DMA


def test_an_interrupt_ends_a_wait_and_its_replay_arrives_at_no_barrier_again():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b11)
    bench.store(0, "IRQ_MASK", DMA)
    bench.tick()
    bench.hear(BARRIER)
    bench.load(0, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.at(20)
    bench.event(0b01, 8)
    bench.at(30)
    assert bench.log == [(22, 0, 0)]
    assert eu_interrupt(bench.eu, 0) == 8
    eu_take_interrupt(bench.eu, 0, 8, bench.cycle)
    bench.at(40)
    bench.load(1, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.at(50)
    assert bench.log[1:] == [(42, 1, BARRIER)]
    bench.load(0, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.at(60)
    assert bench.log[2:] == [(50, 0, BARRIER)]
    assert bench.read(0, "BARRIER_STATUS") == 0


def test_a_wait_that_meets_a_pending_interrupt_is_granted_one_cycle_later():
    bench = Bench(cores=1)
    bench.store(0, "IRQ_MASK", DMA)
    bench.at(10)
    bench.event(1, 8)
    bench.at(20)
    bench.load(0, "WAIT_CLEAR")
    bench.at(30)
    assert bench.log == [(21, 0, 0)]
    bench.load(0, "WAIT_CLEAR")
    bench.at(40)
    assert bench.log[1:] == [(30, 0, 0)]


def test_the_shared_view_reaches_every_core():
    bench = Bench(cores=4)
    bench.shared("CORE_MASK_OR", 0x10001, index=3)
    bench.tick()
    assert bench.read(3, "MASK") == 0x10001
    assert bench.read_shared("CORE_MASK", 3) == 0x10001
    assert bench.read_shared("CORE_MASK", 2) == 0
    bench.shared("SW_EVENT", 0b1000, index=5)
    bench.tick()
    assert bench.read_shared("CORE_BUFFER", 3) == 1 << 5
    assert bench.read_shared("SW_EVENT", 5) == 0


def test_a_shared_store_waits_while_the_core_stores():
    bench = Bench(cores=2)
    bench.store(0, "MASK", 1)
    assert bench.shared("CORE_MASK", 8) == STORED
    bench.tick()
    assert bench.eu["mask"][0] == 1
    bench.store(0, "MASK_OR", 2)
    assert bench.shared("CORE_IRQ_MASK", 4) == STALLED
    bench.tick()
    assert bench.eu["mask"][0] == 3
    bench.tick()
    assert bench.eu["mask"][0] == 8


def test_a_shared_store_that_waits_reaches_other_registers_than_the_cores_at_once():
    bench = Bench(cores=2)
    for value, register in ((4, "MASK"), (5, "IRQ_MASK")):
        bench.store(0, register, 1)
        assert bench.shared("CORE_IRQ_MASK", value) == STORED
        bench.tick()
        assert bench.eu["interrupt_mask"][0] == (4 if register == "MASK" else 1)
        assert bench.shared("CORE_IRQ_MASK", 0) == STALLED
        bench.tick()
        assert bench.eu["interrupt_mask"][0] == value


def test_a_shared_store_to_a_barrier_waits_for_stores_of_cores_not_for_their_loads():
    bench = Bench(cores=2)
    bench.load(1, "BARRIER_TRIGGER_MASK", 4)
    bench.shared("BARRIER_TRIGGER_MASK", 2, index=4)
    bench.tick()
    assert bench.eu["trigger_mask"][4] == 2
    bench.store(1, "BARRIER_TRIGGER_MASK", 1, 4)
    bench.shared("BARRIER_TRIGGER_MASK", 3, index=4)
    bench.tick()
    assert bench.eu["trigger_mask"][4] == 1
    bench.tick()
    assert bench.eu["trigger_mask"][4] == 3
    bench.store(1, "BARRIER_TARGET_MASK", 1, 4)
    bench.shared("BARRIER_TRIGGER", 1, index=4)
    bench.tick()
    assert bench.eu["status"][4] == 1


def test_the_core_does_not_see_a_shared_store_of_the_same_cycle():
    bench = Bench(cores=1)
    bench.store(0, "SW_EVENT", 1)
    bench.tick()
    bench.shared("CORE_MASK", 1)
    bench.load(0, "WAIT")
    bench.tick(3)
    assert bench.log == [(2, 0, 1)]


def test_a_shared_software_event_is_for_all_only_if_the_whole_word_is_zero():
    bench = Bench(cores=2)
    for value in (0x100, 0, 0x102):
        bench.shared("SW_EVENT", value)
        bench.tick()
        found = [bench.read(core, "BUFFER") for core in range(2)]
        assert found == {0x100: [0, 0], 0: [1, 1], 0x102: [0, 1]}[value]
        for core in range(2):
            bench.store(core, "BUFFER_CLEAR", 1)
    bench.store(0, "SW_EVENT", 0x100)
    bench.tick()
    assert [bench.read(core, "BUFFER") for core in range(2)] == [1, 1]


def test_a_value_goes_to_the_team_that_was_there_before_its_cycle():
    bench = Bench(cores=4)
    bench.store(0, "DISPATCH_TEAM", 0b0001)
    bench.store(1, "DISPATCH_TEAM", 0b0010)
    bench.tick()
    bench.store(0, "DISPATCH_TEAM", 0b1000)
    bench.store(1, "DISPATCH", 5)
    bench.tick()
    bench.store(0, "DISPATCH", 6)
    bench.tick()
    assert bench.eu["readers"][:2].tolist() == [0b0011, 0b1000]


def test_registers_are_decoded_from_few_bits():
    """Waits repeat in the blocks of 64 bytes below the mutexes, dispatch in each 16 bytes."""
    bench = Bench(cores=1)
    bench.hear(1)
    for offset in (0x78, 0xBC, 0x90):
        assert eu_access(bench.eu, 0, False, True, offset, 0, bench.cycle) == LOADING
        bench.tick(5)
        assert bench.log == []
        bench.event(1, 0)
        bench.tick(3)
        assert len(bench.log) == 1
        is_kept = offset != 0x90
        assert bench.read(0, "BUFFER") == is_kept
        bench.store(0, "BUFFER_CLEAR", 1)
        bench.log.clear()
    assert eu_access(bench.eu, 0, True, False, 0xA4, 1, bench.cycle) == STORED
    bench.tick()
    assert eu_access(bench.eu, 0, True, False, 0xB0, 7, bench.cycle) == STORED
    bench.tick()
    assert (bench.eu["readers"][0], bench.eu["fifo"][0], bench.eu["write"]) == (1, 7, 1)


def clearing(**fields):
    """A core of two that may access again in the cycle in which its wait for event 0 clears."""
    bench = Bench(cores=2, **fields)
    bench.hear(MUTEX | 1, cores=[0])
    bench.store(0, "SW_EVENT", 1)
    bench.tick()
    bench.load(0, "WAIT_CLEAR", is_elw=False)
    bench.tick()
    return bench


def test_a_store_that_stalls_after_a_wait_is_done_twice():
    bench = clearing()
    bench.store(1, "DISPATCH_TEAM", 1)
    bench.tick(2)
    assert bench.eu["write"] == 0
    bench.load(0, "WAIT_CLEAR", is_elw=False)
    bench.event(1, 0)
    bench.tick(2)
    assert bench.store(0, "DISPATCH", 4) == STALLED
    bench.tick()
    assert bench.store(0, "DISPATCH", 4) == STORED
    bench.tick()
    assert bench.eu["write"] == 2
    assert bench.eu["fifo"][:2].tolist() == [4, 4]


def test_a_wait_for_a_mutex_directly_after_a_wait_gets_it_and_loses_its_event():
    bench = clearing()
    assert bench.load(0, "MUTEX", is_elw=False) == STALLED
    bench.tick()
    assert (bench.eu["owner"][0], bench.eu["queue"][0]) == (0, 0)
    assert bench.load(0, "MUTEX", is_elw=False) == LOADING
    bench.tick(10)
    assert (bench.eu["owner"][0], bench.eu["queue"][0]) == (0, 1)
    assert bench.log == [(11, 0, 1)]


def test_a_wait_after_a_wait_without_a_further_event_just_waits():
    bench = clearing()
    bench.eu["buffer"][0] = 0
    assert bench.load(0, "MUTEX") == LOADING
    bench.tick(4)
    assert bench.eu["owner"][0] == 0


def test_a_wait_stalls_what_follows_even_if_nothing_is_left_to_clear():
    bench = Bench(cores=1)
    bench.hear(1)
    bench.store(0, "SW_EVENT", 1)
    bench.tick()
    bench.load(0, "WAIT_CLEAR", is_elw=False)
    bench.shared("CORE_MASK", 0)
    bench.tick()
    assert bench.store(0, "MASK", 3) == STALLED
    bench.tick()
    assert bench.read(0, "BUFFER") == 1


def test_a_shared_store_that_clears_events_is_lost_while_a_wait_clears():
    bench = clearing()
    bench.event(1, 8)
    bench.tick(4)
    bench.event(1, 0)
    bench.tick()
    bench.load(0, "WAIT_CLEAR")
    bench.tick()
    bench.shared("CORE_BUFFER_CLEAR", DMA)
    bench.tick()
    assert bench.eu["buffer"][0] == DMA
    bench.shared("CORE_BUFFER_CLEAR", DMA)
    bench.tick()
    assert bench.eu["buffer"][0] == 0


def test_an_interrupt_that_goes_away_leaves_the_clock_on_for_two_cycles():
    bench = Bench(cores=1)
    bench.hear(1)
    bench.store(0, "IRQ_MASK", DMA)
    bench.tick()
    bench.load(0, "WAIT_CLEAR")
    bench.at(20)
    bench.event(1, 8)
    bench.tick()
    bench.shared("CORE_IRQ_MASK", 0)
    found = []
    while bench.cycle < 26:
        found.append(bench.read_shared("CORE_STATUS"))
    bench.event(1, 0)
    bench.at(30)
    assert found == [1, 1, 0, 0, 0]
    assert bench.log == [(27, 0, 1)]
    assert bench.eu["clock_off"][0] == 20 - 11 + 27 - 23


def test_what_the_chip_does_not_have_is_a_fault():
    bench = Bench(cores=2, barriers=3, mutexes=2)
    log = [
        bench.load(0, "BARRIER_TRIGGER_WAIT_CLEAR", 3),
        bench.store(0, "BARRIER_TRIGGER_MASK", 1, 3),
        bench.load(0, "MUTEX", 2),
        bench.store(0, "MUTEX", 0, 2),
        bench.shared("CORE_MASK", 0, index=2),
        bench.shared("BARRIER_TRIGGER_MASK", 0, index=3),
        eu_shared_store(bench.eu, 0x780, 0, 0),
    ]
    assert log == [FAULT] * 7
    offsets = (0x040, 0x080, 0x45C, 0x460, 0x600, 0x77C, 0x780)
    found = [eu_shared_exists(bench.eu, offset) for offset in offsets]
    assert found == [True, False, True, False, True, True, False]


def test_registers_that_are_not_there_read_zero_and_ignore_stores():
    bench = Bench(cores=1)
    assert bench.store(0, "STATUS", 0) == STORED
    assert bench.store(0, "BARRIER_TRIGGER_SELF", 1) == STORED
    bench.tick()
    assert bench.read(0, "STATUS") == 1
    assert bench.read(0, "BARRIER_STATUS") == 0
    assert bench.read(0, "DISPATCH_TEAM") == 0
    assert bench.read_shared("CORE_WAIT") == 0


STORES = [
    ("MASK", 1),
    ("MASK_OR", 1),
    ("IRQ_MASK", 1),
    ("BUFFER_CLEAR", 1),
    ("SW_EVENT_MASK", 1),
    ("DISPATCH", 1),
    ("DISPATCH_TEAM", 1),
    ("MUTEX", 2),
    ("SW_EVENT", 3),
    ("BARRIER_TRIGGER_MASK", 2),
    ("BARRIER_TARGET_MASK", 2),
    ("BARRIER_TRIGGER", 2),
]
LOADS = [
    ("BUFFER", 1),
    ("WAIT", 1),
    ("WAIT_CLEAR", 1),
    ("DISPATCH", 1),
    ("MUTEX", 2),
    ("SW_EVENT_WAIT", 3),
    ("SW_EVENT_WAIT_CLEAR", 3),
    ("BARRIER_STATUS", 2),
    ("BARRIER_TRIGGER_SELF", 2),
    ("BARRIER_TRIGGER_WAIT_CLEAR", 2),
]


def random_run(seed, always):
    """Random requests; the unit clocked in every cycle, or only where it asks for it."""
    random_, bench = random.Random(seed), Bench(cores=3)
    chance = random_.choice([0.01, 0.05, 0.2])  # rare requests leave long silences
    interrupts = []
    for cycle in range(200):
        for core in range(3):
            kinds = STORES if random_.random() < 0.5 else LOADS
            (name, count), value = random_.choice(kinds), random_.choice([7, 3, 1 << 16, 0x7010F])
            index, is_elw = random_.randrange(count), random_.random() < 0.8
            if random_.random() < chance and not bench.eu["waiting"] >> core & 1:
                bench.access(core, kinds is STORES, name, value, index, is_elw)
        if random_.random() < 0.05:
            bench.event(random_.randrange(8), random_.choice([8, 10]))
        if random_.random() < 0.02:
            eu_push_soc_event(bench.eu, cycle, cycle)
        if random_.random() < 0.02:
            eu_shared_load(bench.eu, EVENT_UNIT_SHARED.offset("SOC_EVENT"), cycle)
        asked = eu_interrupt(bench.eu, 0)
        if asked >= 0:
            interrupts.append((cycle, asked))
            if random_.random() < 0.5:
                eu_take_interrupt(bench.eu, 0, asked, cycle)
        if always:
            bench.eu["next"] = cycle
        bench.tick()
    bench.eu["next"] = 0
    return bench.log, interrupts, bench.state.tobytes()


def test_cycles_that_the_unit_does_not_ask_to_be_clocked_change_nothing():
    for seed in range(100):
        assert random_run(seed, always=False) == random_run(seed, always=True), seed


def test_a_checkpoint_is_a_copy_of_the_array():
    bench = Bench(cores=2)
    bench.set_barrier(0, 0b11)
    bench.hear(BARRIER)
    bench.load(1, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.tick()
    saved, cycle = bench.state.copy(), bench.cycle
    logs = []
    for _ in range(2):
        bench.state[:], bench.cycle, bench.log = saved, cycle, []
        bench.load(0, "BARRIER_TRIGGER_WAIT_CLEAR")
        bench.at(30)
        logs.append(bench.log)
    assert logs[0] == logs[1] == [(13, 0, BARRIER), (13, 1, BARRIER)]


def test_a_deadlock_says_what_each_core_waits_for():
    bench = Bench(cores=8)
    bench.set_barrier(0, 0xFF)
    bench.hear(BARRIER | MUTEX | 1 << 18)
    bench.load(1, "MUTEX", 2)
    bench.at(20)
    bench.load(2, "MUTEX", 2)
    bench.load(3, "BARRIER_TRIGGER_WAIT_CLEAR")
    bench.load(4, "DISPATCH")
    bench.load(5, "WAIT_CLEAR")
    bench.at(40)
    assert bench.waits() == [
        "hart 2 waits for mutex 2, held by hart 1",
        "hart 3 waits at barrier 0 for 7 more cores",
        "hart 4 waits for a value in the dispatch FIFO",
        "hart 5 waits for an event of its mask 0x00070000 (barrier, mutex, dispatch)",
    ]


def test_a_deadlock_says_why_a_wait_cannot_end():
    bench = Bench(cores=4)
    bench.set_barrier(1, 0b0001)
    bench.set_barrier(2, 0b1110, target=0b0110)
    bench.set_barrier(3, 0b0110)
    bench.hear(BARRIER, cores=[0, 1, 3])
    bench.load(0, "BARRIER_TRIGGER_WAIT")
    bench.load(1, "BARRIER_TRIGGER_WAIT", 1)
    bench.load(2, "BARRIER_TRIGGER_WAIT", 3)
    bench.load(3, "BARRIER_TRIGGER_WAIT", 2)
    bench.at(40)
    assert bench.waits() == [
        "hart 0 waits at barrier 0 (arrived 0b0001 of 0b0000): its trigger mask is 0, so it is "
        "never complete",
        "hart 1 waits at barrier 1 (arrived 0b0010 of 0b0001): hart 1 not in the trigger mask, so "
        "it is never complete",
        "hart 2 waits at barrier 3 for hart 1: its event mask 0x00000000 lacks "
        "bit 16 (barrier), so it sleeps on",
        "hart 3 waits at barrier 2 (arrived 0b1000 of 0b1110): its target mask 0b0110 leaves this "
        "core out",
    ]


def test_a_deadlock_names_a_mutex_that_nobody_hears_of_and_an_empty_mask():
    bench = Bench(cores=2)
    bench.load(0, "MUTEX")
    bench.load(1, "WAIT")
    bench.at(20)
    assert bench.waits() == [
        "hart 0 waits for mutex 0, held by hart 0: its event mask 0x00000000 lacks bit 17 (mutex), "
        "so it sleeps on",
        "hart 1 waits for an event, but its event mask is 0: nothing wakes it",
    ]


def test_events_have_names():
    assert event_names(0x08010105) == "software 0, software 2, dma 0, barrier, soc"
