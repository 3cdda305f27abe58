"""A network's training step as data: its tensors, and the calls of primitives in their order."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from pydantic import Field

from firmware.builder import KernelError
from trainlib.network.layers import Call, Context, Operands
from trainlib.network.loss_and_optimizer import Training
from trainlib.network.norm_pool_layers import AnyLayer
from trainlib.network.operators import PRIMITIVES
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import Role, Tensor


class TrainingArguments(Training):
    """Training of a network: steps of an optimiser on a batch.

    input      shape of an image, without the batch
    layers     tables such as { kind = "linear", outputs = 32 }: conv2d with outputs, kernel,
               stride, padding, bias; linear with outputs, bias; maxpool2d, avgpool2d with kernel,
               stride, padding; batchnorm with momentum, instancenorm, groupnorm with groups,
               layernorm, rmsnorm, with eps; relu, sigmoid, tanh, silu, gelu
    """

    input: tuple[int, ...] = Field(min_length=1, max_length=3)
    layers: tuple[AnyLayer, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Plan:
    """A step of training.

    tensors     by name; "scratch": those between layers
    calls       in order
    parameters  names of what is learned, and the numbers that each of its sums has
    states      what the optimiser and running means keep from step to step: values at first
    """

    tensors: dict[str, Tensor]
    calls: tuple[Call, ...]
    parameters: dict[str, int]
    states: dict[str, float]


def point_of(call: Call, cores: int | None) -> tuple[Family, Any]:
    """A call's primitive and its arguments."""
    family = PRIMITIVES[call.kernel]
    return family, family.arguments.model_validate({**call.arguments, "cores": cores})


def plan_of(a: TrainingArguments, cores: int) -> Plan:
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

    def __init__(self, a: TrainingArguments, cores: int) -> None:
        self.a, self.cores = a, cores
        self.tensors = {"X": Tensor((a.batch, *a.input))}
        self.forward: list[Call] = []
        self.backward: list[Call] = []
        self.updates: list[Call] = []
        self.parameters: dict[str, int] = {}
        self.states: dict[str, float] = {}

    def layer(self, number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Add a layer; return the shape of what comes out."""
        a, layer = self.a, self.a.layers[number]
        if layer.takes_images and len(shape) != 3:
            raise KernelError(
                f"train_f32: layer {number}, {layer.kind}, gets {list(shape)}; it takes channels, "
                f"height and width"
            )
        scale = -a.lr if a.fuses and layer.fuses(a.batch, shape) else None
        context = Context(number, a.batch, shape, self.cores, a.kernels, scale)
        result = layer.output(shape)
        parameters = layer.parameters(shape)
        names = {name: f"{name}_{number}" for name in parameters}
        gradients = {n: names[n] if scale is not None else f"d{names[n]}" for n in names}
        for name, size in parameters.items():
            self._add(names[name], size, "inout")
            self.parameters[names[name]] = prod(parameters["weight"][1:])
            if scale is None:
                self._add(gradients[name], size, "scratch")
                for state in a.state:
                    self._keep(f"{state}_{names[name]}", size)
                self.updates.append(a.update(names[name], gradients[name], size))
        kept = {name: f"{name}_{number}" for name in layer.kept(a.batch, shape)}
        for name, tensor in layer.kept(a.batch, shape).items():
            self.tensors[kept[name]] = tensor
        states = {name: f"{name}_{number}" for name in layer.states(shape)}
        for name, (size, value) in layer.states(shape).items():
            self._keep(states[name], size, value)
        self._add(f"y_{number}", (a.batch, *result), "scratch")
        self._add(f"dy_{number}", (a.batch, *result), "scratch")
        needs_dx = bool(number and self.parameters.keys() - names.values())
        dx = f"dy_{number - 1}" if needs_dx else None
        if dx is None and layer.needs_dx:
            dx = f"dx_{number}"
            self._add(dx, (a.batch, *shape), "scratch")
        at = Operands(
            x=f"y_{number - 1}" if number else "X",
            y=f"y_{number}",
            dy=f"dy_{number}",
            dx=dx,
            parameters=names,
            gradients=gradients,
            kept=kept,
            states=states,
        )
        forward, backward = layer.calls(context, at)
        self.forward += forward
        self.backward = backward + self.backward
        return result

    def loss(self, number: int, shape: tuple[int, ...]) -> None:
        """Add the loss after the last layer."""
        a = self.a
        self.tensors["T"] = a.target(shape)
        self._add("loss", (a.steps,), "out")
        self._add("loss_now", (1,), "scratch")
        last = number - 1
        names = {"x": f"y_{last}", "t": "T", "loss": "loss_now", "dx": f"dy_{last}"}
        self.forward.append(a.loss_call(shape, names))
        begin = a.begin_updates()
        self.updates[:0] = begin
        if begin:
            self._keep("corrections", (2,))

    def plan(self) -> Plan:
        """What has grown."""
        calls = (*self.forward, *self.backward, *self.updates)
        return Plan(self.tensors, calls, self.parameters, self.states)

    def _keep(self, name: str, shape: tuple[int, ...], value: float = 0.0) -> None:
        self._add(name, shape, "out")
        self.states[name] = value

    def _add(self, name: str, shape: tuple[int, ...], role: Role) -> None:
        if min(shape) < 1:
            raise KernelError(f"train_f32: {name} would have the shape {list(shape)}")
        self.tensors[name] = Tensor(shape, role)


def drawn(a: TrainingArguments, numbers: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights and biases to begin with: even in +-1 / sqrt(numbers in a sum)."""
    plan = plan_of(a, 1)
    values = {}
    for name, terms in plan.parameters.items():
        most = terms**-0.5
        values[name] = numbers.uniform(-most, most, plan.tensors[name].shape).astype(np.float32)
    return values
