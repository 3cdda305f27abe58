"""Phases one after the other as one program."""

from collections.abc import Mapping

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.phases import Phase, Phases, check_tile
from trainlib.primitive.tiling import Sizes
from trainlib.tiles.choice import Choice
from trainlib.tiles.passes import passes
from trainlib.tiles.walk import emit_walk


def emit_phases(
    k: Kernel,
    team: Team,
    phases: Phases,
    l2: Mapping[str, int],
    tile: Sizes,
    buffers: int,
    *,
    is_warm: bool = False,
) -> None:
    """Emit the body of the program.

    l2         addresses of tensors by name
    tile       sizes by dimension, for all phases that have it, or by "phase.dimension"; what it
               leaves out is chosen
    buffers    of each tensor in L1, see trainlib.tiles.walk
    is_warm    do all of it twice, and measure the second time

    raises     KernelError as emit_tiled does, or if a buffer does not fit L2
    """
    check_tile(k.name, phases, tile)
    between = {name: k.buffer(k.l2, name, size) for name, size in phases.between.items()}
    at = {**l2, **between}
    tables = [_least_table(k, phase, tile, buffers) for phase in phases.each]
    with passes(k, is_warm) as region, region("compute"):
        for number, phase in enumerate(phases.each):
            free, kept = k.l1.next, sum(tables[number + 1 :])
            own = {name: at[base] + behind for name, (base, behind) in phase.at.items()}
            with region(phase.name):
                how = phase.tiling, phase.tensors, own, phase.sizes(tile), buffers
                emit_walk(k, team, *how, kept)
            k.l1.next = free


def _least_table(k: Kernel, phase: Phase, tile: Sizes, buffers: int) -> int:
    choice = Choice(k.name, phase.tiling, phase.tensors, buffers, k.l1, 0)
    return choice.least_table(phase.sizes(tile))
