"""Activations, forward and backward: dx from dy and what the forward pass read or gave."""

from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.loops.nest import Body
from trainlib.maps.elementary import Sigmoid, Tanh
from trainlib.maps.map import Arguments, map_family
from trainlib.reference import act as reference


def relu_forward(k: Kernel) -> Body:
    """y = x where x > 0, else 0."""
    zero = constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        words = v.words(x)
        v.pulp("max", rd=words, rs1=words, rs2=ZERO)
        v.floats(x, words)
        return [x]

    return body


def relu_backward(k: Kernel) -> Body:
    """dx = dy where x > 0, else 0; x may be what relu_forward gave too."""
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


def leaky_relu_forward(k: Kernel, *, slope: float) -> Body:
    """y = x where x > 0, else slope x.

    That is the larger of both, the smaller for a slope above 1, else x times a factor.
    """
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


def leaky_relu_backward(k: Kernel, *, slope: float) -> Body:
    """dx = dy where x > 0, else slope dy."""
    factor = _Factor(k, slope)

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        v.fmul_s(dy, dy, factor(v, x))
        return [dy]

    return body


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
    """y = 1 / (1 + e^-x)."""
    return _smooth(Sigmoid(k))


def tanh_forward(k: Kernel) -> Body:
    """y = tanh(x)."""
    return _smooth(Tanh(k))


def _smooth(function: Sigmoid | Tanh) -> Body:
    def body(v: Lanes, x: Lane) -> list[Lane]:
        function(v, x, v.f(), v.f(), v.f())
        return [x]

    return body


def sigmoid_backward(k: Kernel) -> Body:
    """dx = dy y (1 - y), y from sigmoid_forward."""
    one = constant(k, 1.0)

    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        rest = v.f()
        v.fsub_s(rest, one, y)
        v.fmul_s(dy, dy, y)
        v.fmul_s(dy, dy, rest)
        return [dy]

    return body


def tanh_backward(k: Kernel) -> Body:
    """dx = dy (1 - y^2), y from tanh_forward."""
    one = constant(k, 1.0)

    def body(v: Lanes, y: Lane, dy: Lane) -> list[Lane]:
        v.fnmsub_s(y, y, y, one)
        v.fmul_s(dy, dy, y)
        return [dy]

    return body


class LeakyArguments(Arguments):
    slope: float = Field(0.01, allow_inf_nan=False)


LEAKY = reference.leaky_relu_fw, reference.leaky_relu_bw
FAMILIES = (
    map_family("relu_fw_f32", relu_forward, "x", "y", reference.relu_fw),
    map_family("relu_bw_f32", relu_backward, "x dy", "dx", reference.relu_bw),
    map_family("leaky_relu_fw_f32", leaky_relu_forward, "x", "y", LEAKY[0], LeakyArguments),
    map_family("leaky_relu_bw_f32", leaky_relu_backward, "x dy", "dx", LEAKY[1], LeakyArguments),
    map_family("sigmoid_fw_f32", sigmoid_forward, "x", "y", reference.sigmoid_fw),
    map_family("sigmoid_bw_f32", sigmoid_backward, "y dy", "dx", reference.sigmoid_bw),
    map_family("tanh_fw_f32", tanh_forward, "x", "y", reference.tanh_fw),
    map_family("tanh_bw_f32", tanh_backward, "y dy", "dx", reference.tanh_bw),
)
