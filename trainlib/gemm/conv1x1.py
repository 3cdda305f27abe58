"""Convolutions of 1 x 1, stride 1, and their gradients in L1: products of matrices.

X[batch, C, places]    W[Co, C]    Y[batch, Co, places]        layout "chw"
X[batch, places, C]    W[Co, C]    Y[batch, places, Co]        layout "hwc"
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.loops.batch import images_of
from trainlib.primitive.tensor import WORD, Address
from trainlib.product.matmul import matmul_f32
from trainlib.product.sums import sums_f32

Operands = tuple[Address, Address, Address, int, int, int]


@dataclass(frozen=True)
class Pointwise:
    """The shape: channels, places of an image."""

    inputs: int
    outputs: int
    places: int
    batch: int = 1
    layout: Literal["chw", "hwc"] = "chw"

    @property
    def images(self) -> tuple[int, int]:
        """Products, and places of each: places of all images of a batch lie in a row in hwc."""
        return (self.batch, self.places) if self.layout == "chw" else (1, self.batch * self.places)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of an image."""
        x, y = WORD * self.inputs * self.places, WORD * self.outputs * self.places
        return {"x": x, "dx": x, "y": y, "dy": y}


def pwconv2d_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    w: Address,
    y: Address,
    shape: Pointwise,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """Y = W X for each image, plus a bias of each channel, or plus what Y holds."""
    images, places = shape.images
    start: dict[str, Any] = {"bias": bias, "accumulate": accumulate}
    with images_of(k, images, {"x": x, "y": y}, shape.sizes) as at:
        how = start | point
        if shape.layout == "chw":
            operands: Operands = (w, at["x"], at["y"], shape.outputs, shape.inputs, places)
            matmul_f32(k, team, *operands, bias_by="row", **how)
        else:
            operands = (at["x"], w, at["y"], places, shape.inputs, shape.outputs)
            matmul_f32(k, team, *operands, trans_b=True, **how)


def pwconv2d_ig_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    w: Address,
    dx: Address,
    shape: Pointwise,
    *,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """dX = W^T dY for each image, or added to dX."""
    images, places = shape.images
    with images_of(k, images, {"dy": dy, "dx": dx}, shape.sizes) as at:
        if shape.layout == "chw":
            operands: Operands = (w, at["dy"], at["dx"], shape.inputs, shape.outputs, places)
            matmul_f32(k, team, *operands, trans_a=True, accumulate=accumulate, **point)
        else:
            operands = (at["dy"], w, at["dx"], places, shape.outputs, shape.inputs)
            matmul_f32(k, team, *operands, accumulate=accumulate, **point)


def pwconv2d_wg_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    shape: Pointwise,
    *,
    dbias: Address | None = None,
    accumulate: bool = False,
    **point: Any,
) -> None:
    """dW = dY X^T, and the sum of dY for each channel, over all images; or added to them."""
    images, places = shape.images
    is_chw = shape.layout == "chw"
    of_channel = (WORD * places, WORD) if is_chw else (WORD, WORD * shape.outputs)

    def one(at: Mapping[str, Address], is_added: bool) -> None:
        matmul_f32(
            *(k, team, at["dy"], at["x"], dw, shape.outputs, places, shape.inputs),
            trans_a=not is_chw,
            trans_b=is_chw,
            accumulate=is_added,
            **point,
        )
        if dbias is not None:
            row, term = of_channel
            sums_f32(
                *(k, team, at["dy"], dbias, shape.outputs, places),
                row=row,
                term=term,
                accumulate=is_added,
            )

    one({"dy": dy, "x": x}, accumulate)
    if images > 1:
        with images_of(k, images - 1, {"dy": dy, "x": x}, shape.sizes, first=1) as at:
            one(at, is_added=True)
