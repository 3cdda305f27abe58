"""A network's training step as data: its tensors, and the calls of primitives in their order."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from pydantic import Field

from firmware.builder import KernelError
from trainlib import act, conv2d_program, kernels, linear_program, loss, optim
from trainlib.kernels import Family, Role, Tensor
from trainlib.network_layers import AnyLayer, Call, Context, Kernels, Operands

PRIMITIVES: dict[str, Family] = {
    family.name: family
    for file in (act, conv2d_program, linear_program, loss, optim)
    for family in file.FAMILIES
}


class Arguments(kernels.Arguments):
    """Training of a network: steps of gradient descent on a batch.

    input      shape of an image, without the batch
    layers     tables such as { kind = "linear", outputs = 32 }: conv2d with outputs, kernel,
               stride, padding, bias; linear with outputs, bias; relu, sigmoid, tanh, silu, gelu
    lr         weights -= lr times their gradients
    steps      of training, all with the same batch
    kernels    "best", or "naive": one sum at a time, convolutions by columns
    fused      add gradients, times -lr, to weights where they arise; False: a pass of its own
    """

    input: tuple[int, ...] = Field(min_length=1, max_length=3)
    layers: tuple[AnyLayer, ...] = Field(min_length=1)
    batch: int = Field(1, ge=1, le=1 << 16)
    lr: float = Field(gt=0, allow_inf_nan=False)
    steps: int = Field(1, ge=1, le=1 << 16)
    kernels: Kernels = "best"
    fused: bool = True


@dataclass(frozen=True)
class Plan:
    """A step of training.

    tensors     by name; "scratch": those between layers
    calls       in order
    parameters  names of what is learned, and the numbers that each of its sums has
    """

    tensors: dict[str, Tensor]
    calls: tuple[Call, ...]
    parameters: dict[str, int]


def point_of(call: Call, cores: int | None) -> tuple[Family, Any]:
    """A call's primitive and its arguments."""
    family = PRIMITIVES[call.kernel]
    return family, family.arguments.model_validate({**call.arguments, "cores": cores})


def plan_of(a: Arguments, cores: int) -> Plan:
    """The step that is meant, on so many cores.

    raises    KernelError if a layer does not fit the one before
    """
    maker = _Maker(a, cores)
    shape = a.input
    for number in range(len(a.layers)):
        shape = maker.layer(number, shape)
    maker.loss(len(a.layers), shape)
    return maker.plan()


class _Maker:
    """A plan that grows layer by layer."""

    def __init__(self, a: Arguments, cores: int) -> None:
        self.a, self.cores = a, cores
        self.tensors = {"X": Tensor((a.batch, *a.input))}
        self.forward: list[Call] = []
        self.backward: list[Call] = []
        self.updates: list[Call] = []
        self.parameters: dict[str, int] = {}

    def layer(self, number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Add a layer; return the shape of what comes out."""
        a, layer = self.a, self.a.layers[number]
        if layer.kind == "conv2d" and len(shape) != 3:
            raise KernelError(
                f"train_f32: layer {number}, {layer.kind}, gets {list(shape)}; it takes channels, "
                f"height and width"
            )
        context = Context(number, a.batch, shape, self.cores, a.kernels, a.fused)
        result = layer.output(shape)
        parameters = layer.parameters(shape)
        names = {name: f"{name}_{number}" for name in parameters}
        gradients = names if a.fused else {name: f"d{names[name]}" for name in names}
        for name, size in parameters.items():
            self._add(names[name], size, "inout")
            self.parameters[names[name]] = prod(parameters["weight"][1:])
            if not a.fused:
                self._add(gradients[name], size, "scratch")
                self.updates.append(self._update(names[name], gradients[name], size))
        self._add(f"y_{number}", (a.batch, *result), "scratch")
        self._add(f"dy_{number}", (a.batch, *result), "scratch")
        needs_dx = bool(number and self.parameters.keys() - names.values())
        at = Operands(
            x=f"y_{number - 1}" if number else "X",
            y=f"y_{number}",
            dy=f"dy_{number}",
            dx=f"dy_{number - 1}" if needs_dx else None,
            parameters=names,
            gradients=gradients,
        )
        forward, backward = layer.calls(context, at)
        self.forward += forward
        self.backward = backward + self.backward
        return result

    def loss(self, number: int, shape: tuple[int, ...]) -> None:
        """Add the loss behind the last layer."""
        a = self.a
        self._add("T", (a.batch, *shape), "in")
        self._add("loss", (a.steps,), "out")
        self._add("loss_now", (1,), "scratch")
        last = number - 1
        names = {"x": f"y_{last}", "t": "T", "loss": "loss_now", "dx": f"dy_{last}"}
        how = {"shape": (a.batch * prod(shape),), "factor": -a.lr if a.fused else 1.0}
        self.forward.append(Call("loss", "mse_loss_f32", how, names))

    def plan(self) -> Plan:
        """What has grown."""
        calls = (*self.forward, *self.backward, *self.updates)
        return Plan(self.tensors, calls, self.parameters)

    def _update(self, w: str, g: str, size: tuple[int, ...]) -> Call:
        how: dict[str, Any] = {"shape": (prod(size),), "lr": self.a.lr}
        if self.a.kernels == "naive":
            how["unroll"] = 1
        return Call("update", "sgd_f32", how, {"w": w, "g": g})

    def _add(self, name: str, shape: tuple[int, ...], role: Role) -> None:
        if min(shape) < 1:
            raise KernelError(f"train_f32: {name} would have the shape {list(shape)}")
        self.tensors[name] = Tensor(shape, role)


def drawn(a: Arguments, numbers: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights and biases to begin with: even in +-1 / sqrt(numbers in a sum)."""
    plan = plan_of(a, 1)
    values = {}
    for name, terms in plan.parameters.items():
        most = terms**-0.5
        values[name] = numbers.uniform(-most, most, plan.tensors[name].shape).astype(np.float32)
    return values
