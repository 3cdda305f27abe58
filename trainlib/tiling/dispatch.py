"""A primitive whose tensors lie in L2: how it is computed, all in L1 or by tiles."""

from collections.abc import Mapping
from dataclasses import replace

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.primitive.arguments import CommonArguments, TiledArguments
from trainlib.primitive.operator import Family
from trainlib.tiling.phases import Workspace, emit_phases
from trainlib.tiling.plan import Plan
from trainlib.tiling.records import Far
from trainlib.tiling.resident import Resident
from trainlib.tiling.tile_loop import check_repeatable, emit_tiled
from trainlib.tiling.tile_size import Choice

ENTRIES, AMPLE = 1024, 8192  # bytes of L1 that a table's entries take: about, and at most


def emit_from_l2(
    k: Kernel,
    team: Team,
    family: Family,
    point: CommonArguments,
    l2: Mapping[str, Far],
    workspace: Workspace | None = None,
) -> None:
    """Emit the computation: in L1 if all fits there, by tiles if not, or if that is asked for.

    l2           addresses of tensors by name
    workspace    gives buffers in L2 between phases; None: they are the program's own

    raises    KernelError if it fits neither way
    """
    tensors = family.tensors(point)
    resident = Resident.of(family, point, tensors)
    tile: dict[str, int] | None = None
    buffers = 2
    if isinstance(point, TiledArguments):
        tile, buffers = point.tile, point.buffers
    if tile is None and resident.fits(k.l1):
        resident.emit(k, team, l2, is_warm=point.warm)
    elif family.emit_l2:
        if point.warm:
            check_repeatable(k, tensors)
        family.emit_l2(k, team, point, {n: at for n, at in l2.items() if isinstance(at, int)})
    elif family.phases and not has_tiles(k, family, point, team.cores):
        if point.warm:
            check_repeatable(k, tensors)
        way = family.phases(point), l2, tile or {}, buffers
        emit_phases(k, team, *way, is_warm=point.warm, workspace=workspace)
    elif family.tiling is not None:
        how = family.tiling(point), tensors, l2, tile or {}, buffers
        emit_tiled(k, team, *how, is_warm=point.warm)
    elif tile is not None:
        raise KernelError(f"{family.name}: it has no tiles; leave tile out")
    else:
        resident.emit(k, team, l2, is_warm=point.warm)


def has_tiles(k: Kernel, family: Family, point: CommonArguments, cores: int) -> bool:
    """Are there tiles of all of it that fit, and have the dimensions that are asked for?"""
    if family.tiling is None or not isinstance(point, TiledArguments):
        return False
    tiling, tensors = family.tiling(point), family.tensors(point)
    names = {dim.name for dim in tiling.dims}
    if not names.issuperset(point.tile or ()):
        return False
    choice = Choice(k.name, tiling, tensors, point.buffers, k.l1, ENTRIES)
    if not choice.has_any or replace(choice, reserved=AMPLE).has_any:
        return choice.has_any
    try:
        Plan.of(k, Team(k, cores), tiling, tensors, point.tile or {}, point.buffers)
    except KernelError:
        return False
    return True
