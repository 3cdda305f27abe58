"""The three steps of convolutions: their tensors, how they are cut into tiles, what they mean.

A step has operands by role: images `x` that outputs `y` are computed from with weights `w`. What
reads and what results depends on the step; a transposed convolution takes the same steps with the
roles of its images exchanged.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.codegen.nest_operands import Operand
from trainlib.conv import halves
from trainlib.conv.axis import Axis
from trainlib.conv.busy_cores import busy_part
from trainlib.conv.conv2d import (
    Conv2d,
    Layout,
    Strides,
    conv2d_fw_f32,
    conv2d_ig_f32,
    conv2d_wg_f32,
    opened,
)
from trainlib.conv.correlation_schedule import fewest
from trainlib.conv.depthwise_per_core import lone_channels
from trainlib.conv.im2col_gemm import (
    conv2d_fw_by_columns,
    conv2d_ig_by_columns,
    conv2d_wg_by_columns,
)
from trainlib.conv.im2col_layout import row_of
from trainlib.conv.l1_layouts import ByColumns, Exchanged, ReadLines, WrittenLines
from trainlib.conv.line_parts import Sized as Channels
from trainlib.conv.line_parts import (
    added_by_channels,
    added_by_lines,
    busy_by_lines,
    channel_parts,
    have_room,
    line_parts,
    sums_of_parts,
    taps_of,
)
from trainlib.conv.shape import IMAGES, Times, Wanted, by_axis
from trainlib.conv.weight_gradient_per_core import lone_gradient
from trainlib.conv.weight_gradient_schedule import fewest as fewest_of_gradient
from trainlib.elementwise.fill import fill_nest
from trainlib.gemm.conv1x1 import Pointwise
from trainlib.gemm.depth_split import scratch_of
from trainlib.gemm.linear_arguments import WIDE
from trainlib.primitive.element import F32, Element
from trainlib.primitive.operator import Expected
from trainlib.primitive.per_core import Alone
from trainlib.primitive.slices import Axis as Along
from trainlib.primitive.slices import Formed, Sized, Spread, TensorSlice, TileShape, Window
from trainlib.primitive.tensor import FLOAT32, WORD, Address, Addresses, Arrays, Tensor, Tensors
from trainlib.primitive.tile_spec import EACH, SIZED, CodeCost, Costs, Dim, Sizes, Tiling, Timed
from trainlib.reference import conv2d as reference

RATE = 5.0  # multiply-adds per cycle, nearly; the dimensions of tiles do not count taps
UNIT = 4  # channels of a tile's results
COSTS = Costs(kernel=120, cold=2500, revisit=0.75)  # of functions of 1,600 bytes, about
LONE_COSTS = Costs(cold=1600)  # of a gradient of weights of groups of one channel each
# Of images with a kernel for each channel: fitted to 730 tiles of 73 of them, of which that errs by
# 6.8 %, and what other convolutions have by 8.7.
DEPTHWISE = Timed(80, 0, new=3, shown=0.85)
GRADIENT = Timed(100, 200, new=3, shown=0.85)  # of weights: 6 % off for 100 tiles of 12 layers
GROUPS = 8  # of a tile, one for each core and no group shared
BY_COLUMNS: Mapping[str, Callable[..., None]] = {
    "y": conv2d_fw_by_columns, "x": conv2d_ig_by_columns, "w": conv2d_wg_by_columns
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A step of a convolution.

    result    the role of what it computes: "y" forward, "x" and "w" the gradients
    names     of the operands by role
    biased    the role of the images whose channels have the bias; None: there is none
    element   of all tensors
    """

    result: Literal["y", "x", "w"]
    names: Mapping[str, str]
    biased: Literal["y", "x"] | None
    element: Element = F32

    @property
    def bias(self) -> str:
        """Name of the bias, or of its gradient."""
        return "dbias" if self.result == "w" else "bias"

    def tensors(self, a: Wanted) -> Tensors:
        """Operands by name."""
        written: Any = "inout" if a.accumulate else "out"
        if self.element.is_half and a.accumulate and a.bias and self.result != "w":
            raise KernelError(
                f"a convolution in {self.element.name}: accumulate with a bias; use one of them"
            )
        roles = [*(role for role in self.names if role != self.result), self.result]
        written_as: dict[str, Any] = {self.result: written}
        of = {
            self.names[role]: Tensor(
                a.shape.sizes(role),
                written_as.get(role, "in"),
                self.element.dtype,
                joined=halves.joined(self.result, role, a) if self.element.is_half else 1,
            )
            for role in roles
        }
        if a.bias and self.biased:
            channels = a.shape.inputs if self.biased == "x" else a.shape.outputs
            of_bias: Any = written if self.result == "w" else "in"
            kind = (
                FLOAT32 if self.result == "w" else self.element.dtype
            )  # sums are single precision
            of[self.bias] = Tensor((channels,), of_bias, kind)
        return of

    # Tiles

    def tiling(self, a: Wanted) -> Tiling:
        """How it is cut."""
        cut = self._cut(a)
        lines = [cut.get(name) for name in ("n", "y", "x")]
        x, y = self._channels(a, cut)
        axes = {
            "x": (lines[0], x, *self.looks(a, cut, "x")),
            "y": (lines[0], y, *self.looks(a, cut, "y")),
            "w": (y, cut.get("ci") if a.shape.groups == 1 else None, None, None),
        }
        boxes: dict[str, tuple[Along, ...]] = {
            self.names[role]: tuple(axes[role][axis] for axis in IMAGES[a.shape.layout])
            for role in self.names
        }
        if a.bias and self.biased:
            boxes[self.bias] = (x if self.biased == "x" else y,)

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            self.emit(k, team, a, tile, at)

        makes_columns = a.by_columns and not a.by_dma
        has_scratch = makes_columns or halves.opens(self.result, a, self.element)
        has_scratch |= halves.has_row_pairs(self.result, a, self.element)
        has_scratch |= self._has_parts(a) or self._has_channel_parts(a)
        scratch = (lambda tile: self._scratch(a, tile)) if has_scratch else None
        is_grown = self.result == "w" and self.element.is_half and halves.grows(a)
        grows = (lambda sizes: self._grown(a, sizes)) if is_grown else None
        dims, forms = tuple(self._dims(a, cut)), dict(self._forms(a))
        how: Any = {"forms": forms, "grows": grows}
        is_image = self.result != "w" and not a.by_columns
        how |= {"alone": lambda: self._alone(a)} if is_image else {}
        if self.result == "w":
            how |= {"alone": lambda: self._alone_of_weights(a)}
        how |= {"rest_first": a.shape.groups == 1 and not self.element.is_half}
        how |= {"tells_last": True} if halves.opens(self.result, a, self.element) else {}
        if self._is_product(a):
            how |= {"timed": lambda tile: self._cost_of_product(a, tile)}
            how |= {"timing": SIZED, "times_called": False}
        elif self._is_timed(a):
            how |= {"timed": lambda tile: self.cost(a, tile)}
            how |= {"timing": DEPTHWISE} if a.shape.groups == a.shape.inputs > 1 else {}
        elif self._has_parts(a) and a.shape.groups == 1:
            how |= {"timed": lambda tile: self._cost_of_gradient(a, tile)}
            how |= {"timing": GRADIENT, "times_called": False}
        if self._is_plain(a) or halves.has_row_pairs(self.result, a, self.element):
            how |= {"busy": lambda sizes: self._busy(a, sizes), "costs": COSTS}
        if self.result != "w" and a.shape.groups > 1 and not self.element.is_half:
            how |= {"busy": lambda sizes: self._busy_by_groups(a, sizes)}
        if self._has_lone_parts(a):
            how |= {"busy": lambda sizes: self._busy_by_lines(a, sizes), "costs": LONE_COSTS}
        taps = 1 if a.by_columns else self._taps(a)
        by_pairs = halves.has_row_pairs(self.result, a, self.element)
        if self.element.is_half and (a.shape.groups > 1 or by_pairs):  # of what is not cut
            taps *= prod(size for name, size in self._sizes(a).items() if name not in cut)
        rate = (
            RATE * WORD / self.element.size / taps
        )  # with columns, it is how they are copied that tells tiles apart
        return Tiling(dims, boxes, emit, scratch, rate, **how)

    def _taps(self, a: Wanted) -> float:
        """Multiply-adds of a result for each channel; where not estimated by schedules, or where
        padding alone is read, those with padding, too.
        """
        axes = a.shape.ys, a.shape.xs
        if self._skips(a):
            return 1
        if not self._is_timed(a) or not all(axis.reads for axis in axes):
            return prod(axis.taps for axis in axes)
        return prod(a.reads / (a.inputs if self.result == "x" else a.outputs) for a in axes)

    def _is_timed(self, a: Wanted) -> bool:
        """Do schedules of correlations estimate cycles of tiles?"""
        return self.result != "w" and not a.by_columns and not self.element.is_half

    def _grown(self, a: Wanted, sizes: Sizes) -> str | None:
        """The groups, where tiles of several sizes have them, of dW in halves: all lines are in
        each.
        """
        return "g" if sizes.get("y", a.shape.ys.outputs) == a.shape.ys.outputs else None

    def _is_joined(self, a: Wanted) -> bool:
        """Are neighbouring lines computed together? See trainlib.conv.depthwise_schedule."""
        s = a.shape
        is_deep = s.groups == s.inputs == s.outputs > 1
        return self.result == "x" and is_deep and s.ys.stride > 1 and not self.element.is_half

    def _alone(self, a: Wanted) -> Alone | None:
        """Channels that a core computes by itself, each with a kernel of its own."""
        s, is_free = a.shape, all(a.point[name] is None for name in ("split", "is_turned"))
        element, is_paired = self.element, halves.is_paired(self.result, a, self.element)
        if not is_free or element.is_half and not is_paired:
            return None
        one = self._channel(a, is_paired)
        if one is None:
            return None
        bias = 0 if self.biased and a.bias else None
        of = one.forward if self.result == "y" else one.input_gradient
        names = {role: self.names[role] for role in "xwy"}
        if self.result == "x":
            names["x"], names["y"] = names["y"], names["x"]
        if bias is not None:
            names["bias"] = self.bias
        how = s.groups, names, a.point, a.likely_cores
        return lone_channels("conv2d", of(0, 0, 0, bias), *how)

    def _alone_of_weights(self, a: Wanted) -> Alone | None:
        """Lines of channels that a core computes by itself, of the gradients of their kernels."""
        is_free = all(value is None for value in a.point.values())
        one = self._channel(a)
        if one is None or not is_free or a.bias or self.element.is_half:
            return None
        names = {"dy": self.names["y"], "x": self.names["x"], "dw": self.names["w"]}
        return lone_gradient(one.weight_gradient(0, 0, 0, False), a.shape.groups, names)

    def _channel(self, a: Wanted, is_paired: bool = False) -> Conv2d | None:
        """A channel with a kernel of its own, whose lines lie together; None: there is none."""
        s, size = a.shape, self.element.size
        is_deep = s.groups == s.inputs == s.outputs > 1 and s.batch == 1 and s.layout == "chw"
        if not is_deep or a.accumulate:
            return None
        x, w, y = (
            Strides(0, 0, size * length, size) for length in (s.xs.inputs, s.xs.taps, s.xs.outputs)
        )
        return Conv2d(1, 1, s.ys, s.xs, x, w, y, element=self.element, is_paired=is_paired)

    def _is_product(self, a: Wanted) -> bool:
        """Is it a product of matrices? See Conv2d.as_pointwise and conv2d_wg_f32."""
        s, is_free = a.shape, not any(value is not None for value in a.point.values())
        is_flat = s.ys.is_identity and s.xs.is_identity or self._skips(a)
        if self.result == "w" and s.inputs * s.outputs < a.likely_cores:
            places = s.ys.outputs * s.xs.outputs
            product = Pointwise(s.inputs, s.outputs, places, s.batch, s.layout)
            is_flat = is_flat and product.has_parts(a.likely_cores)
        if self.result == "w" and self._sums_up_x(a):
            return False
        return is_flat and is_free and s.groups == 1 and not (a.by_columns or self.element.is_half)

    def _is_plain(self, a: Wanted) -> bool:
        """Is it one group, no product, on cores that are partitioned as is best?"""
        is_direct = a.shape.groups == 1 and not a.by_columns and not self.element.is_half
        is_product = a.shape.ys.taps * a.shape.xs.taps == 1
        return is_direct and not is_product and a.point["split"] is None

    def _busy(self, a: Wanted, sizes: Sized) -> Any:
        """The part of the time in which cores have work in tiles of these sizes.

        They share channels, of halves pairs of them, and lines, or channels of the other image for
        a gradient of weights.
        """
        cores, s = a.likely_cores, a.shape
        rows, others = {"y": ("co", "y"), "x": ("ci", "y"), "w": ("co", "ci")}[self.result]
        cut = self._cut(a)
        whole = {"co": s.outputs, "ci": s.inputs}
        if self.result == "w":
            axis = None
            whole |= {"y": s.ys.outputs}
        else:
            axis = s.ys if self.result == "y" else s.ys.inverse
            whole |= {"y": axis.outputs}
        of = [np.asarray(sizes[n] if n in cut else whole[n], int) for n in (rows, others)]
        is_half = self.element.is_half
        if is_half:
            of[0] = of[0] // halves.ROW_PAIR
        part = partial(busy_part, cores, axis, s.xs, is_even=is_half)
        busy = np.vectorize(part, otypes=[float])(*of)
        return 1 / (1 / busy + halves.packing(self.result, s, sizes)) if is_half else busy

    def _has_lone_parts(self, a: Wanted) -> bool:
        """May cores have parts of the lines of groups of a row and a channel each?"""
        s = a.shape
        return s.groups == s.inputs == s.outputs > 1 and self._has_parts(a)

    def _busy_by_lines(self, a: Wanted, sizes: Sized) -> Any:
        """The part of the time in which cores have work in tiles of these sizes, which share their
        groups, or the lines of these.
        """
        cores, s, cut = a.likely_cores, a.shape, self._cut(a)

        def busy(groups: int, lines: int) -> float:
            ys = s.ys if lines == s.ys.outputs else replace(s.ys, outputs=lines)
            return busy_by_lines(cores, groups, ys, s.xs)

        of = [
            np.asarray(sizes[n] if n in cut else whole, int)
            for n, whole in (("g", s.groups), ("y", s.ys.outputs))
        ]
        return np.vectorize(busy, otypes=[float])(*of)

    def _busy_by_groups(self, a: Wanted, sizes: Sized) -> Any:
        """The part of the time in which cores have work in tiles of these sizes, which share their
        groups, and lines or columns.
        """
        cores, groups, found = a.likely_cores, np.asarray(sizes["g"]), 0.0
        for parts, name in product(range(1, cores + 1), "yx"):
            lines, others = np.asarray(sizes[name]), cores // parts
            slowest = np.ceil(groups / parts) * np.ceil(lines / others)
            found = np.maximum(found, groups * lines / (cores * slowest))
        return found

    def _cut(self, a: Wanted) -> dict[str, str]:
        """The dimensions along which it is cut, by themselves.

        A gradient of a bias is computed again for every tile of the other channels, and from
        images that do not overlap.
        """
        names = {"n", "y", "x"} | ({"co", "ci"} if a.shape.groups == 1 else {"g"})
        if self.element.is_half:
            names -= halves.uncut(self.result, a)
        if self.result == "w" and a.bias:
            if self.biased == "x":
                names -= {"y", "x"}
            if a.is_added:
                names -= {"co"} if self.biased == "x" else {"ci"}
        return {name: name for name in names}

    def _dims(self, a: Wanted, cut: Mapping[str, str]) -> list[Dim]:
        sizes = self._sizes(a)
        if self.result == "w":
            order = ["g", "co", "ci", "n", "y", "x"]
            if self.biased == "x":
                order[1:3] = ["ci", "co"]
            summed = {"n", "y", "x"}
        else:
            inner = ["co", "ci"] if self.result == "y" else ["ci", "co"]
            order, summed = ["n", "y", "x", "g", *inner], {inner[1]}
        units = {"co": UNIT, "ci": UNIT}
        if self.element.is_half:
            units |= halves.UNITS["w" if self.result == "w" else "yx"]
        if self.result == "w" and not self._has_lone_parts(a) or self._is_joined(a):
            units["g"] = GROUPS  # one for each core
        rows = "ci" if self.result == "x" else "co"
        pairs = (
            {rows: halves.ROW_PAIR} if halves.has_row_pairs(self.result, a, self.element) else {}
        )
        whole_lines = {"x": sizes["x"]} if self._is_product(a) and sizes["x"] <= WIDE else {}
        multiples = pairs | whole_lines
        units |= multiples
        return [
            Dim(
                *(name, sizes[name], min(units.get(name, 1), sizes[name]), name in summed),
                limit=1 if name == "n" and self.element.is_half and self.result == "w" else None,
                multiple=multiples.get(name, 1),
                near=GROUPS if name == "g" and not self.element.is_half else 0,
            )
            for name in order
            if name in cut
        ]

    def _sizes(self, a: Wanted) -> dict[str, int]:
        """Of the dimensions that multiply-adds are in, but for taps: lines and places of dX, unless
        those alone are computed that have a tap.
        """
        s, is_of_x = a.shape, self.result == "x" and not self._skips(a)
        lines = (s.ys.inputs, s.xs.inputs) if is_of_x else (s.ys.outputs, s.xs.outputs)
        sizes = {"n": s.batch, "y": lines[0], "x": lines[1]}
        return sizes | ({"co": s.outputs, "ci": s.inputs} if s.groups == 1 else {"g": s.groups})

    def _channels(self, a: Wanted, cut: Mapping[str, str]) -> tuple[Along, Along]:
        """What the channels of x and of y follow."""
        s = a.shape
        if s.groups == 1:
            return cut.get("ci"), cut.get("co")
        return tuple(  # type: ignore[return-value]
            "g" if count == s.groups else Times("g", count // s.groups)
            for count in (s.inputs, s.outputs)
        )

    def looks(self, a: Wanted, cut: Mapping[str, str], role: str) -> list[Along]:
        """What lines and places of images follow."""
        looks: list[Along] = []
        for name, axis in (("y", a.shape.ys), ("x", a.shape.xs)):
            window = (name, axis.taps, axis.stride, axis.dilation, axis.pad)
            if name not in cut:
                looks.append(None)
            elif self.result == "x" and self._skips(a):
                whole = Window(name, axis.stride, axis.stride)  # with what is before the next tap
                looks.append(whole if role == "x" else name)
            elif role == ("x" if self.result == "x" else "y"):
                looks.append(name)
            else:
                looks.append(Spread(*window) if self.result == "x" else Window(*window))
        return looks

    def _convolution(self, a: Wanted, tile: TileShape) -> Conv2d:
        """What a tile computes."""
        shape, cut = a.shape, self._cut(a)
        parts = {role: tile.part(name) for role, name in self.names.items()}
        size = {role: by_axis(part.shape, shape.layout) for role, part in parts.items()}
        axes = [
            self._axis(axis, name in cut, 2 + index, parts, shape.layout)
            for index, (name, axis) in enumerate((("y", shape.ys), ("x", shape.xs)))
        ]
        strides = {
            role: Strides(p.form.size // size[role][0], 0, 0, 0)
            if p.form
            else Strides.of(p.strides, shape.layout)
            for role, p in parts.items()
        }
        if parts["x"].form and not a.by_columns:
            strides["x"] = self._lines_apart(a).strides(tile)
            axes = [replace(axis, inputs=axis.outputs, stride=1, pad=0) for axis in axes]
        return Conv2d(
            *(size["x"][1], size["y"][1], axes[0], axes[1]),
            x=strides["x"],
            w=strides["w"],
            y=strides["y"],
            groups=tile["g"] if shape.groups > 1 else 1,
            batch=size["x"][0],
            element=self.element,
            is_paired=halves.is_paired(self.result, a, self.element),
            has_one_chain=halves.has_one_chain(a, self.element),
        )

    def emit(self, k: Kernel, team: Team, a: Wanted, tile: TileShape, at: Addresses) -> None:
        """Emit the computation of a tile."""
        self.element.check(k, f"conv2d_{self.element.name}")
        conv = self._convolution(a, tile)
        is_whole = (conv.inputs, conv.outputs) == (a.shape.inputs, a.shape.outputs)
        for dim in self._dims(a, self._cut(a)):
            is_whole &= tile[dim.name] == dim.size
        adds = a.accumulate or not tile.is_first
        how: dict[str, Any] = {"accumulate": adds}
        if self.result == "w":
            how["dbias"] = at.get(self.bias)
            if halves.has_row_pairs(self.result, a, self.element):
                how["words"] = at["words"]
            if tile.is_grown:
                how["each"] = at[EACH]
            if self._has_parts(a):
                how["partial"] = at.get("partial")
            u, v, result = (at[self.names[role]] for role in "yxw")
        else:
            if self.biased:
                how["bias"] = at.get(self.bias) if tile.is_first else None
            if halves.has_row_pairs(self.result, a, self.element):
                how["words"] = at["words"]
            if self._has_channel_parts(a):
                how["partial"] = at.get("partial")
            source = "x" if self.result == "y" else "y"
            u, v, result = (at[self.names[role]] for role in (source, "w", self.result))
        how |= {} if a.by_columns or is_whole else clipped(a.point, conv, self.result)
        if a.by_columns:
            how |= {n: a.point[n] for n in ("rows", "cols", "split")} | {"clips": not is_whole}
        elif is_whole:
            how |= a.point
        with ExitStack() as stack:
            closes = tile.is_first and tile.is_last and conv.may_close(a.point)
            if halves.opens(self.result, a, self.element) and not a.by_columns and closes:
                how["closes"] = True
            elif halves.opens(self.result, a, self.element):
                ends: Any = {"begins": tile.is_first, "ends": tile.is_last}
                ends["accumulate"] = a.accumulate
                stack.enter_context(opened(k, team, result, conv, at["sums"], **ends))
                conv, result = replace(conv, w=conv.open_w), at["sums"]
                how |= {"opens": True} if a.by_columns else {}
            operands = k, team, u, v, result
            if a.by_columns:
                columns = None if a.by_dma else at[self._columns]
                BY_COLUMNS[self.result](*operands, columns, conv, a.shape.layout, **how)
            elif self.result == "w":
                conv2d_wg_f32(*operands, conv, dbias_of_x=self.biased == "x", **how)
            else:
                if self.result == "x" and tile.part(self.names["x"]).form and tile.is_first:
                    self._fill_between(k, team, a, tile, result)
                direct = conv2d_fw_f32 if self.result == "y" else conv2d_ig_f32
                direct(*operands, conv, **how)

    def _fill_between(
        self, k: Kernel, team: Team, a: Wanted, tile: TileShape, result: Address
    ) -> None:
        """Emit the zeros of a tile of dX: between places with a tap, and of other lines."""
        lines = WrittenLines(self.names["x"], a.shape, partial(self._counts, a))
        stride = a.shape.xs.stride
        step, line = WORD * stride, lines.strides(tile).line
        places = lines.bytes(tile) // step
        if stride > 1:
            between = Operand(result, (step, WORD), shift=WORD)
            fill_nest(k, team, (places, stride - 1), between)
        last = Operand(result, (step,), shift=lines.zeros(tile))
        fill_nest(k, team, (line // step,), last)

    def cost(self, a: Wanted, tile: TileShape) -> CodeCost:
        """Of the code for a tile of an image or its gradient, as its schedule estimates it."""
        conv = self._convolution(a, tile)
        of = conv.forward(0, 0, 0) if self.result == "y" else conv.input_gradient(0, 0, 0)
        cores, taps = a.likely_cores, taps_of(of.ys) * taps_of(of.xs)
        whole = Channels(of.rows, of.channels, of.ys.outputs, of.xs.outputs, taps)
        parts = int(channel_parts(cores, whole)) if self._has_channel_parts(a) else 1
        part = replace(of, channels=-(-of.channels // parts))
        cycles, code = fewest(part, cores // parts, may_be_even=parts == 1)
        added = float(added_by_channels(cores, whole, parts)) if parts > 1 else 0
        return CodeCost(conv.batch * (cycles + added), code)

    def _cost_of_gradient(self, a: Wanted, tile: TileShape) -> CodeCost:
        """Of the code for a tile of a gradient of weights, as it is scheduled."""
        conv, cores = self._convolution(a, tile), a.likely_cores
        inputs, outputs = conv.channels
        parts = line_parts(cores, 1, outputs, inputs, conv.ys, conv.xs)
        gradient = conv.weight_gradient(0, 0, 0, accumulates=a.accumulate or not tile.is_first)
        cycles, code = fewest_of_gradient(gradient, cores // parts, has_pairs=parts == 1)
        if parts > 1:
            cycles *= -(-conv.ys.outputs // parts) / conv.ys.outputs
            cycles += added_by_lines(cores, outputs * conv.kernel_size, parts)
        return CodeCost(conv.batch * cycles, code)

    def _cost_of_product(self, a: Wanted, tile: TileShape) -> CodeCost:
        """Of the code for a tile that is a product; of few weights, it may be none."""
        shape = self._convolution(a, tile).as_pointwise(a.point)
        assert shape
        is_few = self.result == "w" and shape.inputs * shape.outputs < a.likely_cores
        if is_few and not shape.has_parts(a.likely_cores):
            return self._cost_of_gradient(a, tile)
        steps: Any = {"y": "fw", "w": "wg", "x": "ig"}
        starts = a.accumulate or not tile.is_first
        return shape.cost(steps[self.result], a.likely_cores, starts=starts)

    @property
    def _columns(self) -> str:
        """The name of their buffer; that of halves tells checks of padding, see Tensor.padding."""
        return "padded_halves_columns" if self.element.is_half else "columns"

    def _scratch(self, a: Wanted, tile: Sized) -> dict[str, Any]:
        """Buffers in L1 beside the operands."""
        found, taps = {}, a.shape.ys.taps * a.shape.xs.taps
        if a.by_columns and not a.by_dma:
            _, *counts = self._counts(a, tile)
            channels, lines, places = counts
            row, words, item = lines * places, taps * channels, self.element.size
            is_chw = a.shape.layout == "chw"
            rows, length = (words, row) if is_chw else (row, words)
            found[self._columns] = rows * row_of(item, length)
        if halves.opens(self.result, a, self.element):
            s, cut = a.shape, self._cut(a)
            groups = tile["g"] if "g" in cut else 1
            outputs = groups * s.outputs // s.groups if s.groups > 1 else s.outputs
            inputs = s.inputs // s.groups
            outputs = tile["co"] if "co" in cut else outputs
            inputs = tile["ci"] if "ci" in cut else inputs
            found["sums"] = WORD * taps * outputs * inputs
        if halves.has_row_pairs(self.result, a, self.element):
            cut, s = self._cut(a), a.shape
            whole = {"co": s.outputs, "ci": s.inputs}
            rows, channels = (tile[n] if n in cut else size for n, size in whole.items())
            found["words"] = self.element.size * taps * rows * channels
            if self.result == "w":
                lines = tile["y"] if "y" in cut else s.ys.outputs
                found["words"] = row_of(self.element.size, s.xs.outputs) * lines * rows
        sums = 0
        if self._has_parts(a):
            sums = self._sums_of_parts(a, tile)
            if taps == 1 and a.shape.groups == 1:  # its tiles may be products
                sums = np.maximum(sums, self._sums_of_product(a, tile))
                sums = sums if np.ndim(sums) else int(sums)
        elif self._has_channel_parts(a):
            sums = self._sums_by_channels(a, tile)
        if np.any(sums):
            found["partial"] = sums
        return found

    def _has_parts(self, a: Wanted) -> bool:
        """May cores have parts of the lines, with sums of their own? See line_parts."""
        is_direct = self.result == "w" and not a.by_columns and not self.element.is_half
        return is_direct and a.point["split"] is None and a.point["is_turned"] is None

    def _sums_of_parts(self, a: Wanted, tile: Sized) -> Any:
        """Bytes of the sums of all parts of the lines: of tiles of some lines or places, about
        which no more is known than their sizes, the most that there may be.
        """
        s, cut, cores = a.shape, self._cut(a), a.likely_cores
        whole = {"g": s.groups, "co": s.outputs // s.groups, "ci": s.inputs // s.groups}
        of, wholes = zip(*self._tiled(a, tile, whole), strict=True)
        if isinstance(tile, TileShape):
            conv, sizes = self._convolution(a, tile), [int(size) for size in of]
            both = [(size, size) for size in sizes]
            return sums_of_parts(cores, *both, conv.ys, conv.xs)

        pairs = zip(of, wholes, strict=True)
        ends = (np.where(size % tiled, size % tiled, tiled) for tiled, size in pairs)
        may_be = have_room(reduce(np.multiply, ends) * s.ys.taps * s.xs.taps)

        def room(lines: Any) -> np.ndarray:
            which, *every = np.broadcast_arrays(may_be, lines, *of)
            found = np.zeros(which.shape, int)
            found[which] = [
                sums_of_parts(cores, *zip(sizes, wholes, strict=True), s.ys, s.xs, count)
                for count, *sizes in zip(*(each[which].tolist() for each in every), strict=True)
            ]
            return found

        lines, places = (
            tile[name] if name in cut else axis.outputs for name, axis in (("y", s.ys), ("x", s.xs))
        )
        is_cut = (lines < s.ys.outputs) | (places < s.xs.outputs)
        found = room(None)
        if np.any(is_cut):
            found = np.where(is_cut, room(lines), found)
        return found if found.shape else int(found)

    def _sums_of_product(self, a: Wanted, tile: Sized) -> Any:
        """Bytes of the sums of all parts of the places, see trainlib.gemm.depth_split."""
        s = a.shape
        sizes = {"co": s.outputs, "ci": s.inputs, "y": s.ys.outputs, "x": s.xs.outputs}
        outputs, inputs, lines, places = (of for of, _ in self._tiled(a, tile, sizes))
        return scratch_of(outputs, inputs, lines * places)

    def _tiled(
        self, a: Wanted, tile: Sized, whole: Mapping[str, int]
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Sizes in tiles by dimension, and what is cut into them: the last one may be smaller. Of
        one tile there is no other.
        """
        cut = self._cut(a)
        for name, size in whole.items():
            of = np.asarray(tile[name] if name in cut else size, int)
            yield of, of if isinstance(tile, TileShape) else size

    def _has_channel_parts(self, a: Wanted) -> bool:
        """May cores have parts of the channels, with sums of their own?"""
        return self.result != "w" and self._is_plain(a)

    def _sums_by_channels(self, a: Wanted, tile: Sized) -> Any:
        """Bytes of the sums of all parts of the channels; tiles at the ends are smaller."""
        s = a.shape
        names = ("co", "ci", "y", "x") if self.result == "y" else ("ci", "co", "y", "x")
        ys, xs = (s.ys, s.xs) if self.result == "y" else (s.ys.inverse, s.xs.inverse)
        sizes = {"co": s.outputs, "ci": s.inputs, "y": ys.outputs, "x": xs.outputs}
        some = []
        for of, size in self._tiled(a, tile, {name: sizes[name] for name in names}):
            rest = size % of
            some.append([of, np.where(rest, rest, of)] if np.any(rest) else [of])
        taps = taps_of(ys) * taps_of(xs)
        each = [
            Channels(rows, channels, lines, places, taps).bytes(a.likely_cores)
            for rows, channels, lines, places in product(*some)
        ]
        found = reduce(np.maximum, each)
        return found if np.ndim(found) else int(found)

    def _counts(self, a: Wanted, tile: Sized) -> tuple[Any, Any, Any, Any]:
        """Images, channels, lines and places of columns, or of X where some are left out."""
        s, cut = a.shape, self._cut(a)
        if self.result == "x" and not self._skips(a):
            whole = {"n": s.batch, "co": s.outputs, "y": s.ys.inputs, "x": s.xs.inputs}
        else:
            whole = {"n": s.batch, "ci": s.inputs, "y": s.ys.outputs, "x": s.xs.outputs}
        images, channels, lines, places = (
            tile[name] if name in cut else size for name, size in whole.items()
        )
        if "g" in cut:  # then channels are not
            channels = channels // s.groups * tile["g"]
        return images, channels, lines, places

    def _sums_up_x(self, a: Wanted) -> bool:
        """Are all places of X read, for the gradient of the bias?"""
        return self.result == "w" and self.biased == "x" and a.bias

    def _skips(self, a: Wanted) -> bool:
        """Do tiles have only lines of X, or of its gradient, that a kernel of 1 x 1 reads?"""
        s = a.shape
        is_direct = not a.by_columns and not self.element.is_half and not self._sums_up_x(a)
        is_one = s.ys.taps == s.xs.taps == 1 and not any(s.pads)
        if self.result == "x":
            is_direct &= s.groups == 1 and s.layout == "chw"
            is_direct &= not (a.accumulate or self.biased and a.bias)
        return is_direct and is_one and s.ys.stride > 1

    def _lines_apart(self, a: Wanted) -> ReadLines:
        """X without the others, or its gradient."""
        of = WrittenLines if self.result == "x" else ReadLines
        return of(self.names["x"], a.shape, partial(self._counts, a))

    def _forms(self, a: Wanted) -> Iterator[tuple[str, Formed]]:
        """What does not lie row after row in L1."""
        if self._skips(a):
            yield self.names["x"], self._lines_apart(a)
        if not a.by_columns:
            return
        is_gradient = self.result == "x"
        if a.by_dma:
            name = self.names["y" if is_gradient else "x"]
            of = partial(self._convolution, a), partial(self._counts, a)
            yield name, ByColumns(name, a.shape, is_gradient, *of, self.element.size)
        if is_gradient:
            channels = {"co": a.shape.outputs, "ci": a.shape.inputs}

            def counts(tile: Sized) -> tuple[Any, Any]:
                cut = self._cut(a)
                rows, columns = (tile[n] if n in cut else size for n, size in channels.items())
                return rows, columns

            yield self.names["w"], Exchanged(self.names["w"], a.shape, counts, self.element.size)

    def _axis(
        self, axis: Axis, is_cut: bool, index: int, parts: Mapping[str, TensorSlice], layout: Layout
    ) -> Axis:
        """How a tile's outputs read its inputs."""
        x, y = parts["x"], parts["y"]
        inputs, outputs = (by_axis(part.shape, layout)[index] for part in (x, y))
        if not is_cut:
            pad = axis.pad
        elif self.result == "x":
            before, phase = (by_axis(values, layout)[index] for values in (y.before, y.phase))
            pad = phase - before * axis.stride
        else:
            pad = by_axis(x.before, layout)[index]
        return replace(axis, outputs=outputs, inputs=inputs, pad=pad)

    # Meaning

    def expected(self, a: Wanted, values: Arrays) -> dict[str, Expected]:
        """What it means."""
        shape, result = a.shape, self.names[self.result]
        how = replace(shape.sliding, skips=not a.by_columns)
        if self.element.is_half:
            return dict(
                halves.expected(self.result, self.names, self.biased, a, self.element, values)
            )
        back = IMAGES[shape.layout]
        order = np.argsort(back)
        of = {n: v.transpose(order) if v.ndim == 4 else v for n, v in values.items()}
        held = of.get(result) if a.accumulate else None
        read = {role: of[name] for role, name in self.names.items() if name in of}
        found: dict[str, Expected] = {}
        if self.result == "w":
            taps = shape.ys.taps, shape.xs.taps
            found[result] = reference.weight_gradient(read["y"], read["x"], taps, held, how)
            if a.bias and self.biased:
                start = of.get("dbias") if a.accumulate else None
                found["dbias"] = reference.bias_gradient(read[self.biased], start)
        elif self.result == "y":
            found[result] = reference.forward(read["x"], read["w"], of.get("bias"), held, how)
        else:
            size = shape.ys.inputs, shape.xs.inputs
            gradient = read["y"], read["w"], size, held, how, of.get("bias")
            found[result] = reference.input_gradient(*gradient)
        return {
            name: (_in_layout(exact, back), _in_layout(np.asarray(bound), back))
            for name, (exact, bound) in found.items()
        }


def _in_layout(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return array.transpose(axes) if array.ndim == 4 else array


def clipped(point: Mapping[str, Any], conv: Conv2d, result: str) -> dict[str, Any]:
    """A point for a smaller tile: no more rows, columns and parts than that has."""
    inputs, outputs = conv.channels
    rows, channels = (inputs, outputs) if result == "x" else (outputs, inputs)
    sizes = (conv.ys.inputs, conv.xs.inputs) if result == "x" else (
        conv.ys.outputs, conv.xs.outputs
    )  # fmt: skip
    lines, places = reversed(sizes) if point.get("is_turned") else sizes
    partitioned = rows if conv.groups == 1 else conv.groups
    most = {"rows": rows, "channels": channels, "cols": places}
    others = channels if result == "w" else lines
    fitted = {
        name: min(value, most[name]) if name in most and value else value
        for name, value in point.items()
    }
    if split := point.get("split"):
        fitted["split"] = (min(split[0], partitioned), min(split[1], others))
    return fitted
