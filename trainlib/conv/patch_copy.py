"""Patches copied within L1, or filled with zeros, by all cores."""

from collections.abc import Iterable

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.work_split import Partition, grid_of
from trainlib.conv.im2col import move
from trainlib.primitive.l1_layout import Level, Patch
from trainlib.primitive.tensor import Address


def copy_patches_f32(
    k: Kernel, team: Team, far: Address | None, near: Address, patches: Iterable[Patch]
) -> None:
    """Copy patches from an image to its columns, say; far None: fill them with zeros.

    The dimension that keeps most cores busy is partitioned, the longest of the others is the inner
    loop.
    """
    for patch in patches:
        if patch.bytes:
            _copy(k, team, far, near, patch)


def _copy(k: Kernel, team: Team, far: Address | None, near: Address, patch: Patch) -> None:
    run, levels = patch.runs
    item = patch.item
    levels = sorted([Level(run // item, item, item), *levels, Level(1, item, item)])
    partitioned = max(levels, key=lambda level: _balance(level.times, team.cores))
    levels.remove(partitioned)
    *outer, inner = levels
    parts = min(team.cores, partitioned.times)
    with k.scope():
        target, i, t = k.x(3)
        source = None if far is None else k.x()
        with grid_of(k, team, (parts, 1), i, i, t):
            whole = Partition(k, partitioned.times, parts, i, t)
            for part in whole.parts_of_cores():
                whole.load_start(target, part, near, partitioned.near)
                k.add_constant(target, target, patch.near, t)
                if source is not None:
                    assert far is not None
                    whole.load_start(source, part, far, partitioned.far)
                    k.add_constant(source, source, patch.far, t)
                pointers = [(target, 2)] if source is None else [(source, 1), (target, 2)]
                _loops(k, pointers, [*outer, partitioned._replace(times=part.size)], inner, item)


def _balance(count: int, cores: int) -> float:
    """The part of the cores that are busy with so many elements."""
    return count / (-(-count // cores) * cores)


def _loops(
    k: Kernel, pointers: list[tuple[Register, int]], levels: list[Level], inner: Level, item: int
) -> Level:
    """The inner dimension, for all others; return how far pointers have moved, as a dimension.

    pointers    and the side of a level that says how far they move
    item        bytes of an element
    """
    levels = [level for level in levels if level.times > 1]
    if not levels:
        (target, _), *source = reversed(pointers)
        steps = inner.times, inner.far, inner.near
        move(k, source[0][0] if source else None, target, *steps, item)
        return inner
    level, *rest = levels
    with k.scope():
        left, t = k.x(2)
        k.li(left, level.times)
        with k.loop(left):
            done = _loops(k, pointers, rest, inner, item)
            for pointer, side in pointers:
                k.add_constant(pointer, pointer, level[side] - done.times * done[side], t)
    return level
