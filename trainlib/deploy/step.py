"""A training step as a schedule: forward, backward, updates; several batches if they add up.

schedule = training(graph, SGD(lr=0.1), accumulate=4)
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from trainlib.deploy.fusion import (
    Fits,
    fuse_casts,
    fuse_relus,
    fuse_sums,
    fuse_updates,
    keep_halves,
)
from trainlib.deploy.gradient import differentiate
from trainlib.deploy.graph.passes import in_place, join_in_place, updates_at_once, without_dead
from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.graph.values import DeployError, Graph, Node
from trainlib.deploy.optimizers import Optimizer, layer_of
from trainlib.deploy.precision import (
    SINGLE,
    SKIPS,
    STEPS,
    LossScale,
    Precision,
    check_gradients,
    mix,
)
from trainlib.deploy.recompute import recompute
from trainlib.deploy.schedule import Schedule, Section

SUMMED = "gradient"  # what accumulators are called after


def training(
    graph: Graph,
    optimizer: Optimizer,
    *,
    accumulate: int = 1,
    mean: bool = False,
    keeps_gradients: bool = False,
    fits: Fits | None = None,
    recomputed: Collection[str] = (),
    unrolled: bool = False,
    precision: Precision = SINGLE,
) -> Schedule:
    """The schedule that trains a graph.

    accumulate         batches whose gradients are added before an update
    mean               divide the sum by their number
    keeps_gradients    let gradients be there when the step is done
    fits               can a gradient of weights that changes them at once be computed? None: none
    recomputed         values that are computed again for the backward pass, see recompute
    unrolled           let each batch of a step have nodes of its own, so that values may lie in the
                       HyperRAM meanwhile
    precision          what is computed with halves

    raises    DeployError
    """
    graph = graph.copy()
    fuse_relus(graph, precision.takes)
    graph = differentiate(graph, precision.seed(graph))
    if not graph.trained:
        raise DeployError("no parameter learns: all have requires_grad = False")
    if not isinstance(accumulate, int) or accumulate < 1:
        raise DeployError(f"accumulate = {accumulate}; it is a number of batches from 1 on")
    loss = graph.loss
    assert loss is not None
    without_dead(graph, [loss, *graph.gradients.values()])
    if precision != SINGLE:
        mix(graph, precision)
    fuse_sums(graph)
    recompute(graph, recomputed)
    join_in_place(graph)
    kept = [loss, *(graph.gradients.values() if keeps_gradients else ())]
    if accumulate > 1:
        return _accumulated(graph, optimizer, accumulate, mean, precision, unrolled)
    if not isinstance(precision.scale, LossScale):
        optimizer.add_updates(graph, graph.gradients)
        if not keeps_gradients and precision != SINGLE and optimizer.clips_nothing:
            fuse_casts(graph)
            keep_halves(graph)
        if fits and not keeps_gradients:
            fuse_updates(graph, fits)
        reference = graph.copy()
        updates_at_once(graph)
        in_place(graph, graph.nodes, kept)
        return Schedule(graph, (Section(tuple(graph.nodes)),), tuple(kept), reference)
    check_gradients(graph, precision.scale, graph.gradients)
    count = len(graph.nodes)
    optimizer.add_updates(graph, graph.gradients)
    reference, updates = graph.copy(), graph.nodes[count:]
    graph.nodes = graph.nodes[:count]
    updates_at_once(graph)
    in_place(graph, graph.nodes, [loss, *graph.gradients.values()])
    sections = Section(tuple(graph.nodes)), _skippable(updates)
    graph.nodes = [*graph.nodes, *updates]
    return Schedule(graph, sections, tuple(kept), reference)


def _skippable(updates: Sequence[Node]) -> Section:
    """Updates, left out where gradients are not finite."""
    return Section(tuple(updates), takes_batch=False, skipped=(STEPS, SKIPS))


def _accumulated(
    graph: Graph,
    optimizer: Optimizer,
    count: int,
    mean: bool,
    precision: Precision,
    unrolled: bool,
) -> Schedule:
    """First batch: gradients go to accumulators. Next ones: they are added. Then the updates.

    unrolled    the next ones have nodes of their own, each; else they repeat the same
    """
    assert graph.loss is not None
    first, loss = list(graph.nodes), graph.loss
    names = [_copied(graph, first) for _ in range(count - 1 if unrolled else 1)]
    later = [[_with_names(node, own) for node in first] for own in names]
    layers = {name: layer_of(graph, name) for name in graph.gradients}
    sums = {}
    for name, gradient in graph.gradients.items():
        shape = graph.values[name].shape
        total = sums[name] = graph.add(f"{SUMMED}.{name}", shape, "state")
        for own, nodes in zip(names, later, strict=True):
            graph.nodes = []
            add_node(graph, "accumulate", {"g": total, "x": own[gradient]}, step="backward")
            added = [replace(node, layer=layers[name]) for node in graph.nodes]
            place = _after(graph, nodes, own[gradient])
            nodes[place:place] = added
        _place_at(graph, first, gradient, total, layers[name])
    graph.nodes = []
    if mean:
        factor = graph.constant("share", [1 / count])
        for name, total in sums.items():
            inputs = {"a": total, "b": factor}
            y = add_node(graph, "multiply", inputs, layer=layers[name], step="update")["y"]
            graph.values[y] = replace(graph.values[y], base=total)
    shares = graph.nodes
    batches = [*first, *chain.from_iterable(later)]
    graph.nodes = list(batches)
    if isinstance(precision.scale, LossScale):
        check_gradients(graph, precision.scale, sums)
    place = len(graph.nodes)
    optimizer.add_updates(graph, sums)
    checks = graph.nodes[len(batches) : place]
    updates = [*shares, *graph.nodes[place:]]
    graph.nodes = [*batches, *checks, *updates]
    reference = graph.copy()
    for nodes in (first, *later):
        in_place(graph, nodes, [loss])
    sections = (
        Section(tuple(first)),
        *(Section(tuple(nodes), 1 if unrolled else count - 1) for nodes in later),
        *([Section(tuple(checks), takes_batch=False)] if checks else ()),
        _skippable(updates) if checks else Section(tuple(updates), takes_batch=False),
    )
    graph.gradients = sums
    return Schedule(graph, sections, (loss, *sums.values()), reference)


def _after(graph: Graph, nodes: Sequence[Node], name: str) -> int:
    """The place after the last node that writes a value's root."""
    root = graph.root(name)
    made = [n for n, node in enumerate(nodes) if root in map(graph.root, node.outputs.values())]
    return made[-1] + 1


def _place_at(graph: Graph, nodes: list[Node], gradient: str, total: str, layer: str) -> None:
    """Let a gradient be written to its accumulator, by a copy if it lies in another value."""
    root = graph.values[graph.root(gradient)]
    is_used = [n for n in graph.gradients.values() if graph.root(n) == root.name]
    if (
        root.role == "temporary"
        and len(is_used) == 1
        and root.elements == graph.values[total].elements
    ):
        graph.values[root.name] = replace(root, base=total)
        return
    graph.nodes = []
    how = {"before": (0,), "after": (0,)}
    flat = graph.reshaped(gradient, (graph.values[gradient].elements,))
    y = add_node(graph, "pad", {"x": flat}, how, layer=layer, step="backward")["y"]
    graph.values[y] = replace(graph.values[y], base=total)
    nodes += graph.nodes


def _copied(graph: Graph, nodes: Collection[Node]) -> dict[str, str]:
    """New temporary values in place of those that nodes write, but for the loss."""
    assert graph.loss is not None
    names: dict[str, str] = {graph.loss: graph.loss}
    made = {graph.root(v) for node in nodes for v in node.outputs.values()}
    copied = [name for name in graph.values if graph.root(name) in made and name not in names]
    names |= {name: graph.fresh(f"{name}'") for name in copied}
    for name in copied:
        value = graph.values[name]
        base = value.base and names.get(value.base, value.base)
        graph.values[names[name]] = replace(value, name=names[name], base=base)
    return names


def _with_names(node: Node, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs={o: names.get(v, v) for o, v in node.inputs.items()},
        outputs={o: names.get(v, v) for o, v in node.outputs.items()},
    )


def evaluation(graph: Graph, outputs: Sequence[str], precision: Precision = SINGLE) -> Schedule:
    """The schedule that computes the loss and outputs, and changes nothing."""
    graph = graph.copy()
    fuse_relus(graph, precision.takes)
    kept = [name for name in (graph.loss, *outputs) if name]
    without_dead(graph, kept)
    if precision != SINGLE:
        mix(graph, precision)
    join_in_place(graph)
    reference = graph.copy()
    in_place(graph, graph.nodes, kept)
    return Schedule(graph, (Section(tuple(graph.nodes)),), tuple(kept), reference)
