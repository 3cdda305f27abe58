"""Gated activations, forward and backward: SiLU, GELU, SwiGLU.

All but the exact GELU are x / (1 + e^-u), u = x P(x^2): P is 1 for SiLU, and has two terms for
GELU's tanh form. The slopes are S + x S (1 - S) Q(x^2), S = 1 / (1 + e^-u) and Q the derivative of
u. The exact GELU is x Phi(x), Phi the normal distribution.

Sources: D. Hendrycks, K. Gimpel, Gaussian Error Linear Units; N. Shazeer, GLU Variants Improve
Transformer.
"""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Literal

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from trainlib.codegen.loop_nest import Body, Load
from trainlib.elementwise.approximations import SEED, Sigmoid
from trainlib.elementwise.elementwise import ElementwiseArguments, map_families
from trainlib.elementwise.normal_distribution import Phi, Slope
from trainlib.elementwise.polynomial import OfSquare, Stacked
from trainlib.reference import activations as reference


@dataclass(frozen=True)
class Gate:
    """u = x P(x^2) and its derivative Q(x^2), coefficients lowest first.

    most    x^2 is not taken for more: there 1 / (1 + e^-u) is 0 or 1 to float32
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    most: float = 0.0


SILU = Gate((1.0,), (1.0,))
SLOPE = 2 * sqrt(2 / pi)
GELU_TANH = Gate((SLOPE, 0.044715 * SLOPE), (SLOPE, 3 * 0.044715 * SLOPE), 144.0)


class _Gated:
    """x S(u) and its slope S + x S (1 - S) Q(x^2), where S = 1 / (1 + e^-u).

    is_thrifty    with fewer registers and more loads
    """

    def __init__(
        self, k: Kernel, gate: Gate, *, has_slope: bool = False, is_thrifty: bool = False
    ) -> None:
        self.gate, depth = gate, 0
        if gate.most:
            self.p = OfSquare(k, gate.p, gate.most)
            depth = self.p.depth
            if has_slope:
                self.q = Stacked(k, gate.q, depth)
                depth = self.q.depth
        self.sigmoid = Sigmoid(k, Stacked(k, SEED, depth) if is_thrifty else None)

    def forward(self, v: Lanes, x: Lane) -> Lane:
        """S(u), in new registers."""
        u, a, b, c = (v.f() for _ in range(4))
        self._exponent(v, u, x, a, b, c)
        self.sigmoid(v, u, a, b, c)
        return u

    def with_slope(self, v: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
        """S(u) and the slope's second term without x, and registers to use; all new."""
        u, a, b, c, d = (v.f() for _ in range(5))
        self._exponent(v, u, x, a, b, c)
        self.sigmoid.with_slope(v, u, a, b, c, d)
        if self.gate.most:
            self.p.square(v, a, x, b)
            self.q(v, b, a, d)
            v.fmul_s(c, c, b)
        return u, c, d

    def _exponent(self, v: Lanes, u: Lane, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """u = x P(x^2); a, b and c change."""
        if not self.gate.most:
            v.fmul_s(u, x, self.sigmoid.one)
            return
        self.p.square(v, a, x, b)
        self.p(v, u, a, b)
        v.fmul_s(u, u, x)


def silu_forward(k: Kernel) -> Body:
    """y = x S(x), S(x) = 1 / (1 + e^-x)."""
    return _forward(k, SILU)


def silu_backward(k: Kernel) -> Body:
    """dx = dy S(x) (1 + x (1 - S(x)))."""
    return _backward(k, SILU)


def gelu_forward(k: Kernel, *, approximate: str) -> Body:
    """y = x Phi(x), Phi the normal distribution; approximate "tanh": its tanh form."""
    if approximate == "tanh":
        return _forward(k, GELU_TANH)
    phi = Phi(k)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        y, s, spare = v.f(), v.f(), v.f()
        phi(v, y, x, s, spare)
        v.fmul_s(x, x, y)
        return [x]

    return body


def gelu_backward(k: Kernel, *, approximate: str) -> Body:
    """dx = dy times the slope of gelu_forward."""
    if approximate == "tanh":
        return _backward(k, GELU_TANH)
    slope = Slope(k)

    def body(v: Lanes, x: Lane, load_dy: Load) -> list[Lane]:
        y, s, dy, special = v.f(), v.f(), v.f(), v.f()
        v.fsub_s(special, x, x)  # 0, or NaN for NaN and infinity
        slope(v, y, x, s, dy)
        load_dy(dy)
        v.fmadd_s(y, y, dy, special)
        return [y]

    return body


def _forward(k: Kernel, gate: Gate) -> Body:
    gated = _Gated(k, gate)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        s = gated.forward(v, x)
        v.fmul_s(x, x, s)
        return [x]

    return body


def _backward(k: Kernel, gate: Gate) -> Body:
    gated = _Gated(k, gate, has_slope=True)

    def body(v: Lanes, x: Lane, load_dy: Load) -> list[Lane]:
        s, slope, dy = gated.with_slope(v, x)
        load_dy(dy)
        v.fmadd_s(s, x, slope, s)
        v.fmul_s(s, s, dy)
        return [s]

    return body


def swiglu_forward(k: Kernel) -> Body:
    """y = a S(a) b."""
    gated = _Gated(k, SILU)

    def body(v: Lanes, a: Lane, load_b: Load) -> list[Lane]:
        s = gated.forward(v, a)
        v.fmul_s(s, s, a)
        load_b(a)
        v.fmul_s(s, s, a)
        return [s]

    return body


def swiglu_backward(k: Kernel) -> Body:
    """da, db = dy times the slopes of swiglu_forward."""
    gated = _Gated(k, SILU, has_slope=True, is_thrifty=True)

    def body(v: Lanes, a: Lane, load_b: Load, load_dy: Load) -> list[Lane]:
        s, slope, dy = gated.with_slope(v, a)
        load_dy(dy)
        v.fmadd_s(slope, a, slope, s)  # of a S(a)
        v.fmul_s(s, s, a)
        load_b(a)
        v.fmul_s(s, s, dy)
        v.fmul_s(dy, dy, a)
        v.fmul_s(dy, dy, slope)
        return [dy, s]

    return body


class GeluArguments(ElementwiseArguments):
    approximate: Literal["none", "tanh"] = "none"


FAMILIES = (
    *map_families("silu_fw", silu_forward, "x", "y", reference.silu_fw),
    *map_families("silu_bw", silu_backward, "x dy", "dx", reference.silu_bw, late=(1,)),
    *map_families("gelu_fw", gelu_forward, "x", "y", reference.gelu_fw, GeluArguments),
    *map_families(
        "gelu_bw", gelu_backward, "x dy", "dx", reference.gelu_bw, GeluArguments, late=(1,)
    ),
    *map_families("swiglu_fw", swiglu_forward, "a b", "y", reference.swiglu_fw, late=(1,)),
    *map_families(
        "swiglu_bw", swiglu_backward, "a b dy", "da db", reference.swiglu_bw, late=(1, 2)
    ),
)
