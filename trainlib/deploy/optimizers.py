"""Optimisers: how parameters learn from their gradients, as nodes of the graph.

    SGD(lr=0.01, momentum=0.9), Adam(lr=1e-3), AdamW(lr=1e-3, weight_decay=0.1)

They are PyTorch's, in every option that they have here. The learning rate is a word in memory: a
schedule may change it between steps. Gradients may be clipped before, as by clip_grad_norm_ and
clip_grad_value_ of torch.nn.utils; those that training returns are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, SupportsFloat

import numpy as np

from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import DeployError, Graph

LR = "optimizer.lr"
CORRECTIONS = "optimizer.corrections"
EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True)
class Optimizer:
    """What all have.

    lr              how far a step goes
    weight_decay    how much of a parameter is added to its gradient
    clip_norm       the most that the norm of all gradients together may be; None: anything
    clip_value      the most that any of their elements may be, after that
    """

    lr: float
    weight_decay: float = 0.0
    clip_norm: float | None = field(default=None, kw_only=True)
    clip_value: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not all(isinstance(n, SupportsFloat) for n in _each(value)):
                kind = type(self).__name__
                raise DeployError(f"{kind}: {name} = {value!r}; it is a number")
        for name in ("lr", "weight_decay"):
            _check(self, name, getattr(self, name) >= 0, "0 or more")
        for name in ("clip_norm", "clip_value"):
            if (most := getattr(self, name)) is not None:
                _check(self, name, most > 0, "above 0")

    @property
    def clips_nothing(self) -> bool:
        """Do updates take gradients as they are?"""
        return self.clip_norm is None and self.clip_value is None

    @property
    def states(self) -> tuple[str, ...]:
        """What it keeps for each parameter, zero at first, by the kernel's names."""
        return ()

    @property
    def kernel(self) -> str:
        """Its operator."""
        raise NotImplementedError

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the operator."""
        return {"lr": "operand", "weight_decay": self.weight_decay}

    def begin(self, graph: Graph) -> dict[str, str]:
        """Add what all updates share: its operands; nodes that come before all updates."""
        return {"lr": graph.add(LR, (1,), "state", array=np.array([self.lr]))}

    def clipped(self, graph: Graph, gradients: Mapping[str, str]) -> Mapping[str, str]:
        """Gradients as updates take them, by parameter."""
        if self.clip_norm is not None:
            factor = _factor(graph, list(gradients.values()), self.clip_norm)
            gradients = {
                n: _add(graph, "multiply", layer_of(graph, n), a=g, b=factor)
                for n, g in gradients.items()
            }
        if self.clip_value is not None:
            how = {"low": -self.clip_value, "high": self.clip_value}
            gradients = {
                n: _add(graph, "clamp_fw", layer_of(graph, n), how, x=g)
                for n, g in gradients.items()
            }
        return gradients

    def update(self, graph: Graph, name: str, gradient: str, shared: dict[str, str]) -> None:
        """Add the node that changes a parameter by its gradient."""
        shape = graph.values[name].shape
        inputs = {"w": name, "g": graph.reshaped(gradient, shape), **shared}
        for state in self.states:
            zeros = np.zeros(shape, np.float32)
            inputs[state] = graph.add(f"optimizer.{state}.{name}", shape, "state", array=zeros)
        layer = layer_of(graph, name)
        add_node(graph, self.kernel, inputs, self.attributes, layer=layer, step="update")


@dataclass(frozen=True)
class SGD(Optimizer):
    """w -= lr (g + weight_decay w), with momentum as torch.optim.SGD has it."""

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "momentum", 0 <= self.momentum <= 1, "from 0 to 1")
        if self.nesterov and not self.momentum:
            raise DeployError("SGD: nesterov without a momentum; it looks ahead along that")

    @property
    def states(self) -> tuple[str, ...]:
        """States of momentum."""
        return ("b",) if self.momentum else ()

    @property
    def kernel(self) -> str:
        """With momentum or without."""
        return "sgd_momentum" if self.momentum else "sgd"

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the operator."""
        own = {"momentum": self.momentum, "nesterov": self.nesterov} if self.momentum else {}
        return super().attributes | own


@dataclass(frozen=True)
class Adam(Optimizer):
    """torch.optim.Adam."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "betas", all(0 <= beta < 1 for beta in self.betas), "two, from 0 to below 1")
        _check(self, "eps", self.eps > 0, "above 0")

    @property
    def states(self) -> tuple[str, ...]:
        """Means of gradients and of their squares."""
        return ("m", "v")

    @property
    def kernel(self) -> str:
        """Its operator."""
        return "adam"

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the operator."""
        return super().attributes | {"betas": self.betas, "eps": self.eps}

    def begin(self, graph: Graph) -> dict[str, str]:
        """The learning rate, and the bias corrections, which advance before all updates."""
        shared = super().begin(graph)
        zeros = np.zeros(2, np.float32)
        shared["corrections"] = graph.add(CORRECTIONS, (2,), "state", array=zeros)
        inputs = {"corrections": shared["corrections"]}
        how = {"betas": self.betas}
        add_node(graph, "adam_corrections", inputs, how, layer="optimizer", step="update")
        return shared


@dataclass(frozen=True)
class AdamW(Adam):
    """torch.optim.AdamW."""

    weight_decay: float = 1e-2

    @property
    def kernel(self) -> str:
        """Its operator."""
        return "adamw"


def _add(
    graph: Graph, op: str, layer: str, attributes: dict[str, Any] | None = None, **inputs: str
) -> str:
    return add_node(graph, op, inputs, attributes, layer=layer, step="update")["y"]


def _factor(graph: Graph, gradients: Sequence[str], most: float) -> str:
    """What gradients are multiplied by: most / (their norm + 1e-6), but 1 at most."""
    where, total = "optimizer", ""
    for gradient in gradients:
        flat = graph.reshaped(gradient, (graph.values[gradient].elements,))
        square = _add(graph, "multiply", where, a=flat, b=flat)
        part = _add(graph, "reduce", where, {"axes": (0,), "what": "sum"}, x=square)
        total = _add(graph, "add", where, a=total, b=part) if total else part
    norm = _add(graph, "sqrt", where, x=total)
    size = _add(graph, "add", where, a=norm, b=graph.constant("clip_eps", [EPS]))
    factor = _add(graph, "divide", where, a=graph.constant("clip_norm", [most]), b=size)
    return _add(graph, "clamp_fw", where, {"high": 1.0}, x=factor)


def layer_of(graph: Graph, name: str) -> str:
    """The layer that a parameter is of: the first that reads it."""
    readers = (node.layer for node in graph.nodes for v in node.inputs.values() if v == name)
    return next(readers, name.rpartition(".")[0])


OPTIMIZERS = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def _each(value: Any) -> tuple[Any, ...]:
    """The numbers of an option, which may be one."""
    return value if isinstance(value, tuple) else (value,)


def _check(optimizer: Optimizer, name: str, is_right: bool, rule: str) -> None:
    value = getattr(optimizer, name)
    if not is_right or not all(isfinite(number) for number in _each(value)):
        kind = type(optimizer).__name__
        raise DeployError(f"{kind}: {name} = {value}; it is {rule}")
