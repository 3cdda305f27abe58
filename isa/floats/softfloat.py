"""IEEE 754 arithmetic on bit patterns: the definition of every floating-point instruction.

Operations take formats (isa.floats.format), patterns and a rounding mode, and return a pattern or
value, and flags. NaN results are canonical, subnormals are honoured. The same source runs as Python
and, compiled, on 64-bit integers.

`f` is the format of the operands; operations that may change it take that of the result as `g`.

Sources: IEEE 754-2019, sections 5 to 9; RISC-V unprivileged manual, chapter "F Extension".
"""

from isa.floats.format import (
    DZ,
    F32,
    NV,
    SPARE,
    TOP,
    is_infinite,
    is_nan,
    is_signaling,
    magnitude_of,
    negate,
    normalize,
    product,
    round_pack,
    round_right,
    round_sum,
    sign_of,
    signed_zero,
    unpack,
)
from isa.words import jitable


@jitable
def nan(f, is_invalid):
    """The canonical NaN, with NV if the operation was invalid."""
    return f.nan, NV if is_invalid else 0


@jitable
def infinity(f, sign):
    return signed_zero(f, sign) | f.infinity, 0


# Sums and products


@jitable
def add(f, a, b, rm):
    """a + b."""
    if is_nan(f, a) or is_nan(f, b):
        return nan(f, is_signaling(f, a) or is_signaling(f, b))
    if is_infinite(f, a):
        if is_infinite(f, b) and sign_of(f, a) != sign_of(f, b):
            return nan(f, True)
        return infinity(f, sign_of(f, a))
    if is_infinite(f, b):
        return infinity(f, sign_of(f, b))
    a_sign, a_exponent, a = unpack(f, a)
    b_sign, b_exponent, b = unpack(f, b)
    return round_sum(f, a_sign, a_exponent, a, b_sign, b_exponent, b, rm)


@jitable
def subtract(f, a, b, rm):
    """a - b."""
    return add(f, a, negate(f, b), rm)


@jitable
def multiply_to(f, g, a, b, rm):
    """a * b, rounded once into format g."""
    if is_nan(f, a) or is_nan(f, b):
        return nan(g, is_signaling(f, a) or is_signaling(f, b))
    sign = sign_of(f, a) ^ sign_of(f, b)
    if is_infinite(f, a) or is_infinite(f, b):
        if magnitude_of(f, a) == 0 or magnitude_of(f, b) == 0:
            return nan(g, True)
        return infinity(g, sign)
    _, a_exponent, a = unpack(f, a)
    _, b_exponent, b = unpack(f, b)
    exponent, significand = product(a_exponent, a, b_exponent, b)
    if significand == 0:
        return signed_zero(g, sign), 0
    return round_pack(g, sign, exponent, significand, rm)


@jitable
def multiply(f, a, b, rm):
    """a * b."""
    return multiply_to(f, f, a, b, rm)


@jitable
def multiply_add_to(f, g, a, b, c, rm):
    """a * b + c, rounded once; c and the result have format g."""
    is_invalid = (is_infinite(f, a) and magnitude_of(f, b) == 0) or (
        is_infinite(f, b) and magnitude_of(f, a) == 0
    )
    if is_nan(f, a) or is_nan(f, b) or is_nan(g, c) or is_invalid:
        return nan(g, is_invalid or is_signaling(f, a) or is_signaling(f, b) or is_signaling(g, c))
    sign = sign_of(f, a) ^ sign_of(f, b)
    if is_infinite(f, a) or is_infinite(f, b):
        if is_infinite(g, c) and sign_of(g, c) != sign:
            return nan(g, True)
        return infinity(g, sign)
    if is_infinite(g, c):
        return infinity(g, sign_of(g, c))
    _, a_exponent, a = unpack(f, a)
    _, b_exponent, b = unpack(f, b)
    c_sign, c_exponent, c = unpack(g, c)
    exponent, significand = product(a_exponent, a, b_exponent, b)
    return round_sum(g, sign, exponent, significand, c_sign, c_exponent, c, rm)


@jitable
def multiply_add(f, a, b, c, rm):
    """a * b + c, rounded once."""
    return multiply_add_to(f, f, a, b, c, rm)


# Division and square root


@jitable
def divide(f, a, b, rm):
    """a / b."""
    if is_nan(f, a) or is_nan(f, b):
        return nan(f, is_signaling(f, a) or is_signaling(f, b))
    sign = sign_of(f, a) ^ sign_of(f, b)
    if is_infinite(f, a):
        return nan(f, True) if is_infinite(f, b) else infinity(f, sign)
    if magnitude_of(f, b) == 0:
        return nan(f, True) if magnitude_of(f, a) == 0 else (infinity(f, sign)[0], DZ)
    if magnitude_of(f, a) == 0 or is_infinite(f, b):
        return signed_zero(f, sign), 0
    _, a_exponent, a = unpack(f, a)
    _, b_exponent, b = unpack(f, b)
    return round_quotient(f, sign, a_exponent - b_exponent, a >> SPARE, b >> SPARE, rm)


@jitable
def round_quotient(f, sign, exponent, a, b, rm):
    """Round a / b * 2^exponent for 24-bit integers a and b: 38 bits of quotient, and sticky."""
    quotient = (a << 38) // b
    sticky = int(quotient * b != a << 38)
    exponent, significand = normalize(exponent, (quotient << TOP - 38) | sticky)
    return round_pack(f, sign, exponent, significand, rm)


@jitable
def integer_root(n):
    """The largest integer whose square is at most n, for n below 2^62."""
    root = 0
    bit = 1 << 30
    while bit != 0:
        if (root | bit) * (root | bit) <= n:
            root |= bit
        bit >>= 1
    return root


@jitable
def square_root(f, a, rm):
    """The square root of a."""
    if is_nan(f, a):
        return nan(f, is_signaling(f, a))
    if magnitude_of(f, a) == 0:
        return signed_zero(f, sign_of(f, a)), 0
    if sign_of(f, a):
        return nan(f, True)
    if is_infinite(f, a):
        return infinity(f, 0)
    _, exponent, significand = unpack(f, a)
    square = significand >> 1 - (
        exponent & 1
    )  # in [2^60, 2^62): an even power of two is left for the exponent
    root = integer_root(square)
    sticky = int(root * root != square)
    return round_pack(f, 0, exponent >> 1, (root << TOP - 30) | sticky, rm)


# Comparison


@jitable
def ordinal(f, a):
    """An integer that orders as the number does; -0 equals +0."""
    return -magnitude_of(f, a) if sign_of(f, a) else magnitude_of(f, a)


@jitable
def equal(f, a, b):
    """a == b, quiet."""
    if is_nan(f, a) or is_nan(f, b):
        return 0, NV if is_signaling(f, a) or is_signaling(f, b) else 0
    return int(ordinal(f, a) == ordinal(f, b)), 0


@jitable
def less(f, a, b):
    """a < b, signaling: any NaN is invalid."""
    if is_nan(f, a) or is_nan(f, b):
        return 0, NV
    return int(ordinal(f, a) < ordinal(f, b)), 0


@jitable
def less_equal(f, a, b):
    """a <= b, signaling: any NaN is invalid."""
    if is_nan(f, a) or is_nan(f, b):
        return 0, NV
    return int(ordinal(f, a) <= ordinal(f, b)), 0


@jitable
def select_number(f, a, b, a_is_chosen):
    """a or b, whichever is chosen; a NaN loses against a number."""
    flags = NV if is_signaling(f, a) or is_signaling(f, b) else 0
    if is_nan(f, a) and is_nan(f, b):
        return f.nan, flags
    chosen = a if is_nan(f, b) or (a_is_chosen and not is_nan(f, a)) else b
    return signed_zero(f, sign_of(f, chosen)) | magnitude_of(f, chosen), flags


@jitable
def minimum(f, a, b):
    """minimumNumber: -0 is less than +0."""
    lower = ordinal(f, a) - sign_of(f, a) < ordinal(f, b) - sign_of(f, b)
    return select_number(f, a, b, lower)


@jitable
def maximum(f, a, b):
    """maximumNumber: -0 is less than +0."""
    higher = ordinal(f, a) - sign_of(f, a) > ordinal(f, b) - sign_of(f, b)
    return select_number(f, a, b, higher)


# Signs and classes


@jitable
def copy_sign(f, a, b):
    """The magnitude of a with the sign of b; a pattern alone, as no flag can be raised."""
    return magnitude_of(f, a) | signed_zero(f, sign_of(f, b))


@jitable
def classify(f, a):
    """The class as fclass gives it, one bit set.

    0 -infinity, 1 -normal, 2 -subnormal, 3 -0, 4 +0, 5 +subnormal, 6 +normal, 7 +infinity,
    8 signaling NaN, 9 quiet NaN
    """
    magnitude = magnitude_of(f, a)
    if magnitude > f.infinity:
        return 1 << 8 if is_signaling(f, a) else 1 << 9
    kind = 3 - int(magnitude > 0) - int(magnitude >> f.fraction > 0) - int(magnitude == f.infinity)
    return 1 << kind if sign_of(f, a) else 1 << 7 - kind


# Conversions


@jitable
def convert(f, g, a, rm):
    """a in format g."""
    if is_nan(f, a):
        return nan(g, is_signaling(f, a))
    if is_infinite(f, a):
        return infinity(g, sign_of(f, a))
    sign, exponent, significand = unpack(f, a)
    if significand == 0:
        return signed_zero(g, sign), 0
    return round_pack(g, sign, exponent, significand, rm)


@jitable
def from_integer(f, value, rm):
    """An integer of at most 61 bits in format f."""
    if value == 0:
        return 0, 0
    exponent, significand = normalize(TOP, abs(value))
    return round_pack(f, int(value < 0), exponent, significand, rm)


@jitable
def to_integer(f, a, lowest, highest, rm):
    """a as an integer in lowest..highest, a range of at most 32 bits.

    What lies outside after rounding gives the nearer bound, a NaN the highest; both NV alone.
    """
    if is_nan(f, a):
        return highest, NV
    sign, exponent, significand = unpack(f, a)
    if is_infinite(f, a) or exponent > 32:
        return lowest if sign else highest, NV
    magnitude, flags = round_right(sign, significand, TOP - exponent, rm)
    value = -magnitude if sign else magnitude
    if value < lowest:
        return lowest, NV
    if value > highest:
        return highest, NV
    return value, flags


# Binary32 by name; the mode of sums and products may come with isa.compiled.NX_RAISED. NOTE: not
# @jitable: isa.floats.hostfloat gives these their compiled form, on the host's floating-point unit.


def f32_add(a, b, rm):
    return add(F32, a, b, rm & 7)


def f32_subtract(a, b, rm):
    return subtract(F32, a, b, rm & 7)


def f32_multiply(a, b, rm):
    return multiply(F32, a, b, rm & 7)


def f32_multiply_add(a, b, c, rm):
    return multiply_add(F32, a, b, c, rm & 7)


def f32_divide(a, b, rm):
    return divide(F32, a, b, rm)


def f32_square_root(a, rm):
    return square_root(F32, a, rm)


def f32_from_integer(value, rm):
    return from_integer(F32, value, rm)
