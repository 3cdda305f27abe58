"""Layers of a network as calls of primitives: forward, gradients of weights, gradient of the input.

A layer reads tensor x and gives tensor y; backward it reads dy and gives dx, and the gradients of
its parameters. Which call needs which tensor is data, see Call.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from trainlib.conv.ops import Pads, Pair, Size
from trainlib.primitive.tensor import Tensor

FEW = 2048  # elements
Shape = tuple[int, ...]
Kernels = Literal["best", "naive"]


@dataclass(frozen=True)
class Call:
    """A primitive in a network.

    region       what its cycles count for
    kernel       its name
    arguments    of the primitive
    operands     the network's tensors by the primitive's names
    """

    region: str
    kernel: str
    arguments: Mapping[str, Any]
    operands: Mapping[str, str]


@dataclass(frozen=True)
class Context:
    """Where a layer stands.

    number     in the network, from 0
    batch      images
    shape      of what goes in, without the batch
    cores      of the team
    kernels    "naive": one sum at a time, convolutions by columns
    scale      what gradients are multiplied by to be added to parameters; None: they are kept
    """

    number: int
    batch: int
    shape: Shape
    cores: int
    kernels: Kernels
    scale: float | None


@dataclass(frozen=True)
class Operands:
    """Names of a layer's tensors in the network; dx None: no layer needs it."""

    x: str
    y: str
    dy: str
    dx: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    gradients: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)


class Layer(BaseModel):
    """What all layers have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    takes_images: ClassVar[bool] = False
    needs_dx: ClassVar[bool] = False
    """Does it give the gradient of its input also where that is not needed?"""

    def fuses(self, batch: int, shape: Shape) -> bool:
        """Can whole gradients be added to its parameters where they arise?"""
        return False

    def output(self, shape: Shape) -> Shape:
        """Shape of what comes out, without the batch."""
        return shape

    def parameters(self, shape: Shape) -> dict[str, Shape]:
        """Shapes of what it learns, by name."""
        return {}

    def kept(self, batch: int, shape: Shape) -> dict[str, Tensor]:
        """What forward leaves to backward, by name."""
        return {}

    def states(self, shape: Shape) -> dict[str, tuple[Shape, float]]:
        """What every step changes and is not learned, by name: shapes, and values at first."""
        return {}

    @abstractmethod
    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward: the gradient of the input before those of parameters."""

    def _region(self, c: Context, step: str) -> str:
        return f"{self.kind}_{c.number}_{step}"


class _WithWeights(Layer):
    """A layer with weights, and maybe a bias for each output."""

    outputs: Size
    bias: bool = False

    @abstractmethod
    def _arguments(self, c: Context) -> dict[str, Any]:
        """Of all its primitives."""

    @abstractmethod
    def _naive(self, c: Context, step: str) -> dict[str, Any]:
        """The point of naive kernels."""

    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward: the gradient of the input before those of parameters."""

        def call(step: str, operands: Mapping[str, str], **more: Any) -> Call:
            arguments = self._arguments(c) | more
            if c.kernels == "naive":
                arguments |= self._naive(c, step)
            kernel = f"{self.kind}_{step}_f32"
            return Call(self._region(c, step), kernel, arguments, operands)

        bias = {"bias": at.parameters["bias"]} if self.bias else {}
        dbias = {"dbias": at.gradients["bias"]} if self.bias else {}
        forward = {"X": at.x, "W": at.parameters["weight"], "Y": at.y, **bias}
        weights = {"dY": at.dy, "X": at.x, "dW": at.gradients["weight"], **dbias}
        scale = {} if c.scale is None else {"scale": c.scale}
        backward = [call("wg", weights, bias=self.bias, **scale)]
        if at.dx:
            into = {"dY": at.dy, "W": at.parameters["weight"], "dX": at.dx}
            backward.insert(0, call("ig", into))
        return [call("fw", forward, bias=self.bias)], backward


class ConvolutionLayer(_WithWeights):
    """A convolution of images [channels, height, width]."""

    kind: Literal["conv2d"]
    takes_images: ClassVar[bool] = True
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)

    def output(self, shape: Shape) -> Shape:
        """Shape of what comes out."""
        sizes = (
            (n + sum(self.padding[2 * i : 2 * i + 2]) - self.kernel[i]) // self.stride[i] + 1
            for i, n in enumerate(shape[1:])
        )
        return (self.outputs, *sizes)

    def parameters(self, shape: Shape) -> dict[str, Shape]:
        """Shapes of weights and bias."""
        bias = {"bias": (self.outputs,)} if self.bias else {}
        return {"weight": (self.outputs, shape[0], *self.kernel), **bias}

    def _arguments(self, c: Context) -> dict[str, Any]:
        sizes = dict(zip(("inputs", "height", "width"), c.shape, strict=True))
        slides = {name: getattr(self, name) for name in ("kernel", "stride", "padding")}
        return {"batch": c.batch, "outputs": self.outputs, **sizes, **slides}

    def _naive(self, c: Context, step: str) -> dict[str, Any]:
        """Output channels are partitioned; the gradient of the input is not by columns."""
        if step == "ig":
            return {"rows": 1, "cols": 1}
        split = min(c.cores, self.outputs), 1
        return {"method": "columns", "rows": 1, "cols": 1, "split": split}


class LinearLayer(_WithWeights):
    """A fully connected layer; images are rows of all their elements."""

    kind: Literal["linear"]

    def fuses(self, batch: int, shape: Shape) -> bool:
        """Where its activations are few: they are all in L1, for the gradient to be whole."""
        return batch * (prod(shape) + self.outputs) <= FEW

    def output(self, shape: Shape) -> Shape:
        """Shape of what comes out."""
        return (self.outputs,)

    def parameters(self, shape: Shape) -> dict[str, Shape]:
        """Shapes of weights and bias."""
        bias = {"bias": (self.outputs,)} if self.bias else {}
        return {"weight": (self.outputs, prod(shape)), **bias}

    def _arguments(self, c: Context) -> dict[str, Any]:
        return {"batch": c.batch, "inputs": prod(c.shape), "outputs": self.outputs}

    def _naive(self, c: Context, step: str) -> dict[str, Any]:
        """What is partitioned: outputs, or for the gradient of the input, inputs."""
        most = min(c.cores, prod(c.shape) if step == "ig" else self.outputs)
        return {"rows": 1, "cols": 1, "split": (most, 1) if step == "wg" else (1, most)}


class Activation(Layer):
    """A function of each element; backward from what went in, or what came out."""

    kind: Literal["relu", "sigmoid", "tanh", "silu", "gelu"]

    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward."""
        point: dict[str, Any] = {"shape": (c.batch * prod(c.shape),)}
        if c.kernels == "naive":
            point["unroll"] = 1
        kept = {"y": at.y} if self.kind in ("sigmoid", "tanh") else {"x": at.x}
        forward = self._call(c, "fw", point, {"x": at.x, "y": at.y})
        if at.dx is None:
            return [forward], []
        return [forward], [self._call(c, "bw", point, {**kept, "dy": at.dy, "dx": at.dx})]

    def _call(
        self, c: Context, step: str, point: Mapping[str, Any], operands: Mapping[str, str]
    ) -> Call:
        return Call(self._region(c, step), f"{self.kind}_{step}_f32", point, operands)
