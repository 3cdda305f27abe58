"""Phases one after the other as one program."""

from collections.abc import Callable, Mapping
from functools import partial

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.phases import Phase, Phases, check_tile
from trainlib.primitive.tile_spec import Sizes
from trainlib.tiling.records import Far
from trainlib.tiling.tile_loop import emit_walk
from trainlib.tiling.tile_size import Choice
from trainlib.tiling.warm_up import passes

Workspace = Callable[[str, int], Far]
"""workspace(name, bytes): where a buffer in L2 is."""


def emit_phases(
    k: Kernel,
    team: Team,
    phases: Phases,
    l2: Mapping[str, Far],
    tile: Sizes,
    buffers: int,
    *,
    is_warm: bool = False,
    workspace: Workspace | None = None,
) -> None:
    """Emit the body of the program.

    l2         addresses of tensors by name
    tile       sizes by dimension, for all phases that have it, or by "phase.dimension"; what it
               leaves out is chosen
    buffers    of each tensor in L1, see trainlib.tiling.tile_loop
    is_warm    do all of it twice, and measure the second time
    workspace  gives buffers between phases; None: they are the program's own

    raises     KernelError as emit_tiled does, or if a buffer does not fit L2
    """
    check_tile(k.name, phases, tile)
    take = workspace or partial(k.buffer, k.l2)
    between = {name: take(name, size) for name, size in phases.between.items()}
    at = {**l2, **between}
    tables = [_least_table(k, phase, tile, buffers) for phase in phases.each]
    with passes(k, team, is_warm) as region, region("compute"):
        for number, phase in enumerate(phases.each):
            free, kept = k.l1.next, sum(tables[number + 1 :])
            own = {name: at[base] + after for name, (base, after) in phase.at.items()}
            with region(phase.name):
                how = phase.tiling, phase.tensors, own, phase.sizes(tile), buffers
                emit_walk(k, team, *how, kept, is_cold=not is_warm)
                if phase is not phases.each[-1]:
                    team.barrier()  # the next phase's entries lie where the last one is still read
            k.l1.next = free


def _least_table(k: Kernel, phase: Phase, tile: Sizes, buffers: int) -> int:
    choice = Choice(k.name, phase.tiling, phase.tensors, buffers, k.l1, 0)
    return choice.least_table(phase.sizes(tile))
