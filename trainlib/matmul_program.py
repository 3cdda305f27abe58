"""matmul_f32 as a primitive: its arguments and its tensors."""

from typing import Literal

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib import kernels
from trainlib.kernels import Addresses, Arrays, Expected, Family, Tensor, Tensors
from trainlib.matmul import matmul_f32
from trainlib.reference.matmul import matmul

LARGEST = 1 << 20  # elements of a dimension
PAD = 1  # words behind rows in L1 that a block reads side by side: they begin in different banks


class Arguments(kernels.Arguments):
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
    of = {
        "A": Tensor((depth, n)) if arguments.trans_a else Tensor((n, depth), pad=PAD),
        "B": Tensor((m, depth), pad=PAD) if arguments.trans_b else Tensor((depth, m)),
        "C": Tensor((n, m), "inout" if arguments.accumulate else "out"),
    }
    if arguments.bias:
        of["bias"] = Tensor((m if arguments.bias == "column" else n,))
    return of


def emit_l1(k: Kernel, team: Team, arguments: Arguments, l1: Addresses) -> None:
    of = tensors(arguments)
    matmul_f32(
        *(k, team, l1["A"], l1["B"], l1["C"], arguments.n, arguments.k, arguments.m),
        bias=l1.get("bias"),
        bias_by=arguments.bias or "column",
        trans_a=arguments.trans_a,
        trans_b=arguments.trans_b,
        accumulate=arguments.accumulate,
        a_line=of["A"].row,
        b_line=of["B"].row,
        c_line=of["C"].row,
        rows=arguments.rows,
        cols=arguments.cols,
        unroll=arguments.unroll,
        split=arguments.split,
    )


def expected(arguments: Arguments, values: Arrays) -> dict[str, Expected]:
    a = values["A"].T if arguments.trans_a else values["A"]
    b = values["B"].T if arguments.trans_b else values["B"]
    start: np.ndarray | None = None
    if arguments.accumulate:
        start = values["C"]
    elif arguments.bias:
        start = values["bias"] if arguments.bias == "column" else values["bias"][:, None]
    return {"C": matmul(a, b, start)}


def macs(arguments: Arguments) -> int:
    return arguments.n * arguments.k * arguments.m


FAMILIES = (Family("matmul_f32", Arguments, tensors, expected, macs, emit_l1),)
