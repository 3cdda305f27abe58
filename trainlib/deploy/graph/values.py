"""A training graph: values, and the operators between them, as data.

    g = Graph()
    x = g.add("x", (1, 8), "input")
    w = g.add("w", (4, 8), "parameter", array=weights)
    y = add_node(g, "linear_fw", {"X": x, "W": w}, layer="fc")["Y"]  # of graph.registry

A value that has a base is a view: it lies in the base's memory, some elements after its start, row
after row. All values with the same root are an alias class.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np

from trainlib.primitive.element import ELEMENTS
from trainlib.primitive.tensor import INT32

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
Role = Literal["input", "parameter", "buffer", "constant", "state", "temporary"]
Step = Literal["forward", "backward", "update"]
TYPES = {element.name: element.dtype.name for element in ELEMENTS}
"""Of values, by the names that kernels have for elements."""
DTYPES = {"int32": INT32, **{element.dtype.name: element.dtype for element in ELEMENTS}}
FORMAT = "pulpsim.graph/1"


class DeployError(ValueError):
    """This cannot be deployed; the message says which layer, the rule, and the way out."""


MOST = 10  # mistakes that are said


def kind_of(value: Any) -> str:
    """What a value is, as messages say it: "a Tensor", "an int", "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIO" else f"a {name}"


def raise_all(mistakes: Sequence[DeployError]) -> None:
    """Raise mistakes together, a line each, if there are any; if one is of a kind of its own, as
    that.
    """
    if not mistakes:
        return
    lines = list(dict.fromkeys(map(str, mistakes)))
    if len(lines) > MOST:
        lines[MOST:] = [f"and {len(lines) - MOST} more"]
    kinds = [type(mistake) for mistake in mistakes if type(mistake) is not DeployError]
    raise (kinds or [DeployError])[0]("\n".join(lines)) from None


def check_together(*checks: Callable[["Graph"], None], of: "Graph") -> None:
    """raises    DeployError with what all checks of a graph find, a line each"""
    mistakes = list[DeployError]()
    for check in checks:
        try:
            check(of)
        except DeployError as error:
            mistakes.append(error)
    raise_all(mistakes)


class TooLargeError(DeployError):
    """A step that does not fit L2.

    needed    bytes of L2 that it takes
    lack      how many too many that is
    code      those of them that are code
    swaps     why values in the HyperRAM do not help
    """

    def __init__(self, message: str, needed: int, lack: int, code: int, swaps: str = "") -> None:
        super().__init__(message)
        self.needed, self.lack, self.code, self.swaps = needed, lack, code, swaps

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.needed, self.lack, self.code, self.swaps)


@dataclass(frozen=True)
class Value:
    """An array in the graph.

    role      "input": of each batch; "parameter", "buffer": of the network, by state_dict's names;
              "constant"; "state": of the optimiser; "temporary": what nodes write and read
    dtype     "float32", "int32", or halves: "float16", "bfloat16"
    base      the value that it is a view of
    offset    elements from the start of the base to its own
    """

    name: str
    shape: Shape
    role: Role = "temporary"
    dtype: str = "float32"
    base: str | None = None
    offset: int = 0

    @property
    def elements(self) -> int:
        """How many it has."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.item * self.elements

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class Node:
    """An operator between values.

    op           its name, see trainlib.deploy.graph.registry
    inputs       values by the operator's names; also those that it reads and then overwrites
    outputs      likewise
    layer        whose cycles its own are, by the name that the network has for it
    element      what its kernel computes with: "f32", "f16" or "bf16"
    """

    op: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    attributes: Attributes = field(default_factory=dict)
    layer: str = ""
    step: Step = "forward"
    element: str = "f32"

    def reads(self, name: str) -> bool:
        """Is this value an input?"""
        return name in self.inputs.values()


@dataclass
class Graph:
    """Values by name, nodes in an order in which they can be computed.

    arrays     of parameters, buffers, constants and states: what they hold at first
    trained    parameters that learn
    loss       the value that they learn from, one element
    gradients  of trained parameters, by the parameters' names
    stopped    views through which no gradient goes
    tied       further names of parameters and buffers, and what each is
    truths     inputs that are truth values: floats, 1 and 0
    """

    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    trained: tuple[str, ...] = ()
    loss: str | None = None
    gradients: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    tied: dict[str, str] = field(default_factory=dict)
    truths: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """A name that no value has: this one, or one with a number."""
        if name not in self.values:
            return name
        number = 2
        while f"{name}_{number}" in self.values:
            number += 1
        return f"{name}_{number}"

    def add(
        self,
        name: str,
        shape: Shape,
        role: Role = "temporary",
        dtype: str = "float32",
        array: np.ndarray | None = None,
    ) -> str:
        """Add a value; return its name."""
        if name in self.values:
            raise DeployError(f"value {name}: there are two of that name; rename one of them")
        if prod(shape) < 1:
            raise DeployError(f"value {name}: shape {list(shape)} has no elements")
        self.values[name] = Value(name, tuple(map(int, shape)), role, dtype)
        if array is not None:
            self.arrays[name] = np.ascontiguousarray(array, DTYPES[dtype]).reshape(shape)
        return name

    def constant(self, name: str, array: Any, dtype: str = "float32") -> str:
        """Add a constant, or find one with the same elements; return its name."""
        value = np.asarray(array, DTYPES[dtype])
        for known, found in self.arrays.items():
            same = self.values[known].role == "constant" and found.dtype == value.dtype
            if same and np.array_equal(found, value):
                return known
        return self.add(self.fresh(name), value.shape, "constant", dtype, value)

    def view(self, name: str, of: str, shape: Shape, offset: int = 0) -> str:
        """Add a view of a value; return its name: the value's own if nothing differs."""
        base = self.values[of]
        if not 0 <= offset <= offset + prod(shape) <= base.elements:
            raise DeployError(
                f"value {name}: {prod(shape)} elements from {offset} on are not in {of}, which has "
                f"{base.elements}"
            )
        if tuple(shape) == base.shape:
            return of
        name = self.fresh(name)
        self.values[name] = Value(name, tuple(shape), "temporary", base.dtype, of, offset)
        return name

    def reshaped(self, name: str, shape: Shape) -> str:
        """A view of all elements of a value with another shape."""
        return self.view(f"{name}_view", name, shape)

    def stop(self, name: str) -> str:
        """A view of a value through which no gradient goes."""
        view = self.fresh(f"{name}_stopped")
        value = self.values[name]
        self.values[view] = Value(view, value.shape, "temporary", value.dtype, name)
        self.stopped.add(view)
        return view

    def root(self, name: str) -> str:
        """The value whose memory a view lies in."""
        while (base := self.values[name].base) is not None:
            name = base
        return name

    def place(self, name: str) -> tuple[str, int]:
        """The root, and the elements after its start at which a value begins."""
        offset = 0
        while (value := self.values[name]).base is not None:
            name, offset = value.base, offset + value.offset
        return name, offset

    def views(self, name: str) -> list[str]:
        """All values of an alias class, given its root."""
        return [other for other in self.values if self.root(other) == name]

    def of_role(self, *roles: Role) -> list[Value]:
        """Values of these roles, views left out."""
        return [v for v in self.values.values() if v.role in roles and v.base is None]

    def validate(self) -> None:
        """Check that every input is there before it is read, and that shapes fit.

        raises    DeployError for the first mistake
        """
        there = {v.name for v in self.values.values() if v.role != "temporary"}
        for number, node in enumerate(self.nodes):
            for operand, name in node.inputs.items():
                if name not in self.values:
                    raise DeployError(f"node {number}, {node.op}: {operand} is {name}: no value")
                if self.root(name) not in there:
                    raise DeployError(f"node {number}, {node.op}: reads {name} before it is there")
            there |= {self.root(name) for name in node.outputs.values()}
        missing = {*self.trained} - self.values.keys()
        if missing:
            raise DeployError(f"trained parameters that are no values: {', '.join(missing)}")

    def copy(self) -> "Graph":
        """One that can be changed without this one."""
        return replace(
            self,
            values=dict(self.values),
            nodes=list(self.nodes),
            arrays=dict(self.arrays),
            gradients=dict(self.gradients),
            stopped=set(self.stopped),
            tied=dict(self.tied),
            truths=set(self.truths),
        )

    def to_json(self) -> dict[str, Any]:
        """All but the arrays."""
        return {
            "format": FORMAT,
            "values": [asdict(value) for value in self.values.values()],
            "nodes": [asdict(node) for node in self.nodes],
            "trained": list(self.trained),
            "loss": self.loss,
            "gradients": self.gradients,
            "stopped": sorted(self.stopped),
            "tied": self.tied,
            "truths": sorted(self.truths),
        }

    @property
    def digest(self) -> str:
        """A hash of everything, arrays too: the same in every process."""
        text = json.dumps(self.to_json(), sort_keys=True)
        parts = [text.encode(), *(self.arrays[name].tobytes() for name in sorted(self.arrays))]
        return sha256(b"".join(parts)).hexdigest()

    def save(self, file: Path) -> None:
        """Write graph.json and arrays.npz into one zip file."""
        arrays = BytesIO()
        np.savez(arrays, **self.arrays)  # type: ignore[arg-type]
        with ZipFile(file, "w", ZIP_DEFLATED) as out:
            out.writestr("graph.json", json.dumps(self.to_json(), indent=1))
            out.writestr("arrays.npz", arrays.getvalue())

    @classmethod
    def load(cls, file: Path) -> "Graph":
        """Read what `save` has written.

        raises    DeployError if it is something else
        """
        try:
            with ZipFile(file) as source:
                said = json.loads(source.read("graph.json"))
                arrays = dict(np.load(BytesIO(source.read("arrays.npz")), allow_pickle=False))
        except (OSError, KeyError, ValueError, BadZipFile) as error:
            raise DeployError(f"{file}: no graph: {error}") from None
        if said.get("format") != FORMAT:
            raise DeployError(f"{file}: format {said.get('format')!r}; this reads {FORMAT}")
        values = {v["name"]: Value(**v | {"shape": tuple(v["shape"])}) for v in said["values"]}
        nodes = [Node(**n | {"attributes": _tuples(n["attributes"])}) for n in said["nodes"]]
        trained = tuple(said["trained"])
        more = set(said.get("stopped", ())), said.get("tied", {}), set(said.get("truths", ()))
        return cls(values, nodes, arrays, trained, said["loss"], said["gradients"], *more)


def _tuples(attributes: Attributes) -> dict[str, Any]:
    """Lists as tuples, as they were before they were JSON."""
    return {n: tuple(v) if isinstance(v, list) else v for n, v in attributes.items()}
