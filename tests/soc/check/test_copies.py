"""Copies of the DMA that may use the same bytes, held against the bytes themselves."""

import numpy as np

from soc.check.copies import may_overlap
from soc.chip.shadow import COPY


def drawn_copy(random: np.random.Generator) -> np.void:
    """A copy whose lines go forwards or backwards on each side."""
    copy = np.zeros(1, COPY)[0]
    copy["length"] = random.integers(1, 60)
    for side in ("l1", "l2"):
        copy[side] = random.integers(300, 700)
        copy[f"{side}_line"] = random.integers(1, 60)
        copy[f"{side}_stride"] = random.integers(-70, 70)
    return copy


def bytes_of(copy: np.void, side: str) -> set[int]:
    """The addresses that a copy uses on this side."""
    number = np.arange(copy["length"])
    line, stride = copy[f"{side}_line"], copy[f"{side}_stride"]
    return set((copy[side] + number // line * stride + number % line).tolist())


def test_copies_with_a_byte_in_common_may_overlap():
    random = np.random.default_rng(5)
    apart = 0
    for _ in range(2000):
        one, other = drawn_copy(random), drawn_copy(random)
        if any(bytes_of(one, side) & bytes_of(other, side) for side in ("l1", "l2")):
            assert may_overlap(one, other)
        else:
            apart += not may_overlap(one, other)
    assert apart > 100
