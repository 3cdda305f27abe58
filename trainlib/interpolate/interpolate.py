"""Nearest and bilinear interpolation of planes to another size, forward and backward.

Columns are interpolated in the rows of x, then rows; backward it is the other way round. Each is a
line of outputs after the other, made of one line or two: which ones, and the weights, are computed
once for a line. Backward, cores have parts of lines: outputs share elements of x. Nearest to a
multiple of the size is pooling the other way round.

Source of the meaning: torch's interpolate.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from firmware.builder import LTU, Kernel, Register
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body
from trainlib.elementwise.fill import fill_f32
from trainlib.interpolate.weights import Method, sources_of
from trainlib.pool.avg_pool import avgpool2d_bw_f32, avgpool2d_fw_f32
from trainlib.pool.windows import LARGEST, Layout, Pair, Pooling
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import Address
from trainlib.reduction.row_reduction import Field, Rows, Split
from trainlib.reduction.row_view import View

Elements = tuple[Element, Element]
NUMBER = (1,)  # steps of what counts lines


class Planes:
    """b images of c channels, of size before and out after; as in pooling, with one window.

    here        rows of x, and of y, where these are parts of planes; None: all
    elements    types of x and y; what lies between is single precision
    """

    def __init__(
        self,
        b: int,
        c: int,
        size: Pair,
        out: Pair,
        layout: Layout,
        here: Pair | None = None,
        elements: Elements = (F32, F32),
    ) -> None:
        self.elements = elements
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
        value, image = self.elements
        of = self.b, self.c, *self.out, window, window, (0, 0), self.layout
        return Pooling(*of, image=image, value=value)

    def shape(self, size: Pair) -> tuple[int, ...]:
        return self.pooling.shape(*size)

    @property
    def between(self) -> int:
        """Elements of the rows of x with the columns of y."""
        return self.b * self.c * self.here[0] * self.out[1]

    @property
    def columns(self) -> "Lines":
        """Columns of x, and of what lies between."""
        elements = self.elements[0], F32
        size, out = (
            self._steps(self.here[0], columns[1], element)
            for columns, element in zip((self.size, self.out), elements, strict=True)
        )
        counts = self.b, self.c, self.here[0]
        whole = self.size[1], self.out[1]
        return Lines(whole, whole, (size[3], out[3]), counts, (size[:3], out[:3]), elements)

    @property
    def rows(self) -> "Lines":
        """Rows of what lies between, and of y."""
        elements = F32, self.elements[1]
        size, out = (
            self._steps(rows, self.out[1], element)
            for rows, element in zip(self.here, elements, strict=True)
        )
        others = size[:2] + size[3:], out[:2] + out[3:]
        whole = self.size[0], self.out[0]
        counts = self.b, self.c, self.out[1]
        return Lines(whole, self.here, (size[2], out[2]), counts, others, elements)

    def _steps(self, rows: int, columns: int, element: Element) -> tuple[int, ...]:
        """Bytes between images, channels, rows, columns."""
        return self.pooling.steps((rows, columns), of=element)


def copies(p: Planes, method: Method) -> Pooling | None:
    """The windows in y that elements of x are copied to, if that is all."""
    return p.copies() if method == "nearest" else None


@dataclass(frozen=True)
class Lines:
    """Rows or columns of x and of y: pairs are of both.

    whole     lines of the whole planes
    here      of these tensors
    steps     bytes from line to line
    counts    elements of a line, by dimension, and bytes between them
    elements  their types
    """

    whole: Pair
    here: Pair
    steps: Pair
    counts: tuple[int, ...]
    others: tuple[tuple[int, ...], tuple[int, ...]]
    elements: Elements = (F32, F32)

    def view(self, y: Address, split: Split, unroll: int) -> View:
        """Lines of y as rows."""
        fields = {
            "y": Field(y, self.steps[1:], self.others[1], self.elements[1]),
            "number": Field(0, NUMBER, (0,) * len(self.counts)),
        }
        return View(self.here[1:], self.counts, fields, 0, split, unroll)


@dataclass(frozen=True)
class Start:
    """Numbers in their planes of the first rows that are here, of x and of y."""

    x: Register
    y: Register


def _number(rows: Rows, start: Start | None) -> Register:
    """Of the line of y, in its plane."""
    relative = rows.offsets[NUMBER]
    if start is None:
        return relative
    number = rows.k.x()
    rows.k.add(number, relative, start.y)
    return number


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

    def work(rows: Rows) -> None:
        with rows.each():
            sources = sources_of(rows.k, method, lines.whole, _number(rows, start))
            names = [f"x{place}" for place in range(len(sources))]
            for name, (line, _) in zip(names, sources, strict=True):
                if start:
                    rows.k.sub(line, line, start.x)
                rows.find(name, line, x, lines.steps[0], lines.others[0], lines.elements[0])
            rows.sweep(names, ["y"], _weighted([weight for _, weight in sources]))

    lines.view(y, split, unroll).emit(k, team, work, reductions=0)


def _weighted(weights: Sequence[Register | None]) -> Body:
    def body(v: Lanes, a: Lane, *more: Lane) -> list[Lane]:
        for b in more:
            v.fmul_s(a, a, weights[0])
            v.fmadd_s(a, b, weights[1], a)
        return [a]

    return body


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

    def work(rows: Rows) -> None:
        with rows.each():
            sources = sources_of(rows.k, method, lines.whole, _number(rows, start))
            for line, weight in sources:
                with _if_here(rows.k, line, lines.here[0], start):
                    rows.find("x", line, dx, lines.steps[0], lines.others[0], lines.elements[0])
                    rows.sweep(["x", "y"], ["x"], _adding(weight))

    lines.view(dy, "columns", unroll).emit(k, team, work)


@contextmanager
def _if_here(k: Kernel, line: Register, lines: int, start: Start | None) -> Iterator[None]:
    """The body is for a line that the tensor has; `line` counts from its first one then."""
    if start is None:
        yield
        return
    with k.scope():
        here = k.x()
        k.li(here, lines)
        k.sub(line, line, start.x)
    with k.if_(LTU, line, here):
        yield


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
    split      what is partitioned: lines ("rows"), parts of each ("columns"), or what is best
    """
    if not start and (windows := copies(p, method)):
        avgpool2d_bw_f32(k, team, x, y, windows, share=1.0, unroll=unroll)
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
    if not start and (windows := copies(p, method)):
        avgpool2d_fw_f32(k, team, dy, dx, windows, share=1.0, unroll=unroll)
        return
    fill_f32(k, team, dx, p.b * p.c * p.here[0] * p.size[1])
    if not p.here[1]:
        return
    fill_f32(k, team, between, p.between)
    team.barrier()
    lines_bw_f32(k, team, dy, between, p.rows, method, start=start, unroll=unroll)
    team.barrier()
    lines_bw_f32(k, team, between, dx, p.columns, method, unroll=unroll)
