"""Multi-head self-attention as a primitive: its arguments and its tensors."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.attention.heads import Shape, mhsa_bw_f32, mhsa_fw_f32
from trainlib.attention.phases import backward_phases, buffers, forward_phases
from trainlib.elementwise.in_single import in_single
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import ELEMENTS
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phases
from trainlib.primitive.tensor import Addresses, Arrays, Role, Tensor, Tensors
from trainlib.recurrent.gates import pad
from trainlib.reduction.row_reduction import PARTIALS
from trainlib.reference import attention as reference

LARGEST = 1 << 20  # elements of a dimension


class AttentionArguments(TiledArguments):
    """Multi-head self-attention, as torch's MultiheadAttention with batch_first.

    X, Y[batch, length, embed]    W[3 heads size, embed]    Wo[embed, heads size]
    QKV, P, O: queries divided by sqrt(size), keys and values; softmax of scores; P by the values:
    which the gradients need

    size    numbers of a head; not given: embed / heads
    tile    of products for all sequences: rows, embed, width, others (keys and values), columns
            (of QKV); of those of a head: batch, heads, queries, keys, size; of softmax: scores
    """

    length: int = Field(ge=1, le=LARGEST)
    embed: int = Field(ge=1, le=LARGEST)
    heads: int = Field(1, ge=1, le=LARGEST)
    size: int | None = Field(None, ge=1, le=LARGEST)
    batch: int = Field(1, ge=1, le=LARGEST)


def shape(point: Any) -> Shape:
    """raises    KernelError if the size of a head is not said and is no whole number"""
    if point.size is None and point.embed % point.heads:
        raise KernelError(
            f"mhsa: heads {point.heads}; they do not divide embed {point.embed}: give their size"
        )
    size = point.size or point.embed // point.heads
    return Shape(point.batch, point.length, point.embed, point.heads, size)


def _rows(s: Shape, columns: int, role: Role = "in") -> Tensor:
    """A row for each element, read side by side."""
    return Tensor((s.batch, s.length, columns), role, pad=pad(columns))


def _weights(s: Shape, role: Role = "in") -> Tensors:
    shapes = (3 * s.width, s.embed), (3 * s.width,), (s.embed, s.width), (s.embed,)
    names = "W", "bias", "Wo", "bias_o"
    return {name: Tensor(of, role) for name, of in zip(names, shapes, strict=True)}


def _saved(s: Shape, role: Role) -> Tensors:
    scores = Tensor((s.batch, s.heads, s.length, s.length), role)
    return {"QKV": _rows(s, 3 * s.width, role), "P": scores, "O": _rows(s, s.width, role)}


def forward(point: Any) -> Tensors:
    s = shape(point)
    weights = {
        name: replace(t, pad=pad(t.shape[-1]) if name in ("W", "Wo") else 0)
        for name, t in _weights(s).items()
    }
    y = Tensor((s.batch, s.length, s.embed), "out")
    return {"X": _rows(s, s.embed), **weights, **_saved(s, "out"), "Y": y, "partials": PARTIALS}


def backward(point: Any) -> Tensors:
    s = shape(point)
    x = s.batch, s.length, s.embed
    weights = _weights(s)
    return {
        "X": Tensor(x),
        "W": weights["W"],
        "Wo": weights["Wo"],
        **_saved(s, "in"),
        "dY": _rows(s, s.embed),
        "dX": Tensor(x, "out"),
        **{f"d{name}": tensor for name, tensor in _weights(s, "out").items()},
        "dQKV": _rows(s, 3 * s.width, "scratch"),
        "dO": _rows(s, s.width, "scratch"),
        "dP": Tensor((s.length, s.length), "scratch"),
        "partials": PARTIALS,
    }


def draw(point: Any, numbers: np.random.Generator) -> Arrays:
    """Weights and biases about as torch begins with."""
    s = shape(point)
    most = s.embed**-0.5
    return {
        name: numbers.uniform(-most, most, tensor.shape).astype(np.float32)
        for name, tensor in _weights(s).items()
    }


def draw_backward(point: Any, numbers: np.random.Generator) -> Arrays:
    """The same, and what forward gives for them."""
    s = shape(point)
    values = {"X": _rows(s, s.embed).random(numbers)} | dict(draw(point, numbers))
    outputs = reference.mhsa_fw(values, s.heads)
    saved = {name: outputs[name].value.astype(np.float32) for name in _saved(s, "in")}
    return {name: values[name] for name in ("X", "W", "Wo")} | saved


def expected(exact: Callable[..., Any], point: Any, values: Arrays) -> dict[str, Expected]:
    return {name: near.expected for name, near in exact(values, point.heads).items()}


def macs(passes: int, point: Any) -> int:
    s = shape(point)
    return passes * s.rows * s.width * (4 * s.embed + 2 * s.length)


def emit(emitter: Callable[..., None], k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    emitter(k, team, l1, shape(point))


def forward_by_tiles(point: Any) -> Phases:
    return Phases(forward_phases(shape(point)))


def backward_by_tiles(point: Any) -> Phases:
    s = shape(point)
    return Phases(backward_phases(s), buffers(s))


IN_SINGLE = (
    Family(
        *("mhsa_fw_f32", AttentionArguments, forward, partial(expected, reference.mhsa_fw)),
        *(partial(macs, 1), partial(emit, mhsa_fw_f32)),
        draw=draw,
        phases=forward_by_tiles,
    ),
    Family(
        *("mhsa_bw_f32", AttentionArguments, backward, partial(expected, reference.mhsa_bw)),
        *(partial(macs, 2), partial(emit, mhsa_bw_f32)),
        draw=draw_backward,
        phases=backward_by_tiles,
    ),
)
FAMILIES = tuple(in_single(family, element) for element in ELEMENTS for family in IN_SINGLE)
