"""Training of a network that a config's tables describe: its arguments, and its graph."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field

from firmware.builder import KernelError
from trainlib.deploy.graph.values import DeployError, Shape
from trainlib.deploy.optimizers import SGD, Adam, AdamW, Optimizer
from trainlib.elementwise.optimizer_ops import Beta
from trainlib.network.layers import AnyLayer, Network
from trainlib.primitive.arguments import CommonArguments

LOSSES = Literal["mse", "l1", "berhu", "cross_entropy"]
X, T = "X", "T"


class TrainingArguments(CommonArguments):
    """Training of a network: steps of an optimiser on a batch.

    input           shape of an image, without the batch
    layers          tables such as { kind = "linear", outputs = 32 }: conv2d with outputs, kernel,
                    stride, padding, bias; linear with outputs, bias; maxpool2d, avgpool2d with
                    kernel, stride, padding; batchnorm with momentum, instancenorm, groupnorm with
                    groups, layernorm, rmsnorm, with eps; relu, sigmoid, tanh, silu, gelu
    loss            "mse", "l1", "berhu": the mean over all elements; "cross_entropy": T has the
                    number of each image's class
    optimizer       "sgd", with momentum, nesterov and weight_decay; "adam" or "adamw", with betas,
                    eps and weight_decay
    lr              how far weights go
    clip_norm       the most that the norm of all gradients together may be; not given: anything
    clip_value      the most that any of their elements may be, after that
    steps           of training, all with the same batch
    kernels         "best", or "naive": one sum at a time, convolutions by columns, updates in a
                    pass of their own
    """

    input: tuple[int, ...] = Field(min_length=1, max_length=3)
    layers: tuple[AnyLayer, ...] = Field(min_length=1)
    batch: int = Field(1, ge=1, le=1 << 16)
    loss: LOSSES = "mse"
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0, allow_inf_nan=False)
    momentum: float = Field(0.0, ge=0, le=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0, allow_inf_nan=False)
    clip_norm: float | None = Field(None, gt=0, allow_inf_nan=False)
    clip_value: float | None = Field(None, gt=0, allow_inf_nan=False)
    steps: int = Field(1, ge=1, le=1 << 16)
    kernels: Literal["best", "naive"] = "best"

    @property
    def update(self) -> Optimizer:
        """The optimiser.

        raises    KernelError for options that it does not have
        """
        if self.momentum and self.optimizer != "sgd":
            raise KernelError(f"{self.optimizer} has no momentum; leave it out, or take sgd")
        if self.nesterov and not self.momentum:
            raise KernelError("nesterov without a momentum; it looks ahead along that")
        how: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        how |= {"clip_norm": self.clip_norm, "clip_value": self.clip_value}
        if self.optimizer == "sgd":
            return SGD(**how, momentum=self.momentum, nesterov=self.nesterov)
        kind = Adam if self.optimizer == "adam" else AdamW
        return kind(**how, betas=self.betas, eps=self.eps)


@lru_cache(maxsize=8)
def network_of(a: TrainingArguments) -> Network:
    """The graph forward, with its loss.

    raises    KernelError if a layer does not fit the one before
    """
    net = Network()
    y = net.graph.add(X, (a.batch, *a.input), "input")
    for number, layer in enumerate(a.layers):
        net.number, net.layer = number, f"{layer.kind}_{number}"
        try:
            y = _added(net, layer, y)
        except (DeployError, KernelError) as error:
            raise KernelError(f"train_f32: layer {number}, {layer.kind}: {error}") from None
    net.layer = "loss"
    _add_loss(net, a.loss, y)
    return net


def _added(net: Network, layer: AnyLayer, x: str) -> str:
    shape = list(net.shape(x)[1:])
    if layer.takes_images and len(shape) != 3:
        raise KernelError(f"its input is {shape}; it takes channels, height and width")
    return layer.add(net, x)


def _add_loss(net: Network, loss: str, y: str) -> None:
    """Add the loss of what the last layer gives."""
    shape: Shape = net.shape(y)
    is_of_classes = loss == "cross_entropy"
    if is_of_classes and len(shape) > 2:
        raise KernelError(
            f"train_f32: cross_entropy gets {list(shape[1:])}; it takes a number for each "
            f"class: let a linear layer be the last"
        )
    how = (shape[:1], "input", "int32") if is_of_classes else (shape, "input")
    inputs = {"x": y, "t": net.graph.add(T, *how)}
    net.graph.loss = net.node(f"{loss}_loss", inputs)["loss"]


def drawn(a: TrainingArguments, numbers: np.random.Generator) -> Mapping[str, np.ndarray]:
    """Weights and biases to begin with: even in +-1 / sqrt(numbers in a sum)."""
    net = network_of(a)
    values = {}
    for name, terms in net.terms.items():
        most = terms**-0.5
        values[name] = numbers.uniform(-most, most, net.shape(name)).astype(np.float32)
    return values
