"""Optimisers: how parameters learn from their gradients, as nodes of the graph.

    SGD(lr=0.01, momentum=0.9), Adam(lr=1e-3), AdamW(lr=1e-3, weight_decay=0.1)

    AdamW(lr=1e-3, groups=[{"params": ["*.bias", "norm*"], "weight_decay": 0.0}])

They are PyTorch's, in every option that they have here. Groups are parameters whose options
differ, given by patterns of their names: of several that fit a name, the last one holds. The
learning rate of each is a word in memory: a schedule may change it between steps. Gradients may be
clipped before, as by clip_grad_norm_ and clip_grad_value_ of torch.nn.utils; those that training
returns are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from glob import escape
from math import isfinite
from typing import Any, Self, SupportsFloat

import numpy as np

from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import DeployError, Graph
from trainlib.deploy.parameter_groups import last_fitting, mistakes, options_of, unfit

LR = "optimizer.lr"
CORRECTIONS = "optimizer.corrections"
EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_
OF_ALL = ("clip_norm", "clip_value", "groups")  # what groups do not have of their own


@dataclass(frozen=True)
class Optimizer:
    """What all have.

    lr              how far a step goes
    weight_decay    how much of a parameter is added to its gradient
    clip_norm       the most that the norm of all gradients together may be; None: anything
    clip_value      the most that any of their elements may be, after that
    groups          {"params": a pattern of names, or several, and the options that differ}
    """

    lr: float
    weight_decay: float = 0.0
    clip_norm: float | None = field(default=None, kw_only=True)
    clip_value: float | None = field(default=None, kw_only=True)
    groups: Sequence[Mapping[str, Any]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        for name in self.options():
            value = getattr(self, name)
            if value is not None and not all(isinstance(n, SupportsFloat) for n in _each(value)):
                kind = type(self).__name__
                raise DeployError(f"{kind}: {name} = {value!r}; it is a number")
        for name in ("lr", "weight_decay"):
            _check(self, name, getattr(self, name) >= 0, "0 or more")
        for name in ("clip_norm", "clip_value"):
            if (most := getattr(self, name)) is not None:
                _check(self, name, most > 0, "above 0")
        self._check_groups()

    @classmethod
    def options(cls) -> list[str]:
        """Names of what a number says."""
        return [each.name for each in fields(cls) if each.name != "groups"]

    def _check_groups(self) -> None:
        """raises    DeployError with every mistake in them, a line each"""
        own = [name for name in self.options() if name not in OF_ALL]
        found = mistakes(self.groups, own, lambda options: replace(self, groups=(), **options))
        if found:
            raise DeployError("\n".join(f"{type(self).__name__}: {each}" for each in found))

    def check(self, graph: Graph) -> None:
        """raises    DeployError for patterns that no parameter's name fits, a line each"""
        names = [value.name for value in graph.of_role("parameter")]
        if found := unfit(self.groups, names):
            raise DeployError("\n".join(f"{type(self).__name__}: {each}" for each in found))

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """Optimisers without groups: of what is in none, and of each group."""
        plain = replace(self, groups=())
        return plain, *(replace(plain, **options_of(group)) for group in self.groups)

    def part_of(self, name: str) -> int:
        """The number of the part that a parameter learns by."""
        return last_fitting(self.groups, name)

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

    def add_updates(self, graph: Graph, gradients: Mapping[str, str]) -> None:
        """Add the nodes that change parameters by their gradients."""
        by_name = {name: self.part_of(name) for name in gradients}
        shared = {
            number: self.parts[number].begin(graph, rate_name(number))
            for number in sorted(set(by_name.values()))
        }
        for name, gradient in self.clipped(graph, gradients).items():
            number = by_name[name]
            self.parts[number].update(graph, name, gradient, shared[number])

    def begin(self, graph: Graph, lr: str) -> dict[str, str]:
        """Add what updates share: operands, by their names; nodes that come before all updates.

        lr    what the word of the learning rate is called
        """
        return {"lr": graph.add(lr, (1,), "state", array=np.array([self.lr]))}

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

    @classmethod
    def by_rates(cls, rates: Mapping[str, float]) -> Self:
        """One by which each parameter, by name, learns at its rate."""
        first, *others = dict.fromkeys(rates.values())
        groups = [
            {"params": [escape(name) for name, own in rates.items() if own == rate], "lr": rate}
            for rate in others
        ]
        return cls(lr=first, groups=groups)

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

    def begin(self, graph: Graph, lr: str) -> dict[str, str]:
        """The learning rate, and the bias corrections of these betas, which advance before all
        updates.
        """
        shared, how = super().begin(graph, lr), {"betas": tuple(self.betas)}
        known = [n for n in graph.nodes if n.op == "adam_corrections" and n.attributes == how]
        if known:
            return shared | dict(known[0].inputs)
        zeros = np.zeros(2, np.float32)
        name = graph.add(graph.fresh(CORRECTIONS), (2,), "state", array=zeros)
        inputs = {"corrections": name}
        add_node(graph, "adam_corrections", inputs, how, layer="optimizer", step="update")
        return shared | inputs


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


def rate_name(number: int) -> str:
    """What the word of a part's learning rate is called."""
    return f"{LR}.{number}" if number else LR


OPTIMIZERS = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def _each(value: Any) -> tuple[Any, ...]:
    """The numbers of an option, which may be one."""
    return value if isinstance(value, tuple) else (value,)


def _check(optimizer: Optimizer, name: str, is_right: bool, rule: str) -> None:
    value = getattr(optimizer, name)
    if not is_right or not all(isfinite(number) for number in _each(value)):
        kind = type(optimizer).__name__
        finite = "" if all(isfinite(number) for number in _each(value)) else ", and finite"
        raise DeployError(f"{kind}: {name} = {value}; it is {rule}{finite}")
