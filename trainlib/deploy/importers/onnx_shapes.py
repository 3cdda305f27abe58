"""ONNX's operators that move data as nodes, or as views where nothing moves."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers import aten_choices, aten_sequences, aten_shapes, aten_windows
from trainlib.deploy.importers.aten_functions import truncated
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_shapes import expanded, gathered
from trainlib.deploy.importers.onnx_elements import Attributes, Names, Rule, at, axes_of, text

SHAPES = aten_shapes.RULES
MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
CHOICES = aten_choices.RULES
FLOAT, BOOL, DOUBLE = 1, 9, 11
INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
"""Types of onnx.TensorProto."""


def _integers(i: Any, name: Any) -> list[int]:
    return [int(n) for n in np.ravel(i.number(name))]


def _reshape(i: Any, x: Names, a: Attributes) -> str:
    shape = i.shape(x[0])
    wanted = _integers(i, x[1])
    if not a.get("allowzero"):
        wanted = [shape[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    return SHAPES["view"](i, x[0], wanted)


def _flatten(i: Importer, x: Names, a: Attributes) -> str:
    shape = i.shape(x[0])
    axis = a.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return i.graph.reshaped(i.name(x[0]), (prod(shape[:axis]), prod(shape[axis:])))


def _unsqueeze(i: Any, x: Names, a: Attributes) -> str:
    shape = list(i.shape(x[0]))
    axes = axes_of(i, x, a) or []
    rank = len(shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return i.graph.reshaped(i.name(x[0]), tuple(shape))


def _transpose(i: Importer, x: Names, a: Attributes) -> str:
    rank = len(i.shape(x[0]))
    return SHAPES["permute"](i, x[0], a.get("perm", tuple(reversed(range(rank)))))


def _expand(i: Any, x: Names, _: Attributes) -> str:
    wanted = np.broadcast_shapes(i.shape(x[0]), tuple(_integers(i, x[1])))
    return expanded(i, i.name(x[0]), wanted)


def _slice(i: Any, x: Names, a: Attributes) -> str:
    """Starts, ends, axes and steps, as attributes or as inputs."""
    if "starts" in a:
        starts, ends, axes, steps = list(a["starts"]), list(a["ends"]), a.get("axes"), None
    else:
        starts, ends = (_integers(i, name) for name in x[1:3])
        axes, steps = (_integers(i, at(x, n)) if at(x, n) else None for n in (3, 4))
    y = x[0]
    cuts = zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True)
    for axis, first, last, step in cuts:
        if step < 1:
            shape = i.shape(y)
            numbers = np.arange(prod(shape)).reshape(shape)
            turned = np.moveaxis(np.moveaxis(numbers, axis, 0)[first:last:step], 0, axis)
            found = gathered(i, i.name(y), turned)
        else:
            found = SHAPES["slice.Tensor"](i, y, axis, first, last, step)
        y = _Known(i, found)
    return i.name(y)


class _Known:
    """A value that has no name in ONNX."""

    def __init__(self, i: Importer, name: str) -> None:
        i.known[self] = name


def _split(i: Any, x: Names, a: Attributes) -> tuple[str, ...]:
    axis = a.get("axis", 0)
    whole = i.shape(x[0])[axis]
    if at(x, 1):
        sizes = _integers(i, x[1])
    elif "split" in a:
        sizes = list(a["split"])
    else:
        count = a["num_outputs"]
        most = -(-whole // count)
        sizes = [most] * (count - 1) + [whole - most * (count - 1)]
    return SHAPES["split_with_sizes"](i, x[0], sizes, axis)


def _gather(i: Any, x: Names, a: Attributes) -> str:
    """Parts along an axis by constants; rows of a table by tokens of the batch."""
    axis = a.get("axis", 0) % len(i.shape(x[0]))
    if i.is_array(x[1]):
        shape = i.shape(x[0])
        numbers = np.arange(prod(shape)).reshape(shape)
        found = np.take(numbers, i.number(x[1]), axis)
        return gathered(i, i.name(x[0]), found.reshape(found.shape or (1,)))
    if axis or len(i.shape(x[0])) != 2:
        raise DeployError("places that are computed, but for rows of a table")
    return aten_sequences.RULES["embedding"](i, x[0], x[1])


def _pad(i: Any, x: Names, a: Attributes) -> str:
    shape, mode = i.shape(x[0]), text(a.get("mode", "constant"))
    pads = list(a["pads"]) if "pads" in a else _integers(i, x[1])
    value = np.ravel(i.number(x[2]))[0] if at(x, 2) else a.get("value", 0.0)
    axes = _integers(i, x[3]) if at(x, 3) else list(range(len(shape)))
    before, after = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[place + len(axes)]
    sides = [n for axis in reversed(range(len(shape))) for n in (before[axis], after[axis])]
    return SHAPES["pad"](i, x[0], sides, MODES.get(mode, mode), value)


def _cast(i: Importer, x: Names, a: Attributes) -> str:
    """Floats, which integers are as well, once they are computed; and truth values."""
    wanted, name = a.get("to", FLOAT), i.name(x[0])
    if wanted == BOOL:
        return CHOICES["ne.Scalar"](i, x[0], 0)
    if wanted in INTEGERS:
        return name if i.graph.values[name].dtype == "int32" else truncated(i, name)
    if wanted not in (FLOAT, DOUBLE):
        raise DeployError(
            "another type than float32; the chip computes with floats: dtype= is for halves"
        )
    return i.as_floats(name)


def _cast_like(i: Any, x: Names, _: Attributes) -> str:
    """Of the other's type; what is computed are floats."""
    other = i.numbers.get(x[1])
    if other is not None:
        wanted = {"b": BOOL, "i": INTEGERS[0], "u": INTEGERS[0]}.get(other.dtype.kind, FLOAT)
    else:
        wanted = INTEGERS[0] if i.graph.values[i.name(x[1])].dtype == "int32" else FLOAT
    return _cast(i, x, {"to": wanted})


def _sequence(i: Any, x: Names, a: Attributes) -> tuple[list[str]]:
    """Parts of a value along an axis."""
    axis, count = a.get("axis", 0), 1
    whole = i.shape(x[0])[axis]
    sizes, keeps = [1] * whole, bool(a.get("keepdims", 1))
    if at(x, 1):
        keeps = True
        given = i.number(x[1])
        count = int(np.ravel(given)[0])
        sizes = [min(count, whole - n) for n in range(0, whole, count)]
        sizes = sizes if given.ndim == 0 else _integers(i, x[1])
    parts = SHAPES["split_with_sizes"](i, x[0], sizes, axis)
    if not keeps:
        parts = [SHAPES["squeeze.dim"](i, _Known(i, part), axis) for part in parts]
    return (list(parts),)


def _of_sequence(i: Any, x: Names, _: Attributes) -> str:
    parts: list[str] = i.known[x[0]]
    return parts[int(np.ravel(i.number(x[1]))[0])]


def _joined_sequence(i: Any, x: Names, a: Attributes) -> str:
    parts = [_Known(i, part) for part in i.known[x[0]]]
    return SHAPES["stack" if a.get("new_axis") else "cat"](i, parts, a["axis"])


def _image_of_columns(i: Any, x: Names, a: Attributes) -> str:
    size, kernel = _integers(i, x[1]), _integers(i, x[2])
    if len(size) != 2:
        raise DeployError(f"{len(size)} dimensions; there are images")
    pads = list(a.get("pads", (0, 0, 0, 0)))
    if pads[:2] != pads[2:]:
        raise DeployError("pads of two sizes; there are as many on both sides")
    ways = a.get("dilations", (1, 1)), pads[:2], a.get("strides", (1, 1))
    return aten_windows.RULES["col2im"](i, x[0], size, kernel, *map(list, ways))


def _blocks(is_depth: bool) -> Rule:
    """Depth to space, and back."""

    def rule(i: Importer, x: Names, a: Attributes) -> str:
        b, c, h, w = shape = i.shape(x[0])
        n = a["blocksize"]
        numbers = np.arange(prod(shape))
        if not is_depth:
            found = numbers.reshape(b, c, h // n, n, w // n, n).transpose(0, 3, 5, 1, 2, 4)
            found = found.reshape(b, c * n * n, h // n, w // n)
        elif text(a.get("mode", "DCR")) == "DCR":
            found = numbers.reshape(b, n, n, c // n**2, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            found = numbers.reshape(b, c // n**2, n, n, h, w).transpose(0, 1, 4, 2, 5, 3)
        size = (b, c // n**2, h * n, w * n) if is_depth else found.shape
        return gathered(i, i.name(x[0]), found.reshape(size))

    return rule


RULES: dict[str, Rule] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Col2Im": _image_of_columns,
    "ConcatFromSequence": _joined_sequence,
    "Concat": lambda i, x, a: SHAPES["cat"](i, x, a["axis"]),
    "DepthToSpace": _blocks(True),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": lambda i, x, _: i.name(x[0]),
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "SequenceAt": _of_sequence,
    "SequenceConstruct": lambda i, x, _: ([i.name(name) for name in x],),
    "SpaceToDepth": _blocks(False),
    "Split": _split,
    "SplitToSequence": _sequence,
    "Squeeze": lambda i, x, a: SHAPES["squeeze"](i, x[0], axes_of(i, x, a)),
    "Tile": lambda i, x, _: SHAPES["repeat"](i, x[0], _integers(i, x[1])),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
