"""matmul_f32 as a primitive: its arguments and its tensors."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.boxes import Axis, TileShape
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.tensor import Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tiling import Dim, Tiling
from trainlib.product.matmul import matmul_f32
from trainlib.reference.matmul import matmul

LARGEST = 1 << 20  # elements of a dimension
UNIT = 8  # rows and columns of a tile
RATE = 5.0  # multiply-adds per cycle, nearly
POINT = ("rows", "cols", "unroll", "split")
PAD = 1  # words behind rows in L1 that are read side by side: they begin in different banks
SMALL = 1 << 13  # elements of a matrix whose rows may well have up to 15 words behind them


class Arguments(CommonArguments):
    """C[n, m] = A[n, k] B[k, m].

    trans_a       A is stored as [k, n]
    trans_b       B is stored as [m, k]
    accumulate    C += A B
    bias          C = A B + bias, one for each "column" or each "row" of C
    rows, cols    the block of C that stays in registers
    unroll        steps of k in a round of the inner loop
    split         parts of the rows and of the columns, one of each for a core

    The blocking is chosen where it is not given.
    """

    n: int = Field(ge=1, le=LARGEST)
    k: int = Field(ge=1, le=LARGEST)
    m: int = Field(ge=1, le=LARGEST)
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False
    bias: Literal["column", "row"] | None = None
    rows: int | None = Field(None, ge=1)
    cols: int | None = Field(None, ge=1)
    unroll: int = Field(1, ge=1)
    split: tuple[int, int] | None = None


def tensors(arguments: Arguments) -> Tensors:
    n, depth, m = arguments.n, arguments.k, arguments.m
    steps = arguments.trans_a or not arguments.trans_b
    of = {
        "A": _rows((depth, n) if arguments.trans_a else (n, depth), steps),
        "B": _rows((m, depth) if arguments.trans_b else (depth, m), steps),
        "C": Tensor((n, m), "inout" if arguments.accumulate else "out"),
    }
    if arguments.bias:
        of["bias"] = Tensor((m if arguments.bias == "column" else n,))
    return of


def _rows(shape: tuple[int, int], steps: bool) -> Tensor:
    """A matrix whose rows begin in different banks, in neighbouring ones where that costs little.

    steps    do A or B step from row to row? If they begin in neighbouring banks, both move on by
             one bank in each step: cores that do not meet in one do not in the next
    """
    is_cheap = steps and shape[1] > 1 and shape[0] * shape[1] <= SMALL
    return Tensor(shape, skew=1) if is_cheap else Tensor(shape, pad=PAD)


def tiling(arguments: Arguments) -> Tiling:
    n, depth, m = arguments.n, arguments.k, arguments.m
    boxes: dict[str, tuple[Axis, ...]] = {
        "A": ("k", "n") if arguments.trans_a else ("n", "k"),
        "B": ("m", "k") if arguments.trans_b else ("k", "m"),
        "C": ("n", "m"),
    }
    if arguments.bias:
        boxes["bias"] = ("m" if arguments.bias == "column" else "n",)

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        sizes = tile["n"], tile["k"], tile["m"]
        point = {name: getattr(arguments, name) for name in POINT}
        adds = arguments.accumulate or not tile.is_first
        matmul_f32(
            *(k, team, at["A"], at["B"], at["C"], *sizes),
            bias=at.get("bias") if tile.is_first else None,
            bias_by=arguments.bias or "column",
            trans_a=arguments.trans_a,
            trans_b=arguments.trans_b,
            accumulate=adds,
            a_line=tile.part("A").row,
            b_line=tile.part("B").row,
            c_line=tile.part("C").row,
            **(point if sizes == (n, depth, m) else clipped(point, sizes)),
        )

    dims = (Dim("n", n, min(UNIT, n)), Dim("m", m, min(UNIT, m)), Dim("k", depth, is_summed=True))
    return Tiling(dims, boxes, emit, rate=RATE)


def clipped(point: Mapping[str, Any], sizes: tuple[int, int, int]) -> dict[str, Any]:
    """A point for a smaller product: no more rows, columns, steps and parts than that has."""
    n, depth, m = sizes
    split = point["split"] and (min(point["split"][0], n), min(point["split"][1], m))
    height, width = (-(-n // split[0]), -(-m // split[1])) if split else (n, m)
    return {
        "rows": point["rows"] and min(point["rows"], height),
        "cols": point["cols"] and min(point["cols"], width),
        "unroll": min(point["unroll"], max(depth - 1, 1)),
        "split": split,
    }


def expected(arguments: Arguments, values: Arrays) -> dict[str, Expected]:
    a = values["A"].T if arguments.trans_a else values["A"]
    b = values["B"].T if arguments.trans_b else values["B"]
    starts = [values["C"]] if arguments.accumulate else []
    if arguments.bias:
        starts.append(values["bias"] if arguments.bias == "column" else values["bias"][:, None])
    return {"C": matmul(a, b, *starts)}


def macs(arguments: Arguments) -> int:
    return arguments.n * arguments.k * arguments.m


FAMILIES = (Family("matmul_f32", Arguments, tensors, expected, macs, tiling=tiling),)
