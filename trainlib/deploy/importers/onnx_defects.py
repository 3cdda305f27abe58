"""Backward nodes of an ONNX training graph that do not give the gradients that they stand for.

Two kinds of defects show in the graph itself: a gradient's node that reads another value than the
forward node did whose gradient it is, and a gradient that has another shape than what learns by it.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

FORWARD = {
    "BatchNormalization": ("BatchNormInternal", "BatchNormalization"),
    "FusedBatchNormalization": ("BatchNormInternal", "BatchNormalization"),
    "GRU": ("GRU", "GRUTraining"),
    "LSTM": ("LSTM", "LSTMTraining"),
}
"""Operators that a gradient's may be of, where its name does not say it."""
Shape = tuple[int, ...]


def defects(model: Any) -> list[str]:
    """One sentence for each defect, in the order of the nodes: none for a graph that is right."""
    shapes = {
        info.name: tuple(size.dim_value for size in info.type.tensor_type.shape.dim)
        for info in (*model.graph.value_info, *model.graph.input, *model.graph.output)
        if info.type.tensor_type.HasField("shape")
    }
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    return [*_strange_reads(model.graph.node), *_wrong_shapes(model.graph.node, shapes)]


def _strange_reads(nodes: Any) -> Iterator[str]:
    """Gradients that read what no forward node of their operator reads and gives."""
    forward = [node for node in nodes if _of_gradient(node.op_type) is None]
    made = {name for node in forward for name in node.output}
    for node in nodes:
        if (operators := _of_gradient(node.op_type)) is None:
            continue
        saved = {name for name in node.input[1:] if name in made}
        own = [other for other in forward if other.op_type in operators]
        if own and not any(saved <= {*other.input, *other.output} for other in own):
            strange = sorted(saved - {n for other in own for n in (*other.input, *other.output)})
            names = ", ".join(strange or sorted(saved))
            yield (
                f"node {node.name or node.output[0]}: {node.op_type} reads {names}, "
                f"which no {operators[-1]} reads or gives"
            )


def _of_gradient(operator: str) -> tuple[str, ...] | None:
    """The operators whose gradient this one may compute; None: it is no gradient."""
    name, is_gradient, _ = operator.partition("Grad")
    if not is_gradient or not name:
        return None
    return FORWARD.get(name, (name,))


def _wrong_shapes(nodes: Any, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Gradients with more or fewer elements than what adds them up, or than their parameter."""
    for node in nodes:
        if node.op_type not in ("InPlaceAccumulatorV2", "SGD"):
            continue
        held, gradient = (shapes.get(name) for name in node.input[:2])
        if held is None or gradient is None or 0 in (*held, *gradient):
            continue
        if prod(held) != prod(gradient):
            yield (
                f"node {node.name or node.output[0]}: {node.input[1]} has {list(gradient)}, "
                f"{node.input[0]} has {list(held)}"
            )
