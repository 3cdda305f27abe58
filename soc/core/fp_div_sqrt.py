"""Cycles of floating-point division and square root, by their operands.

Sources: measured on RTL (rule M). The T-Head unit finds two bits of the result in a cycle and stops
when it is exact (pa_fdsu_ctrl.v, pa_fdsu_srt_single.v); it is for FP32 alone. PULP's div_sqrt_mvp
finds three bits in a cycle, a fixed number for each format, unless all operands are special
(control_mvp.sv); formats of 8 bits it computes as FP16.
"""

from soc.prelude.decoded import FORMAT, REPLICATED, VECTOR
from soc.prelude.step import step

THEAD_SPECIAL, THEAD_FAR, THEAD_START, THEAD_MOST = 3, 5, 4, 15
PULP_SPECIAL = 3
PULP_CYCLES = (12, 8, 7, 8)  # by format, see FLOAT_FORMATS of soc.prelude.decoded
WIDTHS = (32, 16, 16, 8)
INFINITIES = (0x7F800000, 0x7C00, 0x7F80, 0x7C)


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
def _is_special(word, form=0):
    """Zero, infinity or NaN?"""
    magnitude = word & (1 << WIDTHS[form] - 1) - 1
    return magnitude == 0 or magnitude >= INFINITIES[form]


@step
def _are_special(first, second, operands, is_root):
    """Are the operands of every lane special: one of a quotient, or a root's own or its sign?"""
    form = operands & FORMAT
    width = WIDTHS[form]
    lanes = 32 // width if operands & VECTOR else 1
    for lane in range(lanes):
        one = first >> lane * width
        other = second if operands & REPLICATED else second >> lane * width
        if _is_special(one, form):
            continue
        if is_root and one >> width - 1 & 1 == 0 or not is_root and not _is_special(other, form):
            return False
    return True


@step
def _pulp_cycles(first, second, operands, is_root, extra):
    """Cycles of PULP's unit; `extra` in RI5CY, which has one register more."""
    if _are_special(first, second, operands, is_root):
        return PULP_SPECIAL + extra
    return PULP_CYCLES[operands & FORMAT] + extra


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
    """Cycles for a result with that many bits after the point."""
    return THEAD_START + min(THEAD_MOST, 2 + (fraction_bits + 1) // 2)


@step
def fdiv_cycles(dividend, divisor, operands, thead, extra):
    """Cycles from the issue of a division to that of a dependent instruction.

    operands    their format and number, see soc.prelude.decoded
    extra       of the PULP unit: 1 in RI5CY, which has one register more
    """
    if not thead or operands:
        return _pulp_cycles(dividend, divisor, operands, False, extra)
    if _is_special(dividend) or _is_special(divisor):
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
def fdiv_is_late(dividend, divisor, operands, thead):
    """Does a division stay in EX for one more cycle?"""
    return thead and operands == 0 and _is_late(dividend, divisor)


@step
def fsqrt_cycles(operand, operands, thead, extra):
    """Cycles from the issue of a square root to that of a dependent instruction."""
    if not thead or operands:
        return _pulp_cycles(operand, 0, operands, True, extra)
    if _is_special(operand) or operand & 0x80000000 != 0:
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
