"""Convolutions by products: the columns of an image are made first, then multiplied with weights.

In layout "chw" columns are [C, kh, kw, places], Y = W columns; in "hwc" they are rows
[places, kh, kw, C], Y = rows W^T. So weights are used as they are; for the gradient of the input
they lie with channels exchanged: [C, Co, kh, kw], or [kh, kw, Co, C].

Columns are made by the cores, or they come by DMA, which leaves to the cores what is zero.
"""

from collections.abc import Mapping
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.batch_loop import images_of
from trainlib.conv.conv2d import Conv2d, Layout, Strides, channel_sums_f32
from trainlib.conv.im2col import copy_patches_f32, im2col_f32
from trainlib.conv.im2col_layout import Unfolding
from trainlib.gemm.matmul import matmul_f32
from trainlib.primitive.tensor import Address


def make_columns(
    k: Kernel,
    team: Team,
    x: Address,
    columns: Address | None,
    image: Strides,
    unfolding: Unfolding,
) -> Address:
    """Make the columns of an image, between barriers; return where they are.

    columns    None: x is where they are, except what is zero
    """
    u = unfolding
    if columns is None:
        zeros = list(u.zeros)
        copy_patches_f32(k, team, None, x, zeros)
        if zeros:
            team.barrier()
        return x
    team.barrier()
    if u.ys.is_transposed:
        copy_patches_f32(k, team, x, columns, u.patches(image))
        copy_patches_f32(k, team, None, columns, u.zeros)
    else:
        im2col_f32(k, team, x, columns, u.channels, u.ys, u.xs, image, u.to, u.item)
    team.barrier()
    return columns


def clipped(point: Mapping[str, Any], n: int, m: int, cores: int) -> dict[str, Any]:
    """The point of a product C[n, m] next to one of a larger product."""
    rows, cols, split = (point.get(name) for name in ("rows", "cols", "split"))
    if split:
        split = min(split[0], n), min(split[1], m)
    grids = [split] if split else [(r, min(cores // r, m)) for r in range(1, min(cores, n) + 1)]
    parts = [(-(-n // r), -(-m // c)) for r, c in grids]
    rows = rows and min(rows, max(height for height, _ in parts))
    cols = cols and min(cols, max(width for height, width in parts if height >= (rows or 1)))
    return {"rows": rows, "cols": cols, "split": split}


def conv2d_fw_by_columns(
    k: Kernel,
    team: Team,
    x: Address,
    w: Address,
    y: Address,
    columns: Address | None,
    shape: Conv2d,
    layout: Layout,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    clips: bool = False,
    **point: Any,
) -> None:
    """Y = convolution of X with W. Outputs have no gaps, no groups.

    columns    None: x is columns that have come by DMA
    point      that of matmul_f32; clips: as much of it as the product has
    """
    u = Unfolding.of(shape, layout)
    n, m = (shape.outputs, u.places) if layout == "chw" else (u.places, shape.outputs)
    how: dict[str, Any] = {"bias": bias, "accumulate": accumulate, "element": shape.element}
    columns_of = 2 if shape.element.is_half and layout == "chw" else 1
    how |= clipped(point, n, -(-m // columns_of), team.cores) if clips else point
    strides = {"x": shape.x.image, "y": shape.y.image}
    with images_of(k, shape.batch, {"x": x, "y": y}, strides) as at:
        made = make_columns(k, team, at["x"], columns, shape.x, u)
        if layout == "chw":
            matmul_f32(k, team, w, made, at["y"], n, u.words, m, bias_by="row", **how)
        else:
            matmul_f32(k, team, made, w, at["y"], n, u.words, m, trans_b=True, **how)


def conv2d_ig_by_columns(
    k: Kernel,
    team: Team,
    dy: Address,
    w: Address,
    dx: Address,
    columns: Address | None,
    shape: Conv2d,
    layout: Layout,
    *,
    accumulate: bool = False,
    clips: bool = False,
    **point: Any,
) -> None:
    """dX from dY and W with channels exchanged; all else as conv2d_fw_by_columns."""
    u = Unfolding.of(shape, layout, is_gradient=True)
    n, m = (shape.inputs, u.places) if layout == "chw" else (u.places, shape.inputs)
    how: dict[str, Any] = {"accumulate": accumulate, "element": shape.element}
    columns_of = 2 if shape.element.is_half else 1
    how |= clipped(point, n, -(-m // columns_of), team.cores) if clips else point
    strides = {"dy": shape.y.image, "dx": shape.x.image}
    with images_of(k, shape.batch, {"dy": dy, "dx": dx}, strides) as at:
        made = make_columns(k, team, at["dy"], columns, shape.y, u)
        if layout == "chw":
            matmul_f32(k, team, w, made, at["dx"], n, u.words, m, **how)
        else:
            matmul_f32(k, team, made, w, at["dx"], n, u.words, m, **how)


def conv2d_wg_by_columns(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    columns: Address | None,
    shape: Conv2d,
    layout: Layout,
    *,
    dbias: Address | None = None,
    accumulate: bool = False,
    clips: bool = False,
    opens: bool = False,
    **point: Any,
) -> None:
    """dW from dY and X, and the gradient of the bias; all else as conv2d_fw_by_columns.

    opens    dW is words of sums that are not added yet, see matmul_f32
    """
    u = Unfolding.of(shape, layout)
    is_chw = layout == "chw"
    if clips:
        columns_of = 2 if shape.element.is_half and not is_chw else 1
        point = clipped(point, shape.outputs, -(-u.words // columns_of), team.cores)

    def one(at: Mapping[str, Address], is_added: bool) -> None:
        made = make_columns(k, team, at["x"], columns, shape.x, u)
        operands = (at["dy"], made, dw, shape.outputs, u.places, u.words)
        how = {"trans_a": not is_chw, "trans_b": is_chw, "accumulate": is_added} | point
        how |= {"element": shape.element, "opens": opens}
        matmul_f32(k, team, *operands, **how)
        if dbias is not None:
            size = (shape.outputs, shape.ys.outputs, shape.xs.outputs)
            of: Any = {"accumulate": is_added, "element": shape.element}
            channel_sums_f32(k, team, at["dy"], dbias, shape.y, size, **of)

    one({"x": x, "dy": dy}, accumulate)
    if shape.batch > 1:
        sizes = {"x": shape.x.image, "dy": shape.y.image}
        with images_of(k, shape.batch - 1, {"x": x, "dy": dy}, sizes, first=1) as at:
            one(at, is_added=True)
