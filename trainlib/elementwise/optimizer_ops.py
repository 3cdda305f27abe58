"""Optimisers as operators: arguments, tensors, and what each step should give.

What steps compute: trainlib.elementwise.optimizers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import (
    ElementwiseArguments,
    Operation,
    map_f32,
    map_families,
    map_nest,
    map_pairs,
    no_macs,
    packed,
    tiled_map,
)
from trainlib.elementwise.optimizers import (
    AdamStep,
    accumulate,
    accumulate_pairs,
    adam_corrections_f32,
    rate_of,
    sgd,
    sgd_momentum,
    sgd_pairs,
)
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import BF16, ELEMENTS, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import Address, Addresses, Arrays, Tensor, Tensors
from trainlib.reference import optimizers as reference
from trainlib.reference.activations import Outputs
from trainlib.reference.halves import add, multiply_add, rounded_once

Beta = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["operand"]
OF_ALL = ("lr", "gradient", "unscale", "halves")
"""Arguments of all optimisers."""
BY_NAME = {element.name: element for element in ELEMENTS}


class SgdArguments(ElementwiseArguments):
    """lr          a number, or "operand": a word, the operand lr, which steps may change
    gradient    type of g, for weights in f32; else that of the weights
    unscale     g is multiplied by the operand inverse, that of a loss scale, before all else
    halves      a type that new weights in f32 are stored in, too: the operand h
    """

    lr: Rate
    gradient: Literal["f16", "bf16"] | None = None
    unscale: bool = False
    halves: Literal["f16", "bf16"] | None = None
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)


class MomentumArguments(SgdArguments):
    momentum: float = Field(gt=0, le=1)
    nesterov: bool = False


class AccumulateArguments(ElementwiseArguments):
    scale: float = Field(1.0, allow_inf_nan=False)


class AdamArguments(SgdArguments):
    lr: Rate = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0, allow_inf_nan=False)


class AdamwArguments(AdamArguments):
    weight_decay: float = Field(1e-2, ge=0, allow_inf_nan=False)


def _unscaled(operation: Operation, inverse: Address) -> Operation:
    """The same, with the gradient multiplied by a word first."""

    def scaled(k: Kernel) -> Body:
        own, factor = operation(k), k.f()
        with k.scope():
            base = k.x()
            k.set(base, inverse)
            k.fload(factor, 0, base)

        def body(v: Lanes, *values: Lane) -> Sequence[Lane]:
            v.fmul_s(values[-1], values[-1], factor)
            return own(v, *values)

        return body

    return scaled


def _copied(operation: Operation) -> Operation:
    """The same, with new weights as the last result, too: by then they are stored."""

    def copied(k: Kernel) -> Body:
        own = operation(k)

        def body(v: Lanes, *values: Lane) -> Sequence[Lane]:
            w, *states = own(v, *values)
            return [w, *states, w]

        return body

    return copied


def _family(
    element: Element,
    stem: str,
    arguments: type[ElementwiseArguments],
    names: str,
    operation: Callable[[Any, Addresses], Operation],
    expected: Callable[[Any, float, Arrays], Outputs],
    draw: Callable[[Any, np.random.Generator], Arrays] = lambda *_: {},
    pairs: Callable[[Element, Any], Operation | None] = lambda *_: None,
) -> Family:
    """An optimiser.

    names        of weights and state, which are overwritten
    operation    of a point, and addresses in L1
    expected     what they should be, given a point, its learning rate, and all inputs
    pairs        of a point, on two halves at a time, if any: with one rounding of w - lr g
    """
    name = f"{stem}_{element.name}"
    states = names.split()
    whole = ("corrections", "lr", "inverse")

    def tensors(point: Any) -> Tensors:
        if element.is_half and (point.gradient or point.unscale or point.halves):
            raise KernelError(
                f"{name}: gradient, unscale and halves are for weights in single precision; take "
                f"{stem}_f32"
            )
        of = {name: packed(point.shape, "inout", element) for name in states}
        more = {"corrections": Tensor((2,))} if "betas" in arguments.model_fields else {}
        more |= {"g": packed(point.shape, "in", gradient_of(point))}
        more |= {"inverse": Tensor((1,))} if point.unscale else {}
        if point.halves:
            more |= {"h": packed(point.shape, "out", BY_NAME[point.halves])}
        return {**of, **more, **({"lr": Tensor((1,))} if point.lr == "operand" else {})}

    def gradient_of(point: Any) -> Element:
        return element if point.gradient is None else BY_NAME[point.gradient]

    def meaning(point: Any, values: Arrays) -> dict[str, Expected]:
        if element.is_half and pairs(element, point):
            step = np.float32(-point.lr).astype(element.dtype).astype(np.float64)
            w, g = (values[name].astype(np.float64) for name in "wg")
            return {"w": (multiply_add(element.dtype, g, step, w), 0.0)}
        lr = float(values["lr"][0]) if point.lr == "operand" else point.lr
        if point.unscale:
            values = {**values, "g": values["g"].astype(np.float64) * float(values["inverse"][0])}
        results = dict(zip(states, expected(point, lr, values), strict=True))
        if point.halves:
            copied = rounded_once(BY_NAME[point.halves].dtype, {"h": results["w"]})
            return {**results, **copied}
        return rounded_once(element.dtype, results)

    def code(k: Kernel, team: Team, point: Any, l1: Addresses) -> float:
        read, written = ([l1[name] for name in some] for some in ((*states, "g"), states))
        element.check(k, name)
        count, unroll = prod(point.shape), point.unroll
        of_pairs = pairs(element, point) if element.is_half else None
        if of_pairs:
            return map_pairs(k, team, of_pairs, read, written, count, unroll=unroll)
        own = operation(point, l1)
        if point.gradient or point.unscale or point.halves:
            types = [*[element] * len(states), gradient_of(point)]
            types[-1].check(k, name)
            pairs_of = list(zip((read, written), (types, types[:-1]), strict=True))
            operands = [
                [Operand(a, (e.size,), element=e) for a, e in zip(*group, strict=True)]
                for group in pairs_of
            ]
            own = _unscaled(own, l1["inverse"]) if point.unscale else own
            if point.halves:
                half = BY_NAME[point.halves]
                half.check(k, name)
                operands[1].append(Operand(l1["h"], (half.size,), element=half))
                own = _copied(own)
            by_words = BF16.name in (point.gradient, point.halves)
            unroll *= 1 + by_words  # two halves are one load
            return map_nest(k, team, own, (count,), *operands, unroll=unroll, by_words=by_words)
        return map_f32(k, team, own, read, written, count, element=element, unroll=unroll)

    def drawn(point: Any, numbers: np.random.Generator) -> Arrays:
        rate = {"lr": numbers.uniform(0, 0.1, 1).astype(np.float32)}
        inverse = {"inverse": np.array([0.125], np.float32)} if point.unscale else {}
        return {**draw(point, numbers), **inverse, **(rate if point.lr == "operand" else {})}

    family = Family(name, arguments, tensors, meaning, no_macs, draw=drawn)
    return tiled_map(family, code, whole)


def _sgd(
    stem: str, arguments: type[ElementwiseArguments], names: str, of: Any, meaning: Any, **how: Any
) -> tuple[Family, ...]:
    """Of of(k, rate, **options), and meaning(*arrays, lr, **options); for each type."""
    options = [
        n for n in arguments.model_fields if n not in (*ElementwiseArguments.model_fields, *OF_ALL)
    ]

    def operation(point: Any, l1: Addresses) -> Operation:
        how = {name: getattr(point, name) for name in options}
        return partial(of, rate=rate_of(point.lr, l1), **how)

    def expected(point: Any, lr: float, values: Arrays) -> Outputs:
        how = {name: getattr(point, name) for name in options}
        return meaning(*(values[n] for n in (*names.split(), "g")), lr=lr, **how)

    own = stem, arguments, names, operation, expected
    return tuple(_family(element, *own, **how) for element in ELEMENTS)


def _adam(
    stem: str, arguments: type[ElementwiseArguments], *, is_decoupled: bool
) -> tuple[Family, ...]:
    def operation(point: Any, l1: Addresses) -> Operation:
        return AdamStep(l1, point, is_decoupled)

    def expected(point: Any, lr: float, values: Arrays) -> Outputs:
        return reference.adam(values, lr, point, is_decoupled)

    def draw(point: Any, numbers: np.random.Generator) -> Arrays:
        """State as after a few steps: squares are not negative."""
        betas = np.array(point.betas, np.float32)
        squares = numbers.standard_normal(point.shape, np.float32) ** 2
        return {"v": squares, "corrections": 1 - betas ** np.float32(4)}

    own = stem, arguments, "w m v", operation, expected
    return tuple(_family(element, *own, partial(_drawn, draw, element)) for element in ELEMENTS)


def _drawn(
    draw: Callable[..., Arrays], element: Element, point: Any, numbers: np.random.Generator
) -> Arrays:
    """Squares of a type."""
    found = draw(point, numbers)
    return {**found, "v": found["v"].astype(element.dtype)}


class CorrectionArguments(TiledArguments):
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
    *_sgd("sgd", SgdArguments, "w", sgd, reference.sgd, pairs=sgd_pairs),
    *_sgd("sgd_momentum", MomentumArguments, "w b", sgd_momentum, reference.sgd_momentum),
    *map_families(
        *("accumulate", accumulate, "g x", "g", reference.accumulate, AccumulateArguments),
        pairs=accumulate_pairs,
        rounds=lambda dtype, g, x: (add(dtype, g, x),),
    ),
    CORRECTIONS,
    *_adam("adam", AdamArguments, is_decoupled=False),
    *_adam("adamw", AdamwArguments, is_decoupled=True),
)
