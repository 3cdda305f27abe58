"""Primitives whose tensors lie in L2, as phases: computations by tiles, one after the other.

Between phases, what one leaves to another lies in L2: in an output, or in a buffer of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.kernels import Tensors
from trainlib.passes import passes
from trainlib.tiles import emit_walk
from trainlib.tiling import Sizes, Tiling


@dataclass(frozen=True)
class Phase:
    """A computation by tiles; its region has its name.

    tensors    of the tiling
    at         for each, which tensor or buffer it is a part of, and bytes behind the start of that
    """

    name: str
    tiling: Tiling
    tensors: Tensors
    at: Mapping[str, tuple[str, int]]

    def sizes(self, tile: Sizes) -> dict[str, int]:
        """What holds for its dimensions: they may be smaller than those of other phases."""
        own = {dim.name: dim.most for dim in self.tiling.dims}
        return {name: min(size, own[name]) for name, size in tile.items() if name in own}


def emit_phases(
    k: Kernel,
    team: Team,
    phases: Sequence[Phase],
    l2: Mapping[str, int],
    between: Mapping[str, int],
    tile: Sizes,
    buffers: int,
    *,
    is_warm: bool = False,
) -> None:
    """Emit the body of the program.

    l2         addresses of tensors by name
    between    bytes of buffers in L2 by name
    tile       sizes by dimension, for all phases that have it; what it leaves out is chosen
    buffers    of each tensor in L1, see trainlib.tiles
    is_warm    do all of it twice, and measure the second time

    raises     KernelError as emit_tiled does, or if a buffer does not fit L2
    """
    _check(k, phases, tile)
    at = {**l2, **{name: k.buffer(k.l2, name, size) for name, size in between.items()}}
    with passes(k, is_warm) as region, region("compute"):
        for phase in phases:
            free = k.l1.next
            own = {name: at[base] + behind for name, (base, behind) in phase.at.items()}
            with region(phase.name):
                emit_walk(k, team, phase.tiling, phase.tensors, own, phase.sizes(tile), buffers)
            k.l1.next = free


def _check(k: Kernel, phases: Sequence[Phase], tile: Sizes) -> None:
    """Raise KernelError for a dimension that no phase has, or a size that is none."""
    most: dict[str, int] = {}
    for phase in phases:
        for dim in phase.tiling.dims:
            most[dim.name] = max(dim.most, most.get(dim.name, 1))
    for name, size in tile.items():
        if name not in most:
            raise KernelError(
                f"{k.name}: tile.{name} = {size}: no such dimension; there are {', '.join(most)}"
            )
        if not 1 <= size <= most[name]:
            raise KernelError(f"{k.name}: tile.{name} = {size}: a size is from 1 to {most[name]}")
