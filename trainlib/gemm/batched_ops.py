"""Products of several pairs of matrices as one primitive: tiles have whole matrices or parts."""

from typing import Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.batch_loop import images_of
from trainlib.gemm.matmul import matmul_f32
from trainlib.gemm.matmul_ops import LARGEST, PAD, POINT, RATE, UNIT, clipped
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
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


def tensors(a: BatchedMatmulArguments) -> Tensors:
    """Operands by name; rows that are read side by side begin in different banks."""
    first = (a.k, a.n) if a.trans_a else (a.n, a.k)
    second = (a.m, a.k) if a.trans_b else (a.k, a.m)
    return {
        "A": Tensor((a.batch, *first), pad=PAD),
        "B": Tensor((a.batch, *second), pad=PAD),
        "C": Tensor((a.batch, a.n, a.m), "inout" if a.accumulate else "out"),
    }


def tiling(a: BatchedMatmulArguments) -> Tiling:
    """How it is cut."""
    boxes: dict[str, tuple[Axis, ...]] = {
        "A": ("b", "k", "n") if a.trans_a else ("b", "n", "k"),
        "B": ("b", "m", "k") if a.trans_b else ("b", "k", "m"),
        "C": ("b", "n", "m"),
    }

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        sizes = tile["n"], tile["k"], tile["m"]
        point = {name: getattr(a, name) for name in POINT}
        how: Any = point if sizes == (a.n, a.k, a.m) else clipped(point, sizes)
        how |= {"trans_a": a.trans_a, "trans_b": a.trans_b}
        how |= {f"{name.lower()}_line": tile.part(name).row for name in boxes}
        steps = {name: tile.part(name).strides[0] for name in boxes}
        places = {name: at[name] for name in boxes}
        with images_of(k, tile["b"], places, steps) as own:
            how["accumulate"] = a.accumulate or not tile.is_first
            matmul_f32(k, team, own["A"], own["B"], own["C"], *sizes, **how)

    cut = Dim("n", a.n, min(UNIT, a.n)), Dim("m", a.m, min(UNIT, a.m))
    return Tiling((Dim("b", a.batch), *cut, Dim("k", a.k, is_summed=True)), boxes, emit, rate=RATE)


def expected(a: BatchedMatmulArguments, values: Arrays) -> dict[str, Expected]:
    """What it means."""
    found = [
        matmul(
            values["A"][i].T if a.trans_a else values["A"][i],
            values["B"][i].T if a.trans_b else values["B"][i],
            *([values["C"][i]] if a.accumulate else []),
        )
        for i in range(a.batch)
    ]
    exact, bound = (np.stack([np.asarray(part[which]) for part in found]) for which in (0, 1))
    return {"C": (exact, bound)}


FAMILIES = (
    Family(
        "matmul_batched_f32",
        BatchedMatmulArguments,
        tensors,
        expected,
        lambda a: a.batch * a.n * a.k * a.m,
        tiling=tiling,
    ),
)
