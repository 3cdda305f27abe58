"""Fusion: what two kernels would do in two passes over L2, one does in one.

fuse_relus      a ReLU goes into what gives its input, before gradients are derived
fuse_sums       a sum of two gradients goes into the kernel that computes the later one
fuse_casts      casts of gradients, and their division by a scale, go into updates
keep_halves     casts of parameters, too: updates write them, for the next step
fuse_updates    SGD goes into the kernels of gradients of weights: each adds its whole sums, or
                their momentum, times -lr, where the weights are: rounded as by a pass of its own.
                Where a bias learns otherwise than its weights, its gradient is a sum of its own
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trainlib.deploy.graph.registry import written
from trainlib.deploy.graph.values import DTYPES, Graph, Node
from trainlib.deploy.optimizers import LR
from trainlib.deploy.precision import SCALE
from trainlib.elementwise.fused_update import momentum_of

MINUS_LR = "optimizer.minus_lr"
RESULTS = ("dW", "dbias")
NORMS = ("batchnorm", "batchnorm_frozen", "instancenorm", "groupnorm")
CLIPPED = {**{f"{norm}_fw": "y" for norm in NORMS}, "add": "y", "linear_fw": "Y"}
"""Operators that have a ReLU, and their outputs."""
ADDED = {"conv2d_ig": "dX", "linear_ig": "dX"}
"""Operators that can add to what is there, and their outputs."""
UPDATING = ("linear_wg", "conv2d_wg")
UPDATE = ("momentum", "nesterov", "weight_decay")
"""What gradients of weights take of SGD's attributes."""
OPTIMIZERS = ("sgd", "sgd_momentum", "adam", "adamw")
Fits = Callable[[Graph, Node], bool]
"""Can a node be computed on the chip?"""
Takes = Callable[[Graph, Node, Node], bool]
"""Is a node, the second, as good as a plain one and what it has beside it?"""


def fuse_relus(graph: Graph, takes: Takes) -> None:
    """Let what gives the inputs of ReLUs, for them alone, clip its outputs by itself."""
    readers = _readers(graph)
    made = {value: number for number, node in enumerate(graph.nodes) for value in _outputs(node)}
    gone: set[int] = set()
    for number, relu in enumerate(graph.nodes):
        if relu.op != "relu_fw":
            continue
        x, y = relu.inputs["x"], relu.outputs["y"]
        place = made.get(x)
        if place is None or readers[graph.root(x)] > 1:
            continue
        node = graph.nodes[place]
        if node.outputs.get(CLIPPED.get(node.op, "")) != x:
            continue
        outputs = {**node.outputs, CLIPPED[node.op]: y}
        attributes = {**node.attributes, "relu": True}
        fused = replace(node, outputs=outputs, attributes=attributes)
        if not takes(graph, node, fused):
            continue
        graph.nodes[place] = fused
        del graph.values[x]
        gone.add(number)
    _drop(graph, gone)


def fuse_sums(graph: Graph) -> None:
    """Let gradients be added to others that nothing else reads afterwards."""
    gone: set[int] = set()
    for number, node in enumerate(graph.nodes):
        if node.op == "add" and node.step == "backward" and not node.attributes:
            a, b = node.inputs["a"], node.inputs["b"]
            if any(_fuse_sum(graph, number, *pair) for pair in ((a, b), (b, a))):
                gone.add(number)
    _drop(graph, gone)


def _fuse_sum(graph: Graph, number: int, held: str, late: str) -> bool:
    """Let the node that gives `late` add to `held`, if that may become the sum of a node."""
    root, other = graph.root(held), graph.root(late)
    if graph.values[root].elements != graph.values[other].elements:
        return False
    if graph.values[held].elements != graph.values[root].elements:
        return False
    if graph.values[root].dtype != graph.values[other].dtype:
        return False
    touching = [n for n, node in enumerate(graph.nodes) if root in _roots(graph, node)]
    alone = [n for n, node in enumerate(graph.nodes) if other in _roots(graph, node)]
    place, is_late = alone[0], len(alone) == 2 and touching[-1] == number
    adding = graph.nodes[place]
    before = [n for n in touching if n != number]
    result = adding.outputs.get(ADDED.get(adding.op, ""))
    is_temporary = graph.values[root].role == graph.values[other].role == "temporary"
    if not (is_late and is_temporary and before and before[-1] < place and result):
        return False
    name = ADDED[adding.op]
    outputs = {n: value for n, value in adding.outputs.items() if n != name}
    inputs = {**adding.inputs, name: graph.reshaped(held, graph.values[result].shape)}
    attributes = {**adding.attributes, "accumulate": True}
    graph.nodes[place] = replace(adding, inputs=inputs, outputs=outputs, attributes=attributes)
    total = graph.values[graph.nodes[number].outputs["y"]]
    graph.values[total.name] = replace(total, base=held)
    return True


def fuse_updates(graph: Graph, fits: Fits) -> None:
    """Replace gradients of weights and their updates by one node each, where that fits the chip."""
    updates = {graph.root(node.inputs["g"]): node for node in graph.nodes if _is_sgd(node)}
    readers = _readers(graph)
    after: dict[int, list[Node]] = {}
    gone: set[int] = set()
    for number, node in enumerate(graph.nodes):
        own = [node.outputs[name] for name in RESULTS if name in node.outputs]
        mine = [updates[name] for name in own if name in updates and readers[name] == 1]
        if node.op not in UPDATING or node.element != "f32" or not own or len(mine) != len(own):
            continue
        part, apart = node, list[Node]()
        if len({_way(update) for update in mine}) > 1:
            if not _is_worth_splitting(graph, node):
                continue
            (part, apart), mine = _split(graph, node), mine[:1]
        rate = mine[0].inputs["lr"]
        minus = minus_of(rate)
        graph.values.setdefault(minus, replace(graph.values[rate], name=minus))
        graph.arrays.setdefault(minus, np.asarray(-graph.arrays[rate]))
        updating = _fused(part, mine)
        place = _last_reader(graph, updating, {id(node), *map(id, mine)})
        if fits(graph, updating) and not _changes(graph, updating, number, place):
            after.setdefault(number, []).extend(apart)
            after.setdefault(max(place, number), []).append(updating)
            gone |= {id(node), *map(id, mine)}
    nodes = []
    for number, node in enumerate(graph.nodes):
        nodes += [] if id(node) in gone else [node]
        nodes += after.get(number, [])
    graph.nodes = nodes


def fuse_casts(graph: Graph) -> None:
    """Let updates take gradients in halves, and scaled ones, that are for them alone."""
    readers = _readers(graph)
    made = {graph.root(value): node for node in graph.nodes for value in _outputs(node)}
    gone: set[int] = set()
    nodes = []
    for node in graph.nodes:
        name = node.inputs.get("g", "")
        maker = made.get(graph.root(name)) if node.op in OPTIMIZERS else None
        inputs, attributes = dict(node.inputs), dict(node.attributes)
        if maker and _is_unscaling(graph, maker) and readers[graph.root(name)] == 1:
            inputs |= {"inverse": maker.inputs["b"]}
            attributes |= {"unscale": True}
            gone.add(id(maker))
            name = maker.inputs["a"]
            maker = made.get(graph.root(name))
        if maker and maker.op == "cast" and readers[graph.root(name)] == 1:
            attributes |= {"gradient": maker.attributes["source"]}
            gone.add(id(maker))
            name = maker.inputs["X"]
        if attributes != node.attributes:
            inputs["g"] = graph.reshaped(name, graph.values[node.inputs["w"]].shape)
            node = replace(node, inputs=inputs, attributes=attributes)
        nodes.append(node)
    graph.nodes = [node for node in nodes if id(node) not in gone]


def keep_halves(graph: Graph) -> None:
    """Let updates store parameters in halves, too, in place of casts before layers."""
    updates = {
        graph.root(node.inputs["w"]): number
        for number, node in enumerate(graph.nodes)
        if node.op in OPTIMIZERS and node.element == "f32" and "h" not in node.outputs
    }
    gone: set[int] = set()
    for number, node in enumerate(graph.nodes):
        if node.op != "cast" or node.element == "f32":
            continue
        root, _ = graph.place(node.inputs["X"])
        whole, copy = graph.values[root], graph.values[graph.root(node.outputs["Y"])]
        is_kept = whole.role == "parameter" and root in updates and copy.role == "temporary"
        if not is_kept or copy.elements != whole.elements:
            continue
        place = updates.pop(root)
        update = graph.nodes[place]
        graph.values[copy.name] = replace(copy, role="state")
        half = graph.arrays[root].astype(DTYPES[copy.dtype])
        graph.arrays[copy.name] = np.ascontiguousarray(half).reshape(copy.shape)
        outputs = {**update.outputs, "h": graph.reshaped(copy.name, whole.shape)}
        attributes = {**update.attributes, "halves": node.element}
        graph.nodes[place] = replace(update, outputs=outputs, attributes=attributes)
        gone.add(number)
    _drop(graph, gone)


def _is_unscaling(graph: Graph, node: Node) -> bool:
    return node.op == "multiply" and graph.root(node.inputs["b"]) == SCALE


def _last_reader(graph: Graph, updating: Node, others: set[int]) -> int:
    """The last node, but for others, that reads what a node changes."""
    changed = {graph.root(updating.inputs[name]) for name in RESULTS if name in updating.inputs}
    places = [
        number
        for number, node in enumerate(graph.nodes)
        if id(node) not in others and changed & {graph.root(n) for n in node.inputs.values()}
    ]
    return max(places, default=-1)


def _changes(graph: Graph, updating: Node, start: int, end: int) -> bool:
    """Does a node between two places, the last one included, change what a node reads?"""
    read = {graph.root(name) for name in updating.inputs.values()}
    between = graph.nodes[start + 1 : end + 1]
    return any(read & {graph.root(name) for name in written(graph, node)} for node in between)


def _is_worth_splitting(graph: Graph, node: Node) -> bool:
    """Is it less to read gradients of outputs twice than to store those of the weights?"""
    dy, weights = (graph.values[name].elements for name in (node.inputs["dY"], node.outputs["dW"]))
    return dy < weights


def _split(graph: Graph, node: Node) -> tuple[Node, list[Node]]:
    """A gradient of weights without that of their bias, and what computes that."""
    attributes = {name: value for name, value in node.attributes.items() if name != "bias"}
    dy = node.inputs["dY"]
    axes = (0, 2, 3) if node.op == "conv2d_wg" else tuple(range(len(graph.values[dy].shape) - 1))
    how = {"axes": axes, "what": "sum"}
    outputs = {"y": node.outputs["dbias"]}
    bias = replace(node, op="reduce", inputs={"x": dy}, outputs=outputs, attributes=how)
    return replace(node, outputs={"dW": node.outputs["dW"]}, attributes=attributes), [bias]


def _way(update: Node) -> str:
    """How an update goes: by which word, and with which attributes."""
    return repr((update.op, update.inputs["lr"], sorted(update.attributes.items())))


def minus_of(rate: str) -> str:
    """What the word of a learning rate, negated, is called."""
    return MINUS_LR + rate.removeprefix(LR)


def _is_sgd(node: Node) -> bool:
    """Of gradients as they are, in single precision alone."""
    others = ("gradient", "unscale", "halves")
    is_sgd = node.op in ("sgd", "sgd_momentum")
    return is_sgd and not any(node.attributes.get(name) for name in others)


def _fused(node: Node, updates: list[Node]) -> Node:
    names = [name for name in RESULTS if name in node.outputs]
    learnt = {name: update.inputs["w"] for name, update in zip(names, updates, strict=True)}
    for name, update in zip(names, updates, strict=True):
        learnt |= {momentum_of(name): update.inputs["b"]} if "b" in update.inputs else {}
    inputs = {**node.inputs, **learnt, "scale": minus_of(updates[0].inputs["lr"])}
    how = {n: v for n, v in updates[0].attributes.items() if n in UPDATE and v}
    attributes = {**node.attributes, **how, "scale": "operand"}
    return replace(node, inputs=inputs, outputs={}, attributes=attributes, step="update")


def _outputs(node: Node) -> list[str]:
    return list(node.outputs.values())


def _readers(graph: Graph) -> Counter[str]:
    """How many nodes read each root."""
    return Counter(
        root for node in graph.nodes for root in {graph.root(n) for n in node.inputs.values()}
    )


def _roots(graph: Graph, node: Node) -> set[str]:
    """Roots that a node reads or writes."""
    return {graph.root(name) for name in (*node.inputs.values(), *written(graph, node))}


def _drop(graph: Graph, gone: set[int]) -> None:
    graph.nodes = [node for number, node in enumerate(graph.nodes) if number not in gone]
