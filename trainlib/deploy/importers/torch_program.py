"""A program of torch.export as the rules take it: one graph of values that do not change.

Parts under torch.no_grad() become nodes like all others, whose results are detached. What is
changed in place is written by nodes whose results are the changed value: rules take them as they
are, as long as nothing else lies in the same memory. Where something does, PyTorch puts the program
together anew, of functions.
"""

from collections.abc import Iterator
from operator import getitem
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from torch.export import ExportedProgram

from trainlib.deploy.graph.values import DeployError

CHANGED = (
    "{}: forward changes it; on the chip a batch norm changes its buffers, and the optimizer "
    "parameters"
)
REGION = torch.ops.higher_order.wrap_with_set_grad_enabled
VIEWS = {
    *("alias", "expand", "flatten.using_ints", "permute", "reshape", "slice.Tensor", "squeeze"),
    *("squeeze.dim", "transpose.int", "unsqueeze", "view"),
}
CONVERSIONS = {"_to_copy", "to.dtype", "to.other", "type_as"}
COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
"""Operators that integers of a batch may go through, to be handed over as floats."""


def operator_of(node: Any) -> str:
    """An operator's name, and its overload's if that is not the default."""
    return node.target.__name__.removesuffix(".default")


def is_read_as_floats(node: Any) -> bool:
    """Are integers of a batch turned into floats, or compared, and nothing else?"""
    calls = [user for user in node.users if user.op == "call_function"]
    users = [user for user in calls if operator_of(user) != "_assert_tensor_metadata"]
    return bool(users) and all(
        operator_of(user).partition(".")[0] in COMPARISONS
        or (operator_of(user) in CONVERSIONS and user.meta["val"].is_floating_point())
        or (operator_of(user) in VIEWS and is_read_as_floats(user))
        for user in users
    )


def plain(program: ExportedProgram) -> ExportedProgram:
    """The program in one graph, of values that do not change.

    raises    DeployError for buffers and parameters that it changes, and changes without a gradient
    """
    _inline(program.graph_module)
    signature = program.graph_signature
    kept = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
    viewed, changed = set[Any](), set[Any]()
    for base in _written(program.graph_module, viewed):
        name = kept.get(base.name, "").removeprefix("module.")
        if name and not name.endswith("num_batches_tracked"):
            raise DeployError(CHANGED.format(name))
        changed.add(base)
    return recomposed(program, {}) if viewed & changed else program


def recomposed(program: ExportedProgram, ways: dict[Any, Any]) -> ExportedProgram:
    """The program of functions, with some operators composed of others."""
    with catch_warnings():
        simplefilter("ignore")  # torch's of itself
        return program.run_decompositions(ways)


def _inline(module: Any) -> None:
    """Put the nodes of parts with a gradient or without one where those are called."""
    graph = module.graph
    for node in [n for n in graph.nodes if n.target is REGION]:
        is_enabled, part, *given = node.args
        inner = module.get_submodule(part.target)
        _inline(inner)
        inputs = [n for n in inner.graph.nodes if n.op == "placeholder"]
        outer = dict(zip(inputs, given, strict=True))
        changed = [outer[base] for base in _written(inner, set()) if base in outer]
        if not is_enabled and any(value.op != "placeholder" for value in changed):
            raise DeployError(
                f"layer {node.name}: what has a gradient is changed in place under "
                f"torch.no_grad(); use detach()"
            )
        with graph.inserting_before(node):
            found = graph.graph_copy(inner.graph, outer)
            if not is_enabled:
                found = [_detached(graph, value) for value in found]
        for user in list(node.users):
            user.replace_all_uses_with(found[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
    graph.eliminate_dead_code(lambda n: n.op != "get_attr")
    module.recompile()


def _detached(graph: Any, value: Any) -> Any:
    if not isinstance(value, torch.fx.Node):
        return value
    made = graph.call_function(torch.ops.aten.detach.default, (value,))
    made.meta = dict(value.meta)
    return made


def _written(module: Any, viewed: set[Any]) -> Iterator[Any]:
    """What is changed in place, by the node whose memory it lies in.

    viewed    gets those in whose memory several values lie
    """
    bases: dict[Any, Any] = {}
    for node in module.graph.nodes:
        source = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(source, torch.fx.Node):
            continue
        schema = getattr(node.target, "_schema", None)
        alias = schema.arguments[0].alias_info if schema and schema.arguments else None
        if alias is None and node.target is not getitem:
            continue
        base = bases[node] = bases.get(source, source)
        if alias is not None and alias.is_write:
            yield base
        else:
            viewed.add(base)
