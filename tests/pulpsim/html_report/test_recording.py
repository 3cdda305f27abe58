import numpy as np
import pytest

from pulpsim.html_report.recording import Recording
from pulpsim.html_report.stall_groups import PART, PARTS
from soc.prelude.counters import CAUSES
from soc.trace.reader import TraceError
from tests.pulpsim.html_report.traces import (
    CODE,
    DMA,
    MEMORY,
    REGION,
    TRANSFER,
    conflict,
    issues,
    sleep,
    stall,
    trace,
)


def test_activity_divides_the_cycles_of_each_hart_by_part_and_bin() -> None:
    rows = [
        *issues(0, 0, 2),
        stall(0, 2, "fetch", 3),
        *sleep(0, 5, 4, at_barrier=True),
        *sleep(0, 9, 1, at_barrier=False),
        stall(1, 0, "off", 10),
    ]
    activity = Recording(trace(rows)).activity
    shown = {part.key: activity[0, index].tolist() for index, part in enumerate(PARTS)}
    assert shown["work"] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert shown["fetch"] == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    assert shown["barrier"] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert shown["asleep"] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert activity[1, PART["off"]].tolist() == [1] * 10
    assert (activity.sum(axis=1) == 1).all()


def test_a_heat_map_and_a_matrix_count_every_lost_arbitration_once() -> None:
    random = np.random.default_rng(3)
    rows = [
        conflict(
            int(random.integers(5000)), int(random.integers(4)), int(random.integers(4)), bank % 4
        )
        for bank in range(3000)
    ]
    recording = Recording(trace(rows))
    events = recording.trace.events
    assert recording.heat.shape[1] <= 600
    for bank in range(4):
        assert recording.heat[bank].sum() == (events["extra"] & 0xFF == bank).sum()
    for loser in range(4):
        assert recording.matrix[loser].sum() == (events["hart"] == loser).sum()
        assert recording.matrix[:, loser].sum() == (events["extra"] >> 8 == loser).sum()


def test_accesses_of_cores_and_dma_count_for_their_bank_and_those_beyond_l1_do_not() -> None:
    rows = [
        (1, MEMORY, 0, 2 << 4, 0x10000004, CODE),
        (1, MEMORY, 1, 2 << 4 | 2, 0x1C000004, CODE),
        (2, DMA, 2, 1, 0x10000018, 0),
        (2, DMA, 3, 0, 0x1000001C, 0),
    ]
    recording = Recording(trace(rows))
    assert recording.banks["accesses"].tolist() == [0, 1, 1, 1]
    assert recording.beats.tolist() == [[0, 0, 1], [0, 0, 1]]


def test_transfers_and_regions_last_from_their_begin_to_their_end() -> None:
    rows = [
        (1, TRANSFER, 0, 0, 5, 64),
        (2, TRANSFER, 1, 0, 6, 64),
        (4, TRANSFER, 0, 1, 5, 64),
        (5, TRANSFER, 0, 0, 5, 64),
        (3, REGION, 1, 7, 1, CODE),
        (6, REGION, 1, 7, 0, CODE),
        (7, REGION, 1, 7, 1, CODE),
        *issues(0, 0, 9),
    ]
    recording = Recording(trace(rows))
    transfers, regions = recording.transfers, recording.regions
    assert list(zip(transfers.number, transfers.start, transfers.length, strict=True)) == [
        (5, 1, 3),
        (5, 5, 4),
        (6, 2, 7),
    ]
    assert (regions.hart.tolist(), regions.number.tolist()) == ([1], [7])
    assert (regions.start.tolist(), regions.length.tolist()) == ([3], [3])


def test_a_transfer_of_several_commands_lasts_from_the_first_until_all_are_done() -> None:
    rows = [
        (1, TRANSFER, 0, 0, 5, 64),
        (3, TRANSFER, 0, 0, 5, 64),
        (2, TRANSFER, 1, 0, 6, 64),
        (8, TRANSFER, 0, 1, 5, 0),
        (9, TRANSFER, 1, 1, 6, 0),
    ]
    transfers = Recording(trace(rows)).transfers
    assert transfers.number.tolist() == [5, 6]
    assert transfers.start.tolist() == [1, 2]
    assert transfers.length.tolist() == [7, 7]


def test_cycles_count_from_the_first_one_of_the_trace() -> None:
    recording = Recording(trace(issues(0, 0, 5), first_cycle=1000, cycles=1005))
    assert recording.cycles == 5
    assert recording.bins.first == 1000


def test_an_event_of_a_hart_that_is_not_there_is_refused() -> None:
    with pytest.raises(TraceError, match=r"^hand\.trace: damaged: .* is no event of this chip$"):
        Recording(trace([stall(0, 0, "fetch", 1), stall(9, 0, "fetch", 1)]))


def test_every_cause_of_stalls_is_shown_as_its_part() -> None:
    rows = [stall(0, 10 * index, cause, 10) for index, cause in enumerate(CAUSES)]
    activity = Recording(trace(rows, cycles=10 * len(CAUSES))).activity
    assert activity[0].sum(axis=0).tolist() == [1] * 10 * len(CAUSES)
