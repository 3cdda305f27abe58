"""Two-dimensional convolutions and their gradients in L1, fp32, without copies of the images.

    X[batch, C, H, W]    W[Co, C / groups, kh, kw]    Y[batch, Co, Ho, Wo]        layout "chw"
    X[batch, H, W, C]    W[Co, kh, kw, C / groups]    Y[batch, Ho, Wo, Co]        layout "hwc"

A transposed convolution is the gradient of the input of one that runs the other way. What lies
outside of an image is left out: a weight that is NaN or infinite does not spread from there, as it
does where it meets zeros.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.batch_loop import images_of
from trainlib.conv.axis import Axis
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.conv.correlation_code import correlate
from trainlib.conv.line_parts import Sized, channel_parts, line_parts, taps_of
from trainlib.conv.row_pairs import by_pairs, gradient_by_pairs, pair_gradients, pair_rows
from trainlib.conv.weight_gradient_code import holds_kernels, weight_gradient
from trainlib.conv.weight_gradient_schedule import WeightGradient
from trainlib.gemm.bias import Along, bias_added, bias_left
from trainlib.gemm.conv1x1 import (
    Pointwise,
    pwconv2d_fw_f32,
    pwconv2d_ig_f32,
    pwconv2d_wg_f32,
)
from trainlib.gemm.depth_split import scratch_of
from trainlib.gemm.open_sums import close_sums, open_sums
from trainlib.gemm.row_sums import sums_f32
from trainlib.primitive.element import F32, Element
from trainlib.primitive.tensor import WORD, Address

Pair = tuple[int, int]
Layout = Literal["chw", "hwc"]


class Strides(NamedTuple):
    """Bytes from one image to the next, from one channel to the next and so on; of weights, images
    are the kernels of an output channel.
    """

    image: int
    channel: int
    line: int
    place: int

    @classmethod
    def of(cls, strides: Sequence[int], layout: Layout) -> "Strides":
        """From those of a tensor's axes."""
        if layout == "chw":
            return cls(*strides)
        image, line, place, channel = strides
        return cls(image, channel, line, place)


@dataclass(frozen=True)
class Conv2d:
    """A convolution.

    inputs, outputs    channels
    ys, xs             how outputs read inputs along lines and places
    x, y, w            where elements lie
    element            of all of them
    is_paired          see trainlib.conv.correlation.Correlation
    has_one_chain      see trainlib.conv.weight_gradient_schedule.WeightGradient
    """

    inputs: int
    outputs: int
    ys: Axis
    xs: Axis
    x: Strides
    w: Strides
    y: Strides
    groups: int = 1
    batch: int = 1
    element: Element = F32
    is_paired: bool = False
    has_one_chain: bool = False

    @property
    def channels(self) -> Pair:
        """Channels of the inputs and of the outputs of a group."""
        return self.inputs // self.groups, self.outputs // self.groups

    @property
    def kernel_size(self) -> int:
        """Weights of an output channel."""
        return self.channels[0] * self.ys.taps * self.xs.taps

    @property
    def open_w(self) -> Strides:
        """Where words lie that stand for the weights, in the order of channels, lines, places."""
        line = WORD * self.xs.taps
        channel = line * self.ys.taps
        return Strides(channel * self.channels[0], channel, line, WORD)

    def images(self, address: Address, strides: Strides, channels: int) -> Images:
        """Images with so many channels in a group."""
        return Images(address, channels * strides.channel, *strides[1:])

    def forward(self, x: Address, w: Address, y: Address, *more: Any) -> Correlation:
        """One image's; more: see Correlation."""
        inputs, outputs = self.channels
        whole = Correlation(
            *(self.groups, outputs, inputs, self.ys, self.xs),
            self.images(x, self.x, inputs),
            Weights(w, outputs * self.w.image, *self.w),
            self.images(y, self.y, outputs),
            *more,
        )
        return replace(whole, element=self.element, is_paired=self.is_paired)

    def input_gradient(self, dy: Address, w: Address, dx: Address, *more: Any) -> Correlation:
        """One image's gradient; more: see Correlation."""
        inputs, outputs = self.channels
        row, channel, line, place = self.w
        whole = Correlation(
            *(self.groups, inputs, outputs, self.ys.inverse, self.xs.inverse),
            self.images(dy, self.y, outputs),
            Weights(w, outputs * row, channel, row, line, place),
            self.images(dx, self.x, inputs),
            *more,
        )
        return replace(whole, element=self.element, is_paired=self.is_paired)

    def weight_gradient(
        self, dy: Address, x: Address, dw: Address, accumulates: bool, **more: Any
    ) -> WeightGradient:
        """One image's; more: see WeightGradient."""
        inputs, outputs = self.channels
        return WeightGradient(
            *(self.groups, outputs, inputs, self.ys, self.xs),
            self.images(dy, self.y, outputs),
            self.images(x, self.x, inputs),
            Weights(dw, outputs * self.w.image, *self.w),
            accumulates,
            self.element,
            self.has_one_chain,
            **more,
        )

    def may_close(self, point: Mapping[str, Any]) -> bool:
        """Of the gradient of the weights in halves, are all sums of a kernel in registers?"""
        is_free = all(value is None for value in point.values())
        return is_free and self.batch == 1 and holds_kernels(self.weight_gradient(0, 0, 0, False))

    def as_pointwise(self, point: Mapping[str, Any]) -> Pointwise | None:
        """A convolution of 1 x 1 as a product, where that is meant: nothing is said of a point.

        None: its images have borders, strides, gaps or groups, or are halves, of which the order of
        sums is fixed. Places of X may be the same distance apart, all of them.
        """
        is_flat = self.ys.is_identity and self.xs.is_identity
        is_free = all(value is None for value in point.values())
        if not (is_flat and is_free) or self.groups > 1 or self.element.is_half:
            return None
        if self.w[:2] != (WORD * self.inputs, WORD):
            return None
        height, width = self.ys.inputs, self.xs.inputs
        x, y = (
            _compact((count, height, width), (1, 2, 3)) for count in (self.inputs, self.outputs)
        )
        apart = self.x.place // WORD
        if self.x == tuple(apart * step for step in x) and self.y == y:
            return Pointwise(self.inputs, self.outputs, height * width, self.batch, apart=apart)
        x, y = (
            _compact((height, width, count), (3, 1, 2)) for count in (self.inputs, self.outputs)
        )
        if (self.x, self.y) == (x, y):
            return Pointwise(self.inputs, self.outputs, height * width, self.batch, "hwc")
        return None


def _compact(sizes: Sequence[int], order: Sequence[int]) -> Strides:
    """Strides of images without gaps.

    sizes    of the axes after the image's, as they lie
    order    where channel, line and place are among these, counted from 1
    """
    steps = [WORD]
    for size in reversed(sizes):
        steps.insert(0, steps[0] * size)
    return Strides(steps[0], *(steps[axis] for axis in order))


def _along(lengths: Sequence[int], strides: Strides) -> list[Along]:
    """The dimensions of images, with a bias of each channel."""
    return list(zip(lengths, strides, (0, WORD, 0, 0), strict=True))


def conv2d_fw_f32(
    k: Kernel,
    team: Team,
    x: Address,
    w: Address,
    y: Address,
    shape: Conv2d,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    words: Address | None = None,
    partial: Address | None = None,
    **point: Any,
) -> None:
    """Y = convolution of X with W, plus a bias of each channel, plus what Y holds.

    words          room for words of weights, if pairs of rows are computed at once, see
                   trainlib.conv.row_pairs
    partial        room for the sums of parts of the channels, see trainlib.conv.line_parts; None:
                   each core has all channels
    point          rows, cols, split, is_turned: see trainlib.conv.correlation_schedule.Point; None:
                   chosen

    raises    KernelError if there is no such point
    """
    if pointwise := shape.as_pointwise(point):
        pwconv2d_fw_f32(k, team, x, w, y, pointwise, bias=bias, accumulate=accumulate)
        return
    if words is not None:
        pair_rows(k, team, shape.forward(0, w, 0), words)
        team.barrier()
    lengths = shape.batch, shape.outputs, shape.ys.outputs, shape.xs.outputs
    sizes = {"x": shape.x.image, "y": shape.y.image}
    with (
        bias_left(k, team, y, bias, _along(lengths, shape.y), accumulate) as start,
        images_of(k, shape.batch, {"x": x, "y": y}, sizes) as at,
    ):
        whole = shape.forward(at["x"], w, at["y"], start, accumulate)
        name, room = f"conv2d_fw_{shape.element.name}", (shape.y, partial)
        _correlate(name, k, team, whole, words, room, shape.batch, point)


def conv2d_ig_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    w: Address,
    dx: Address,
    shape: Conv2d,
    *,
    bias: Address | None = None,
    accumulate: bool = False,
    words: Address | None = None,
    partial: Address | None = None,
    **point: Any,
) -> None:
    """dX from dY and W; with a bias of each channel of X, it is a transposed convolution. Both, or
    either, is added to what dX holds.

    words, partial, point   as in conv2d_fw_f32

    raises    KernelError if there is no such point
    """
    if pointwise := shape.as_pointwise(point):
        by: Any = {"bias": bias, "bias_by": "row" if pointwise.layout == "chw" else "column"}
        pwconv2d_ig_f32(k, team, dy, w, dx, pointwise, accumulate=accumulate, **by)
        return
    if words is not None:
        pair_rows(k, team, shape.input_gradient(0, w, 0), words)
        team.barrier()
    lengths = shape.batch, shape.inputs, shape.ys.inputs, shape.xs.inputs
    sizes = {"dx": shape.x.image, "dy": shape.y.image}
    with (
        bias_left(k, team, dx, bias, _along(lengths, shape.x), accumulate) as start,
        images_of(k, shape.batch, {"dx": dx, "dy": dy}, sizes) as at,
    ):
        whole = shape.input_gradient(at["dy"], w, at["dx"], start, accumulate)
        name, room = f"conv2d_ig_{shape.element.name}", (shape.x, partial)
        _correlate(name, k, team, whole, words, room, shape.batch, point)


def _correlate(
    name: str,
    k: Kernel,
    team: Team,
    whole: Correlation,
    words: Address | None,
    room: tuple[Strides, Address | None],
    batch: int,
    point: Mapping[str, Any],
) -> None:
    """Emit a correlation, of pairs of rows if there are words of their weights.

    room     strides of its result, and room for the sums of parts of the channels
    batch    images, of which this is one
    """
    if words is None:
        size = whole.rows, whole.ys.outputs, whole.xs.outputs
        has_no_gap = any(room[0][1:] == _compact(*how)[1:] for how in _orders(size))
        of = Sized(whole.rows, whole.channels, *size[1:], taps_of(whole.ys) * taps_of(whole.xs))
        has_parts = room[1] is not None and has_no_gap and whole.groups == 1
        parts = int(channel_parts(team.cores, of)) if has_parts else 1
        if parts > 1:
            assert room[1] is not None
            _correlate_in_parts(name, k, team, whole, room[1], parts, batch, point)
            return
        correlate(name, k, team, whole, **point)
        return
    rows, cols = point.get("rows"), point.get("cols")
    how = {"rows": rows and rows // 2, "cols": cols and min(cols, whole.xs.outputs)}
    others = [whole.w.address]
    correlate(name, k, team, by_pairs(whole, words), **{**point, **how}, others=others)


def _orders(
    size: tuple[int, int, int],
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Channels, lines and places as they may lie, and where each is among these."""
    channels, lines, places = size
    return (size, (1, 2, 3)), ((lines, places, channels), (3, 1, 2))


def _correlate_in_parts(
    name: str,
    k: Kernel,
    team: Team,
    x: Correlation,
    partial: Address,
    parts: int,
    batch: int,
    point: Mapping[str, Any],
) -> None:
    """Emit a correlation whose channels are parts of cores, and then the sums of these."""
    part = replace(x, y=replace(x.y, address=partial), accumulates=False, bias=None)
    others = [a for a in (x.y.address, x.bias) if a is not None]
    correlate(name, k, team, part, **point, others=others, parts=parts)
    team.barrier()
    sums = x.rows * x.ys.outputs * x.xs.outputs
    by: Any = {"row": WORD, "term": WORD * sums, "accumulate": x.accumulates}
    sums_f32(k, team, partial, x.y.address, sums, parts, **by)
    if x.bias is not None:
        team.barrier()
        lengths, steps = (x.rows, x.ys.outputs, x.xs.outputs), x.y
        along = zip(lengths, (steps.channel, steps.line, steps.place), (WORD, 0, 0), strict=True)
        with bias_added(k, team, x.y.address, x.bias, list(along)):
            pass
    elif batch > 1:
        team.barrier()  # others may still add up those of the image before


def conv2d_wg_f32(
    k: Kernel,
    team: Team,
    dy: Address,
    x: Address,
    dw: Address,
    shape: Conv2d,
    *,
    dbias: Address | None = None,
    dbias_of_x: bool = False,
    accumulate: bool = False,
    words: Address | None = None,
    partial: Address | None = None,
    closes: bool = False,
    each: Register | None = None,
    **point: Any,
) -> None:
    """dW, and the gradient of the bias, from dY and X; or what is added to them.

    dbias_of_x    sum up X instead of dY: for a transposed convolution, whose operands swap
    closes        of halves, are sums of even and of odd places added up here? See Conv2d.may_close
    each          then, how many groups each core has, see
                  trainlib.conv.weight_gradient_schedule.WeightGradient
    words         room for words of dY, if pairs of rows are computed at once, see
                  trainlib.conv.row_pairs
    partial       room for the sums of parts of the lines, see trainlib.conv.line_parts, or of a
                  product, see trainlib.gemm.depth_split; None: each core has all lines
    point         rows, channels, cols, split, is_turned: see
                  trainlib.conv.weight_gradient_schedule.Point

    raises    KernelError if there is no such point
    """
    inputs, outputs = shape.channels
    pointwise = shape.as_pointwise(point)
    is_shared = inputs * outputs >= team.cores
    if pointwise and not is_shared and partial is not None:
        is_shared = pointwise.has_parts(team.cores)
    if pointwise and is_shared and (dbias is None or not dbias_of_x):
        is_sized = shape.batch == 1 and scratch_of(outputs, inputs, pointwise.places) > 0
        how: Any = {"dbias": dbias, "accumulate": accumulate}
        how["parts"] = partial if is_sized else None
        pwconv2d_wg_f32(k, team, dy, x, dw, pointwise, **how)
        return
    sizes = {"x": shape.x.image, "dy": shape.y.image}
    per_group = outputs, inputs, shape.ys, shape.xs
    has_no_gap = shape.w.image == WORD * shape.kernel_size
    has_parts = partial is not None and has_no_gap
    parts = line_parts(team.cores, shape.groups, *per_group) if has_parts else 1

    def one(at: Mapping[str, Address], is_added: bool) -> None:
        whole = shape.weight_gradient(at["dy"], at["x"], dw, is_added, closes=closes, each=each)
        others, how = [] if dbias is None else [dbias], dict(point)
        if parts > 1:
            assert partial is not None
            if is_added and shape.batch > 1:
                team.barrier()  # others may still add up those of the image before
            others, how = [*others, dw], how | {"parts": parts}
            whole = replace(whole, dw=replace(whole.dw, address=partial), accumulates=False)
        if words is not None:
            if is_added and shape.batch > 1:
                team.barrier()  # others may still read those of the image before
            pair_gradients(k, team, whole, words)
            team.barrier()
            whole, others = gradient_by_pairs(whole, words), [*others, whole.dy.address]
            rows, cols = how.get("rows"), how.get("cols")
            how |= {"rows": rows and rows // 2, "cols": cols and min(cols, whole.xs.outputs)}
        name = f"conv2d_wg_{shape.element.name}"
        weight_gradient(name, k, team, whole, **how, others=others)
        if parts > 1:
            assert partial is not None
            team.barrier()
            sums = shape.outputs * shape.kernel_size
            by: Any = {"row": WORD, "term": WORD * sums, "accumulate": is_added}
            sums_f32(k, team, partial, dw, sums, parts, **by)
        if dbias is not None and dbias_of_x:
            of, size = shape.x, (shape.inputs, shape.ys.inputs, shape.xs.inputs)
            by = {"accumulate": is_added, "element": shape.element}
            channel_sums_f32(k, team, at["x"], dbias, of, size, **by)
        elif dbias is not None:
            of, size = shape.y, (shape.outputs, shape.ys.outputs, shape.xs.outputs)
            by = {"accumulate": is_added, "element": shape.element}
            channel_sums_f32(k, team, at["dy"], dbias, of, size, **by)

    one({"x": x, "dy": dy}, accumulate)
    if shape.batch > 1:
        moved = {"x": x, "dy": dy}
        with images_of(k, shape.batch - 1, moved, sizes, first=1) as at:
            one(at, is_added=True)


def channel_sums_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    strides: Strides,
    size: tuple[int, int, int],
    *,
    accumulate: bool,
    element: Element = F32,
) -> None:
    """y[c] = sum of all places of a channel of an image, or added to y.

    size    channels, lines, places; lines lie one after another
    """
    channels, lines, places = size
    of: Any = {"row": strides.channel, "term": strides.place, "element": element}
    if strides.line == places * strides.place:
        sums_f32(k, team, x, y, channels, lines * places, **of, accumulate=accumulate)
        return
    sums_f32(k, team, x, y, channels, places, **of, accumulate=accumulate)
    if lines > 1:
        with images_of(k, lines - 1, {"x": x}, {"x": strides.line}, first=1) as at:
            sums_f32(k, team, at["x"], y, channels, places, **of, accumulate=True)


@contextmanager
def opened(
    k: Kernel,
    team: Team,
    dw: Address,
    shape: Conv2d,
    sums: Address,
    *,
    begins: bool,
    ends: bool,
    accumulate: bool,
) -> Iterator[None]:
    """Around a tile's part of dW in halves, whose sums of even and odd places stay apart.

    sums            words of them, as W lies without gaps
    begins, ends    is it the first tile of what is summed up, is it the last one?
    accumulate      add to what dW held before
    """
    size = shape.outputs, shape.kernel_size
    if begins and accumulate:
        open_sums(k, team, shape.element, dw, shape.w.image, sums, size)
        team.barrier()
    yield
    if ends:
        team.barrier()
        close_sums(k, team, shape.element, sums, dw, shape.w.image, size)
