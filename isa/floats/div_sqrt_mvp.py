"""Division and square root as PULP's unit rounds them: few bits of the result, modes exchanged.

The unit finds a fixed number of result bits, 27 in FP32, 15 in FP16, 12 in bfloat16, and keeps no
trace of the remainder: what it rounds is cut off there. Its mode 2 rounds up and its mode 3 down,
where frm has them the other way round; 4 truncates; an overflow is infinite in every mode; what
rounds up to the smallest normal number loses its only bit.

Patterns and modes as in isa.floats.softfloat; flags are those that it defines.

Source: fpu_div_sqrt_mvp, control_mvp.sv (iterations), norm_div_sqrt_mvp.sv, defs_div_sqrt_mvp.sv;
held against operands executed on RTL.
"""

from isa.floats.format import (
    SPARE,
    is_infinite,
    is_nan,
    magnitude_of,
    sign_of,
    signed_zero,
    unpack,
)
from isa.floats.softfloat import divide, integer_root, square_root
from isa.words import jitable

NEAREST, UP, DOWN = 0, 2, 3
"""Modes of the unit; in others it truncates."""

MANTISSA = 52  # bits after the point of the unit's datapath, which serves binary64 too
SPARE_STICKY = 30  # of formats of 16 bits, bits below this are not looked at


@jitable
def result_bits(f):
    """Bits of the quotient or root that the unit finds: three in a cycle."""
    return (f.fraction + 6) // 3 * 3 if f.width == 32 else (f.fraction + 7) // 3 * 3


@jitable
def is_ordinary(f, a):
    """A number other than zero and infinity."""
    return not (is_nan(f, a) or is_infinite(f, a) or magnitude_of(f, a) == 0)


@jitable
def rounds_up_there(lowest, guard, rest, sign, rm):
    """Is the lowest kept bit increased? `guard` is the bit below it, `rest` what is below that."""
    if rm == NEAREST:
        return guard != 0 and (rest != 0 or lowest != 0)
    is_inexact = guard != 0 or rest != 0
    return is_inexact and (rm == UP and sign == 0 or rm == DOWN and sign == 1)


@jitable
def aligned(f, biased, result):
    """Exponent field, and 53 bits of significand, of a result of 57 bits; infinity as (top, 0)."""
    is_below_one = result >> MANTISSA + 4 == 0
    top = (1 << f.width - 1 - f.fraction) - 1
    if biased <= 0:
        return 0, result >> min(5 - biased, 62)
    if biased > top or (biased == top and not is_below_one):
        return top, 0
    if biased == 1 and is_below_one:
        return 0, result >> 4
    return (biased - 1, result >> 3) if is_below_one else (biased, result >> 4)


@jitable
def rounded_there(f, sign, exponent, significand, rm):
    """The pattern of an exponent field and 53 bits of significand."""
    cut = MANTISSA - f.fraction
    below = significand & (1 << cut) - 1
    if f.width < 32:
        below &= -1 << SPARE_STICKY
    kept = significand >> cut
    guard, rest = below >> cut - 1, below & (1 << cut - 1) - 1
    kept += int(rounds_up_there(kept & 1, guard, rest, sign, rm))
    if kept >> f.fraction + 1:
        kept >>= 1
        exponent += 1
    return signed_zero(f, sign) | exponent << f.fraction | kept & (1 << f.fraction) - 1


@jitable
def unit_result(f, sign, exponent, result, rm):
    """Round a result of result_bits(f), the first of which has the weight 2^exponent."""
    biased = exponent + 1 - f.emin
    whole = result << MANTISSA + 5 - result_bits(f)
    field, significand = aligned(f, biased, whole)
    return rounded_there(f, sign, field, significand, rm)


@jitable
def unit_divide(f, a, b, rm):
    """a / b."""
    pattern, flags = divide(f, a, b, rm)
    if not is_ordinary(f, a) or not is_ordinary(f, b):
        return pattern, flags
    sign = sign_of(f, a) ^ sign_of(f, b)
    _, a_exponent, a = unpack(f, a)
    _, b_exponent, b = unpack(f, b)
    quotient = ((a >> SPARE) << result_bits(f) - 1) // (b >> SPARE)
    return unit_result(f, sign, a_exponent - b_exponent, quotient, rm), flags


@jitable
def unit_square_root(f, a, rm):
    """The square root of a."""
    pattern, flags = square_root(f, a, rm)
    if not is_ordinary(f, a) or sign_of(f, a):
        return pattern, flags
    _, exponent, significand = unpack(f, a)
    root = integer_root(significand >> 1 - (exponent & 1))  # 31 bits
    return unit_result(f, 0, exponent >> 1, root >> 31 - result_bits(f), rm), flags
