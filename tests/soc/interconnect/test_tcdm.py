"""L1's banks by themselves: who is served in a cycle, and what is counted."""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest

from soc.chip.state import BANK
from soc.interconnect.rr_arbiter import arbitrate
from soc.interconnect.tcdm import ask_bank, grant_bank
from soc.prelude.bits import set_of

INITIATORS = 16
"""Of L1 as pulp_cluster configures it: cores 0 to 7, external 8 to 11, DMA 12 to 15."""


class Bank:
    """One bank, whose requests are put in any order and then granted in any order."""

    def __init__(self, seed: int = 0):
        self.state = np.zeros(1, BANK)
        self.random = Random(seed)

    def serve(self, requests: Iterable[int]) -> list[int]:
        """Initiators that are granted the bank in this cycle; the next call is the next cycle."""
        bank, asking = self.state[0], list(requests)
        self.random.shuffle(asking)
        for initiator in asking:
            ask_bank(bank, initiator)
        self.random.shuffle(asking)
        return [initiator for initiator in asking if grant_bank(bank, initiator)]


def test_cores_that_never_stop_requesting_a_bank_are_served_in_turn() -> None:
    bank = Bank()
    assert [bank.serve(range(8)) for _ in range(20)] == [[cycle % 8] for cycle in range(20)]
    assert bank.state["accesses"] == 20
    assert bank.state["conflicts"] == 20 * 7


def test_losers_that_request_again_are_all_served_once_without_a_gap() -> None:
    bank, waiting, log = Bank(), {1, 2, 6, 12, 15}, []
    bank.serve([5])  # its next state is 5
    while waiting:
        (winner,) = bank.serve(waiting)
        waiting.remove(winner)
        log.append(winner)
    # States 5, 6, 12, 15, 1: each cycle's state and requests give the nearest, not the next higher.
    assert log == [6, 2, 12, 15, 1]
    assert (bank.state["accesses"], bank.state["conflicts"]) == (6, 4 + 3 + 2 + 1)


def test_a_request_of_an_earlier_cycle_counts_as_none() -> None:
    bank = Bank()
    assert bank.serve([0, 9]) == [0]
    assert bank.serve([14]) == [14]
    assert bank.state["rr"] == 14


@pytest.mark.parametrize("seed", range(5))
def test_requests_at_random_are_granted_as_the_arbiter_chooses(seed: int) -> None:
    random, bank = Random(seed), Bank(seed)
    rr, waiting, accesses, conflicts = 0, set(), 0, 0
    for _ in range(400):
        waiting |= {i for i in range(INITIATORS) if random.random() < (0.02, 0.1, 0.4)[seed % 3]}
        if not waiting:
            continue
        winner, rr, _ = arbitrate(set_of(waiting), rr)
        accesses, conflicts = accesses + 1, conflicts + len(waiting) - 1
        assert bank.serve(waiting) == [winner]
        assert bank.state["rr"] == rr
        waiting.remove(winner)
    assert (bank.state["accesses"], bank.state["conflicts"]) == (accesses, conflicts)
