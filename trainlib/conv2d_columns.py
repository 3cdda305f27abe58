"""Convolutions by products: the columns of an image are made first, then multiplied with weights.

In layout "chw" columns are [C, kh, kw, places], Y = W columns; in "hwc" they are rows
[places, kh, kw, C], Y = rows W^T. So weights are used as they are.
"""

from collections.abc import Mapping
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.batch import images_of
from trainlib.conv2d import Conv2d, Layout, channel_sums_f32
from trainlib.im2col import Columns, im2col_f32
from trainlib.kernels import WORD, Address
from trainlib.matmul import matmul_f32


def columns_of(shape: Conv2d, layout: Layout) -> tuple[Columns, int, int]:
    """Where columns lie, how many words each has, and how many there are."""
    places = shape.ys.outputs * shape.xs.outputs
    height, width, channels = shape.ys.taps, shape.xs.taps, shape.inputs
    words = height * width * channels
    if layout == "chw":
        tap = WORD * places
        inner = height * width * tap, width * tap, tap, WORD * shape.xs.outputs, WORD
    else:
        column = WORD * words
        inner = WORD, WORD * width * channels, WORD * channels, shape.xs.outputs * column, column
    return Columns(*inner), words, places


def make_columns(
    k: Kernel, team: Team, x: Address, columns: Address, shape: Conv2d, layout: Layout
) -> None:
    """Make the columns of an image, between barriers."""
    to = columns_of(shape, layout)[0]
    team.barrier()
    im2col_f32(k, team, x, columns, shape.inputs, shape.ys, shape.xs, shape.x, to)
    team.barrier()


def conv2d_fw_by_columns(
    k: Kernel,
    team: Team,
    x: Address,
    w: Address,
    y: Address,
    columns: Address,
    shape: Conv2d,
    layout: Layout,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """Y = convolution of X with W; point is that of matmul_f32. Outputs have no gaps, no groups."""
    _, words, places = columns_of(shape, layout)
    how: dict[str, Any] = {"bias": bias, "accumulate": accumulate} | point
    strides = {"x": shape.x.image, "y": shape.y.image}
    with images_of(k, shape.batch, {"x": x, "y": y}, strides) as at:
        make_columns(k, team, at["x"], columns, shape, layout)
        if layout == "chw":
            sizes = shape.outputs, words, places
            matmul_f32(k, team, w, columns, at["y"], *sizes, bias_by="row", **how)
        else:
            sizes = places, words, shape.outputs
            matmul_f32(k, team, columns, w, at["y"], *sizes, trans_b=True, **how)


def conv2d_wg_by_columns(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    columns: Address,
    shape: Conv2d,
    layout: Layout,
    *,
    dbias: Address | None = None,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """dW from dY and X, and the gradient of the bias; point is that of matmul_f32."""
    _, words, places = columns_of(shape, layout)
    is_chw = layout == "chw"

    def one(at: Mapping[str, Address], is_added: bool) -> None:
        make_columns(k, team, at["x"], columns, shape, layout)
        operands = (at["dy"], columns, dw, shape.outputs, places, words)
        how = {"trans_a": not is_chw, "trans_b": is_chw, "accumulate": is_added} | point
        matmul_f32(k, team, *operands, **how)
        if dbias is not None:
            size = (shape.outputs, shape.ys.outputs, shape.xs.outputs)
            channel_sums_f32(k, team, at["dy"], dbias, shape.y, size, accumulate=is_added)

    one({"x": x, "dy": dy}, accumulate)
    if shape.batch > 1:
        sizes = {"x": shape.x.image, "dy": shape.y.image}
        with images_of(k, shape.batch - 1, {"x": x, "dy": dy}, sizes, first=1) as at:
            one(at, is_added=True)
