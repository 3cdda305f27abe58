"""Tiles of the phases of a layer: each has its own, whatever those of the others are.

A point says for some phases which tiles they have, the primitive chooses the others' itself. Since
phases follow each other, a point that says something else of each is a measurement of all of them:
there are as many points as the phase with most tiles has, not as many as combinations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotuner.point import Items, Layer
from autotuner.schedule_size import Tables
from autotuner.tile_candidates import Estimates, fitting_tiles, tried_that_fit
from firmware.builder import Kernel
from trainlib.primitive.phases import Phase
from trainlib.tiling.tile_size import Choice, Grid

MOST_OF_PHASE = 64
"""Tiles of a phase: those that trainlib expects the fewest cycles of."""


@dataclass(frozen=True)
class PhaseTiles:
    """What can be said of phases.

    own        what the layer says itself: of each point
    choices    by phase, its tiles and trainlib's estimates, the most promising first
    """

    own: Items
    choices: Mapping[str, list[tuple[Items, float]]]

    @classmethod
    def of(
        cls, layer: Layer, k: Kernel, sizes: int, buffers: int, cores: int
    ) -> "PhaseTiles | None":
        """Those that fit; None if a phase has none.

        k        a program with the layer's tensors in L2
        sizes    of each dimension, at most
        """
        assert layer.family.phases is not None
        point = layer.checked({}).on(cores)
        phases, given = layer.family.phases(point), point.tile or {}
        left = k.l2.left - sum(phases.between.values())
        choices: dict[str, list[tuple[Items, float]]] = {}
        for name, alike in phases.named.items():
            tables = list(map(Tables, _grids(alike, k, given, sizes, buffers)))
            found = next(filter(None, _fitting(tables, cores, left, len(phases.each))), None)
            if found is None:
                return None
            choices[name] = _said(name, found, given)
        return cls(tuple(given.items()), choices)

    def __len__(self) -> int:
        return 1 + max((len(tiles) for tiles in self.choices.values()), default=0)

    def estimates(self) -> Iterator[tuple[Items, float]]:
        """Tiles of points, and trainlib's estimates of their cycles.

        First nothing is said of any phase, then the most promising of each, then the next ones.
        """
        best = {name: tiles[0][1] for name, tiles in self.choices.items() if tiles}
        yield self.own, sum(best.values())
        for number in range(len(self) - 1):
            some = {name: t[number] for name, t in self.choices.items() if number < len(t)}
            cycles = best | {name: expected for name, (_, expected) in some.items()}
            yield self.joined({n: tile for n, (tile, _) in some.items()}), sum(cycles.values())

    def joined(self, tiles: Mapping[str, Items]) -> Items:
        """What the layer says, and tiles of phases by their names."""
        said = (item for name in self.choices for item in tiles.get(name, ()))
        return (*self.own, *said)

    def parts(self, tile: Items) -> dict[str, Items]:
        """What a point's tile says of each phase."""
        said = tile[len(self.own) :]
        return {
            name: tuple(item for item in said if item[0].startswith(f"{name}."))
            for name in self.choices
        }

    def allows(self, tile: Items) -> bool:
        """Does it fit?"""
        parts = self.parts(tile).items()
        return all(not part or part in dict(self.choices[name]) for name, part in parts)


def _grids(
    alike: Sequence[Phase], k: Kernel, given: Mapping[str, int], sizes: int, buffers: int
) -> list[Grid]:
    """Return the grids of phases of one name, the one with the largest dimensions first."""
    grids: list[Grid] = []
    for phase in sorted(alike, key=lambda phase: -sum(dim.most for dim in phase.tiling.dims)):
        dims = phase.tiling.dims
        choice = Choice(k.name, phase.tiling, phase.tensors, buffers, k.l1, 0)
        same = grids[0].tried if grids else tried_that_fit(choice, phase.sizes(given), sizes)
        own = [[min(size, dim.most) for size in some] for dim, some in zip(dims, same, strict=True)]
        grids.append(Grid(choice, own))
    return grids


def _fitting(alike: list[Tables], cores: int, left: int, phases: int) -> Iterator[Estimates]:
    """Yield tiles that fit in an equal share of L2, then in all of it; few before many."""
    for l2 in (left // phases, left):
        for are_few in (True, False):
            yield fitting_tiles(alike, cores, l2, are_few=are_few)


def _said(phase: str, tiles: Estimates, given: Mapping[str, int]) -> list[tuple[Items, float]]:
    """Return a phase's tiles as items of points, most promising first; none if all is given."""
    found: dict[Items, float] = {}
    for tile, cycles in sorted(tiles.items(), key=lambda tile: tile[1]):
        names = ((f"{phase}.{dim}", dim, size) for dim, size in tile)
        said = tuple((n, size) for n, dim, size in names if n not in given and dim not in given)
        if said:
            found.setdefault(said, cycles)
    return list(found.items())[:MOST_OF_PHASE]
