"""Registers as cores and fabric controller reach them: turns, the DMA's shared ports and events."""

from random import Random

import numpy as np
import pytest
from simpy import Environment

from soc.peripherals.bus import Calls, at
from soc.peripherals.crossbar import Target
from soc.run import ENGINES
from tests.soc.chip_bench import region_cycles, run

SHARED_TRANSFER = """
    bnez s5, 1f
    lw t1, 0(s3); li t0, {command}; sw t0, 0(s3); sw s0, 0(s3); li t0, 0x1c020000; sw t0, 0(s3)
2:
    lw t0, 4(s3); andi t0, t0, 0xff; bnez t0, 2b
1:
"""
TO_L1, INCREMENT, EVENT, INTERRUPT, BROADCAST = (1 << bit for bit in (17, 18, 20, 21, 22))
PATTERN = "li t0, 0x12345678; sw t0, 0(s1); sw t0, 60(s1)"
"""Of the fabric controller: words 0 and 15 of what transfers read in L2."""


def l1_words(result):
    return np.frombuffer(result.read(0x10000000, 64), np.uint32).tolist()


EXPECTED = [0x12345678, *[0] * 14, 0x12345678]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("instruction", "first"),
    [("lw t0, 0x408(s2)", 4), ("lw t0, 0(s4)", 23), ("sw t0, 0x10(s4)", 23)],
    ids=["cluster timer", "load from the SoC", "store to the SoC"],
)
def test_cores_that_reach_a_peripheral_together_pass_one_per_cycle(instruction, first, engine):
    result = run(f"slti x0, x0, 0; {instruction}; slti x0, x0, 1", engine=engine)
    assert region_cycles(result) == [first + core for core in range(8)]


def test_different_peripherals_are_reached_at_the_same_time():
    code = "bnez s5, 1f; addi s2, s2, 0x400; 1: slti x0, x0, 0; lw t0, 0(s2); slti x0, x0, 1"
    result = run(code, cores=0x3)
    assert region_cycles(result) == [4, 4]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_dmas_status_register_needs_a_dead_cycle_on_the_shared_port_too(engine):
    result = run("slti x0, x0, 0; lw t0, 4(s3); slti x0, x0, 1", engine=engine)
    assert region_cycles(result) == [4 + 2 * core for core in range(8)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_core_moves_data_by_the_clusters_port_of_the_dma(engine):
    command = 64 | TO_L1 | INCREMENT
    result = run(SHARED_TRANSFER.format(command=command), PATTERN, engine=engine)
    assert result.exit.reason == "exit"
    assert l1_words(result) == EXPECTED


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("flag", "line"), [(EVENT, 8), (INTERRUPT, 9)])
def test_the_fabric_controllers_port_has_lines_to_its_interrupt_controller(flag, line, engine):
    controller = f"""
        {PATTERN}
        lw t1, 0(s3); li t0, {64 | TO_L1 | INCREMENT | flag}; sw t0, 0(s3)
        li t0, 0x10000000; sw t0, 0(s3); sw s1, 0(s3)
    1:  lw t0, 0xc(s4); beqz t0, 1b
        sw t0, 0x100(s1)
    """
    result = run("", controller, cores=1, engine=engine)
    assert result.exit.reason == "exit"
    assert int.from_bytes(result.read(0x1C020100, 4), "little") == 1 << line
    assert l1_words(result) == EXPECTED


@pytest.mark.parametrize("engine", ENGINES)
def test_a_transfer_with_broadcast_wakes_every_core(engine):
    code = f"""
        li t0, 0x10000; sw t0, 4(s1); li t0, 0x100; sw t0, 8(s1)
        bnez s5, 1f
        lw t1, 0x400(s1); li t0, {64 | TO_L1 | INCREMENT | EVENT | BROADCAST}; sw t0, 0x400(s1)
        sw s0, 0x400(s1); li t0, 0x1c020000; sw t0, 0x400(s1)
    1:  p.elw t0, 0x3c(s1)
        slti x0, x0, 0; nop; slti x0, x0, 1
        li t0, 0x100; sw t0, 4(s1); li t0, 0x10000; sw t0, 8(s1)
    """
    result = run(code, PATTERN, engine=engine)
    harts = result.to_json()["harts"][:8]
    assert result.exit.reason == "exit", result.exit.message
    assert len({hart["regions"][0]["first_start"] for hart in harts}) == 1
    assert l1_words(result) == EXPECTED


def test_requesters_of_one_target_are_served_nearest_to_a_rotating_priority():
    target = Target()
    # who asks, when, from which cycle on; the first to be served keeps it up to cycle 4
    requests = [(8, 0, 1), (2, 0, 1), (5, 0, 1), (2, 6, 7), (8, 6, 7), (1, 12, 20), (3, 13, 14)]
    turns, free, log = set(), None, []
    for now in range(25):
        if now == free:
            target.free(now)
            turns |= {now} if target.is_turn(now) else set()
        winner = target.choose(now) if now in turns else -1
        if winner >= 0:
            log.append((now, winner))
            if now == 1:
                target.take()
                free = 4
            elif target.is_turn(now + 1):
                turns.add(now + 1)
        for requester, asked, cycle in requests:
            if asked == now and target.ask(requester, cycle):
                assert cycle not in turns
                turns.add(cycle)
    # Served in cycle 1: 2, the nearest to 0; the priority moves to 2, then to 5, 8, 2, ...
    assert log == [(1, 2), (4, 5), (5, 8), (7, 8), (8, 2), (14, 3), (20, 1)]


class SingleCalls:
    """What soc.peripherals.bus.Calls stands for: each call is an event of its own."""

    def __init__(self, env):
        self.env = env

    def at(self, cycle, action, what):
        at(self.env, cycle, action, cycle, what)


def random_calls(seed, make):
    """When and in which order random calls come that make others, among events of others."""
    env, random, log = Environment(), Random(seed), []
    calls = make(env)

    def act(cycle, depths, action=0):
        assert cycle == env.now
        for depth in depths:
            log.append((cycle, depth, len(log), action))
            for _ in range(random.choice((0, 1, 1, 2, 3)) if depth < 12 else 0):
                when = cycle + random.choice((0, 1, 1, 2, 3))
                if random.random() < 0.8:
                    calls.at(when, random.choice((act, act_else)), [depth + 1])
                else:
                    at(env, when, act, when, [100 + depth])

    def act_else(cycle, depths):
        act(cycle, depths, 1)

    for number in range(4):
        calls.at(number % 2, act, [number])
    env.run()
    return log


def test_calls_come_in_the_order_of_events_of_their_own():
    shorter = 0
    for seed in range(50):
        made = []
        log = random_calls(seed, lambda env, made=made: Calls(env, lambda: made.append(0)))
        assert log == random_calls(seed, SingleCalls)
        assert len(made) <= len(log)
        shorter += len(made) < len(log) // 2
    assert shorter
