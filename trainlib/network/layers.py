"""Layers as a config's tables have them: each adds its operators to the graph."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from firmware.builder import KernelError
from trainlib.conv.ops import PadPair, Pads, Pair, Size
from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import Graph, Shape


@dataclass
class Network:
    """A graph that grows layer by layer.

    terms     numbers that each of a parameter's sums has, by its name
    number    of the layer that is added now, from 0
    layer     its name
    """

    graph: Graph = field(default_factory=Graph)
    terms: dict[str, int] = field(default_factory=dict)
    number: int = 0
    layer: str = ""

    def shape(self, name: str) -> Shape:
        """Shape of a value, its batch first."""
        return self.graph.values[name].shape

    def node(self, op: str, inputs: Mapping[str, str | None], **how: Any) -> dict[str, str]:
        """Add an operator; return its outputs."""
        return add_node(self.graph, op, inputs, how, layer=self.layer)

    def parameter(self, name: str, shape: Shape, terms: int = 1) -> str:
        """Add what the layer learns; return its name: the layer's number follows."""
        own = self.graph.add(f"{name}_{self.number}", shape, "parameter")
        self.graph.trained += (own,)
        self.terms[own] = terms
        return own

    def buffer(self, name: str, shape: Shape, value: float) -> str:
        """Add what every step changes and is not learned, its elements alike at first."""
        array = np.full(shape, value, np.float32)
        return self.graph.add(f"{name}_{self.number}", shape, "buffer", array=array)

    def rows(self, x: str) -> str:
        """A value as rows, an example in each."""
        batch, *others = self.shape(x)
        return self.graph.reshaped(x, (batch, prod(others)))


class Layer(BaseModel):
    """Fields that all layers have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    takes_images: ClassVar[bool] = False

    @abstractmethod
    def add(self, net: Network, x: str) -> str:
        """Add its operators, given the value that goes in; return the one that comes out.

        raises    DeployError, KernelError if it does not take such a value
        """


class _WithWeights(Layer):
    """A layer with weights, and maybe a bias for each output."""

    outputs: Size
    bias: bool = False

    def _parameters(self, net: Network, shape: Shape) -> dict[str, str]:
        terms = prod(shape[1:])
        bias = {"bias": net.parameter("bias", shape[:1], terms)} if self.bias else {}
        return {"W": net.parameter("weight", shape, terms), **bias}


class ConvolutionLayer(_WithWeights):
    """A convolution of images [channels, height, width]."""

    kind: Literal["conv2d"]
    takes_images: ClassVar[bool] = True
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)

    def add(self, net: Network, x: str) -> str:
        """Add its operator."""
        shape = (self.outputs, net.shape(x)[1], *self.kernel)
        inputs = {"X": x, **self._parameters(net, shape)}
        return net.node("conv2d_fw", inputs, stride=self.stride, padding=self.padding)["Y"]


class LinearLayer(_WithWeights):
    """A fully connected layer; images are rows of all their elements."""

    kind: Literal["linear"]

    def add(self, net: Network, x: str) -> str:
        """Add its operator."""
        rows = net.rows(x)
        shape = (self.outputs, net.shape(rows)[1])
        return net.node("linear_fw", {"X": rows, **self._parameters(net, shape)})["Y"]


class Activation(Layer):
    """A function of each element."""

    kind: Literal["relu", "sigmoid", "tanh", "silu", "gelu"]

    def add(self, net: Network, x: str) -> str:
        """Add its operator."""
        return net.node(f"{self.kind}_fw", {"x": x})["y"]


class PoolingLayer(Layer):
    """The largest or the mean of windows of images [channels, height, width].

    stride    between windows; not given: the window's
    """

    kind: Literal["maxpool2d", "avgpool2d"]
    kernel: Pair
    stride: Pair | None = None
    padding: PadPair = (0, 0)
    takes_images: ClassVar[bool] = True

    def add(self, net: Network, x: str) -> str:
        """Add its operator."""
        windows = {"kernel": self.kernel, "stride": self.stride or self.kernel}
        return net.node(f"{self.kind}_fw", {"x": x}, **windows, pad=self.padding)["y"]


class _Normalised(Layer):
    """Some elements with mean 0 and variance 1, times weight plus bias."""

    groups: int | None = Field(None, ge=1)
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)

    def _add(self, net: Network, x: str, **more: str | float) -> str:
        """Add its operator; `more` has further operands, by name, and attributes."""
        if (self.groups is None) == (self.kind == "groupnorm"):
            raise KernelError(f"groups = {self.groups}; groupnorm has groups, and no other")
        is_of_rows = self.kind in ("layernorm", "rmsnorm")
        size = (prod(net.shape(x)[1:]) if is_of_rows else net.shape(x)[1],)
        inputs = {"x": x, "gamma": net.parameter("weight", size)}
        if self.kind != "rmsnorm":
            inputs["beta"] = net.parameter("bias", size)
        inputs |= {name: value for name, value in more.items() if isinstance(value, str)}
        how: dict[str, Any] = {n: v for n, v in more.items() if not isinstance(v, str)}
        how |= {"groups": self.groups} if self.groups else {}
        return net.node(f"{self.kind}_fw", inputs, eps=self.eps, **how)["y"]


class NormLayer(_Normalised):
    """Places of a channel ("instancenorm"), of a group of channels ("groupnorm") or all elements of
    an image ("layernorm", "rmsnorm").
    """

    kind: Literal["instancenorm", "groupnorm", "layernorm", "rmsnorm"]

    def add(self, net: Network, x: str) -> str:
        """Add its operator."""
        return self._add(net, x)


class BatchNormLayer(_Normalised):
    """Places of a channel in all images.

    momentum    of the running means: how much of them is new
    """

    kind: Literal["batchnorm"]
    momentum: float = Field(0.1, ge=0, le=1)
    takes_images: ClassVar[bool] = True

    def add(self, net: Network, x: str) -> str:
        """Add its operator, and the running means."""
        size = net.shape(x)[1:2]
        means = {"running_mean": 0.0, "running_var": 1.0}
        running = {name: net.buffer(name, size, value) for name, value in means.items()}
        return self._add(net, x, momentum=self.momentum, **running)


AnyLayer = Annotated[
    ConvolutionLayer | LinearLayer | Activation | PoolingLayer | NormLayer | BatchNormLayer,
    Field(discriminator="kind"),
]
