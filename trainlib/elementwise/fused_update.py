"""Updates of parameters that are fused with their gradients: whole sums, times a factor, are added.

A primitive that sums over tiles does so in buffers of L1; after the last tile of a sum, the factor
times it is added to the tile's part of the parameter. With a factor of -lr that is the step of SGD,
rounded as by a pass of its own, of which the gradient never comes to L2. With a momentum, the sum
goes into that of the parameter first, which is added in its place.
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
from firmware.lanes import Lane, Lanes, constant
from firmware.registers import SP
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.elementwise import map_f32
from trainlib.elementwise.optimizers import rate_of
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.slices import Axis, Sized, TileShape
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.reference import optimizers
from trainlib.reference.activations import bounded
from trainlib.reference.tolerances import ROUNDING

FRAME = 16  # bytes of stack
Factor = Annotated[float, Field(allow_inf_nan=False)] | Literal["operand"] | None
"""What whole gradients are multiplied by before they are added; "operand": a word in memory; None:
they are not added, but stored."""


class Updating(TiledArguments):
    """How gradients change what their results hold: parameters w.

    scale           w += scale times the whole gradient g; with -lr, a step of SGD. "operand": a
                    word, the operand scale
    momentum        b = momentum b + g, w += scale b: b is the operand bW of dW, bbias of dbias
    nesterov        w += scale (g + momentum b) then
    weight_decay    weight_decay w is added to g before
    """

    scale: Factor = None
    momentum: float = Field(0.0, ge=0, le=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)

    @property
    def is_summed(self) -> bool:
        """Are gradients summed up in buffers before they change w?"""
        return self.scale is not None

    @property
    def is_plain(self) -> bool:
        """Is the gradient alone added?"""
        return not self.momentum and not self.weight_decay

    def check_update(self, name: str) -> None:
        """raises    KernelError for arguments that say nothing together"""
        if self.scale is None and not self.is_plain:
            raise KernelError(f"{name}: momentum or weight_decay without scale; give -lr as scale")
        if self.nesterov and not self.momentum:
            raise KernelError(f"{name}: nesterov without a momentum; it looks ahead along that")
        if self.scale is not None and getattr(self, "accumulate", False):
            raise KernelError(f"{name}: accumulate and scale; scale adds, leave one out")


def with_update(family: Family, results: tuple[str, ...]) -> Family:
    """The family, whose arguments are Updating: with a scale, results are read and overwritten.

    results    its gradients, those that arguments leave out included
    """

    def tensors(point: Any) -> Tensors:
        point.check_update(family.name)
        found = dict(family.tensors(point))
        if not point.is_summed:
            return found
        for name in [name for name in results if name in found]:
            found[name] = replace(found[name], role="inout")
            if point.momentum:
                found[momentum_of(name)] = found[name]
        return found | ({"scale": Tensor((1,))} if point.scale == "operand" else {})

    def tiling(point: Any) -> Tiling:
        assert family.tiling
        own = family.tiling(point)
        return _summing(own, family.tensors(point), results, point) if point.is_summed else own

    def phases(point: Any) -> Phases:
        assert family.phases
        if point.scale is not None:
            raise KernelError(f"{family.name}: scale, where no tile of all of it fits L1; leave it")
        return family.phases(point)

    def reference(point: Any, values: Arrays) -> Mapping[str, Expected]:
        expected = family.reference(point, values)
        if not point.is_summed:
            return expected
        if point.is_plain:
            return stepped(point.scale, expected, values)
        return _with_momentum(point, expected, values)

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


def momentum_of(result: str) -> str:
    """The operand that is the momentum of what dW or dbias is: bW, bbias."""
    return f"b{result[1:]}"


def _with_momentum(
    point: Updating, gradients: Mapping[str, Expected], values: Arrays
) -> dict[str, Expected]:
    """The same with momentum and decay: gradients are off by their own bounds, too."""
    factor = float(values["scale"][0]) if point.scale == "operand" else float(point.scale or 0)
    found: dict[str, Expected] = {}
    for name, (exact, bound) in gradients.items():
        w = values[name]
        g, off = np.asarray(exact).reshape(w.shape), np.asarray(bound).reshape(w.shape)
        if not point.momentum:
            (stepped_w,) = optimizers.sgd(w, g, -factor, point.weight_decay)
            found[name] = stepped_w[0], stepped_w[1] + abs(factor) * off
            continue
        b = values[momentum_of(name)]
        how = point.momentum, point.weight_decay, point.nesterov
        stepped_w, stepped_b = optimizers.sgd_momentum(w, b, g, -factor, *how)
        reach = 1 + point.momentum if point.nesterov else 1
        found[name] = stepped_w[0], stepped_w[1] + abs(factor) * reach * off
        found[momentum_of(name)] = stepped_b[0], stepped_b[1] + off
    return found


def _summing(own: Tiling, tensors: Tensors, results: tuple[str, ...], point: Any) -> Tiling:
    """The tiling, whose results are sums in buffers until their last tile."""
    names = [name for name in results if name in own.boxes]
    held = {name: [momentum_of(name)] if point.momentum else [] for name in names}
    boxes = dict(own.boxes) | ({"scale": (None,)} if point.scale == "operand" else {})
    boxes |= {state: own.boxes[name] for name in names for state in held[name]}

    def scratch(sizes: Sized) -> dict[str, Any]:
        sums = {_sums(n): words_of_box(own.boxes[n], tensors[n], sizes) for n in names}
        return sums | (own.scratch(sizes) if own.scratch else {})

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        written = {name: [at[each] for each in (name, *held[name])] for name in names}
        with addresses_on_stack(k, [address for some in written.values() for address in some]):
            own.emit(k, team, tile, {**at, **{name: at[_sums(name)] for name in names}})
        if tile.is_last:
            team.barrier()
            for name in names:
                read = [at[_sums(name)], *written[name]]
                count = tile.part(name).elements
                map_f32(k, team, _addition(point, at), read, written[name], count)

    how: Any = {"boxes": boxes, "emit": emit, "scratch": scratch, "alone": lambda: None}
    return replace(own, **how, tells_last=True, told=None)


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


def _addition(point: Updating, at: Addresses) -> Any:
    """Change w, and its momentum b if it has one, by the sum of a gradient."""
    load = rate_of(point.scale or 0.0, {"lr": at.get("scale", 0)})

    def operation(k: Kernel) -> Body:
        factor = load(k)
        decay = constant(k, point.weight_decay) if point.weight_decay else None
        keeps = constant(k, point.momentum) if point.momentum else None

        def body(v: Lanes, total: Lane, w: Lane, *b: Lane) -> list[Lane]:
            if decay:
                v.fmadd_s(total, w, decay, total)
            for held in b:
                v.fmadd_s(held, held, keeps, total)
                if point.nesterov:
                    v.fmadd_s(total, held, keeps, total)
            v.fmadd_s(w, b[0] if b and not point.nesterov else total, factor, w)
            return [w, *b]

        return body

    return operation
