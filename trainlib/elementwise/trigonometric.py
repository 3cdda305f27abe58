"""Sine, cosine and arctangent of every element, angles in radians.

x = n pi + r with r in [-pi/2, pi/2], sin(x) = (-1)^n sin(r); for the cosine n is a half more than
an integer, cos(x) = -(-1)^(n - 1/2) sin(r). pi comes in three parts, each as long as a float, and
n pi is taken off by fused multiply-adds: the first difference is exact, others are rounded once.
n is found from a rounded x / pi, and so r may be larger than pi / 2, up to MOST by less than SLACK.

The arctangent is z P(z^2) of z = |x|, or pi / 2 less that of 1 / |x| where it is above 1.

Source: W. Cody, W. Waite, Software Manual for the Elementary Functions, chapter 8 (reduction). The
coefficients are this file's own fits, within 0.6 u of sin(r), and 0.1 u of the arctangent.
"""

from math import atan, pi, sin, sqrt

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.approximations import ROUNDS
from trainlib.elementwise.polynomial import Stacked, horner, near_minimax
from trainlib.reference.math_functions import TURNS_MOST as MOST

PI = 3.1415927410125732, -8.742277657347586e-08, -3.430244902482478e-15
"""Floats that add up to pi, within 2^-71."""


def _rest(square: float) -> float:
    """(sin(r) / r - 1) / r^2, without cancellation."""
    if square < 0.01:
        return -1 / 6 + square / 120 - square**2 / 5040
    return (sin(sqrt(square)) / sqrt(square) - 1) / square


SLACK = 0.02
SINE = near_minimax(_rest, 3, 0.0, (pi / 2 + SLACK) ** 2)


def _angle_share(square: float) -> float:
    """atan(z) / z."""
    z = sqrt(max(square, 0.0))
    return atan(z) / z if z else 1.0


ANGLE = near_minimax(_angle_share, 11, 0.0, 1.0)


def sine(k: Kernel) -> Body:
    """y = sin(x), NaN beyond MOST."""
    return _wave(k, is_cosine=False)


def cosine(k: Kernel) -> Body:
    """y = cos(x), NaN beyond MOST."""
    return _wave(k, is_cosine=True)


def _wave(k: Kernel, *, is_cosine: bool) -> Body:
    turns, rounds = constant(k, 1 / pi), constant(k, ROUNDS + is_cosine)
    half = constant(k, 0.5) if is_cosine else rounds
    parts, terms = [constant(k, part) for part in PI], [constant(k, c) for c in reversed(SINE)]
    most = k.x()
    k.li(most, 2 * pattern(MOST) + 1)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        t, n, is_near = v.f(), v.f(), v.x()
        v.slli(is_near, v.words(x), 1)
        v.sltu(is_near, is_near, most)
        v.addi(is_near, is_near, -1)
        if is_cosine:
            v.fmsub_s(t, x, turns, half)
            v.fadd_s(t, t, rounds)
        else:
            v.fmadd_s(t, x, turns, rounds)
        v.fsub_s(n, t, rounds)
        if is_cosine:
            v.fadd_s(n, n, half)
        for part in parts:
            v.fnmsub_s(x, n, part, x)
        sign, words = v.words(t), v.words(x)
        v.slli(sign, sign, 31)  # is n odd? For the cosine, one more has been added to it
        v.xor(words, words, sign)
        v.floats(x, words)
        v.fmul_s(n, x, x)
        horner(v, t, n, terms)
        v.fmul_s(t, t, n)
        v.fmadd_s(x, t, x, x)
        words = v.words(x)
        v.or_(words, words, is_near)
        v.floats(x, words)
        return [x]

    return body


def arctangent(k: Kernel) -> Body:
    """y = atan(x), from -pi/2 to pi/2."""
    one, share, quarter = constant(k, 1.0), Stacked(k, ANGLE), k.x()
    k.li(quarter, pattern(pi / 2))

    def body(v: Lanes, x: Lane) -> list[Lane]:
        z, y, square, is_above = v.f(), v.f(), v.f(), v.x()
        v.fsgnjx_s(z, x, x)
        v.flt_s(is_above, one, z)
        v.fdiv_s(y, one, z)
        v.fmin_s(z, z, y)
        v.fmul_s(square, z, z)
        with v.k.scope():
            share(v, y, square, v.f())
        v.fmul_s(y, y, z)
        words, room = v.words(y), v.room(square)
        v.slli(room, is_above, 31)
        v.xor(words, words, room)
        v.floats(y, words)
        v.sub(room, ZERO, is_above)
        v.and_(room, room, quarter)
        v.floats(square, room)
        v.fadd_s(y, y, square)
        v.fsgnj_s(y, y, x)
        return [y]

    return body
