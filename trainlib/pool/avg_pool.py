"""Average pooling, forward and backward."""

from dataclasses import replace

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.codegen.nest_operands import Window
from trainlib.elementwise.elementwise import Operation, map_nest
from trainlib.elementwise.fill import fill_f32
from trainlib.pool.large_windows import Wide, average, shares
from trainlib.pool.windows import Places, Pooling, Region, RegionNest, regions
from trainlib.primitive.element import Element
from trainlib.primitive.tensor import Address

FEW = 9  # elements of a window
SIDE_BY_SIDE = 4  # elements of a window that are loaded before the first is stored


def _share(p: Pooling, region: Region, counts_pad: bool, share: float | None) -> float:
    """What an element of a window counts in its mean, if that is not given."""
    if share is not None:
        return share
    return 1 / (p.kernel[0] * p.kernel[1] if counts_pad else region.size)


def _share_of_all(p: Pooling, counts_pad: bool, share: float | None) -> float | None:
    """What an element of any window counts; None: it is not the same for all."""
    if share is not None or not counts_pad:
        return share
    return 1 / (p.kernel[0] * p.kernel[1])


def avgpool2d_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    p: Pooling,
    *,
    counts_pad: bool = True,
    share: float | None = None,
    unroll: int = UNROLL,
) -> None:
    """y = the mean of each window; counts_pad: its elements outside x are zeros, else they are no
    elements. With a share, y is that times the sum.
    """
    if p.is_wide or not p.is_small and not p.pad[1]:
        share = _share_of_all(p, counts_pad, share)
        Wide(k, team, p).emit(x, average(share), [], [y])
        return
    for region in regions(p):
        nest = RegionNest(p, region, unroll)
        windows, places = nest.windows(x, p.image)
        operation = _scaled_sum(places, _share(p, region, counts_pad, share))
        map_nest(
            *(k, team, operation, nest.dims, windows, [nest.output(y)]),
            windows=range(len(windows)),
            unroll=unroll,
        )


def _scaled_sum(places: Places, share: float) -> Operation:
    """Windows' sums, times the share."""

    def operation(k: Kernel) -> Body:
        factor = constant(k, share)

        def body(v: Lanes, *around: Window) -> list[Lane]:
            total, value = v.f(), v.f()
            for number, (window, offset) in enumerate(places):
                around[window].load(value if number else total, offset)
                if number:
                    v.fadd_s(total, total, value)
            if share != 1:
                v.fmul_s(total, total, factor)
            return [total]

        return body

    return operation


def avgpool2d_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    dx: Address,
    p: Pooling,
    *,
    counts_pad: bool = True,
    share: float | None = None,
    unroll: int = UNROLL,
) -> None:
    """dx = the sum of dy over the windows with this element, each divided by its elements, or
    times the share.
    """
    of_all = _share_of_all(p, counts_pad, share)
    if of_all is not None and _has_opposite(p):
        avgpool2d_fw_f32(k, team, dy, dx, _opposite(p), share=of_all, unroll=unroll)
        return
    if not p.is_cover:
        fill_f32(k, team, dx, p.b * p.c * p.h * p.w, element=p.image)
        team.barrier()
    if p.is_wide:
        give = shares(of_all, is_disjoint=p.is_disjoint)
        Wide(k, team, p, planes_first=not p.is_disjoint).emit(dx, give, [dy], [])
        return
    unroll = unroll if p.is_disjoint else 1
    for region in regions(p):
        nest = RegionNest(p, region, unroll, planes_first=not p.is_disjoint)
        windows, places = nest.windows(dx, p.image.moved)
        part = _share(p, region, counts_pad, share)
        operation = _shares(places, part, p.image, is_disjoint=p.is_disjoint)
        map_nest(
            *(k, team, operation, nest.dims, [nest.output(dy), *windows], []),
            windows=range(1, len(windows) + 1),
            is_ordered=not p.is_disjoint,
            unroll=unroll,
        )


def _has_opposite(p: Pooling) -> bool:
    """Are elements of dx sums of windows of dy that are cut in no more ways than those of x?

    Of more than FEW elements, their code is larger than a core's cache.
    """
    if p.stride != (1, 1) or p.kernel[0] * p.kernel[1] > FEW or min(_opposite(p).pad) < 0:
        return False
    return sum(1 for _ in regions(_opposite(p))) <= sum(1 for _ in regions(p))


def _opposite(p: Pooling) -> Pooling:
    """The windows of dy whose sums elements of dx are, where windows of x have a stride of 1."""
    pad = p.kernel[0] - 1 - p.pad[0], p.kernel[1] - 1 - p.pad[1]
    of_dy = replace(p, h=p.out[0], w=p.out[1], pad=pad, windows=(p.h, p.w), around=(0, 0))
    return replace(of_dy, image=p.value, value=p.image)


def _shares(places: Places, share: float, image: Element, *, is_disjoint: bool) -> Operation:
    """Windows give all their elements, of type image, the share of dy; sums are float32."""

    def operation(k: Kernel) -> Body:
        factor = constant(k, share)

        def body(v: Lanes, dy: Lane, *around: Window) -> list[Lane]:
            if share != 1:
                v.fmul_s(dy, dy, factor)
            if is_disjoint:
                parts = [image.narrow(v.k, register, register) for register in dy]
                for window, offset in places:
                    around[window].store(parts, offset)
                return []
            old = v.k.f(min(SIDE_BY_SIDE, len(places)))
            for at in range(0, len(places), SIDE_BY_SIDE):
                some = list(zip(places[at : at + SIDE_BY_SIDE], old, strict=False))
                for (window, offset), register in some:
                    around[window].load([register], offset)
                for _, register in some:
                    v.k.fadd_s(register, register, dy[0])
                for (window, offset), register in some:
                    around[window].store([register], offset)
            return []

        return body

    return operation
