"""Softplus and ELU, forward and backward.

softplus(x) = max(x, 0) + log(1 + e^-|x|), and log(1 + e) = e P(e) for e in [0, 1]: no logarithm
is taken of a rounded sum, so that small results keep all their digits.
"""

from math import log1p

from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.activations import clip
from trainlib.elementwise.approximations import ExpOfNegative, Sigmoid
from trainlib.elementwise.elementwise import ElementwiseArguments, map_families
from trainlib.elementwise.polynomial import Stacked, near_minimax
from trainlib.reference import exponential_units as reference

DEGREE = 10  # within 0.2 u


def _share(e: float) -> float:
    """log(1 + e) / e."""
    return log1p(e) / e if e else 1.0


SHARE = near_minimax(_share, DEGREE, 0.0, 1.0)


class Softplus:
    """log(1 + e^(beta x)) / beta: 5 u; below 2^-126: 0."""

    def __init__(self, k: Kernel, beta: float) -> None:
        self.zero, self.one = constant(k, 0.0), constant(k, 1.0)
        self.share = Stacked(k, [c / beta for c in SHARE])
        self.exp = ExpOfNegative(k, self.one, beta)

    def __call__(self, v: Lanes, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """x = softplus(x); the others change."""
        v.fsgnjn_s(b, x, x)
        v.fmin_s(a, x, b)
        self.exp.exp(v, a, b, c)
        with v.k.scope():
            self.share(v, b, c, a)
        v.fmax_s(x, x, self.zero)
        v.fmadd_s(x, b, c, x)


def softplus_forward(k: Kernel, *, beta: float) -> Body:
    """y = log(1 + e^(beta x)) / beta."""
    function = Softplus(k, beta)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        function(v, x, v.f(), v.f(), v.f())
        return [x]

    return body


def softplus_backward(k: Kernel, *, beta: float) -> Body:
    """dx = dy / (1 + e^(-beta x))."""
    function, factor = Sigmoid(k), constant(k, beta)

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        if beta != 1:
            v.fmul_s(x, x, factor)
        function(v, x, v.f(), v.f(), v.f())
        v.fmul_s(dy, dy, x)
        return [dy]

    return body


def elu_forward(k: Kernel, *, alpha: float, scale: float, slope: float) -> Body:
    """y = scale x where x > 0, else scale alpha (e^(slope x) - 1)."""
    exp = ExpOfNegative(k, constant(k, 1.0), slope)
    zero, above, below = (constant(k, n) for n in (0.0, scale, scale * alpha))

    def body(v: Lanes, x: Lane) -> list[Lane]:
        a, t, e = v.f(), v.f(), v.f()
        v.fmin_s(a, x, zero)
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        clip(v, x)
        exp.expm1(v, a, t, e)
        v.fmul_s(e, e, below)
        v.fmadd_s(x, x, above, e)
        return [x]

    return body


def elu_backward(k: Kernel, *, alpha: float, scale: float, slope: float) -> Body:
    """dx = dy scale where x > 0, else dy scale alpha slope e^(slope x)."""
    exp = ExpOfNegative(k, constant(k, 1.0), slope)
    zero, below, above = constant(k, 0.0), constant(k, scale * alpha * slope), k.x()
    k.li(above, pattern(scale))

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        is_below, t, e = v.x(), v.f(), v.f()
        v.flt_s(is_below, zero, x)
        v.addi(is_below, is_below, -1)
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        exp.exp(v, x, t, e)  # of a positive x anything: it is not taken
        v.fmul_s(e, e, below)
        words = v.words(e)
        v.xor(words, words, above)
        v.and_(words, words, is_below)
        v.xor(words, words, above)
        v.floats(e, words)
        v.fmul_s(dy, dy, e)
        return [dy]

    return body


class SoftplusArguments(ElementwiseArguments):
    beta: float = Field(1.0, gt=0, allow_inf_nan=False)


class EluArguments(ElementwiseArguments):
    """alpha, scale, slope    see the equation; CELU's slope is 1 / alpha"""

    alpha: float = Field(1.0, allow_inf_nan=False)
    scale: float = Field(1.0, allow_inf_nan=False)
    slope: float = Field(1.0, gt=0, allow_inf_nan=False)


PLUS, ELU = (
    (reference.softplus_fw, reference.softplus_bw),
    (reference.elu_fw, reference.elu_bw),
)
FAMILIES = (
    *map_families("softplus_fw", softplus_forward, "x", "y", PLUS[0], SoftplusArguments),
    *map_families("softplus_bw", softplus_backward, "x dy", "dx", PLUS[1], SoftplusArguments),
    *map_families("elu_fw", elu_forward, "x", "y", ELU[0], EluArguments),
    *map_families("elu_bw", elu_backward, "x dy", "dx", ELU[1], EluArguments),
)
