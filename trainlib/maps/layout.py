"""Tensors added, multiplied, copied, transposed, padded: what moves data around layers."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.loops.nest import UNROLL, Body, Operand, row_major
from trainlib.maps.fill import fill_f32
from trainlib.maps.map import Operation, map_nest, no_macs
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.boxes import Axis, TileShape, Window
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tiled import tiled, tiled_by_axes
from trainlib.primitive.tiling import Dim
from trainlib.reference import layout as reference

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


def _broadcast(address: Address, dims: Dims, shape: Dims) -> Operand:
    """A tensor as one of a larger shape: where it has 1, there is no step."""
    own = (1,) * (len(shape) - len(dims)) + tuple(dims)
    steps = row_major(address, own).steps
    return Operand(address, tuple(s * (n > 1) for s, n in zip(steps, own, strict=True)))


def _binary(instruction: str) -> Operation:
    """One instruction of two values."""

    def operation(_: Kernel) -> Body:
        def body(v: Lanes, a: Lane, b: Lane) -> list[Lane]:
            y = next((value for value in (a, b) if isinstance(value, list)), None) or v.f()
            getattr(v, instruction)(y, a, b)
            return [y]

        return body

    return operation


def add_f32(
    k: Kernel,
    team: Team,
    a: Address,
    b: Address,
    y: Address,
    a_dims: Dims,
    b_dims: Dims,
    *,
    unroll: int = UNROLL,
) -> None:
    """y = a + b, broadcast: residual connections, biases."""
    _broadcast_f32(k, team, "fadd_s", (a, b, y), (a_dims, b_dims), unroll)


def multiply_f32(
    k: Kernel,
    team: Team,
    a: Address,
    b: Address,
    y: Address,
    a_dims: Dims,
    b_dims: Dims,
    *,
    unroll: int = UNROLL,
) -> None:
    """y = a b, element by element, broadcast: masks, scales."""
    _broadcast_f32(k, team, "fmul_s", (a, b, y), (a_dims, b_dims), unroll)


def _broadcast_f32(
    k: Kernel,
    team: Team,
    instruction: str,
    at: tuple[Address, Address, Address],
    dims: tuple[Dims, Dims],
    unroll: int,
) -> None:
    shape = broadcast_shape(*dims)
    sources = [_broadcast(a, own, shape) for a, own in zip(at, dims, strict=False)]
    target = row_major(at[2], shape)
    map_nest(k, team, _binary(instruction), shape, sources, [target], unroll=unroll)


def _copied(_: Kernel) -> Body:
    def body(_: Lanes, x: Lane) -> list[Lane]:
        return [x]

    return body


def transpose_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    dims: Dims,
    axes: Dims,
    *,
    unroll: int = UNROLL,
) -> None:
    """y = x with its dimensions in another order: dimension i of y is axes[i] of x."""
    shape = [dims[axis] for axis in axes]
    steps = row_major(x, dims).steps
    source = Operand(x, tuple(steps[axis] for axis in axes))
    map_nest(k, team, _copied, shape, [source], [row_major(y, shape)], unroll=unroll)


def pad_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    dims: Dims,
    before: Dims,
    after: Dims,
    *,
    value: float = 0.0,
    unroll: int = UNROLL,
) -> None:
    """y = x with so many elements of a value before and after it, in each dimension."""
    shape = [b + n + a for b, n, a in zip(before, dims, after, strict=True)]
    if any(before) or any(after):
        fill_f32(k, team, y, prod(shape), value=value)
        team.barrier()
    if 0 in dims:
        return
    steps = row_major(y, shape).steps
    shift = sum(n * step for n, step in zip(before, steps, strict=True))
    target = Operand(y, steps, shift=shift)
    map_nest(k, team, _copied, dims, [row_major(x, dims)], [target], unroll=unroll)


def residual_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    da: Address,
    db: Address,
    count: int,
    *,
    unroll: int = UNROLL,
) -> None:
    """da = db = dy: the gradients of a + b."""

    def operation(_: Kernel) -> Body:
        def body(_: Lanes, dy: Lane) -> list[Lane]:
            return [dy, dy]

        return body

    at = [Operand(address, (WORD,)) for address in (dy, da, db)]
    map_nest(k, team, operation, (count,), at[:1], at[1:], unroll=unroll)


class Arguments(CommonArguments):
    """A tensor of any shape.

    unroll    elements that are moved side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Field(min_length=1)
    unroll: int = Field(UNROLL, ge=1, le=8)


class BroadcastArguments(CommonArguments):
    """Two tensors whose shapes NumPy broadcasts to one; b's is a's if it is not said."""

    a: tuple[PositiveInt, ...] = Field(min_length=1)
    b: tuple[PositiveInt, ...] | None = Field(None, min_length=1)
    unroll: int = Field(UNROLL, ge=1, le=8)


class TransposeArguments(Arguments):
    """axes    dimension i of the result is axes[i] of x"""

    axes: tuple[NonNegativeInt, ...]


class PadArguments(Arguments):
    """before, after    elements that are added in each dimension; value: what they are"""

    before: tuple[NonNegativeInt, ...]
    after: tuple[NonNegativeInt, ...]
    value: float = 0.0


def _family(
    name: str,
    arguments: type[Any],
    tensors: Callable[[Any], Tensors],
    expects: Callable[[Any, Arrays], Sequence[Expected]],
    emit: Callable[..., None],
) -> Family:
    """emit(k, team, point, *addresses)."""

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        outputs = [n for n, tensor in tensors(point).items() if tensor.role == "out"]
        return dict(zip(outputs, expects(point, values), strict=True))

    def emit_l1(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        emit(k, team, point, *(l1[name] for name in tensors(point)))

    return Family(name, arguments, tensors, expected, no_macs, emit_l1)


def _pair(point: Any) -> tuple[Dims, Dims]:
    return point.a, point.b or point.a


def _broadcast_family(emitter: Callable[..., None], expects: Callable[..., Expected]) -> Family:
    def tensors(point: Any) -> Tensors:
        a, b = _pair(point)
        shape = broadcast_shape(a, b)
        return {"a": Tensor(tuple(a)), "b": Tensor(tuple(b)), "y": Tensor(shape, "out")}

    def emit(k: Kernel, team: Team, point: Any, *at: Address) -> None:
        emitter(k, team, *at, *_pair(point), unroll=point.unroll)

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

    family = _family(
        emitter.__name__,
        BroadcastArguments,
        tensors,
        lambda _, values: [expects(values["a"], values["b"])],
        emit,
    )
    return tiled(family, dims, boxes, smaller)


def _transposed(point: Any) -> Tensors:
    if sorted(point.axes) != list(range(len(point.shape))):
        raise KernelError(
            f"transpose: axes {point.axes} are not those of {len(point.shape)} dimensions"
        )
    shape = tuple(point.shape[axis] for axis in point.axes)
    return {"x": Tensor(point.shape), "y": Tensor(shape, "out")}


def _padded(point: Any) -> Tensors:
    if not len(point.before) == len(point.after) == len(point.shape):
        raise KernelError(
            f"pad: before {point.before} and after {point.after} are not for "
            f"{len(point.shape)} dimensions"
        )
    sides = zip(point.before, point.shape, point.after, strict=True)
    return {"x": Tensor(point.shape), "y": Tensor(tuple(map(sum, sides)), "out")}


def _emit_transpose(k: Kernel, team: Team, point: Any, x: Address, y: Address) -> None:
    transpose_f32(k, team, x, y, point.shape, point.axes, unroll=point.unroll)


def _emit_pad(k: Kernel, team: Team, point: Any, x: Address, y: Address) -> None:
    sides = point.before, point.after
    pad_f32(k, team, x, y, point.shape, *sides, value=point.value, unroll=point.unroll)


def _emit_residual_bw(
    k: Kernel, team: Team, point: Any, dy: Address, da: Address, db: Address
) -> None:
    residual_bw_f32(k, team, dy, da, db, prod(point.shape), unroll=point.unroll)


FAMILIES = (
    _broadcast_family(add_f32, reference.add),
    _broadcast_family(multiply_f32, reference.multiply),
    tiled_by_axes(
        _family(
            "residual_bw_f32",
            Arguments,
            lambda point: {
                "dy": Tensor(point.shape),
                "da": Tensor(point.shape, "out"),
                "db": Tensor(point.shape, "out"),
            },
            lambda _, values: [(values["dy"], 0.0)] * 2,
            _emit_residual_bw,
        )
    ),
    tiled(
        _family(
            "transpose_f32",
            TransposeArguments,
            _transposed,
            lambda point, values: [(values["x"].transpose(point.axes), 0.0)],
            _emit_transpose,
        ),
        lambda point: [Dim(f"d{axis}", n) for axis, n in enumerate(point.shape)],
        lambda point: {
            "x": [f"d{axis}" for axis in range(len(point.shape))],
            "y": [f"d{axis}" for axis in point.axes],
        },
        lambda _, shape: {"shape": shape.part("x").shape},
    ),
    tiled(
        _family(
            "pad_f32",
            PadArguments,
            _padded,
            lambda point, values: [reference.pad(values["x"], point)],
            _emit_pad,
        ),
        lambda point: [Dim(f"d{i}", n) for i, n in enumerate(_padded(point)["y"].shape)],
        lambda point: {
            "x": [Window(f"d{i}", 1, before=n) for i, n in enumerate(point.before)],
            "y": [f"d{i}" for i in range(len(point.shape))],
        },
        lambda _, tile: {n: getattr(tile.part("x"), n) for n in ("shape", "before", "after")},
    ),
)
