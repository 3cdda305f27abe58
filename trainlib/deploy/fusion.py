"""Updates where gradients arise: a linear layer's gradient goes to its weights at once.

Where plain SGD is all that reads the gradients of a linear layer, its kernel adds the whole sum,
times -lr, to weights and bias: rounded once, as a pass of its own does, without the pass.
"""

from dataclasses import replace

import numpy as np

from trainlib.deploy.graph import Graph, Node
from trainlib.deploy.optimizers import LR

MINUS_LR = "optimizer.minus_lr"
RESULTS = ("dW", "dbias")


def fuse_updates(graph: Graph) -> None:
    """Replace gradients of linear layers and their updates by one node each."""
    updates = {graph.root(node.inputs["g"]): node for node in graph.nodes if _is_plain(node)}
    readers: dict[str, int] = {}
    for node in graph.nodes:
        for root in {graph.root(name) for name in node.inputs.values()}:
            readers[root] = readers.get(root, 0) + 1
    fused, gone = [], []
    for node in graph.nodes:
        own = [node.outputs[name] for name in RESULTS if name in node.outputs]
        mine = [updates[name] for name in own if name in updates and readers[name] == 1]
        if node.op == "linear_wg" and own and len(mine) == len(own):
            fused.append((node, mine))
            gone += mine
    if not fused:
        return
    graph.add(MINUS_LR, (1,), "state", array=np.asarray(-graph.arrays[LR]))
    removed = {id(node) for node in (*gone, *(node for node, _ in fused))}
    graph.nodes = [node for node in graph.nodes if id(node) not in removed]
    graph.nodes += [_fused(node, mine) for node, mine in fused]  # after all that read the weights
    dead = {name for node, _ in fused for name in node.outputs.values()}
    graph.values = {n: v for n, v in graph.values.items() if graph.root(n) not in dead}


def _is_plain(node: Node) -> bool:
    return node.op == "sgd" and not node.attributes.get("weight_decay")


def _fused(node: Node, updates: list[Node]) -> Node:
    names = [name for name in RESULTS if name in node.outputs]
    learnt = {name: update.inputs["w"] for name, update in zip(names, updates, strict=True)}
    inputs = {**node.inputs, **learnt, "scale": MINUS_LR}
    attributes = {**node.attributes, "scale": "operand"}
    return replace(node, inputs=inputs, outputs={}, attributes=attributes, step="update")
