"""Products of several pairs of matrices as one primitive: tiles have whole matrices or parts."""

from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.gemm.matmul import lanes_of, matmul_f32, nearly_cost
from trainlib.gemm.matmul_ops import (
    FREE,
    LARGEST,
    PAD,
    POINT,
    RATE,
    UNIT,
    clipped,
    may_be_told,
    timed_by,
)
from trainlib.gemm.stack_split import Stacked, each_matrix, stack_of
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import EACH, CodeCost, Dim, Tiling
from trainlib.reference.halves import rounded_matmul
from trainlib.reference.matmul import matmul


class BatchedMatmulArguments(TiledArguments):
    """C[batch, n, m] = A[batch, n, k] B[batch, k, m], matrix by matrix.

    trans_a       A is stored as [batch, k, n]
    trans_b       B is stored as [batch, m, k]
    accumulate    C += A B
    rows, cols, unroll, split    of each product, see matmul_f32

    The blocking is chosen where it is not given.
    """

    batch: int = Field(1, ge=1, le=LARGEST)
    n: int = Field(ge=1, le=LARGEST)
    k: int = Field(ge=1, le=LARGEST)
    m: int = Field(ge=1, le=LARGEST)
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False
    rows: int | None = Field(None, ge=1)
    cols: int | None = Field(None, ge=1)
    unroll: int = Field(1, ge=1)
    split: tuple[int, int] | None = None


def tensors(element: Element, a: BatchedMatmulArguments) -> Tensors:
    """Operands by name; rows that are read side by side begin in different banks."""
    first = (a.k, a.n) if a.trans_a else (a.n, a.k)
    second = (a.m, a.k) if a.trans_b else (a.k, a.m)
    role: Role = "inout" if a.accumulate else "out"
    return {
        "A": Tensor((a.batch, *first), dtype=element.dtype, pad=PAD),
        "B": Tensor((a.batch, *second), dtype=element.dtype, pad=PAD),
        "C": Tensor((a.batch, a.n, a.m), role, element.dtype),
    }


def tiling(element: Element, a: BatchedMatmulArguments) -> Tiling:
    """How it is cut."""
    is_whole = element.is_half and a.trans_b  # the order of the sums is that of all of k
    steps: Axis = None if is_whole else "k"
    boxes: dict[str, tuple[Axis, ...]] = {
        "A": ("b", steps, "n") if a.trans_a else ("b", "n", steps),
        "B": ("b", "m", steps) if a.trans_b else ("b", steps, "m"),
        "C": ("b", "n", "m"),
    }

    point = {name: getattr(a, name) for name in POINT}

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        sizes = tile["n"], a.k if is_whole else tile["k"], tile["m"]
        how: Any = {**point} if sizes == (a.n, a.k, a.m) else clipped(point, sizes)
        how |= {"element": element, "trans_a": a.trans_a, "trans_b": a.trans_b}
        how |= {f"{name.lower()}_line": tile.part(name).row for name in boxes}
        apart = {name: tile.part(name).strides[0] for name in boxes}
        places = {name: at[name] for name in boxes}
        how["accumulate"] = a.accumulate or not tile.is_first
        how["told"] = at.get(EACH)
        stack = stacked(tile, team.cores)[1] if is_free else [Stacked(0, tile["b"], 1)]
        for group, own in each_matrix(k, team, stack, places, apart):
            matmul_f32(k, group, own["A"], own["B"], own["C"], *sizes, **how)

    cut = Dim("n", a.n, min(UNIT, a.n)), Dim("m", a.m, min(UNIT, a.m))
    dims = [Dim("b", a.batch), *cut]
    if not is_whole:
        dims.append(Dim("k", a.k, is_summed=True))

    def stacked(tile: TileShape, cores: int) -> tuple[CodeCost, list[Stacked]]:
        """The cost of a tile, and which of its matrices cores share: strips of whole matrices are
        tried, of which there are few sizes.
        """
        sizes = tile["n"], tile["k"], tile["m"]
        starts = a.accumulate or not tile.is_first or has_told and tile["k"] < a.k
        how = {"trans_a": a.trans_a, "trans_b": a.trans_b, "starts": starts}
        is_whole = sizes == (a.n, a.k, a.m)

        def one(some: int) -> CodeCost:
            return nearly_cost(*sizes, some, has_strips=is_whole and some == cores, **how)

        return stack_of(tile["b"], cores, one)

    def cost(tile: TileShape) -> CodeCost:
        return stacked(tile, a.likely_cores)[0]

    is_free = not element.is_half and all(point[name] is None for name in FREE)
    has_told = may_be_told(point, element)
    rate = RATE * WORD / element.size
    how: Any = timed_by(cost, point, element) | {"rest_first": not element.is_half}
    how["told"] = "k" if has_told else None
    return Tiling(tuple(dims), boxes, emit, rate=rate, **how)


def expected(element: Element, a: BatchedMatmulArguments, values: Arrays) -> dict[str, Expected]:
    """What it means."""
    in_halves = lanes_of(element, a.trans_a, a.trans_b, a.k) == "depth"

    def of(i: int) -> Expected:
        first = values["A"][i].T if a.trans_a else values["A"][i]
        second = values["B"][i].T if a.trans_b else values["B"][i]
        start = values["C"][i] if a.accumulate else None
        if element.is_half:
            return rounded_matmul(element.dtype, first, second, start, in_halves), 0.0
        return matmul(first, second, *([] if start is None else [start]))

    found = [of(i) for i in range(a.batch)]
    exact, bound = (np.stack([np.asarray(part[which]) for part in found]) for which in (0, 1))
    return {"C": (exact, 0.0 if element.is_half else bound)}


def family(element: Element) -> Family:
    """Those products of this type."""
    return Family(
        f"matmul_batched_{element.name}",
        BatchedMatmulArguments,
        partial(tensors, element),
        partial(expected, element),
        lambda a: a.batch * a.n * a.k * a.m,
        tiling=partial(tiling, element),
    )


FAMILIES = tuple(family(element) for element in ELEMENTS)
