"""Convolutions of 1 x 1 and their gradients in L1: products of matrices.

X[batch, C, places]    W[Co, C]    Y[batch, Co, places]        layout "chw"
X[batch, places, C]    W[Co, C]    Y[batch, places, Co]        layout "hwc"
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.batch_loop import images_of
from trainlib.gemm.matmul import line_of, matmul_f32, nearly_cost
from trainlib.gemm.open_sums import close_sums, open_sums
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import Address
from trainlib.primitive.tile_spec import CodeCost

Operands = tuple[Address, Address, Address, int, int, int]


@dataclass(frozen=True)
class Pointwise:
    """The shape: channels, places of an image.

    element    of all tensors; of halves, rows begin with a word: places in "chw", else channels
    apart      of "chw", elements of X, or of its gradient, from one place to the next; more than
               one in single precision, for a stride
    """

    inputs: int
    outputs: int
    places: int
    batch: int = 1
    layout: Literal["chw", "hwc"] = "chw"
    element: Element = F32
    apart: int = 1

    @property
    def images(self) -> tuple[int, int]:
        """Products, and places of each: places of all images of a batch lie in a row in hwc."""
        return (self.batch, self.places) if self.layout == "chw" else (1, self.batch * self.places)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of an image."""
        row = line_of(self.element, self.places)
        x, y = self.apart * self.inputs * row, self.outputs * row
        return {"x": x, "dx": x, "y": y, "dy": y}

    def has_parts(self, cores: int) -> bool:
        """Do groups of cores share the places of a gradient of the weights, as these are few?"""
        alone, parts = (
            self.cost("wg", cores, starts=False, may_have_parts=may).cycles for may in (False, True)
        )
        return parts < alone

    def cost(
        self,
        step: Literal["fw", "wg", "ig"],
        cores: int,
        *,
        starts: bool,
        may_have_parts: bool = True,
    ) -> CodeCost:
        """The cost of a step in single precision, nearly.

        starts            do its sums start with something that is loaded?
        may_have_parts    may cores share places, see trainlib.gemm.depth_split?
        """
        co, ci, (images, places) = self.outputs, self.inputs, self.images
        if self.layout == "chw":
            sizes = {"fw": (co, ci, places), "wg": (co, places, ci), "ig": (ci, co, places)}
            stored = {"trans_a": step == "ig", "trans_b": step == "wg"}
        else:
            sizes = {"fw": (places, ci, co), "wg": (co, places, ci), "ig": (places, co, ci)}
            stored = {"trans_a": step == "wg", "trans_b": step == "fw"}
        stored |= {
            "starts": starts,
            "has_parts": step == "wg" and self.batch == 1 and may_have_parts,
        }
        one = nearly_cost(*sizes[step], cores, **stored)
        return one._replace(cycles=images * one.cycles)


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
    start: dict[str, Any] = {"bias": bias, "accumulate": accumulate, "element": shape.element}
    with images_of(k, images, {"x": x, "y": y}, shape.sizes) as at:
        how = start | point
        if shape.layout == "chw":
            operands: Operands = (w, at["x"], at["y"], shape.outputs, shape.inputs, places)
            matmul_f32(k, team, *operands, bias_by="row", b_apart=shape.apart, **how)
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
    point |= {"accumulate": accumulate, "element": shape.element}
    with images_of(k, images, {"dy": dy, "dx": dx}, shape.sizes) as at:
        if shape.layout == "chw":
            operands: Operands = (w, at["dy"], at["dx"], shape.inputs, shape.outputs, places)
            matmul_f32(k, team, *operands, trans_a=True, c_apart=shape.apart, **point)
        else:
            operands = (at["dy"], w, at["dx"], places, shape.outputs, shape.inputs)
            matmul_f32(k, team, *operands, **point)


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
    opens: bool = False,
    **point: Any,
) -> None:
    """dW = dY X^T, and the sum of dY for each channel, over all images; or added to them.

    opens    dW is words of sums that are not added yet, see matmul_f32
    """
    images, places = shape.images
    is_chw, element = shape.layout == "chw", shape.element
    row, column = line_of(element, places), line_of(element, shape.outputs)
    of_channel = (row, element.size) if is_chw else (element.size, column)

    def one(at: Mapping[str, Address], is_added: bool) -> None:
        matmul_f32(
            *(k, team, at["dy"], at["x"], dw, shape.outputs, places, shape.inputs),
            trans_a=not is_chw,
            trans_b=is_chw,
            b_apart=shape.apart,
            accumulate=is_added,
            opens=opens,
            element=element,
            **point,
        )
        if dbias is not None:
            row, term = of_channel
            sums_f32(
                *(k, team, at["dy"], dbias, shape.outputs, places),
                row=row,
                term=term,
                accumulate=is_added,
                element=element,
            )

    one({"dy": dy, "x": x}, accumulate)
    if images > 1:
        with images_of(k, images - 1, {"dy": dy, "x": x}, shape.sizes, first=1) as at:
            one(at, is_added=True)


def pwconv2d_wg_by_tiles(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    shape: Pointwise,
    sums: Address,
    *,
    dw_row: int,
    begins: bool,
    ends: bool,
    accumulate: bool,
    **more: Any,
) -> None:
    """A tile's part of dW in halves, whose sums stay open in between.

    sums            words of the open sums, outputs x inputs
    begins, ends    is it the first tile of what is summed up, is it the last one?
    accumulate      add to what dW held before
    more            as pwconv2d_wg_f32
    """
    size = shape.outputs, shape.inputs
    if begins and accumulate:
        open_sums(k, team, shape.element, dw, dw_row, sums, size)
        team.barrier()
    adds = accumulate or not begins
    pwconv2d_wg_f32(k, team, dy, x, sums, shape, accumulate=adds, opens=True, **more)
    if ends:
        team.barrier()
        close_sums(k, team, shape.element, sums, dw, dw_row, size)
