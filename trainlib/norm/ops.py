"""Normalisations as primitives, forward and backward."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.elementwise.elementwise import no_macs, packed
from trainlib.norm import resident
from trainlib.norm.phases import NormPhases
from trainlib.norm.row_norm import OF_CHANNELS, How
from trainlib.norm.variants import (
    LIKE_X,
    NORMS,
    Axes,
    BatchArguments,
    Layout,
    MapArguments,
    Norm,
    RowArguments,
)
from trainlib.primitive.element import ELEMENTS
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import Axis, Sized, TileShape, Window
from trainlib.primitive.tensor import WORD, Addresses, Arrays, Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim
from trainlib.primitive.uniform_tiles import tiled
from trainlib.reduction.row_reduction import PARTIALS, SCRATCH
from trainlib.reference import norm as reference
from trainlib.reference.activations import at_least_zero
from trainlib.reference.halves import rounded_once

RUNNING = ("running_mean", "running_var")
FORWARD, SHIFTED, PAIRS, APPLIED, BACKWARD, SUMS = 10, 9, 8, 4, 11, 6  # cycles an element, about


@dataclass(frozen=True)
class Step:
    """A direction of a normalisation."""

    norm: Norm

    def how(self, point: Any) -> How:
        """What is computed, where rows are whole."""
        norm = self.norm
        momentum, relu = getattr(point, "momentum", None), getattr(point, "relu", False)
        in_pairs = norm.layout(point).in_pairs
        return How(
            point.eps, norm.is_centred, norm.is_frozen, momentum, relu=relu, in_pairs=in_pairs
        )

    def shapes(self, point: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of means and of gamma."""
        layout = self.norm.layout(point)
        means, gamma = (layout.shape(axes) for axes in (layout.means, layout.gamma))
        return means, (prod(gamma),)

    def like_x(self, point: Any, role: Role = "in") -> Tensor:
        """A tensor of x's shape and type."""
        return packed(point.shape, role, self.norm.element)

    def centred(self, *names: str) -> tuple[str, ...]:
        """Those that RMS norm does not have."""
        return names if self.norm.is_centred else ()

    @abstractmethod
    def tensors(self, point: Any) -> Tensors:
        """Operands by name."""

    @abstractmethod
    def results(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """What it means, of arrays with all axes."""

    @abstractmethod
    def clipped(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """It with a ReLU."""

    @abstractmethod
    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """Inputs that are not just any."""

    @abstractmethod
    def emit(self, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        """Emit it, all in L1."""

    @abstractmethod
    def phases(self, phases: NormPhases) -> tuple[list[Phase], dict[str, int]]:
        """Where rows are larger than L1: passes, and bytes of buffers between them."""

    def expected(self, point: Any, values: Arrays) -> dict[str, Expected]:
        """What it means."""
        layout, tensors = self.norm.layout(point), self.tensors(point)
        spread = {n: layout.spread(n, a) for n, a in values.items()}
        if getattr(point, "relu", False):
            results = self.clipped(point, spread)
        else:
            results = self.results(point, spread)
        found = {n: layout.gather(n, r, tensors[n].shape) for n, r in results.items()}
        wide = {n: r for n, r in found.items() if n in LIKE_X}
        return found if layout.in_pairs else found | rounded_once(self.norm.element.dtype, wide)

    def in_pairs(self, layout: Layout, y: Expected, *given: Any) -> Expected:
        """y, computed two at a time or one by one."""
        if not layout.in_pairs:
            return y
        count = None if self.norm.is_frozen else layout.count
        return reference.applied_in_pairs(y, *given, dtype=self.norm.element.dtype, count=count)

    def passes(self, point: Any) -> Phases:
        """Of rows that are cut."""
        layout = self.norm.layout(point)
        return Phases(
            *self.phases(NormPhases(layout, replace(self.how(point), count=layout.count)))
        )

    def family(self, direction: str) -> Family:
        """Tiles are whole channels, whole groups of them, or whole rows."""
        of = self.norm.arguments, self.tensors, self.expected, no_macs, self.emit
        name = f"{self.norm.name}_{direction}_{self.norm.element.name}"
        family = Family(name, *of, draw=self.draw, phases=self.passes)
        how = _smaller, self.scratch, self.emit_part
        return tiled(family, self.dims, self.boxes, *how, work=self.work)

    def scratch(self, point: Any, sizes: Sized) -> dict[str, Any]:
        """Bytes of further buffers of a tile."""
        return dict(SCRATCH)

    def work(self, point: Any) -> Callable[[Sized], Any]:
        """Cycles of a tile, about, given its size."""
        [dim] = self.dims(point)
        cores = point.likely_cores

        def cycles(size: float) -> float:
            part = point.model_copy(update=_smaller(point, {dim.name: int(size)}))
            layout = self.norm.layout(part)
            return sum(layout.cycles(cores, *view) for view in self.views(layout))

        return lambda sizes: np.vectorize(cycles, otypes=[float])(sizes[dim.name])

    @abstractmethod
    def views(self, layout: Layout) -> list[tuple[Axes, int, int]]:
        """Axes of the rows that it goes over, how often they are reduced, cycles of an element."""

    def dims(self, point: Any) -> list[Dim]:
        """What is cut."""
        if self.norm.arguments is RowArguments:
            return [Dim("rows", point.rows)]
        return [Dim("c", getattr(point, "groups", point.c))]

    def boxes(self, point: Any) -> dict[str, list[Axis]]:
        """What a tile has of each tensor."""
        layout = self.norm.layout(point)
        tensors = [n for n, tensor in self.tensors(point).items() if tensor.role != "scratch"]
        return {name: _box(layout.axes(name), layout.sizes) for name in tensors}

    def emit_part(
        self, k: Kernel, team: Team, _: Any, part: Any, tile: TileShape, l1: Addresses
    ) -> None:
        """Emit a tile."""
        self.emit(k, team, part, l1)


def _clipped(results: dict[str, Expected]) -> dict[str, Expected]:
    """y = max(0, y)."""
    return results | {"y": at_least_zero(results["y"])}


def _box(axes: Axes, sizes: Mapping[str, int]) -> list[Axis]:
    box: list[Axis] = []
    for axis in axes:
        if axis != "size":
            box.append({"rows": "rows", "c": "c", "groups": "c"}.get(axis))
        elif sizes[axis] > 1:  # channels of a group are no axis of their own
            box[-1] = Window("c", kernel=sizes[axis], stride=sizes[axis])
    return box


def _smaller(point: Any, tile: TileShape | Mapping[str, int]) -> dict[str, Any]:
    if isinstance(point, RowArguments):
        return {"rows": tile["rows"]}
    if "groups" in type(point).model_fields:
        return {"c": tile["c"] * (point.c // point.groups), "groups": tile["c"]}
    return {"c": tile["c"]}


class Forward(Step):
    """y and means from x, gamma and beta."""

    def tensors(self, point: Any) -> Tensors:
        """Operands by name."""
        norm, (mean, gamma) = self.norm, self.shapes(point)
        stats = () if norm.is_frozen else (*self.centred("mean"), "rstd")
        role: Role = "in" if norm.is_frozen else "inout"
        return {
            "x": self.like_x(point),
            **{name: Tensor(gamma) for name in ("gamma", *self.centred("beta"))},
            **{name: Tensor(gamma, role) for name in (RUNNING if norm.has_running else ())},
            "y": self.like_x(point, "out"),
            **{name: Tensor(mean, "out") for name in stats},
            "partials": PARTIALS,
        }

    def results(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """y; means, and running means."""
        layout, norm = self.norm.layout(point), self.norm
        given = x["x"], x["gamma"], x.get("beta", np.zeros(()))
        if norm.is_frozen:
            stats = x["running_mean"], x["running_var"]
            y = reference.frozen_forward(*given, *stats, point.eps)
            rstd = 1 / np.sqrt(stats[1].astype(np.float64) + point.eps)
            return {"y": self.in_pairs(layout, y, *given, stats[0], rstd)}
        how = layout.averaged, point.eps, norm.is_centred
        y, mean, rstd, variance = reference.forward(
            *given, *how, is_shifted=layout.is_shifted and norm.is_centred
        )
        results = {"y": self.in_pairs(layout, y, *given, mean[0], rstd[0])}
        if norm.has_running:
            n = layout.count
            new = {"running_mean": (mean, 1.0), "running_var": (variance, n / max(n - 1, 1))}
            for name, (value, factor) in new.items():
                results[name] = reference.run_on(x[name], value, point.momentum, factor)
        return results | dict.fromkeys(self.centred("mean"), mean) | {"rstd": rstd}

    def clipped(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """It with a ReLU."""
        return _clipped(self.results(point, x))

    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """Variances are not negative."""
        _, gamma = self.shapes(point)
        var = numbers.standard_normal(gamma, np.float32) ** 2
        return {"running_var": var} if self.norm.has_running else {}

    def views(self, layout: Layout) -> list[tuple[Axes, int, int]]:
        """Sums, deviations, outputs; frozen: outputs alone."""
        if self.norm.is_frozen:
            return [(layout.rows, 0, APPLIED)]
        if layout.in_pairs:
            return [(layout.rows, 1, PAIRS)]
        if layout.is_shifted:
            return [(layout.rows, 1, SHIFTED)]
        return [(layout.rows, 1 + self.norm.is_centred, FORWARD)]

    def emit(self, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        """Emit it, all in L1."""
        self.norm.element.check(k, self.norm.name)
        resident.forward(k, team, self.norm.layout(point), l1, self.how(point))

    def phases(self, phases: NormPhases) -> tuple[list[Phase], dict[str, int]]:
        """Passes, and what the first ones leave for the next."""
        return phases.forward(), phases.between_forward


class Apply(Step):
    """y from x, gamma, beta and the means that forward has saved: the same bits."""

    def tensors(self, point: Any) -> Tensors:
        """Operands by name."""
        mean, gamma = self.shapes(point)
        return {
            "x": self.like_x(point),
            **{name: Tensor(gamma) for name in ("gamma", *self.centred("beta"))},
            **{name: Tensor(mean) for name in (*self.centred("mean"), "rstd")},
            "y": self.like_x(point, "out"),
            "partials": PARTIALS,
        }

    def results(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """y."""
        nothing = np.zeros(())
        given = x["x"], x["gamma"], x.get("beta", nothing), x.get("mean", nothing), x["rstd"]
        return {"y": self.in_pairs(self.norm.layout(point), reference.applied(*given), *given)}

    def clipped(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """It with a ReLU."""
        return _clipped(self.results(point, x))

    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """Roots are not negative."""
        mean, _ = self.shapes(point)
        return {"rstd": np.abs(numbers.standard_normal(mean, np.float32)) + np.float32(0.1)}

    def views(self, layout: Layout) -> list[tuple[Axes, int, int]]:
        """Outputs."""
        return [(layout.rows, 0, APPLIED)]

    def emit(self, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        """Emit it, all in L1."""
        self.norm.element.check(k, self.norm.name)
        resident.apply(k, team, self.norm.layout(point), l1, self.how(point))

    def phases(self, phases: NormPhases) -> tuple[list[Phase], dict[str, int]]:
        """The last pass of forward."""
        return phases.forward()[-1:], {}


class Backward(Step):
    """dx, dgamma and dbeta from x, dy, gamma and the means."""

    @property
    def stats(self) -> tuple[str, ...]:
        """Means and roots, or variances."""
        return RUNNING if self.norm.is_frozen else (*self.centred("mean"), "rstd")

    @property
    def is_summed(self) -> bool:
        """Are gradients of gamma sums over tiles?"""
        return self.norm.arguments is RowArguments

    def tensors(self, point: Any) -> Tensors:
        """Operands by name."""
        mean, gamma = self.shapes(point)
        return {
            "x": self.like_x(point),
            "dy": self.like_x(point),
            **({"y": self.like_x(point)} if getattr(point, "relu", False) else {}),
            "gamma": Tensor(gamma),
            **{name: Tensor(mean) for name in self.stats},
            "dx": self.like_x(point, "out"),
            **{name: Tensor(gamma, "out") for name in ("dgamma", *self.centred("dbeta"))},
            "partials": PARTIALS,
            **{name: Tensor((n,), "scratch") for name, n in self._between(point).items()},
        }

    def _between(self, point: Any) -> dict[str, int]:
        """Words that are between sums and slopes, by name."""
        layout = self.norm.layout(point)
        found: dict[str, int] = {}
        if layout.is_by_channels:
            found = dict.fromkeys(("products", "sums"), prod(layout.shape(layout.means)))
        if not layout.has_one_image and not layout.has_own_rows:
            found |= dict.fromkeys(OF_CHANNELS, prod(layout.shape(layout.channels)))
        return found

    def scratch(self, point: Any, sizes: Sized) -> dict[str, Any]:
        """Bytes of further buffers of a tile."""
        [dim], words = self.dims(point), self._between(point)
        each = {name: WORD * (count // dim.size) for name, count in words.items()}
        return SCRATCH | {name: size * sizes[dim.name] for name, size in each.items()}

    def results(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """Gradients."""
        layout, norm = self.norm.layout(point), self.norm
        given, axes = (x["x"], x["dy"], x["gamma"]), (layout.averaged, layout.numbers(layout.gamma))
        if norm.is_frozen:
            rstd = 1 / np.sqrt(x["running_var"].astype(np.float64) + point.eps)
            stats = x["running_mean"], rstd
        elif norm.is_centred:
            stats = x["mean"], x["rstd"]
        if norm.is_centred:
            dx, *others = reference.backward(*given, *stats, *axes, norm.is_frozen)
            if layout.in_pairs:
                how: Any = axes[0], norm.element.dtype, norm.is_frozen
                dx = reference.slope_in_pairs(dx, *given, *stats, *how)
            results = dx, *others
        else:
            results = reference.rms_backward(*given, x["rstd"], *axes)
        return dict(zip(("dx", "dgamma", *self.centred("dbeta")), results, strict=True))

    def clipped(self, point: Any, x: Arrays) -> dict[str, Expected]:
        """It with a ReLU, whose y is given."""
        return self.results(point, {**x, "dy": np.where(x["y"] <= 0, 0, x["dy"])})

    def draw(self, point: Any, numbers: np.random.Generator) -> Arrays:
        """The means of x."""
        layout = self.norm.layout(point)
        x = numbers.standard_normal(point.shape, np.float32)
        wide, axes = layout.spread("x", x.astype(np.float64)), layout.averaged
        mean = wide.mean(axes, keepdims=True) * self.norm.is_centred
        variance = ((wide - mean) ** 2).mean(axes, keepdims=True)
        root = variance if self.norm.is_frozen else 1 / np.sqrt(variance + point.eps)
        drawn = dict(zip(self.stats[::-1], (root, mean), strict=False))
        shape, _ = self.shapes(point)
        x = x.astype(self.norm.element.dtype)
        return {"x": x} | {n: a.reshape(shape).astype(np.float32) for n, a in drawn.items()}

    def views(self, layout: Layout) -> list[tuple[Axes, int, int]]:
        """Sums and slopes; of parameters' gradients too, if elements have gammas of their own."""
        if layout.is_by_channels:
            return [(layout.channels, 1, BACKWARD)]
        if layout.has_own_gammas:
            return [(layout.gamma, 1, SUMS), (layout.rows, 1, BACKWARD)]
        return [(layout.rows, 1, BACKWARD)]

    def emit(self, k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
        """Emit it, all in L1."""
        self.norm.element.check(k, self.norm.name)
        resident.backward(k, team, self.norm.layout(point), l1, self.how(point))

    def phases(self, phases: NormPhases) -> tuple[list[Phase], dict[str, int]]:
        """Passes, and sums between them."""
        return phases.backward(), phases.between

    def dims(self, point: Any) -> list[Dim]:
        """What is cut."""
        return [replace(dim, is_summed=self.is_summed) for dim in super().dims(point)]

    def emit_part(
        self, k: Kernel, team: Team, _: Any, part: Any, tile: TileShape, l1: Addresses
    ) -> None:
        """Emit a tile."""
        adds = self.is_summed and not tile.is_first
        resident.backward(k, team, self.norm.layout(part), l1, self.how(part), adds=adds)


def _families(norm: Norm) -> Iterator[Family]:
    yield Forward(norm).family("fw")
    yield Backward(norm).family("bw")
    if not norm.is_frozen:
        arguments = MapArguments if norm.arguments is BatchArguments else norm.arguments
        yield Apply(replace(norm, arguments=arguments)).family("apply")


FAMILIES = tuple(
    family
    for element in ELEMENTS
    for norm in NORMS
    for family in _families(replace(norm, element=element))
)
