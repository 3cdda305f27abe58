"""Binary32 arithmetic of the compiled interpreter on the host's floating-point unit.

Where the host's result is provably the one that isa.floats.softfloat defines, it is taken;
elsewhere the definition is called. Nothing but a compiled interpreter needs this module.

Why it is right. The host rounds to nearest, ties to even, and honours subnormals, as Python leaves
it; compiled code must not ask for fastmath. A finite result with a biased exponent of 2 or more did
not overflow and is not tiny, also before rounding: its only possible flag is NX. An exact result
has no flag at all. Everything else is left to the definition: other rounding modes, NaNs,
overflows, and results that are rounded to subnormals or the binade above them.

NX, without asking the host for its flags. Binary64 has 53 bits and a wider exponent, so:

    product     of two binary32 numbers (24 bits each) is exact in binary64: compare the result.
    sum         r = p + w, rounded to binary32, is exact if and only if r - p == w and r - w == p in
                binary64. For the larger of p and w the difference is exact, as in Fast2Sum: it is a
                multiple of the last bit of either, and not much larger than the other; p may be
                such a product, of 48 bits. So that comparison tells; the other one does no harm.
    quotient    r = x / y is exact if and only if r * y, exact in binary64, is x.
    root        r is exact if and only if r * r, exact in binary64, is x.

Source: Muller et al., Handbook of Floating-Point Arithmetic, 2nd edition, section 4.3 (Fast2Sum).
"""

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from isa.compiled import NX_RAISED
from isa.floats import format as floatformat
from isa.floats import softfloat
from isa.floats.format import F32, RNE, TOP
from isa.floats.softfloat import (
    add,
    divide,
    from_integer,
    multiply,
    multiply_add,
    square_root,
    subtract,
)
from isa.jitable import compile_as
from isa.words import JITABLE

f64 = np.float64


@intrinsic
def as_float(typing, pattern):
    """The binary32 number of a pattern."""

    def emit(context, builder, signature, arguments):
        return builder.bitcast(builder.trunc(arguments[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), emit


@intrinsic
def as_pattern(typing, value):
    """The pattern of a binary32 number, unsigned."""

    def emit(context, builder, signature, arguments):
        return builder.zext(builder.bitcast(arguments[0], ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float32), emit


@intrinsic
def as_long_pattern(typing, value):
    """The pattern of a binary64 number."""

    def emit(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), emit


@intrinsic
def fused_multiply_add(typing, x, y, z):
    """x * y + z, rounded once; a host without the instruction gets libm's fmaf."""

    def emit(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), emit


@intrinsic
def quotient(typing, x, y):
    """x / y; unlike Numba's `/`, also by zero."""

    def emit(context, builder, signature, arguments):
        return builder.fdiv(*arguments)

    return types.float32(types.float32, types.float32), emit


@intrinsic
def root(typing, x):
    """The square root; unlike np.sqrt, by an instruction instead of libm."""

    def emit(context, builder, signature, arguments):
        return builder.call(
            builder.module.declare_intrinsic("llvm.sqrt", [ir.FloatType()]), arguments
        )

    return types.float32(types.float32), emit


@intrinsic
def leading_zeros(typing, value):
    """Zeros above the highest set bit of a nonzero 64-bit integer."""

    def emit(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), emit


def outside(pattern):
    """Negative unless the biased exponent is one of 2..254."""
    biased = pattern >> 23 & 0xFF
    return biased - 2 | 254 - biased


def is_settled(rm, pattern, error):
    """May the host's result be taken? Positive `error`: it is rounded; 0: it is exact.

    NOTE: bits instead of `and` and `or`, whose branches would be mispredicted wherever zeros come
    irregularly (7.7 ns instead of 2.8 ns a multiply-add).
    """
    return rm | (outside(pattern) & -error) >> 63 == RNE


def error_of_sum(result, p, w):
    """0 if result is p + w exactly; else positive."""
    r = f64(result)
    return as_long_pattern(abs(r - w - p)) | as_long_pattern(abs(r - p - w))


def error_of_product(result, product):
    """0 if result is the product exactly, an infinity included; else positive."""
    return int(f64(result) != product)


# What the host does not settle. Rare, and long: a compiler may keep it apart, see `register`.


def defined_add(a, b, rm):
    return add(F32, a, b, rm)


def defined_subtract(a, b, rm):
    return subtract(F32, a, b, rm)


def defined_multiply(a, b, rm):
    return multiply(F32, a, b, rm)


def defined_multiply_add(a, b, c, rm):
    return multiply_add(F32, a, b, c, rm)


def defined_divide(a, b, rm):
    return divide(F32, a, b, rm)


def defined_square_root(a, rm):
    return square_root(F32, a, rm)


def defined_from_integer(value, rm):
    return from_integer(F32, value, rm)


DEFINITIONS: tuple[Callable, ...] = (
    defined_add,
    defined_subtract,
    defined_multiply,
    defined_multiply_add,
    defined_divide,
    defined_square_root,
    defined_from_integer,
)
PARTS: tuple[Callable, ...] = (outside, is_settled, error_of_sum, error_of_product)


def fast_add(a, b, rm):
    x, y = as_float(a), as_float(b)
    result = x + y
    pattern = as_pattern(result)
    if rm == NX_RAISED and outside(pattern) >= 0:
        return pattern, 0
    error = error_of_sum(result, f64(x), f64(y))
    if is_settled(rm & 7, pattern, error):
        return pattern, int(error != 0)
    return defined_add(a, b, rm & 7)


def fast_subtract(a, b, rm):
    x, y = as_float(a), as_float(b)
    result = x - y
    pattern = as_pattern(result)
    if rm == NX_RAISED and outside(pattern) >= 0:
        return pattern, 0
    error = error_of_sum(result, f64(x), -f64(y))
    if is_settled(rm & 7, pattern, error):
        return pattern, int(error != 0)
    return defined_subtract(a, b, rm & 7)


def fast_multiply(a, b, rm):
    x, y = as_float(a), as_float(b)
    result = x * y
    pattern = as_pattern(result)
    if rm == NX_RAISED and outside(pattern) >= 0:
        return pattern, 0
    error = error_of_product(result, f64(x) * f64(y))
    if is_settled(rm & 7, pattern, error):
        return pattern, error
    return defined_multiply(a, b, rm & 7)


def fast_multiply_add(a, b, c, rm):
    x, y, z = as_float(a), as_float(b), as_float(c)
    result = fused_multiply_add(x, y, z)
    pattern = as_pattern(result)
    if rm == NX_RAISED and outside(pattern) >= 0:
        return pattern, 0
    error = error_of_sum(result, f64(x) * f64(y), f64(z))
    if is_settled(rm & 7, pattern, error):
        return pattern, int(error != 0)
    return defined_multiply_add(a, b, c, rm & 7)


def fast_divide(a, b, rm):
    x, y = as_float(a), as_float(b)
    result = quotient(x, y)
    pattern = as_pattern(result)
    if rm | outside(pattern) >> 63 == RNE:
        return pattern, int(f64(result) * f64(y) != f64(x))
    return defined_divide(a, b, rm)


def fast_square_root(a, rm):
    x = as_float(a)
    result = root(x)
    pattern = as_pattern(result)
    if rm | outside(pattern) >> 63 == RNE:
        return pattern, int(f64(result) * f64(result) != f64(x))
    return defined_square_root(a, rm)


def fast_from_integer(value, rm):
    result = np.float32(value)
    if rm == RNE:
        return as_pattern(result), int(f64(result) != f64(value))
    return defined_from_integer(value, rm)


def fast_normalize(exponent, significand):
    distance = leading_zeros(significand) - (63 - TOP)
    return exponent - distance, significand << distance


COMPILED: dict[Callable, Callable] = {
    softfloat.f32_add: fast_add,
    softfloat.f32_subtract: fast_subtract,
    softfloat.f32_multiply: fast_multiply,
    softfloat.f32_multiply_add: fast_multiply_add,
    softfloat.f32_divide: fast_divide,
    softfloat.f32_square_root: fast_square_root,
    softfloat.f32_from_integer: fast_from_integer,
    floatformat.normalize: fast_normalize,
}

_registered: set[Callable] = set()


def register(jit: Callable = njit) -> None:
    """Let compiled functions call what meanings call: JITABLE as written, COMPILED by these forms.

    To be called before compiling; again, if modules that add to JITABLE were imported since.
    NOTE: the parts that operations are made of are inlined: a third faster, no slower to compile.

    jit    compiles them
    """
    forms = {function: function for function in (*JITABLE, *PARTS, *DEFINITIONS)} | COMPILED
    for function in forms.keys() - _registered:
        is_part = function in PARTS or function.__module__ == floatformat.__name__
        compile_as(function, jit(forms[function], forceinline=is_part))
        _registered.add(function)
