"""Elements at equal distances in memory, loaded a few at a time while a pointer steps on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmware.builder import Kernel, Register
from trainlib.primitive.element import load, load_post
from trainlib.primitive.tensor import WORD

MANY = 8  # elements
REACH = range(-2048, 2048)  # bytes that the offset or the step of a load says


@dataclass(frozen=True)
class Strided:
    """Elements e = 0 .. count-1 lie `across` bytes apart; then the pointer steps `along` bytes.

    item           bytes of an element
    is_unsigned    of halves: zeros come above them

    The way of loading them is that of way_of.
    """

    count: int
    across: int
    along: int
    item: int = WORD
    is_unsigned: bool = False

    @property
    def way(self) -> str:
        """How they are loaded."""
        return way_of(self.count, self.across, self.along)

    @property
    def constants(self) -> frozenset[int]:
        """Steps that must be in registers."""
        return constants_of(self.count, self.across, self.along)

    @property
    def order(self) -> tuple[int, ...]:
        """The elements in the order in which they are loaded.

        NOTE: many that lie together are loaded every other one first, the pace at which the DMA
        goes through the banks: a core at another pace would meet it on the way.
        """
        order = list(range(self.count))
        if self.across == WORD and self.count >= MANY and self.way != "walk":
            order = order[::2] + order[1::2]
        return tuple(order[1:] + order[:1] if self.way == "last" else order)

    def load(
        self, k: Kernel, rd: Register, element: int, p: Register, steps: Mapping[int, Register]
    ) -> None:
        """Load one element; every element once, in order. steps holds the constants."""
        way, is_last = self.way, element == self.count - 1
        kind: Any = {"is_unsigned": self.is_unsigned}
        if way == "walk" and self.count > 1:
            step = self.along - (self.count - 1) * self.across if is_last else self.across
            load_post(k, self.item, rd, steps.get(step, step), p, **kind)
        elif element == 0:
            load_post(k, self.item, rd, steps.get(self.along, self.along), p, **kind)
        else:
            offset = element * self.across - (self.along if way == "first" else 0)
            load(k, self.item, rd, offset, p, **kind)


@cache
def way_of(count: int, across: int, along: int) -> str:
    """How elements are loaded: by whichever way needs fewer registers for constants.

    first    element 0 steps, the others lie at offsets from the next place
    last     the others at offsets, then element 0 steps
    walk     each element steps to the next, the last one back and on
    """
    ends = {
        "first": ((count - 1) * across - along, across - along),
        "last": ((count - 1) * across,),
        "walk": (),
    }
    reaching = {way: count == 1 or all(end in REACH for end in ends[way]) for way in ends}
    return min(
        ends, key=lambda way: (not reaching[way], len(_constants(way, count, across, along)))
    )


@cache
def constants_of(count: int, across: int, along: int) -> frozenset[int]:
    """Steps that must be in registers for a Strided of these.

    NOTE: a function, since choosing the blocks of a product asks for it a thousand times.
    """
    return _constants(way_of(count, across, along), count, across, along)


def _constants(way: str, count: int, across: int, along: int) -> frozenset[int]:
    steps = {along}
    if way == "walk" and count > 1:
        steps = {across, along - (count - 1) * across}
    return frozenset(step for step in steps if step not in REACH)


def access_each(
    k: Kernel,
    access: Callable,
    floats: Mapping[int, Register],
    place: Register,
    moved: Register,
    scratch: Register,
) -> None:
    """Load or store floats at offsets from a place; moved and scratch may change."""
    pointer, at = place, 0
    for offset in sorted(floats):
        if offset - at not in REACH:
            k.add_constant(moved, pointer, offset - at, scratch)
            pointer, at = moved, offset
        access(floats[offset], offset - at, pointer)
