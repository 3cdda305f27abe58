"""Functions of every element: exp, log, erf, roots, reciprocals, negatives, sine and cosine.

Roots and quotients are the FPU's, rounded correctly. erf(x) = tanh(x P(x^2)), P a fit to
atanh(erf(x)) / x on [0, 3 sqrt(2)], beyond which erf is 1 to float32.
"""

from math import sqrt

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.approximations import Exp, Log, Tanh
from trainlib.elementwise.elementwise import map_families
from trainlib.elementwise.polynomial import OfSquare
from trainlib.elementwise.trigonometric import cosine, sine
from trainlib.reference import math_functions as reference

LOGIT = (
    *(1.59576929, 0.0726703107, -7.21724937e-05, -1.05811989e-04, 6.31477633e-06),
    *(2.49899585e-08, -2.50561083e-08, 1.52952684e-09, -4.09905061e-11, 4.25100249e-13),
)
"""Of log(Phi(x) / Phi(-x)) / x by powers of x^2 on [0, 6], with an error of 0.3 u of Phi."""
ERF = tuple(c * 2**n * sqrt(0.5) for n, c in enumerate(LOGIT))
ERF_IS_ONE = 18.0  # x^2


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
)
FAMILIES = tuple(
    family
    for name, operation, meaning in MEANINGS
    for family in map_families(name, operation, "x", "y", meaning)
)
