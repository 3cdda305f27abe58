"""Recomputation: what the backward pass reads again is computed again, so that it need not stay.

A norm's outputs follow from its inputs and its means, which the backward pass needs anyway, and an
activation's from its inputs, where its gradient reads those: computed again right before their
first reader of the backward pass, to the same bits, they take no memory between the passes.
"""

from collections.abc import Collection
from dataclasses import replace

from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import Graph, Node

MEANS = {
    "batchnorm_fw": ("mean", "rstd"),
    "instancenorm_fw": ("mean", "rstd"),
    "groupnorm_fw": ("mean", "rstd"),
    "layernorm_fw": ("mean", "rstd"),
    "rmsnorm_fw": ("rstd",),
}
"""Norms, and what of their outputs their outputs follow from."""
ACTIVATIONS = ("leaky_relu_fw", "silu_fw", "gelu_fw")
"""Those whose gradients read their inputs."""


def candidates(graph: Graph) -> list[str]:
    """Values that can be computed again, the largest first: of a graph with its gradients."""
    found = [name for node in graph.nodes if (name := _result(graph, node))]
    return sorted(found, key=lambda name: -graph.values[name].size)


def recompute(graph: Graph, names: Collection[str]) -> None:
    """Add nodes that compute values again for the backward pass."""
    for name in names:
        made = next(node for node in graph.nodes if _result(graph, node) == name)
        place = min(n for n, node in enumerate(graph.nodes) if _reads_back(graph, node, name))
        before, after = graph.nodes[:place], graph.nodes[place:]
        graph.nodes = before
        again = _again(graph, made)
        graph.nodes += [_with(graph, node, name, again) for node in after]


def _result(graph: Graph, node: Node) -> str | None:
    """What a node gives that can be computed again, and is read in both passes."""
    if node.step != "forward" or node.op not in (*MEANS, *ACTIVATIONS):
        return None
    name = node.outputs["y"]
    if graph.values[name].base is not None or name == graph.loss:
        return None
    is_needed = any(_reads_back(graph, other, name) for other in graph.nodes)
    return name if is_needed else None


def _reads_back(graph: Graph, node: Node, name: str) -> bool:
    """Does a node of the backward pass read a value, or a view of it?"""
    roots = {graph.root(value) for value in node.inputs.values()}
    return node.step == "backward" and name in roots


def _again(graph: Graph, node: Node) -> str:
    """Add the node that computes a node's output once more; return its name."""
    op, inputs, attributes = node.op, dict(node.inputs), dict(node.attributes)
    if node.op in MEANS:
        op = f"{node.op.removesuffix('_fw')}_apply"
        attributes.pop("momentum", None)
        inputs = {n: inputs[n] for n in ("x", "gamma", "beta") if n in inputs}
        inputs |= {n: node.outputs[n] for n in MEANS[node.op]}
    named = {"y": f"{node.outputs['y']}.again"}
    how = {"layer": node.layer, "element": node.element}
    made = add_node(graph, op, inputs, attributes, **how, step="backward", named=named)
    return made["y"]


def _with(graph: Graph, node: Node, name: str, again: str) -> Node:
    """A node of the backward pass that reads what has been computed again."""
    if not _reads_back(graph, node, name):
        return node
    inputs = {}
    for operand, value in node.inputs.items():
        root, offset = graph.place(value)
        inputs[operand] = value
        if root == name:
            shape = graph.values[value].shape
            inputs[operand] = graph.view(f"{value}.again", again, shape, offset)
    return replace(node, inputs=inputs)
