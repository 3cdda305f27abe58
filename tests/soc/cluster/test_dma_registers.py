"""The DMA's registers as a core reaches them: 16 bytes over and over, words whatever is stored."""

import pytest

from soc.run import ENGINES
from tests.soc.chip_bench import region_cycles, run

SOURCE = 0x1C020000
TARGET = 0x123


def copy_with(stores: tuple[str, str, str], at: int, engine: str) -> tuple[int, bytes]:
    """Copy 300 bytes by these stores to CMD; cycles, and what L1 holds then."""
    command, l1, l2 = stores
    code = f"""
        li t0, 0x100
        sw t0, 8(s1)
        li t3, {SOURCE:#x}
        li t4, 0x01020304
        sw t4, 8(t3)
        lw t0, {at:#x}(s1)
        li t0, {0x160000 | 300:#x}
        li t1, {0x10000000 | TARGET:#x}
        {command} t0, {at:#x}(s1)
        {l1} t1, {at:#x}(s1)
        slti x0, x0, 0
        {l2} t3, {at:#x}(s1)
        p.elw t0, 0x3c(s1)
        slti x0, x0, 1
        lw t0, {at + 4:#x}(s1)
        sw t0, 0(s0)
    """
    result = run(code, cores=1, engine=engine)
    return region_cycles(result)[0], result.chip.l1.tobytes()[: TARGET + 300]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("at", [0x410, 0x7F0])
def test_they_repeat_every_16_bytes_of_the_cores_port(at, engine):
    words = ("sw", "sw", "sw")
    assert copy_with(words, at, engine) == copy_with(words, 0x400, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_of_bytes_and_halves_write_the_whole_word(engine):
    cycles, l1 = copy_with(("sh", "sb", "sh"), 0x400, engine)
    assert (cycles, l1) == copy_with(("sw", "sw", "sw"), 0x400, engine)
    assert l1[TARGET + 8 : TARGET + 12] == bytes([4, 3, 2, 1])
    assert l1[:4] == bytes([0, 0, 1, 0])  # STATUS: nothing runs, counter 0 is taken


MIXED = """
    lw t0, 0x400(s1)
    li t0, 0x1e0040
    andi t1, s5, 1
    beqz t1, far
    li t2, 0x800000
    or t0, t0, t2
far:
    sw t0, 0x400(s1)
    slli t2, s5, 8
    add t2, t2, s0
    sw t2, 0x400(s1)
    li t2, 0x1c020000
    sw t2, 0x400(s1)
    li t2, 16
    sw t2, 0x400(s1)
    sw t2, 0x400(s1)
    beqz t1, stored
    sw t2, 0x400(s1)
    sw t2, 0x400(s1)
stored:
    p.elw t0, 0x3c(s1)
"""
"""Each core copies four lines, odd ones with lines on both sides, and waits for the end."""


@pytest.mark.parametrize("engine", ENGINES)
def test_entries_of_2d_queues_that_are_lost_are_warned_of(engine):
    result = run(MIXED, engine=engine)
    lost = int(result.chip.dma[0]["lost_entries"])
    assert lost > 0
    assert [text.split(":")[:2] for text in result.warnings] == [
        ["dma", f" {lost:,} entries of its 2D queues are lost"]
    ]
    assert not run(MIXED, cores=0x55, engine=engine).warnings  # all have lines on one side
