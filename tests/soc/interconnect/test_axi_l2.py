"""The way to L2: the latencies measured on RTL, shared bandwidth, the fabric controller's banks."""

import numpy as np
import pytest
from pydantic import ValidationError

from soc.interconnect.axi_l2 import (
    READ,
    WRITE,
    L2Spec,
    l2_burst,
    l2_controller_access,
    l2_core_request,
    l2_read_gap,
    l2_state,
    l2_write_response,
)

BASE = 0x1C000000
INTERLEAVED = BASE + 2 * 32 * 1024


def new_l2(cluster_stages: int = 3, soc_stages: int = 3) -> np.void:
    spec = L2Spec(cluster_synchronizer_stages=cluster_stages, soc_synchronizer_stages=soc_stages)
    return l2_state(spec)[0]


# Stages of the cluster's and the SoC's side; AR to R; last W to B; stalls of a load, a store.
MEASURED = [
    (3, 3, 11, 11, 15, 16),
    (2, 2, 9, 9, 13, 14),
    (0, 0, 1, 1, 5, 6),
    (3, 2, 10, 10, 14, 15),
]


@pytest.mark.parametrize(("cluster", "soc", "read", "write", "load", "store"), MEASURED)
def test_the_unloaded_latencies_are_those_of_the_rtl(
    cluster: int, soc: int, read: int, write: int, load: int, store: int
) -> None:
    l2 = new_l2(cluster, soc)
    assert l2_burst(l2, 100, INTERLEAVED, 4, READ) == 100 + read
    assert l2_burst(l2, 200, INTERLEAVED, 4, WRITE) == 200
    assert l2_write_response(l2, 203) == 203 + write
    assert l2_core_request(l2, 300, INTERLEAVED, False) == 300 + load
    assert l2_core_request(l2, 400, INTERLEAVED, True) == 400 + store


def test_bursts_follow_each_other_without_a_gap_at_one_beat_a_cycle() -> None:
    l2 = new_l2()
    first = [l2_burst(l2, 100 + k, INTERLEAVED + 256 * k, 32, READ) for k in range(8)]
    assert first == [111 + 32 * k for k in range(8)]
    assert l2["beats"].tolist() == [256, 0]


def test_an_address_takes_the_channel_for_one_cycle() -> None:
    l2 = new_l2()
    assert [l2_burst(l2, 100, INTERLEAVED, 1, READ) for _ in range(3)] == [111, 112, 113]


def test_reads_and_writes_have_channels_of_their_own() -> None:
    l2 = new_l2()
    assert l2_burst(l2, 100, INTERLEAVED, 32, WRITE) == 100
    assert l2_burst(l2, 100, INTERLEAVED, 32, READ) == 111
    assert l2_burst(l2, 101, INTERLEAVED, 32, WRITE) == 132


def test_the_cores_requests_pass_one_per_cycle_in_order() -> None:
    l2 = new_l2()
    loads = [l2_core_request(l2, 100, INTERLEAVED + 4 * hart, False) for hart in range(8)]
    assert loads == [115 + hart for hart in range(8)]
    assert l2_core_request(l2, 103, INTERLEAVED, True) == 103 + 16 + 5
    assert l2["core_accesses"] == 9


def test_a_load_from_a_private_bank_has_both_words_of_its_beat_from_one_port() -> None:
    l2 = new_l2()
    loads = [l2_core_request(l2, 100, BASE + 4 * hart, False) for hart in range(3)]
    assert loads == [116, 118, 120]
    assert l2_core_request(l2, 103, INTERLEAVED, False) == 121
    assert l2_core_request(l2, 200, BASE, True) == 216


def test_bursts_from_private_banks_take_two_cycles_for_a_beat() -> None:
    l2 = new_l2()
    assert [l2_read_gap(l2, address) for address in (BASE, INTERLEAVED)] == [2, 1]
    assert l2_burst(l2, 100, BASE, 4, READ) == 112  # its last beat in 118
    assert l2_burst(l2, 101, BASE, 4, READ) == 120
    assert l2_burst(l2, 102, INTERLEAVED, 4, READ) == 127
    assert l2_burst(l2, 103, BASE, 1, READ) == 131
    assert l2_burst(l2, 104, BASE, 4, WRITE) == 104


def test_a_load_waits_for_the_dmas_beats_before_it() -> None:
    l2 = new_l2()
    l2_burst(l2, 100, INTERLEAVED, 32, READ)
    assert l2_core_request(l2, 100, INTERLEAVED, False) == 111 + 32 + 2


def controller(l2: np.void, cycles: range, address: int) -> list[int]:
    return [l2_controller_access(l2, cycle, address) - cycle for cycle in cycles]


def test_the_fabric_controller_reaches_an_idle_bank_every_cycle() -> None:
    assert controller(new_l2(), range(100, 110), INTERLEAVED) == [0] * 10


def test_a_read_stream_and_the_fabric_controller_take_turns_at_a_bank() -> None:
    l2 = new_l2()
    l2_burst(l2, 100, INTERLEAVED, 4, READ)  # beats at the banks 0 1, 2 3, 0 1, 2 3 in 105..108
    assert controller(l2, range(104, 110), INTERLEAVED) == [0, 0, 0, 1, 0, 0]
    assert l2["controller_conflicts"] == 1
    assert l2_burst(l2, 110, INTERLEAVED, 1, READ) == 121


def test_a_beat_that_waits_for_the_fabric_controller_delays_those_after_it() -> None:
    l2 = new_l2()
    l2_burst(l2, 100, INTERLEAVED, 32, READ)
    assert l2_controller_access(l2, 105, INTERLEAVED) == 105
    assert l2_burst(l2, 101, INTERLEAVED, 1, READ) == 111 + 32 + 1


def test_a_write_stream_is_at_the_banks_one_crossing_after_the_port() -> None:
    l2 = new_l2()
    l2_burst(l2, 100, INTERLEAVED + 8, 1, WRITE)  # banks 2 and 3 in 105
    assert controller(l2, range(105, 106), INTERLEAVED + 4) == [0]
    l2["cluster_next"] = 1
    assert controller(l2, range(105, 106), INTERLEAVED + 12) == [1]
    assert controller(l2, range(105, 106), INTERLEAVED + 4) == [0]


def test_private_banks_are_not_touched_by_interleaved_traffic() -> None:
    l2 = new_l2()
    l2["cluster_next"] = 1
    l2_burst(l2, 100, INTERLEAVED, 32, READ)
    assert controller(l2, range(105, 130), BASE) == [0] * 25


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"banks": 6}, "banks is 6; the number of banks is a power of two"),
        (
            {"size": 65536},
            "size 65536 leaves no interleaved banks after 2 private banks of 32768 bytes",
        ),
    ],
)
def test_an_l2_that_cannot_be_built_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        L2Spec(**fields)
    assert [error["msg"] for error in caught.value.errors()] == [f"Value error, {message}"]
