"""Products of matrices in L2 as phases of larger primitives: stacks of them, parts of tensors.

    Products({"rows": 100, "inputs": 20, "outputs": 30}).of(
        "sums",
        Matrix("X", ("rows", "inputs")),
        Matrix("W", ("outputs", "inputs")),
        Matrix("Y", ("rows", "outputs")),
        bias=Matrix("bias", ("outputs",)),
    )

What a matrix has as rows and columns, and what it is stacked by, its axes say.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.batch_loop import images_of
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.elementwise.elementwise import Operation, map_nest
from trainlib.gemm.matmul import matmul_f32
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.phases import Phase
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import WORD, Addresses, Role, Tensor
from trainlib.primitive.tile_spec import Dim, Sizes, Tiling

UNIT = 8  # rows and columns of a tile
RATE = 5.0  # multiply-adds per cycle, nearly
PAD = 1  # words after rows in L1 that a block reads side by side: they begin in different banks


@dataclass(frozen=True)
class Matrix:
    """A matrix, or a stack of them: all of a tensor in L2, or a part of it.

    axes      dimensions, the last two those of a matrix
    offset    bytes from the start of the tensor
    steps     bytes from an element to the next, by axis; None: row-major
    """

    name: str
    axes: tuple[str, ...]
    offset: int = 0
    steps: tuple[int, ...] | None = None

    def tensor(self, sizes: Sizes, role: Role = "in", pad: int = 0) -> Tensor:
        """What a phase has of it."""
        return Tensor(tuple(sizes[axis] for axis in self.axes), role, pad=pad, steps=self.steps)

    @property
    def place(self) -> tuple[str, int]:
        """Where it is, see Phase.at."""
        return self.name, self.offset


@dataclass(frozen=True)
class Products:
    """Phases over dimensions of these sizes."""

    sizes: Sizes

    def of(
        self,
        phase: str,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        bias: Matrix | None = None,
        accumulate: bool = False,
        factor: float | None = None,
    ) -> Phase:
        """C = A B, for all that they are stacked by.

        bias          one for each column
        accumulate    C += A B
        factor        of the results
        """
        product = _Product(self.sizes, a, b, c, bias, accumulate, factor)
        tensors = {
            "A": a.tensor(self.sizes, pad=0 if product.trans_a else PAD),
            "B": b.tensor(self.sizes, pad=PAD if product.trans_b else 0),
            "C": c.tensor(self.sizes, "inout" if accumulate else "out"),
        }
        at = {"A": a.place, "B": b.place, "C": c.place}
        if bias:
            tensors["bias"], at["bias"] = bias.tensor(self.sizes), bias.place
        return Phase(phase, product.tiling, tensors, at)

    def sums(self, phase: str, x: Matrix, y: Matrix) -> Phase:
        """y = the sum of the rows of x."""
        rows, columns = x.axes
        dims = (
            Dim(columns, self.sizes[columns], min(UNIT, self.sizes[columns])),
            Dim(rows, self.sizes[rows], is_summed=True),
        )

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            how: Any = {"row": WORD, "term": tile.part("x").row, "accumulate": not tile.is_first}
            sums_f32(k, team, at["x"], at["y"], tile[columns], tile[rows], **how)

        tensors = {"x": x.tensor(self.sizes), "y": y.tensor(self.sizes, "out")}
        tiling = Tiling(dims, {"x": x.axes, "y": y.axes}, emit)
        return Phase(phase, tiling, tensors, {"x": x.place, "y": y.place})


@dataclass(frozen=True)
class _Product:
    """See Products.of."""

    sizes: Sizes
    a: Matrix
    b: Matrix
    c: Matrix
    bias: Matrix | None
    accumulate: bool
    factor: float | None

    @property
    def outer(self) -> tuple[str, ...]:
        """What they are stacked by."""
        return self.c.axes[:-2]

    @property
    def depth(self) -> str:
        [depth] = set(self.a.axes) - set(self.c.axes)
        return depth

    @property
    def trans_a(self) -> bool:
        return self.a.axes[-1] != self.depth

    @property
    def trans_b(self) -> bool:
        return self.b.axes[-1] == self.depth

    @property
    def tiling(self) -> Tiling:
        of, (n, m) = self.sizes, self.c.axes[-2:]
        dims = (
            *(Dim(name, of[name]) for name in self.outer),
            *(Dim(name, of[name], min(UNIT, of[name])) for name in (n, m)),
            Dim(self.depth, of[self.depth], is_summed=True),
        )
        boxes = {"A": self.a.axes, "B": self.b.axes, "C": self.c.axes}
        if self.bias:
            boxes["bias"] = self.bias.axes
        has_factor = self.factor is not None
        return Tiling(dims, boxes, self._emit, rate=RATE, tells_last=has_factor)

    def _emit(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        n, m = self.c.axes[-2:]
        lines: Any = {f"{name.lower()}_line": tile.part(name).row for name in ("A", "B", "C")}
        with self._each(k, tile, at) as own:
            matmul_f32(
                *(k, team, own["A"], own["B"], own["C"], tile[n], tile[self.depth], tile[m]),
                bias=at.get("bias") if tile.is_first else None,
                trans_a=self.trans_a,
                trans_b=self.trans_b,
                accumulate=self.accumulate or not tile.is_first,
                **lines,
            )
        if self.factor is not None and tile.is_last:
            team.barrier()
            part = tile.part("C")
            c = Operand(at["C"], part.strides)
            map_nest(k, team, times(self.factor), part.shape, [c], [c])

    @contextmanager
    def _each(self, k: Kernel, tile: TileShape, at: Addresses) -> Iterator[Addresses]:
        """Repeat the body for all matrices of a stack."""
        own: Addresses = {name: at[name] for name in ("A", "B", "C")}
        with ExitStack() as stack:
            for axis, dim in enumerate(self.outer):
                steps = {name: tile.part(name).strides[axis] for name in own}
                own = stack.enter_context(images_of(k, tile[dim], own, steps))
            yield own


def times(factor: float) -> Operation:
    """x becomes x times a factor."""

    def operation(k: Kernel) -> Body:
        number = constant(k, factor)

        def body(v: Lanes, x: Lane) -> Sequence[Lane]:
            v.fmul_s(x, x, number)
            return [x]

        return body

    return operation
