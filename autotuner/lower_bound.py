"""A lower bound of a layer's cycles: no point can be faster.

The longest of what the cores need for their multiply-adds and what the DMA needs for the bytes,
each in its direction; the sum of them where they take turns.
"""

from autotuner.point import Point
from autotuner.space import Space
from trainlib.primitive import element
from trainlib.primitive.tile_spec import Sizes, Tiling

BEAT = 8  # bytes that the DMA moves in a cycle, in each direction
HALVES = tuple(f"_{half.name}" for half in element.HALVES)
PRODUCTS = ("matmul", "linear", "pwconv2d")
RATE = 0.7
"""Multiply-adds per cycle of a core in products: blocks of r x c sums take r c of them and r + c
loads, and with sums, operands and pointers in 31 registers r c is 20 at most. 5.33 on eight cores
is the best that is known, with 4 x 4. Elsewhere one per cycle is the bound: padding counts as work.
An instruction on halves has two.
"""


def lower_bound(space: Space, point: Point) -> float:
    """Cycles that a point takes at least."""
    layer = space.layer
    is_product = layer.kernel.startswith(PRODUCTS) or space.method_of(point.kernel) != "direct"
    rate = (RATE if is_product else 1.0) * (2 if layer.kernel.endswith(HALVES) else 1)
    work = layer.macs / (point.cores * rate)
    to_l1, to_l2 = moved(space, point)
    if point.tile is None and not point.is_phased:
        return work + (to_l1 + to_l2) / BEAT
    if point.buffers == 1:
        return work + max(to_l1, to_l2) / BEAT
    return max(work, to_l1 / BEAT, to_l2 / BEAT)


def moved(space: Space, point: Point) -> tuple[float, float]:
    """Bytes that a point copies at least to L1, and back to L2: halos not counted."""
    method = space.method_of(point.kernel)
    tiling, sizes = space.tiling(method), space.copied(method)
    times = dict.fromkeys(space.tensors, 1.0)
    if tiling and point.tile and not point.is_phased:
        times |= {name: rereads(tiling, name, dict(point.tile), 1) for name in tiling.boxes}
        choice = space.choice(point.buffers, method)
        if choice and max(times.values()) > 1:
            slots = choice.slots(dict(point.tile))
            times |= {n: rereads(tiling, n, dict(point.tile), slots[n]) for n in tiling.boxes}
    to_l1 = to_l2 = 0.0
    for name, tensor in space.tensors.items():
        if tensor.role != "scratch":
            to_l1 += sizes[name] * times[name] * (tensor.role != "out")
            to_l2 += sizes[name] * (tensor.role != "in")
    return to_l1, to_l2


def rereads(tiling: Tiling, name: str, tile: Sizes, slots: int) -> float:
    """How often each part of a tensor comes to L1 at least, on average: once for each turn of the
    loops around it, but for as many parts as have buffers.
    """
    follows, times, parts_inside = tiling.follows(name), 1.0, 1
    kept = slots if slots > 1 else 0
    for dim in reversed(tiling.dims):
        parts = -(-dim.size // tile[dim.name])
        if dim.name in follows:
            parts_inside *= parts
        elif parts_inside > 1:
            times += times * (parts - 1) * max(parts_inside - kept, 0) / parts_inside
    return times
