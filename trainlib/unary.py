"""Elementary functions of every element: exp, log, erf, roots and reciprocals.

Roots and quotients are the FPU's, rounded correctly. erf(x) = tanh(x P(x^2)), P a fit to
atanh(erf(x)) / x on [0, 3 sqrt(2)], beyond which erf is 1 to float32.
"""

from collections.abc import Callable
from math import sqrt

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.registers import SP
from firmware.runtime import Team
from trainlib.elementary import Exp, Log, Stacked, Tanh
from trainlib.kernels import Address, Family
from trainlib.maps import Operation, map_f32, map_family
from trainlib.nest import UNROLL, Body
from trainlib.reference import unary as reference

LOGIT = (
    *(1.59576929, 0.0726703107, -7.21724937e-05, -1.05811989e-04, 6.31477633e-06),
    *(2.49899585e-08, -2.50561083e-08, 1.52952684e-09, -4.09905061e-11, 4.25100249e-13),
)
"""Of log(Phi(x) / Phi(-x)) / x by powers of x^2 on [0, 6], with an error of 0.3 u of Phi."""
ERF = tuple(c * 2**n * sqrt(0.5) for n, c in enumerate(LOGIT))
ERF_IS_ONE = 18.0  # x^2


def exp(k: Kernel) -> Body:
    function, zero = Exp(k), constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        t, p = v.f(), v.f()
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        function(v, x, t, p)
        return [p]

    return body


def log(k: Kernel) -> Body:
    function = Log(k)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        function(v, x)
        return [x]

    return body


def erf(k: Kernel) -> Body:
    polynomial = Stacked(k, ERF)
    most = Stacked(k, (ERF_IS_ONE,), polynomial.depth)
    tanh = Tanh(k)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        a, b, c = v.f(), v.f(), v.f()
        v.k.fload(b[0], most.offsets[0], SP)
        v.fmul_s(a, x, x)
        v.fmin_s(a, a, b[0])
        polynomial(v, c, a, b)
        v.fmul_s(x, x, c)
        tanh(v, x, a, b, c)
        return [x]

    return body


def square_root(_: Kernel) -> Body:
    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fsqrt_s(x, x)
        return [x]

    return body


def _inverse(has_root: bool) -> Operation:
    def operation(k: Kernel) -> Body:
        one = constant(k, 1.0)

        def body(v: Lanes, x: Lane) -> list[Lane]:
            if has_root:
                v.fsqrt_s(x, x)
            v.fdiv_s(x, one, x)
            return [x]

        return body

    return operation


def _emitter(name: str, operation: Operation, meaning: str) -> Callable[..., None]:
    def emitter(
        k: Kernel, team: Team, x: Address, y: Address, count: int, *, unroll: int = UNROLL
    ) -> None:
        map_f32(k, team, operation, [x], [y], count, unroll=unroll)

    emitter.__name__, emitter.__doc__ = name, meaning
    return emitter


exp_f32 = _emitter("exp_f32", exp, "y = e^x.")
log_f32 = _emitter("log_f32", log, "y = log(x): -infinity of 0, NaN of less.")
erf_f32 = _emitter("erf_f32", erf, "y = erf(x).")
sqrt_f32 = _emitter("sqrt_f32", square_root, "y = sqrt(x).")
rsqrt_f32 = _emitter("rsqrt_f32", _inverse(True), "y = 1 / sqrt(x).")
reciprocal_f32 = _emitter("reciprocal_f32", _inverse(False), "y = 1 / x.")

FAMILIES: tuple[Family, ...] = (
    map_family(exp_f32, "x", "y", reference.exp),
    map_family(log_f32, "x", "y", reference.log),
    map_family(erf_f32, "x", "y", reference.erf),
    map_family(sqrt_f32, "x", "y", reference.sqrt),
    map_family(rsqrt_f32, "x", "y", reference.rsqrt),
    map_family(reciprocal_f32, "x", "y", reference.reciprocal),
)
