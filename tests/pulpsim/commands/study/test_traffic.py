"""The study of traffic: loads as they were meant, bounds that hold, theory in known cases."""

import pytest

from pulpsim.commands.study.microbenchmark import chip_with
from pulpsim.commands.study.traffic import STUDY
from pulpsim.commands.study.traffic_limits import Load, busy_banks, uniform_load
from pulpsim.commands.study.traffic_program import HOT, STRIDED, TRAFFIC, UNIFORM, TrafficProgram
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.pulpsim.commands.study.sweep import rows_of

PULP = load_chip("pulp")


def regions(cores: int, banks: int, pattern: str, rate: float, slots: int, **how: float) -> list:
    chip = chip_with(PULP, {"cores": cores, "l1.banks": banks, "icache.kind": "ideal"})
    program = TrafficProgram(chip, cores, pattern, rate, slots, 1, **how)()  # type: ignore[arg-type]
    harts = program.result(run_program(program, chip))["harts"]
    return [r for hart in harts for r in hart["regions"] if r["name"] == TRAFFIC]


def test_each_core_does_the_loads_of_its_line_and_all_begin_together() -> None:
    chip = chip_with(PULP, {"icache.kind": "ideal"})
    program = TrafficProgram(chip, 8, UNIFORM, 0.4, 256, 1)
    found = regions(8, 16, UNIFORM, 0.4, 256)
    lines = [list(program.words(core)) for core in range(8)]
    assert [r["l1_accesses"] for r in found] == [sum(w is not None for w in s) for s in lines]
    assert len({r["first_start"] for r in found}) == 1
    for region in found:
        assert region["instructions"] == 256 + 2
        assert region["cycles"] == 256 + 2 + region["stalls"].get("l1_contention", 0)
    assert program.busiest == max(
        sum(w is not None and w % 16 == bank for line in lines for w in line) for bank in range(16)
    )


def test_a_single_core_never_waits() -> None:
    (region,) = regions(1, 16, UNIFORM, 1.0, 256)
    assert (region["cycles"], region["stalls"]) == (258, {})


def test_loads_that_all_go_to_one_bank_are_served_one_in_a_cycle() -> None:
    found = regions(8, 16, HOT, 1.0, 128, hot=1.0)
    assert max(r["cycles"] for r in found) == 8 * 128 + 2
    lost = sorted(r["stalls"]["l1_contention"] for r in found)
    assert lost == [127 * 7 + place for place in range(8)]


def test_neighbours_that_step_through_all_banks_wait_once() -> None:
    found = regions(8, 16, STRIDED, 1.0, 128, stride=1)
    assert sum(r["stalls"].get("l1_contention", 0) for r in found) == 28


@pytest.mark.parametrize(
    ("cores", "banks", "mean"),
    [(2, 2, 1.5), (8, 16, 16 * (1 - (15 / 16) ** 8)), (1, 16, 1.0), (4, 1, 1.0)],
)
def test_requests_that_are_drawn_anew_ask_this_many_banks(
    cores: int, banks: int, mean: float
) -> None:
    assert busy_banks(cores, banks, 1.0) == pytest.approx(mean)
    load = uniform_load(cores, banks, 1.0)
    assert load.throughput == pytest.approx(mean / cores)
    assert load.latency == pytest.approx(cores / mean)


def test_the_model_of_a_single_core_is_its_rate() -> None:
    load = uniform_load(1, 16, 0.3)
    assert (load.throughput, load.latency) == (pytest.approx(0.3), pytest.approx(1.0))


def test_time_between_loads_and_in_them_add_up_in_the_model() -> None:
    load = uniform_load(8, 16, 0.5)
    assert isinstance(load, Load)
    assert 1 / load.throughput == pytest.approx((1 - 0.5) / 0.5 + load.latency)


def test_two_cores_at_full_rate_meet_as_often_as_theory_says() -> None:
    # Whatever happened before, each cycle's two requests meet with probability 1 / banks: exact.
    found = regions(2, 4, UNIFORM, 1.0, 8192)
    accesses, cycles = 2 * 8192, max(r["cycles"] for r in found)
    deviation = (0.25 * 0.75 / cycles) ** 0.5
    assert abs(accesses / cycles - (2 - 1 / 4)) < 4 * deviation


def test_no_throughput_is_above_its_bound() -> None:
    arguments = {"rates": [0.0, 0.3, 0.7, 1.0], "slots": 256, "strides": [1, 4, 8, 16]}
    rows = rows_of(STUDY, arguments)
    assert len(rows) == 6 * 4
    for row in rows:
        assert 0 <= row["throughput"] <= row["bound"] <= 1
        assert row["latency"] is None or row["latency"] >= 1
    idle = [row for row in rows if row["rate"] == 0]
    assert {(row["accesses"], row["throughput"], row["latency"]) for row in idle} == {(0, 0, None)}


def test_the_model_of_uniform_loads_is_near_what_is_measured() -> None:
    for row in rows_of(STUDY, {"rates": [0.2, 0.6, 1.0], "strides": []}):
        if row["pattern"] == UNIFORM:
            assert row["throughput"] == pytest.approx(row["model_throughput"], rel=0.05)
            assert row["latency"] == pytest.approx(row["model_latency"], rel=0.05)
