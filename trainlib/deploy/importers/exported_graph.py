"""A program of torch.export as a graph: each operator by its rule, all that is refused at once."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from trainlib.deploy.graph.passes import fold_padding, without_dead
from trainlib.deploy.graph.values import DeployError, Graph, raise_all
from trainlib.deploy.importers import (
    aten_activations,
    aten_choices,
    aten_cubes,
    aten_elements,
    aten_functions,
    aten_layers,
    aten_losses,
    aten_numbers,
    aten_order,
    aten_pools,
    aten_sequences,
    aten_shapes,
    aten_sums,
    aten_types,
    aten_windows,
)
from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_shapes import gathered
from trainlib.deploy.importers.torch_program import is_read_as_floats, operator_of

FILES = (
    aten_activations,
    aten_choices,
    aten_cubes,
    aten_elements,
    aten_functions,
    aten_layers,
    aten_losses,
    aten_numbers,
    aten_order,
    aten_pools,
    aten_sequences,
    aten_shapes,
    aten_sums,
    aten_types,
    aten_windows,
)
ATEN: dict[str, Rule] = {name: rule for file in FILES for name, rule in file.RULES.items()}

MOVES = {
    *("channel_shuffle", "diagonal", "flip", "index.Tensor", "index_select", "pixel_shuffle"),
    *("pixel_unshuffle", "repeat_interleave.self_int", "roll", "rot90", "unfold"),
}
"""Operators whose results are elements of their input, wherever they come to lie."""
BY_NUMBERS: dict[str, Rule] = {
    "index.Tensor": aten_numbers.indexed,
    "index_select": aten_numbers.along,
}
"""Of those, what has a rule for integers that are not known before the run."""
FILLED = {
    *("empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like"),
    "zeros_like",
}
"""Operators that take the shape of a tensor, and nothing else of it."""

NEAR, NEARNESS = 3, 0.8  # names that a refusal shows; how near they are

TENSORS_ALONE = (
    "numbers that are computed stay tensors: float(), .item(), .numpy(), and `if` of them are of "
    "Python, which runs once, before the first batch; take torch.where to choose, a mask's product "
    "to leave out"
)
"""What a refusal says where Python reads what is computed."""
SHAPES_STAY = (
    "what is computed says how many elements there are; shapes are the same in all batches: take a "
    "mask's product, or torch.where, in place of the elements that it chooses"
)


class NoKernelError(DeployError):
    """An operator has neither a kernel nor a rule that composes it of kernels."""


def rule_of(operator: str) -> Rule | None:
    """The rule for an operator, and for the one that does the same in place."""
    name, dot, overload = operator.partition(".")
    if operator in ATEN or not name.endswith("_") or name.endswith("__"):
        return ATEN.get(operator)
    return ATEN.get(f"{name[:-1]}{dot}{overload}")


def has_rule(operator: str) -> bool:
    """Is there a rule for an operator?"""
    return (
        rule_of(operator) is not None or operator in MOVES or operator.partition(".")[0] in FILLED
    )


def graph_of_program(
    program: ExportedProgram, firsts: Mapping[str, str]
) -> tuple[Graph, tuple[str, ...]]:
    """firsts    names of parameters and buffers as they are called first"""
    graph = Graph()
    importer = Importer(graph)
    signature = program.graph_signature
    state: dict[str, Any] = {**program.state_dict, **program.constants}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    for node in program.graph.nodes:
        if node.op == "placeholder":
            target = names.get(node.name)
            first = firsts.get(target, target) if target else None
            _placeholder(importer, signature, node, target, first, state)
    mistakes = list[DeployError]()
    _calls(importer, program.graph_module, mistakes)
    raise_all(mistakes)
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    given = output.args[0][-len(signature.user_outputs) :]
    results = [importer.name(argument) for argument in given if argument is not None]
    trained = _trained(graph, program, firsts)
    graph.loss, *outputs = results
    if graph.values[graph.loss].elements != 1:
        raise DeployError(f"the loss has {list(graph.values[graph.loss].shape)}; it is one number")
    graph.trained = trained
    fold_padding(graph)
    without_dead(graph, results)
    graph.trained = tuple(n for n in trained if n in graph.values)
    graph.validate()
    return graph, tuple(outputs)


def _calls(importer: Importer, module: Any, mistakes: list[DeployError]) -> None:
    """Add what all nodes of a module's graph compute; what is refused is a mistake."""
    missing = set[Any]()
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        try:
            _call(importer, node)
        except DeployError as error:
            sources = missing.intersection(node.all_input_nodes)
            is_own = isinstance(error, NoKernelError) and not any(map(_is_of_values, sources))
            if is_own or not sources:
                mistakes.append(error)
            missing.add(node)
            if not _is_of_values(node):
                importer.known[node] = _stand_in(importer.graph, node.name, node.meta.get("val"))


def _placeholder(
    importer: Importer,
    signature: Any,
    node: Any,
    target: str | None,
    first: str | None,
    state: dict[str, Any],
) -> None:
    """An input, or a parameter or buffer by the name that it has first."""
    graph = importer.graph
    if target is None:
        fake = node.meta["val"]
        if node.name not in signature.user_inputs:
            raise DeployError(f"{node.name}: an input that is no tensor; there are x and a target")
        is_truth = fake.dtype == torch.bool
        are_floats = is_truth or fake.is_floating_point() or is_read_as_floats(node)
        dtype = "float32" if are_floats else "int32"
        name = graph.add(graph.fresh(node.name), tuple(fake.shape), "input", dtype)
        importer.known[node] = name
        graph.truths |= {name} if is_truth else set()
        return
    tensor = state[target].detach().cpu()
    if not tensor.numel() or target.endswith("num_batches_tracked"):
        importer.known[node] = None
        return
    name = str(first).removeprefix("module.")
    if target != first:
        graph.tied[target.removeprefix("module.")] = name
        if name in graph.values:
            importer.known[node] = name
            return
    if target in signature.inputs_to_parameters.values():
        role: Any = "parameter"
    else:
        role = "buffer" if target in signature.inputs_to_buffers.values() else "constant"
    dtype = "float32" if tensor.is_floating_point() else "int32"
    array = tensor.to(torch.float32 if dtype == "float32" else torch.int32).numpy()
    shape = tuple(tensor.shape) or (1,)
    importer.known[node] = graph.add(graph.fresh(name), shape, role, dtype, np.array(array))


def _stand_in(graph: Graph, name: str, result: Any) -> Any:
    """A value like what a node that is refused would give, so that those after it can be read."""
    if isinstance(result, (tuple, list)):
        return tuple(_stand_in(graph, name, part) for part in result)
    if not isinstance(result, torch.Tensor):
        return None
    if any(isinstance(size, torch.SymInt) for size in result.shape) or not result.numel():
        return None
    dtype = "float32" if result.is_floating_point() else "int32"
    return graph.add(graph.fresh(name), tuple(result.shape) or (1,), "temporary", dtype)


def _call(importer: Importer, node: Any) -> None:
    """Add what a node computes."""
    layer = importer.layer = _layer(node)
    operator = operator_of(node)
    rule = rule_of(operator)
    is_of_loss = len(node.meta.get("nn_module_stack", ())) == 1
    where = f"{'the loss' if is_of_loss else f'layer {layer}'}: {operator}"
    if _is_of_values(node):
        is_tensor = isinstance(node.meta["val"], torch.Tensor)
        raise DeployError(f"{where}: {SHAPES_STAY if is_tensor else TENSORS_ALONE}")
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    if rule is None and is_random:
        raise NoKernelError(
            f"{where}: random numbers of its own; dropout has them: let others come with x"
        )
    has_rule = rule is not None and operator not in aten_choices.RULES  # of constants: a mask
    array = None if is_random else _folded(importer, node, has_rule=has_rule)
    if array is not None:
        importer.known[node] = array
        return
    if operator in MOVES:
        importer.known[node] = _moved(importer, node)
        return
    if rule is None:
        found = get_close_matches(operator, (*ATEN, *MOVES), NEAR, NEARNESS)
        near = f"near it: {', '.join(found)}; " if found else ""
        raise NoKernelError(
            f"{where}: there is no kernel for it; {near}`pulpsim deploy --operators` lists those "
            f"that there are"
        )
    try:
        importer.known[node] = rule(importer, *node.args, **node.kwargs)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise DeployError(f"{where}: {error}") from None


def _is_of_values(node: Any) -> bool:
    """Is it a number of Python that depends on what is computed, or does such a number say how
    many elements it has?
    """
    result = node.meta.get("val")
    if isinstance(result, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in result.shape)
    return isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool)


def _folded(importer: Importer, node: Any, *, has_rule: bool) -> np.ndarray | None:
    """What a node gives that is known before the run: masks, places, constants of a shape."""
    sources = [n for n in node.all_input_nodes if not _is_empty(n)]
    is_filled = node.target.__name__.partition(".")[0] in FILLED
    if not is_filled:
        if not all(importer.is_array(n) for n in sources):
            return None
        is_array = [isinstance(importer.known[n], np.ndarray) for n in sources]
        if has_rule and sources and not any(is_array):
            return None

    def tensor(source: Any) -> torch.Tensor:
        if importer.is_array(source):
            return torch.tensor(importer.array(source)).to(source.meta["val"].dtype)
        return torch.empty(source.meta["val"].shape, dtype=source.meta["val"].dtype)

    args = torch.fx.map_arg((node.args, dict(node.kwargs)), tensor)
    try:
        result = node.target(*args[0], **args[1])
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    return np.array(result.numpy()) if isinstance(result, torch.Tensor) else None


def _is_empty(node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not _is_of_values(node) and not value.numel()


def _moved(importer: Importer, node: Any) -> str:
    """Elements of a tensor in another order: what torch does with their numbers."""
    source, *others = node.args
    shape = importer.shape(source)
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    operator = operator_of(node)
    where = f"layer {importer.layer}: {operator}"
    if operator in BY_NUMBERS and not all(map(importer.is_array, _tensors_of(others))):
        return _by_numbers(importer, node, where)
    try:
        given = torch.fx.map_arg(others, lambda n: torch.tensor(importer.array(n)))
    except DeployError as error:
        raise DeployError(f"{where}: {error}") from None
    result = node.target(numbers, *given, **node.kwargs)
    return gathered(importer, importer.name(source), result.numpy())


def _tensors_of(arguments: Any) -> list[Any]:
    """Nodes among arguments."""
    found = list[Any]()
    torch.fx.map_arg(arguments, found.append)
    return found


def _by_numbers(importer: Importer, node: Any, where: str) -> str:
    """Elements that integers of a batch choose.

    raises    DeployError where there is no way
    """
    try:
        return BY_NUMBERS[operator_of(node)](importer, *node.args)
    except DeployError as error:
        raise DeployError(f"{where}: {error}") from None


def _layer(node: Any) -> str:
    """The module's name that a node belongs to, as state_dict has it."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    name = str(stack[-1][0]) if stack else ""
    return name.removeprefix("module").removeprefix(".") or str(node.name)


def _trained(graph: Graph, program: ExportedProgram, firsts: Mapping[str, str]) -> tuple[str, ...]:
    """Parameters that learn."""
    wanted = [firsts.get(n, n) for n, p in program.named_parameters() if p.requires_grad]
    names = (n.removeprefix("module.") for n in dict.fromkeys(wanted))
    return tuple(name for name in names if name in graph.values)
