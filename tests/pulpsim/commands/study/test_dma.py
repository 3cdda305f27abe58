"""The study of the DMA: bytes that are counted, limits that hold, cores that are slowed down."""

import pytest

from pulpsim.commands.study import dma
from pulpsim.commands.study.dma_program import BOTH, COPY, NONE, TO_L1, TO_L2, DmaProgram
from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.traffic_program import TRAFFIC
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.pulpsim.commands.study.sweep import rows_of

CHIP = chip_with(load_chip("pulp"), {"icache.kind": "ideal"})


def run(*program: object) -> dict:
    built = DmaProgram(CHIP, *program)()  # type: ignore[arg-type]
    found = built.result(run_program(built, CHIP, max_cycles=1_000_000))
    assert found["exit"] == {"reason": "exit", "code": 0}
    return found


@pytest.mark.parametrize(
    ("direction", "beats"), [(TO_L1, [0, 128]), (TO_L2, [128, 0]), (BOTH, [64, 64])]
)
def test_pairs_of_copies_move_their_bytes_in_their_direction(
    direction: str, beats: list[int]
) -> None:
    assert run(direction, 256, 2)["dma"]["beats"] == beats  # four copies of 32 beats


def test_copies_go_on_until_the_cores_have_loaded() -> None:
    found = run(TO_L1, 1024, 1, 7, 1.0, 2048)
    (copy,) = [r for r in found["harts"][0]["regions"] if r["name"] == COPY]
    loads = [r for h in found["harts"] for r in h["regions"] if r["name"] == TRAFFIC]
    assert len(loads) == 7
    assert copy["cycles"] >= max(r["cycles"] for r in loads)
    assert sum(found["dma"]["beats"]) % (2 * 1024 // 8) == 0


def test_without_copies_nothing_is_copied() -> None:
    assert run(NONE, 1024, 1, 7, 0.5, 256)["dma"]["beats"] == [0, 0]


def test_bandwidth_stays_below_eight_bytes_in_a_cycle_and_direction() -> None:
    arguments = {
        "sizes": [64, 512, 4096],
        "bursts": [16, 256, 2048],
        "rates": [0.2, 1.0],
        "slots": 2048,
    }
    rows = rows_of(dma.STUDY, arguments)
    assert len(rows) == 3 * 3 * 3 + 3 * 2
    for row in rows:
        assert row["bytes"] % (2 * row["size"]) == 0
        assert 0 < row["bandwidth"] < (16 if row["direction"] == BOTH else 8)
    alone = {(r["direction"], r["burst"], r["size"]): r["bandwidth"] for r in rows if not r["rate"]}
    for (direction, burst, size), bandwidth in alone.items():
        assert bandwidth <= 1.001 * alone[direction, burst, 4096]
        assert bandwidth <= 1.001 * alone[direction, 2048, size]
    shared = {(r["direction"], r["rate"]): r for r in rows if r["rate"]}
    for direction in (TO_L1, TO_L2, BOTH):
        few, many = shared[direction, 0.2], shared[direction, 1.0]
        assert few["bandwidth"] > many["bandwidth"]
        assert few["dma_refused"] < many["dma_refused"]
        assert many["slow_down"] > 1


def test_a_copy_waits_for_the_dma_only() -> None:
    """Twice as many pairs take twice as long: what is measured is a steady state."""
    cycles = [run(TO_L1, 4096, pairs)["harts"][0]["regions"][0]["cycles"] for pairs in (4, 8, 12)]
    assert cycles[2] - cycles[1] == cycles[1] - cycles[0]
