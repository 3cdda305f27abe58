"""The arbiters of L1's banks by themselves, against the rule of rr_arb_tree (LockIn, FairArb).

The tree's winner is found here as the hardware finds it: by a tournament between halves.
"""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest

from soc.chip_state import BANK
from soc.l1 import ask_bank, grant_bank, nearest, nearest_of_several, next_rr

INITIATORS = 16
"""Of L1 as pulp_cluster configures it: cores 0 to 7, external 8 to 11, DMA 12 to 15."""


def tournament(requests: Iterable[int], rr: int, initiators: int) -> int:
    """Initiator at the root: at each node the only side that requests, else the one rr points to.

    The leaves' nodes look at bit 0 of rr, the root at the highest.
    """
    nodes = [initiator if initiator in requests else None for initiator in range(initiators)]
    while len(nodes) > 1:
        sides = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [b if a is None or b is not None and rr & 1 else a for a, b in sides]
        rr >>= 1
    assert nodes[0] is not None
    return nodes[0]


def rotated(requests: Iterable[int], rr: int) -> int:
    """The arbiter's next state: the lowest requester above rr; where there is none, the lowest."""
    above = [initiator for initiator in requests if initiator > rr]
    return min(above or requests)


def mask(initiators: Iterable[int]) -> np.uint64:
    return np.uint64(sum(1 << initiator for initiator in initiators))


@pytest.mark.parametrize("levels", [4, 6])
def test_of_several_requests_the_one_nearest_to_the_rotating_priority_wins(levels: int) -> None:
    random, initiators = Random(levels), range(1 << levels)
    for _ in range(500):
        asking = random.sample(initiators, random.choice((2, 2, 3, 5, 11)))
        rr = random.choice(initiators)
        winner = tournament(asking, rr, 1 << levels)
        assert winner == min(asking, key=lambda initiator: initiator ^ rr)
        assert nearest(mask(asking), rr, levels) == winner
        assert nearest_of_several(mask(asking), rr, levels) == winner


def test_a_lone_request_wins_and_is_the_next_state_wherever_the_priority_is() -> None:
    for initiator in range(INITIATORS):
        for rr in range(INITIATORS):
            assert nearest(mask([initiator]), rr, 4) == initiator
            assert next_rr(mask([initiator]), rr) == initiator


def test_the_next_state_is_the_lowest_requester_above_it_else_the_lowest() -> None:
    assert next_rr(mask([0, 3, 5]), 3) == 5
    assert next_rr(mask([0, 3, 5]), 5) == 0
    random = Random(2)
    for _ in range(500):
        asking = random.sample(range(64), random.randint(1, 20))
        rr = random.randrange(64)
        assert next_rr(mask(asking), rr) == rotated(asking, rr)


class Bank:
    """One bank, whose requests are put in any order and then granted in any order."""

    def __init__(self, seed: int = 0):
        self.state = np.zeros(1, BANK)
        self.state["asked"] = -1
        self.cycle, self.random = 0, Random(seed)

    def serve(self, requests: Iterable[int]) -> list[int]:
        """Initiators that are granted the bank in this cycle; the next call is the next cycle."""
        bank, asking = self.state[0], list(requests)
        self.random.shuffle(asking)
        for initiator in asking:
            ask_bank(bank, initiator, self.cycle)
        self.random.shuffle(asking)
        self.cycle += 1
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
    bank.cycle += 3
    assert bank.serve([14]) == [14]
    assert bank.state["rr"] == 14


@pytest.mark.parametrize("seed", range(5))
def test_requests_at_random_are_granted_as_by_the_tournament(seed: int) -> None:
    random, bank = Random(seed), Bank(seed)
    rr, waiting, accesses, conflicts = 0, set(), 0, 0
    for _ in range(400):
        waiting |= {i for i in range(INITIATORS) if random.random() < (0.02, 0.1, 0.4)[seed % 3]}
        if not waiting:
            bank.cycle += 1
            continue
        winner = tournament(waiting, rr, INITIATORS)
        rr = rotated(waiting, rr)
        accesses, conflicts = accesses + 1, conflicts + len(waiting) - 1
        assert bank.serve(waiting) == [winner]
        assert bank.state["rr"] == rr
        waiting.remove(winner)
    assert (bank.state["accesses"], bank.state["conflicts"]) == (accesses, conflicts)
