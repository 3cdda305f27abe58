"""Bit sets against Python's own sets."""

import random

import numpy as np
import pytest

from soc.prelude.bits import bit, lowest_index, members, set_of


@pytest.mark.parametrize("size", [1, 2, 9, 63, 64])
def test_sets_have_the_members_that_they_are_made_of(size: int) -> None:
    chosen = random.Random(size).sample(range(64), size)
    mask = set_of(chosen)
    assert members(mask) == size
    assert lowest_index(mask) == min(chosen)
    assert {index for index in range(64) if mask & bit(index)} == {*chosen}


def test_the_highest_bit_is_a_member_like_others() -> None:
    assert bit(63) == np.uint64(1 << 63)
    assert lowest_index(bit(63)) == 63
    assert set_of([]) == 0
