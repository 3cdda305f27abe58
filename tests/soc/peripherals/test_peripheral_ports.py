"""Registers as cores and fabric controller reach them: turns, the DMA's shared ports and events."""

import numpy as np
import pytest
from simpy import Environment

from soc.peripherals.crossbar import Crossbar
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
    env = Environment()
    crossbar = Crossbar(env)
    log = []

    def requester(number, start, cycle, cycles):
        def served():
            log.append((env.now, number))
            crossbar.free("timer", cycles)

        yield env.timeout(start)
        crossbar.take("timer", number, cycle, served)

    for number, start, cycle, cycles in [
        (8, 0, 1, 1),
        (2, 0, 1, 3),
        (5, 0, 1, 1),
        (2, 6, 7, 1),
        (8, 6, 7, 1),
        (1, 12, 20, 1),
        (3, 13, 14, 1),
    ]:
        env.process(requester(number, start, cycle, cycles))
    env.run()
    # Served in cycle 1: 2, the nearest to 0; the priority moves to 2, then to 5, 8, 2, ...
    assert log == [(1, 2), (4, 5), (5, 8), (7, 8), (8, 2), (14, 3), (20, 1)]
