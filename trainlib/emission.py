"""A primitive whose tensors lie in L2: how it is computed, all in L1 or by tiles."""

from collections.abc import Mapping

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.kernels import Arguments, Family
from trainlib.resident import Resident
from trainlib.tiles import emit_tiled


def emit_from_l2(
    k: Kernel, team: Team, family: Family, point: Arguments, l2: Mapping[str, int]
) -> None:
    """Emit the computation: in L1 if all fits there, by tiles if not, or if that is asked for.

    l2        addresses of tensors by name

    raises    KernelError if it fits neither way
    """
    tensors = family.tensors(point)
    resident = Resident.of(family, point, tensors)
    if family.emit_l2 and (point.tile is not None or not resident.fits(k.l1)):
        family.emit_l2(k, team, point, l2)
    elif family.tiling is None:
        if point.tile is not None:
            raise KernelError(f"{family.name}: it has no tiles; leave tile out")
        resident.emit(k, team, l2, is_warm=point.warm)
    elif point.tile is None and resident.fits(k.l1):
        resident.emit(k, team, l2, is_warm=point.warm)
    else:
        how = family.tiling(point), tensors, l2, point.tile or {}, point.buffers
        emit_tiled(k, team, *how, is_warm=point.warm)
