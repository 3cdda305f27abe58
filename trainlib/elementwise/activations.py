"""Activations, forward and backward: dx from dy and what the forward pass read or gave."""

from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.approximations import Sigmoid, Tanh
from trainlib.elementwise.elementwise import ElementwiseArguments, Operation, map_families
from trainlib.primitive.element import Element
from trainlib.reference import activations as reference


def clip(v: Lanes, y: Lane) -> None:
    """y = max(0, y), of results of the FPU, whose NaN have no sign."""
    words = v.words(y)
    v.pulp("max", rd=words, rs1=words, rs2=ZERO)
    v.floats(y, words)


def relu_forward(k: Kernel) -> Body:
    """y = x where x > 0, else 0."""
    zero = constant(k, 0.0)

    def body(v: Lanes, x: Lane) -> list[Lane]:
        v.fadd_s(x, x, zero)  # a NaN loses its sign
        clip(v, x)
        return [x]

    return body


def relu_pairs(element: Element) -> Operation:
    """relu_forward, of two halves at a time."""

    def operation(_: Kernel) -> Body:
        def body(v: Lanes, x: Lane) -> list[Lane]:
            clear_sign(v, element, x)
            clip_pairs(v, x)
            return [x]

        return body

    return operation


def clear_sign(v: Lanes, element: Element, x: Lane) -> None:
    """Let NaN in pairs have no sign: x + 0."""
    getattr(v, f"vfadd_{element.letter}")(x, x, ZERO)


def clip_pairs(v: Lanes, y: Lane) -> None:
    """y = max(0, y), of pairs that are results of the FPU."""
    v.pv_max_h(y, y, ZERO)


def relu_backward_pairs(element: Element) -> Operation:
    """relu_backward, of two halves at a time."""

    def operation(_: Kernel) -> Body:
        def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
            clear_sign(v, element, x)
            v.pv_cmpgt_h(x, x, ZERO)
            v.and_(dy, dy, x)
            return [dy]

        return body

    return operation


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


class LeakyArguments(ElementwiseArguments):
    slope: float = Field(0.01, allow_inf_nan=False)


LEAKY = reference.leaky_relu_fw, reference.leaky_relu_bw
FAMILIES = (
    *map_families("relu_fw", relu_forward, "x", "y", reference.relu_fw, pairs=relu_pairs),
    *map_families(
        "relu_bw", relu_backward, "x dy", "dx", reference.relu_bw, pairs=relu_backward_pairs
    ),
    *map_families("leaky_relu_fw", leaky_relu_forward, "x", "y", LEAKY[0], LeakyArguments),
    *map_families("leaky_relu_bw", leaky_relu_backward, "x dy", "dx", LEAKY[1], LeakyArguments),
    *map_families("sigmoid_fw", sigmoid_forward, "x", "y", reference.sigmoid_fw),
    *map_families("sigmoid_bw", sigmoid_backward, "y dy", "dx", reference.sigmoid_bw),
    *map_families("tanh_fw", tanh_forward, "x", "y", reference.tanh_fw),
    *map_families("tanh_bw", tanh_backward, "y dy", "dx", reference.tanh_bw),
)
