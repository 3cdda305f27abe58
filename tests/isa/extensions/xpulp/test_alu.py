"""Xpulp's bit fields, normalized sums and products, on Python's strings and integers."""

import numpy as np
import pytest

from isa.extensions.profiles import profile
from isa.words import i32, u32
from tests.isa.extensions.meanings import operands

RI5CY = profile("ri5cy")

FIELD_FORMS = ["extract", "extractu", "bclr", "bset", "insert"]


@pytest.mark.parametrize("verb", FIELD_FORMS)
def test_bit_fields_are_slices_of_a_string_of_bits(verb):
    by_immediate, by_register = RI5CY[f"p_{verb}"], RI5CY[f"p_{verb}r"]
    for *registers, Is3, Is2 in operands(by_immediate, 400):
        expected = sliced(verb, *registers, Is3=Is3, Is2=Is2)
        assert u32(by_immediate.function(*registers, Is3, Is2)) == expected
        rs2 = i32(0xABCDEC00 | Is3 << 5 | Is2)
        assert u32(by_register.function(*registers, rs2)) == expected


def sliced(verb: str, *registers: int, Is3: int, Is2: int) -> int:
    digits = [format(u32(value), "032b") for value in registers]
    begin, end = max(31 - Is2 - Is3, 0), 32 - Is2
    field = digits[-1][begin:end]
    if verb == "extractu":
        return int(field, 2)
    if verb == "extract":
        return int(field.rjust(32, field[0]), 2)
    if verb == "insert":
        inserted = digits[1][32 - (end - begin) :]
        return int(digits[0][:begin] + inserted + digits[0][end:], 2)
    filler = "1" if verb == "bset" else "0"
    return int(digits[0][:begin] + filler * (end - begin) + digits[0][end:], 2)


@pytest.mark.parametrize("verb", ["add", "sub"])
@pytest.mark.parametrize("suffix", ["N", "uN", "RN", "uRN"])
def test_normalized_sums_are_quotients_by_a_power_of_two(verb, suffix):
    sign = 1 if verb == "add" else -1
    immediate, register = RI5CY[f"p_{verb}{suffix}"], RI5CY[f"p_{verb}{suffix}r"]
    for rs1, rs2, Is3 in operands(immediate, 400):
        expected = normalized(rs1 + sign * rs2, Is3, "u" in suffix, "R" in suffix)
        assert u32(immediate.function(rs1, rs2, Is3)) == expected
        assert u32(register.function(rs1, rs2, -32 + Is3)) == expected


def normalized(total: int, shift: int, is_unsigned: bool, is_rounded: bool) -> int:
    """The total, plus half a unit, modulo 2^32; divided, downwards."""
    if is_rounded and shift:
        total += 2 ** (shift - 1)
    total %= 2**32
    if not is_unsigned and total >= 2**31:
        total -= 2**32
    return total // 2**shift % 2**32


@pytest.mark.parametrize("verb", ["mul", "mac"])
@pytest.mark.parametrize("half", ["", "hh"])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_half_word_products_are_normalized_like_sums(verb, half, sign):
    kind = np.uint16 if sign == "u" else np.int16
    for suffix in ("", "N", "RN"):
        insn = RI5CY[f"p_{verb}{half}{sign}{suffix}"]
        for arguments in operands(insn, 300):
            values = dict(zip(insn.reads, arguments, strict=True))
            a, b = (
                int(np.array([values[name]], dtype=np.int32).view(kind)[1 if half else 0])
                for name in ("rs1", "rs2")
            )
            total = a * b + values.get("rd", 0)
            expected = normalized(total, values.get("Is3", 0), sign == "u", suffix == "RN")
            assert u32(insn.function(*arguments)) == expected
