"""What the cluster reads from L2's private banks: a beat of 8 bytes takes two cycles there."""

import pytest

from soc.run import ENGINES
from tests.soc.chip_bench import region_cycles, run

PRIVATE, INTERLEAVED = 0x1C000000, 0x1C020000
BYTES, LATENCY = 1024, 11
AROUND = 5
"""Cycles of a region around a transfer: the store up to its grant, waking up 4."""


def transfer_cycles(address: int, engine: str, command: int) -> int:
    code = f"""
        li t0, 0x100
        sw t0, 8(s1)
        lw t0, 0x400(s1)
        li t0, {command | BYTES:#x}
        li t1, 0x10001000
        li t2, {address:#x}
        sw t0, 0x400(s1)
        sw t1, 0x400(s1)
        slti x0, x0, 0
        sw t2, 0x400(s1)
        p.elw t0, 0x3c(s1)
        slti x0, x0, 1
    """
    return region_cycles(run(code, cores=1, engine=engine))[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_dma_reads_a_beat_every_second_cycle(engine: str) -> None:
    to_l1 = 0x160000
    beats, bursts = BYTES // 8, BYTES // 256
    first = 7 + LATENCY  # beat, after the last store; the event comes 8 cycles after the last one
    cycles = [transfer_cycles(place, engine, to_l1) for place in (PRIVATE, INTERLEAVED)]
    assert cycles == [
        AROUND + first + 1 + 2 * (beats - 1) + 8,
        AROUND + 13 + LATENCY + beats + 2 * bursts,
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_it_writes_as_fast_as_to_other_banks(engine: str) -> None:
    to_l2 = 0x140000
    assert transfer_cycles(PRIVATE + 0x4000, engine, to_l2) == transfer_cycles(
        INTERLEAVED, engine, to_l2
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_of_the_instruction_cache_comes_two_cycles_later(engine: str) -> None:
    icache = {"icache.kind": "hierarchical"}
    entry = {INTERLEAVED: 0x1C018000, PRIVATE: 0x1C00C000}
    cycles = {}
    for place, target in entry.items():
        words = {0: 0x00102013, 4: 0x00008067}  # slti x0, x0, 1; ret
        fill = "".join(
            f"li t1, {w:#x}; li t2, {target + o:#x}; sw t1, 0(t2);" for o, w in words.items()
        )
        code = f"li t3, {target:#x}; slti x0, x0, 0; jalr t3"
        cycles[place] = region_cycles(
            run(code, controller=fill, cores=1, engine=engine, fields=icache)
        )[0]
    assert cycles[PRIVATE] - cycles[INTERLEAVED] == 2
