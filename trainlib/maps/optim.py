"""Optimisers: they step weights w by gradients g, element by element, and keep their state in L1.

SGD and Adam are torch's, in every option that they have here. Adam's bias corrections 1 - beta^t
are a tensor, the same for all weights: before each step, adam_corrections advances them by
1 - beta^(t + 1) = (1 - beta) + beta (1 - beta^t), so that they are accurate from the first on.

Sources: D. Kingma, J. Ba, Adam: A Method for Stochastic Optimization, algorithm 1; I. Loshchilov,
F. Hutter, Decoupled Weight Decay Regularization, algorithms 1 and 2.
"""

from math import prod
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.loops.nest import Body
from trainlib.maps.map import Arguments, map_f32, map_family, no_macs
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tiled import tiled_by_axes
from trainlib.reference import optim as reference

Beta = Annotated[float, Field(ge=0, lt=1)]


def sgd(k: Kernel, *, lr: float, weight_decay: float) -> Body:
    """w -= lr (g + weight_decay w)."""
    step, decay = constant(k, lr), constant(k, weight_decay)

    def body(v: Lanes, w: Lane, g: Lane) -> list[Lane]:
        if weight_decay:
            v.fmadd_s(g, w, decay, g)
        v.fnmsub_s(w, g, step, w)
        return [w]

    return body


def sgd_momentum(
    k: Kernel, *, lr: float, momentum: float, weight_decay: float, nesterov: bool
) -> Body:
    """b = momentum b + g + weight_decay w; w -= lr b, or lr (g + weight_decay w + momentum b).

    b is zero before the first step.
    """
    step, decay, keeps = (constant(k, c) for c in (lr, weight_decay, momentum))

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


class _Adam:
    """A step of Adam: g += weight_decay w; m, v: means of g and g^2; w -= lr m' / (sqrt(v') + eps).

    m' and v' are corrected; AdamW: no weight_decay in g, but w *= 1 - lr weight_decay before. m and
    v are zero before the first step.

    corrections    address of the two bias corrections, this step's, of adam_corrections
    point          has lr, betas, eps and weight_decay
    """

    def __init__(self, corrections: Address, point: Any, is_decoupled: bool) -> None:
        self.corrections, self.is_decoupled = corrections, is_decoupled
        self.lr, self.betas, self.eps, decay = point.lr, point.betas, point.eps, point.weight_decay
        self.decay = 1 - self.lr * decay if is_decoupled else decay
        self.decays = decay != 0

    def __call__(self, k: Kernel) -> Body:
        first, second = self.betas
        with k.scope():
            base = k.x()
            k.set(base, self.corrections)
            step, root = k.f(2)
            k.fload(step, 0, base)
            k.fload(root, WORD, base)
            one, rate = constant(k, 1.0), constant(k, self.lr)
            k.fdiv_s(step, rate, step)
            k.fsqrt_s(root, root)
            k.fdiv_s(root, one, root)
        k.registers.hold(step, root)
        keeps, adds, squares_keep, squares_add, eps, decay = (
            constant(k, c) for c in (first, 1 - first, second, 1 - second, self.eps, self.decay)
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


class SgdArguments(Arguments):
    lr: float = Field(ge=0, allow_inf_nan=False)
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)


class MomentumArguments(SgdArguments):
    momentum: float = Field(gt=0, le=1)
    nesterov: bool = False


class AccumulateArguments(Arguments):
    scale: float = Field(1.0, allow_inf_nan=False)


class AdamArguments(SgdArguments):
    lr: float = Field(1e-3, ge=0, allow_inf_nan=False)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0, allow_inf_nan=False)


class AdamwArguments(AdamArguments):
    weight_decay: float = Field(1e-2, ge=0, allow_inf_nan=False)


def _adam_family(name: str, arguments: type[Arguments], *, is_decoupled: bool) -> Family:
    states, sources = ("w", "m", "v"), ("w", "m", "v", "g")

    def tensors(point: Any) -> Tensors:
        of = {name: Tensor(point.shape, "inout") for name in states}
        return {**of, "corrections": Tensor((2,)), "g": Tensor(point.shape)}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        return dict(zip(states, reference.adam(values, point, is_decoupled), strict=True))

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        adam = _Adam(l1["corrections"], point, is_decoupled)
        read, written = ([l1[name] for name in names] for names in (sources, states))
        map_f32(k, team, adam, read, written, prod(point.shape), unroll=point.unroll)

    def draw(point: Any, numbers: np.random.Generator) -> Arrays:
        """State as after a few steps: squares are not negative."""
        betas = np.array(point.betas, np.float32)
        squares = numbers.standard_normal(point.shape, np.float32) ** 2
        return {"v": squares, "corrections": 1 - betas ** np.float32(4)}

    family = Family(name, arguments, tensors, expected, no_macs, emit, draw=draw)
    return tiled_by_axes(family, whole=("corrections",))


class CorrectionArguments(CommonArguments):
    betas: tuple[Beta, Beta] = (0.9, 0.999)


def _corrected(point: Any, values: Arrays) -> dict[str, Expected]:
    return {"corrections": reference.corrections(values["corrections"], point.betas)}


def _emit_corrections(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    adam_corrections_f32(k, team, l1["corrections"], betas=point.betas)


CORRECTIONS = Family(
    "adam_corrections_f32",
    CorrectionArguments,
    lambda _: {"corrections": Tensor((2,), "inout")},
    _corrected,
    no_macs,
    _emit_corrections,
)

FAMILIES = (
    map_family("sgd_f32", sgd, "w g", "w", reference.sgd, SgdArguments),
    map_family(
        *("sgd_momentum_f32", sgd_momentum, "w b g", "w b"),
        *(reference.sgd_momentum, MomentumArguments),
    ),
    map_family("accumulate_f32", accumulate, "g x", "g", reference.accumulate, AccumulateArguments),
    CORRECTIONS,
    _adam_family("adam_f32", AdamArguments, is_decoupled=False),
    _adam_family("adamw_f32", AdamwArguments, is_decoupled=True),
)
