"""A step of training with its kernels: what it computes, on what operands, and where all lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from firmware.builder import KernelError
from trainlib.calls.call import Call
from trainlib.calls.primitives import PRIMITIVES
from trainlib.deploy.fusion import Fits
from trainlib.deploy.graph.registry import call_of, written
from trainlib.deploy.graph.values import DeployError, Graph, Value
from trainlib.deploy.memory import Memory, lifetimes, plan
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.step import training
from trainlib.network.training import TrainingArguments, network_of
from trainlib.primitive.tensor import INT32, Addresses, Role, Tensor, Tensors

LOSS = "loss"
ROLES: Mapping[str, Role] = {"input": "in", "parameter": "inout", "buffer": "out", "state": "out"}


@dataclass(frozen=True)
class Step:
    """A step of training.

    calls    of kernels, in their order
    """

    a: TrainingArguments
    schedule: Schedule
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, a: TrainingArguments, cores: int, fits: Fits | None) -> "Step":
        """The step that is meant, on so many cores.

        fits      should a gradient of weights change them at once? None: never

        raises    KernelError if there is no such network
        """
        is_naive = a.kernels == "naive"
        graph = network_of(a).graph
        try:
            schedule = training(graph, a.update, fits=None if is_naive else fits)
            calls = [call_of(schedule.graph, node) for node in schedule.nodes]
        except (DeployError, KernelError) as error:
            raise KernelError(f"train_f32: {error}") from None
        return cls(a, schedule, tuple(naive(call, cores) if is_naive else call for call in calls))

    @property
    def graph(self) -> Graph:
        """Graph of the schedule."""
        return self.schedule.graph

    @property
    def loss(self) -> str:
        """The value that a step leaves its loss in."""
        return self.schedule.kept[0]

    @cached_property
    def operands(self) -> list[Value]:
        """Values from outside: a batch and parameters; and what a step leaves to the next one."""
        graph = self.graph
        changed = {
            graph.root(name) for node in self.schedule.nodes for name in written(graph, node)
        }
        return [
            value
            for value in graph.of_role("input", "parameter", "buffer", "state")
            if value.role != "state" or value.name in changed
        ]

    @property
    def tensors(self) -> Tensors:
        """The operands as the program's tensors, by name."""
        return {value.name: self._tensor(value) for value in self.operands}

    def _tensor(self, value: Value) -> Tensor:
        role = ROLES[value.role]
        if value.dtype != INT32.name:
            return Tensor(value.shape, role)
        classes = next(
            self.graph.values[node.inputs["x"]].shape[1]
            for node in self.schedule.nodes
            if node.inputs.get("t") == value.name
        )
        return Tensor(value.shape, role, INT32, below=classes, is_index=True)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """What states, running means and constants hold at first: one number each, many times."""
        return {
            value.name: self.graph.arrays[value.name]
            for value in self.graph.of_role("buffer", "state", "constant")
        }

    def memory(
        self, spaces: Sequence[Mapping[str, int]], start: int, *, with_constants: bool = False
    ) -> Memory:
        """Places of all values that are no operands.

        spaces            bytes of each call's workspaces by name
        with_constants    those that stay, too
        """
        named = {n: {f"{n} {name}": size for name, size in s.items()} for n, s in enumerate(spaces)}
        nodes, kept = self.schedule.nodes, self.schedule.kept
        static, temporary = lifetimes(self.graph, nodes, kept, named)
        outside = {value.name for value in self.operands}
        stays = [block for block in static if block.name not in outside]
        return plan(stays if with_constants else (), temporary, start)

    def address(self, name: str, at: Addresses) -> int:
        """Where a value lies, given its root's place."""
        root, offset = self.graph.place(name)
        start = at[root]
        assert isinstance(start, int)
        return start + self.graph.values[root].item * offset

    def addresses(
        self, call: Call, number: int, spaces: Mapping[str, int], at: Addresses
    ) -> dict[str, int]:
        """Addresses of a call's operands and workspaces, by the primitive's names."""
        operands = {name: self.address(value, at) for name, value in call.operands.items()}
        own: dict[str, Any] = {name: at[f"{number} {name}"] for name in spaces}
        return operands | own


@lru_cache(maxsize=4)
def unfused(a: TrainingArguments, cores: int) -> Step:
    """The step whose updates are passes of their own.

    raises    KernelError if there is no such network
    """
    return Step.of(a, cores, None)


def naive(call: Call, cores: int) -> Call:
    """A call that computes one sum at a time: outputs are dealt out to the cores, or for the
    gradient of a fully connected layer's input, inputs; convolutions are by columns, but for
    gradients of inputs.
    """
    kernel, _, step = call.kernel.removesuffix("_f32").rpartition("_")
    how: dict[str, Any] = {"rows": 1, "cols": 1}
    outputs = min(cores, call.arguments.get("outputs", 1))
    if kernel == "conv2d" and step != "ig":
        how |= {"method": "columns", "split": (outputs, 1)}
    elif kernel == "linear":
        most = min(cores, call.arguments["inputs"]) if step == "ig" else outputs
        how["split"] = (most, 1) if step == "wg" else (1, most)
    elif kernel not in ("conv2d", "pwconv2d"):
        how = {"unroll": 1} if "unroll" in PRIMITIVES[call.kernel].arguments.model_fields else {}
    return replace(call, arguments={**call.arguments, **how})
