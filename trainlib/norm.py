"""Batch, instance, group, layer and RMS norm, forward and backward, as primitives.

    batch       means over batch and places, for each channel; frozen: the running means instead
    instance    over places, for each image and channel
    group       over places and the channels of a group, for each image and group
    layer, RMS  over the columns of each row

x is [b, c, hw] or, layout "hwc", [b, hw, c]; rows are [rows, columns].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib import kernels, normalise
from trainlib.kernels import WORD, Addresses, Arrays, Expected, Family, Role, Tensor, Tensors
from trainlib.maps import no_macs
from trainlib.nest import UNROLL
from trainlib.norm_phases import Layout as RowLayout
from trainlib.norm_phases import (
    backward_phases,
    between,
    forward_phases,
    frozen_forward_phases,
)
from trainlib.normalise import How, View
from trainlib.phases import emit_phases
from trainlib.reference import norm as reference
from trainlib.rows import PARTIALS, SCRATCH, Split
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, TileShape, Window

Layout = Literal["chw", "hwc"]
Shape = tuple[int, int, int]
"""Images, channels, places."""


def _steps(shape: Shape, layout: Layout) -> tuple[int, int, int]:
    """Bytes from image to image, from channel to channel, from place to place."""
    _, c, hw = shape
    return WORD * c * hw, *((WORD * hw, WORD) if layout == "chw" else (WORD, WORD * c))


def batch_view(shape: Shape, layout: Layout) -> View:
    (b, c, hw), (image, channel, place) = shape, _steps(shape, layout)
    one = (WORD,), (0, 0)
    return View((c,), (b, hw), ((channel,), (image, place)), one, one)


def instance_view(shape: Shape, layout: Layout, *, is_ordered: bool) -> View:
    """is_ordered: for gradients of gamma, which are a channel's."""
    (b, c, hw), (image, channel, place) = shape, _steps(shape, layout)
    gamma, means = ((WORD, 0), (0,)), ((WORD, WORD * c), (0,))
    return View((c, b), (hw,), ((channel, image), (place,)), gamma, means, is_ordered)


def group_view(shape: Shape, layout: Layout, groups: int) -> View:
    (b, c, hw), (image, channel, place) = shape, _steps(shape, layout)
    size = c // groups
    x, gamma = ((image, size * channel), (channel, place)), ((0, WORD * size), (WORD, 0))
    return View((b, groups), (size, hw), x, gamma, ((WORD * groups, WORD), (0, 0)))


def group_parameters(shape: Shape, layout: Layout, groups: int) -> View:
    (b, c, hw), (image, channel, place) = shape, _steps(shape, layout)
    size = c // groups
    x, gamma = ((size * channel, channel), (image, place)), ((WORD * size, WORD), (0, 0))
    return View((groups, size), (b, hw), x, gamma, ((WORD, 0), (WORD * groups, 0)))


def layer_view(rows: int, columns: int) -> View:
    x = (WORD * columns,), (WORD,)
    return View((rows,), (columns,), x, ((0,), (WORD,)), ((WORD,), (0,)))


def layer_parameters(rows: int, columns: int) -> View:
    x = (WORD,), (WORD * columns,)
    return View((columns,), (rows,), x, ((WORD,), (0,)), ((0,), (WORD,)))


class MapArguments(kernels.Arguments):
    """x[b, c, hw] or, layout "hwc", x[b, hw, c]: images, channels, places.

    tile      of c; what a mean is of is cut too, in several passes, where hw or b are given (groups
              and size of their channels for groupnorm), or no tile fits
    split     what is dealt out: rows, parts of each row ("columns"), or what takes less time
    unroll    elements that are computed side by side, if registers allow
    """

    b: PositiveInt = 1
    c: PositiveInt
    hw: PositiveInt
    layout: Layout = "chw"
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)
    split: Split = "auto"
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def dims(self) -> Shape:
        return self.b, self.c, self.hw

    @property
    def shape(self) -> tuple[int, ...]:
        return self.dims if self.layout == "chw" else (self.b, self.hw, self.c)


class BatchArguments(MapArguments):
    """momentum    of the running means: how much of them is new"""

    momentum: float = Field(0.1, ge=0, le=1)


class GroupArguments(MapArguments):
    """groups    of channels; a divisor of c"""

    groups: PositiveInt


class RowArguments(kernels.Arguments):
    """x[rows, columns].

    tile    of rows; rows are cut, in several passes, where columns are given, or no row fits
    """

    rows: PositiveInt
    columns: PositiveInt
    eps: float = Field(1e-5, gt=0, allow_inf_nan=False)
    split: Split = "auto"
    unroll: int = Field(UNROLL, ge=1, le=8)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows, self.columns


@dataclass(frozen=True)
class Norm:
    """One of the normalisations.

    view, parameters    rows of means; and of gamma's gradient, where they are not the same
    split               shape of x with all that is an axis on its own: channels before places
    axes, gamma_axes    of that shape: those that a mean goes over, those of gamma
    """

    name: str
    arguments: type[Any]
    view: Callable[[Any, bool], View]
    split: Callable[[Any], tuple[int, ...]]
    axes: tuple[int, ...]
    gamma_axes: tuple[int, ...]
    parameters: Callable[[Any], View] | None = None
    is_centred: bool = True
    is_frozen: bool = False

    @property
    def has_running(self) -> bool:
        """Has it running means?"""
        return self.name.startswith("batch")

    def how(self, point: Any) -> How:
        return How(point.eps, self.is_centred, point.split, point.unroll)

    # Tensors and their axes

    def wide(self, point: Any, x: np.ndarray) -> np.ndarray:
        """A tensor like x with all axes."""
        is_hwc = getattr(point, "layout", "chw") == "hwc"
        return (x.swapaxes(1, 2) if is_hwc else x).reshape(self.split(point))

    def narrow(self, point: Any, result: Expected) -> Expected:
        """The opposite, of values and errors."""
        is_hwc = getattr(point, "layout", "chw") == "hwc"
        dims = point.dims if is_hwc else point.shape
        arrays = [np.broadcast_to(a, self.split(point)).reshape(dims) for a in result]
        exact, bound = [a.swapaxes(1, 2) for a in arrays] if is_hwc else arrays
        return exact, bound

    def kept(self, point: Any, axes: tuple[int, ...], *, others: bool = False) -> tuple[int, ...]:
        """The shape with only these axes, or only the others, above 1."""
        return tuple(
            n if (axis in axes) != others else 1 for axis, n in enumerate(self.split(point))
        )

    def spread(self, point: Any, name: str, value: np.ndarray) -> np.ndarray:
        """Any input with all axes."""
        if name in ("x", "dy"):
            return self.wide(point, value)
        if name in ("mean", "rstd"):
            return value.reshape(self.kept(point, self.axes, others=True))
        return value.reshape(self.kept(point, self.gamma_axes))

    def gammas(self, point: Any) -> tuple[int, ...]:
        return (prod(self.kept(point, self.gamma_axes)),)

    def means(self, point: Any) -> tuple[int, ...]:
        return tuple(n for axis, n in enumerate(self.split(point)) if axis not in self.axes)

    # Families

    def forward(self) -> Family:
        running = ("running_mean", "running_var") if self.has_running else ()

        def tensors(point: Any) -> Tensors:
            gamma, mean = self.gammas(point), self.means(point)
            role: Role = "in" if self.is_frozen else "inout"
            self._refuse(point)
            return {
                "x": Tensor(point.shape),
                "gamma": Tensor(gamma),
                **({"beta": Tensor(gamma)} if self.is_centred else {}),
                **{name: Tensor(gamma, role) for name in running},
                "y": Tensor(point.shape, "out"),
                **({"mean": Tensor(mean, "out")} if self.is_centred and not self.is_frozen else {}),
                **({} if self.is_frozen else {"rstd": Tensor(mean, "out")}),
                "partials": PARTIALS,
            }

        def expected(point: Any, values: Arrays) -> dict[str, Expected]:
            x = {name: self.spread(point, name, value) for name, value in values.items()}
            beta = x.get("beta", np.zeros(()))
            given = x["x"], x["gamma"], beta
            if self.is_frozen:
                stats = x["running_mean"], x["running_var"]
                y = reference.frozen_forward(*given, *stats, point.eps)
                return {"y": self.narrow(point, y)}
            y, mean, rstd, variance = reference.forward(
                *given, self.axes, point.eps, self.is_centred
            )
            results = {"y": self.narrow(point, y)}
            if running:
                n = self.view(point, False).count
                new = {"running_mean": (mean, 1.0), "running_var": (variance, n / max(n - 1, 1))}
                for name, (value, factor) in new.items():
                    result = reference.run_on(x[name], value, point.momentum, factor)
                    results[name] = _flat(result, self.gammas(point))
            if self.is_centred:
                results["mean"] = _flat(mean, self.means(point))
            return results | {"rstd": _flat(rstd, self.means(point))}

        def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
            view = self.view(point, False)
            if self.is_frozen:
                normalise.frozen_forward(k, team, view, l1, self.how(point))
            else:
                momentum = point.momentum if running else None
                normalise.forward(k, team, view, l1, self.how(point), momentum)

        def draw(point: Any, numbers: np.random.Generator) -> Arrays:
            """Variances are not negative."""
            var = numbers.standard_normal(self.gammas(point), np.float32) ** 2
            return {"running_var": var} if running else {}

        name = f"{self.name}_fw_f32"

        def emit_l2(k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
            layout, how = self.layout(point), self.how(point)
            if self.is_frozen:
                phases = frozen_forward_phases(layout, how)
            else:
                phases = forward_phases(layout, how, point.momentum if running else None)
            tile = point.tile or {}
            emit_phases(k, team, phases, l2, {}, tile, point.buffers, is_warm=point.warm)

        of = name, self.arguments, tensors, expected, no_macs, emit
        family = Family(*of, draw=draw, emit_l2=emit_l2)
        return self._tiled(family, is_summed=False)

    def backward(self) -> Family:
        stats: tuple[str, ...] = ("mean", "rstd") if self.is_centred else ("rstd",)
        stats = ("running_mean", "running_var") if self.is_frozen else stats
        gradients = ("dgamma", "dbeta") if self.is_centred else ("dgamma",)

        def tensors(point: Any) -> Tensors:
            self._refuse(point)
            gamma, mean = self.gammas(point), self.means(point)
            return {
                "x": Tensor(point.shape),
                "dy": Tensor(point.shape),
                "gamma": Tensor(gamma),
                **{name: Tensor(mean) for name in stats},
                "dx": Tensor(point.shape, "out"),
                **{name: Tensor(gamma, "out") for name in gradients},
                "partials": PARTIALS,
            }

        def expected(point: Any, values: Arrays) -> dict[str, Expected]:
            x = {name: self.spread(point, name, value) for name, value in values.items()}
            given, axes = (x["x"], x["dy"], x["gamma"]), (self.axes, self.gamma_axes)
            if self.is_frozen:
                rstd = 1 / np.sqrt(x["running_var"].astype(np.float64) + point.eps)
                results = reference.backward(*given, x["running_mean"], rstd, *axes, True)
            elif self.is_centred:
                results = reference.backward(*given, x["mean"], x["rstd"], *axes)
            else:
                results = reference.rms_backward(*given, x["rstd"], *axes)
            dx, *others = results
            flat = (_flat(other, self.gammas(point)) for other in others)
            return {"dx": self.narrow(point, dx), **dict(zip(gradients, flat, strict=True))}

        def emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
            how, view = self.how(point), self.view(point, True)
            if self.parameters:
                normalise.backward(k, team, view, self.parameters(point), l1, how)
            else:
                normalise.backward_by_row(k, team, view, l1, how, is_frozen=self.is_frozen)

        def draw(point: Any, numbers: np.random.Generator) -> Arrays:
            """The means of x."""
            x = numbers.standard_normal(point.shape, np.float32)
            wide = self.wide(point, x.astype(np.float64))
            mean = wide.mean(self.axes, keepdims=True) * self.is_centred
            variance = ((wide - mean) ** 2).mean(self.axes, keepdims=True)
            root = variance if self.is_frozen else 1 / np.sqrt(variance + point.eps)
            drawn = dict(zip(stats[::-1], (root, mean), strict=False))
            shape = self.means(point)
            return {"x": x} | {n: a.reshape(shape).astype(np.float32) for n, a in drawn.items()}

        name = f"{self.name}_bw_f32"

        def emit_l2(k: Kernel, team: Team, point: Any, l2: Mapping[str, int]) -> None:
            layout, how = self.layout(point), self.how(point)
            phases = backward_phases(layout, how, is_frozen=self.is_frozen)
            way = between(layout, how), point.tile or {}, point.buffers
            emit_phases(k, team, phases, l2, *way, is_warm=point.warm)

        of = name, self.arguments, tensors, expected, no_macs, emit
        family = Family(*of, draw=draw, emit_l2=emit_l2)
        return self._tiled(family, is_summed=self.has_rows)

    def layout(self, point: Any) -> RowLayout:
        """Its tensors, where rows are cut."""
        if self.has_rows:
            sizes = {"rows": point.rows, "columns": point.columns}
            return RowLayout(sizes, ("rows",), ("columns",))
        channels = {"c": point.c}
        kept: tuple[str, ...] = ("c",)
        gamma: tuple[str, ...] = ("c",)
        if self.parameters:
            channels = {"groups": point.groups, "size": point.c // point.groups}
            kept, gamma = ("b", "groups"), ("groups", "size")
        elif self.name == "instancenorm":
            kept = ("b", "c")
        parts = [{"b": point.b}, channels, {"hw": point.hw}]
        if point.layout == "hwc":
            parts = [parts[0], parts[2], parts[1]]
        return RowLayout({n: size for part in parts for n, size in part.items()}, kept, gamma)

    @property
    def has_rows(self) -> bool:
        """Are its tensors rows? They share gamma."""
        return self.arguments is RowArguments

    def _tiled(self, family: Family, *, is_summed: bool) -> Family:
        """Tiles of whole channels, whole groups of them, or whole rows.

        is_summed    gradients are sums over rows
        """

        def dims(point: Any) -> list[Dim]:
            if self.has_rows:
                return [Dim("rows", point.rows, is_summed=is_summed)]
            return [Dim("c", point.groups if self.parameters else point.c)]

        def boxes(point: Any) -> dict[str, list[Axis]]:
            size = point.c // point.groups if self.parameters and not self.has_rows else 1
            channels: Axis = "c" if size == 1 else Window("c", kernel=size, stride=size)
            found: dict[str, list[Axis]] = {}
            no_more: list[Axis] = [None]
            for name, tensor in family.tensors(point).items():
                if tensor.role == "scratch":
                    continue
                is_x, is_mean = name in ("x", "y", "dx", "dy"), name in ("mean", "rstd")
                if self.has_rows:
                    row: Axis = "rows" if is_x or is_mean else None
                    found[name] = [row, *no_more] if is_x else [row]
                elif is_x:
                    found[name] = [None, channels, None]
                    if point.layout == "hwc":
                        found[name] = [None, None, channels]
                elif is_mean:
                    found[name] = [*no_more * (len(tensor.shape) - 1), "c"]
                else:
                    found[name] = [channels]
            return found

        def smaller(point: Any, shape: TileShape) -> dict[str, Any]:
            if self.has_rows:
                return {"rows": shape["rows"]}
            if not self.parameters:
                return {"c": shape["c"]}
            return {"c": shape["c"] * (point.c // point.groups), "groups": shape["c"]}

        def emit_part(
            k: Kernel, team: Team, _: Any, part: Any, shape: TileShape, l1: Addresses
        ) -> None:
            assert self.parameters is not None
            views = self.view(part, True), self.parameters(part)
            normalise.backward(k, team, *views, l1, self.how(part), adds=not shape.is_first)

        emit = emit_part if is_summed else None
        return tiled(family, dims, boxes, smaller, SCRATCH, emit)

    def _refuse(self, point: Any) -> None:
        groups = getattr(point, "groups", 1)
        if groups > 1 and point.c % groups:
            raise KernelError(f"{self.name}: c {point.c} is no multiple of groups {groups}")
        if self.name == "batchnorm" and point.b * point.hw == 1:
            raise KernelError("batchnorm: b 1 and hw 1 give one value a channel, no variance")


def _flat(result: Expected, shape: tuple[int, ...]) -> Expected:
    exact, bound = (np.reshape(a, shape) for a in result)
    return exact, bound


def _groups(point: Any) -> tuple[int, ...]:
    b, c, hw = point.dims
    return b, point.groups, c // point.groups, hw


def _dims(point: Any) -> Shape:
    return point.dims


def _row_shape(point: Any) -> tuple[int, ...]:
    return point.shape


def _batch(point: Any, _: bool) -> View:
    return batch_view(point.dims, point.layout)


def _instance(point: Any, is_backward: bool) -> View:
    return instance_view(point.dims, point.layout, is_ordered=is_backward)


def _group(point: Any, _: bool) -> View:
    return group_view(point.dims, point.layout, point.groups)


def _group_parameters(point: Any) -> View:
    return group_parameters(point.dims, point.layout, point.groups)


def _layer(point: Any, _: bool) -> View:
    return layer_view(*point.shape)


def _layer_parameters(point: Any) -> View:
    return layer_parameters(*point.shape)


BY_CHANNEL = (_batch, _dims, (0, 2), (1,))
BY_ROW = (_layer, _row_shape, (1,), (1,), _layer_parameters)
NORMS = (
    Norm("batchnorm", BatchArguments, *BY_CHANNEL),
    Norm("batchnorm_frozen", MapArguments, *BY_CHANNEL, is_frozen=True),
    Norm("instancenorm", MapArguments, _instance, _dims, (2,), (1,)),
    Norm("groupnorm", GroupArguments, _group, _groups, (2, 3), (1, 2), _group_parameters),
    Norm("layernorm", RowArguments, *BY_ROW),
    Norm("rmsnorm", RowArguments, *BY_ROW, is_centred=False),
)
FAMILIES = tuple(family for norm in NORMS for family in (norm.forward(), norm.backward()))
