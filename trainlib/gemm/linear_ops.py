"""Fully connected layers and convolutions of 1 x 1 as primitives: their three steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.boxes import Axis, TileShape
from trainlib.primitive.family import Expected, Family
from trainlib.primitive.tensor import Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tiling import Tiling
from trainlib.product.linear_layers import Layer, LinearGradient, PointwiseLayer
from trainlib.product.matmul_program import clipped
from trainlib.product.operands import Scale
from trainlib.reference.act import bounded
from trainlib.reference.bounds import ROUNDING
from trainlib.reference.matmul import matmul

RATE = 5.0  # multiply-adds per cycle, nearly


@dataclass(frozen=True)
class Step:
    """A step of a layer.

    names     of what it reads, and of its result
    order     of the loops over tiles, those that are summed over last
    summed    those
    """

    name: str
    names: tuple[str, str, str]
    order: tuple[str, ...]
    summed: tuple[str, ...]

    def tensors(self, a: Layer) -> Tensors:
        """Operands by name."""
        written: Role = "inout" if a.accumulate or a.added is not None else "out"
        of: dict[str, Tensor] = {}
        how = a.in_l1(self.name)
        for name, shape in zip(self.names, self._of(a.image, a.inputs, a.outputs), strict=True):
            role: Role = written if name == self.names[2] else "in"
            of[name] = Tensor(shape, role, **how.get(name, {}))
        if a.bias and self.name == "fw":
            of["bias"] = Tensor((a.outputs,))
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
        is_added_once = self.name == "wg" and a.bias and (a.accumulate or a.added is not None)
        kept = {"ci"} if is_added_once else set()
        kept |= {"n"} if a.added is not None else set()
        dims = {n: d for n, d in a.dims(self.name).items() if n not in kept}
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

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            def size(name: str) -> int:
                return tile[name] if name in dims else a.dims(self.name)[name].size

            part = a.product(self.name, size)
            how = a.point if part == whole else clipped(a.point, part)
            how["accumulate"] = a.accumulate or not tile.is_first
            if self.name == "wg":
                how["dbias"] = at.get("dbias")
                if a.added is not None:
                    value = None if a.added == "operand" else float(a.added)
                    how["scale"] = Scale(value, at.get("scale"))
            elif self.name == "fw":
                how["bias"] = None if not tile.is_first else at.get("bias")
            how |= {a.lines[name]: tile.part(name).row for name in rows}
            a.emit(self.name, size, k, team, *(at[name] for name in self.names), **how)

        cut = (replace(dims[n], is_summed=n in self.summed) for n in self.order if n in dims)
        return Tiling(tuple(cut), boxes, emit, rate=RATE, streams=a.streams(self.name))

    def expected(self, a: Layer, values: Arrays) -> dict[str, Expected]:
        """What it means."""
        images = ("X", "Y", "dX", "dY")
        of = {n: a.matrix(v).astype(np.float64) if n in images else v for n, v in values.items()}
        first, second, result = self.names
        starts = of.get("bias"), of.get(result) if a.accumulate else None
        u, v = of[first], of[second]
        if a.added is not None:
            return dict(self._added(a, of))
        if self.name == "wg":
            results = {result: matmul(u.T, v, *starts)}
            if a.bias:
                held = of.get("dbias") if a.accumulate else None
                exact, bound = matmul(np.ones((1, len(u))), u, held)
                results["dbias"] = exact[0], np.asarray(bound)[0]
            return results
        exact, bound = matmul(u, v.T if self.name == "fw" else v, *starts)
        return {result: (a.from_matrix(exact), a.from_matrix(np.asarray(bound)))}

    def _added(self, a: Layer, of: Arrays) -> Iterator[tuple[str, Expected]]:
        """What whole gradients are added to: they are rounded once or twice, and the sum once."""
        dy, x = of["dY"], of["X"]
        scale = float(of["scale"][0]) if a.added == "operand" else float(a.added or 0)
        ones = np.ones((1, len(dy)))
        gradients = {"dW": matmul(dy.T, x), **({"dbias": matmul(ones, dy)} if a.bias else {})}
        for name, (exact, bound) in gradients.items():
            step = (scale * exact).reshape(of[name].shape)
            rounding = abs(scale) * np.asarray(bound).reshape(step.shape) / ROUNDING
            yield name, bounded(of[name] + step, of[name], 3 * step, rounding)

    def family(self, name: str, arguments: type[Layer]) -> Family:
        """The step of a kind of layer."""
        return Family(
            f"{name}_{self.name}_f32",
            arguments,
            self.tensors,
            self.expected,
            lambda a: a.inputs * a.outputs * a.places,
            tiling=self.tiling,
        )


STEPS = (
    Step("fw", ("X", "W", "Y"), ("n", "y", "x", "co", "ci"), ("ci",)),
    Step("wg", ("dY", "X", "dW"), ("co", "ci", "n", "y", "x"), ("n", "y", "x")),
    Step("ig", ("dY", "W", "dX"), ("n", "y", "x", "ci", "co"), ("co",)),
)
LAYERS: tuple[tuple[str, type[Layer]], ...] = (("linear", Layer), ("pwconv2d", PointwiseLayer))
FAMILIES = tuple(
    step.family(name, LinearGradient if (name, step.name) == ("linear", "wg") else arguments)
    for name, arguments in LAYERS
    for step in STEPS
)
