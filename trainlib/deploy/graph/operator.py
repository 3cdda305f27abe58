"""Operators of a graph: the kernel that computes one, its shapes, its gradient's rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trainlib.calls.primitives import PRIMITIVES
from trainlib.deploy.graph.values import Attributes, DeployError, Shape
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import Tensors

Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Invocation:
    """A kernel's call.

    kernel       without its type
    arguments    of the kernel
    """

    kernel: str
    arguments: Mapping[str, Any]

    def family(self, element: str) -> Family:
        """The primitive for a type of elements.

        raises    DeployError if there is none
        """
        name = f"{self.kernel}_{element}"
        if name not in PRIMITIVES:
            raise DeployError(f"{self.kernel}: there is no kernel for {element}")
        return PRIMITIVES[name]


class Backward(Protocol):
    """A node on the way back, as the rule of its gradient sees it."""

    def needs(self, *operands: str) -> bool:
        """Does any of these inputs need a gradient?"""

    def has(self, output: str) -> bool:
        """Does the loss depend on this output?"""

    def gradient(self, output: str) -> str:
        """The gradient of an output; zeros where the loss does not depend on it."""

    def value(self, operand: str) -> str | None:
        """An input or an output; None: it has been left out."""

    def shape(self, operand: str) -> Shape:
        """Its shape."""

    def attributes(self) -> dict[str, Any]:
        """Attributes of the node."""

    def emit(
        self, op: str, inputs: Mapping[str, str | None], attributes: Attributes | None = None
    ) -> dict[str, str]:
        """Add a node; return its outputs."""

    def constant(self, name: str, array: Any) -> str:
        """Add a constant."""

    def reshaped(self, name: str, shape: Shape) -> str:
        """A view with another shape."""

    def part(self, name: str, shape: Shape, offset: int) -> str:
        """A view of elements of a value, so many after its first."""

    def last(self, name: str, shape: Shape) -> str:
        """A view of the last elements of a value."""

    def is_one(self, output: str) -> bool:
        """Is the gradient of this output 1, as that of the graph's loss is?"""

    def give(self, operand: str, gradient: str) -> None:
        """Say a gradient of an input; several add up."""


Rule = Callable[[Backward], None]
Lower = Callable[[Shapes, Attributes], Invocation]


@dataclass(frozen=True)
class Operator:
    """An operator: its operands have the names that its kernel gives them.

    lower       the kernel that computes it
    shaped      shapes of operands, where the kernel's own say it in another way
    rule        emits its gradient's nodes; None: it has no gradient
    in_place    (input, output): the output may lie where the input does
    """

    name: str
    lower: Lower
    shaped: Callable[[Shapes, Attributes], Shapes] = lambda shapes, attributes: {}
    rule: Rule | None = None
    in_place: tuple[tuple[str, str], ...] = ()

    def outputs(
        self,
        shapes: Shapes,
        attributes: Attributes,
        types: Mapping[str, str],
        element: str = "f32",
    ) -> dict[str, tuple[Shape, str]]:
        """Shapes and types of outputs, given those of inputs.

        raises    ValueError (DeployError, KernelError, pydantic's) if it does not take such inputs
        """
        tensors = self.tensors(shapes, attributes, element)
        known = self.shaped(shapes, attributes)
        missing = [n for n, t in tensors.items() if t.role in ("in", "inout") and n not in shapes]
        surplus = [name for name in shapes if name not in tensors]
        if missing or surplus:
            names = ", ".join(missing or surplus)
            raise ValueError(f"{names}: {'missing' if missing else 'no such operand'}")
        for name, shape in shapes.items():
            wanted = known.get(name, tensors[name].shape)
            if name not in known and _elements(shape) != _elements(wanted):
                raise ValueError(f"{name} has shape {list(shape)}; it takes {list(wanted)}")
        for name, dtype in types.items():
            if dtype != tensors[name].dtype.name:
                raise ValueError(f"{name} is {dtype}; it takes {tensors[name].dtype.name}")
        return {
            name: (tuple(known.get(name, t.shape)), t.dtype.name)
            for name, t in tensors.items()
            if t.role == "out"
        }

    def changed(self, shapes: Shapes, attributes: Attributes, element: str = "f32") -> list[str]:
        """Inputs that it overwrites."""
        tensors = self.tensors(shapes, attributes, element)
        return [name for name, tensor in tensors.items() if tensor.role == "inout"]

    def tensors(self, shapes: Shapes, attributes: Attributes, element: str = "f32") -> Tensors:
        """Operands of its kernel for a type of elements.

        raises    as `outputs`
        """
        invocation = self.lower(shapes, attributes)
        family = invocation.family(element)
        return family.tensors(family.arguments.model_validate(dict(invocation.arguments)))


def _elements(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
