"""The operators by name, and how a graph grows by them."""

from collections.abc import Mapping

from trainlib.calls.call import Call
from trainlib.deploy.graph import functions, layers, maps, movement, sequences
from trainlib.deploy.graph.operator import Operator, Shapes
from trainlib.deploy.graph.values import Attributes, DeployError, Graph, Node, Step

FILES = (maps, functions, movement, layers, sequences)
OPERATORS: dict[str, Operator] = {
    operator.name: operator for file in FILES for operator in file.OPERATORS
}


def add_node(
    graph: Graph,
    op: str,
    inputs: Mapping[str, str | None],
    attributes: Attributes | None = None,
    *,
    layer: str = "",
    step: Step = "forward",
    element: str = "f32",
    named: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Add a node and its outputs; return their names by the operator's.

    inputs    None: left out
    element   of its kernel
    named     names of outputs; others are called after the layer

    raises    DeployError if the operator does not take such inputs
    """
    given = {name: value for name, value in inputs.items() if value is not None}
    how = dict(attributes or {})
    shapes = {name: graph.values[value].shape for name, value in given.items()}
    given_types = {name: graph.values[value].dtype for name, value in given.items()}
    try:
        types = OPERATORS[op].outputs(shapes, how, given_types, element)
    except ValueError as error:
        raise DeployError(f"{layer or op}: {op}: {_sentence(error)}") from None
    outputs = {}
    for name, (shape, dtype) in types.items():
        wanted = (named or {}).get(name) or f"{layer or op}.{name}"
        outputs[name] = graph.add(graph.fresh(wanted), shape, "temporary", dtype)
    graph.nodes.append(Node(op, given, outputs, how, layer, step, element))
    return outputs


def _sentence(error: ValueError) -> str:
    """A mistake in one line; pydantic's are several."""
    errors = getattr(error, "errors", None)
    if not errors:
        return str(error)
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in errors())


def shapes_of(graph: Graph, node: Node) -> Shapes:
    """Shapes of a node's inputs, by operand."""
    return {name: graph.values[value].shape for name, value in node.inputs.items()}


def written(graph: Graph, node: Node) -> list[str]:
    """Values that a node writes: outputs, and inputs that it overwrites."""
    changed = OPERATORS[node.op].changed(shapes_of(graph, node), node.attributes, node.element)
    return [*node.outputs.values(), *(node.inputs[name] for name in changed)]


def call_of(graph: Graph, node: Node) -> Call:
    """The call of a primitive that computes a node."""
    invocation = OPERATORS[node.op].lower(shapes_of(graph, node), node.attributes)
    region = f"{node.layer or node.op} {node.step}"
    operands = {**node.inputs, **node.outputs}
    return Call(region, f"{invocation.kernel}_{node.element}", invocation.arguments, operands)
