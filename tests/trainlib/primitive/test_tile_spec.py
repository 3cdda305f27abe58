"""Sizes of tiles that grow from both ends."""

from itertools import pairwise

import pytest

from trainlib.primitive.tile_spec import GROWTH, growing


@pytest.mark.parametrize("most", range(1, 13))
def test_tiles_grow_from_both_ends_and_add_up(most):
    for total in range(2, 70):
        sizes = growing(total, most)
        assert sum(sizes) == total
        assert sizes[0] == sizes[-1] == 1 <= max(sizes) <= most
        assert all(max(pair) <= GROWTH * min(pair) for pair in pairwise(sizes))
    assert growing(8, 2) == [1, 2, 2, 2, 1]
    assert growing(16, 5) == [1, 2, 4, 2, 4, 2, 1]
    assert growing(64, 24) == [1, 2, 4, 8, 12, 11, 11, 8, 4, 2, 1]
