"""Interpolation of lines that are larger than L1: one direction after the other, as two phases.

Each direction alone is that of planes of one column, whose elements are all that lies beside each
other: so lines are cut, too. What lies between is in L2.
"""

from dataclasses import dataclass, replace

from trainlib.interpolate.planes import Planes
from trainlib.interpolate.sources import Method
from trainlib.interpolate.tiles import Emitter, Tiles
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.tensor import Tensor

BETWEEN = "one_way"


@dataclass(frozen=True)
class Directions:
    """How an interpolation is computed; see trainlib.interpolate.tiles.Tiles."""

    p: Planes
    method: Method
    emitter: Emitter
    names: tuple[str, str]
    is_backward: bool

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
        tiles = Tiles(p, self.method, self.emitter, self.names, self.is_backward)
        shapes = (p.shape(p.size), p.shape(p.out))[:: -1 if self.is_backward else 1]
        source, target = map(Tensor, shapes)
        tensors = dict(zip(self.names, (source, replace(target, role="out")), strict=True))
        return Phase(name, tiles.tiling(), tensors, {n: (place, 0) for n, place in at.items()})
