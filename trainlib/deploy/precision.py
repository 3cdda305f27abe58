"""Mixed precision: halves where they are fast, single precision where sums and updates need it.

    deploy(model, ..., dtype="bf16")
    deploy(model, ..., dtype="f16", loss_scale="dynamic", dtypes={"head*": "f32"})

As in PyTorch's autocast, layers compute with halves, losses and what has no kernel for halves with
single precision; values are cast between them. Sums of norms, softmax and reductions are single
precision inside of their kernels, as are the norms' parameters and statistics. Parameters and
the optimiser's state are single precision: each step casts parameters to what layers take, or
updates keep them so, beside.

A loss scale keeps small gradients above the least half: gradients of the scaled loss are computed,
and divided by the scale before anything else is done with them. A dynamic one is that of
torch.amp.GradScaler: a step whose gradients are not finite is skipped, and the scale is halved.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import frexp
from typing import Any, Literal

import numpy as np

from trainlib.deploy.graph.registry import OPERATORS, add_node, shapes_of
from trainlib.deploy.graph.values import (
    DTYPES,
    MOST,
    TYPES,
    DeployError,
    Graph,
    Node,
    Shape,
    raise_all,
)
from trainlib.deploy.optimizers import layer_of
from trainlib.primitive.tensor import WORD

SCALE = "loss_scale"
STEPS = "loss_scale.steps"
SKIPS = 1  # of these: is this step skipped?
LOSSES = (
    *("cross_entropy_loss", "mse_loss", "l1_loss", "berhu_loss", "huber_loss"),
    *("bce_loss", "bce_logits_loss"),
)
WIDE = (
    *(*LOSSES, "exp", "log", "sqrt", "rsqrt", "reciprocal", "erf", "sin", "cos", "take", "put"),
    *("atan", "expm1", "floor", "log1p", "round"),
)
"""Operators that compute with single precision though there are kernels for halves."""
WIDEST = (
    *("add", "subtract", "multiply", "divide", "reduce", "slice", "concat"),
    *("clamp_fw", "clamp_bw", "abs_fw", "abs_bw", "neg", "maxpool2d_fw"),
)
"""Operators that compute with single precision where a value that they take has been: as autocast's
promotion to the widest type, but for parameters and inputs.
"""
NAMES = {dtype: element for element, dtype in TYPES.items()}


@dataclass(frozen=True)
class LossScale:
    """A scale that grows until gradients are not finite any more: powers of two.

    initial     at first
    growth      what it is multiplied by after `interval` steps in a row with finite gradients
    backoff     after a step without; that one is skipped
    """

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        _check_power("initial", self.initial, 2.0**-126, 2.0**126)
        _check_power("growth", self.growth, 2.0, 2.0**16)
        _check_power("backoff", self.backoff, 2.0**-16, 0.5)
        if self.interval < 1:
            raise DeployError(f"loss scale: interval = {self.interval}; it is 1 or more")

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the operator that changes it."""
        return {"growth": self.growth, "backoff": self.backoff, "interval": self.interval}


Scale = float | LossScale | Literal["dynamic"] | None


@dataclass(frozen=True)
class Precision:
    """The element types that a network is computed with.

    dtype     "f32", "f16" or "bf16"
    dtypes    of layers, by patterns of their names ("layer1.*"), the last that fits
    scale     of the loss: None, a power of two, or one that is changed while it trains
    """

    dtype: str = "f32"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    scale: float | LossScale | None = None

    @classmethod
    def of(
        cls,
        dtype: str = "f32",
        dtypes: Mapping[str, str] | None = None,
        loss_scale: Scale = None,
        master: str = "f32",
    ) -> "Precision":
        """What `deploy` is given.

        raises    DeployError with every mistake, a line each
        """
        mistakes = list(_mistakes(dtype, dtypes, loss_scale, master))
        raise_all([DeployError(mistake) for mistake in mistakes])
        if loss_scale == "dynamic":
            loss_scale = LossScale()
        assert not isinstance(loss_scale, str)
        scale = float(loss_scale) if isinstance(loss_scale, int | float) else loss_scale
        return cls(dtype, dict(dtypes or {}), scale)

    @property
    def coarsest(self) -> str:
        """The type with the fewest digits among those that layers compute with."""
        return max((self.dtype, *self.dtypes.values()), key=("f32", "f16", "bf16").index)

    def element(self, graph: Graph, node: Node) -> str:
        """What a node computes with: halves, if there is such a kernel."""
        wanted = self.dtype
        for pattern, dtype in self.dtypes.items():
            wanted = dtype if fnmatchcase(node.layer, pattern) else wanted
        gives_loss = graph.loss in [graph.root(name) for name in node.outputs.values()]
        if wanted == "f32" or node.op in WIDE or gives_loss:
            return "f32"
        try:
            OPERATORS[node.op].tensors(shapes_of(graph, node), node.attributes, wanted)
        except ValueError:
            return "f32"
        return wanted

    def check(self, graph: Graph) -> None:
        """raises    DeployError for patterns that no layer's name fits"""
        layers = list(dict.fromkeys(node.layer for node in graph.nodes))
        known = f"{', '.join(layers[:MOST])}{' ...' if len(layers) > MOST else ''}"
        unfit = [p for p in self.dtypes if not any(fnmatchcase(layer, p) for layer in layers)]
        raise_all([DeployError(f"dtypes: no layer fits {p!r}; there are {known}") for p in unfit])

    def takes(self, graph: Graph, node: Node, fused: Node) -> bool:
        """Does a fused node compute with what the plain one does?"""
        return self.element(graph, node) == self.element(graph, fused)

    def seed(self, graph: Graph) -> str | None:
        """Add the scale: what the loss's own gradient is; None: 1."""
        if self.scale is None:
            return None
        scale = self.scale if isinstance(self.scale, float) else self.scale.initial
        graph.add(SCALE, (2,), "state", array=np.array([scale, 1 / scale]))
        return graph.view(f"{SCALE}.value", SCALE, (1,))


def _mistakes(dtype: str, dtypes: Any, loss_scale: Any, master: str) -> Iterator[str]:
    """What is wrong in the arguments of `Precision.of`."""
    if not isinstance(dtypes, Mapping | None):
        yield (
            f"dtypes = {dtypes!r}; it is types by patterns of layers' names, such as "
            f'{{"head.*": "f32"}}; dtype is that of all'
        )
        dtypes = {}
    if dtype not in TYPES:
        yield f"dtype = {dtype!r}; there are {', '.join(TYPES)}"
    for pattern, name in (dtypes or {}).items():
        if name not in TYPES:
            yield f"dtypes: {pattern} = {name!r}; there are {', '.join(TYPES)}"
    if master != "f32":
        yield (
            f"master = {master!r}; parameters and the optimiser's state are f32: halves lose "
            f"updates that are small beside them"
        )
    if isinstance(loss_scale, str):
        if loss_scale != "dynamic":
            yield f"loss_scale = {loss_scale!r}; it is a number, or 'dynamic'"
    elif isinstance(loss_scale, int | float):
        try:
            _check_power("loss_scale", float(loss_scale), 2.0**-126, 2.0**126)
        except DeployError as error:
            yield str(error)
    elif not isinstance(loss_scale, LossScale | None):
        yield f"loss_scale = {loss_scale!r}; it is a power of two, 'dynamic' or a LossScale"


SINGLE = Precision()


def mix(graph: Graph, precision: Precision) -> None:
    """Let every node compute with what it should, with casts of values between nodes.

    Gradients of parameters become single precision, divided by the scale.
    """
    nodes, graph.nodes = graph.nodes, []
    casts = _Casts(graph)
    exponents = {graph.root(node.inputs["x"]) for node in nodes if node.op == "exp"}
    for node in nodes:
        element = precision.element(graph, node)
        if _is_single(graph, node, exponents, element):
            element = "f32"
        typed = _by_columns(replace(node, element=element), shapes_of(graph, node))
        operator = OPERATORS[node.op]
        tensors = operator.tensors(shapes_of(graph, node), typed.attributes, typed.element)
        inputs = {
            name: casts.of(value, tensors[name].dtype.name, node)
            for name, value in node.inputs.items()
        }
        graph.nodes.append(replace(typed, inputs=inputs))
        for name, value in node.outputs.items():
            graph.values[value] = replace(graph.values[value], dtype=tensors[name].dtype.name)
    _retype_views(graph)
    for name, gradient in graph.gradients.items():
        graph.gradients[name] = _single(graph, name, gradient, casts)
    _drop_unused(graph)


def _is_single(graph: Graph, node: Node, exponents: Set[str], element: str) -> bool:
    """Must it be single precision, whatever its layer is?

    What a power is of, single values such as scales of losses, what is not less exact yet, and what
    takes constants beyond the range of its type, as comparisons do.
    """
    if node.op not in WIDEST:
        return False
    if any(_is_beyond(graph, name, element) for name in node.inputs.values()):
        return True
    given = [graph.values[graph.root(name)] for name in node.inputs.values()]
    if any(value.dtype == "int32" for value in given):
        return True
    outputs = [graph.root(name) for name in node.outputs.values()]
    if exponents & {*outputs} or all(graph.values[name].elements == 1 for name in outputs):
        return True
    return any(v.role in ("temporary", "state") and v.dtype == "float32" for v in given)


def _is_beyond(graph: Graph, name: str, element: str) -> bool:
    """Is a constant finite, but not in that type?"""
    value = graph.values[graph.root(name)]
    if element == "f32" or value.role != "constant" or value.dtype != "float32":
        return False
    array = graph.arrays[value.name]
    with np.errstate(over="ignore"):
        halves = array.astype(DTYPES[TYPES[element]]).astype(np.float32)
    return bool((np.isfinite(array) & ~np.isfinite(halves)).any())


def _by_columns(node: Node, shapes: Mapping[str, Shape]) -> Node:
    """Convolutions with a stride as products: outputs side by side read no neighbouring halves.

    Not where two channels of outputs are computed at once, see trainlib.conv.row_pairs.
    """
    how = node.attributes
    is_strided = how.get("stride", (1, 1))[1] > 1 and how.get("groups", 1) == 1
    if node.element == "f32" or node.op not in ("conv2d_fw", "conv2d_wg") or not is_strided:
        return node
    if node.op == "conv2d_fw":
        outputs, _, _, width = shapes["W"]
    else:
        outputs, width = shapes["dY"][1], how["kernel"][1]
    if width > 1 and outputs % 2 == 0:
        return node
    return replace(node, attributes={"method": "columns", **how})


class _Casts:
    """Casts of values that have been made, by what they are of."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[tuple[str, int, int, str], str] = {}

    def of(self, name: str, dtype: str, node: Node) -> str:
        """A value in the type that a node takes."""
        graph, value = self.graph, self.graph.values[name]
        root, offset = graph.place(name)
        have = graph.values[root].dtype
        if "int32" in (have, dtype):
            return name
        is_whole_word = offset * DTYPES[dtype].itemsize % WORD == 0
        if have == dtype:
            how = {"layer": node.layer, "step": node.step}
            return name if is_whole_word else self.part(root, offset, value.shape, **how)
        whole = graph.values[root]
        if whole.role in ("parameter", "constant", "input") and is_whole_word:
            return graph.view(
                f"{name}.{NAMES[dtype]}",
                self._cast(whole.name, 0, whole.shape, dtype, node),
                value.shape,
                offset,
            )
        return self._cast(root, offset, value.shape, dtype, node)

    def _cast(self, root: str, offset: int, shape: Shape, dtype: str, node: Node) -> str:
        graph = self.graph
        count = int(np.prod(shape))
        key = root, offset, count, dtype
        if key not in self.known:
            value = graph.values[root]
            if value.role == "constant":
                array = graph.arrays[root].reshape(-1)[offset:][:count].astype(DTYPES[dtype])
                self.known[key] = graph.constant(f"{root}.{NAMES[dtype]}", array, dtype)
            else:
                how = {"layer": node.layer, "step": node.step}
                part = self.part(root, offset, (count,), **how)
                self.known[key] = cast(graph, part, value.dtype, dtype, root, **how)
        return graph.reshaped(self.known[key], shape)

    def part(self, root: str, offset: int, shape: Shape, **how: Any) -> str:
        """A part of a value: a view, or a copy where it begins inside of a word."""
        graph, value = self.graph, self.graph.values[root]
        if offset * value.item % WORD == 0:
            return graph.view(f"{root}.part", root, shape, offset)
        count = int(np.prod(shape))
        key = root, offset, count, value.dtype
        if key not in self.known:
            flat = graph.reshaped(root, (value.elements,))
            box: dict[str, Any] = {"start": (offset,), "size": (count,)}
            how["element"] = NAMES[value.dtype]
            self.known[key] = add_node(graph, "slice", {"x": flat}, box, **how)["y"]
            made = self.known[key]
            graph.values[made] = replace(graph.values[made], dtype=value.dtype)
        return graph.reshaped(self.known[key], shape)


def cast(graph: Graph, name: str, source: str, target: str, called: str, **how: Any) -> str:
    """Add the cast of a flat value; return its name. Halves become others by way of single."""
    if "float32" not in (source, target):
        name = cast(graph, name, source, "float32", called, **how)
        source = "float32"
    named = {"Y": f"{called}.{NAMES[target]}"}
    about = {"source": NAMES[source]}
    return add_node(graph, "cast", {"X": name}, about, element=NAMES[target], named=named, **how)[
        "Y"
    ]


def _single(graph: Graph, name: str, gradient: str, casts: _Casts) -> str:
    """The gradient of a parameter as the optimiser takes it."""
    how: dict[str, Any] = {"layer": layer_of(graph, name), "step": "update"}
    value = graph.values[gradient]
    if value.dtype == "float32":
        flat = graph.reshaped(gradient, (value.elements,))
    else:
        flat = casts.part(*graph.place(gradient), (value.elements,), **how)
        flat = cast(graph, flat, value.dtype, "float32", gradient, **how)
    if SCALE in graph.values:
        inverse = graph.view(f"{SCALE}.inverse", SCALE, (1,), 1)
        flat = add_node(graph, "multiply", {"a": flat, "b": inverse}, **how)["y"]
    return graph.reshaped(flat, value.shape)


def _retype_views(graph: Graph) -> None:
    for name, value in graph.values.items():
        dtype = graph.values[graph.root(name)].dtype
        if value.dtype != dtype:
            graph.values[name] = replace(value, dtype=dtype)


def _drop_unused(graph: Graph) -> None:
    """Constants that only halves of are read, and views of them."""
    read = {graph.root(name) for node in graph.nodes for name in node.inputs.values()}
    roots = {name: graph.root(name) for name in graph.values}
    unused = {v.name for v in graph.of_role("constant") if v.name not in read}
    for name, root in roots.items():
        if root in unused:
            del graph.values[name]
            graph.arrays.pop(name, None)


def check_gradients(graph: Graph, scale: LossScale, gradients: Mapping[str, str]) -> str:
    """Add what changes the scale by whether all gradients are finite; return the value of its
    steps: those in a row with finite gradients, whether to skip this one, and how many were.
    """
    steps = graph.add(STEPS, (3,), "state", "int32", np.zeros(3, np.int32))
    how: dict[str, Any] = {"layer": SCALE, "step": "update"}
    total = ""
    for gradient in gradients.values():
        flat = graph.reshaped(gradient, (graph.values[gradient].elements,))
        part = add_node(graph, "reduce", {"x": flat}, {"axes": (0,), "what": "sum"}, **how)["y"]
        part = graph.reshaped(part, (1,))
        total = add_node(graph, "add", {"a": total, "b": part}, **how)["y"] if total else part
    inputs = {"total": total, "scale": SCALE, "steps": steps}
    add_node(graph, "change_scale", inputs, scale.attributes, **how)
    return steps


def _check_power(name: str, value: float, low: float, high: float) -> None:
    if not (low <= value <= high and frexp(value)[0] == 0.5):
        raise DeployError(
            f"loss scale: {name} = {value:g}; it is a power of two from {low:g} to {high:g}"
        )
