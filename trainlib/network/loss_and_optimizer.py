"""How a network learns: its loss and its optimiser, as calls of primitives."""

from collections.abc import Mapping
from math import prod
from typing import Any, Literal

from pydantic import Field

from firmware.builder import KernelError
from trainlib.elementwise.optimizers import Beta
from trainlib.network.layers import Call, Kernels
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.tensor import INT32, Tensor

Shape = tuple[int, ...]
UPDATE = "update"  # region


class Training(CommonArguments):
    """How a network is trained.

    loss            "mse", "l1", "berhu": the mean over all elements; "cross_entropy": T has the
                    number of each image's class
    optimizer       "sgd", with momentum, nesterov and weight_decay; "adam" or "adamw", with betas,
                    eps and weight_decay
    lr              how far weights go
    steps           of training, all with the same batch
    kernels         "best", or "naive": one sum at a time, convolutions by columns
    fused           plain "sgd": linear layers of few activations change their weights where the
                    whole gradient is; false, and all others: a pass of its own
    """

    batch: int = Field(1, ge=1, le=1 << 16)
    loss: Literal["mse", "l1", "berhu", "cross_entropy"] = "mse"
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0, allow_inf_nan=False)
    momentum: float = Field(0.0, ge=0, le=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0, allow_inf_nan=False)
    steps: int = Field(1, ge=1, le=1 << 16)
    kernels: Kernels = "best"
    fused: bool = True

    @property
    def fuses(self) -> bool:
        """May weights change where their gradients arise?"""
        return self.fused and self.optimizer == "sgd" and not (self.momentum or self.weight_decay)

    def target(self, shape: Shape) -> Tensor:
        """What the network shall give, where it gives images of this shape.

        raises    KernelError if the loss does not take such images
        """
        if self.loss != "cross_entropy":
            return Tensor((self.batch, *shape))
        if len(shape) > 1:
            raise KernelError(
                f"train_f32: cross_entropy gets {list(shape)}; it takes a number for each class: "
                f"let a linear layer be the last"
            )
        return Tensor((self.batch,), dtype=INT32, below=shape[0], is_index=True)

    def loss_call(self, shape: Shape, names: Mapping[str, str]) -> Call:
        """The loss and the gradient of what the last layer gives."""
        how: dict[str, Any] = {"shape": (self.batch * prod(shape),)}
        if self.loss == "cross_entropy":
            how = {"b": self.batch, "classes": shape[0]}
        return Call("loss", f"{self.loss}_loss_f32", how, names)

    @property
    def state(self) -> tuple[str, ...]:
        """What the optimiser keeps for each weight; all zero at first."""
        if self.optimizer == "sgd":
            return ("b",) if self.momentum else ()
        return ("m", "v")

    def begin_updates(self) -> list[Call]:
        """What comes before all updates of a step."""
        if self.optimizer == "sgd":
            return []
        names = {"corrections": "corrections"}
        return [Call(UPDATE, "adam_corrections_f32", {"betas": self.betas}, names)]

    def update(self, w: str, g: str, size: Shape) -> Call:
        """New weights from their gradient."""
        how: dict[str, Any] = {"shape": (prod(size),), "lr": self.lr}
        how["weight_decay"] = self.weight_decay
        names = {"w": w, "g": g} | {name: f"{name}_{w}" for name in self.state}
        kernel: str = self.optimizer
        if kernel != "sgd":
            how |= {"betas": self.betas, "eps": self.eps}
            names["corrections"] = "corrections"
        elif self.momentum:
            kernel = "sgd_momentum"
            how |= {"momentum": self.momentum, "nesterov": self.nesterov}
        if self.kernels == "naive":
            how["unroll"] = 1
        return Call(UPDATE, f"{kernel}_f32", how, names)
