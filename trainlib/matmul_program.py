"""matmul_f32 as a primitive: its arguments, its tensors, and how it is split over cores."""

from typing import Literal

from pydantic import Field

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib import kernels, reference
from trainlib.kernels import Addresses, Arrays, Expected, Family, Tensor, Tensors
from trainlib.matmul import Operands, matmul_f32

LARGEST = 1 << 20  # elements of a dimension
PAD = 1  # words behind each row of A in L1: neighbouring rows begin in different banks


class Arguments(kernels.Arguments):
    """C[n, m] = A[n, k] B[k, m].

    rows, cols    the block of C that stays in registers
    split         what is dealt out to cores: "rows", "columns", or parts of both, as in [4, 2]
    """

    n: int = Field(ge=1, le=LARGEST)
    k: int = Field(ge=1, le=LARGEST)
    m: int = Field(ge=1, le=LARGEST)
    rows: int = Field(4, ge=1, le=16)
    cols: int = Field(4, ge=1, le=16)
    split: Literal["rows", "columns"] | tuple[int, int] = "rows"


def grid(arguments: Arguments, cores: int) -> tuple[int, int]:
    """Parts of rows and of columns.

    raises    KernelError if they are not one for each core
    """
    if isinstance(arguments.split, str):
        return (cores, 1) if arguments.split == "rows" else (1, cores)
    parts = arguments.split
    if min(parts) < 1 or parts[0] * parts[1] != cores:
        raise KernelError(f"matmul_f32: split {list(parts)} is not {cores} parts, one a core")
    return parts


def tensors(arguments: Arguments) -> Tensors:
    n, depth, m = arguments.n, arguments.k, arguments.m
    return {
        "A": Tensor((n, depth), pad=PAD),
        "B": Tensor((depth, m)),
        "C": Tensor((n, m), "out"),
    }


def emit_l1(k: Kernel, team: Team, arguments: Arguments, l1: Addresses) -> None:
    a, b, c = tensors(arguments).values()
    x = Operands(l1["A"], l1["B"], l1["C"], a.row, b.row, c.row)
    shape = arguments.n, arguments.k, arguments.m
    split = grid(arguments, team.cores)
    matmul_f32(k, team, x, shape, rows=arguments.rows, cols=arguments.cols, split=split)


def expected(_: Arguments, values: Arrays) -> dict[str, Expected]:
    return {"C": reference.matmul(values["A"], values["B"])}


def macs(arguments: Arguments) -> int:
    return arguments.n * arguments.k * arguments.m


FAMILIES = (Family("matmul_f32", Arguments, tensors, expected, macs, emit_l1),)
