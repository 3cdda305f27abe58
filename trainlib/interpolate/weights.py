"""The lines of x that make an output of an interpolation, and their weights, as code.

nearest     place o of `out` is floor(o in / out), exactly
bilinear    (o + 1/2) in / out - 1/2, not below 0; aligned corners: o (in - 1) / (out - 1)
"""

from typing import Literal

from firmware.builder import Kernel, Register
from firmware.lanes import Lanes, constant

TOWARDS_ZERO = 1  # rounding mode
Method = Literal["nearest", "bilinear", "aligned"]
"""How an output comes about; aligned: bilinear, corners of x are corners of y."""
Source = tuple[Register, Register | None]
"""A line of x that an output is made of, in a register, and its weight; None: 1."""


def sources_of(k: Kernel, method: Method, whole: tuple[int, int], output: Register) -> list[Source]:
    """What the output of that number is made of, in new registers.

    whole    lines of x and of y
    """
    if method == "nearest":
        return [(_nearest(k, output, *whole), None)]
    between = _Between(k, output, *whole, method == "aligned")
    return list(zip(between.places, between.weights, strict=True))


def _nearest(k: Kernel, place: Register, size: int, out: int) -> Register:
    """floor(place size / out): a multiplication that is right for all places, or a division."""
    result = k.x()
    with k.scope():
        t = k.x()
        for shift in range(32):
            factor = -(-(size << shift) // out)
            if out * factor >= 1 << 32:
                break
            if all(o * factor >> shift == o * size // out for o in range(out)):
                k.li(t, factor)
                k.mul(result, place, t)
                k.srli(result, result, shift)
                return result
        k.li(t, size)
        k.mul(result, place, t)
        k.li(t, out)
        k.divu(result, result, t)
    return result


class _Between:
    """The two places that an output lies between, and their weights, in registers."""

    def __init__(self, k: Kernel, place: Register, size: int, out: int, aligned: bool) -> None:
        self.places, self.weights = k.x(2), k.f(2)
        (low, high), (first, second) = self.places, self.weights
        scale = (size - 1) / max(out - 1, 1) if aligned else size / out
        with k.scope():
            step, start, zero, one = (
                constant(k, c) for c in (scale, 0.0 if aligned else scale / 2 - 0.5, 0.0, 1.0)
            )
            k.fcvt_s_w(first, place)
            k.fmadd_s(first, first, step, start)
            k.fmax_s(first, first, zero)
            k.fcvt_w_s(low, first, TOWARDS_ZERO)
            k.fcvt_s_w(second, low)
            k.fsub_s(second, first, second)
            k.fsub_s(first, one, second)
            last = k.x()
            k.li(last, size - 1)
            k.addi(high, low, 1)
            Lanes(k, 1).pulp("min", rd=high, rs1=high, rs2=last)
