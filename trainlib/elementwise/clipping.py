"""Values kept within limits, forward and backward: clamp, hardtanh, ReLU6; absolute values.

Comparisons and fmin forget NaN; here it stays NaN, as in torch. Gradients of values at a limit
differ: those of clamp pass, those of hardtanh and ReLU6 do not.
"""

from typing import Any

from pydantic import Field, model_validator

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import ElementwiseArguments, map_families
from trainlib.reference import clipping as reference

NAN = pattern(float("nan"))


class Clamp:
    """x = min(max(x, low), high), NaN where x is; None: no limit."""

    def __init__(self, k: Kernel, low: float | None, high: float | None) -> None:
        self.low, self.high = (None if n is None else constant(k, n) for n in (low, high))
        limits = [limit for limit in (low, high) if limit is not None]
        self.repair = k.x()  # what makes NaN of the limit that fmax or fmin gives for it
        k.li(self.repair, pattern(min(limits)) ^ NAN)

    def __call__(self, v: Lanes, x: Lane) -> None:
        with v.k.scope():
            is_nan = v.x()
            v.feq_s(is_nan, x, x)
            v.addi(is_nan, is_nan, -1)
            v.and_(is_nan, is_nan, self.repair)
            if self.low is not None:
                v.fmax_s(x, x, self.low)
            if self.high is not None:
                v.fmin_s(x, x, self.high)
            words = v.words(x)
            v.xor(words, words, is_nan)
            v.floats(x, words)


def clamp_forward(k: Kernel, *, low: float | None, high: float | None) -> Body:
    """y = x, but low where it is less, and high where it is more."""
    clamp = Clamp(k, low, high)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        clamp(v, x)
        return [x]

    return body


def clamp_backward(
    k: Kernel, *, low: float | None, high: float | None, passes_limits: bool
) -> Body:
    """dx = dy where x is within the limits, else 0; without passes_limits x may be the output."""
    least, most = (None if n is None else constant(k, n) for n in (low, high))

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        within = []
        for limit, is_low in ((least, True), (most, False)):
            if limit is not None:
                t = v.x()
                (v.fle_s if passes_limits else v.flt_s)(t, *((limit, x) if is_low else (x, limit)))
                within.append(t)
        first, *others = within
        for other in others:
            v.and_(first, first, other)
        v.sub(first, ZERO, first)
        words = v.words(dy)
        v.and_(words, words, first)
        v.floats(dy, words)
        return [dy]

    return body


def absolute_forward(_: Kernel) -> Body:
    """y = |x|."""

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fsgnjx_s(x, x, x)
        return [x]

    return body


def absolute_backward(k: Kernel) -> Body:
    """dx = dy, -dy where x < 0, and 0 where x = 0."""
    zero = constant(k, 0.0)

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        above, below, sign = v.x(), v.x(), v.f()
        v.flt_s(above, zero, x)
        v.flt_s(below, x, zero)
        v.sub(above, above, below)
        v.fcvt_s_w(sign, above)
        v.fmul_s(dy, dy, sign)
        return [dy]

    return body


class ClampArguments(ElementwiseArguments):
    """low, high    the limits; one of them may be left out"""

    low: float | None = Field(None, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_a_limit(self) -> Any:
        if self.low is None and self.high is None:
            raise ValueError("neither low nor high; give one of them")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self


class ClampGradientArguments(ClampArguments):
    """passes_limits    is the gradient that of x where x is a limit? Else it is 0 there"""

    passes_limits: bool = True


CLAMP = reference.clamp_fw, reference.clamp_bw
FAMILIES = (
    *map_families("clamp_fw", clamp_forward, "x", "y", CLAMP[0], ClampArguments),
    *map_families("clamp_bw", clamp_backward, "x dy", "dx", CLAMP[1], ClampGradientArguments),
    *map_families("abs_fw", absolute_forward, "x", "y", reference.abs_fw),
    *map_families("abs_bw", absolute_backward, "x dy", "dx", reference.abs_bw),
)
