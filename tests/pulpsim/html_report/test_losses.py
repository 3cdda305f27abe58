import json

import numpy as np
import pytest

from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import Figures, of_result
from pulpsim.html_report.losses import Loss, losses
from pulpsim.html_report.sleep import sleep_of, union
from tests.pulpsim.html_report.traces import (
    CODE,
    RESULT,
    TRANSFER,
    conflict,
    figures,
    issues,
    sleep,
    stall,
)


def found(run: Figures) -> dict[str, Loss]:
    """The losses of a run by name; together with instructions they are all cycles."""
    evidence = Evidence(run)
    by_name = {loss.name: loss for loss in losses(evidence)}
    work = sum(run.harts[core].instructions for core in evidence.cores)
    assert work + sum(loss.cycles for loss in by_name.values()) == evidence.cycles
    return by_name


def test_sleep_at_a_barrier_is_what_slower_cores_cost_and_the_barrier_itself() -> None:
    rows = [
        *issues(0, 0, 10),
        *sleep(0, 10, 15, at_barrier=True),
        *issues(1, 0, 20),
        *sleep(1, 20, 5, at_barrier=True),
        *issues(0, 25, 1),
        *issues(1, 25, 1),
    ]
    run = figures(rows)
    assert run.recording is not None
    asleep = sleep_of(run.recording, [0, 1])
    assert (asleep.dma, asleep.imbalance, asleep.barrier, asleep.other) == (0, 10, 10, 0)
    assert (asleep.barriers, asleep.awaited) == (1, {0: 0, 1: 10})
    loss = found(run)["Waits for slower cores"]
    assert loss.where == (
        "1 barrier, at each of which a core waits 5.0 cycles on average for the last one; "
        "100 % of these cycles are for core1."
    )
    assert loss.help.startswith("core1 has more to do than the others")


def test_a_core_that_sleeps_until_a_transfer_is_done_waits_for_the_dma_and_others_with_it() -> None:
    rows = [
        *issues(0, 0, 10),
        (5, TRANSFER, 0, 0, 1, 256),
        *sleep(0, 10, 20, at_barrier=False),
        (27, TRANSFER, 0, 1, 1, 0),
        *issues(0, 30, 5),
        *issues(1, 0, 4),
        *sleep(1, 4, 31, at_barrier=True),
    ]
    run = figures(rows, cycles=35)
    assert run.recording is not None
    asleep = sleep_of(run.recording, [0, 1])
    assert (asleep.dma, asleep.barrier, asleep.other) == (20 + 20, 11, 0)
    loss = found(run)["Waits for the DMA"]
    assert loss.where == (
        "1 copy of 256 bytes together, under way in 63 % of the run's cycles; in 23 % of these "
        "no core waits."
    )
    assert "two buffers" in loss.help


def test_a_dma_that_hardly_pauses_is_no_case_for_more_buffers() -> None:
    rows = [
        *issues(0, 0, 1),
        (1, TRANSFER, 0, 0, 1, 256),
        *sleep(0, 1, 99, at_barrier=False),
        (99, TRANSFER, 0, 1, 1, 0),
    ]
    loss = found(figures(rows, harts=1, cycles=100))["Waits for the DMA"]
    assert "the copies themselves are the limit" in loss.help


def test_copies_that_are_mostly_hidden_are_no_case_for_more_buffers() -> None:
    rows = [
        *issues(0, 0, 60),
        (1, TRANSFER, 0, 0, 1, 256),
        *sleep(0, 60, 20, at_barrier=False),
        (79, TRANSFER, 0, 1, 1, 0),
        *issues(0, 80, 50),
    ]
    loss = found(figures(rows, harts=1, cycles=130))["Waits for the DMA"]
    assert "in 76 % of these no core waits" in loss.where
    assert loss.help.startswith("Most copying is hidden behind computation.")


def test_sleep_that_no_transfer_ends_is_for_want_of_work() -> None:
    rows = [*issues(0, 0, 100), *issues(1, 0, 10), *sleep(1, 10, 90, at_barrier=False)]
    assert found(figures(rows))["Asleep without work"].cycles == 90


def test_conflicts_over_one_word_are_told_from_those_of_a_stride() -> None:
    def run(address: int) -> Figures:
        rows = [*issues(0, 0, 8), *issues(1, 0, 4)]
        for cycle in range(4, 8):
            rows.append(stall(1, cycle, "l1_contention", 1))
            rows.append((cycle, 4, 1, 2 | 0 << 8, CODE, 0x10000008 + address * cycle))
        return figures(rows)

    shared = found(run(0))["Conflicts at L1's banks"]
    assert shared.where == (
        "100 % of all lost arbitrations are at bank 2, over the word at 0x10000008."
    )
    assert shared.help.startswith("Cores share this word")
    strided = found(run(16))["Conflicts at L1's banks"]
    assert strided.where == "100 % of all lost arbitrations are at bank 2, over 4 words."
    assert strided.help == (
        "Addresses that are multiples of 16 bytes apart lie in one bank: pad each row by one "
        "word (4 bytes), so that rows begin in different banks."
    )


def test_conflicts_with_the_dma_are_told_from_those_among_cores() -> None:
    rows = [
        *issues(0, 0, 4),
        stall(0, 4, "l1_contention", 2),
        conflict(4, 0, winner=2, bank=0),
        conflict(5, 0, winner=2, bank=1),
    ]
    loss = found(figures(rows, harts=2, cycles=6))["Conflicts at L1's banks"]
    assert loss.where == "The DMA had the bank in 100 % of the cases."


def test_a_core_that_hardly_works_is_named_and_its_sleep_is_no_loss_of_its_own() -> None:
    rows = [*issues(0, 0, 1000), *issues(1, 0, 10), *sleep(1, 10, 990, at_barrier=False)]
    by_name = found(figures(rows))
    assert list(by_name) == ["Cores without work"]
    assert by_name["Cores without work"].where == (
        "core1: 1 of 2 cores had hardly anything to execute."
    )


def test_misses_name_the_function_and_the_instruction_that_pays_most() -> None:
    rows = [
        *issues(0, 0, 2, CODE),
        stall(0, 2, "fetch", 5, CODE),
        *issues(0, 7, 2, CODE + 32),
        stall(0, 9, "fetch", 15, CODE + 32),
        *issues(0, 24, 1, CODE + 32),
        stall(0, 25, "fetch", 20, CODE + 32),
    ]
    loss = found(figures(rows, harts=1, cycles=45, lines=[[CODE + 32, "dir/main.c:7"]]))[
        "Instruction-cache misses"
    ]
    assert loss.cycles == 40
    assert loss.where == (
        "100 % of it in main, 88 % at 0x1c008020 `nop` (main.c:7). 50 % is paid where a core "
        "executes an instruction for the first time; 90 % of all instructions come from 32 bytes "
        "of code."
    )


def test_losses_come_the_largest_first() -> None:
    rows = [
        *issues(0, 0, 2),
        stall(0, 2, "load_use", 3),
        stall(0, 5, "branch", 9),
        stall(0, 14, "csr", 1),
    ]
    by_name = found(figures(rows, harts=1, cycles=15))
    assert [(name, loss.cycles) for name, loss in by_name.items()] == [
        ("Branches and jumps", 9),
        ("Loads used at once", 3),
        ("CSRs, fences and traps", 1),
    ]


def test_losses_of_a_result_without_a_trace_are_a_partition_too() -> None:
    assert found(of_result(json.loads(RESULT.read_text()), "result.json"))


@pytest.mark.parametrize("seed", range(20))
def test_a_union_of_spans_covers_what_counting_cycle_by_cycle_gives(seed: int) -> None:
    random = np.random.default_rng(seed)
    start, length = random.integers(0, 100, 8), random.integers(0, 30, 8)
    covered = np.zeros(200, bool)
    for first, count in zip(start, length, strict=True):
        covered[first : first + count] = True
    busy = union(start, start + length)
    assert busy.cycles == covered.sum()
    assert busy.within(np.array([17]), np.array([60])).tolist() == [covered[17:60].sum()]


def test_cores_that_end_early_are_named_with_what_they_miss() -> None:
    rows = []
    for core, work in enumerate((100, 50, 40, 45)):
        rows += [*issues(core, 0, work), stall(core, work, "wfi", 100 - work)]
    loss = found(figures(rows, harts=4, cycles=100))["Asleep until an interrupt"]
    assert loss.cycles == 165
    assert loss.where == "core1 to core3: up to 60 cycles each."
