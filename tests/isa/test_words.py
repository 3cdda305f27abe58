"""The vocabulary of words, against strings of bits."""

import random

import pytest

from isa.words import (
    bits,
    clz32,
    ctz32,
    i32,
    lane,
    ones,
    pack_b,
    pack_h,
    popcount,
    rotate_right,
    sext,
    u32,
    ulane,
    zext,
)
from tests.isa.extensions.meanings import EDGES

GENERATOR = random.Random(32)
VALUES = [*EDGES, *(GENERATOR.getrandbits(32) - (1 << 31) for _ in range(200))]


def binary(value: int) -> str:
    """The word as 32 digits, bit 31 first."""
    return format(value % (1 << 32), "032b")


@pytest.mark.parametrize("value", [0, 1, -1, 1 << 31, -(1 << 31), (1 << 32) + 5, -(1 << 40) - 3])
def test_words_wrap_to_32_bits(value):
    assert u32(value) == value % (1 << 32)
    assert i32(value) == (value + (1 << 31)) % (1 << 32) - (1 << 31)


def test_signed_and_unsigned_reading_agree_but_for_the_sign():
    for value in VALUES:
        assert i32(u32(value)) == value
        for width in range(1, 33):
            low = int(binary(value)[32 - width :], 2)
            assert zext(value, width) == low
            assert sext(value, width) == low - (int(binary(value)[32 - width]) << width)


def test_bits_are_cut_out_and_set_between_two_positions():
    for value in VALUES:
        digits = binary(value)
        for high in range(32):
            for low in range(high + 1):
                assert bits(value, high, low) == int(digits[31 - high : 32 - low], 2)
    for high in range(32):
        for low in range(high + 1):
            assert binary(ones(high, low)) == "0" * (31 - high) + "1" * (high - low + 1) + "0" * low


def test_bits_are_counted():
    for value in VALUES:
        digits = binary(value)
        assert popcount(value) == digits.count("1")
        assert clz32(value) == len(digits) - len(digits.lstrip("0"))
        assert ctz32(value) == len(digits) - len(digits.rstrip("0"))


def test_rotation_moves_the_low_bits_to_the_top():
    for value in VALUES:
        digits = binary(value)
        for amount in range(32):
            rotated = digits[32 - amount :] + digits[: 32 - amount]
            assert binary(rotate_right(value, amount)) == rotated
        assert rotate_right(value, 32) == u32(value)


def test_elements_are_counted_from_the_lowest():
    word = i32(0x8001_7FFE)
    assert [ulane(word, index, 16) for index in (0, 1)] == [0x7FFE, 0x8001]
    assert [lane(word, index, 16) for index in (0, 1)] == [0x7FFE, -0x7FFF]
    assert [lane(word, index, 8) for index in range(4)] == [-2, 0x7F, 1, -0x80]
    assert [ulane(word, index, 8) for index in range(4)] == [0xFE, 0x7F, 1, 0x80]


def test_packing_takes_the_highest_element_first_and_cuts_each_to_its_width():
    assert pack_h(-1, 0x12345) == 0xFFFF2345
    assert pack_b(-1, 0x102, 3, 0xFF04) == 0xFF020304
