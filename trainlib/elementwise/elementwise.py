"""Maps: the same operation on every element of some tensors, and their families.

An operation is a function that takes registers for its constants, and returns the body of a nest;
a family's has its options as arguments. Halves are computed with in single precision, and rounded
when they are stored, unless there is an operation on pairs of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from firmware.arena import Arena
from firmware.builder import Kernel, KernelError
from firmware.runtime import Team, new_kernel
from soc.chip.spec import load_chip
from trainlib.codegen.loop_nest import UNROLL, Body, Nest
from trainlib.codegen.nest_operands import Operand
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import BITS, ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import WORD, Address, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.uniform_tiles import tiled_by_axes
from trainlib.reference.halves import rounded_once

Operation = Callable[[Kernel], Body]
PairsOf = Callable[..., Operation | None]
PAIR = 2
OF_TILES = ("shape", *TiledArguments.model_fields)  # what the code for an element does not follow
SAMPLE = 64  # elements of code that is made to know its cycles
CORES = 8  # of the chip for which tiles are chosen


def fits(k: Kernel, team: Team, emit: Callable[[Kernel, Team], Any]) -> bool:
    """Are there registers enough for what emit(k, team) would emit now?"""
    trial = Kernel(k.isa, Arena("L1", 0, 0), Arena("L2", 0, 0), name=k.name)
    trial.registers.hold(*k.registers.live)
    try:
        emit(trial, Team(trial, team.cores))
    except KernelError:
        return False
    return True


def fitting(k: Kernel, team: Team, emit: Callable[[Kernel, Team, int], Any], unroll: int) -> Any:
    """Emit with the largest unrolling that the registers allow, return emit(k, team, unroll).

    raises    KernelError if not even one element fits
    """

    def trial(k: Kernel, team: Team) -> None:
        emit(k, team, unroll)

    while unroll > 1 and not fits(k, team, trial):
        unroll -= 1
    return emit(k, team, unroll)


def fitting_pointers(
    k: Kernel, team: Team, emit: Callable[[Kernel, Team, int, bool], Any], unroll: int
) -> Any:
    """The same of emit(k, team, unroll, borrows), where registers of addresses may be pointers: if
    no others are left.
    """

    def plain(k: Kernel, team: Team) -> None:
        emit(k, team, unroll, False)

    borrows = not fits(k, team, plain)
    return fitting(k, team, lambda k, team, width: emit(k, team, width, borrows), unroll)


def map_nest(
    k: Kernel,
    team: Team,
    operation: Operation,
    dims: Sequence[int],
    sources: Sequence[Operand],
    targets: Sequence[Operand],
    *,
    late: Sequence[int] = (),
    windows: Sequence[int] = (),
    is_ordered: bool = False,
    loops: bool = False,
    by_words: bool = False,
    unroll: int = UNROLL,
) -> float:
    """Results of an operation go to targets, in a space of any dimensions: see Nest.

    Returns the cycles of a core for an element.
    """

    def emit(k: Kernel, team: Team, width: int, borrows: bool) -> float:
        how: Any = {"late": late, "windows": windows, "is_ordered": is_ordered, "loops": loops}
        how["by_words"] = by_words and width % 2 == 0
        return emit_nest(k, team, operation, dims, sources, targets, width, borrows, **how)

    return float(fitting_pointers(k, team, emit, unroll))


def emit_nest(
    k: Kernel,
    team: Team,
    operation: Operation,
    dims: Sequence[int],
    sources: Sequence[Operand],
    targets: Sequence[Operand],
    unroll: int,
    borrows: bool,
    **how: Any,
) -> float:
    """The same with that unrolling, for which there must be registers: see Nest."""
    with k.scope():
        nest = Nest(k, team, dims, sources, targets, borrows=borrows, unroll=unroll, **how)
        nest.split_work()
        nest.start()
        nest.run(operation(k))
    return nest.cycles


def map_f32(
    k: Kernel,
    team: Team,
    operation: Operation,
    sources: Sequence[Address],
    targets: Sequence[Address],
    count: int,
    *,
    element: Element = F32,
    late: Sequence[int] = (),
    unroll: int = UNROLL,
) -> float:
    """Results of an operation on sources[0][i], sources[1][i], ... for i < count go to targets.

    Returns the cycles of a core for an element.
    """
    operands = [
        [Operand(a, (element.size,), element=element) for a in group]
        for group in (sources, targets)
    ]
    return map_nest(k, team, operation, (count,), *operands, late=late, unroll=unroll)


def map_pairs(
    k: Kernel,
    team: Team,
    operation: Operation,
    sources: Sequence[Address],
    targets: Sequence[Address],
    count: int,
    *,
    unroll: int = UNROLL,
) -> float:
    """The same for an operation on pairs of halves, which the last half of an odd count is too."""
    both = sources, targets
    pairs, rest = divmod(count, PAIR)
    cycles = 0.0
    if pairs:
        words = [[Operand(a, (WORD,)) for a in group] for group in both]
        cycles = map_nest(k, team, operation, (pairs,), *words, unroll=unroll)
    if rest:
        last = [[Operand(a, (0,), shift=WORD * pairs, element=BITS) for a in g] for g in both]
        map_nest(k, team, operation, (1,), *last, unroll=1)
    return cycles / PAIR


class ElementwiseArguments(TiledArguments):
    """Tensors of one shape, element by element.

    unroll    elements that are computed side by side, if registers allow
    """

    shape: tuple[PositiveInt, ...] = Field(min_length=1)
    unroll: int = Field(UNROLL, ge=1, le=8)


def map_family(
    name: str,
    operation: Callable[..., Body],
    inputs: str,
    outputs: str,
    reference: Callable[..., Any],
    arguments: type[ElementwiseArguments] = ElementwiseArguments,
    *,
    late: Sequence[int] = (),
    element: Element = F32,
    pairs: PairsOf | None = None,
    rounds: Callable[..., tuple[np.ndarray, ...]] | None = None,
) -> Family:
    """The family of an operation(k, **options).

    inputs, outputs    names of tensors, in the operation's order; those in both are overwritten
    reference          of arrays of the inputs, with the options: what each output should be
    arguments          those that ElementwiseArguments does not have are options
    late               inputs that the operation loads itself: see Nest
    pairs              given the type of halves and the options, the operation on pairs, if any
    rounds             given their dtype and arrays in float64, what that makes of them, if that is
                       not what the reference says, rounded once
    """
    sources, targets = inputs.split(), outputs.split()
    options = [
        name for name in arguments.model_fields if name not in ElementwiseArguments.model_fields
    ]

    def chosen(point: Any) -> dict[str, Any]:
        return {name: getattr(point, name) for name in options}

    def tensors(point: Any) -> Tensors:
        roles: dict[str, Role] = dict.fromkeys(targets, "out")
        roles |= {name: "inout" if name in targets else "in" for name in sources}
        names = dict.fromkeys([*sources, *targets])
        return {name: packed(point.shape, roles[name], element) for name in names}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        if element.is_half and pairs and rounds and pairs(element, **chosen(point)):
            arrays = (values[name].astype(np.float64) for name in sources)
            return {
                n: (y, 0.0) for n, y in zip(targets, rounds(element.dtype, *arrays), strict=True)
            }
        results = reference(*(values[name] for name in sources), **chosen(point))
        return rounded_once(element.dtype, dict(zip(targets, results, strict=True)))

    def code(k: Kernel, team: Team, point: Any, l1: Addresses) -> float:
        element.check(k, name)
        read, written = ([l1[name] for name in names] for names in (sources, targets))
        count, unroll = prod(point.shape), point.unroll
        of_pairs = pairs(element, **chosen(point)) if element.is_half and pairs else None
        if of_pairs:
            return map_pairs(k, team, of_pairs, read, written, count, unroll=unroll)
        own = partial(operation, **chosen(point))
        how: Any = {"element": element, "late": late, "unroll": unroll}
        return map_f32(k, team, own, read, written, count, **how)

    return tiled_map(Family(name, arguments, tensors, expected, no_macs), code)


def tiled_map(
    family: Family,
    code: Callable[[Kernel, Team, Any, Addresses], float],
    whole: Sequence[str] = (),
) -> Family:
    """The family with this code, and tiles whose sizes are chosen by its cycles.

    code     emits the family's code, and returns the cycles of a core for an element
    whole    see tiled_by_axes
    """

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        code(k, team, point, l1)

    @cache
    def rate(options: tuple[tuple[str, Any], ...]) -> float:
        point = family.arguments.model_validate({**dict(options), "shape": (SAMPLE,)})
        k = new_kernel(load_chip("pulp"))
        l1 = {name: k.l1.take(name, WORD * SAMPLE) for name in family.tensors(point)}
        return CORES / code(k, Team(k, 1), point, l1)

    def rate_of(point: Any) -> float:
        return rate(tuple((name, value) for name, value in point if name not in OF_TILES))

    return tiled_by_axes(replace(family, emit_l1=emit), whole, rate=rate_of)


def map_families(stem: str, *of: Any, **how: Any) -> tuple[Family, ...]:
    """The families stem_f32, stem_f16, stem_bf16: see map_family."""
    return tuple(
        map_family(f"{stem}_{element.name}", *of, element=element, **how) for element in ELEMENTS
    )


def packed(shape: tuple[int, ...], role: Role, element: Element) -> Tensor:
    """A tensor whose elements follow each other in L1."""
    return Tensor(shape, role, element.dtype, packed=element.is_half)


def no_macs(_: Any) -> int:
    return 0
