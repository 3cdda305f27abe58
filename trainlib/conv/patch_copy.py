"""Patches copied within L1, or filled with zeros, by all cores."""

from collections.abc import Iterable

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.conv.im2col import move
from trainlib.loops.deal import Dealt, grid_of
from trainlib.primitive.forms import Level, Patch
from trainlib.primitive.tensor import WORD, Address

ONE = Level(1, WORD, WORD)


def copy_patches_f32(
    k: Kernel, team: Team, far: Address | None, near: Address, patches: Iterable[Patch]
) -> None:
    """Copy patches from an image to its columns, say; far None: fill them with zeros.

    The dimension that keeps most cores busy is dealt out, the longest of the others is the inner
    loop.
    """
    for patch in patches:
        if patch.bytes:
            _copy(k, team, far, near, patch)


def _copy(k: Kernel, team: Team, far: Address | None, near: Address, patch: Patch) -> None:
    run, levels = patch.runs
    levels = sorted([Level(run // WORD, WORD, WORD), *levels, ONE])
    dealt = max(levels, key=lambda level: _balance(level.times, team.cores))
    levels.remove(dealt)
    *outer, inner = levels
    parts = min(team.cores, dealt.times)
    with k.scope():
        target, i, t = k.x(3)
        source = None if far is None else k.x()
        with grid_of(k, team, (parts, 1), i, i, t):
            whole = Dealt(k, dealt.times, parts, i, t)
            for part in whole.parts_of_cores():
                whole.load_start(target, part, near, dealt.near)
                k.add_constant(target, target, patch.near, t)
                if source is not None:
                    assert far is not None
                    whole.load_start(source, part, far, dealt.far)
                    k.add_constant(source, source, patch.far, t)
                pointers = [(target, 2)] if source is None else [(source, 1), (target, 2)]
                _loops(k, pointers, [*outer, dealt._replace(times=part.size)], inner)


def _balance(count: int, cores: int) -> float:
    """The part of the cores that are busy with so many elements."""
    return count / (-(-count // cores) * cores)


def _loops(
    k: Kernel, pointers: list[tuple[Register, int]], levels: list[Level], inner: Level
) -> Level:
    """The inner dimension, for all others; return how far pointers have moved, as a dimension.

    pointers    and the side of a level that says how far they move
    """
    levels = [level for level in levels if level.times > 1]
    if not levels:
        (target, _), *source = reversed(pointers)
        move(k, source[0][0] if source else None, target, inner.times, inner.far, inner.near)
        return inner
    level, *rest = levels
    with k.scope():
        left, t = k.x(2)
        k.li(left, level.times)
        with k.loop(left):
            done = _loops(k, pointers, rest, inner)
            for pointer, side in pointers:
                k.add_constant(pointer, pointer, level[side] - done.times * done[side], t)
    return level
