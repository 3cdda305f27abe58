"""Fully connected layers and convolutions of 1 x 1 as primitives: their three steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.elementwise.fused_update import Updating, stepped, with_update
from trainlib.gemm.depth_split import scratch_of
from trainlib.gemm.linear_arguments import (
    Layer,
    LinearForward,
    LinearGradient,
    PointwiseForward,
    PointwiseGradient,
    PointwiseLayer,
    Size,
)
from trainlib.gemm.matmul import nearly_cost
from trainlib.gemm.matmul_ops import clipped, may_be_told, timed_by
from trainlib.gemm.operands import Scale
from trainlib.primitive.element import ELEMENTS, F32, Element
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.slices import Axis, TileShape
from trainlib.primitive.tensor import WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import EACH, CodeCost, Dim, Tiling
from trainlib.reference.activations import at_least_zero
from trainlib.reference.halves import rounded_matmul, sums_in_single
from trainlib.reference.matmul import matmul

RATE = 5.0  # multiply-adds per cycle, nearly


@dataclass(frozen=True)
class Step:
    """A step of a layer.

    names      of what it reads, and of its result
    order      of the loops over tiles, those that are summed over last
    summed     those
    element    of all tensors
    """

    name: str
    names: tuple[str, str, str]
    order: tuple[str, ...]
    summed: tuple[str, ...]
    element: Element = F32

    def _dims(self, a: Layer) -> dict[str, Dim]:
        return a.in_halves(self.name) if self.element.is_half else a.dims(self.name)

    def tensors(self, a: Layer) -> Tensors:
        """Operands by name."""
        written: Role = "inout" if a.accumulate or a.added is not None else "out"
        of: dict[str, Tensor] = {}
        how, kind = a.in_l1(self.name), self.element.dtype
        if self.element.is_half and a.accumulate and a.bias and self.name == "fw":
            kernel = "pwconv2d_fw" if isinstance(a, PointwiseLayer) else "linear_fw"
            raise KernelError(
                f"{kernel}_{self.element.name}: accumulate with a bias; use one of them, or "
                f"{kernel}_f32"
            )
        for name, shape in zip(self.names, self._of(a.image, a.inputs, a.outputs), strict=True):
            role: Role = written if name == self.names[2] else "in"
            joined = a.joined if self.element.is_half and len(shape) > 2 else 1
            of[name] = Tensor(shape, role, kind, **how.get(name, {}), joined=joined)
        if a.bias and self.name == "fw":
            of["bias"] = Tensor((a.outputs,), dtype=kind)
        elif a.bias and self.name == "wg":
            of["dbias"] = Tensor((a.outputs,), written)
        return of | ({"scale": Tensor((1,))} if a.added == "operand" else {})

    def _of(self, image: Callable, inputs: Any, outputs: Any) -> tuple[Any, Any, Any]:
        """What holds for each operand, given what holds for images and channels."""
        x, w, y = image(inputs), (outputs, inputs), image(outputs)
        return {"fw": (x, w, y), "wg": (y, x, w), "ig": (y, w, x)}[self.name]

    def tiling(self, a: Layer) -> Tiling:
        """How it is cut; a gradient of a bias that is added to, not along other channels; what is
        added whole, not along the batch.
        """
        is_added_once = self.name == "wg" and a.bias and a.is_added
        kept = {"ci"} if is_added_once else set()
        kept |= {"n"} if a.added is not None else set()
        is_half = self.element.is_half
        kept |= a.uncut(self.name) if is_half else set()
        opens = is_half and a.opens(self.name)
        dims = {n: d for n, d in self._dims(a).items() if n not in kept}
        axes = self._of(a.axes, "ci", "co")
        boxes: dict[str, tuple[Axis, ...]] = {
            name: tuple(None if axis in kept else axis for axis in of)
            for name, of in zip(self.names, axes, strict=True)
        }
        if a.added == "operand":
            boxes["scale"] = (None,)
        if a.bias and self.name != "ig":
            boxes["bias" if self.name == "fw" else "dbias"] = ("co",)
        rows = {n for n, how in a.in_l1(self.name).items() if how.keys() & {"skew", "pad"}}
        whole = a.product(self.name, lambda name: a.dims(self.name)[name].size)
        n, depth, m = whole
        is_apart = isinstance(a, PointwiseLayer) and (self.name != "wg" or a.batch > 1)
        has_parts = not (is_half or is_apart or a.added is not None)
        parts = scratch_of(n, m, depth) if has_parts else 0

        def size_of(tile: TileShape) -> Size:
            return lambda name: tile[name] if name in dims else a.dims(self.name)[name].size

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            size = size_of(tile)
            part = a.product(self.name, size)
            how = a.point if part == whole else clipped(a.point, part)
            how["accumulate"] = a.accumulate or not tile.is_first
            if tile.is_grown:
                how["told"] = at[EACH]
            if opens:
                how |= {"begins": tile.is_first, "ends": tile.is_last, "accumulate": a.accumulate}
                how |= {"sums": at["sums"], "dw_row": tile.part(self.names[2]).row}
            if self.name == "wg":
                how["dbias"] = at.get("dbias")
                if a.added is not None:
                    value = None if a.added == "operand" else float(a.added)
                    how["scale"] = Scale(value, at.get("scale"))
            elif self.name == "fw":
                how["bias"] = None if not tile.is_first else at.get("bias")
                how["relu"] = a.clips and tile.is_last
            how |= {a.lines[name]: tile.part(name).row for name in rows}
            if is_half:
                how["element"] = self.element
            if parts:
                how["parts"] = at["parts"]
            a.emit(self.name, size, k, team, *(at[name] for name in self.names), **how)

        def cost(tile: TileShape) -> CodeCost:
            images, sizes = a.products(self.name, size_of(tile))
            starts = a.accumulate or a.bias and self.name == "fw" or not tile.is_first
            starts |= told is not None and tile[told] < dims[told].size
            of = *sizes, a.likely_cores
            how = {"starts": starts, "has_parts": parts > 0, **a.stored(self.name)}
            of_one = nearly_cost(*of, **how)
            return of_one._replace(cycles=images * of_one.cycles)

        cut = (replace(dims[n], is_summed=n in self.summed) for n in self.order if n in dims)
        is_plain = not (isinstance(a, PointwiseLayer) or a.bias or a.clips or a.added is not None)
        has_told = is_plain and not parts and may_be_told(a.point, self.element)
        told = self.summed[0] if has_told else None
        streams = a.streams(self.name) and not is_half
        how_cut: Any = {"streams": streams, "tells_last": a.clips or opens}
        how_cut |= {"rest_first": not is_half, "told": told}
        if opens:
            how_cut["scratch"] = lambda tile: {
                "sums": WORD * tile["co"] * (tile["ci"] if "ci" in dims else a.inputs)
            }
        if parts:
            how_cut["scratch"] = lambda _: {"parts": parts}
        if not streams and a.places > 1:
            how_cut |= timed_by(cost, a.point, self.element)
        rate = RATE
        if isinstance(a, PointwiseLayer):  # tiles have all places of a line, or some
            rate *= WORD / self.element.size / (1 if a.is_wide else a.width)
        return Tiling(tuple(cut), boxes, emit, rate=rate, **how_cut)

    def expected(self, a: Layer, values: Arrays) -> dict[str, Expected]:
        """What it means."""
        images = ("X", "Y", "dX", "dY")
        of = {n: a.matrix(v).astype(np.float64) if n in images else v for n, v in values.items()}
        first, second, result = self.names
        starts = of.get("bias"), of.get(result) if a.accumulate else None
        u, v = of[first], of[second]
        if self.element.is_half:
            return dict(self._rounded(a, of))
        if a.added is not None:
            return self._added(a.added, of)
        if self.name == "wg":
            results = {result: matmul(u.T, v, *starts)}
            if a.bias:
                held = of.get("dbias") if a.accumulate else None
                exact, bound = matmul(np.ones((1, len(u))), u, held)
                results["dbias"] = exact[0], np.asarray(bound)[0]
            return results
        product = matmul(u, v.T if self.name == "fw" else v, *starts)
        exact, bound = at_least_zero(product) if a.clips else product
        return {result: (a.from_matrix(exact), a.from_matrix(np.asarray(bound)))}

    def _added(self, scale: float | str, of: Arrays) -> dict[str, Expected]:
        """What whole gradients are added to."""
        dy, x = of["dY"], of["X"]
        gradients = {"dW": matmul(dy.T, x)}
        if "dbias" in of:
            gradients["dbias"] = matmul(np.ones((1, len(dy))), dy)
        return stepped(scale, gradients, of)

    def _rounded(self, a: Layer, of: Arrays) -> Iterator[tuple[str, Expected]]:
        """What it means in halves: every sum is rounded, in the kernel's order."""
        kind = self.element.dtype
        u, v = (of[name] for name in self.names[:2])
        u, v = {"fw": (u, v.T), "wg": (u.T, v), "ig": (u, v)}[self.name]
        start = of.get(self.names[2]) if a.accumulate else of.get("bias")
        in_halves = self.name == a.paired
        sums = rounded_matmul(kind, u, v, start, in_halves and (a.period or a.inputs) > 1, a.period)
        yield self.names[2], (sums if self.name == "wg" else a.from_matrix(sums), 0.0)
        if a.bias and self.name == "wg":
            held = of["dbias"] if a.accumulate else None
            yield "dbias", (sums_in_single(of["dY"], held), 0.0)

    def family(self, name: str, arguments: type[Layer]) -> Family:
        """The step of a kind of layer."""
        family = Family(
            f"{name}_{self.name}_{self.element.name}",
            arguments,
            self.tensors,
            self.expected,
            lambda a: a.inputs * a.outputs * a.places,
            tiling=self.tiling,
        )
        return with_update(family, ("dW", "dbias")) if issubclass(arguments, Updating) else family


STEPS = (
    Step("fw", ("X", "W", "Y"), ("n", "y", "x", "co", "ci"), ("ci",)),
    Step("wg", ("dY", "X", "dW"), ("co", "ci", "n", "y", "x"), ("n", "y", "x")),
    Step("ig", ("dY", "W", "dX"), ("n", "y", "x", "ci", "co"), ("co",)),
)
LAYERS: dict[str, tuple[type[Layer], ...]] = {
    "linear": (LinearForward, LinearGradient, Layer),
    "pwconv2d": (PointwiseForward, PointwiseGradient, PointwiseLayer),
}
HALVES: dict[str, type[Layer]] = {"linear": Layer, "pwconv2d": PointwiseLayer}
FAMILIES = tuple(
    step.family(name, arguments)
    for name, steps in LAYERS.items()
    for step, arguments in zip(STEPS, steps, strict=True)
) + tuple(
    replace(step, element=element).family(name, arguments)
    for name, arguments in HALVES.items()
    for element in ELEMENTS
    if element.is_half
    for step in STEPS
)
