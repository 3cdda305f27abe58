"""ONNX in: the forward part of a training graph, up to its loss; gradients are our own.

A training graph computes a loss from its first two inputs, data and labels or targets; its other
inputs are parameters, accumulators of gradients and their reset. SGD nodes, in the graph or in one
of their own, say which parameters learn and how fast. Nodes may come in any order. The nodes of the
backward pass are not carried out: gradients are derived here from the forward pass. Backward nodes
with defects are refused, see onnx_defects, unless the graph is to be repaired.

What depends on constants alone, such as shapes and axes, is computed before the run.

onnx is an optional extra, and imported in this file alone. Data come as Deeploy has them: arr_0000
and so on for the graph's inputs in their order, accumulators left out; mb1_arr_0000 for the first
input of the second mini-batch; or arrays by the inputs' names.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

try:
    import onnx
    from onnx import numpy_helper
except ImportError:
    raise ImportError("onnx is missing: pip install 'pulpsim[onnx]'") from None

from trainlib.deploy.graph.passes import without_dead
from trainlib.deploy.graph.values import DeployError, Graph, raise_all
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.onnx_defects import defects
from trainlib.deploy.importers.onnx_elements import Rule
from trainlib.deploy.importers.onnx_operators import LOSSES, RULES

RANDOM = {
    *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
}
"""Operators whose results are others in each step."""
ACCUMULATOR, RESET = ".accumulation.buffer", "lazy_reset_grad"
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class OnnxTraining:
    """A training graph, and what trains it.

    rates         of the SGD nodes, by parameter
    batches       what the data files have
    accumulate    batches of a step
    """

    graph: Graph
    rates: Mapping[str, float]
    batches: list[tuple[np.ndarray, np.ndarray]]
    accumulate: int
    count: int = field(default=1)

    def sequence(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All batches of the training, those of the file again and again."""
        for number in range(self.count):
            yield self.batches[number % len(self.batches)]


def read(
    network: Path, optimizer: Path | None, data: Arrays, *, repairs: bool = False
) -> OnnxTraining:
    """A network with its optimiser and its data.

    Gradients are derived from the forward nodes. Backward nodes that would give others are an
    error, unless the graph is to be repaired.

    raises    DeployError for what cannot be read, for operators that have no kernel, and for
              backward nodes with defects
    """
    model = _model(network)
    wrong = [] if repairs else defects(model)
    if wrong:
        raise DeployError(
            f"{'; '.join(wrong)}; --repair derives such gradients from the forward nodes"
        )
    updates = _model(optimizer) if optimizer else model
    rates = {
        node.input[0]: float(_attributes(node)["lr"])
        for node in updates.graph.node
        if node.op_type == "SGD"
    }
    if not rates:
        where = optimizer or network
        raise DeployError(f"{where}: no SGD node says which parameters learn; give --optimizer")
    given, batches = _data(model, data)
    graph = _forward(model, given, rates)
    graph.trained = tuple(n for n in rates if n in graph.values and graph.values[n].base is None)
    accumulate = int(np.ravel(data.get("meta_n_accum", 1))[0])
    count = int(np.ravel(data.get("meta_n_batches", len(batches)))[0])
    return OnnxTraining(graph, rates, batches, accumulate, count)


def _model(file: Path) -> Any:
    try:
        return onnx.load(str(file))
    except OSError as error:
        raise DeployError(f"{file}: cannot be read: {error.strerror or error}") from None
    except Exception:
        raise DeployError(f"{file}: no ONNX file") from None


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _inputs(node: Any) -> list[str | None]:
    """Names; None for what is left out. The last ones may be missing."""
    return [name or None for name in node.input]


def _computed(node: Any, given: Arrays, versions: Any) -> list[np.ndarray] | None:
    """What a node gives for constants; None: its operator is none of ONNX's own."""
    from onnx.reference import ReferenceEvaluator

    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    imports = [version for version in versions if version.domain in ("", "ai.onnx")]
    model = helper.make_model(graph, opset_imports=imports)
    try:
        found = ReferenceEvaluator(model).run(None, dict(given))
    except (KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    return [np.asarray(array) for array in found]


def _data(model: Any, data: Arrays) -> tuple[Arrays, list[tuple[np.ndarray, np.ndarray]]]:
    """Parameters by name, and batches."""
    names = [i.name for i in model.graph.input]
    names = [name for name in names if not name.endswith(ACCUMULATOR)]
    initial = {tensor.name for tensor in model.graph.initializer}
    names = [name for name in names if name not in initial]
    if all(name in data for name in names):
        return data, [(data[names[0]], data[names[1]])]
    numbered = {name: data.get(f"arr_{number:04d}") for number, name in enumerate(names)}
    missing = [name for name, array in numbered.items() if array is None]
    if missing:
        raise DeployError(f"--data: nothing for {', '.join(missing)}; give arr_0000 and so on")
    found = {name: array for name, array in numbered.items() if array is not None}
    batches = [(found[names[0]], found[names[1]])]
    while f"mb{len(batches)}_arr_0000" in data:
        number = len(batches)
        batches.append((data[f"mb{number}_arr_0000"], data[f"mb{number}_arr_0001"]))
    return found, batches


def _forward(model: Any, given: Arrays, learned: Collection[str]) -> Graph:
    """What the loss depends on, in an order in which it can be computed."""
    made = {name: node for node in model.graph.node for name in node.output if name}
    losses = [node for node in model.graph.node if node.op_type in LOSSES]
    if len(losses) != 1:
        kinds = ", ".join(LOSSES)
        raise DeployError(f"{model.graph.name}: {len(losses)} losses; there is one of {kinds}")
    graph = Graph()
    importer = OnnxImporter(graph, model, given, learned)
    mistakes, missing, shapes = list[DeployError](), set[str](), set[str]()
    for node in _sorted(losses[0], made):
        try:
            if missing.isdisjoint(node.input):
                importer.add(node)
            else:
                missing.update(node.output)
                if node.op_type == "Shape" or shapes.issuperset(filter(None, node.input)):
                    shapes.update(node.output)  # known before the run, but for what is missing
                else:
                    importer.rule(node)
        except DeployError as error:
            mistakes.append(error)
            missing.update(node.output)
    raise_all(mistakes)
    graph.loss = importer.known[losses[0].output[0]]
    assert graph.loss is not None
    without_dead(graph, [graph.loss])
    graph.validate()
    return graph


def _sorted(last: Any, made: Mapping[str, Any]) -> list[Any]:
    """A node after all that it depends on.

    raises    DeployError if it depends on itself
    """
    order: list[Any] = []
    state: dict[int, str] = {}
    waiting = [last]
    while waiting:
        node = waiting[-1]
        if state.get(id(node)) == "done":
            waiting.pop()
            continue
        before = [made[name] for name in node.input if name in made]
        fresh = [other for other in before if state.get(id(other)) != "done"]
        if not fresh:
            state[id(node)] = "done"
            order.append(waiting.pop())
        elif any(state.get(id(other)) == "open" for other in fresh):
            raise DeployError(f"{node.name or node.op_type}: depends on itself")
        else:
            state[id(node)] = "open"
            waiting.extend(fresh)
    return order


class OnnxImporter(Importer):
    """An importer that knows values by ONNX's names, and numbers that are there before a run.

    numbers    constants by name: shapes, axes, scales
    literal    those that nodes say, or that depend on these alone: no parameters
    """

    def __init__(self, graph: Graph, model: Any, given: Arrays, learned: Collection[str]) -> None:
        super().__init__(graph)
        self.given, self.learned, self.versions = given, learned, model.opset_import
        self.data = [i.name for i in model.graph.input][:2]
        self.numbers: dict[str, np.ndarray] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        self.literal = set[str]()

    def add(self, node: Any) -> None:
        """Add a node.

        raises    DeployError if there is no kernel for it
        """
        self.layer = node.name or node.output[0]
        if self._fold(node, has_rule=node.op_type in RULES):
            return
        rule = self.rule(node)
        try:
            how = _attributes(node)
            if node.op_type == "Split":  # before opset 18 the results alone say how many they are
                how.setdefault("num_outputs", len(node.output))
            made = rule(self, _inputs(node), how)
        except KeyError as error:
            raise DeployError(f"node {self.layer}: {node.op_type}: no {error}") from None
        except (TypeError, ValueError) as error:
            raise DeployError(f"node {self.layer}: {node.op_type}: {error}") from None
        results = made if isinstance(made, tuple) else (made,)
        self.known.update(zip(node.output, results, strict=False))

    @staticmethod
    def rule(node: Any) -> Rule:
        """That of a node's operator.

        raises    DeployError if there is none
        """
        if node.op_type in RANDOM - RULES.keys():
            raise DeployError(
                f"node {node.name or node.output[0]}: {node.op_type}: random numbers of its own; "
                f"Dropout has them: let others come with x"
            )
        if node.op_type not in RULES:
            raise DeployError(
                f"node {node.name or node.output[0]}: {node.op_type}: there is no kernel for it; "
                f"`pulpsim deploy --operators` lists those that there are"
            )
        return RULES[node.op_type]

    def _fold(self, node: Any, *, has_rule: bool) -> bool:
        """Compute a node before the run, if it depends on constants alone: shapes, axes, masks."""
        if node.op_type in RANDOM:
            return False
        if node.op_type == "Shape":
            shape = self._shape(node.input[0])
            cut = _attributes(node)
            part = shape[cut.get("start", 0) : cut.get("end", len(shape))]
            self.numbers[node.output[0]] = np.array(part, np.int64)
            self.literal.add(node.output[0])
            return True
        if node.op_type == "CastLike" and node.input[0] in self.numbers:
            self.numbers[node.output[0]] = self._cast(*node.input)
            self.literal.update(node.output if node.input[0] in self.literal else ())
            return True
        if node.op_type == "Constant" and "value" in (attributes := _attributes(node)):
            self.numbers[node.output[0]] = numpy_helper.to_array(attributes["value"])
            self.literal.add(node.output[0])
            return True
        names = [name for name in node.input if name]
        if not all(name in self.numbers and name not in self.learned for name in names):
            return False
        arrays = _computed(node, {name: self.numbers[name] for name in names}, self.versions)
        is_literal = self.literal.issuperset(names)
        are_floats = arrays is not None and arrays[0].dtype.kind == "f"
        if arrays is None or (has_rule and names and are_floats and not is_literal):
            return False
        self.literal.update(node.output if is_literal else ())
        self.numbers.update(zip(node.output, arrays, strict=False))
        return True

    def _cast(self, name: str, other: str) -> np.ndarray:
        """A constant in the type of what may be computed."""
        if other in self.numbers:
            return self.numbers[name].astype(self.numbers[other].dtype)
        is_index = self.graph.values[self.name(other)].dtype == "int32"
        return self.numbers[name].astype(np.int64 if is_index else np.float32)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.numbers[name].shape if name in self.numbers else self.shape(name)

    def name(self, value: Any) -> str:
        """The value of that name in ONNX: a parameter, an input or a constant at first."""
        if value not in self.known:
            self.known[value] = self._first(value)
        return super().name(value)

    def _first(self, name: str) -> str:
        if name in self.data:
            array = self.given[name]
            dtype = "float32" if array.dtype.kind == "f" else "int32"
            return self.graph.add(name, array.shape, "input", dtype)
        if name in self.numbers or name in self.given:
            array = np.asarray(self.numbers.get(name, self.given.get(name)))
            is_index = array.dtype.kind in "iu"
            dtype = "int32" if is_index else "float32"
            return self.graph.add(name, array.shape or (1,), "parameter", dtype, array)
        raise DeployError(f"{name}: neither an input nor what a node gives")

    def _found(self, value: Any) -> Any:
        """Constants are known before the run."""
        is_fixed = value in self.numbers and value not in self.learned
        return self.numbers[value] if is_fixed else super()._found(value)

    def number(self, name: str) -> np.ndarray:
        """A constant that must be known before the run, such as a shape.

        raises    DeployError if it is computed
        """
        if name not in self.numbers:
            raise DeployError(f"{name} is computed; there are constants alone")
        return self.numbers[name]
