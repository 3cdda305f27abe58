"""matmul_f32 as a program: operands from L2 to L1 by DMA, the product, the result back."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from firmware.builder import Kernel, KernelError
from firmware.drivers import Dma
from firmware.runtime import team_of
from soc.spec import SocSpec
from trainlib import reference
from trainlib.kernels import Expected, Family, Shapes
from trainlib.matmul import WORD, Operands, matmul_f32

LARGEST = 1 << 20  # elements of a dimension
PAD = 1  # words behind each row of A in L1: neighbouring rows begin in different banks


class Arguments(BaseModel):
    """C[n, m] = A[n, k] B[k, m].

    rows, cols    the block of C that stays in registers
    cores         None: all of the chip
    split         what is dealt out to cores: "rows", "columns", or parts of both, as in [4, 2]
    seed          of the random operands
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int = Field(ge=1, le=LARGEST)
    k: int = Field(ge=1, le=LARGEST)
    m: int = Field(ge=1, le=LARGEST)
    rows: int = Field(4, ge=1, le=16)
    cols: int = Field(4, ge=1, le=16)
    cores: int | None = Field(None, ge=1, le=16)
    split: Literal["rows", "columns"] | tuple[int, int] = "rows"
    seed: int = Field(0, ge=0, lt=1 << 63)


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


def emit(k: Kernel, chip: SocSpec, arguments: Arguments, l2: Mapping[str, int]) -> None:
    """Emit the program; its regions are dma_in, compute and dma_out, barriers included.

    raises    KernelError if the operands do not fit L1, or the block not the registers
    """
    n, depth, m = arguments.n, arguments.k, arguments.m
    cores = chip.cores if arguments.cores is None else arguments.cores
    a_row, b_row = WORD * (depth + PAD), WORD * m
    x = Operands(
        a=k.buffer(k.l1, "A_in_L1", n * a_row),
        b=k.buffer(k.l1, "B_in_L1", depth * b_row),
        c=k.buffer(k.l1, "C_in_L1", n * b_row),
        a_row=a_row,
        b_row=b_row,
        c_row=b_row,
    )
    dma = Dma(k)
    with team_of(k, chip, cores) as team:
        with k.region("dma_in"):
            with team.only(0), k.scope():
                counter = k.x()
                dma.begin(counter)
                dma.to_l1(x.a, l2["A"], n * a_row, line=a_row, stride=WORD * depth)
                dma.to_l1(x.b, l2["B"], depth * b_row)
                dma.wait(counter)
            team.barrier()
        with k.region("compute"):
            split = grid(arguments, cores)
            matmul_f32(
                k, team, x, (n, depth, m), rows=arguments.rows, cols=arguments.cols, split=split
            )
            team.barrier()
        with k.region("dma_out"):
            with team.only(0), k.scope():
                counter = k.x()
                dma.begin(counter)
                dma.to_l2(x.c, l2["C"], n * b_row)
                dma.wait(counter)
            team.barrier()


def inputs(arguments: Arguments) -> Shapes:
    return {"A": (arguments.n, arguments.k), "B": (arguments.k, arguments.m)}


def outputs(arguments: Arguments) -> Shapes:
    return {"C": (arguments.n, arguments.m)}


def expected(values: Mapping[str, np.ndarray]) -> dict[str, Expected]:
    return {"C": reference.matmul(values["A"], values["B"])}


def macs(arguments: Arguments) -> int:
    return arguments.n * arguments.k * arguments.m


MATMUL_F32 = Family("matmul_f32", Arguments, inputs, outputs, expected, macs, emit)
