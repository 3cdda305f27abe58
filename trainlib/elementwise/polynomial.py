"""Polynomials as code: their coefficients, in registers or on a core's stack."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from firmware.builder import Kernel, Register
from firmware.forms import WORD
from firmware.lanes import Lane, Lanes, pattern
from firmware.registers import SP


def near_minimax(
    function: Callable[[float], float], degree: int, low: float, high: float
) -> list[float]:
    """Coefficients, lowest first, of the polynomial through a function at Chebyshev's points."""
    fit = Chebyshev.interpolate(np.vectorize(function), degree, [low, high])
    return [float(c) for c in fit.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef]


def horner(v: Lanes, p: Lane, x: Lane, coefficients: Sequence[Register]) -> None:
    """p = the polynomial of x, given its coefficients from the highest on, at least two."""
    v.fmadd_s(p, x, coefficients[0], coefficients[1])
    for c in coefficients[2:]:
        v.fmadd_s(p, p, x, c)


class Stacked:
    """A polynomial whose coefficients lie on the core's stack, for want of registers.

    They are below the stack pointer: nothing interrupts a core, and no function is called.

    coefficients    lowest first, at least two
    below           bytes below the stack pointer that are others'
    """

    def __init__(self, k: Kernel, coefficients: Sequence[float], below: int = 0) -> None:
        self.depth = below + WORD * len(coefficients)
        self.offsets = [WORD * index - self.depth for index in range(len(coefficients))]
        with k.scope():
            word = k.x()
            for offset, c in zip(self.offsets, reversed(coefficients), strict=True):
                k.li(word, pattern(c))
                k.sw(word, offset, SP)

    def __call__(self, v: Lanes, p: Lane, x: Lane, spare: Lane) -> None:
        """p = the polynomial of x; spare changes. Two loads come before each two uses."""
        k = v.k
        first, second = spare[0], spare[1] if v.width > 1 else k.f()
        k.fload(first, self.offsets[0], SP)
        k.fload(second, self.offsets[1], SP)
        v.fmadd_s(p, x, first, second)
        for at in range(2, len(self.offsets), 2):
            pair = list(zip(self.offsets[at : at + 2], (first, second), strict=False))
            for offset, register in pair:
                k.fload(register, offset, SP)
            for _, register in pair:
                v.fmadd_s(p, p, x, register)


class OfSquare(Stacked):
    """A polynomial of x^2, which is not taken for more than a limit; that lies on the stack too."""

    def __init__(self, k: Kernel, coefficients: Sequence[float], most: float) -> None:
        super().__init__(k, coefficients)
        limit = Stacked(k, (most,), self.depth)
        self.depth, self.most = limit.depth, limit.offsets[0]

    def square(self, v: Lanes, square: Lane, x: Lane, spare: Lane) -> None:
        """square = x^2; spare changes."""
        v.k.fload(spare[0], self.most, SP)
        v.fmul_s(square, x, x)
        v.fmin_s(square, square, spare[0])
