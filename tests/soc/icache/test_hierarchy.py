"""The instruction cache: loops measured on RTL, the RTL's state machines, what each miss costs."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pulpsim.fidelity.icache import measured_loops, title
from soc.cluster.icache_access import icache_state
from soc.icache.hierarchy import (
    IcacheSpec,
    banks_flush,
    banks_switch,
    icache_note,
    icache_step,
    private_flush,
    private_switch,
)
from soc.icache.prefetch_buffer import fetch_jump, fetch_next, fetch_stop
from soc.icache.private_cache import EXACT, IDEAL, choose_victim, keep_line, next_lfsr
from soc.interconnect.axi_l2 import L2Spec, l2_state
from soc.prelude.wheel import NEVER
from tests.soc.icache.fetch_bench import BASE, BRANCH, ROW, Bench, loops
from tests.soc.icache.fetch_cycles import Cluster
from tests.soc.random_code import RandomCode

MEASURED = measured_loops()
LOOPS = loops()
LATENCY = 11
FULL_QUEUES = 68, 337, 642, 676, 840, 858, 1522, 1553, 1886, 2113, 2145
"""Random programs: the end of a loop waits in a full queue, and what follows the start misses."""


def iterations(marks: list[list[int]]) -> list[list[int]]:
    """By hart, the cycles from start to stop marker of each iteration."""
    return [[stop - start for start, stop in pairwise(hart)][::2] for hart in marks]


def name(run: dict) -> str:
    return f"{run['name']}, {title(run)}"


@pytest.mark.parametrize("run", MEASURED, ids=name)
def test_a_measured_loop_takes_the_cycles_of_the_rtl_in_every_iteration_on_every_hart(
    run: dict,
) -> None:
    bench = Bench([LOOPS[run["name"]]] * len(run["cycles"]), run["latency"])
    assert iterations(bench.run()) == run["cycles"]


@pytest.mark.parametrize("run", MEASURED[::4], ids=name)
def test_the_state_machines_stepped_cycle_by_cycle_take_the_same(run: dict) -> None:
    cluster = Cluster([LOOPS[run["name"]]] * len(run["cycles"]), run["latency"])
    assert iterations(cluster.run()) == run["cycles"]


def test_random_programs_issue_in_the_cycles_of_the_state_machines(
    request: pytest.FixtureRequest,
) -> None:
    is_full = request.config.getoption("--full")
    for seed in range(3000) if is_full else (*range(40), *FULL_QUEUES):
        random = Random(seed)
        longest = random.choice((4, 10, 40, 150))
        harts = random.choice((1, 1, 2, 3, 8))
        programs = [RandomCode(random, longest).program() for _ in range(harts)]
        if random.random() < 0.5:
            programs = programs[:1] * harts
        latency = random.choice((1, 2, 5, 11, 30))
        enabled = random.random() < 0.85
        ahead = random.choice((1, 3, 20, 1000))
        bench = Bench(programs, latency, IcacheSpec(enabled=enabled), ahead)
        cluster = Cluster(programs, latency, enabled=enabled)
        assert bench.run() == cluster.run(), f"seed {seed}"


def test_the_harts_lookahead_changes_no_cycle() -> None:
    random = Random(1)
    programs = [RandomCode(random, 60).program() for _ in range(8)]
    marks = [Bench(programs, LATENCY, ahead=ahead).run() for ahead in (1, 7, 1000)]
    assert marks[0] == marks[1] == marks[2]


PLAIN_RUN = """
from tests.soc.icache.fetch_bench import Bench, loops
print(Bench([loops()["jmp16_1024"]] * 3, 11).run())
"""


def test_the_step_functions_as_plain_python_take_the_same_cycles() -> None:
    compiled = Bench([LOOPS["jmp16_1024"]] * 3, LATENCY).run()
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN_RUN],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=Path(__file__).parents[3],
    )
    assert plain.stdout.strip() == str(compiled)


class Driven:
    """Caches driven by hand: fetches in, a log of (cycle, what) out."""

    def __init__(self, harts: int = 1, latency: int = LATENCY, **fields: object):
        spec = IcacheSpec(**{"enabled": True, **fields})
        self.icache, self.fetch = icache_state(spec, harts)
        self.l2 = l2_state(
            L2Spec(
                private_banks=0,
                bank_latency=latency,
                cluster_synchronizer_stages=0,
                soc_synchronizer_stages=0,
            )
        )
        self.now = 0

    def jump(self, hart: int, target: int, cycle: int) -> None:
        fetch_jump(self.fetch[hart], target, -1, cycle)
        icache_note(self.icache[0], self.fetch[hart], hart)

    def switch(self, now: int, on: int) -> None:
        """Switch both levels on or off; every hart is handed BASE next."""
        for h in range(len(self.fetch)):
            private_switch(self.icache[0], self.fetch[h], h, BASE, now, on)
        banks_switch(self.icache[0], now, on)

    def flush(self, now: int, shared: int) -> None:
        """Invalidate the private level, or both; every hart is handed BASE next."""
        for h in range(len(self.fetch)):
            private_flush(self.icache[0], self.fetch[h], h, BASE, now)
        if shared:
            banks_flush(self.icache[0], now)

    def until(self, end: int) -> list[tuple[int, int]]:
        """Simulate the shared level before cycle `end`: (cycle, hart) of each answer."""
        log = []
        while self.now < end:
            if self.icache[0]["wake"] <= self.now:
                answered = int(icache_step(self.icache[0], self.fetch, self.l2[0], self.now))
                for h in range(len(self.fetch)):
                    if answered >> h & 1:
                        log.append((int(self.fetch[h]["free"]) - 1, h))
            self.now += 1
        return log

    def arrival(self, hart: int, pc: int, size: int = 4) -> int:
        """The cycle in which the instruction at pc, next in the queue, has come."""
        return int(fetch_next(self.fetch[hart], pc, size, 0, 0, False))


def test_a_private_hit_arrives_in_the_next_cycle_a_shared_hit_two_a_line_of_l2_later() -> None:
    caches = Driven(harts=2)
    caches.jump(0, BASE, 100)
    assert caches.until(200) == [(100 + 8 + LATENCY, 0)]
    assert caches.arrival(0, BASE) == 119
    caches.jump(1, BASE, 300)
    assert caches.until(400) == [(303, 1)]
    caches.jump(1, BASE, 500)
    assert caches.until(600) == []
    assert caches.arrival(1, BASE) == 501


def test_the_first_word_after_a_line_that_came_from_the_shared_cache_loses_one_cycle_more() -> None:
    caches = Driven(harts=2)
    caches.jump(0, BASE, 0)
    caches.until(100)
    caches.jump(1, BASE, 100)
    caches.until(200)
    assert [caches.arrival(1, BASE + 4 * k) for k in range(4)] == [103, 105, 106, 107]


def test_harts_that_ask_a_bank_together_are_served_nearest_to_a_rotating_priority() -> None:
    caches = Driven(harts=8)
    caches.jump(0, BASE, 0)
    caches.until(100)
    for hart in range(1, 8):
        caches.jump(hart, BASE, 200)
    # rr is 1: one grant so far. The order is 1, then nearest to 2, 3, ...
    waiting, order, rr = set(range(1, 8)), [], 1
    while waiting:
        order.append(min(waiting, key=lambda hart: hart ^ rr))
        waiting.remove(order[-1])
        rr = (rr + 1) % 8
    assert caches.until(300) == [(203 + k, hart) for k, hart in enumerate(order)]


def test_the_two_banks_serve_one_hart_each_in_a_cycle() -> None:
    caches = Driven(harts=4)
    caches.jump(0, BASE + 12, 0)  # the second word asked for lies in the other bank
    caches.until(100)
    caches.jump(2, BASE, 200)
    caches.jump(3, BASE + 16, 200)
    assert caches.until(300) == [(203, 2), (203, 3)]


def test_a_second_hart_that_misses_on_a_line_under_way_waits_for_it() -> None:
    caches = Driven(harts=2)
    caches.jump(0, BASE, 100)
    caches.jump(1, BASE, 104)
    assert caches.until(200) == [(119, 0), (121, 1)]
    assert caches.l2[0]["beats"].tolist() == [2, 0]  # one refill of two beats


def test_four_kilobytes_of_straight_code_need_several_passes_until_they_are_resident() -> None:
    run = next(run for run in MEASURED if run["name"] == "seq32_4096")
    bench = Bench([LOOPS["seq32_4096"]], run["latency"])
    assert iterations(bench.run()) == [[5610, 3510, 2730, 2475, 2130, 1995]]
    misses = bench.icache[0]["bank"]["misses"].sum()
    assert misses > 2 * 4096 // 16  # refills replace valid lines while invalid ways are left
    assert (bench.icache[0]["bank"][:2]["lines"][:, :128] == -1).any()


def test_the_lfsr_runs_through_255_states_from_zero() -> None:
    states = [0]
    while (following := next_lfsr(states[-1])) not in states:
        states.append(following)
    assert states[:6] == [0b0, 0b1, 0b11, 0b110, 0b1101, 0b11011]
    assert len(states) == 255
    assert 0xFF not in states


def test_a_private_set_fills_from_its_highest_way_down_then_at_random() -> None:
    caches = Driven()
    fetch = caches.fetch[0]
    places = []
    for tag in range(8):
        fetch["word"] = (BASE >> 4) + 8 * tag << 2
        choose_victim(fetch)
        keep_line(fetch)
        places.append(int(fetch["victim"]))
    assert places == [3, 2, 1, 0, 0b0 & 3, 0b1 & 3, 0b11 & 3, 0b110 & 3]


def test_a_jump_before_the_fetch_that_misses_takes_it_back() -> None:
    caches = Driven()
    caches.jump(0, BASE, 0)
    caches.until(100)
    caches.jump(0, BASE + 8, 200)  # its third word, asked for in 202, misses
    assert caches.fetch[0]["miss"] == 202
    caches.jump(0, BASE, 202)
    assert caches.until(300) == []
    caches.jump(0, BASE + 8, 400)
    caches.jump(0, BASE, 403)
    assert caches.until(500) == [(402 + 8 + LATENCY, 0)]
    assert caches.arrival(0, BASE) == 423  # asked for in 421, when the unwanted line comes


def straight(count: int) -> np.ndarray:
    """So many marked 32-bit instructions, then the end."""
    rows = np.zeros(2 * count + 4, ROW)
    rows["size"], rows["cost"], rows["mark"] = 4, 1, 1
    rows[2 * count]["kind"] = 3
    rows[2 * count + 2]["kind"] = 1
    rows[2 * count + 2]["target"] = BASE + 4 * count + 4
    return rows


def test_with_the_caches_off_every_word_makes_its_own_way_to_l2() -> None:
    marks = Bench([straight(20)], LATENCY, IcacheSpec(enabled=False)).run()[0]
    assert {later - earlier for earlier, later in pairwise(marks)} == {LATENCY + 5}


def test_an_ideal_cache_lets_harts_issue_every_cycle() -> None:
    marks = Bench([straight(20)], LATENCY, IcacheSpec(kind="ideal")).run()[0]
    assert marks[:20] == list(range(3, 23))


def test_enabling_the_caches_empties_them_and_delays_the_first_fetches() -> None:
    caches = Driven(enabled=False)
    caches.switch(100, 1)
    caches.jump(0, BASE, 105)
    # The private cache invalidates 8 sets, the shared one 32: it takes the request in 135.
    assert caches.until(300) == [(135 + 7 + LATENCY, 0)]
    assert caches.fetch[0]["mode"] == EXACT
    caches.switch(300, 1)
    caches.jump(0, BASE, 400)
    assert caches.until(500) == []  # it was on: nothing is lost


def test_disabling_the_caches_lets_every_word_go_past_them() -> None:
    caches = Driven()
    caches.jump(0, BASE, 0)
    caches.until(100)
    caches.switch(100, 0)
    caches.jump(0, BASE, 200)
    caches.until(300)
    assert [caches.arrival(0, BASE + 4 * k) for k in range(2)] == [216, 232]


def test_a_flush_makes_the_code_cold_again() -> None:
    caches = Driven()
    caches.jump(0, BASE, 0)
    caches.until(100)
    caches.flush(100, 0)
    caches.jump(0, BASE, 200)
    assert caches.until(300) == [(203, 0)]
    caches.flush(300, 1)
    caches.jump(0, BASE, 400)
    assert caches.until(500) == [(400 + 8 + LATENCY, 0)]


def test_a_line_under_way_at_a_flush_reaches_its_hart_but_is_not_kept() -> None:
    caches = Driven()
    caches.jump(0, BASE, 100)
    caches.until(110)
    caches.flush(110, 1)
    caches.until(300)
    assert caches.arrival(0, BASE) == 119
    assert caches.l2[0]["beats"].tolist() == [4, 0]  # once more, for the second word


def test_a_hand_over_waits_for_ex_while_the_decode_stage_is_empty() -> None:
    caches = Driven()
    caches.jump(0, BASE, 0)
    assert caches.arrival(0, BASE) == NEVER
    caches.until(100)
    fetch = caches.fetch[0]
    assert fetch_next(fetch, BASE, 4, 5, NEVER, False) == NEVER
    assert fetch_next(fetch, BASE, 4, 5, 40, False) == 40
    assert fetch_next(fetch, BASE + 4, 4, 41, NEVER, False) == 41


def test_a_hart_that_is_switched_off_asks_for_nothing_more() -> None:
    caches = Driven(harts=2)
    caches.jump(0, BASE, 100)
    caches.jump(1, BASE + 16, 110)
    caches.until(105)
    for fetch in caches.fetch:
        fetch_stop(fetch)
    assert caches.until(300) == [(119, 0)]


def test_a_hart_outside_the_cluster_has_an_ideal_fetch_and_no_port_of_the_banks() -> None:
    icache, fetch = icache_state(IcacheSpec(enabled=True), 8, others=1)
    assert [int(record["mode"]) for record in fetch] == [EXACT] * 8 + [IDEAL]
    assert icache[0]["ports"] == 8
    fetch_jump(fetch[8], BASE, -1, 10)
    assert fetch_next(fetch[8], BASE, 4, 11, 11, False) == 11


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"banks": 3}, "banks is 3; it is a power of two"),
        ({"private_ways": 3}, "private_ways is 3; it is a power of two"),
        (
            {"private_size": 32},
            "private_size is 32; with 4 ways of 16-byte lines it is 64 to 4096 bytes",
        ),
        (
            {"shared_size": 1 << 20},
            "shared_size / banks is 524288; with 4 ways of 16-byte lines it is 64 to 16384 bytes",
        ),
    ],
)
def test_a_cache_that_cannot_be_built_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(
        ValueError, match=f"^1 validation error for IcacheSpec\n  Value error, {message} "
    ):
        IcacheSpec(**fields)


def test_caches_of_other_sizes_still_run_the_loops() -> None:
    cold = Bench([LOOPS["seq32_1024"]], LATENCY).run()
    large = IcacheSpec(enabled=True, private_size=2048, shared_size=8192, banks=4, refills=2)
    program = LOOPS["seq32_1024"].copy()
    assert (program["kind"] == BRANCH).any()
    marks = iterations(Bench([program], LATENCY, large).run())[0]
    assert marks[0] == iterations(cold)[0][0]
    assert marks[2:] == [252] * 4  # all of it stays in the private cache
