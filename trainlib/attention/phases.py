"""Multi-head self-attention whose tensors lie in L2: the phases of both directions.

Sequences and heads are what matrices are stacked by: a head's queries are some columns of QKV. See
trainlib.attention.heads for what is computed.
"""

from math import sqrt
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.attention.heads import Shape
from trainlib.gemm.phases import Matrix, Products
from trainlib.primitive.phases import Phase
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import WORD, Addresses, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.reduction.row_reduction import SCRATCH
from trainlib.reduction.softmax import softmax_bw_f32, softmax_fw_f32

ROW_RATE = 1.0  # elements of softmax per cycle, nearly


class Phases:
    """Phases of attention that forward and backward share.

    Dimensions: rows of all sequences; embed, width, columns of QKV but the queries'; batch, heads,
    size; queries and keys: the elements of a sequence.
    """

    def __init__(self, s: Shape) -> None:
        self.shape = s
        sizes = {
            "rows": s.rows,
            "embed": s.embed,
            "width": s.width,
            "others": 2 * s.width,
            "columns": 3 * s.width,
            "batch": s.batch,
            "heads": s.heads,
            "size": s.size,
            "queries": s.length,
            "keys": s.length,
        }
        self.products = Products(sizes)
        self.of, self.sums = self.products.of, self.products.sums

    @property
    def factor(self) -> float:
        """The factor of queries."""
        return 1 / sqrt(self.shape.size)

    def head(self, name: str, axis: str, part: int = 0, parts: int = 1) -> Matrix:
        """A matrix for each head: a part of the columns of a tensor that has `parts` of them."""
        s = self.shape
        row = WORD * parts * s.width
        steps = (s.length * row, WORD * s.size, row, WORD)
        return Matrix(name, ("batch", "heads", axis, "size"), WORD * part * s.width, steps)

    def qkv(self, name: str) -> tuple[Matrix, Matrix, Matrix]:
        """Queries, keys and values of all heads."""
        return (
            self.head(name, "queries", 0, 3),
            self.head(name, "keys", 1, 3),
            self.head(name, "keys", 2, 3),
        )

    def scores(self, name: str) -> Matrix:
        """A matrix for each head."""
        return Matrix(name, ("batch", "heads", "queries", "keys"))

    def columns(self, name: str, axis: str, first: int = 0) -> Matrix:
        """Some columns of QKV, of all rows."""
        return Matrix(name, ("rows", axis), WORD * first, (WORD * 3 * self.shape.width, WORD))

    def softmax(self, name: str, operands: dict[str, tuple[str, Role]]) -> Phase:
        """Of the rows of scores: an operand by its name in the emitter, where it is, and its role.

        What is read and what is written may be the same: a tile's rows are read before.
        """
        s = self.shape
        rows = s.batch * s.heads * s.length
        tensors: Tensors = {n: Tensor((rows, s.length), role) for n, (_, role) in operands.items()}
        emitter: Any = softmax_bw_f32 if "dy" in operands else softmax_fw_f32

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            own = (at[name] for name in (*operands, "partials"))
            emitter(k, team, *own, (tile["scores"], s.length, 1))

        dims = (Dim("scores", rows),)
        boxes = dict.fromkeys(tensors, ("scores", None))
        tiling = Tiling(dims, boxes, emit, lambda _: dict(SCRATCH), rate=ROW_RATE)
        return Phase(name, tiling, tensors, {n: (base, 0) for n, (base, _) in operands.items()})


def forward_phases(s: Shape) -> list[Phase]:
    """Queries, the other columns of QKV, scores, softmax of them, O, Y."""
    p = Phases(s)
    x = Matrix("X", ("rows", "embed"))
    query, key, value = p.qkv("QKV")
    return [
        p.of(
            *("queries", x, Matrix("W", ("width", "embed")), p.columns("QKV", "width")),
            bias=Matrix("bias", ("width",)),
            factor=p.factor,
        ),
        p.of(
            *("keys_values", x, Matrix("W", ("others", "embed"), WORD * s.width * s.embed)),
            p.columns("QKV", "others", s.width),
            bias=Matrix("bias", ("others",), WORD * s.width),
        ),
        p.of("scores", query, key, p.scores("P")),
        p.softmax("softmax", {"x": ("P", "in"), "y": ("P", "out")}),
        p.of("heads", p.scores("P"), value, p.head("O", "queries")),
        p.of(
            *("outputs", Matrix("O", ("rows", "width")), Matrix("Wo", ("embed", "width"))),
            Matrix("Y", ("rows", "embed")),
            bias=Matrix("bias_o", ("embed",)),
        ),
    ]


def buffers(s: Shape) -> dict[str, int]:
    """Bytes of what lies between the phases of backward."""
    words = {"dO": s.rows * s.width, "dQKV": 3 * s.rows * s.width}
    words["dP"] = s.batch * s.heads * s.length**2
    return {name: WORD * count for name, count in words.items()}


def backward_phases(s: Shape) -> list[Phase]:
    """Gradients of O, P, values, scores, queries and keys, then of inputs, weights and biases."""
    p = Phases(s)
    query, key, value = p.qkv("QKV")
    dquery, dkey, dvalue = p.qkv("dQKV")
    dhead, dscores = p.head("dO", "queries"), p.scores("dP")
    dy, dqkv = Matrix("dY", ("rows", "embed")), Matrix("dQKV", ("rows", "columns"))
    operands: dict[str, tuple[str, Role]] = {"y": ("P", "in"), "dy": ("dP", "in")}
    return [
        p.of("dO", dy, Matrix("Wo", ("embed", "width")), Matrix("dO", ("rows", "width"))),
        p.of("dP", dhead, value, dscores),
        p.of("dvalues", p.scores("P"), dhead, dvalue),
        p.softmax("dscores", operands | {"dx": ("dP", "out")}),
        p.of("dqueries", dscores, key, dquery, factor=p.factor),
        p.of("dkeys", dscores, query, dkey),
        p.of("dX", dqkv, Matrix("W", ("columns", "embed")), Matrix("dX", ("rows", "embed"))),
        p.of("dW", dqkv, Matrix("X", ("rows", "embed")), Matrix("dW", ("columns", "embed"))),
        p.of("dWo", dy, Matrix("O", ("rows", "width")), Matrix("dWo", ("embed", "width"))),
        p.sums("dbias", dqkv, Matrix("dbias", ("columns",))),
        p.sums("dbias_o", dy, Matrix("dbias_o", ("embed",))),
    ]
