"""Optimisers: they step weights w by gradients g, element by element, and keep their state in L1.

SGD and Adam are torch's, in every option that they have here. Adam's bias corrections 1 - beta^t
are a tensor, the same for all weights: before each step, adam_corrections advances them by
1 - beta^(t + 1) = (1 - beta) + beta (1 - beta^t), so that they are accurate from the first on.

Sources: D. Kingma, J. Ba, Adam: A Method for Stochastic Optimization, algorithm 1; I. Loshchilov,
F. Hutter, Decoupled Weight Decay Regularization, algorithms 1 and 2.
"""

from collections.abc import Callable
from typing import Any

from ml_dtypes import finfo

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import (
    Operation,
)
from trainlib.primitive.element import Element
from trainlib.primitive.tensor import WORD, Address, Addresses

LoadRate = Callable[[Kernel], Register]
"""Takes a register that holds the learning rate."""


def rate_of(lr: float | str, l1: Addresses) -> LoadRate:
    """What loads a learning rate: a number, or the word that the operand lr is."""

    def load(k: Kernel) -> Register:
        if isinstance(lr, float):
            return constant(k, lr)
        rate = k.f()
        with k.scope():
            base = k.x()
            k.set(base, l1["lr"])
            k.fload(rate, 0, base)
        return rate

    return load


def sgd(k: Kernel, rate: LoadRate, *, weight_decay: float) -> Body:
    """w -= lr (g + weight_decay w)."""
    step, decay = rate(k), constant(k, weight_decay)

    def body(v: Lanes, w: Lane, g: Lane) -> list[Lane]:
        if weight_decay:
            v.fmadd_s(g, w, decay, g)
        v.fnmsub_s(w, g, step, w)
        return [w]

    return body


def sgd_pairs(element: Element, point: Any) -> Operation | None:
    """sgd of two halves at a time, without weight decay: with the nearest half to a rate.

    None for rates that a half comes not as close to as usual: they are less than normal ones.
    """
    if point.weight_decay or point.lr == "operand" or not is_normal(element, point.lr):
        return None

    def operation(k: Kernel) -> Body:
        step = element.twice(k, -point.lr)

        def body(v: Lanes, w: Lane, g: Lane) -> list[Lane]:
            getattr(v, f"vfmac_{element.letter}")(w, g, step)
            return [w]

        return body

    return operation


def is_normal(element: Element, number: float) -> bool:
    """Is it 0, or no less than the normal halves are, and no more?"""
    kind = finfo(element.dtype)
    return number == 0 or float(kind.tiny) <= abs(number) <= float(kind.max)


def sgd_momentum(
    k: Kernel, rate: LoadRate, *, momentum: float, weight_decay: float, nesterov: bool
) -> Body:
    """b = momentum b + g + weight_decay w; w -= lr b, or lr (g + weight_decay w + momentum b).

    b is zero before the first step.
    """
    step, decay, keeps = rate(k), constant(k, weight_decay), constant(k, momentum)

    def body(v: Lanes, w: Lane, b: Lane, g: Lane) -> list[Lane]:
        if weight_decay:
            v.fmadd_s(g, w, decay, g)
        v.fmadd_s(b, b, keeps, g)
        if nesterov:
            v.fmadd_s(g, b, keeps, g)
        v.fnmsub_s(w, g if nesterov else b, step, w)
        return [w, b]

    return body


def accumulate(k: Kernel, *, scale: float) -> Body:
    """g += scale x: gradients of several batches."""
    factor = constant(k, scale)

    def body(v: Lanes, g: Lane, x: Lane) -> list[Lane]:
        if scale == 1:
            v.fadd_s(g, g, x)
        else:
            v.fmadd_s(g, x, factor, g)
        return [g]

    return body


def accumulate_pairs(element: Element, *, scale: float) -> Operation | None:
    """g += x of two halves at a time."""
    if scale != 1:
        return None

    def operation(_: Kernel) -> Body:
        def body(v: Lanes, g: Lane, x: Lane) -> list[Lane]:
            getattr(v, f"vfadd_{element.letter}")(g, g, x)
            return [g]

        return body

    return operation


class AdamStep:
    """A step of Adam: g += weight_decay w; m, v: means of g and g^2; w -= lr m' / (sqrt(v') + eps).

    m' and v' are corrected; AdamW: no weight_decay in g, but w *= 1 - lr weight_decay before. m and
    v are zero before the first step.

    l1       has the address of the two bias corrections, this step's, of adam_corrections
    point    has lr, betas, eps and weight_decay
    """

    def __init__(self, l1: Addresses, point: Any, is_decoupled: bool) -> None:
        self.corrections, self.is_decoupled = l1["corrections"], is_decoupled
        self.rate = rate_of(point.lr, l1)
        self.lr, self.betas, self.eps = point.lr, point.betas, point.eps
        self.weight_decay = point.weight_decay
        self.decays = point.weight_decay != 0

    def __call__(self, k: Kernel) -> Body:
        first, second = self.betas
        decay = self._decay(k)
        with k.scope():
            base = k.x()
            k.set(base, self.corrections)
            step, root = k.f(2)
            k.fload(step, 0, base)
            k.fload(root, WORD, base)
            one, rate = constant(k, 1.0), self.rate(k)
            k.fdiv_s(step, rate, step)
            k.fsqrt_s(root, root)
            k.fdiv_s(root, one, root)
        k.registers.hold(step, root)
        keeps, adds, squares_keep, squares_add, eps = (
            constant(k, c) for c in (first, 1 - first, second, 1 - second, self.eps)
        )

        def body(v: Lanes, w: Lane, m: Lane, s: Lane, g: Lane) -> list[Lane]:
            t = v.f()
            if self.decays and self.is_decoupled:
                v.fmul_s(w, w, decay)
            elif self.decays:
                v.fmadd_s(g, w, decay, g)
            v.fmul_s(t, g, g)
            v.fmul_s(m, m, keeps)
            v.fmul_s(s, s, squares_keep)
            v.fmadd_s(m, g, adds, m)
            v.fmadd_s(s, t, squares_add, s)
            v.fsqrt_s(t, s)
            v.fmadd_s(t, t, root, eps)
            v.fdiv_s(t, m, t)
            v.fnmsub_s(w, t, step, w)
            return [w, m, s]

        return body

    def _decay(self, k: Kernel) -> Register:
        """What weights are multiplied by, or what of them gradients grow by."""
        if not self.is_decoupled:
            return constant(k, self.weight_decay)
        if isinstance(self.lr, float):
            return constant(k, 1 - self.lr * self.weight_decay)
        decay = constant(k, 1.0)
        if self.decays:
            with k.scope():
                k.fnmsub_s(decay, self.rate(k), constant(k, self.weight_decay), decay)
        return decay


def adam_corrections_f32(
    k: Kernel, team: Team, corrections: Address, *, betas: tuple[float, float] = (0.9, 0.999)
) -> None:
    """1 - beta^t of the last step become 1 - beta^t of the next: zeros before the first one."""
    with team.only(0), k.scope():
        base, value = k.x(), k.f()
        k.set(base, corrections)
        for index, beta in enumerate(betas):
            with k.scope():
                keeps, rest = constant(k, beta), constant(k, 1 - beta)
                k.fload(value, WORD * index, base)
                k.fmadd_s(value, value, keeps, rest)
                k.fstore(value, WORD * index, base)
