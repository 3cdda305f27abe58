"""How a primitive may compute: every combination of what it can be told, and is not.

method       "direct", or what else a convolution offers: a product with columns that cores make
             (im2col), or that come by DMA
rows, cols   the block of sums in registers, channels where it has a third side
unroll       steps in a round of the inner loop
split        parts of the rows and of the columns, for all cores: one way, the other, or both
is_turned    lines for columns

What is said of nothing is left to the primitive, whose own choice is a blocking too. What a layer
cannot have is none: a block with more rows than there are would be another's code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, get_origin

from autotuner.point import Items, Layer
from trainlib.conv import ops as conv2d_program
from trainlib.gemm import linear_ops, matmul_ops

Block = tuple[int, int]
BLOCKS: tuple[Block, ...] = (
    *((4, 4), (2, 4), (4, 2), (2, 2), (1, 4), (4, 1), (1, 8), (8, 1), (1, 2), (2, 1), (1, 1)),
)
"""Rows and columns of sums in registers: those of the paper."""

UNROLLS = (1, 2, 4)
CHANNELS = (1, 2, 4)
NO_LIMIT = 1 << 30

STEPS_OF_RESULT = {"fw": "y", "wg": "w", "ig": "x"}
TRANSPOSED = {"y": "x", "x": "y", "w": "w"}


class Extents(NamedTuple):
    """The extents of a layer that are blocked and partitioned.

    rows, cols, channels    sums that a block can have at most
    partitioned, others     parts that a split can have at most
    depth                   steps of the inner dimension
    is_product              are rows and columns those of a core's part, not of the whole?
    """

    rows: int = NO_LIMIT
    cols: int = NO_LIMIT
    channels: int = NO_LIMIT
    partitioned: int = NO_LIMIT
    others: int = NO_LIMIT
    depth: int = NO_LIMIT
    is_product: bool = False

    def allows(self, kernel: dict[str, Any]) -> bool:
        """Can a layer have it?"""
        split = kernel.get("split") if self.is_product else None
        height = -(-self.rows // split[0]) if split else self.rows
        width = -(-self.cols // split[1]) if split else self.cols
        return (
            kernel.get("rows", 1) <= height
            and kernel.get("cols", 1) <= width
            and kernel.get("channels", 1) <= self.channels
            and kernel.get("unroll", 1) <= max(self.depth - 1, 1)
        )


def extents(layer: Layer, method: str) -> Extents:
    """What there is of a layer by a method."""
    a = layer.checked({} if method == "direct" else {"method": method})
    step = layer.kernel.split("_")[1]
    if isinstance(a, matmul_ops.MatmulArguments):
        return _of_product(a.n, a.k, a.m)
    if isinstance(a, linear_ops.Layer):
        return _of_product(*a.product(step, lambda name: a.dims(step)[name].size))
    if isinstance(a, conv2d_program.Images):
        return _of_convolution(layer, a, step)
    return Extents()


def _of_product(rows: int, depth: int, cols: int) -> Extents:
    return Extents(rows, cols, partitioned=rows, others=cols, depth=depth, is_product=True)


def _of_convolution(layer: Layer, a: Any, step: str) -> Extents:
    shape = a.shape
    result = STEPS_OF_RESULT[step]
    if layer.kernel.startswith("tconv2d"):
        result = TRANSPOSED[result]
    places = shape.ys.outputs * shape.xs.outputs
    if a.by_columns:
        rows, words = shape.outputs, shape.inputs * shape.ys.taps * shape.xs.taps
        if result == "w":
            return _of_product(rows, places, words)
        if result == "x":
            places = shape.ys.inputs * shape.xs.inputs
            rows, words = shape.inputs, shape.outputs * shape.ys.taps * shape.xs.taps
        if shape.layout == "chw":
            return _of_product(rows, words, places)
        return _of_product(places, words, rows)
    inputs, outputs = shape.inputs // shape.groups, shape.outputs // shape.groups
    rows, channels = (inputs, outputs) if result == "x" else (outputs, inputs)
    axes = shape.ys, shape.xs
    sizes = [axis.inputs if result == "x" else axis.outputs for axis in axes]
    partitioned = rows if shape.groups == 1 else shape.groups
    others = channels if result == "w" else max(sizes)
    return Extents(rows, max(sizes), channels, partitioned, others)


def methods(layer: Layer) -> tuple[str, ...]:
    """Methods of a primitive that is not told which; "direct" if it has no others."""
    fields = layer.family.arguments.model_fields
    if "method" not in fields:
        return ("direct",)
    given = layer.given.get("method")
    return (given,) if given else get_args(fields["method"].annotation)


def blockings(layer: Layer, method: str, cores: int) -> list[Items]:
    """All blockings of a method on so many cores, the primitive's own first."""
    extent = extents(layer, method)
    choices = list(_choices(layer, method, cores, extent))
    found = (
        {name: value for part in parts for name, value in part.items()}
        for parts in product(*choices)
    )
    return [tuple(sorted(kernel.items())) for kernel in found if extent.allows(kernel)]


def _choices(
    layer: Layer, method: str, cores: int, extent: Extents
) -> Iterator[list[dict[str, Any]]]:
    """Yield, for each field that is not given, the list of its settings."""
    fields = layer.family.arguments.model_fields
    free = fields.keys() - layer.given.keys()
    if "method" in free:
        yield [_method(layer, method)]
    if {"rows", "cols"} <= free and not fields["rows"].is_required():
        yield [{}, *({"rows": r, "cols": c} for r, c in BLOCKS)]
    if "unroll" in free:
        own = fields["unroll"].default
        yield [{}, *({"unroll": n} for n in UNROLLS if n != own)]
    if "split" in free:
        yield [{}, *({"split": s} for s in _splits(fields["split"].annotation, cores, extent))]
    if "channels" in free and method == "direct":
        yield [{}, *({"channels": n} for n in CHANNELS)]
    if "is_turned" in free and method == "direct":
        yield [{}, {"is_turned": False}, {"is_turned": True}]


def _method(layer: Layer, method: str) -> dict[str, Any]:
    is_own = method == layer.family.arguments.model_fields["method"].default
    return {} if is_own else {"method": method}


def _splits(annotation: Any, cores: int, extent: Extents) -> list[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation)[1:])  # the first is the primitive's own choice
    rows, columns = (min(cores, extent.partitioned), 1), (1, min(cores, extent.others))
    both = [(r, cores // r) for r in range(cores - 1, 1, -1) if cores % r == 0]
    fitting = [(r, c) for r, c in both if r <= extent.partitioned and c <= extent.others]
    return list(dict.fromkeys([rows, *fitting, columns]))


@dataclass(frozen=True)
class PaperKernel:
    """One of the paper's kernels, numbered there from 0 to 23.

    along     what is partitioned among the cores: "rows" or "columns" of the result
    """

    rows: int
    cols: int
    along: Literal["rows", "columns"]
    unroll: int = 1

    def __str__(self) -> str:
        unrolled = f", {self.unroll} steps a round" if self.unroll > 1 else ""
        return f"{self.rows} x {self.cols} sums, {self.along} partitioned{unrolled}"

    def on(self, layer: Layer, method: str, cores: int) -> Items:
        """As a blocking of a layer: where it has no such block, the largest that is not larger."""
        extent = extents(layer, method)
        fields = layer.family.arguments.model_fields
        free = fields.keys() - layer.given.keys()
        kernel = _method(layer, method) if "method" in free else {}
        if "split" in free and get_origin(fields["split"].annotation) is Literal:
            kernel |= {"split": self.along}
        elif "split" in free:
            is_rows = self.along == "rows"
            kernel["split"] = (
                (min(cores, extent.partitioned), 1) if is_rows else (1, min(cores, extent.others))
            )
        if {"rows", "cols"} <= free and not fields["rows"].is_required():
            fitting: list[dict[str, Any]] = [
                {"rows": r, "cols": c}
                for r, c in BLOCKS
                if r <= self.rows and c <= self.cols
                and extent.allows({**kernel, "rows": r, "cols": c})
            ]  # fmt: skip
            kernel |= max(fitting, key=lambda block: block["rows"] * block["cols"])
            if "unroll" in free and extent.allows({"unroll": self.unroll}) and self.unroll > 1:
                kernel["unroll"] = self.unroll
        return tuple(sorted(kernel.items()))


PAPER_KERNELS = tuple(
    PaperKernel(r, c, along, unroll)
    for along in ("rows", "columns")
    for r, c in BLOCKS
    for unroll in ((1, 2) if (r, c) == (1, 1) else (1,))
)
