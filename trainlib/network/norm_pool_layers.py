"""Layers of a network that gather numbers of an image: pooling and norms."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from firmware.builder import KernelError
from trainlib.conv.ops import PadPair, Pair
from trainlib.network.layers import (
    Activation,
    Call,
    Context,
    ConvolutionLayer,
    Layer,
    LinearLayer,
    Operands,
    Shape,
)
from trainlib.pool import ops as pool_program
from trainlib.primitive.tensor import INT32, Tensor


class PoolingLayer(Layer):
    """The largest or the mean of windows of images [channels, height, width].

    stride    between windows; not given: the window's
    """

    kind: Literal["maxpool2d", "avgpool2d"]
    kernel: Pair
    stride: Pair | None = None
    padding: PadPair = (0, 0)
    takes_images: ClassVar[bool] = True

    def output(self, shape: Shape) -> Shape:
        """Shape of what comes out."""
        return (shape[0], *pool_program.PoolArguments(**self._arguments(shape)).pooling.out)

    def kept(self, batch: int, shape: Shape) -> dict[str, Tensor]:
        """Where the largest are."""
        index = Tensor((batch, *self.output(shape)), "scratch", INT32)
        return {"index": index} if self.kind == "maxpool2d" else {}

    def _arguments(self, shape: Shape) -> dict[str, Any]:
        sizes = dict(zip("chw", shape, strict=True))
        return {**sizes, "kernel": self.kernel, "stride": self.stride, "pad": self.padding}

    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward."""
        how = self._arguments(c.shape) | {"b": c.batch}
        if c.kernels == "naive":
            how["unroll"] = 1

        def call(step: str, operands: Mapping[str, str]) -> Call:
            kernel = f"{self.kind}_{step}_f32"
            return Call(self._region(c, step), kernel, how, {**operands, **at.kept})

        forward = call("fw", {"x": at.x, "y": at.y})
        return [forward], [call("bw", {"dy": at.dy, "dx": at.dx})] if at.dx else []


class _Normalised(Layer):
    """Some elements with mean 0 and variance 1, times weight plus bias."""

    groups: int | None = Field(None, ge=1)
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)
    needs_dx: ClassVar[bool] = True

    @property
    def _is_of_rows(self) -> bool:
        return self.kind in ("layernorm", "rmsnorm")

    @property
    def _means(self) -> tuple[str, ...]:
        return ("rstd",) if self.kind == "rmsnorm" else ("mean", "rstd")

    def parameters(self, shape: Shape) -> dict[str, Shape]:
        """Shapes of weight and bias."""
        size = (prod(shape),) if self._is_of_rows else (shape[0],)
        return {"weight": size} if self.kind == "rmsnorm" else {"weight": size, "bias": size}

    def kept(self, batch: int, shape: Shape) -> dict[str, Tensor]:
        """Means and deviations."""
        channels = {"instancenorm": shape[0], "groupnorm": self.groups or 1}.get(self.kind, 1)
        return {name: Tensor((batch * channels,), "scratch") for name in self._means}

    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward."""
        if (self.groups is None) == (self.kind == "groupnorm"):
            raise KernelError(
                f"train_f32: layer {c.number}, {self.kind}: groups = {self.groups}; groupnorm has "
                f"groups, and no other"
            )
        how: dict[str, Any] = {"b": c.batch, "c": c.shape[0], "hw": prod(c.shape[1:])}
        if self._is_of_rows:
            how = {"rows": c.batch, "columns": prod(c.shape)}
        how["eps"] = self.eps
        if self.groups:
            how["groups"] = self.groups
        gamma = {"gamma": at.parameters["weight"]}
        beta = {"beta": at.parameters["bias"]} if "bias" in at.parameters else {}
        grown = {"dgamma": at.gradients["weight"]}
        grown |= {"dbeta": at.gradients["bias"]} if beta else {}
        assert at.dx is not None
        forward = {"x": at.x, **gamma, **beta, "y": at.y, **at.kept}
        backward = {"x": at.x, "dy": at.dy, **gamma, **at.kept, "dx": at.dx, **grown}

        def call(step: str, operands: Mapping[str, str]) -> Call:
            return Call(self._region(c, step), f"{self.kind}_{step}_f32", how, operands)

        return [call("fw", forward)], [call("bw", backward)]


class NormLayer(_Normalised):
    """Places of a channel ("instancenorm"), of a group of channels ("groupnorm") or all elements of
    an image ("layernorm", "rmsnorm").
    """

    kind: Literal["instancenorm", "groupnorm", "layernorm", "rmsnorm"]


class BatchNormLayer(_Normalised):
    """Places of a channel in all images.

    momentum    of the running means: how much of them is new
    """

    kind: Literal["batchnorm"]
    momentum: float = Field(0.1, ge=0, le=1)
    takes_images: ClassVar[bool] = True

    def kept(self, batch: int, shape: Shape) -> dict[str, Tensor]:
        """Means and deviations."""
        return {name: Tensor((shape[0],), "scratch") for name in self._means}

    def states(self, shape: Shape) -> dict[str, tuple[Shape, float]]:
        """Running means."""
        return {"running_mean": ((shape[0],), 0.0), "running_var": ((shape[0],), 1.0)}

    def calls(self, c: Context, at: Operands) -> tuple[list[Call], list[Call]]:
        """Forward, and backward."""
        forward, backward = super().calls(c, at)
        operands = {**forward[0].operands, **at.states}
        how = {**forward[0].arguments, "momentum": self.momentum}
        return [replace(forward[0], arguments=how, operands=operands)], backward


AnyLayer = Annotated[
    ConvolutionLayer | LinearLayer | Activation | PoolingLayer | NormLayer | BatchNormLayer,
    Field(discriminator="kind"),
]
