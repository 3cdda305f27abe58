"""The arbiters' rule by itself, against two other ways to find who wins.

By the smallest (initiator XOR rr) of all that request, and as the hardware finds it: by a
tournament between halves.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from soc.interconnect.rr_arbiter import arbitrate, arbitrate_counting
from soc.prelude.bits import set_of


def members(mask: int) -> list[int]:
    return [initiator for initiator in range(64) if mask >> initiator & 1]


def tournament(requests: Iterable[int], rr: int, inputs: int) -> int:
    """Initiator at the root: at each node the only side that requests, else the one rr points to.

    The leaves' nodes look at bit 0 of rr, the root at the highest.
    """
    nodes = [initiator if initiator in requests else None for initiator in range(inputs)]
    while len(nodes) > 1:
        sides = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [b if a is None or b is not None and rr & 1 else a for a, b in sides]
        rr >>= 1
    assert nodes[0] is not None
    return nodes[0]


def fair(requests: list[int], rr: int) -> int:
    """The next rr: the lowest requester above it; where there is none, the lowest."""
    return min([initiator for initiator in requests if initiator > rr] or requests)


def small() -> Iterator[tuple[list[int], int]]:
    """All requests to an arbiter of eight inputs, in all its states."""
    return ((members(mask), rr) for mask, rr in product(range(1, 1 << 8), range(8)))


def test_the_winner_is_the_requester_with_the_smallest_xor_and_the_others_lose() -> None:
    for requests, rr in small():
        winner = min(requests, key=lambda initiator: initiator ^ rr)
        losers = [initiator for initiator in requests if initiator != winner]
        expected = (winner, fair(requests, rr), set_of(losers))
        assert arbitrate(set_of(requests), rr) == expected, (requests, rr)
        counted = (winner, (rr + 1) % 8, set_of(losers))
        assert arbitrate_counting(set_of(requests), rr, 7) == counted, (requests, rr)


def test_the_winner_is_the_one_at_the_root_of_the_tree() -> None:
    for requests, rr in small():
        assert arbitrate(set_of(requests), rr)[0] == tournament(requests, rr, 8), (requests, rr)


@pytest.mark.parametrize("inputs", [16, 32, 64])
def test_large_arbiters_choose_alike(inputs: int) -> None:
    random = Random(inputs)
    for _ in range(500):
        requests = random.sample(range(inputs), random.choice((1, 2, 2, 3, 5, 11, 16)))
        rr = random.randrange(inputs)
        winner = tournament(requests, rr, inputs)
        losers = [initiator for initiator in requests if initiator != winner]
        assert arbitrate(set_of(requests), rr) == (winner, fair(requests, rr), set_of(losers))


def test_a_lone_request_wins_and_is_the_next_state_wherever_the_priority_is() -> None:
    for initiator, rr in product(range(64), range(64)):
        assert arbitrate(set_of([initiator]), rr) == (initiator, initiator, 0)


def test_the_next_state_is_the_lowest_requester_above_it_else_the_lowest() -> None:
    assert arbitrate(set_of([0, 3, 5]), 3)[1] == 5
    assert arbitrate(set_of([0, 3, 5]), 5)[1] == 0
    assert arbitrate(set_of([0, 63]), 63)[1] == 0


def test_inputs_that_request_in_every_cycle_are_served_in_turn() -> None:
    rr, log = 0, []
    for _ in range(20):
        winner, rr, _ = arbitrate(np.uint64(255), rr)
        log.append(winner)
    assert log == [cycle % 8 for cycle in range(20)]
