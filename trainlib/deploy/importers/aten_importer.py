"""The importer that rules for ATen's operators share: the graph that grows, and its constants."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import DeployError, Graph, Shape

INTEGERS = {
    *(("take", "index"), ("put", "index"), ("cross_entropy_loss", "t"), ("replace_label", "x")),
    *(("as_floats", "x"), ("dropout", "seed")),
}
"""Operators with operands that are integers."""
Rule = Callable[..., Any]
"""rule(importer, *args, **kwargs) takes a node's arguments, as torch's schema has them, and returns
the name of the value that it gives; names, where it gives several."""


class Importer:
    """A graph that grows node by node.

    known    values by torch's nodes; arrays, where they are computed before the run
    layer    that the present node is of
    turned   values that are others with their last two axes swapped
    logits   values that are logarithms of a softmax: of which value, along which axis
    floats   integers as floats, by their names
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.layer = graph, ""
        self.known: dict[Any, Any] = {}
        self.drops = 0
        self.turned: dict[str, str] = {}
        self.floats: dict[str, str] = {}
        self.logits: dict[str, tuple[str, int]] = {}

    def name(self, value: Any) -> str:
        """The value that an argument is."""
        found = self.known.get(value) if not isinstance(value, (int, float)) else None
        if isinstance(found, np.ndarray):
            found = self.constant(found)
        if not isinstance(found, str):
            raise DeployError(f"{value}: there is no such tensor on the chip")
        return found

    def is_array(self, value: Any) -> bool:
        """Is it known before the run?"""
        return isinstance(self._found(value), np.ndarray)

    def is_truth(self, value: Any) -> bool:
        """Are they truth values in PyTorch? They are 1 and 0 here."""
        return str(self._type(value)) == "torch.bool"

    def array(self, value: Any) -> np.ndarray:
        """A value that is known before the run.

        raises    DeployError if it is computed on the chip
        """
        found = self._found(value)
        if not isinstance(found, np.ndarray):
            raise DeployError(f"{value} depends on what is computed; it has to be a constant")
        return found

    def _found(self, value: Any) -> Any:
        if isinstance(found := self.known.get(value), np.ndarray):
            return found
        if not isinstance(found, str) or found not in self.graph.values:
            return None
        return self._array(found)

    def _array(self, name: str) -> np.ndarray | None:
        """What a buffer or a constant has."""
        root, offset = self.graph.place(name)
        if self.graph.values[root].role not in ("buffer", "constant"):
            return None
        own = self.graph.values[name]
        return self.graph.arrays[root].reshape(-1)[offset:][: own.elements].reshape(own.shape)

    def is_finite(self, name: str) -> bool:
        """Is a value computed without an infinite constant? A mask's is -inf."""
        made = {out: node for node in self.graph.nodes for out in node.outputs.values()}
        left, seen = [name], set[str]()
        while left:
            root = self.graph.root(left.pop())
            if root in seen:
                continue
            seen.add(root)
            array = self.graph.arrays.get(root)
            if array is not None and not np.isfinite(array).all():
                return False
            left += made[root].inputs.values() if root in made else ()
        return True

    def optional(self, value: Any) -> str | None:
        """The value that an argument is, or None."""
        return None if value is None else self.name(value)

    def shape(self, value: Any) -> Shape:
        """Shape of an argument."""
        return self.graph.values[self.name(value)].shape

    def node(self, op: str, inputs: Mapping[str, str | None], **attributes: Any) -> dict[str, str]:
        """Add a node. Integers that are computed with are floats from there on."""
        given = {
            operand: self.as_floats(name) if name and (op, operand) not in INTEGERS else name
            for operand, name in inputs.items()
        }
        return add_node(self.graph, op, given, attributes, layer=self.layer)

    def as_floats(self, name: str) -> str:
        """A value whose elements are floats: it, or its integers converted."""
        if self.graph.values[name].dtype != "int32":
            return name
        if name not in self.floats:
            array = self._array(name)
            self.floats[name] = (
                self.graph.stop(self.node("as_floats", {"x": name})["y"])
                if array is None
                else self.constant(array.astype(np.float32))
            )
        return self.floats[name]

    def is_whole(self, value: Any) -> bool:
        """Are they integers or truth values in PyTorch?"""
        own = self._type(value)
        if own is None:
            return self.graph.values[self.name(value)].dtype == "int32"
        return not own.is_floating_point

    @staticmethod
    def _type(value: Any) -> Any:
        """PyTorch's, of its nodes."""
        return getattr(getattr(value, "meta", {}).get("val", value), "dtype", None)

    def constant(self, values: Any) -> str:
        """A constant, of floats or of integers."""
        array = np.asarray(values)
        array = array.reshape(array.shape or (1,))
        is_index = array.dtype.kind == "i"
        return self.graph.constant(
            f"{self.layer}.constant", array, "int32" if is_index else "float32"
        )

    def scaled(self, name: str, factor: float) -> str:
        """A value times a number."""
        if factor == 1:
            return name
        return self.node("multiply", {"a": name, "b": self.constant([float(factor)])})["y"]


def pair(value: Any) -> tuple[int, int]:
    """One number for both directions, or two."""
    numbers = [value] if isinstance(value, int) else list(value)
    return (numbers[0], numbers[-1])


def both(value: Any, is_line: bool, other: int) -> tuple[int, int]:
    """Of an image; of a line, what it has and another for its height of 1."""
    first, second = pair(value)
    return (other, second) if is_line else (first, second)
