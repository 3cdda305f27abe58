"""Rounded arithmetic of halves against the definitions of the instructions."""

import numpy as np
import pytest

from isa.floats import softfloat
from isa.floats.format import BF16 as BF16_FORMAT
from isa.floats.format import F16 as F16_FORMAT
from trainlib.primitive.element import BF16, F16
from trainlib.reference.halves import add, multiply_add, rounded

TYPES = [(F16, F16_FORMAT), (BF16, BF16_FORMAT)]
EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x3F80, 0x7BFF, 0x7F7F, 0xFBFF]


def drawn(count: int) -> np.ndarray:
    """Patterns of three operands, some of them edges, some close to a tie."""
    numbers = np.random.default_rng(7)
    patterns = numbers.integers(0, 1 << 16, (count, 3), np.uint16)
    edges = numbers.choice(np.array(EDGES, np.uint16), (count, 3))
    return np.where(numbers.random((count, 3)) < 0.2, edges, patterns)


@pytest.mark.parametrize(("element", "form"), TYPES, ids=["f16", "bf16"])
def test_multiply_adds_and_sums_are_those_of_the_instructions(element, form):
    operands = drawn(20_000)
    with np.errstate(invalid="ignore", over="ignore"):
        values = operands.view(element.dtype).astype(np.float64)
        fused = multiply_add(element.dtype, *values.T)
        total = add(element.dtype, *values.T[:2])
    wanted = [softfloat.multiply_add(form, *map(int, row), 0)[0] for row in operands]
    sums = [softfloat.add(form, int(a), int(b), 0)[0] for a, b, _ in operands]
    for got, patterns in ((fused, wanted), (total, sums)):
        expected = np.array(patterns, np.uint16).view(element.dtype).astype(np.float64)
        np.testing.assert_array_equal(got, expected)
        same = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[same]), np.signbit(expected[same]))


@pytest.mark.parametrize("element", [F16, BF16], ids=lambda element: element.name)
def test_every_number_of_a_type_is_its_own_rounding(element):
    with np.errstate(invalid="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(element.dtype).astype(np.float64)
        np.testing.assert_array_equal(rounded(element.dtype, every), every)
