"""Multi-head self-attention in L1, forward and backward.

    rows = X W^T + bias                        queries, keys and values, side by side
    P = softmax(Q K^T / sqrt(size))            of each head of each sequence
    Y = (P V of all heads) Wo^T + bias_o

X[batch, length, embed]    W[3 width, embed]    Wo[embed, width]    width = heads * size

Queries are kept divided by sqrt(size): fewer numbers to divide than there are scores. Addresses are
by the names of the families' tensors (trainlib.attention.ops).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Body
from trainlib.codegen.nest_operands import Operand
from trainlib.codegen.operand_addresses import Places, places_of
from trainlib.elementwise.elementwise import map_nest
from trainlib.gemm.linear import linear_fw_f32, linear_ig_f32, linear_wg_f32
from trainlib.gemm.matmul import matmul_f32
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.tensor import WORD, Addresses
from trainlib.recurrent.gates import pad
from trainlib.reduction.softmax import softmax_bw_f32, softmax_fw_f32


@dataclass(frozen=True)
class Shape:
    """Sequences side by side, their elements, numbers of each; heads, and numbers of each."""

    batch: int
    length: int
    embed: int
    heads: int
    size: int

    @property
    def width(self) -> int:
        """Elements of all heads together."""
        return self.heads * self.size

    @property
    def rows(self) -> int:
        """Elements of all sequences."""
        return self.batch * self.length


def line(columns: int) -> int:
    """Bytes from row to row where these are read side by side."""
    return WORD * (columns + pad(columns))


class Attention:
    """The code, given where its tensors are."""

    def __init__(self, k: Kernel, team: Team, shape: Shape, places: Places) -> None:
        self.k, self.team, self.shape, self.places = k, team, shape, places

    @contextmanager
    def each_head(self, lines: dict[str, int], squares: tuple[str, ...]) -> Iterator[None]:
        """Repeat the body for every head of every sequence.

        lines      bytes from row to row of what has the columns of one
        squares    names of what has rows and columns for the elements of a sequence
        """
        places, s = self.places, self.shape
        with places.loop(0, s.batch):
            with places.loop(1, s.heads):
                yield
                for name in lines:
                    places.move(name, WORD * s.size)
                for name in squares:
                    places.move(name, WORD * s.length**2)
            for name, step in lines.items():
                places.move(name, s.length * step - WORD * s.width)

    def scale(self, name: str) -> None:
        """Divide the first columns, of all heads, by sqrt(size)."""
        s = self.shape

        def operation(k: Kernel) -> Body:
            factor = constant(k, 1 / sqrt(s.size))

            def body(v: Lanes, x: Lane) -> list[Lane]:
                v.fmul_s(x, x, factor)
                return [x]

            return body

        with self.places.load(name) as (address,):
            columns = Operand(address, (line(3 * s.width), WORD))
            map_nest(self.k, self.team, operation, (s.rows, s.width), [columns], [columns])

    def product(self, a: str, b: str, c: str, n: int, depth: int, m: int, **how: Any) -> None:
        """C = A B; how: as matmul_f32's."""
        with self.places.load(a, b, c) as (at_a, at_b, at_c):
            matmul_f32(self.k, self.team, at_a, at_b, at_c, n, depth, m, **how)


def mhsa_fw_f32(k: Kernel, team: Team, at: Addresses, shape: Shape) -> None:
    """Y, and what the gradients need: QKV (with the divided queries), P, and O = P V."""
    s, qkv, o = shape, line(3 * shape.width), line(shape.width)
    moving = {
        "q": ("QKV", 0),
        "key": ("QKV", WORD * s.width),
        "value": ("QKV", WORD * 2 * s.width),
        "p": ("P", 0),
        "o": ("O", 0),
    }
    with places_of(k, at, moving, 2) as places:
        attention = Attention(k, team, s, places)
        with places.load("X", "W", "QKV", "bias") as (x, w, y, bias):
            lines: Any = {"a_line": line(s.embed), "b_line": line(s.embed), "c_line": qkv}
            linear_fw_f32(k, team, x, w, y, s.rows, s.embed, 3 * s.width, bias=bias, **lines)
        team.barrier()
        attention.scale("QKV")
        team.barrier()
        n, size = s.length, s.size
        with attention.each_head({"q": qkv, "key": qkv}, ("p",)):
            attention.product("q", "key", "p", n, size, n, trans_b=True, a_line=qkv, b_line=qkv)
        team.barrier()
        with places.load("P", "partials") as (p, partials):
            softmax_fw_f32(k, team, p, p, partials, (s.batch * s.heads * n, n, 1))
        places.copy("p", "P")
        team.barrier()
        with attention.each_head({"value": qkv, "o": o}, ("p",)):
            attention.product("p", "value", "o", n, n, size, b_line=qkv, c_line=o)
        team.barrier()
        with places.load("O", "Wo", "Y", "bias_o") as (x, w, y, bias):
            lines = {"a_line": o, "b_line": o}
            linear_fw_f32(k, team, x, w, y, s.rows, s.width, s.embed, bias=bias, **lines)


def mhsa_bw_f32(k: Kernel, team: Team, at: Addresses, shape: Shape) -> None:
    """Gradients from dY; dP is of one head, dO and dQKV of all."""
    s, qkv, o, y = shape, line(3 * shape.width), line(shape.width), line(shape.embed)
    parts = {"q": 0, "key": WORD * s.width, "value": WORD * 2 * s.width}
    moving = {name: ("QKV", column) for name, column in parts.items()}
    moving |= {f"d{name}": ("dQKV", column) for name, column in parts.items()}
    moving |= {"p": ("P", 0), "do": ("dO", 0)}
    with places_of(k, at, moving, 2) as places:
        attention = Attention(k, team, s, places)
        with places.load("dY", "Wo", "dO") as (dy, w, do):
            lines: Any = {"a_line": y, "c_line": o}
            linear_ig_f32(k, team, dy, w, do, s.rows, s.width, s.embed, **lines)
        team.barrier()
        columns = {**dict.fromkeys([*parts, *(f"d{name}" for name in parts)], qkv), "do": o}
        with attention.each_head(columns, ("p",)):
            _head_gradients(attention)
        attention.scale("dQKV")
        team.barrier()
        _weight_gradients(attention)


def _head_gradients(attention: Attention) -> None:
    """Gradients of a head's queries, keys and values."""
    k, team, places, s = attention.k, attention.team, attention.places, attention.shape
    qkv, o, n, size = line(3 * s.width), line(s.width), s.length, s.size
    product = attention.product
    product("do", "value", "dP", n, size, n, trans_b=True, a_line=o, b_line=qkv)
    product("p", "do", "dvalue", n, n, size, trans_a=True, b_line=o, c_line=qkv)
    team.barrier()
    with places.load("p", "dP", "partials") as (p, dp, partials):
        softmax_bw_f32(k, team, p, dp, dp, partials, (n, n, 1))
    team.barrier()
    product("dP", "key", "dq", n, n, size, b_line=qkv, c_line=qkv)
    product("dP", "q", "dkey", n, n, size, trans_a=True, b_line=qkv, c_line=qkv)
    team.barrier()


def _weight_gradients(attention: Attention) -> None:
    """Gradients of inputs, weights and biases."""
    k, team, places, s = attention.k, attention.team, attention.places, attention.shape
    qkv, o, y = line(3 * s.width), line(s.width), line(s.embed)
    with places.load("dQKV", "W", "dX") as (dy, w, dx):
        linear_ig_f32(k, team, dy, w, dx, s.rows, s.embed, 3 * s.width, a_line=qkv)
    with places.load("dQKV", "X", "dW") as (dy, x, dw):
        linear_wg_f32(k, team, dy, x, dw, s.rows, s.embed, 3 * s.width, a_line=qkv)
    with places.load("dY", "O", "dWo") as (dy, x, dw):
        lines: Any = {"a_line": y, "b_line": o}
        linear_wg_f32(k, team, dy, x, dw, s.rows, s.width, s.embed, **lines)
    for name, target, columns in (("dQKV", "dbias", 3 * s.width), ("dY", "dbias_o", s.embed)):
        with places.load(name, target) as (dy, dbias):
            sums_f32(k, team, dy, dbias, columns, s.rows, row=WORD, term=line(columns))
