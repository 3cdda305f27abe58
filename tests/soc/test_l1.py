"""The arbiters of L1's banks by themselves."""

from random import Random

import numpy as np
import pytest

from soc.l1 import nearest_of_several


@pytest.mark.parametrize("levels", [4, 6])
def test_of_several_requests_the_one_nearest_to_the_rotating_priority_wins(levels: int) -> None:
    random, initiators = Random(levels), range(1 << levels)
    for _ in range(500):
        asking = random.sample(initiators, random.choice((2, 2, 3, 5, 11)))
        rr = random.choice(initiators)
        requests = np.uint64(sum(1 << initiator for initiator in asking))
        winner = nearest_of_several(requests, rr, levels)
        assert winner == min(asking, key=lambda initiator: initiator ^ rr)
