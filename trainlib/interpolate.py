"""Nearest and bilinear interpolation of planes to another size, forward and backward.

An output's place is a row of trainlib.rows, whose elements are its planes: where it lies in x, and
the weights, are computed once for all. Backward, cores have planes: outputs share elements of x.
Nearest to a multiple of the size is pooling the other way round.

    nearest     place o of `out` is floor(o in / out), exactly
    bilinear    (o + 1/2) in / out - 1/2, not below 0; aligned corners: o (in - 1) / (out - 1)

Source of the meaning: torch's interpolate.
"""

from collections.abc import Callable
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.fill import fill_f32
from trainlib.kernels import Address, Addresses, Arrays, Expected, Family, Tensor, Tensors
from trainlib.maps import fitting, no_macs
from trainlib.nest import UNROLL
from trainlib.pool import (
    LARGEST,
    Layout,
    Pair,
    Pooling,
    avgpool2d_bw_f32,
    avgpool2d_fw_f32,
)
from trainlib.pool_tiles import planes_of
from trainlib.reference import interpolate as reference
from trainlib.rows import Field, Rows, Split, split_of
from trainlib.tiled import tiled
from trainlib.tiling import Dim

TOWARDS_ZERO = 1  # rounding mode


class Planes:
    """b images of c channels, of size before and out after; as in pooling, with one window."""

    def __init__(self, b: int, c: int, size: Pair, out: Pair, layout: Layout) -> None:
        self.b, self.c, self.size, self.out = b, c, size, out
        self.pooling = Pooling(b, c, *size, (1, 1), (1, 1), (0, 0), layout)
        self.layout: Layout = layout

    def copies(self) -> Pooling | None:
        """If each element of x is copied to a window of y, of one size: these windows in y."""
        height, width = (out // size for out, size in zip(self.out, self.size, strict=True))
        if (height * self.size[0], width * self.size[1]) != self.out:
            return None
        window = height, width
        if not all(window) or height * width > LARGEST:
            return None
        return Pooling(self.b, self.c, *self.out, window, window, (0, 0), self.layout)

    def shape(self, size: Pair) -> tuple[int, ...]:
        return self.pooling.shape(*size)

    def steps(self, size: Pair) -> tuple[int, int, int, int]:
        """Bytes between images, channels, rows, columns."""
        return self.pooling.steps(size)


class _Places(Rows):
    """Outputs as rows; fields y, and those of x that an output is made of.

    row, column    the output's place, in registers
    """

    def __init__(
        self, k: Kernel, team: Team, p: Planes, x: Address, y: Address, split: Split, unroll: int
    ) -> None:
        self.p, self.x = p, x
        image, channel, row, column = p.steps(p.out)
        fields = {
            "y": Field(y, (row, column), (image, channel)),
            "row": Field(0, (1, 0), (0, 0)),
            "column": Field(0, (0, 1), (0, 0)),
        }
        super().__init__(k, team, p.out, (p.b, p.c), fields, 0, split, unroll=unroll)
        self.fields = fields
        self.row, self.column = self.offsets[1, 0], self.offsets[0, 1]

    def put(self, name: str, row: Register, column: Register) -> None:
        """Let a field be the element of x at row, column of each plane."""
        k = self.k
        image, channel, *steps = self.p.steps(self.p.size)
        address = k.x()
        with k.scope():
            t, part = k.x(2)
            k.set(address, self.x)
            for place, step in zip((row, column), steps, strict=True):
                k.li(t, step)
                k.mul(part, place, t)
                k.add(address, address, part)
        self.fields = {**self.fields, name: Field(address, (0, 0), (image, channel))}


def _nearest(k: Kernel, place: Register, size: int, out: int) -> Register:
    """floor(place size / out): a multiplication that is right for all places, or a division."""
    result = k.x()
    with k.scope():
        t = k.x()
        for shift in range(32):
            factor = -(-(size << shift) // out)
            if out * factor >= 1 << 32:
                break
            if all(o * factor >> shift == o * size // out for o in range(out)):
                k.li(t, factor)
                k.mul(result, place, t)
                k.srli(result, result, shift)
                return result
        k.li(t, size)
        k.mul(result, place, t)
        k.li(t, out)
        k.divu(result, result, t)
    return result


class _Between:
    """The two places that an output lies between, and their weights, in registers."""

    def __init__(self, k: Kernel, place: Register, size: int, out: int, aligned: bool) -> None:
        self.places, self.weights = k.x(2), k.f(2)
        (low, high), (first, second) = self.places, self.weights
        scale = (size - 1) / max(out - 1, 1) if aligned else size / out
        with k.scope():
            step, start, zero, one = (
                constant(k, c) for c in (scale, 0.0 if aligned else scale / 2 - 0.5, 0.0, 1.0)
            )
            k.fcvt_s_w(first, place)
            k.fmadd_s(first, first, step, start)
            k.fmax_s(first, first, zero)
            k.fcvt_w_s(low, first, TOWARDS_ZERO)
            k.fcvt_s_w(second, low)
            k.fsub_s(second, first, second)
            k.fsub_s(first, one, second)
            last = k.x()
            k.li(last, size - 1)
            k.addi(high, low, 1)
            Lanes(k, 1).pulp("min", rd=high, rs1=high, rs2=last)


def nearest_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    p: Planes,
    *,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = the nearest element of x; split is for sizes that are no multiples."""
    if copies := p.copies():
        avgpool2d_bw_f32(k, team, x, y, copies, share=1.0, unroll=unroll)
        return
    split = split_of(split, p.out[0] * p.out[1], p.b * p.c, 0, team.cores)

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            places = _Places(k, team, p, x, y, split, width)
            with places.each(), k.scope():
                places.put("x", *_nearest_of(k, places))
                places.sweep(["x"], ["y"], _copy)

    fitting(k, team, emit, unroll)


def nearest_bw_f32(
    k: Kernel, team: Team, dy: Address, dx: Address, p: Planes, *, unroll: int = UNROLL
) -> None:
    """dx = the sum of dy over the outputs that took this element."""
    if copies := p.copies():
        avgpool2d_fw_f32(k, team, dy, dx, copies, share=1.0, unroll=unroll)
        return
    fill_f32(k, team, dx, p.b * p.c * p.size[0] * p.size[1])
    team.barrier()

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            places = _Places(k, team, p, dx, dy, "columns", width)
            with places.each(), k.scope():
                places.put("x", *_nearest_of(k, places))
                places.sweep(["x", "y"], ["x"], _add)

    fitting(k, team, emit, unroll)


def _nearest_of(k: Kernel, places: _Places) -> tuple[Register, Register]:
    (height, width), (out_height, out_width) = places.p.size, places.p.out
    row = _nearest(k, places.row, height, out_height)
    return row, _nearest(k, places.column, width, out_width)


def _copy(_: Lanes, x: Lane) -> list[Lane]:
    return [x]


def _add(v: Lanes, x: Lane, y: Lane) -> list[Lane]:
    v.fadd_s(x, x, y)
    return [x]


CORNERS = ("x00", "x01", "x10", "x11")


def _put_corners(k: Kernel, places: _Places, aligned: bool) -> tuple[_Between, _Between]:
    """Fields x00, x01, x10 and x11: above and below, left and right."""
    (height, width), (out_height, out_width) = places.p.size, places.p.out
    rows = _Between(k, places.row, height, out_height, aligned)
    columns = _Between(k, places.column, width, out_width, aligned)
    for name in CORNERS:
        places.put(name, rows.places[int(name[1])], columns.places[int(name[2])])
    k.free(*rows.places, *columns.places)
    return rows, columns


def bilinear_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    p: Planes,
    *,
    aligned: bool = False,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = the four elements of x around, weighted; aligned: corners of x are corners of y."""
    split = split_of(split, p.out[0] * p.out[1], p.b * p.c, 0, team.cores)

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            places = _Places(k, team, p, x, y, split, width)
            with places.each(), k.scope():
                rows, columns = _put_corners(k, places, aligned)
                places.sweep(CORNERS, ["y"], _weighted(rows.weights, columns.weights))

    fitting(k, team, emit, unroll)


def _weighted(rows: list[Register], columns: list[Register]) -> Callable[..., list[Lane]]:
    def body(v: Lanes, a: Lane, b: Lane, c: Lane, d: Lane) -> list[Lane]:
        for left, right in ((a, b), (c, d)):
            v.fmul_s(left, left, columns[0])
            v.fmadd_s(left, right, columns[1], left)
        v.fmul_s(a, a, rows[0])
        v.fmadd_s(a, c, rows[1], a)
        return [a]

    return body


def bilinear_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    dx: Address,
    p: Planes,
    *,
    aligned: bool = False,
    unroll: int = UNROLL,
) -> None:
    """dx = the sum of dy over the outputs around, weighted as in bilinear_fw."""
    fill_f32(k, team, dx, p.b * p.c * p.size[0] * p.size[1])
    team.barrier()

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            places = _Places(k, team, p, dx, dy, "columns", width)
            with places.each(), k.scope():
                rows, columns = _put_corners(k, places, aligned)
                weight = k.f()
                for name in CORNERS:  # one by one: at a border, two are the same
                    k.fmul_s(weight, rows.weights[int(name[1])], columns.weights[int(name[2])])
                    places.sweep([name, "y"], [name], _add_weighted(weight))

    fitting(k, team, emit, unroll)


def _add_weighted(weight: Register) -> Callable[..., list[Lane]]:
    def body(v: Lanes, x: Lane, y: Lane) -> list[Lane]:
        v.fmadd_s(x, y, weight, x)
        return [x]

    return body


class Arguments(kernels.Arguments):
    """x[b, c, h, w] to y[b, c, out height, out width]; layout "hwc": channels last.

    split     what is dealt out: outputs' places ("rows"), planes ("columns"), or what is best
    unroll    planes that are computed side by side
    """

    b: PositiveInt = 1
    c: PositiveInt
    h: PositiveInt
    w: PositiveInt
    out: tuple[PositiveInt, PositiveInt]
    layout: Layout = "chw"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)

    @property
    def planes(self) -> Planes:
        return Planes(self.b, self.c, (self.h, self.w), self.out, self.layout)


class BilinearArguments(Arguments):
    """aligned    are the corners of x those of y?"""

    aligned: bool = False


def _family(
    emitter: Callable[..., None], expects: Callable[..., Expected], arguments: type[Arguments]
) -> Family:
    is_backward = "_bw_" in emitter.__name__
    options = ["aligned"] if arguments is BilinearArguments else []
    names = ("dy", "dx") if is_backward else ("x", "y")

    def tensors(point: Any) -> Tensors:
        p = point.planes
        sizes = (p.out, p.size) if is_backward else (p.size, p.out)
        source, target = (p.shape(size) for size in sizes)
        return {names[0]: Tensor(source), names[1]: Tensor(target, "out")}

    def chosen(point: Any) -> dict[str, Any]:
        return {name: getattr(point, name) for name in options}

    def expected(point: Any, values: Arrays) -> dict[str, Expected]:
        return {names[1]: expects(point, values[names[0]], **chosen(point))}

    def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        how = chosen(point) | ({} if is_backward else {"split": point.split})
        at = (l1[name] for name in names)
        emitter(k, team, *at, point.planes, unroll=point.unroll, **how)

    return tiled(
        Family(emitter.__name__, arguments, tensors, expected, no_macs, emit),
        lambda point: [Dim("b", point.b), Dim("c", point.c)],
        lambda point: dict.fromkeys(names, planes_of(point.layout)),
        lambda _, shape: {"b": shape["b"], "c": shape["c"]},
    )


FAMILIES = (
    _family(nearest_fw_f32, reference.nearest_forward, Arguments),
    _family(nearest_bw_f32, reference.nearest_backward, Arguments),
    _family(bilinear_fw_f32, reference.bilinear_forward, BilinearArguments),
    _family(bilinear_bw_f32, reference.bilinear_backward, BilinearArguments),
)
