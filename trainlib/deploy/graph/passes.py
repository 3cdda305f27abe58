"""Passes over a graph: what is left out, in what order the rest is computed, what lies in place."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any

from trainlib.deploy.graph.registry import OPERATORS, add_node, written
from trainlib.deploy.graph.values import Graph, Node
from trainlib.primitive.tensor import WORD


def without_dead(graph: Graph, kept: Collection[str]) -> None:
    """Drop the nodes that nothing kept depends on, but for those that change what stays."""
    wanted = {graph.root(name) for name in kept}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        results = {graph.root(name) for name in written(graph, node)}
        changes = any(graph.values[root].role != "temporary" for root in results)
        if changes or results & wanted:
            nodes.append(node)
            wanted |= {graph.root(name) for name in node.inputs.values()}
    graph.nodes = nodes[::-1]
    read = {graph.root(name) for node in graph.nodes for name in node.inputs.values()}
    read |= {graph.root(name) for node in graph.nodes for name in node.outputs.values()}
    keep = {"input", "parameter", "buffer"}
    graph.values = {
        name: value
        for name, value in graph.values.items()
        if value.role in keep or graph.root(name) in read
    }
    graph.arrays = {name: a for name, a in graph.arrays.items() if name in graph.values}


def fold_padding(graph: Graph) -> None:
    """Let convolutions pad by themselves what is padded with zeros for them alone."""
    made = {node.outputs["y"]: node for node in graph.nodes if node.op == "pad"}
    readers: dict[str, int] = {}
    for node in graph.nodes:
        for name in node.inputs.values():
            readers[graph.root(name)] = readers.get(graph.root(name), 0) + 1
    for number, node in enumerate(graph.nodes):
        pad = made.get(node.inputs.get("X", ""))
        if node.op != "conv2d_fw" or pad is None or readers[node.inputs["X"]] > 1:
            continue
        before, after = pad.attributes["before"], pad.attributes["after"]
        if pad.attributes.get("value", 0.0) or any((*before[:2], *after[:2])):
            continue
        own = node.attributes.get("padding", (0, 0, 0, 0))
        more = (before[2], after[2], before[3], after[3])
        padding = tuple(a + b for a, b in zip(own, more, strict=True))
        inputs = {**node.inputs, "X": pad.inputs["x"]}
        attributes = {**node.attributes, "padding": padding}
        graph.nodes[number] = replace(node, inputs=inputs, attributes=attributes)
        graph.nodes[graph.nodes.index(pad)] = _nothing(pad)
    graph.nodes = [node for node in graph.nodes if node.op]


def _nothing(node: Node) -> Node:
    return replace(node, op="")


def join_in_place(graph: Graph) -> None:
    """Let values that a concatenation joins be written where they come to lie, if it is in one
    piece: batches of one image along channels, or anything along the first axis.

    What cannot lie there, as what is read elsewhere under its own name for good, is copied.
    """
    for node in [node for node in graph.nodes if node.op == "concat"]:
        whole, axis = graph.values[node.outputs["y"]], node.attributes["axis"]
        parts = [node.inputs[f"x{number}"] for number in range(len(node.inputs))]
        is_apart = prod(whole.shape[:axis]) > 1 or whole.base is not None
        offsets = [*accumulate((graph.values[part].elements for part in parts), initial=0)]
        if is_apart or any(offset * whole.item % WORD for offset in offsets):
            continue
        free = [name for name in parts if _may_move(graph, node, name, parts)]
        if not free:
            continue
        place, copies = graph.nodes.index(node), []
        others, graph.nodes = graph.nodes, []
        for name, offset in zip(parts, offsets, strict=False):
            root = graph.root(name)
            if name not in free:
                shape = graph.values[name].shape
                how = {"start": (0,) * len(shape), "size": shape}
                more: dict[str, Any] = {
                    "layer": node.layer,
                    "step": node.step,
                    "element": node.element,
                }
                root = add_node(graph, "slice", {"x": name}, how, **more)["y"]
            graph.values[root] = replace(graph.values[root], base=whole.name, offset=offset)
        copies, graph.nodes = graph.nodes, others
        graph.nodes[place : place + 1] = copies


def _may_move(graph: Graph, joining: Node, name: str, parts: Sequence[str]) -> bool:
    """May the root of a value lie in what it is joined to? It is all of the root, which one node
    gives, and no other part of the whole.
    """
    root = graph.values[graph.root(name)]
    if root.role != "temporary" or root.elements != graph.values[name].elements:
        return False
    whole = graph.values[joining.outputs["y"]]
    if root.dtype != whole.dtype or [graph.root(p) for p in parts].count(root.name) > 1:
        return False
    makers = [n for n in graph.nodes if root.name in map(graph.root, written(graph, n))]
    return len(makers) == 1 and root.name in map(graph.root, makers[0].outputs.values())


def updates_at_once(graph: Graph) -> None:
    """Move every update forward, to where what it reads is there, and what it changes is not read
    again.
    """
    others: list[Node] = []
    after: dict[int, list[Node]] = {}
    read_at: dict[str, int] = {}  # the last of the others that reads a root
    written_at: dict[str, int] = {}
    touched: dict[str, int] = {}  # where the last update is that changes a root
    for node in graph.nodes:
        read = {graph.root(name) for name in node.inputs.values()}
        changed = {graph.root(name) for name in written(graph, node)}
        if node.step != "update":
            read_at |= dict.fromkeys(read, len(others))
            written_at |= dict.fromkeys(changed, len(others))
            others.append(node)
            continue
        before = (read_at, changed), (written_at, read), (touched, read | changed)
        place = max((at.get(root, -1) for at, roots in before for root in roots), default=-1)
        touched |= {root: max(place, touched.get(root, -1)) for root in changed}
        after.setdefault(place, []).append(node)
    graph.nodes = after.pop(-1, [])
    for number, node in enumerate(others):
        graph.nodes += [node, *after.get(number, ())]


def in_place(graph: Graph, nodes: Sequence[Node], kept: Collection[str] = ()) -> None:
    """Let outputs lie where inputs do that are not read any more.

    kept    values that outlast the nodes, and must not be overwritten
    """
    last: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.inputs.values():
            last[graph.root(name)] = number
    stays = {graph.root(name) for name in kept}
    for number, node in enumerate(nodes):
        for operand, result in OPERATORS[node.op].in_place:
            name, output = node.inputs[operand], graph.values[node.outputs[result]]
            root = graph.values[graph.root(name)]
            is_whole = root.elements == graph.values[name].elements == output.elements
            is_whole &= root.dtype == output.dtype
            is_free = root.role == "temporary" and last[root.name] == number
            others = [v for o, v in node.inputs.items() if o != operand and v != name]
            is_alone = all(graph.root(other) != root.name for other in others)
            if is_whole and is_free and is_alone and output.base is None and root.name not in stays:
                graph.values[output.name] = replace(output, base=name)
                ends = (last.get(root.name, 0), last.get(output.name, 0))
                last[root.name] = max(ends)
                if output.name in stays:
                    stays.add(root.name)
                break
