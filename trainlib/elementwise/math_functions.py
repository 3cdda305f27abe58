"""Functions of every element: exp, log, erf, roots, negatives, angles, whole numbers.

Roots and quotients are the FPU's, rounded correctly. erf(x) = tanh(x P(x^2)), P a fit to
atanh(erf(x)) / x on [0, 3 sqrt(2)], beyond which erf is 1 to float32. log(1 + x) is the logarithm
of u, the rounded sum, and what u lacks of it, by 1 / u.
"""

from math import sqrt

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.approximations import Exp, Expm1, Log, Tanh
from trainlib.elementwise.elementwise import map_families
from trainlib.elementwise.polynomial import OfSquare
from trainlib.elementwise.trigonometric import arctangent, cosine, sine
from trainlib.reference import math_functions as reference

LOGIT = (
    *(1.59576929, 0.0726703107, -7.21724937e-05, -1.05811989e-04, 6.31477633e-06),
    *(2.49899585e-08, -2.50561083e-08, 1.52952684e-09, -4.09905061e-11, 4.25100249e-13),
)
"""Of log(Phi(x) / Phi(-x)) / x by powers of x^2 on [0, 6], with an error of 0.3 u of Phi."""
ERF = tuple(c * 2**n * sqrt(0.5) for n, c in enumerate(LOGIT))
ERF_IS_ONE = 18.0  # x^2
ALL_WHOLE = 2.0**23
"""Floats from it on have no fraction."""


def exp(k: Kernel) -> Body:
    """y = e^x."""
    function, zero = Exp(k), constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        t, p = v.f(), v.f()
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        function(v, x, t, p)
        return [p]

    return body


def log(k: Kernel) -> Body:
    """y = log(x): -infinity of 0, NaN of less."""
    function = Log(k)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        function(v, x)
        return [x]

    return body


def log1p(k: Kernel) -> Body:
    """y = log(1 + x), with all digits of a small x: -infinity of -1, NaN of less.

    1 / u is 2 - u where the rest counts, and the rest does not from u = 2 on.
    """
    function = Log(k)
    zero, one, two = function.zero, function.one, constant(k, 2.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        rest = v.f()
        with v.k.scope():
            u = v.f()
            v.fadd_s(u, x, one)
            v.fsub_s(rest, u, one)
            v.fsub_s(rest, x, rest)
            v.fmin_s(rest, rest, one)  # of infinity, NaN: times 0
            v.fadd_s(x, u, zero)
            v.fsub_s(u, two, u)
            v.fmax_s(u, u, zero)
            v.fmul_s(rest, rest, u)
        function(v, x)
        v.fadd_s(x, x, rest)
        return [x]

    return body


def expm1(k: Kernel) -> Body:
    """y = e^x - 1, with all digits of a small x."""
    function, zero = Expm1(k), constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        function(v, x, v.f(), v.f())
        return [x]

    return body


def nearest(k: Kernel) -> Body:
    """y = the whole number next to x, the even one of two."""
    whole = constant(k, ALL_WHOLE)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        y = v.f()
        _round(v, x, y, v.f(), whole)
        return [y]

    return body


def below(k: Kernel) -> Body:
    """y = the largest whole number that is not above x."""
    whole, one = constant(k, ALL_WHOLE), k.x()
    k.li(one, pattern(1.0))

    def body(v: Lanes, x: Lane) -> list[Lane]:
        y, t, is_above = v.f(), v.f(), v.x()
        _round(v, x, y, t, whole)
        v.flt_s(is_above, x, y)
        step = v.room(t)
        v.sub(step, ZERO, is_above)
        v.and_(step, step, one)
        v.floats(t, step)
        v.fsub_s(y, y, t)
        return [y]

    return body


def _round(v: Lanes, x: Lane, y: Lane, t: Lane, whole: Register) -> None:
    """y = x rounded; t changes. What is added to 2^23 has no fraction; more than that stays."""
    v.fsgnjx_s(y, x, x)
    v.fmin_s(y, y, whole)
    v.fadd_s(t, y, whole)
    v.fsub_s(t, t, whole)
    v.fsub_s(t, t, y)
    v.fsgnjx_s(y, x, x)
    v.fadd_s(y, y, t)
    v.fsgnj_s(y, y, x)


def erf(k: Kernel) -> Body:
    """y = erf(x)."""
    polynomial, tanh = OfSquare(k, ERF, ERF_IS_ONE), Tanh(k)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        a, b, c = v.f(), v.f(), v.f()
        polynomial.square(v, a, x, b)
        polynomial(v, c, a, b)
        v.fmul_s(x, x, c)
        tanh(v, x, a, b, c)
        return [x]

    return body


def square_root(_: Kernel) -> Body:
    """y = sqrt(x)."""

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fsqrt_s(x, x)
        return [x]

    return body


def inverse_root(k: Kernel) -> Body:
    """y = 1 / sqrt(x)."""
    one = constant(k, 1.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fsqrt_s(x, x)
        v.fdiv_s(x, one, x)
        return [x]

    return body


def reciprocal(k: Kernel) -> Body:
    """y = 1 / x."""
    one = constant(k, 1.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fdiv_s(x, one, x)
        return [x]

    return body


def negative(_: Kernel) -> Body:
    """y = -x."""

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fsgnjn_s(x, x, x)
        return [x]

    return body


MEANINGS = (
    ("exp", exp, reference.exp),
    ("log", log, reference.log),
    ("erf", erf, reference.erf),
    ("sqrt", square_root, reference.sqrt),
    ("rsqrt", inverse_root, reference.rsqrt),
    ("reciprocal", reciprocal, reference.reciprocal),
    ("neg", negative, reference.neg),
    ("sin", sine, reference.sin),
    ("cos", cosine, reference.cos),
    ("atan", arctangent, reference.atan),
    ("log1p", log1p, reference.log1p),
    ("expm1", expm1, reference.expm1),
    ("round", nearest, reference.nearest),
    ("floor", below, reference.below),
)
FAMILIES = tuple(
    family
    for name, operation, meaning in MEANINGS
    for family in map_families(name, operation, "x", "y", meaning)
)
