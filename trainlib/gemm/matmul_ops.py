"""matmul_f32, matmul_f16, matmul_bf16 as primitives: their arguments and their tensors."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.gemm.depth_split import scratch_of
from trainlib.gemm.matmul import lanes_of, matmul_f32, nearly_cost
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import WORD, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import EACH, SIZED, CodeCost, Dim, Tiling
from trainlib.reference.halves import rounded_matmul
from trainlib.reference.matmul import matmul

LARGEST = 1 << 20  # elements of a dimension
UNIT = 8  # rows and columns of a tile
RATE = 5.0  # multiply-adds per cycle, nearly
POINT = ("rows", "cols", "unroll", "split")
FREE = ("rows", "cols", "split")  # of these, what is None is chosen
PAD = 1  # words after rows in L1 that are read side by side: they begin in different banks
SMALL = 1 << 13  # elements of a matrix whose rows may well have up to 15 words after them


class MatmulArguments(TiledArguments):
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


def tensors(element: Element, arguments: MatmulArguments) -> Tensors:
    n, depth, m = arguments.n, arguments.k, arguments.m
    steps = arguments.trans_a or not arguments.trans_b
    if element.is_half and arguments.accumulate and arguments.bias:
        raise KernelError(
            f"matmul_{element.name}: accumulate with a bias; use one of them, or matmul_f32"
        )
    of = {
        "A": _rows(element, (depth, n) if arguments.trans_a else (n, depth), steps),
        "B": _rows(element, (m, depth) if arguments.trans_b else (depth, m), steps),
        "C": Tensor((n, m), "inout" if arguments.accumulate else "out", element.dtype),
    }
    if arguments.bias:
        of["bias"] = Tensor((m if arguments.bias == "column" else n,), dtype=element.dtype)
    return of


def _rows(element: Element, shape: tuple[int, int], steps: bool) -> Tensor:
    """A matrix whose rows begin in different banks, in neighbouring ones where that costs little.

    steps    do A or B step from row to row? If they begin in neighbouring banks, both move on by
             one bank in each step: cores that do not meet in one do not in the next
    """
    is_cheap = steps and shape[1] > 1 and shape[0] * shape[1] * element.size <= SMALL * WORD
    layout: Any = {"skew": 1} if is_cheap else {"pad": PAD}
    return Tensor(shape, dtype=element.dtype, **layout)


def tiling(element: Element, arguments: MatmulArguments) -> Tiling:
    n, depth, m = arguments.n, arguments.k, arguments.m
    is_whole = element.is_half and arguments.trans_b  # the order of the sums is that of all of k
    steps: Axis = None if is_whole else "k"
    boxes: dict[str, tuple[Axis, ...]] = {
        "A": (steps, "n") if arguments.trans_a else ("n", steps),
        "B": ("m", steps) if arguments.trans_b else (steps, "m"),
        "C": ("n", "m"),
    }
    if arguments.bias:
        boxes["bias"] = ("m" if arguments.bias == "column" else "n",)

    point = {name: getattr(arguments, name) for name in POINT}

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        sizes = tile["n"], depth if is_whole else tile["k"], tile["m"]
        adds = arguments.accumulate or not tile.is_first
        told: Any = at.get(EACH)  # a register
        matmul_f32(
            *(k, team, at["A"], at["B"], at["C"], *sizes),
            element=element,
            bias=at.get("bias") if tile.is_first else None,
            bias_by=arguments.bias or "column",
            trans_a=arguments.trans_a,
            trans_b=arguments.trans_b,
            accumulate=adds,
            a_line=tile.part("A").row,
            b_line=tile.part("B").row,
            c_line=tile.part("C").row,
            parts=at.get("parts"),
            told=told,
            **(point if sizes == (n, depth, m) else clipped(point, sizes)),
        )

    dims: tuple[Dim, ...] = Dim("n", n, min(UNIT, n)), Dim("m", m, min(UNIT, m))
    if not is_whole:
        dims += (Dim("k", depth, is_summed=True),)
    parts = 0 if element.is_half else scratch_of(n, m, depth)
    scratch = (lambda _: {"parts": parts}) if parts else None

    def cost(tile: TileShape) -> CodeCost:
        sizes = tile["n"], tile["k"], tile["m"], arguments.likely_cores
        starts = arguments.accumulate or bool(arguments.bias) or not tile.is_first
        starts |= has_told and tile["k"] < depth
        stored = {"trans_a": arguments.trans_a, "trans_b": arguments.trans_b}
        return nearly_cost(*sizes, starts=starts, has_parts=parts > 0, **stored)

    has_told = may_be_told(point, element) and not (arguments.bias or parts)
    rate = RATE * WORD / element.size
    how: Any = timed_by(cost, point, element) | {"rest_first": not element.is_half}
    how["told"] = "k" if has_told else None
    return Tiling(dims, boxes, emit, scratch, rate, **how)


def timed_by(
    cost: Callable[[TileShape], CodeCost], point: Mapping[str, Any], element: Element
) -> dict[str, Any]:
    """Fields of a product's tiling: its tiles are timed, unless it is told how to compute them."""
    is_free = not element.is_half and all(point[name] is None for name in FREE)
    return {"timed": cost, "timing": SIZED, "times_called": False} if is_free else {}


def may_be_told(point: Mapping[str, Any], element: Element) -> bool:
    """May a register say how many steps tiles have? Not where rounds have several."""
    return not element.is_half and point["unroll"] == 1


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


def expected(element: Element, arguments: MatmulArguments, values: Arrays) -> dict[str, Expected]:
    a = values["A"].T if arguments.trans_a else values["A"]
    b = values["B"].T if arguments.trans_b else values["B"]
    starts = [values["C"]] if arguments.accumulate else []
    if arguments.bias:
        starts.append(values["bias"] if arguments.bias == "column" else values["bias"][:, None])
    if element.is_half:
        lanes = lanes_of(element, arguments.trans_a, arguments.trans_b, arguments.k)
        start = starts[0] if starts else None
        return {"C": (rounded_matmul(element.dtype, a, b, start, lanes == "depth"), 0.0)}
    return {"C": matmul(a, b, *starts)}


def macs(arguments: MatmulArguments) -> int:
    return arguments.n * arguments.k * arguments.m


def family(element: Element) -> Family:
    """The products of matrices of this type."""
    return Family(
        f"matmul_{element.name}",
        MatmulArguments,
        partial(tensors, element),
        partial(expected, element),
        macs,
        tiling=partial(tiling, element),
    )


FAMILIES = tuple(family(element) for element in ELEMENTS)
