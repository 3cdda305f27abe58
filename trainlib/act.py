"""Activations, forward and backward: dx from dy and what the forward pass read or gave.

SiLU and both GELUs are x / (1 + e^-u), u = x P(x^2): P is 1 for SiLU; for GELU's tanh form it has
two terms; for the exact one, whose u is log(Phi(x) / Phi(-x)), a polynomial close to it. The slopes
are S + x S (1 - S) Q(x^2), S = 1 / (1 + e^-u) and Q the derivative of u.

Sources: D. Hendrycks, K. Gimpel, Gaussian Error Linear Units; N. Shazeer, GLU Variants Improve
Transformer. P and Q of the exact GELU are this file's own fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Literal

from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import SP, ZERO
from firmware.runtime import Team
from trainlib.elementary import SEED, Sigmoid, Stacked, Tanh
from trainlib.kernels import Address
from trainlib.maps import UNROLL, Arguments, Operation, map_f32, map_family
from trainlib.nest import Body, Load
from trainlib.reference import act as reference


def relu_forward(k: Kernel) -> Body:
    zero = constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        words = v.words(x)
        v.pulp("max", rd=words, rs1=words, rs2=ZERO)
        v.floats(x, words)
        return [x]

    return body


def relu_backward(k: Kernel) -> Body:
    zero = constant(k, 0.0)

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        keeps = v.x()
        v.fle_s(keeps, x, zero)
        words = v.words(dy)
        v.addi(keeps, keeps, -1)
        v.and_(words, words, keeps)
        v.floats(dy, words)
        return [dy]

    return body


def leaky_relu_forward(slope: float) -> Operation:
    """The larger of x and slope x, the smaller for a slope above 1, else x times a factor."""

    def operation(k: Kernel) -> Body:
        if slope <= 0:
            factor = _Factor(k, slope)

            def choose(v: Lanes, x: Lane) -> list[Lane]:
                v.fmul_s(x, x, factor(v, x))
                return [x]

            return choose
        steep = constant(k, slope)

        def body(v: Lanes, x: Lane) -> list[Lane]:
            y = v.f()
            v.fmul_s(y, x, steep)
            (v.fmax_s if slope <= 1 else v.fmin_s)(y, x, y)
            return [y]

        return body

    return operation


def leaky_relu_backward(slope: float) -> Operation:
    def operation(k: Kernel) -> Body:
        factor = _Factor(k, slope)

        def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
            v.fmul_s(dy, dy, factor(v, x))
            return [dy]

        return body

    return operation


class _Factor:
    """1 where x > 0, the slope elsewhere."""

    def __init__(self, k: Kernel, slope: float) -> None:
        self.zero, (self.slope, self.change) = constant(k, 0.0), k.x(2)
        k.li(self.slope, pattern(slope))
        k.li(self.change, pattern(1.0) - pattern(slope))

    def __call__(self, v: Lanes, x: Lane) -> Lane:
        words = v.x()
        v.flt_s(words, self.zero, x)
        v.mul(words, words, self.change)
        v.add(words, words, self.slope)
        if not v.k.has_float_registers:
            return words
        factor = v.f()
        v.floats(factor, words)
        return factor


def sigmoid_forward(k: Kernel) -> Body:
    return _smooth(k, Sigmoid(k))


def tanh_forward(k: Kernel) -> Body:
    return _smooth(k, Tanh(k))


def _smooth(k: Kernel, function: Sigmoid | Tanh) -> Body:
    def body(v: Lanes, x: Lane) -> list[Lane]:
        function(v, x, v.f(), v.f(), v.f())
        return [x]

    return body


def sigmoid_backward(k: Kernel) -> Body:
    one = constant(k, 1.0)

    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        rest = v.f()
        v.fsub_s(rest, one, y)
        v.fmul_s(dy, dy, y)
        v.fmul_s(dy, dy, rest)
        return [dy]

    return body


def tanh_backward(k: Kernel) -> Body:
    one = constant(k, 1.0)

    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        v.fnmsub_s(y, y, y, one)
        v.fmul_s(dy, dy, y)
        return [dy]

    return body


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
GELU = {
    "tanh": Gate((SLOPE, 0.044715 * SLOPE), (SLOPE, 3 * 0.044715 * SLOPE), 144.0),
    "none": Gate(
        (
            *(1.59576988, 0.0726661682, -6.51899463e-05, -1.10612389e-04),
            *(7.92948958e-06, -2.64526733e-07, 3.51234308e-09),
        ),
        (
            *(1.59577096, 0.217999413, -3.40299099e-04, -7.55853136e-04, 6.23917440e-05),
            *(-8.29457520e-07, -2.02674343e-07, 1.53449147e-08, -4.56621158e-10, 5.07179585e-12),
        ),
        36.0,
    ),
}
"""By the names that torch gives the forms.

The fits on [0, 6], weighted with x Phi(x) Phi(-x), err by 0.6 u and 1.3 u of Phi and its slope.
"""


class _Gated:
    """x S(u) and its slope S + x S (1 - S) Q(x^2), where S = 1 / (1 + e^-u).

    is_thrifty    with fewer registers and more loads
    """

    def __init__(
        self, k: Kernel, gate: Gate, *, has_slope: bool = False, is_thrifty: bool = False
    ) -> None:
        self.gate, self.depth = gate, 0
        if gate.most:
            self.p, self.most = self._stacked(k, gate.p), self._stacked(k, (gate.most,))
            if has_slope:
                self.q = self._stacked(k, gate.q)
        self.sigmoid = Sigmoid(k, self._stacked(k, SEED) if is_thrifty else None)

    def _stacked(self, k: Kernel, coefficients: Sequence[float]) -> Stacked:
        stacked = Stacked(k, coefficients, self.depth)
        self.depth = stacked.depth
        return stacked

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
            self._square(v, x, a, b)
            self.q(v, b, a, d)
            v.fmul_s(c, c, b)
        return u, c, d

    def _exponent(self, v: Lanes, u: Lane, x: Lane, a: Lane, b: Lane, c: Lane) -> None:
        """u = x P(x^2); a, b and c change."""
        if not self.gate.most:
            v.fmul_s(u, x, self.sigmoid.one)
            return
        self._square(v, x, a, b)
        self.p(v, u, a, b)
        v.fmul_s(u, u, x)

    def _square(self, v: Lanes, x: Lane, square: Lane, spare: Lane) -> None:
        v.k.fload(spare[0], self.most.offsets[0], SP)
        v.fmul_s(square, x, x)
        v.fmin_s(square, square, spare[0])


def gated_forward(gate: Gate) -> Operation:
    def operation(k: Kernel) -> Body:
        gated = _Gated(k, gate)

        def body(v: Lanes, x: Lane) -> list[Lane]:
            s = gated.forward(v, x)
            v.fmul_s(x, x, s)
            return [x]

        return body

    return operation


def gated_backward(gate: Gate) -> Operation:
    def operation(k: Kernel) -> Body:
        gated = _Gated(k, gate, has_slope=True)

        def body(v: Lanes, x: Lane, load_dy: Load) -> list[Lane]:
            s, slope, dy = gated.with_slope(v, x)
            load_dy(dy)
            v.fmadd_s(s, x, slope, s)
            v.fmul_s(s, s, dy)
            return [s]

        return body

    return operation


def swiglu_forward(k: Kernel) -> Body:
    gated = _Gated(k, SILU)

    def body(v: Lanes, a: Lane, load_b: Load) -> list[Lane]:
        s = gated.forward(v, a)
        v.fmul_s(s, s, a)
        load_b(a)
        v.fmul_s(s, s, a)
        return [s]

    return body


def swiglu_backward(k: Kernel) -> Body:
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


# The emitters


def relu_fw_f32(
    k: Kernel, team: Team, x: Address, y: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """y = x where x > 0, else 0."""
    map_f32(k, team, relu_forward, [x], [y], count, unroll=unroll)


def relu_bw_f32(
    k: Kernel, team: Team, x: Address, dy: Address, dx: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """dx = dy where x > 0, else 0; x may be what relu_fw gave too."""
    map_f32(k, team, relu_backward, [x, dy], [dx], count, unroll=unroll)


def leaky_relu_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    count: int,
    *,
    slope: float = 0.01,
    unroll: int = UNROLL,
) -> None:
    """y = x where x > 0, else slope x."""
    map_f32(k, team, leaky_relu_forward(slope), [x], [y], count, unroll=unroll)


def leaky_relu_bw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    dy: Address,
    dx: Address,
    count: int,
    *,
    slope: float = 0.01,
    unroll: int = UNROLL,
) -> None:
    """dx = dy where x > 0, else slope dy."""
    map_f32(k, team, leaky_relu_backward(slope), [x, dy], [dx], count, unroll=unroll)


def sigmoid_fw_f32(
    k: Kernel, team: Team, x: Address, y: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """y = 1 / (1 + e^-x)."""
    map_f32(k, team, sigmoid_forward, [x], [y], count, unroll=unroll)


def sigmoid_bw_f32(
    k: Kernel, team: Team, y: Address, dy: Address, dx: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """dx = dy y (1 - y), y from sigmoid_fw."""
    map_f32(k, team, sigmoid_backward, [y, dy], [dx], count, unroll=unroll)


def tanh_fw_f32(
    k: Kernel, team: Team, x: Address, y: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """y = tanh(x)."""
    map_f32(k, team, tanh_forward, [x], [y], count, unroll=unroll)


def tanh_bw_f32(
    k: Kernel, team: Team, y: Address, dy: Address, dx: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """dx = dy (1 - y^2), y from tanh_fw."""
    map_f32(k, team, tanh_backward, [y, dy], [dx], count, unroll=unroll)


def silu_fw_f32(
    k: Kernel, team: Team, x: Address, y: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """y = x / (1 + e^-x)."""
    map_f32(k, team, gated_forward(SILU), [x], [y], count, unroll=unroll)


def silu_bw_f32(
    k: Kernel, team: Team, x: Address, dy: Address, dx: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """dx = dy S(x) (1 + x (1 - S(x))), S(x) = 1 / (1 + e^-x)."""
    map_f32(k, team, gated_backward(SILU), [x, dy], [dx], count, late=(1,), unroll=unroll)


def gelu_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    count: int,
    *,
    approximate: str = "none",
    unroll: int = UNROLL,
) -> None:
    """y = x Phi(x), Phi the normal distribution; approximate "tanh": its tanh form."""
    map_f32(k, team, gated_forward(GELU[approximate]), [x], [y], count, unroll=unroll)


def gelu_bw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    dy: Address,
    dx: Address,
    count: int,
    *,
    approximate: str = "none",
    unroll: int = UNROLL,
) -> None:
    """dx = dy times the slope of gelu_fw."""
    operation = gated_backward(GELU[approximate])
    map_f32(k, team, operation, [x, dy], [dx], count, late=(1,), unroll=unroll)


def swiglu_fw_f32(
    k: Kernel, team: Team, a: Address, b: Address, y: Address, count: int, *, unroll: int = UNROLL
) -> None:
    """y = a / (1 + e^-a) b."""
    map_f32(k, team, swiglu_forward, [a, b], [y], count, late=(1,), unroll=unroll)


def swiglu_bw_f32(
    k: Kernel,
    team: Team,
    a: Address,
    b: Address,
    dy: Address,
    da: Address,
    db: Address,
    count: int,
    *,
    unroll: int = UNROLL,
) -> None:
    """da, db = dy times the slopes of swiglu_fw."""
    sources, targets = [a, b, dy], [da, db]
    map_f32(k, team, swiglu_backward, sources, targets, count, late=(1, 2), unroll=unroll)


class LeakyArguments(Arguments):
    slope: float = Field(0.01, allow_inf_nan=False)


class GeluArguments(Arguments):
    approximate: Literal["none", "tanh"] = "none"


FAMILIES = (
    map_family(relu_fw_f32, "x", "y", reference.relu_fw),
    map_family(relu_bw_f32, "x dy", "dx", reference.relu_bw),
    map_family(leaky_relu_fw_f32, "x", "y", reference.leaky_relu_fw, LeakyArguments),
    map_family(leaky_relu_bw_f32, "x dy", "dx", reference.leaky_relu_bw, LeakyArguments),
    map_family(sigmoid_fw_f32, "x", "y", reference.sigmoid_fw),
    map_family(sigmoid_bw_f32, "y dy", "dx", reference.sigmoid_bw),
    map_family(tanh_fw_f32, "x", "y", reference.tanh_fw),
    map_family(tanh_bw_f32, "y dy", "dx", reference.tanh_bw),
    map_family(silu_fw_f32, "x", "y", reference.silu_fw),
    map_family(silu_bw_f32, "x dy", "dx", reference.silu_bw),
    map_family(gelu_fw_f32, "x", "y", reference.gelu_fw, GeluArguments),
    map_family(gelu_bw_f32, "x dy", "dx", reference.gelu_bw, GeluArguments),
    map_family(swiglu_fw_f32, "a b", "y", reference.swiglu_fw),
    map_family(swiglu_bw_f32, "a b dy", "da db", reference.swiglu_bw),
)
