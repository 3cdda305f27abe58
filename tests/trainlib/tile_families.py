"""Primitives to try tiles on: slow, simple, with every kind of box; integers are exact."""

import numpy as np
from pydantic import Field

from firmware.registers import ZERO
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Family
from trainlib.primitive.slices import Spread, Window
from trainlib.primitive.tensor import INT32, Tensor
from trainlib.primitive.tile_spec import Dim, Tiling

WORD = 4


def small(tensors):
    def draw(point, numbers):
        wanted = {n: t for n, t in tensors(point).items() if t.role in ("in", "inout")}
        return {n: numbers.integers(-9, 9, t.shape).astype("<f4") for n, t in wanted.items()}

    return draw


def rows_of_cores(k, team, rows):
    """Emit the body for every row, each on its core."""
    for row in range(rows):
        with team.only(row % team.cores), k.scope():
            yield row


class Product(TiledArguments):
    n: int = Field(ge=1)
    k: int = Field(ge=1)
    m: int = Field(ge=1)


def product_tensors(p):
    return {
        "A": Tensor((p.n, p.k), pad=1),
        "B": Tensor((p.k, p.m)),
        "C": Tensor((p.n, p.m), "out", pad=2),
    }


def emit_product(k, team, shape, at):
    """C (+)= A B, element by element."""
    a, b, c = (shape.part(name) for name in "ABC")
    for row in rows_of_cores(k, team, shape["n"]):
        pa, pb, pc, columns, b_row, t = k.x(6)
        x, y, total = k.f(3)
        k.li(b_row, b.row)
        k.set(pc, at["C"], row * c.row)
        k.set(pb, at["B"])
        k.li(columns, shape["m"])
        with k.loop(columns):
            k.set(pa, at["A"], row * a.row)
            if shape.is_first:
                k.fzero(total)
            else:
                k.fload(total, 0, pc)
            with k.loop(shape["k"]):
                k.fload_post(x, WORD, pa)
                k.fload_post(y, b_row, pb)
                k.fmadd_s(total, x, y, total)
            k.fstore_post(total, WORD, pc)
            k.add_constant(pb, pb, WORD - shape["k"] * b.row, t)


def product_tiling(p):
    return Tiling(
        dims=(Dim("n", p.n, unit=8), Dim("m", p.m, unit=4), Dim("k", p.k, is_summed=True)),
        boxes={"A": ("n", "k"), "B": ("k", "m"), "C": ("n", "m")},
        emit=emit_product,
    )


PRODUCT = Family(
    "product",
    Product,
    product_tensors,
    lambda p, v: {"C": (v["A"].astype(float) @ v["B"].astype(float), 0.0)},
    lambda p: p.n * p.k * p.m,
    tiling=product_tiling,
    draw=small(product_tensors),
)


class Windows(TiledArguments):
    channels: int = 2
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    kernel: int = 3
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def reach(self):
        return (self.kernel - 1) * self.dilation + 1

    def out(self, size):
        return (size + self.before + self.after - self.reach) // self.stride + 1


def window_tensors(p):
    return {
        "X": Tensor((p.channels, p.height, p.width)),
        "Y": Tensor((p.channels, p.out(p.height), p.out(p.width)), "out"),
    }


def windows_by_hand(p, x):
    """Sums over all windows, and where each output looks."""
    y = np.zeros((p.channels, p.out(p.height), p.out(p.width)))
    for i, j in np.ndindex(y.shape[1:]):
        for u, v in np.ndindex(p.kernel, p.kernel):
            row = i * p.stride - p.before + u * p.dilation
            column = j * p.stride - p.before + v * p.dilation
            if 0 <= row < p.height and 0 <= column < p.width:
                y[:, i, j] += x[:, row, column]
    return y


def emit_windows(p, k, team, shape, at):
    """Y = sums of X, addresses worked out in Python: what lies outside adds nothing."""
    x, y = shape.part("X"), shape.part("Y")
    places = [(i, j) for i in range(shape["y"]) for j in range(shape["x"])]
    for row in rows_of_cores(k, team, len(places)):
        i, j = places[row]
        px, py, value, total = k.x(4)
        with k.scope():
            channels = k.x()
            k.set(px, at["X"])
            k.set(py, at["Y"], i * y.strides[1] + j * WORD)
            k.li(channels, shape["c"])
            with k.loop(channels):
                k.fzero(total)
                for u, v in np.ndindex(p.kernel, p.kernel):
                    r = i * p.stride + u * p.dilation - x.before[1]
                    c = j * p.stride + v * p.dilation - x.before[2]
                    if 0 <= r < x.shape[1] and 0 <= c < x.shape[2]:
                        k.fload(value, r * x.strides[1] + c * WORD, px)
                        k.fadd_s(total, total, value)
                k.fstore(total, 0, py)
                k.addi(px, px, x.strides[0])
                k.addi(py, py, y.strides[0])


def window_tiling(p):
    look = {"kernel": p.kernel, "stride": p.stride, "dilation": p.dilation, "before": p.before}
    return Tiling(
        dims=(
            Dim("c", p.channels),
            Dim("y", p.out(p.height)),
            Dim("x", p.out(p.width)),
        ),
        boxes={"X": ("c", Window("y", **look), Window("x", **look)), "Y": ("c", "y", "x")},
        emit=lambda k, team, shape, at: emit_windows(p, k, team, shape, at),
    )


WINDOWS = Family(
    "windows",
    Windows,
    window_tensors,
    lambda p, v: {"Y": (windows_by_hand(p, v["X"].astype(float)), 0.0)},
    lambda p: 0,
    tiling=window_tiling,
    draw=small(window_tensors),
)


def spread_tensors(p):
    return {
        "dY": Tensor((p.channels, p.out(p.height), p.out(p.width))),
        "dX": Tensor((p.channels, p.height, p.width), "out"),
    }


def spread_by_hand(p, dy):
    """The transposed of windows_by_hand."""
    dx = np.zeros((p.channels, p.height, p.width))
    for i, j in np.ndindex(dy.shape[1:]):
        for u, v in np.ndindex(p.kernel, p.kernel):
            row = i * p.stride - p.before + u * p.dilation
            column = j * p.stride - p.before + v * p.dilation
            if 0 <= row < p.height and 0 <= column < p.width:
                dx[:, row, column] += dy[:, i, j]
    return dx


def emit_spread(p, k, team, shape, at):
    """dX = sums of dY over the windows that look at it: `phase` says which these are."""
    dy, dx = shape.part("dY"), shape.part("dX")
    places = [(i, j) for i in range(shape["y"]) for j in range(shape["x"])]
    for row in rows_of_cores(k, team, len(places)):
        pdy, pdx, value, total = k.x(4)
        at_place = places[row]
        k.set(pdy, at["dY"])
        k.set(pdx, at["dX"], at_place[0] * dx.strides[1] + at_place[1] * WORD)
        with k.loop(shape["c"]):
            k.fzero(total)
            for taps in np.ndindex(p.kernel, p.kernel):
                o = []
                for axis in (1, 2):
                    distance = at_place[axis - 1] + dy.phase[axis] - taps[axis - 1] * p.dilation
                    o.append((distance // p.stride - dy.before[axis], distance % p.stride))
                (r, r_rest), (c, c_rest) = o
                if not r_rest and not c_rest and 0 <= r < dy.shape[1] and 0 <= c < dy.shape[2]:
                    k.fload(value, r * dy.strides[1] + c * WORD, pdy)
                    k.fadd_s(total, total, value)
            k.fstore(total, 0, pdx)
            k.add_constant(pdy, pdy, dy.strides[0], value)
            k.add_constant(pdx, pdx, dx.strides[0], value)


def spread_tiling(p):
    look = {"kernel": p.kernel, "stride": p.stride, "dilation": p.dilation, "before": p.before}
    return Tiling(
        dims=(Dim("c", p.channels), Dim("y", p.height), Dim("x", p.width)),
        boxes={"dY": ("c", Spread("y", **look), Spread("x", **look)), "dX": ("c", "y", "x")},
        emit=lambda k, team, shape, at: emit_spread(p, k, team, shape, at),
    )


SPREAD = Family(
    "spread",
    Windows,
    spread_tensors,
    lambda p, v: {"dX": (spread_by_hand(p, v["dY"].astype(float)), 0.0)},
    lambda p: 0,
    tiling=spread_tiling,
    draw=small(spread_tensors),
)


class Vector(TiledArguments):
    count: int = Field(ge=1)


def vector_tensors(p):
    return {
        "W": Tensor((p.count,), "inout"),
        "step": Tensor((p.count,)),
        "rate": Tensor((1,)),
        "age": Tensor((p.count,), "inout", INT32),
    }


def emit_vector(k, team, shape, at):
    """W += rate step; age += 1; each through a scratch buffer of its own."""
    core, count, number, pw, ps, pa, pt = registers = k.x(7)
    rate, value, t = floats = k.f(3)
    team.core(core)
    k.slli(core, core, 2)
    k.set(pw, at["rate"])
    k.fload(rate, 0, pw)
    for pointer, name in ((pw, "W"), (ps, "step"), (pa, "age"), (pt, "copy")):
        k.set(pointer, at[name])
        k.add(pointer, pointer, core)
    k.srli(core, core, 2)
    k.li(count, shape["i"])
    k.sub(count, count, core)
    end = k.label()
    k.bge(ZERO, count, end)
    with k.loop(count, step=team.cores):
        k.fload_post(value, WORD * team.cores, ps)
        k.fload(t, 0, pw)
        k.fmadd_s(value, rate, value, t)
        k.fstore(value, 0, pt)
        k.lw(number, 0, pt)
        k.sw(number, 0, pw)
        k.lw(number, 0, pa)
        k.addi(number, number, 1)
        k.sw(number, 0, pa)
        for pointer in (pw, pa, pt):
            k.addi(pointer, pointer, WORD * team.cores)
    k.place(end)
    k.free(*registers, *floats)


def vector_tiling(p):
    return Tiling(
        dims=(Dim("i", p.count, unit=8),),
        boxes={"W": ("i",), "step": ("i",), "rate": (None,), "age": ("i",)},
        emit=emit_vector,
        scratch=lambda shape: {"copy": WORD * shape["i"]},
    )


VECTOR = Family(
    "vector",
    Vector,
    vector_tensors,
    lambda p, v: {
        "W": (v["W"].astype(float) + v["rate"].astype(float) * v["step"], 0.0),
        "age": (v["age"] + 1, 0),
    },
    lambda p: p.count,
    tiling=vector_tiling,
    draw=lambda p, numbers: {
        "W": numbers.integers(-9, 9, p.count).astype("<f4"),
        "step": numbers.integers(-9, 9, p.count).astype("<f4"),
        "rate": np.array([-2], "<f4"),
    },
)
NOTHING = Family(
    "nothing",
    Vector,
    lambda p: {"x": Tensor((p.count,)), "w": Tensor((p.count,)), "y": Tensor((p.count,), "out")},
    lambda p, v: {},
    lambda p: 0,
    tiling=lambda p: Tiling(
        (Dim("i", p.count),), dict.fromkeys("xwy", ("i",)), lambda k, team, shape, at: k.nop()
    ),
)
FAMILIES = (NOTHING, PRODUCT, WINDOWS, SPREAD, VECTOR)
