"""Updates of parameters that are fused with their gradients: whole sums, times a factor, are added.

A primitive that sums over tiles does so in buffers of L1; after the last tile of a sum, the factor
times it is added to the tile's part of the parameter. With a factor of -lr that is the step of SGD,
rounded as by a pass of its own, of which the gradient never comes to L2.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import mul
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from firmware.builder import Kernel, KernelError, Register
from firmware.lanes import Lane, Lanes
from firmware.registers import SP
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import map_f32
from trainlib.elementwise.optimizers import rate_of
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.reference.activations import bounded
from trainlib.reference.tolerances import ROUNDING

FRAME = 16  # bytes of stack
Factor = Annotated[float, Field(allow_inf_nan=False)] | Literal["operand"] | None
"""What whole gradients are multiplied by before they are added; "operand": a word in memory; None:
they are not added, but stored."""


def with_update(family: Family, results: tuple[str, ...]) -> Family:
    """The family with an argument `scale`, a Factor: then its results are read and overwritten.

    results    its gradients, those that arguments leave out included
    """

    def tensors(point: Any) -> Tensors:
        found = dict(family.tensors(point))
        if point.scale is None:
            return found
        if getattr(point, "accumulate", False):
            raise KernelError(f"{family.name}: accumulate and scale; scale adds, leave one out")
        for name in found.keys() & {*results}:
            found[name] = replace(found[name], role="inout")
        return found | ({"scale": Tensor((1,))} if point.scale == "operand" else {})

    def tiling(point: Any) -> Tiling:
        assert family.tiling
        own = family.tiling(point)
        return own if point.scale is None else _summing(own, family.tensors(point), results, point)

    def phases(point: Any) -> Phases:
        assert family.phases
        if point.scale is not None:
            raise KernelError(f"{family.name}: scale, where no tile of all of it fits L1; leave it")
        return family.phases(point)

    def reference(point: Any, values: Arrays) -> Mapping[str, Expected]:
        expected = family.reference(point, values)
        return expected if point.scale is None else stepped(point.scale, expected, values)

    return replace(
        family,
        tensors=tensors,
        tiling=tiling,
        phases=phases if family.phases else None,
        reference=reference,
    )


def stepped(
    scale: float | str, gradients: Mapping[str, Expected], values: Arrays
) -> dict[str, Expected]:
    """What parameters become: gradients are rounded once or twice, and the sum once.

    values    parameters by their gradients' names; scale, if that is an operand
    """
    factor = float(values["scale"][0]) if scale == "operand" else float(scale)
    found = {}
    for name, (exact, bound) in gradients.items():
        step = (factor * exact).reshape(values[name].shape)
        rounding = abs(factor) * np.asarray(bound).reshape(step.shape) / ROUNDING
        found[name] = bounded(values[name] + step, values[name], 3 * step, rounding)
    return found


def _summing(own: Tiling, tensors: Tensors, results: tuple[str, ...], point: Any) -> Tiling:
    """The tiling, whose results are sums in buffers until their last tile."""
    names = [name for name in results if name in own.boxes]
    boxes = dict(own.boxes) | ({"scale": (None,)} if point.scale == "operand" else {})

    def scratch(sizes: Sized) -> dict[str, Any]:
        sums = {_sums(n): words_of_box(own.boxes[n], tensors[n], sizes) for n in names}
        return sums | (own.scratch(sizes) if own.scratch else {})

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        with addresses_on_stack(k, [at[name] for name in names]):
            own.emit(k, team, tile, {**at, **{name: at[_sums(name)] for name in names}})
        if tile.is_last:
            team.barrier()
            for name in names:
                pair = [at[_sums(name)], at[name]]
                add = _addition(point.scale, at)
                map_f32(k, team, add, pair, pair[1:], tile.part(name).elements)

    return replace(own, boxes=boxes, emit=emit, scratch=scratch, tells_last=True)


@contextmanager
def addresses_on_stack(k: Kernel, addresses: Sequence[Address]) -> Iterator[None]:
    """Let addresses that are in registers lie on the stack, while the body has their registers."""
    registers = [address for address in addresses if isinstance(address, Register)]
    if not registers:
        yield
        return
    k.addi(SP, SP, -FRAME)
    for number, register in enumerate(registers):
        k.sw(register, WORD * number, SP)
    with k.scope():
        k.free(*registers)
        yield
    for number, register in enumerate(registers):
        k.lw(register, WORD * number, SP)
    k.addi(SP, SP, FRAME)


def _sums(name: str) -> str:
    return f"{name} sums"


def words_of_box(box: tuple[Axis, ...], tensor: Tensor, sizes: Sized) -> Any:
    """Bytes of a tile's part of a tensor in words; sizes may be arrays."""
    lengths = (_length(*pair, sizes) for pair in zip(box, tensor.shape, strict=True))
    return reduce(mul, lengths, WORD)


def _length(axis: Axis, size: int, sizes: Sized) -> Any:
    if axis is None:
        return size
    if isinstance(axis, str):
        return sizes[axis]
    looks = np.vectorize(lambda n: len(axis.of(range(int(n)))))(sizes[axis.dim])
    return looks if np.ndim(looks) else int(looks)


def _addition(scale: float | str, at: Addresses) -> Any:
    load = rate_of(scale, {"lr": at.get("scale", 0)})

    def operation(k: Kernel) -> Body:
        factor = load(k)

        def body(v: Lanes, total: Lane, w: Lane) -> list[Lane]:
            v.fmadd_s(w, total, factor, w)
            return [w]

        return body

    return operation
