"""Convolutions as primitives: forward, gradient of the weights, gradient of the input, of each."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from firmware.builder import KernelError
from trainlib.conv.axis import Axis
from trainlib.conv.conv2d import Layout
from trainlib.conv.passes import Step
from trainlib.conv.phases import in_phases
from trainlib.conv.shape import Shape
from trainlib.elementwise.fused_update import Updating, with_update
from trainlib.primitive.arguments import TiledArguments, pair_of
from trainlib.primitive.element import ELEMENTS
from trainlib.primitive.operator import Family

LARGEST = 1 << 16  # elements of a dimension


def _pads(value: Any) -> Any:
    return (value,) * 4 if isinstance(value, int) else value


Size = Annotated[int, Field(ge=1, le=LARGEST)]
Pad = Annotated[int, Field(ge=0, le=LARGEST)]
Pair = Annotated[tuple[Size, Size], BeforeValidator(pair_of)]
PadPair = Annotated[tuple[Pad, Pad], BeforeValidator(pair_of)]
Pads = Annotated[tuple[Pad, Pad, Pad, Pad], BeforeValidator(_pads)]


class Images(TiledArguments):
    """Arguments that all convolutions have.

    height, width    of the images X
    kernel           height and width, or one for both; so are stride and dilation
    padding          zeros on top, at the bottom, left, right, or one for all. What lies there is
                     left out, but in products with columns: so a weight that is infinite or NaN
                     does not make NaN of these zeros, as it does in torch
    layout           "chw": X[batch, C, H, W], W[Co, C, kh, kw]
                     "hwc": X[batch, H, W, C], W[Co, kh, kw, C]
    bias             one for each output channel; or the gradient of it
    accumulate       add to what the outputs hold
    rows, cols, split, is_turned    see the Points of trainlib.conv.correlation_schedule and
                     weight_gradient_schedule
    """

    height: Size
    width: Size
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    batch: Size = 1
    layout: Layout = "chw"
    bias: bool = False
    accumulate: bool = False
    rows: int | None = Field(None, ge=1)
    cols: int | None = Field(None, ge=1)
    split: tuple[int, int] | None = None
    is_turned: bool | None = None

    @property
    def is_added(self) -> bool:
        """Do results hold something before, which must be added to once?"""
        return self.accumulate

    @property
    def by_columns(self) -> bool:
        """Is it a product with the columns of the images?"""
        return False

    @property
    def by_dma(self) -> bool:
        """Do these come by DMA?"""
        return False

    @property
    def point(self) -> dict[str, Any]:
        """How it is computed."""
        return {name: getattr(self, name) for name in ("rows", "cols", "split", "is_turned")}

    def convolution(self, inputs: int, outputs: int, groups: int, size: tuple[int, int]) -> Shape:
        """A convolution of images of that size.

        raises    KernelError if there is none
        """
        how = self.kernel, self.stride, self.dilation, self.padding
        return _convolution(inputs, outputs, groups, size, *how, self.batch, self.layout)


@lru_cache(4096)
def _convolution(
    inputs: int,
    outputs: int,
    groups: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    batch: int,
    layout: Layout,
) -> Shape:
    if inputs % groups or outputs % groups:
        raise KernelError(
            f"conv2d: {inputs} and {outputs} channels in {groups} groups; both are multiples "
            f"of the groups"
        )
    axes = []
    for at, name in ((0, "lines"), (1, "places")):
        n, k, s, d = size[at], kernel[at], stride[at], dilation[at]
        pads = padding[2 * at : 2 * at + 2]
        reach = d * (k - 1) + 1
        if n < 1 or reach > n + sum(pads):
            raise KernelError(
                f"conv2d: a kernel that reaches over {reach} {name} does not fit into {n} of "
                f"them with a padding of {pads[0]} and {pads[1]}"
            )
        axes.append(Axis((n + sum(pads) - reach) // s + 1, n, k, s, d, pads[0]))
    ys, xs = axes
    return Shape(inputs, outputs, ys, xs, padding, groups, batch, layout)


class Convolution(Images):
    """A convolution of X[batch, inputs, height, width] with W[outputs, inputs / groups, kernel].

    method    "direct", or a product whose rows, cols and split are those of matmul_f32: with the
              "columns" that the cores make of the images (im2col, in "hwc" im2row), or that come
              as "columns_by_dma" from L2, those of the next tile while this one is computed.
              Columns hold the zeros of the padding, by which what is not finite gives NaN, as
              in PyTorch, and those for gradients of images where a tap has no dY; directly,
              nothing is multiplied with zeros. A kernel of 1 with a stride of 1 and no padding is
              a product in any case, in FP32, unless a point is given
    """

    inputs: Size
    outputs: Size
    groups: Size = 1
    method: Literal["direct", "columns", "columns_by_dma"] = "direct"

    @property
    def shape(self) -> Shape:
        """As a convolution."""
        return self.convolution(self.inputs, self.outputs, self.groups, (self.height, self.width))

    @property
    def by_columns(self) -> bool:
        """Is it a product with the columns of the images?"""
        is_product = self.method != "direct"
        if is_product and (self.groups > 1 or self.is_turned is not None):
            raise KernelError(
                f"conv2d: {self.method} with groups = {self.groups}, is_turned = "
                f"{self.is_turned}; they are for one group and have no turn, the direct method has"
            )
        return is_product

    @property
    def by_dma(self) -> bool:
        """Do these come by DMA?"""
        return self.method == "columns_by_dma"


class Depthwise(Images):
    """Each of the input channels with `multiplier` kernels of its own."""

    inputs: Size
    multiplier: Size = 1

    @property
    def shape(self) -> Shape:
        """As a convolution in as many groups as there are channels."""
        outputs = self.inputs * self.multiplier
        return self.convolution(self.inputs, outputs, self.inputs, (self.height, self.width))


class Transposed(Images):
    """A transposed convolution, W[inputs, outputs / groups, kernel].

    output_padding    lines and places that the output has more, less than the stride
    """

    inputs: Size
    outputs: Size
    groups: Size = 1
    output_padding: PadPair = (0, 0)

    @property
    def shape(self) -> Shape:
        """As the convolution whose input's gradient it is."""
        size = []
        for at, (n, name) in enumerate(((self.height, "lines"), (self.width, "places"))):
            more, stride = self.output_padding[at], self.stride[at]
            if more >= stride:
                raise KernelError(
                    f"tconv2d: output_padding {more} with a stride of {stride}; it is less"
                )
            pads = self.padding[2 * at : 2 * at + 2]
            whole = (n - 1) * stride + self.dilation[at] * (self.kernel[at] - 1) + 1 + more
            if whole <= sum(pads):
                raise KernelError(
                    f"tconv2d: {n} {name} give {whole}, of which a padding of {pads[0]} and "
                    f"{pads[1]} leaves none; both together are less than {whole}"
                )
            size.append(whole - sum(pads))
        return self.convolution(self.outputs, self.inputs, self.groups, (size[0], size[1]))


class Added(Images, Updating):
    """Gradients that may be added to parameters."""

    @property
    def is_added(self) -> bool:
        """Do results hold something before, which must be added to once?"""
        return super().is_added or self.scale is not None


class DepthwiseGradient(Depthwise, Added):
    """The same for the gradient of the weights."""


class ConvolutionInHalves(Convolution):
    """The same for the gradient of the weights in halves; channels: inputs of a block of sums."""

    channels: int | None = Field(None, ge=1)

    @property
    def point(self) -> dict[str, Any]:
        """How it is computed."""
        return super().point | {"channels": self.channels}


class ConvolutionGradient(ConvolutionInHalves, Added):
    """The same for the gradient of the weights."""


FORWARD = Step("y", {"x": "X", "w": "W", "y": "Y"}, "y")
WEIGHTS = Step("w", {"y": "dY", "x": "X", "w": "dW"}, "y")
INPUT = Step("x", {"y": "dY", "w": "W", "x": "dX"}, None)
TRANSPOSED_FORWARD = Step("x", {"y": "X", "w": "W", "x": "Y"}, "x")
TRANSPOSED_WEIGHTS = Step("w", {"y": "X", "x": "dY", "w": "dW"}, "x")
TRANSPOSED_INPUT = Step("y", {"x": "dY", "w": "W", "y": "dX"}, None)


def _family(name: str, arguments: type[Images], step: Step) -> Family:
    family = Family(
        name,
        arguments,
        step.tensors,
        step.expected,
        lambda a: a.shape.macs,
        tiling=step.tiling,
        phases=None if issubclass(arguments, Depthwise) else in_phases(step),
    )
    return with_update(family, ("dW", "dbias")) if issubclass(arguments, Added) else family


def _in_halves(name: str, arguments: type[Images], step: Step) -> Iterator[Family]:
    """The same in FP16 and bfloat16; gradients are not scaled, and there are no phases."""
    for element in ELEMENTS:
        if element.is_half:
            own = replace(step, element=element)
            yield Family(
                f"{name}_{element.name}",
                arguments,
                own.tensors,
                own.expected,
                lambda a: a.shape.macs,
                tiling=own.tiling,
            )


FAMILIES = (
    _family("conv2d_fw_f32", Convolution, FORWARD),
    _family("conv2d_wg_f32", ConvolutionGradient, WEIGHTS),
    _family("conv2d_ig_f32", Convolution, INPUT),
    _family("dwconv2d_fw_f32", Depthwise, FORWARD),
    _family("dwconv2d_wg_f32", DepthwiseGradient, WEIGHTS),
    _family("dwconv2d_ig_f32", Depthwise, INPUT),
    _family("tconv2d_fw_f32", Transposed, TRANSPOSED_FORWARD),
    _family("tconv2d_wg_f32", Transposed, TRANSPOSED_WEIGHTS),
    _family("tconv2d_ig_f32", Transposed, TRANSPOSED_INPUT),
    *_in_halves("conv2d_fw", Convolution, FORWARD),
    *_in_halves("conv2d_wg", ConvolutionInHalves, WEIGHTS),
    *_in_halves("conv2d_ig", Convolution, INPUT),
    *_in_halves("dwconv2d_fw", Depthwise, FORWARD),
    *_in_halves("dwconv2d_wg", Depthwise, WEIGHTS),
    *_in_halves("dwconv2d_ig", Depthwise, INPUT),
    *_in_halves("tconv2d_fw", Transposed, TRANSPOSED_FORWARD),
    *_in_halves("tconv2d_wg", Transposed, TRANSPOSED_WEIGHTS),
    *_in_halves("tconv2d_ig", Transposed, TRANSPOSED_INPUT),
)
