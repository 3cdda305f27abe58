"""Interpolation of lines that are larger than L1: one direction after the other, as two phases.

Each direction alone is that of planes of one column, whose elements are all that lies beside each
other: so lines are cut, too. What lies between is in L2.
"""

from dataclasses import dataclass

from trainlib.elementwise.elementwise import packed
from trainlib.elementwise.rounded_sums import with_rounded_sums
from trainlib.interpolate.interpolate import Planes, copies
from trainlib.interpolate.tiles import Emitter, Tiles
from trainlib.interpolate.weights import Method
from trainlib.primitive.element import F32, Element
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.tensor import Role

BETWEEN = "one_way"
ROLES: tuple[Role, Role] = ("in", "out")


@dataclass(frozen=True)
class Directions:
    """How an interpolation is computed; see trainlib.interpolate.tiles.Tiles."""

    p: Planes
    method: Method
    emitter: Emitter
    names: tuple[str, str]
    is_backward: bool
    element: Element = F32

    def phases(self) -> Phases:
        """Rows, then columns."""
        rows, columns = self._planes()
        parts = [("rows", rows), ("columns", columns)]
        if rows.size == rows.out:
            parts = parts[1:]
        source, target = self.names
        places = [source, *[BETWEEN] * (len(parts) - 1), target]
        each = [
            self._phase(name, planes, dict(zip(self.names, places[number:], strict=False)))
            for number, (name, planes) in enumerate(parts)
        ]
        between = each[0].tensors[target].size
        return Phases(each, {BETWEEN: between} if len(parts) > 1 else {})

    def _planes(self) -> tuple[Planes, Planes]:
        """Those of rows, and of columns when rows are done."""
        p = self.p
        width, height = (p.out[1], p.size[0]) if self.is_backward else (p.size[1], p.out[0])
        planes, beside = (p.b * p.c, 1) if p.layout == "chw" else (p.b, p.c)
        rows = Planes(planes, width * beside, (p.size[0], 1), (p.out[0], 1), "hwc")
        return rows, Planes(planes * height, beside, (p.size[1], 1), (p.out[1], 1), "hwc")

    def _phase(self, name: str, p: Planes, at: dict[str, str]) -> Phase:
        """What lies between is single precision; so are sums until they are whole."""
        order = -1 if self.is_backward else 1
        types = [F32 if place == BETWEEN else self.element for place in at.values()]
        shapes = (p.shape(p.size), p.shape(p.out))[::order]
        given, result = (packed(*of) for of in zip(shapes, ROLES, types, strict=True))
        tensors = dict(zip(self.names, (given, result), strict=True))
        is_sum = self.is_backward and types[1].is_half and not copies(p, self.method)
        own = (types[0], F32) if is_sum else types
        p.elements = own[::order][0], own[::order][1]
        tiling = Tiles(p, self.method, self.emitter, self.names, self.is_backward).tiling()
        if is_sum:
            tiling = with_rounded_sums(tiling, tensors, types[1], self.names[1:], True)
        return Phase(name, tiling, tensors, {n: (place, 0) for n, place in at.items()})
