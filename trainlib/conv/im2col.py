"""Columns of an image: for each output of a convolution what its taps read, zeros outside.

A product with them is the convolution: see trainlib.conv.im2col_gemm. They take kernel-size times
the memory of the image, and time; what they buy is that any product will do. They are made by all
cores, at once or patch by patch.
"""

from collections.abc import Iterable

from firmware.builder import LTU, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.saved_values import kept
from trainlib.codegen.strided_access import REACH
from trainlib.codegen.work_split import Partition, grid_of
from trainlib.conv.axis import Axis
from trainlib.conv.conv2d import Strides
from trainlib.conv.im2col_layout import Columns
from trainlib.primitive.element import load_post, store_post
from trainlib.primitive.l1_layout import Level, Patch
from trainlib.primitive.tensor import WORD, Address

PAIRS = 4  # elements in a round of a copy


def im2col_f32(
    k: Kernel,
    team: Team,
    x: Address,
    columns: Address,
    channels: int,
    ys: Axis,
    xs: Axis,
    image: Strides,
    to: Columns,
    item: int = WORD,
) -> None:
    """columns[c, s, t, y, x] = X[c, ys.source(y, s), xs.source(x, t)], or 0 outside.

    Channels and lines are partitioned among a grid of cores; axes are a forward convolution's.
    """
    parts = min(team.cores, channels)
    split = parts, min(team.cores // parts, ys.outputs)
    with k.scope():
        px, pc, i, j, t = k.x(5)
        line = k.x()
        with grid_of(k, team, split, i, j, t):
            lines = Partition(k, ys.outputs, split[1], j, t)
            for strip in lines.parts_of_cores():
                lines.load_start(line, strip, -ys.pad, ys.stride)
                partition = Partition(k, channels, split[0], i, t)
                for part in partition.parts_of_cores():
                    partition.load_start(px, part, x, image.channel)
                    partition.load_start(pc, part, columns, to.channel)
                    lines.add_start(px, strip, ys.stride * image.line)
                    k.add_constant(px, px, -ys.pad * image.line, t)
                    lines.add_start(pc, strip, to.line)
                    with k.scope(), kept(k, [], 2, 12, [x, columns]) as (left, below):
                        scratch, lower = k.x(2)
                        with left.loop(part.size, scratch):
                            with below.loop(strip.size, lower):
                                _line(k, ys, xs, image, to, [px, pc, line], item)
                                k.add_constant(px, px, ys.stride * image.line, t)
                                k.add_constant(pc, pc, to.line, t)
                                k.addi(line, line, ys.stride)
                            back = -strip.size
                            step = image.channel + back * ys.stride * image.line
                            k.add_constant(px, px, step, t)
                            k.add_constant(pc, pc, to.channel + back * to.line, t)
                            k.add_constant(line, line, back * ys.stride, t)


def _line(
    k: Kernel, ys: Axis, xs: Axis, image: Strides, to: Columns, at: list[Register], item: int
) -> None:
    """One line of outputs of one channel: what all taps read."""
    px, pc, line = at
    for s in range(ys.taps):
        with k.scope():
            source, inputs = k.x(2)
            k.addi(source, line, s * ys.dilation)
            k.li(inputs, ys.inputs)
            with k.if_(LTU, source, inputs):
                for t in range(xs.taps):
                    offsets = [s * ys.dilation * image.line, s * to.row]
                    _places(k, xs, t, [px, pc], offsets, image, to, item)
            with k.else_():
                for t in range(xs.taps):
                    with k.scope():
                        target, scratch = k.x(2)
                        k.add_constant(target, pc, s * to.row + t * to.tap, scratch)
                        move(k, None, target, xs.outputs, 0, to.place, item)


def _places(
    k: Kernel,
    xs: Axis,
    tap: int,
    bases: list[Register],
    offsets: list[int],
    image: Strides,
    to: Columns,
    item: int,
) -> None:
    """What one tap reads of a line: zeros, places of the image, zeros."""
    inside = xs.readers(tap)
    first, count = (inside[0], len(inside)) if inside else (xs.outputs, 0)
    with k.scope():
        source, target, scratch = k.x(3)
        k.add_constant(target, bases[1], offsets[1] + tap * to.tap, scratch)
        move(k, None, target, first, 0, to.place, item)
        if count:
            place = xs.source(first, tap) or 0
            k.add_constant(source, bases[0], offsets[0] + place * image.place, scratch)
            move(k, source, target, count, xs.stride * image.place, to.place, item)
        move(k, None, target, xs.outputs - first - count, 0, to.place, item)


def move(
    k: Kernel,
    source: Register | None,
    target: Register,
    count: int,
    step: int,
    to_step: int,
    item: int = WORD,
) -> None:
    """Copy elements of so many bytes, or zeros, pairwise; both pointers advance."""
    if not count:
        return
    with k.scope():
        pairs, first, second = k.x(3)
        steps: list[int | Register] = []
        for value in (step, to_step):
            register = None if value in REACH else k.x()
            if register is not None:
                k.li(register, value)
            steps.append(value if register is None else register)

        def move(registers: list[Register]) -> None:
            for register in registers if source is not None else []:
                assert source is not None
                if item == WORD:
                    k.load_post(register, steps[0], source)
                else:
                    load_post(k, item, register, steps[0], source)
            for register in registers:
                store_post(k, item, register if source is not None else ZERO, steps[1], target)

        rounds, rest = divmod(count, PAIRS)
        if rounds > 1:
            k.li(pairs, rounds)
            with k.hwloop(pairs):
                for _ in range(PAIRS // 2):
                    move([first, second])
        elif rounds:
            for _ in range(PAIRS // 2):
                move([first, second])
        for _ in range(rest):
            move([first])


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
