"""Binary floating-point formats: patterns, unpacked values, their sums and products, rounding.

A pattern is an int of which the low `width` bits count, so that signed words need no masking.

An unpacked value is (sign, exponent, significand): (-1)^sign * significand / 2^TOP * 2^exponent.
The significand of a nonzero value lies in [2^TOP, 2^(TOP+1)); its lowest bit is sticky: it also
stands for everything below it. Zero has significand 0 and the exponent NOTHING, which is below that
of any other sum or product.

Flags are the bits of fflags, rounding modes the values of frm. Every intermediate result fits a
signed 64-bit integer.

Sources: IEEE 754-2019, sections 3.4, 4.3 and 7; RISC-V unprivileged manual, chapter "F Extension"
(rounding modes, flags, canonical NaN, tininess detected after rounding).
"""

from typing import NamedTuple

from isa.words import jitable

NX, UF, OF, DZ, NV = 1, 2, 4, 8, 16
RNE, RTZ, RDN, RUP, RMM = range(5)

TOP = 61
NOTHING = -10000
SPARE = TOP - 23  # low bits of an unpacked significand that are zero in every format


class Format(NamedTuple):
    """A binary interchange format."""

    width: int  # bits of a pattern
    fraction: int  # bits of the trailing significand field
    emin: int  # exponent of the smallest normal number
    infinity: int  # pattern of +infinity; larger magnitudes are NaNs
    nan: int  # pattern of the canonical NaN


def binary(exponent: int, fraction: int) -> Format:
    """Return the format with fields of these widths, laid out as IEEE 754 does."""
    infinity = ((1 << exponent) - 1) << fraction
    return Format(
        width=1 + exponent + fraction,
        fraction=fraction,
        emin=2 - (1 << exponent - 1),
        infinity=infinity,
        nan=infinity | 1 << fraction - 1,
    )


F32 = binary(8, 23)  # binary32
F16 = binary(5, 10)  # binary16
BF16 = binary(8, 7)  # bfloat16
F8 = binary(5, 2)  # 1-5-2


@jitable
def sign_of(f, a):
    """1 if the sign bit is set."""
    return a >> f.width - 1 & 1


@jitable
def magnitude_of(f, a):
    """The pattern without its sign."""
    return a & (1 << f.width - 1) - 1


@jitable
def signed_zero(f, sign):
    """Zero; OR it to a magnitude to give that its sign."""
    return sign << f.width - 1


@jitable
def negate(f, a):
    """Flip the sign bit, of NaNs too."""
    return a ^ 1 << f.width - 1


@jitable
def is_nan(f, a):
    return magnitude_of(f, a) > f.infinity


@jitable
def is_signaling(f, a):
    """A NaN with a clear quiet bit, the highest bit of its fraction."""
    return is_nan(f, a) and a >> f.fraction - 1 & 1 == 0


@jitable
def is_infinite(f, a):
    return magnitude_of(f, a) == f.infinity


@jitable
def shift_right_sticky(significand, distance):
    """Shift right by a distance of 0 or more; bits that fall out stick to the lowest bit."""
    if distance > TOP:
        return int(significand != 0)
    lost = significand & (1 << distance) - 1
    return significand >> distance | int(lost != 0)


def normalize(exponent, significand):
    """Bring the highest bit of a nonzero significand below 2^(TOP+1) to its place.

    NOTE: not @jitable: isa.floats.hostfloat gives this its compiled form, which counts leading
    zeros in one instruction.
    """
    for step in (32, 16, 8, 4, 2, 1):
        if significand >> TOP + 1 - step == 0:
            significand <<= step
            exponent -= step
    return exponent, significand


@jitable
def unpack(f, a):
    """Return sign, exponent and significand of a finite pattern."""
    magnitude = magnitude_of(f, a)
    biased = magnitude >> f.fraction
    significand = (magnitude & (1 << f.fraction) - 1) << TOP - f.fraction
    if biased != 0:
        return sign_of(f, a), biased - 1 + f.emin, significand | 1 << TOP
    if significand == 0:
        return sign_of(f, a), NOTHING, significand
    exponent, significand = normalize(f.emin, significand)
    return sign_of(f, a), exponent, significand


@jitable
def rounds_up(odd, rest, half, sign, rm):
    """Does rounding off a rest > 0 increase what is kept?

    odd     the lowest bit kept
    half    half of that bit's value, in units of the rest
    """
    if rm == RNE:
        return rest + odd > half
    if rm == RMM:
        return rest >= half
    if rm == RDN:
        return sign == 1
    if rm == RUP:
        return sign == 0
    return False


@jitable
def round_right(sign, significand, distance, rm):
    """Shift right by a distance of 1 or more, rounding; return what is kept, and NX if inexact."""
    if distance > TOP + 1:  # below half of the lowest bit kept
        significand, distance = int(significand != 0), TOP + 1
    kept = significand >> distance
    rest = significand & (1 << distance) - 1
    if rest == 0:
        return kept, 0
    return kept + int(rounds_up(kept & 1, rest, 1 << distance - 1, sign, rm)), NX


@jitable
def overflow(f, sign, rm):
    """The largest finite magnitude or infinity, whichever is the rounded one."""
    to_infinity = rm == RNE or rm == RMM or rm == (RDN if sign else RUP)
    return signed_zero(f, sign) | f.infinity - int(not to_infinity), OF | NX


@jitable
def is_tiny(f, sign, below, significand, rm):
    """Is a value that lies `below` binades under the normal ones tiny after rounding?

    That is: would it still be below them if it were rounded as if the exponent had no lower bound?
    """
    kept, _ = round_right(sign, significand, TOP - f.fraction, rm)
    return below > 1 or kept >> f.fraction + 1 == 0


@jitable
def round_pack(f, sign, exponent, significand, rm):
    """Return the pattern nearest to an unpacked nonzero value, and flags."""
    below = max(f.emin - exponent, 0)
    kept, flags = round_right(sign, significand, TOP - f.fraction + below, rm)
    magnitude = (
        max(exponent - f.emin, 0) << f.fraction
    ) + kept  # a carry out of the fraction raises the exponent
    if magnitude >= f.infinity:
        return overflow(f, sign, rm)
    if below > 0 and flags != 0 and is_tiny(f, sign, below, significand, rm):
        flags |= UF
    return signed_zero(f, sign) | magnitude, flags


@jitable
def round_sum(f, a_sign, a_exponent, a, b_sign, b_exponent, b, rm):
    """Round the sum of two unpacked values into format f.

    Neither has more than 48 significant bits (a product of binary32). So where bits fall out of the
    smaller one by alignment, at most one leading bit of the sum cancels, and the sticky bit stays
    far below the rounding position.
    """
    exponent = max(a_exponent, b_exponent)
    a = shift_right_sticky(a, exponent - a_exponent)
    b = shift_right_sticky(b, exponent - b_exponent)
    total = (-a if a_sign else a) + (-b if b_sign else b)
    if total == 0:
        return signed_zero(f, a_sign if a_sign == b_sign else int(rm == RDN)), 0
    exponent, magnitude = normalize(exponent + 1, shift_right_sticky(abs(total), 1))
    return round_pack(f, int(total < 0), exponent, magnitude, rm)


@jitable
def product(a_exponent, a, b_exponent, b):
    """Exponent and significand of the exact product of two unpacked magnitudes."""
    if a == 0 or b == 0:
        return NOTHING, 0
    significand = (a >> SPARE) * (b >> SPARE) << TOP - 47  # in [2^(TOP-1), 2^(TOP+1))
    return normalize(a_exponent + b_exponent + 1, significand)
