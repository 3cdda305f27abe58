"""Matrix product: C[n, m] = A[n, k] B[k, m] and its relatives, row-major, in L1.

A block of rows x cols sums stays in registers: rows + cols loads feed rows * cols multiply-adds. Of
halves a sum is two columns of C, each of which takes the element of A and its own of B; with B
stored as [m, k] it is two sums of every other product, which are added at last. Rows and columns
are partitioned among a grid of cores, which differ by one row and one column at most; the code is
specialised for the shape, so that what is left over costs no test.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np

from firmware.builder import Kernel, KernelError, Register
from firmware.runtime import Team
from trainlib.codegen.work_split import Partition, grid_of
from trainlib.gemm.bias import bias_added
from trainlib.gemm.depth_split import depth_split_of, scratch_of
from trainlib.gemm.operands import Operands, Packing, Scale
from trainlib.gemm.outer_product import Outer
from trainlib.gemm.partition import in_one_or_two, shares_of
from trainlib.gemm.partition_code import Piece, emit_shares
from trainlib.gemm.register_block import AHEAD, Block
from trainlib.gemm.register_block_cost import (
    LARGEST_BLOCK,
    code_of_part,
    constants,
    cycles_of_part,
    fits,
    largest_block,
)
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import WORD, Address
from trainlib.primitive.tile_spec import CodeCost

NEARLY = 1.1


@dataclass(frozen=True)
class Blocking:
    """A point of the family.

    rows, cols    the block that stays in registers; what is left over has smaller blocks
    unroll        steps of the inner dimension in a round of the inner loop
    split         parts of the rows and of the columns, a core for each pair
    """

    rows: int
    cols: int
    unroll: int
    split: tuple[int, int]


def matmul_f32(
    k: Kernel,
    team: Team,
    a: Address,
    b: Address,
    c: Address,
    n: int,
    depth: int,
    m: int,
    *,
    element: Element = F32,
    bias: Address | None = None,
    bias_by: Literal["column", "row"] = "column",
    trans_a: bool = False,
    trans_b: bool = False,
    accumulate: bool = False,
    scale: Scale | None = None,
    relu: bool = False,
    opens: bool = False,
    a_line: int | None = None,
    b_line: int | None = None,
    c_line: int | None = None,
    b_apart: int = 1,
    c_apart: int = 1,
    rows: int | None = None,
    cols: int | None = None,
    unroll: int = 1,
    split: tuple[int, int] | None = None,
    parts: Address | None = None,
    told: Register | None = None,
) -> None:
    """C[n, m] = A[n, depth] B[depth, m], on all cores of the team.

    element              of all matrices; rows of halves begin with a word, m and depth may be odd:
                         what fills the last word of a row of C is undefined
    bias                 C = A B + bias, a number for each "column" or "row" of C
    trans_a, trans_b     A is stored as [depth, n], B as [m, depth]
    accumulate           C += A B, or A B + bias: the bias is added to C before
    scale                C += scale A B, each sum rounded once to C; neither accumulate nor bias
    relu                 C is 0 where it would be less
    opens                of halves with trans_b and a depth above 1: C is words, the sums of even
                         and of odd steps, which trainlib.gemm.open_sums adds up
    a_line, ...          bytes from one stored row to the next; None: no gaps
    b_apart, c_apart     of single precision, elements of a stored row from one to the next
    rows, cols           the block that stays in registers
    unroll               steps of the inner dimension in a round of the inner loop
    split                parts of the rows and of the columns, a core for each pair
    parts                of single precision, trainlib.gemm.depth_split.scratch_of bytes of L1 with
                         which the inner dimension may be partitioned, too; None: it is not
    told                 of single precision, without a bias or parts, a register with the steps
                         that there are of the inner dimension, depth at most: C += A B, or where it
                         is negative, as many, and C = A B

    What is None is chosen: see `timed_blocking`.

    raises    KernelError if the point is not one, or does not fit the registers
    """
    element.check(k, f"matmul_{element.name}")
    if element.is_half and (relu or scale):
        raise KernelError(f"matmul_{element.name}: relu or scale; they are for matmul_f32")
    size, lanes = element.size, lanes_of(element, trans_a, trans_b, depth)
    assert lanes == "depth" or not opens
    assert b_apart == c_apart == 1 or not element.is_half
    a_line = a_line or line_of(element, n if trans_a else depth)
    b_line = b_line or line_of(element, b_apart * (depth if trans_b else m))
    c_line = c_line or (WORD * m if opens else line_of(element, c_apart * m))
    bias_steps = (size, 0) if bias_by == "row" else (0, size)
    if accumulate and bias is not None:
        if element.is_half:
            raise KernelError(f"matmul_{element.name}: accumulate and bias; one of them at a time")
        along = (n, c_line, bias_steps[0]), (m, WORD * c_apart, bias_steps[1])
        stored: Any = {"trans_a": trans_a, "trans_b": trans_b, "accumulate": True, "relu": relu}
        stored |= {"a_line": a_line, "b_line": b_line, "c_line": c_line, "b_apart": b_apart}
        stored |= {"c_apart": c_apart}
        point: Any = {"rows": rows, "cols": cols, "unroll": unroll, "split": split, "parts": parts}
        with bias_added(k, team, c, bias, along):
            matmul_f32(k, team, a, b, c, n, depth, m, **stored, **point)
        return
    steps = 2 if lanes == "depth" else 1
    columns = 2 if lanes == "columns" else 1
    x = Operands(
        *(a, b, c, bias, depth // steps),
        *((size, a_line) if trans_a else (a_line, size * steps)),
        *((size * steps * b_apart, b_line) if trans_b else (b_line, size * columns * b_apart)),
        c_line,
        bias_steps[0],
        bias_steps[1] * columns,
        accumulate,
        scale,
        relu,
        element,
        lanes,
        depth % steps,
        opens,
        told,
        c_apart,
    )
    if told is not None:
        assert (bias, parts, unroll) == (None, None, 1)
        x = replace(x, accumulates=True)
    m = -(-m // columns)
    shares = not k.has_float_registers

    def choose(rows_of: int, columns_of: int, cores: int) -> tuple[int, Blocking]:
        of = x.placeless, rows_of, columns_of, cores, rows, cols, unroll, split
        return timed_blocking(*of, shares_registers=shares)

    outer = None if element.is_half else Outer.fitting(k, x, rows, cols)
    if outer or (rows, cols, split) != (None, None, None):
        point = choose(n, m, team.cores)[1]
        if outer and split is None:
            point = replace(point, split=_split_of(outer, n, m, team.cores))
        emit_product(k, team, x, n, m, point, outer)
        return

    cycles, found = shares_of(x, n, m, team.cores, choose, shares)
    if parts is not None and unroll == 1 and scale is None and not element.is_half:

        def chosen(part: Operands, cores: int) -> tuple[int, Blocking]:
            return timed_blocking(part, n, m, cores, shares_registers=shares)

        def of_part(k: Kernel, group: Team, own: Operands, point: Blocking) -> None:
            emit_product(k, group, own, n, m, point, None)

        in_parts = depth_split_of(x, n, m, team.cores, chosen, cycles, parts)
        if in_parts and in_parts.fits(k, team, of_part):
            in_parts.emit(k, team, of_part)
            return

    def emit(group: Team, piece: Piece) -> None:
        with piece.operands(k, x) as own:
            emit_product(k, group, own, piece.n, piece.m, piece.point, None)

    emit_shares(k, team, found, emit)


def line_of(element: Element, count: int) -> int:
    """Bytes of a row without gaps but for the last word's."""
    return -(-element.size * count // WORD) * WORD


def lanes_of(element: Element, trans_a: bool, trans_b: bool, depth: int) -> Packing:
    """What a register has of a product: see Operands."""
    if not element.is_half or trans_a and trans_b:
        return "one"
    if not trans_b:
        return "columns"
    return "depth" if depth > 1 else "one"


def _split_of(outer: Outer, n: int, m: int, cores: int) -> tuple[int, int]:
    """Of the grids that are nearly the fastest, that with most columns: there, banks differ."""
    cycles = {s: outer.cycles(-(-n // s[0]), -(-m // s[1])) for s in _splits(n, m, cores)}
    most = NEARLY * min(cycles.values())
    return min(split for split in cycles if cycles[split] <= most)


def emit_product(
    k: Kernel,
    team: Team,
    x: Operands,
    n: int,
    m: int,
    point: Blocking,
    outer: Outer | None,
) -> None:
    """Emit C[n, m] = A B at a point, or as an outer product."""
    with k.scope():
        pointers = k.x(3 + (x.bias is not None) + (x.told is not None))
        grid = k.x(3)
        block = outer or Block(k, x, point.rows, point.cols, point.unroll)
        with grid_of(k, team, point.split, *grid):
            for height, width in _partitioned(k, x, n, m, point.split, pointers, grid):
                with k.scope():
                    k.free(*grid)
                    with block.registers(pointers, height, width):
                        block.part(height, width)


def _partitioned(
    k: Kernel,
    x: Operands,
    n: int,
    m: int,
    split: tuple[int, int],
    pointers: list[Register],
    grid: list[Register],
) -> Iterator[tuple[int, int]]:
    """Emit the loop's body for each size of part, pointers at the core's own."""
    i, j, t = grid
    pa, pb, pc, *others = pointers
    bias = others if x.bias is not None else []
    if x.told is not None:
        k.mv(others[-1], x.told)
    all_rows, all_cols = Partition(k, n, split[0], i, t), Partition(k, m, split[1], j, t)
    for part in all_rows.parts_of_cores():
        all_rows.load_start(pa, part, x.a, x.a_row)
        all_rows.load_start(pc, part, x.c, x.c_row)
        if x.bias is not None:
            all_rows.load_start(bias[0], part, x.bias, x.bias_row)
        for strip in all_cols.parts_of_cores():
            all_cols.load_start(pb, strip, x.b, x.b_column)
            all_cols.add_start(pc, strip, x.c_column)
            if x.bias is not None:
                all_cols.add_start(bias[0], strip, x.bias_column)
            yield part.size, strip.size


@lru_cache(4096)
def nearly_cost(
    n: int,
    depth: int,
    m: int,
    cores: int,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    starts: bool = False,
    has_strips: bool = False,
    has_parts: bool = False,
) -> CodeCost:
    """The cost of a product of single precision whose point is chosen, nearly; cheaper than that.

    starts        do the sums start with something that is loaded?
    has_strips    are strips tried, too? It takes as long as to choose it
    has_parts     are parts of the inner dimension, where there are few sums?
    """
    x = Operands(
        *(0, 0, 0, None, depth),
        *((WORD, WORD * n) if trans_a else (WORD * depth, WORD)),
        *((WORD, WORD * depth) if trans_b else (WORD * m, WORD)),
        WORD * m,
        accumulates=starts,
    )

    def choose(rows: int, columns: int, cores: int) -> tuple[int, Blocking]:
        return timed_blocking(x, rows, columns, cores)

    if has_strips:
        cycles, shares = shares_of(x, n, m, cores, choose, shares_registers=True)
    else:
        cycles, shares = in_one_or_two(n, m, cores, choose)
    code = max(sum(_code_of(x, p) for p in share.pieces) for share in shares)
    if has_parts and scratch_of(n, m, depth):

        def of_part(part: Operands, cores: int) -> tuple[int, Blocking]:
            return timed_blocking(part, n, m, cores)

        if split := depth_split_of(x, n, m, cores, of_part, cycles, 0):
            inner = Piece(0, 0, n, m, split.point)
            return CodeCost(split.cycles, _code_of(split.x, inner) + split.added)
    return CodeCost(cycles, code)


def _code_of(x: Operands, piece: Piece) -> int:
    """Instructions of the longest code for a piece's parts, which differ by a row or a column."""
    blocking = piece.point
    heights, widths = (
        (size // parts, -(-size // parts))
        for size, parts in zip((piece.n, piece.m), blocking.split, strict=True)
    )
    sizes = product(heights, widths)
    return max(code_of_part(x, *size, blocking.rows, blocking.cols) for size in sizes)


@lru_cache(16_384)
def timed_blocking(
    x: Operands,
    n: int,
    m: int,
    cores: int,
    rows: int | None = None,
    cols: int | None = None,
    unroll: int = 1,
    split: tuple[int, int] | None = None,
    *,
    shares_registers: bool = True,
) -> tuple[int, Blocking]:
    """The cycles of the slowest core, nearly, and the point that is meant.

    shares_registers    are floats and addresses in the same ones?

    raises    KernelError if it is not a point: more parts than rows, columns or cores; a block or
              a round larger than any core's work, which is another point's code
    """
    if split:
        _check_split(x, split, n, m, cores)
    splits = [split] if split else _splits(n, m, cores)
    of_rows, of_columns = (max(-(-size // p[i]) for p in splits) for i, size in enumerate((n, m)))
    _check(x, "rows", rows, of_rows, "any core's rows")
    _check(x, "cols", cols, of_columns, f"any core's {_columns(x)}")
    _check(x, "unroll", unroll, max(x.depth - (not x.starts), 1), "the rounds of the inner loop")
    most = largest_block(n, m)
    heights = np.arange(rows or 1, (rows or most[0]) + 1)[:, None]
    widths = np.arange(cols or 1, (cols or most[1]) + 1)[None, :]
    grids = np.array(splits)
    height, width = (-(-size // grids[:, i, None, None]) for i, size in enumerate((n, m)))
    needed = constants(x, int(heights.max()), int(widths.max()))
    is_point = (heights <= height) & (widths <= width)
    if rows is None:
        is_point &= (heights <= LARGEST_BLOCK) | (heights == height)
    if cols is None:
        is_point &= (widths <= LARGEST_BLOCK) | (widths == width)
    is_point &= fits(needed, height, width, heights, widths, shares_registers)
    if not is_point.any():
        size = f"{rows or 'any'} x {cols or 'any'}"
        raise KernelError(
            f"{_name(x)}: no block of {size} sums fits the registers and a core's part"
        )
    cycles = cycles_of_part(x, height, width, heights, widths).astype(int)[is_point]
    points = np.argwhere(is_point)
    cores_used = grids.prod(axis=1)[points[:, 0]]
    best = np.lexsort((cores_used, cycles))[0]
    grid, i, j = points[best]
    r, q = int(heights[i, 0]), int(widths[0, j])
    is_chosen = (rows, cols, unroll) == (None, None, 1)
    steps = AHEAD if is_chosen and r == q == 1 else unroll
    return int(cycles[best]), Blocking(r, q, steps, splits[grid])


def _splits(n: int, m: int, cores: int) -> list[tuple[int, int]]:
    """Grids of at most so many cores, that no more columns' parts fit into."""
    return [(r, min(cores // r, m)) for r in range(min(cores, n), 0, -1)]


def _name(x: Operands) -> str:
    """The kernel's, for messages."""
    return f"matmul_{x.element.name}"


def _columns(x: Operands) -> str:
    """What a block has side by side, for messages."""
    return "pairs of columns" if x.lanes == "columns" else "columns"


def _check_split(x: Operands, split: tuple[int, int], n: int, m: int, cores: int) -> None:
    most = (min(n, cores), min(m, cores))
    if any(not 1 <= parts <= top for parts, top in zip(split, most, strict=True)) or (
        split[0] * split[1] > cores
    ):
        raise KernelError(
            f"{_name(x)}: split {list(split)}; {n} rows have 1 to {most[0]} parts and {m} "
            f"{_columns(x)} 1 to {most[1]}, together no more than {cores} cores"
        )


def _check(x: Operands, name: str, value: int | None, most: int, what: str) -> None:
    if value is not None and not 1 <= value <= most:
        raise KernelError(f"{_name(x)}: {name} {value}; {what} are at most {most}, so 1 to {most}")
