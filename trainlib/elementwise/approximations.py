"""Elementary functions of float32 as code without branches.

Each is an object that takes registers for its constants, and emits itself for several lanes.
Errors are in units u = 2^-24 of the result (an ulp is 1 u to 2 u) unless said otherwise. NaN gives
NaN and infinity the limit.

    e^x        x = n ln 2 + r, e^x = 2^n e^r; adding 1.5 * 2^23 leaves n in the low bits of a float
    1 / d      d in [1, 2]: a quadratic within 1/99, then two steps of Newton's; of n / d, the
               second step corrects the quotient by what it leaves of n
    log(x)     x = 2^n m, m in [sqrt(1/2), sqrt(2)]: n ln 2 + log(m)

Source: W. Cody, W. Waite, Software Manual for the Elementary Functions, chapters 5 and 6 (reduction
with ln 2 in two parts). The coefficients are this file's own fits.
"""

from math import expm1, factorial, log, log1p

import numpy as np

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.elementwise.polynomial import Stacked, horner, near_minimax

LN2 = log(2)
LN2_HIGH = 0.693359375  # 9 bits: its products with n are exact
ROUNDS = 1.5 * 2**23  # a float below 2^22 plus this is an integer, in the low bits
BIAS = 127
MINUS_ONE = -30.0  # e^x - 1 is -1 to float32
VANISHES = -88.0  # e^x is below 2^-126, the smallest normal number: 0 here
OVERFLOWS = 89.0  # e^x is above 2^128


def _exp_rest(r: float) -> float:
    """(e^r - 1 - r) / r^2, without cancellation."""
    if abs(r) < 0.1:
        return sum(r**n / factorial(n + 2) for n in range(10))
    return (expm1(r) - r) / r**2


def _log_rest(f: float) -> float:
    """(log(1 + f) - f + f^2 / 2) / f^3, without cancellation."""
    if abs(f) < 0.05:
        return sum((-f) ** n / (n + 3) for n in range(14))
    return (log1p(f) - f + f * f / 2) / f**3


EXP = near_minimax(_exp_rest, 4, -LN2 / 2, LN2 / 2)
LOG = near_minimax(_log_rest, 7, 0.5**0.5 - 1, 2**0.5 - 1)
SEED = (70 / 33, -16 / 11, 32 / 99)  # 1 - d seed(d) = T3(2 d - 3) / T3(-3), T3 Chebyshev's


class Reduced:
    """The reduction that all powers of e share, for e^(s x).

    least    the least s x that e^ is not 0 for; where s is negative, x is at most least / s
    """

    def __init__(self, k: Kernel, one: Register, scale: float, bias: int, least: float) -> None:
        self.one, self.scale = one, one if scale == 1 else constant(k, scale)
        self.least = k.x()
        k.li(self.least, pattern(least / scale))
        self.turns = constant(k, scale / LN2)
        self.rounds = constant(k, ROUNDS + bias)
        self.high = constant(k, LN2_HIGH / scale)
        self.low = constant(k, (LN2 - LN2_HIGH) / scale)

    def limit(self, v: Lanes, x: Lane) -> None:
        """Keep a negative x from falling below the least; no other changes."""
        words = v.words(x)
        v.pulp("minu", rd=words, rs1=words, rs2=self.least)
        v.floats(x, words)

    def split(self, v: Lanes, x: Lane, t: Lane, p: Lane, within: Lane | None = None) -> None:
        """t = 2^n (times 2^-127, times the bias's power); x = x - n ln 2 / s. p changes.

        within    x as n is taken from, if not x itself
        """
        v.fmadd_s(t, within or x, self.turns, self.rounds)
        v.fsub_s(p, t, self.rounds)
        v.fnmsub_s(x, p, self.high, x)
        v.fnmsub_s(x, p, self.low, x)
        words = v.words(t)
        v.slli(words, words, 23)
        v.floats(t, words)


class ExpOfNegative(Reduced):
    """e^(s x) and e^(s x) - 1 for s x <= 0, s positive: 2 u; below 2^-126: 0.

    No NaN comes in with a sign: arithmetic and fmin never give one.

    is_thrifty    with fewer registers and more loads; s is 1, and only exp can be had
    """

    def __init__(
        self, k: Kernel, one: Register, scale: float = 1.0, *, is_thrifty: bool = False
    ) -> None:
        super().__init__(k, one, scale, BIAS, VANISHES)
        self.stacked = Stacked(k, (1.0, 1.0, *EXP)) if is_thrifty else None
        powers = [] if is_thrifty else reversed(range(len(EXP)))
        self.rest = [constant(k, EXP[n] * scale ** (n + 2)) for n in powers]

    def exp(self, v: Lanes, x: Lane, t: Lane, p: Lane) -> None:
        """p = e^(s x); x is lost, t changes."""
        self.limit(v, x)
        self.split(v, x, t, p)
        if self.stacked:
            with v.k.scope():
                self.stacked(v, p, x, v.f())
        else:
            horner(v, p, x, [*self.rest, self.scale, self.one])
        v.fmul_s(p, p, t)

    def expm1(self, v: Lanes, x: Lane, t: Lane, p: Lane) -> None:
        """p = e^(s x) - 1; x is lost, t changes."""
        self.limit(v, x)
        self.split(v, x, t, p)
        horner(v, p, x, [*self.rest, self.scale])
        v.fmul_s(p, p, x)
        v.fsub_s(x, t, self.one)
        v.fmadd_s(p, p, t, x)


class Exp(Reduced):
    """e^x: 2 u; below 2^-125: 0 or within 2^-125."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k, constant(k, 2.0), 1.0, BIAS - 1, VANISHES + LN2)
        self.scale = self.one
        self.rest = [constant(k, 2 * EXP[n]) for n in reversed(range(len(EXP)))]
        self.most = k.x()
        k.li(self.most, pattern(OVERFLOWS))

    def __call__(self, v: Lanes, x: Lane, t: Lane, p: Lane) -> None:
        """p = e^x; x is lost, t changes. Twice the polynomial, half the power: 2^128 has no float.

        The power stops at 2^128, while what is left of the exponent goes on and overflows.
        """
        self.limit(v, x)
        words, limited = v.words(x), v.room(t)
        v.pulp("min", rd=limited, rs1=words, rs2=self.most)
        v.floats(t, limited)
        self.split(v, x, t, p, within=t)
        horner(v, p, x, [*self.rest, self.scale, self.one])
        v.fmul_s(p, p, t)


class Expm1(Reduced):
    """e^x - 1: 3 u; below -30: -1."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k, constant(k, 1.0), 1.0, BIAS - 1, MINUS_ONE)
        self.half, self.two = constant(k, 0.5), constant(k, 2.0)
        self.rest = Stacked(k, (1.0, *EXP))
        self.most = k.x()
        k.li(self.most, pattern(OVERFLOWS))

    def __call__(self, v: Lanes, x: Lane, t: Lane, p: Lane) -> None:
        """x = e^x - 1; t and p change. Half of it is 2^(n - 1) (e^r - 1) + (2^(n - 1) - 1/2)."""
        self.limit(v, x)
        words, limited = v.words(x), v.room(t)
        v.pulp("min", rd=limited, rs1=words, rs2=self.most)
        v.floats(t, limited)
        self.split(v, x, t, p, within=t)
        with v.k.scope():
            self.rest(v, p, x, v.f())
        v.fmul_s(p, p, x)
        v.fsub_s(x, t, self.half)
        v.fmadd_s(p, p, t, x)
        v.fmul_s(x, p, self.two)


class Reciprocal:
    """1 / d for d in [1, 2]: 2 u; n / d: 1.2 u."""

    def __init__(self, k: Kernel, one: Register, seed: Stacked | None = None) -> None:
        self.one, self.stacked = one, seed
        self.seed = [] if seed else [constant(k, c) for c in reversed(SEED)]

    def __call__(self, v: Lanes, r: Lane, d: Lane, t: Lane) -> None:
        """r = 1 / d; t changes."""
        self._start(v, r, d, t)
        self._newton(v, r, d, t)

    def divide(self, v: Lanes, n: Lane, d: Lane, r: Lane, t: Lane) -> None:
        """n = n / d; r and t change. Zeros keep their signs."""
        self._start(v, r, d, t)
        v.fmul_s(t, n, r)
        v.fmsub_s(n, t, d, n)
        v.fnmsub_s(n, n, r, t)

    def _start(self, v: Lanes, r: Lane, d: Lane, t: Lane) -> None:
        """r = 1 / d within 1/9801; t changes."""
        if self.stacked:
            self.stacked(v, r, d, t)
        else:
            horner(v, r, d, self.seed)
        self._newton(v, r, d, t)

    def _newton(self, v: Lanes, r: Lane, d: Lane, t: Lane) -> None:
        """r = the square of its relative error nearer to 1 / d; t changes."""
        v.fnmsub_s(t, d, r, self.one)
        v.fmadd_s(r, r, t, r)


class Sigmoid:
    """1 / (1 + e^-x): 3 u, with its slope 4 u; below 2^-126: 0.

    seed    SEED on the stack, where registers are short
    """

    def __init__(self, k: Kernel, seed: Stacked | None = None) -> None:
        self.one = constant(k, 1.0)
        self.exp = ExpOfNegative(k, self.one)
        self.reciprocal = Reciprocal(k, self.one, seed)
        self.huge = constant(k, 2.0**127)

    def __call__(self, v: Lanes, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """x = S(x) = 1 / (1 + e^-x); the others change.

        With e = e^-|x|, it is 1 / (1 + e), or e / (1 + e) for a negative x.
        """
        self._exp_and_sum(v, x, a, b, c)
        self.reciprocal.divide(v, x, b, a, c)

    def with_slope(self, v: Lanes, x: Lane, a: Lane, b: Lane, c: Lane, d: Lane) -> None:
        """x = S(x), c = S(x) (1 - S(x)), which is e / (1 + e)^2; the others change."""
        self._exp_and_sum(v, x, a, b, c)
        self.reciprocal(v, a, b, d)
        v.fmul_s(c, c, a)
        v.fmul_s(x, x, a)
        v.fmul_s(c, c, a)

    def _exp_and_sum(self, v: Lanes, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """c = e, b = 1 + e, x = 1 or e where it is negative."""
        v.fsgnjn_s(b, x, x)
        v.fmin_s(a, x, b)
        v.fmul_s(x, x, self.huge)
        self.exp.exp(v, a, b, c)
        v.fmin_s(x, x, self.one)
        v.fadd_s(b, c, self.one)
        v.fmax_s(x, x, c)


class Tanh:
    """(1 - e^-2x) / (1 + e^-2x): 4 u."""

    def __init__(self, k: Kernel) -> None:
        self.one = constant(k, 1.0)
        self.two = constant(k, 2.0)
        self.exp = ExpOfNegative(k, self.one, 2.0)
        self.reciprocal = Reciprocal(k, self.one)

    def __call__(self, v: Lanes, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """x = tanh(x); the others change. With e = e^-2|x| - 1, it is -e / (2 + e), signed as x."""
        v.fsgnjn_s(b, x, x)
        v.fmin_s(a, x, b)
        self.exp.expm1(v, a, b, c)
        v.fadd_s(b, c, self.two)
        v.fsgnj_s(x, c, x)
        self.reciprocal.divide(v, x, b, a, c)


class Log:
    """log(x): 2 u; 0 gives -infinity, less gives NaN."""

    TINY = 2.0**-126
    SHIFT = 23  # numbers below the normal ones are multiplied by 2^23 first

    def __init__(self, k: Kernel) -> None:
        self.zero, self.tiny = constant(k, 0.0), constant(k, self.TINY)
        self.one = constant(k, 1.0)
        self.high, self.low = constant(k, LN2_HIGH), constant(k, LN2 - LN2_HIGH)
        self.rest = Stacked(k, (-0.5, *LOG))
        self.largest = constant(k, float(np.finfo(np.float32).max))
        self.shift, self.half_root = k.x(2)
        k.li(self.shift, self.SHIFT)
        k.li(self.half_root, pattern(0.5**0.5))

    def __call__(self, v: Lanes, x: Lane) -> None:
        """x = log(x)."""
        with v.k.scope():
            special, m, p, n, t = v.f(), v.f(), v.f(), v.x(), v.x()
            v.fadd_s(x, x, self.zero)  # a NaN loses its sign
            self._find_special(v, x, special, t)
            self._split(v, x, m, n, t)
            v.fsub_s(m, m, self.one)
            self.rest(v, p, m, x)  # log(1 + m) = m + m^2 p
            v.fmul_s(p, p, m)
            v.fmul_s(p, p, m)
            v.fcvt_s_w(x, n)
            v.fmadd_s(p, x, self.low, p)
            v.fadd_s(p, p, m)
            v.fmadd_s(p, x, self.high, p)
            v.fadd_s(x, p, special)

    def _find_special(self, v: Lanes, x: Lane, special: Lane, t: Lane) -> None:
        """special = what an ordinary log is turned by addition into the right one with: mostly 0.

        -infinity for 0, NaN for negative numbers and NaN, infinity for infinity.
        """
        words, room = v.words(x), v.room(special)
        largest = v.words([self.largest] * v.width)
        v.pulp("max", rd=room, rs1=words, rs2=largest)
        v.floats(special, room)
        v.fsub_s(special, special, self.largest)
        words = v.words(special)
        v.feq_s(t, x, self.zero)
        v.slli(t, t, 31)
        v.srai(t, t, 8)  # the pattern of -infinity, or 0
        v.or_(words, words, t)
        v.flt_s(t, x, self.zero)
        v.sub(t, ZERO, t)
        v.or_(words, words, t)
        v.floats(special, words)

    def _split(self, v: Lanes, x: Lane, m: Lane, n: Lane, t: Lane) -> None:
        """x = 2^n m, for finite numbers; x changes."""
        v.flt_s(t, x, self.tiny)
        v.mul(t, t, self.shift)
        room = v.room(m)
        v.addi(room, t, BIAS)
        v.slli(room, room, self.SHIFT)
        v.floats(m, room)
        v.fmul_s(x, x, m)
        words = v.words(x)
        v.sub(n, words, self.half_root)
        v.srai(n, n, self.SHIFT)
        v.slli(room, n, self.SHIFT)
        v.sub(room, words, room)
        v.floats(m, room)
        v.sub(n, n, t)
