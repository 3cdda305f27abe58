"""Sums, differences, products, quotients of shapes that NumPy broadcasts: residuals, scales."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes
from firmware.registers import Register
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Operand, row_major
from trainlib.codegen.pairs import in_words
from trainlib.elementwise.activations import clip, clip_pairs
from trainlib.elementwise.elementwise import Operation, map_nest, map_pairs, no_macs, packed
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reference import data_movement as reference
from trainlib.reference.halves import add, divide, multiply, subtract

Dims = Sequence[int]


def broadcast_shape(a: Dims, b: Dims) -> tuple[int, ...]:
    """The shape that NumPy broadcasts both to.

    raises    KernelError if there is none
    """
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)
    shape = []
    for m, n in pairs:
        if m != n and 1 not in (m, n):
            raise KernelError(f"broadcast: shapes {tuple(a)} and {tuple(b)} do not fit each other")
        shape.append(max(m, n))
    return tuple(shape)


def _broadcast(address: Address, dims: Dims, shape: Dims, element: Element) -> Operand:
    """A tensor as one of a larger shape: where it has 1, there is no step."""
    own = (1,) * (len(shape) - len(dims)) + tuple(dims)
    steps = row_major(address, own, element).steps
    found = tuple(s * (n > 1) for s, n in zip(steps, own, strict=True))
    return Operand(address, found, element=element)


def _binary(name: str, relu: bool, element: Element, pairs: Sequence[bool]) -> Operation:
    """One instruction of two values, and 0 for a result below 0 if there is a ReLU.

    pairs    which values are pairs of halves, the other is one that both take
    """
    repeats = "_r" if any(pairs) and not all(pairs) else ""
    if name == "fsub" and repeats and pairs[1]:
        instruction = f"vfsub_{element.letter}"
    else:
        instruction = f"{'v' * any(pairs)}{name}{repeats}_{element.letter}"

    def operation(_: Kernel) -> Body:
        def body(v: Lanes, a: Lane, b: Lane) -> list[Lane]:
            if repeats and pairs[1]:
                a, b = (twice(v, a), b) if name == "fsub" else (b, a)
            y = next((value for value in (a, b) if isinstance(value, list)), None) or v.f()
            getattr(v, instruction)(y, a, b)
            if relu:
                (clip_pairs if element.is_half else clip)(v, y)
            return [y]

        return body

    return operation


def twice(v: Lanes, half: Lane | Register) -> Lane:
    """Registers with a half in both halves of their words."""
    pairs = v.x()
    v.mv(pairs, half)
    v.p_insert(pairs, pairs, 15, 16)
    return pairs


def broadcast_f32(
    k: Kernel,
    team: Team,
    name: str,
    a: Address,
    b: Address,
    y: Address,
    a_dims: Dims,
    b_dims: Dims,
    *,
    relu: bool = False,
    element: Element = F32,
    unroll: int = UNROLL,
) -> None:
    """y = a + b (residual connections, biases), a b (masks, scales), a - b or a / b, broadcast.

    name    of the instruction: "fadd", "fmul", "fsub" or "fdiv"; there is no division of halves:
            quotients are single precision, rounded
    relu    0 where the result is less
    """
    element.check(k, f"{name}_{element.name}")
    shape = broadcast_shape(a_dims, b_dims)
    if element.is_half and name == "fdiv":
        both = [_broadcast(a, a_dims, shape, element), _broadcast(b, b_dims, shape, element)]
        quotient = _binary(name, relu, F32, (False, False))
        target = row_major(y, shape, element)
        map_nest(k, team, quotient, shape, both, [target], unroll=unroll)
        return
    if element.is_half and tuple(a_dims) == tuple(b_dims):
        own = _binary(name, relu, element, (True, True))
        map_pairs(k, team, own, [a, b], [y], prod(shape), unroll=unroll)
        return
    own_dims = (a, a_dims), (b, b_dims)
    sources = [_broadcast(*each, shape, element.moved) for each in own_dims]
    target = row_major(y, shape, element.moved)
    map_halves(k, team, partial(_binary, name, relu, element), shape, sources, [target], unroll)


def map_halves(
    k: Kernel,
    team: Team,
    operation: Callable[[Sequence[bool]], Operation],
    dims: Dims,
    sources: list[Operand],
    targets: list[Operand],
    unroll: int,
) -> None:
    """A nest of words, or of halves that are words by pairs, or are not.

    operation    given which sources are pairs
    """
    is_half = targets[0].element.is_half
    dims, sources, targets = (
        is_half and in_words(dims, sources, targets) or (dims, sources, targets)
    )
    pairs = [is_half and not source.element.is_half for source in sources]
    map_nest(k, team, operation(pairs), dims, sources, targets, unroll=unroll)


class BroadcastArguments(TiledArguments):
    """Two tensors whose shapes NumPy broadcasts to one; b's is a's if it is not said."""

    a: tuple[PositiveInt, ...] = Field(min_length=1)
    b: tuple[PositiveInt, ...] | None = Field(None, min_length=1)
    unroll: int = Field(UNROLL, ge=1, le=8)


class AddArguments(BroadcastArguments):
    """relu    the sum is 0 where it would be less"""

    relu: bool = False


def family_of(
    element: Element,
    stem: str,
    arguments: type[Any],
    plain_tensors: Callable[[Any], Tensors],
    expects: Callable[[Any, Arrays], Sequence[Expected]],
    emit: Callable[..., None],
) -> Family:
    """emit(k, team, point, *addresses, element=element)."""

    def tensors(point: Any) -> Tensors:
        of = plain_tensors(point).items()
        return {name: packed(tensor.shape, tensor.role, element) for name, tensor in of}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        outputs = [n for n, tensor in tensors(point).items() if tensor.role == "out"]
        return dict(zip(outputs, expects(point, values), strict=True))

    def emit_l1(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        element.check(k, name)
        emit(k, team, point, *(l1[name] for name in tensors(point)), element=element)

    name = f"{stem}_{element.name}"
    return Family(name, arguments, tensors, expected, no_macs, emit_l1)


def _pair(point: Any) -> tuple[Dims, Dims]:
    return point.a, point.b or point.a


def _broadcast_family(
    element: Element,
    stem: str,
    instruction: str,
    expects: Callable[..., Expected],
    rounds: Callable[..., np.ndarray],
    arguments: type[BroadcastArguments] = BroadcastArguments,
) -> Family:
    """Of halves, what an output should be is rounds(dtype, a, b), or 0 where a ReLU makes it so."""
    common = BroadcastArguments.model_fields
    options = [name for name in arguments.model_fields if name not in common]

    def chosen(point: Any) -> dict[str, Any]:
        return {name: getattr(point, name) for name in options}

    def tensors(point: Any) -> Tensors:
        a, b = _pair(point)
        shape = broadcast_shape(a, b)
        return {"a": Tensor(tuple(a)), "b": Tensor(tuple(b)), "y": Tensor(shape, "out")}

    def expected(point: Any, values: Arrays) -> list[Expected]:
        a, b = values["a"], values["b"]
        if not element.is_half:
            return [expects(a, b, **chosen(point))]
        y = rounds(element.dtype, a.astype(np.float64), b.astype(np.float64))
        return [(np.maximum(y, 0) if getattr(point, "relu", False) else y, 0.0)]

    def emit(
        k: Kernel, team: Team, point: Any, a: Address, b: Address, y: Address, **how: Any
    ) -> None:
        how |= {"unroll": point.unroll, **chosen(point)}
        broadcast_f32(k, team, instruction, a, b, y, *_pair(point), **how)

    def dims(point: Any) -> list[Dim]:
        return [Dim(f"d{i}", n) for i, n in enumerate(broadcast_shape(*_pair(point)))]

    def box(shape: Dims, rank: int) -> list[Axis]:
        own = enumerate(shape, rank - len(shape))
        return [f"d{axis}" if n > 1 else None for axis, n in own]

    def boxes(point: Any) -> dict[str, list[Axis]]:
        a, b = _pair(point)
        rank = len(broadcast_shape(a, b))
        y: list[Axis] = [f"d{axis}" for axis in range(rank)]
        return {"a": box(a, rank), "b": box(b, rank), "y": y}

    def smaller(_: Any, shape: TileShape) -> dict[str, Any]:
        return {name: shape.part(name).shape for name in ("a", "b")}

    family = family_of(element, stem, arguments, tensors, expected, emit)
    return tiled(family, dims, boxes, smaller)


def families(element: Element) -> tuple[Family, ...]:
    """Those of this type."""
    return (
        _broadcast_family(element, "add", "fadd", reference.add, add, AddArguments),
        _broadcast_family(element, "multiply", "fmul", reference.multiply, multiply),
        _broadcast_family(element, "subtract", "fsub", reference.subtract, subtract),
        _broadcast_family(element, "divide", "fdiv", reference.divide, divide),
    )


FAMILIES = tuple(family for element in ELEMENTS for family in families(element))
