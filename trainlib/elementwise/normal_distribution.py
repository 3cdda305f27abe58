"""The normal distribution and the slope of the exact GELU, as polynomials.

Phi(x) and the slope of x Phi(x), Phi(x) + x phi(x), are 1/2 and an odd function: 1/2 + x P(x^2).
P's variable is taken from the middle of its range: s = x^2 - m, -m <= s <= m, in which its powers
do not cancel. The coefficients are this file's own fits, of least maximal error times x.
"""

from collections.abc import Sequence

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from trainlib.elementwise.polynomial import Stacked

PHI_MIDDLE = 14.58
PHI = (
    *(0.130928114, -0.00448066182, 0.000228151286, -1.26499563e-05, 7.10721793e-07),
    *(-3.9077797e-08, 2.04508566e-09, -9.96978611e-11, 4.72629358e-12, -2.25554208e-13),
    *(8.42901968e-15, -1.87457259e-16, 9.48167854e-18, -7.6436462e-19, 2.00276954e-20),
)
SLOPE_MIDDLE = 17.405
SLOPE_ENDS = 5.9050465  # a number near sqrt(2 SLOPE_MIDDLE) for which x P(s) is 1/2 in float32
SLOPE = (
    *(0.119911268, -0.00347407092, 0.000156078124, -8.37863354e-06, 5.14994554e-07),
    *(-3.3926252e-08, 2.21632579e-09, -1.39668485e-10, 8.34744773e-12, -4.2155274e-13),
    *(1.72572019e-14, -8.93595725e-16, 5.51169467e-17, -1.60229176e-18, -7.67449044e-21),
    *(-7.32880811e-22, 1.42742323e-22, -3.36214806e-24),
)


class _Odd:
    """1/2 + x P(s), for s up to the middle of x^2's range.

    coefficients    of P, lowest first
    held            how many of them, the lowest, have registers; the others lie on the stack
    """

    def __init__(self, k: Kernel, coefficients: Sequence[float], middle: float, held: int) -> None:
        self.half, self.middle = constant(k, 0.5), constant(k, middle)
        self.held = [constant(k, c) for c in reversed(coefficients[:held])]
        self.stacked = Stacked(k, coefficients[held:])

    def factor(self, v: Lanes, y: Lane, s: Lane, spare: Lane) -> None:
        """y = P(s); spare changes."""
        self.stacked(v, y, s, spare)
        for c in self.held:
            v.fmadd_s(y, y, s, c)


class Phi:
    """Phi(x): within 2.5 u of 1; 0 and 1 beyond its range."""

    def __init__(self, k: Kernel) -> None:
        self.odd = _Odd(k, PHI, PHI_MIDDLE, held=13)
        self.zero, self.one = constant(k, 0.0), constant(k, 1.0)

    def __call__(self, v: Lanes, y: Lane, x: Lane, s: Lane, spare: Lane) -> None:
        """y = Phi(x); s and spare change."""
        v.fmsub_s(s, x, x, self.odd.middle)
        v.fmin_s(s, s, self.odd.middle)
        self.odd.factor(v, y, s, spare)
        v.fmadd_s(y, x, y, self.odd.half)
        v.fmax_s(y, y, self.zero)
        v.fmin_s(y, y, self.one)


class Slope:
    """Phi(x) + x phi(x): within 5.9 u of 1; 0 and 1 beyond its range. NaN counts as the least x."""

    def __init__(self, k: Kernel) -> None:
        self.odd = _Odd(k, SLOPE, SLOPE_MIDDLE, held=12)
        self.most, self.least = constant(k, SLOPE_ENDS), constant(k, -SLOPE_ENDS)

    def __call__(self, v: Lanes, y: Lane, x: Lane, s: Lane, spare: Lane) -> None:
        """y = the slope; x is brought into the range, s and spare change."""
        v.fmax_s(x, x, self.least)
        v.fmin_s(x, x, self.most)
        v.fmsub_s(s, x, x, self.odd.middle)
        self.odd.factor(v, y, s, spare)
        v.fmul_s(y, x, y)  # and then rounded: at the ends 1/2 is added to 1/2, or to -1/2
        v.fadd_s(y, y, self.odd.half)
