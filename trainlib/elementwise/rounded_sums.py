"""Results of halves that are sums: in single precision in L1 until they are whole, then rounded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import map_nest
from trainlib.elementwise.fused_update import addresses_on_stack, words_of_box
from trainlib.primitive.element import Element
from trainlib.primitive.operator import Family
from trainlib.primitive.slices import Sized, TileShape
from trainlib.primitive.tensor import WORD, Address, Addresses, Tensors
from trainlib.primitive.tile_spec import Tiling


def round_to(
    k: Kernel, team: Team, source: Address, target: Address, count: int, element: Element
) -> None:
    """target = source, float32 that becomes halves; both without gaps."""
    pair = [Operand(source, (WORD,))], [Operand(target, (element.size,), element=element)]
    map_nest(k, team, _copied, (count,), *pair)


def _copied(_: Kernel) -> Body:
    def body(_: Lanes, x: Lane) -> list[Lane]:
        return [x]

    return body


def rounded_sums(
    family: Family,
    element: Element,
    results: Sequence[str],
    *,
    each_tile: bool = False,
    where: Callable[[Any], bool] = lambda _: True,
) -> Family:
    """The family, whose code for a tile has these results in single precision.

    each_tile    are they whole after each tile? Else after the last one of a sum
    where        at which points they are sums
    """
    if not element.is_half:
        return family
    whole = family.tiling
    assert whole

    def tiling(point: Any) -> Tiling:
        if not where(point):
            return whole(point)
        return with_rounded_sums(whole(point), family.tensors(point), element, results, each_tile)

    return replace(family, tiling=tiling, emit_l1=None)


def with_rounded_sums(
    own: Tiling, tensors: Tensors, element: Element, results: Sequence[str], each_tile: bool
) -> Tiling:
    """The tiling, see rounded_sums."""

    def scratch(sizes: Sized) -> dict[str, Any]:
        of = {_sums(n): words_of_box(own.boxes[n], tensors[n], sizes) for n in results}
        return of | (own.scratch(sizes) if own.scratch else {})

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        with addresses_on_stack(k, [at[name] for name in results]):
            own.emit(k, team, tile, {**at, **{name: at[_sums(name)] for name in results}})
        if tile.is_last or each_tile:
            team.barrier()
            for name in results:
                count = tile.part(name).elements
                round_to(k, team, at[_sums(name)], at[name], count, element)

    tells_last = own.tells_last or not each_tile
    return replace(own, emit=emit, scratch=scratch, tells_last=tells_last)


def _sums(name: str) -> str:
    return f"{name} sums"
