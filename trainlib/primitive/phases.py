"""Primitives whose tensors lie in L2, as phases: computations by tiles, one after the other.

Between phases, what one leaves to another lies in L2: in an output, or in a buffer of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firmware.builder import KernelError
from trainlib.primitive.tensor import Tensors
from trainlib.primitive.tile_spec import Sizes, Tiling


@dataclass(frozen=True)
class Phase:
    """A computation by tiles; its region has its name.

    tensors    of the tiling
    at         for each, which tensor or buffer it is a part of, and bytes after the start of that
    """

    name: str
    tiling: Tiling
    tensors: Tensors
    at: Mapping[str, tuple[str, int]]

    def sizes(self, tile: Sizes) -> dict[str, int]:
        """What holds for its dimensions: they may be smaller than those of other phases.

        "outputs.rows" holds for "rows" of the phase "outputs" alone, before what all have.
        """
        found = {}
        for dim in self.tiling.dims:
            size = tile.get(f"{self.name}.{dim.name}", tile.get(dim.name))
            if size is not None:
                found[dim.name] = min(size, dim.most)
        return found


@dataclass(frozen=True)
class Phases:
    """The phases of a primitive.

    each       in their order; those of the same name have the same sizes
    between    bytes of buffers in L2 by name
    """

    each: Sequence[Phase]
    between: Mapping[str, int] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, list[Phase]]:
        """They by their names."""
        found: dict[str, list[Phase]] = {}
        for phase in self.each:
            found.setdefault(phase.name, []).append(phase)
        return found

    @property
    def most(self) -> dict[str, int]:
        """The largest size of a tile: by dimension, and by phase and dimension."""
        common: dict[str, int] = {}
        own: dict[str, int] = {}
        for phase in self.each:
            for dim in phase.tiling.dims:
                for sizes, name in ((common, dim.name), (own, f"{phase.name}.{dim.name}")):
                    sizes[name] = max(dim.most, sizes.get(name, 1))
        return common | own


def check_tile(kernel: str, phases: Phases, tile: Sizes) -> None:
    """Raise KernelError for a dimension that no phase has, or a size that is none."""
    most = phases.most
    for name, size in tile.items():
        if name not in most:
            raise KernelError(f"{kernel}: tile.{name} = {size}: {_known(phases, name)}")
        if not 1 <= size <= most[name]:
            raise KernelError(f"{kernel}: tile.{name} = {size}: a size is from 1 to {most[name]}")


def _known(phases: Phases, name: str) -> str:
    """What there is in place of a name that is none."""
    own, dot, _ = name.rpartition(".")
    if dot and own not in phases.named:
        return f"no such phase; there are {', '.join(phases.named)}"
    some = phases.named[own] if dot else phases.each
    dims = dict.fromkeys(dim.name for phase in some for dim in phase.tiling.dims)
    return f"no such dimension; there are {', '.join(dims)}"
