"""The meaning of a graph: its nodes in NumPy, by the references of the primitives, in float64."""

from collections.abc import Callable

import numpy as np

from trainlib.calls.call import point_of
from trainlib.deploy.graph.registry import call_of, written
from trainlib.deploy.graph.values import DTYPES, Graph, Node
from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import INT32, Arrays

Disturb = Callable[[str, Expected], np.ndarray]
"""disturb(name, expected): what becomes of a result with that name in the graph."""


def exactly(_: str, result: Expected) -> np.ndarray:
    """A result as it is."""
    return np.asarray(result[0])


class Interpreter:
    """A graph's values, computed node by node.

    state      arrays of roots, flat: float64, or int32
    disturb    what becomes of each result
    """

    def __init__(
        self, graph: Graph, arrays: Arrays | None = None, disturb: Disturb = exactly
    ) -> None:
        self.graph, self.disturb = graph, disturb
        self.state: dict[str, np.ndarray] = {}
        for name, array in {**graph.arrays, **(arrays or {})}.items():
            self.set(name, array)

    def set(self, name: str, array: np.ndarray) -> None:
        """Let a value that is no view hold an array."""
        dtype = DTYPES[self.graph.values[name].dtype]
        kind = INT32 if dtype == INT32 else np.float64
        self.state[name] = np.array(array, kind).reshape(-1)

    def get(self, name: str) -> np.ndarray:
        """What a value holds, in its shape."""
        value = self.graph.values[name]
        return self._flat(name)[: value.elements].reshape(value.shape)

    def run(self, nodes: list[Node] | None = None) -> None:
        """Compute nodes, all of the graph by default."""
        for node in self.graph.nodes if nodes is None else nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        """Compute a node."""
        for name in written(self.graph, node):
            value = self.graph.values[self.graph.root(name)]
            kind = INT32 if value.dtype == "int32" else np.float64
            self.state.setdefault(value.name, np.zeros(value.elements, kind))
        call = call_of(self.graph, node)
        family, point = point_of(call, None)
        tensors = family.tensors(point)
        read = {
            operand: self._flat(call.operands[operand])[: t.elements].reshape(t.shape)
            for operand, t in tensors.items()
            if t.role in ("in", "inout")
        }
        with np.errstate(all="ignore"):
            results = family.reference(point, read)
        for operand, result in results.items():
            name = call.operands[operand]
            target = self._flat(name)
            target[: tensors[operand].elements] = self.disturb(name, result).reshape(-1)

    def _flat(self, name: str) -> np.ndarray:
        """From a value's start to the end of its root."""
        root, offset = self.graph.place(name)
        return self.state[root][offset:]
