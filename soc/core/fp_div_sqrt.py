"""Cycles of FP32 division and square root, by their operands.

Sources: measured on RTL (rule M). The T-Head unit finds two bits of the result in a cycle and stops
when it is exact (pa_fdsu_ctrl.v, pa_fdsu_srt_single.v); PULP's div_sqrt_mvp takes the same time for
all but special operands.
"""

from soc.step import step

THEAD_SPECIAL, THEAD_FAR, THEAD_START, THEAD_MOST = 3, 5, 4, 15
PULP_CYCLES, PULP_SPECIAL = 12, 3


@step
def _odd_part(value):
    while value & 1 == 0:
        value >>= 1
    return value


@step
def _bit_length(value):
    length = 0
    while value >> length:
        length += 1
    return length


@step
def _significand(word):
    """Integer significand of a finite number, not zero; subnormals as they are."""
    return word & 0x7FFFFF | (0x800000 if word >> 23 & 255 else 0)


@step
def _exponent(word):
    """Unbiased exponent of a finite number, not zero, normalised."""
    exponent = word >> 23 & 255
    if exponent:
        return exponent - 127
    return _bit_length(word & 0x7FFFFF) - 24 - 126


@step
def _is_special(word):
    """Zero, infinity or NaN?"""
    return word & 0x7FFFFFFF == 0 or word >> 23 & 255 == 255


@step
def _normalised(word):
    """Significand of a finite number, not zero: 24 bits."""
    significand = _significand(word)
    return significand << 24 - _bit_length(significand)


@step
def _is_late(dividend, divisor):
    """Is the divisor subnormal, so that it is normalised first?"""
    special = _is_special(dividend) or _is_special(divisor)
    return divisor >> 23 & 255 == 0 and not special


@step
def _thead(fraction_bits):
    """Cycles for a result with that many bits behind the point."""
    return THEAD_START + min(THEAD_MOST, 2 + (fraction_bits + 1) // 2)


@step
def fdiv_cycles(dividend, divisor, thead, extra):
    """Cycles from the issue of fdiv.s to that of a dependent instruction.

    extra    of the PULP unit: 1 in RI5CY, which has one register more
    """
    special = _is_special(dividend) or _is_special(divisor)
    if not thead:
        return (PULP_SPECIAL if special else PULP_CYCLES) + extra
    if special:
        return THEAD_SPECIAL
    late = 1 if _is_late(dividend, divisor) else 0
    difference = _exponent(dividend) - _exponent(divisor)
    if difference >= 129 or difference <= -151:
        return THEAD_FAR + late
    odd = _odd_part(_significand(divisor))
    quotient = _significand(dividend)
    if quotient % odd:
        return THEAD_START + THEAD_MOST + late
    below_one = 1 if _normalised(dividend) < _normalised(divisor) else 0
    return _thead(_bit_length(_odd_part(quotient // odd)) - 1 + below_one) + late


@step
def fdiv_is_late(dividend, divisor, thead):
    """Does fdiv.s stay in EX for one more cycle?"""
    return thead and _is_late(dividend, divisor)


@step
def fsqrt_cycles(operand, thead, extra):
    """Cycles from the issue of fsqrt.s to that of a dependent instruction."""
    special = _is_special(operand) or operand & 0x80000000 != 0
    if not thead:
        return (PULP_SPECIAL if special else PULP_CYCLES) + extra
    if special:
        return THEAD_SPECIAL
    significand = _significand(operand)
    odd = _odd_part(significand)
    shift = _bit_length(significand) - _bit_length(odd)
    if (_exponent(operand) - (_bit_length(significand) - 1) + shift) & 1:
        return THEAD_START + THEAD_MOST
    root = 1
    while (root + 1) * (root + 1) <= odd:
        root += 1
    if root * root != odd:
        return THEAD_START + THEAD_MOST
    return _thead(_bit_length(root) - 1)
