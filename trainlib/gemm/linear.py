"""Fully connected layers and their gradients in L1: products of matrices.

X[batch, inputs]    W[outputs, inputs]    Y[batch, outputs] = X W^T + bias
"""

from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.gemm.matmul import line_of, matmul_f32
from trainlib.gemm.operands import Scale
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import Address


def linear_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    w: Address,
    y: Address,
    batch: int,
    inputs: int,
    outputs: int,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """Y = X W^T + bias, or Y += X W^T.

    point    element, rows, cols, unroll, split and lines of matmul_f32
    """
    start: dict[str, Any] = {"bias": bias, "accumulate": accumulate}
    matmul_f32(k, team, x, w, y, batch, inputs, outputs, trans_b=True, **start, **point)


def linear_ig_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    w: Address,
    dx: Address,
    batch: int,
    inputs: int,
    outputs: int,
    *,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """dX = dY W, or added to dX."""
    matmul_f32(k, team, dy, w, dx, batch, outputs, inputs, accumulate=accumulate, **point)


def linear_wg_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    batch: int,
    inputs: int,
    outputs: int,
    *,
    dbias: Address | None = None,
    accumulate: bool = False,
    scale: Scale | None = None,
    element: Element = F32,
    **point: Any,
) -> None:
    """dW = dY^T X, and the gradient of the bias: the sum of dY over the batch; or added to them.

    scale    add scale times the whole gradients
    """
    how: Any = {"accumulate": accumulate, "scale": scale, "element": element}
    matmul_f32(k, team, dy, x, dw, outputs, batch, inputs, trans_a=True, **how, **point)
    if dbias is not None:
        row, term = element.size, point.get("a_line") or line_of(element, outputs)
        sums_f32(k, team, dy, dbias, outputs, batch, row=row, term=term, **how)
