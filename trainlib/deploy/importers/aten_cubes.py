"""ATen's layers of volumes as those of images: a depth goes to channels, or is pooled by itself."""

from typing import Any

import numpy as np

from trainlib.deploy.importers.aten_importer import Importer, Rule
from trainlib.deploy.importers.aten_layers import RULES as LAYERS
from trainlib.deploy.importers.aten_layers import check_batch, multiplied, sides_of
from trainlib.deploy.importers.aten_pools import RULES as POOLS
from trainlib.deploy.importers.aten_shapes import Known, gathered, permuted


def three(value: Any) -> tuple[int, int, int]:
    """One number for all directions, or three."""
    numbers = [value] * 3 if isinstance(value, int) else list(value)
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third


def _convolution(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> str:
    """Each place of the depth is an image whose channels are those of all places that it takes."""
    kernel = i.shape(weight)
    check_batch(i.shape(x), kernel)
    steps, apart = three(stride), three(dilation)
    given = padding if isinstance(padding, str) else three(padding)
    name = _padded(i, i.name(x), sides_of(given, kernel[2:], apart))
    n, c, depth, height, width = i.graph.values[name].shape
    places = range(0, depth - apart[0] * (kernel[2] - 1), steps[0])
    numbers = np.arange(n * c * depth * height * width).reshape(n, c, depth, height, width)
    taken = [numbers[:, :, p : p + apart[0] * (kernel[2] - 1) + 1 : apart[0]] for p in places]
    images = gathered(i, name, np.stack(taken, 1).reshape(-1, c * kernel[2], height, width))
    flat = i.graph.reshaped(i.name(weight), (kernel[0], kernel[1] * kernel[2], *kernel[3:]))
    how = bias, steps[1:], 0, apart[1:], groups
    y = LAYERS["conv2d"](i, Known(i, images), Known(i, flat), *how)
    own = i.graph.values[y].shape
    y = i.graph.reshaped(y, (n, len(places), *own[1:]))
    return permuted(i, y, (0, 2, 1, 3, 4))


def _transposed(
    i: Importer,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    more: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> str:
    """Each place of the depth is an image that gives one for each tap of the depth: those that
    come to lie at the same place are added, by a product with ones.
    """
    n, c, depth, *_ = shape = i.shape(x)
    check_batch(shape, i.shape(weight))
    outputs, taps, *kernel = i.shape(weight)[1:]
    steps, pads, extra, apart = (three(value) for value in (stride, padding, more, dilation))
    images = permuted(i, i.name(x), (0, 2, 1, 3, 4))
    images = i.graph.reshaped(images, (n * depth, c, *shape[3:]))
    flat = i.graph.reshaped(i.name(weight), (c, outputs * taps, *kernel))
    how = steps[1:], pads[1:], extra[1:], groups, apart[1:]
    y = LAYERS["conv_transpose2d.input"](i, Known(i, images), Known(i, flat), None, *how)
    height, width = i.graph.values[y].shape[2:]
    channels = groups * outputs
    y = i.graph.reshaped(y, (n, depth, channels, taps, height * width))
    y = permuted(i, y, (0, 2, 1, 3, 4))
    y = i.graph.reshaped(y, (n, channels, depth * taps, height * width))
    planes = (depth - 1) * steps[0] - 2 * pads[0] + apart[0] * (taps - 1) + 1 + extra[0]
    lies = np.arange(depth)[:, None] * steps[0] + np.arange(taps) * apart[0] - pads[0]
    ones = (np.arange(planes)[:, None] == lies.reshape(-1)).astype(np.float32)
    if planes != depth * taps or (ones != np.eye(planes)).any():
        y = multiplied(i, y, 2, ones)
    y = i.graph.reshaped(y, (n, channels, planes, height, width))
    if bias is None:
        return y
    own = i.graph.reshaped(i.name(bias), (channels, 1, 1, 1))
    return i.node("add", {"a": y, "b": own})["y"]


def _padded(i: Importer, x: str, sides: list[tuple[int, int]]) -> str:
    if not any(map(any, sides)):
        return x
    before, after = ((0, 0, *ends) for ends in zip(*sides, strict=True))
    return i.node("pad", {"x": x}, before=before, after=after, value=0.0)["y"]


def _pooled(name: str) -> Rule:
    """A pool of volumes: images first, as of equal elements the first one is the largest."""
    rule = POOLS[f"{name}2d"]

    def pool(
        i: Importer, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, *how: Any, **more: Any
    ) -> str:
        n, c, depth, height, width = i.shape(x)
        sizes, steps, pads = three(kernel), three(stride or kernel), three(padding)
        images = i.graph.reshaped(i.name(x), (n * c, depth, height, width))
        y = rule(i, Known(i, images), sizes[1:], steps[1:], pads[1:], *how, **more)
        *_, height, width = i.graph.values[y].shape
        lines = i.graph.reshaped(y, (n, c, depth, height * width))
        y = rule(i, Known(i, lines), (sizes[0], 1), (steps[0], 1), (pads[0], 0), *how, **more)
        return i.graph.reshaped(y, (n, c, i.graph.values[y].shape[2], height, width))

    return pool


def _averaged(
    i: Importer,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    counts_pad: bool = True,
    divisor: Any = None,
) -> str:
    y = _pooled("avg_pool")(i, x, kernel, stride, padding, ceil_mode, counts_pad or bool(divisor))
    a, b, c = three(kernel)
    return i.scaled(y, a * b * c / divisor) if divisor else y


def _adaptive_average(i: Importer, x: Any, size: Any) -> str:
    n, c, depth, height, width = i.shape(x)
    wanted = [size] * 3 if isinstance(size, int) else list(size)
    own = zip(wanted, (depth, height, width), strict=True)
    planes, *sides = (m if m is not None else before for m, before in own)
    rule = POOLS["adaptive_avg_pool2d"]
    y = rule(i, Known(i, i.graph.reshaped(i.name(x), (n * c, depth, height, width))), sides)
    lines = i.graph.reshaped(y, (n, c, depth, sides[0] * sides[1]))
    y = rule(i, Known(i, lines), (planes, sides[0] * sides[1]))
    return i.graph.reshaped(y, (n, c, planes, *sides))


RULES: dict[str, Rule] = {
    "adaptive_avg_pool3d": _adaptive_average,
    "avg_pool3d": _averaged,
    "conv_transpose3d.input": _transposed,
    "conv3d": _convolution,
    "conv3d.padding": _convolution,
    "max_pool3d": _pooled("max_pool"),
}
