"""Nearest and bilinear interpolation of planes to another size, forward and backward.

Columns are interpolated in the rows of x, then rows; backward it is the other way round. Each is a
line of outputs after the other, made of one line or two: which ones, and the weights, are computed
once for a line. Backward, cores have parts of lines: outputs share elements of x. Nearest to a
multiple of the size is pooling the other way round.

    nearest     place o of `out` is floor(o in / out), exactly
    bilinear    (o + 1/2) in / out - 1/2, not below 0; aligned corners: o (in - 1) / (out - 1)

Source of the meaning: torch's interpolate.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.fill import fill_f32
from trainlib.kernels import Address
from trainlib.maps import fitting
from trainlib.nest import UNROLL, Body
from trainlib.pool import LARGEST, Layout, Pair, Pooling
from trainlib.pool_average import avgpool2d_bw_f32, avgpool2d_fw_f32
from trainlib.rows import Field, Rows, Split, split_of

TOWARDS_ZERO = 1  # rounding mode
Method = Literal["nearest", "bilinear", "aligned"]
"""How an output comes about; aligned: bilinear, corners of x are corners of y."""


class Planes:
    """b images of c channels, of size before and out after; as in pooling, with one window.

    here    rows of x, and of y, where these are parts of planes; None: all
    """

    def __init__(
        self, b: int, c: int, size: Pair, out: Pair, layout: Layout, here: Pair | None = None
    ) -> None:
        self.b, self.c, self.size, self.out = b, c, size, out
        self.pooling = Pooling(b, c, *size, (1, 1), (1, 1), (0, 0), layout)
        self.layout: Layout = layout
        self.here = here or (size[0], out[0])

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

    @property
    def between(self) -> int:
        """Elements of the rows of x with the columns of y."""
        return self.b * self.c * self.here[0] * self.out[1]

    @property
    def columns(self) -> "Lines":
        """Columns of x, and of what lies between."""
        size, out = self._steps(self.here[0], self.size[1]), self._steps(self.here[0], self.out[1])
        counts = self.b, self.c, self.here[0]
        whole = self.size[1], self.out[1]
        return Lines(whole, whole, (size[3], out[3]), counts, (size[:3], out[:3]))

    @property
    def rows(self) -> "Lines":
        """Rows of what lies between, and of y."""
        size, out = (self._steps(rows, self.out[1]) for rows in self.here)
        others = size[:2] + size[3:], out[:2] + out[3:]
        whole = self.size[0], self.out[0]
        return Lines(whole, self.here, (size[2], out[2]), (self.b, self.c, self.out[1]), others)

    def _steps(self, rows: int, columns: int) -> tuple[int, ...]:
        """Bytes between images, channels, rows, columns."""
        return self.pooling.steps((rows, columns))


@dataclass(frozen=True)
class Lines:
    """Rows or columns of x and of y: pairs are of both.

    whole     lines of the whole planes
    here      of these tensors
    steps     bytes from line to line
    counts    elements of a line, by dimension, and bytes between them
    """

    whole: Pair
    here: Pair
    steps: Pair
    counts: tuple[int, ...]
    others: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Start:
    """Numbers in their planes of the first rows that are here, of x and of y."""

    x: Register
    y: Register


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


Source = tuple[Register, Register | None]
"""A line of x that an output is made of, in a register, and its weight; None: 1."""


def sources_of(k: Kernel, method: Method, whole: Pair, output: Register) -> list[Source]:
    """What the output of that number is made of, in new registers."""
    if method == "nearest":
        return [(_nearest(k, output, *whole), None)]
    between = _Between(k, output, *whole, method == "aligned")
    return list(zip(between.places, between.weights, strict=True))


class _Outputs(Rows):
    """Lines of y as rows."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        lines: Lines,
        x: Address,
        y: Address,
        split: Split,
        unroll: int,
    ) -> None:
        self.lines, self.x = lines, x
        fields = {
            "y": Field(y, lines.steps[1:], lines.others[1]),
            "number": Field(0, (1,), (0,) * len(lines.counts)),
        }
        super().__init__(k, team, lines.here[1:], lines.counts, fields, 0, split, unroll=unroll)
        self.fields = fields

    def number(self, start: Register | None) -> Register:
        """Of the line, in its plane."""
        relative = self.offsets[(1,)]
        if start is None:
            return relative
        number = self.k.x()
        self.k.add(number, relative, start)
        return number

    def put(self, name: str, line: Register) -> None:
        """Let a field be a line of x; its register holds its address then."""
        k = self.k
        with k.scope():
            t = k.x()
            k.li(t, self.lines.steps[0])
            k.mul(line, line, t)
            k.set(t, self.x)
            k.add(line, line, t)
        self.fields = {**self.fields, name: Field(line, (0,), self.lines.others[0])}


def lines_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    lines: Lines,
    method: Method,
    *,
    start: Start | None = None,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """Lines of y from lines of x."""
    split = split_of(split, lines.here[1], prod(lines.counts), 0, team.cores)

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            outputs = _Outputs(k, team, lines, x, y, split, width)
            with outputs.each():
                number = outputs.number(start.y if start else None)
                sources = sources_of(k, method, lines.whole, number)
                for place, (line, _) in enumerate(sources):
                    if start:
                        k.sub(line, line, start.x)
                    outputs.put(f"x{place}", line)
                names = [f"x{place}" for place in range(len(sources))]
                weights = [weight for _, weight in sources]

                def body(v: Lanes, a: Lane, *more: Lane) -> list[Lane]:
                    for b in more:
                        v.fmul_s(a, a, weights[0])
                        v.fmadd_s(a, b, weights[1], a)
                    return [a]

                outputs.sweep(names, ["y"], body)

    fitting(k, team, emit, unroll)


def lines_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    dx: Address,
    lines: Lines,
    method: Method,
    *,
    start: Start | None = None,
    unroll: int = UNROLL,
) -> None:
    """Add lines of dy to those of dx that they are made of; others than are here, left out."""

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            outputs = _Outputs(k, team, lines, dx, dy, "columns", width)
            with outputs.each():
                number = outputs.number(start.y if start else None)
                for line, weight in sources_of(k, method, lines.whole, number):
                    if start is None:
                        outputs.put("x", line)
                        outputs.sweep(["x", "y"], ["x"], _adding(weight))
                        continue
                    with k.scope():
                        here = k.x()
                        k.li(here, lines.here[0])
                        k.sub(line, line, start.x)
                    with k.if_(LTU, line, here):
                        outputs.put("x", line)
                        outputs.sweep(["x", "y"], ["x"], _adding(weight))

    fitting(k, team, emit, unroll)


def _adding(weight: Register | None) -> Body:
    def body(v: Lanes, x: Lane, y: Lane) -> list[Lane]:
        if weight is None:
            v.fadd_s(x, x, y)
        else:
            v.fmadd_s(x, y, weight, x)
        return [x]

    return body


def interpolate_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    between: Address,
    p: Planes,
    method: Method,
    *,
    start: Start | None = None,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """y = the elements of x around, weighted.

    between    scratch, see Planes.between
    split      what is dealt out: lines ("rows"), parts of each ("columns"), or what is best
    """
    if method == "nearest" and not start and (copies := p.copies()):
        avgpool2d_bw_f32(k, team, x, y, copies, share=1.0, unroll=unroll)
        return
    lines_fw_f32(k, team, x, between, p.columns, method, split=split, unroll=unroll)
    team.barrier()
    lines_fw_f32(k, team, between, y, p.rows, method, start=start, split=split, unroll=unroll)


def interpolate_bw_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    dx: Address,
    between: Address,
    p: Planes,
    method: Method,
    *,
    start: Start | None = None,
    unroll: int = UNROLL,
) -> None:
    """dx = the sum of dy over the outputs around, weighted as in interpolate_fw."""
    if method == "nearest" and not start and (copies := p.copies()):
        avgpool2d_fw_f32(k, team, dy, dx, copies, share=1.0, unroll=unroll)
        return
    fill_f32(k, team, dx, p.b * p.c * p.here[0] * p.size[1])
    if not p.here[1]:
        return
    fill_f32(k, team, between, p.between)
    team.barrier()
    lines_bw_f32(k, team, dy, between, p.rows, method, start=start, unroll=unroll)
    team.barrier()
    lines_bw_f32(k, team, between, dx, p.columns, method, unroll=unroll)
