"""Reverse mode: the nodes that compute gradients of a graph's loss by its trained parameters.

A node's rule says what the gradients of its inputs are; several for one value are added. What no
trained parameter depends on has none, and no node for it is emitted.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.registry import OPERATORS, add_node
from trainlib.deploy.graph.values import Attributes, DeployError, Graph, Node, Shape


def differentiate(graph: Graph, seed: str | None = None) -> Graph:
    """The graph with the nodes of all gradients after its own; `gradients` names them.

    seed    what the gradient of the loss is, a value of one element; None: 1

    Parameters that the loss does not depend on have none, and do not learn, as in PyTorch.

    raises    DeployError if an operator between the loss and a parameter has no gradient
    """
    result = graph.copy()
    if result.loss is None:
        raise DeployError("the graph has no loss; training needs one")
    tape = _Tape(result, seed)
    for node in reversed(graph.nodes):
        tape.back(node)
    for name in result.trained:
        gradient = tape.total(name)
        if gradient is not None:
            result.gradients[name] = gradient
    result.trained = tuple(result.gradients)
    return result


class _Tape:
    """Gradients that are known so far, by value."""

    def __init__(self, graph: Graph, seed: str | None) -> None:
        self.graph = graph
        self.needed = _needed(graph)
        self.parts: dict[str, list[str]] = {}
        assert graph.loss is not None
        self.one = None if seed else graph.constant("one", np.ones(1, np.float32))
        self.parts[graph.loss] = [seed or graph.constant("one", np.ones(1, np.float32))]
        self.layer = ""
        self.children: dict[str, list[str]] = {}
        for name, value in graph.values.items():
            if value.base is not None:
                self.children.setdefault(value.base, []).append(name)

    def back(self, node: Node) -> None:
        """Emit what the node's rule says, if something needs it."""
        self.layer = node.layer
        totals = {name: self.total(value) for name, value in node.outputs.items()}
        if not any(totals.values()) or not any(v in self.needed for v in node.inputs.values()):
            return
        rule = OPERATORS[node.op].rule
        if rule is None:
            raise DeployError(f"{node.layer or node.op}: {node.op} has no gradient; freeze it")
        try:
            rule(_Back(self, node, totals))
        except DeployError:
            raise
        except ValueError as error:
            raise DeployError(f"{node.layer or node.op}: {error}") from None

    def total(self, name: str) -> str | None:
        """The gradient of a value: the sum of those that its readers and its views have."""
        for child in self.children.pop(name, ()):
            if child in self.graph.stopped:
                continue
            if (gradient := self.total(child)) is not None:
                self.give(name, self._spread(child, gradient))
        parts = self.parts.get(name, [])
        if not parts:
            return None
        while len(parts) > 1:
            first, second, *others = parts
            parts = [self.emit("add", {"a": first, "b": second})["y"], *others]
        self.parts[name] = parts
        return parts[0]

    def _spread(self, child: str, gradient: str) -> str:
        """The gradient of the base, from that of a view."""
        value = self.graph.values[child]
        assert value.base is not None
        base = self.graph.values[value.base]
        after = base.elements - value.offset - value.elements
        if value.offset or after:
            flat = self.graph.reshaped(gradient, (value.elements,))
            how = {"before": (value.offset,), "after": (after,)}
            gradient = self.emit("pad", {"x": flat}, how)["y"]
        return self.graph.reshaped(gradient, base.shape)

    def give(self, name: str, gradient: str) -> None:
        """Say a gradient of a value."""
        self.parts.setdefault(name, []).append(gradient)

    def emit(
        self, op: str, inputs: Mapping[str, str | None], attributes: Attributes | None = None
    ) -> dict[str, str]:
        """Add a node of the layer that is gone through."""
        return add_node(self.graph, op, inputs, attributes, layer=self.layer, step="backward")


class _Back:
    """The view that a rule has of a node, see trainlib.deploy.graph.operator.Backward."""

    def __init__(self, tape: _Tape, node: Node, totals: Mapping[str, str | None]) -> None:
        self.tape, self.node, self.totals = tape, node, totals
        self.emit = tape.emit

    def needs(self, *operands: str) -> bool:
        """Does any of these inputs need a gradient?"""
        return any(self.node.inputs.get(operand) in self.tape.needed for operand in operands)

    def has(self, output: str) -> bool:
        """Does the loss depend on this output?"""
        return self.totals[output] is not None

    def gradient(self, output: str) -> str:
        """The gradient of an output; zeros where the loss does not depend on it."""
        return self.totals[output] or self.constant("zeros", np.zeros(self.shape(output)))

    def value(self, operand: str) -> str | None:
        """An input or an output; None: it has been left out."""
        return {**self.node.inputs, **self.node.outputs}.get(operand)

    def shape(self, operand: str) -> Shape:
        """Its shape."""
        name = self.value(operand)
        assert name is not None
        return self.tape.graph.values[name].shape

    def attributes(self) -> dict[str, Any]:
        """Attributes of the node."""
        return dict(self.node.attributes)

    def constant(self, name: str, array: Any) -> str:
        """Add a constant."""
        is_index = np.asarray(array).dtype.kind == "i"
        return self.tape.graph.constant(name, array, "int32" if is_index else "float32")

    def reshaped(self, name: str, shape: Shape) -> str:
        """A view with another shape."""
        return self.tape.graph.reshaped(name, tuple(shape))

    def part(self, name: str, shape: Shape, offset: int) -> str:
        """A view of elements of a value, so many after its first."""
        return self.tape.graph.view(f"{name}_part", name, tuple(shape), offset)

    def last(self, name: str, shape: Shape) -> str:
        """A view of the last elements of a value."""
        return self.part(name, shape, self.tape.graph.values[name].elements - prod(shape))

    def is_one(self, output: str) -> bool:
        """Is the gradient of this output 1, as that of the graph's loss is?"""
        return self.totals[output] == self.tape.one

    def give(self, operand: str, gradient: str) -> None:
        """Say a gradient of an input; several add up."""
        name = self.node.inputs[operand]
        if name in self.tape.needed:
            self.tape.give(name, self.reshaped(gradient, self.shape(operand)))


def _needed(graph: Graph) -> set[str]:
    """Values that depend on a trained parameter."""
    needed = set(graph.trained)

    def is_needed(name: str) -> bool:
        value = graph.values[name]
        if name in graph.stopped:
            return False
        if name not in needed and value.base is not None and is_needed(value.base):
            needed.add(name)
        return name in needed

    for node in graph.nodes:
        if any(is_needed(name) for name in node.inputs.values()):
            needed.update(node.outputs.values())
    return needed | {name for name in graph.values if is_needed(name)}
